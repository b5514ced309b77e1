"""Reads the keys of a Mimir tool: a program that is run behind walls (E33-E36)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tools.actions import CodeAction
from tools.definition import Limits, Origin, Risk, ToolDefinition
from tools.formats.fields import Key, Kind, read_fields, table
from tools.formats.findings import Findings
from tools.formats.json_schema import check_parameters
from tools.formats.problems import ToolProblem
from tools.formats.tool_tests import TESTS, tests_of
from tools.yamltext import Document

DEFAULT_TIMEOUT_MS = 30_000
MAX_MEMORY_BYTES = 256 * 1024 * 1024
RUNTIMES = ("typescript", "node", "python")

KEYS = table(
    Key("name", Kind.NAME, "what the model calls it by", required=True),
    Key("description", Kind.TEXT, "what it does and when to use it", required=True),
    Key("enabled", Kind.FLAG, "whether the model sees it", default=True),
    Key("tokenCost", Kind.COUNT, "the tokens its definition is said to cost"),
    Key("schema", Kind.VALUE, "JSON Schema of its arguments, type: object", required=True),
    Key("runtime", Kind.TEXT, "what runs it", choices=RUNTIMES, default="typescript"),
    Key("code", Kind.COMMAND, "the program: a function execute(args, context)", required=True),
    Key(
        "permissions", Kind.MAP, "what it may do",
        keys=table(
            Key("allowlist", Kind.TEXTS, "the only commands it may ask for, with * for anything"),
            Key(
                "autoAccept", Kind.FLAG,
                "whether its calls need no question: obeyed in your own files alone", default=False,
            ),
            Key(
                "riskLevel", Kind.TEXT,
                "how much it can do; only critical counts, a file cannot lower its own risk",
                choices=tuple(risk.name.lower() for risk in Risk), default="high",
            ),
        ),
    ),
    TESTS,
)  # fmt: skip


def read(document: Document, origin: Origin) -> tuple[list[ToolDefinition], list[ToolProblem]]:
    """Return the tool that `document` defines, and warnings about it.

    Raises ToolFileError with everything that is wrong with the file.
    """
    findings = Findings(document)
    findings.repeated_keys(allowed=True)
    data = read_fields(findings, document.data, KEYS)
    if "schema" in data:
        check_parameters(findings, data["schema"], ("schema",))
    findings.raise_errors()
    return [_definition(document, data, origin)], findings.warnings


def _definition(document: Document, data: dict[str, Any], origin: Origin) -> ToolDefinition:
    permissions = data.get("permissions", {})
    return ToolDefinition(
        name=data["name"],
        description=data["description"],
        parameters=data["schema"],
        action=CodeAction(
            data.get("runtime", "typescript"),
            data["code"],
            document.blocks.get(("code",)),
            tuple(allowlist) if (allowlist := permissions.get("allowlist")) is not None else None,
        ),
        origin=replace(origin, format="mimir", line=document.position(("name",))[0]),
        # A file does not vouch for itself: its level only ever raises the risk (X9, X10).
        risk=max(Risk.HIGH, Risk[permissions.get("riskLevel", "high").upper()]),
        limits=Limits(DEFAULT_TIMEOUT_MS, MAX_MEMORY_BYTES),
        declared_token_cost=data.get("tokenCost"),
        enabled=data.get("enabled", True),
        tests=tests_of(data),
        metadata={
            "auto-accept": permissions.get("autoAccept", False),
            "risk-level": permissions.get("riskLevel", ""),
        },
    )
