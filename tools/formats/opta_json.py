"""Reads Opta JSON tools: one file, one tool, one shell command.

    {"name": …, "description": …, "parameters": {JSON Schema}, "command": …, "timeout": 30000}

All keys but `timeout` (milliseconds) are required. The command gets its arguments as environment
variables, `OPTA_TOOL_ARG_` and the name in capitals (X5); it can do nothing but run a shell.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tools.actions import PlanAction, Shell, Step
from tools.definition import Limits, Origin, ToolDefinition
from tools.formats.fields import Key, Kind, read_fields, table
from tools.formats.findings import Findings
from tools.formats.json_schema import check_parameters
from tools.formats.problems import ToolProblem
from tools.yamltext import Document, KeyPath

DEFAULT_TIMEOUT_MS = 30_000
LONG_TIMEOUT_MS = 30_000

ARGUMENT_PREFIX = "OPTA_TOOL_ARG_"
_NOT_IN_VARIABLES = re.compile("[^A-Z0-9_]")

KEYS = table(
    Key("name", Kind.NAME, "the name the model calls it by, such as run_tests", required=True),
    Key("description", Kind.TEXT, "what the tool does and when to use it", required=True),
    Key(
        "parameters", Kind.VALUE, 'JSON Schema; for none: {"type": "object", "properties": {}}',
        required=True,
    ),
    Key(
        "command", Kind.TEXT,
        "the command, for sh; arguments are in OPTA_TOOL_ARG_<NAME>", required=True,
    ),
    Key("timeout", Kind.DEADLINE, "milliseconds the command may take",
        default=DEFAULT_TIMEOUT_MS),
)  # fmt: skip


def read(document: Document, origin: Origin) -> tuple[list[ToolDefinition], list[ToolProblem]]:
    """Return the tool that `document` defines, and warnings about it.

    Raises ToolFileError with everything that is wrong with the file.
    """
    findings = Findings(document)
    findings.repeated_keys(allowed=False)
    data = read_fields(findings, document.data, KEYS)
    if "parameters" in data:
        check_parameters(findings, data["parameters"], ("parameters",))
        _check_variables(findings, data["parameters"], ("parameters", "properties"))
    timeout_ms = data.get("timeout", DEFAULT_TIMEOUT_MS)
    if timeout_ms > LONG_TIMEOUT_MS:
        told = f"the timeout of {data.get('name')} is {timeout_ms} ms, more than 30 seconds"
        findings.warn(("timeout",), told)
    findings.raise_errors()
    definition = ToolDefinition(
        name=data["name"],
        description=data["description"],
        parameters=data["parameters"],
        action=PlanAction((Step(data["name"], Shell("sh", data["command"])),)),
        origin=replace(origin, format="opta-json", line=document.position(("name",))[0]),
        limits=Limits(timeout_ms=timeout_ms),
    )
    return [definition], findings.warnings


def argument_variable(name: str) -> str:
    """Return the environment variable that carries the argument `name` (X5)."""
    return ARGUMENT_PREFIX + _NOT_IN_VARIABLES.sub("_", name.upper())


def _check_variables(findings: Findings, schema: object, where: KeyPath) -> None:
    """Note two properties of a schema that would end in one environment variable (X5)."""
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    check_names(findings, properties if isinstance(properties, Mapping) else {}, where)


def check_names(findings: Findings, names: Mapping[str, Any], where: KeyPath) -> None:
    """Note two names that would end in one environment variable (X5)."""
    owners: dict[str, str] = {}
    for name in names:
        variable = argument_variable(name)
        first = owners.setdefault(variable, name)
        if first != name:
            findings.error(
                (*where, name), f"{name!r} and {first!r} would both be {variable}",
                "rename one of them",
            )  # fmt: skip
