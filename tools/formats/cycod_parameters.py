"""Reads the parameters of a CYCOD tool, and checks every value its file gives for them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from tools.actions import Parameter
from tools.definition import JsonObject
from tools.formats.findings import Findings
from tools.formats.json_schema import schema_errors, value_problem
from tools.formats.opta_json import check_names
from tools.formats.references import PREDEFINED, uses_any
from tools.formats.schema_generation import RULES, SchemaOptions, schema_of
from tools.yamltext import KeyPath

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*", re.ASCII)
_PATH_NAME = re.compile(r".*_(DIR|PATH)|DIRECTORY|PATH", re.ASCII)

_Declared = Mapping[str, Mapping[str, Any]]


def read_parameters(declared: _Declared) -> dict[str, Parameter]:
    """Return what declared parameters mean beyond their schema."""
    return {name: _parameter(name, data) for name, data in declared.items()}


def check_declared(findings: Findings, declared: _Declared, options: SchemaOptions) -> JsonObject:
    """Return the schema of the parameters; note what is wrong with them and their values."""
    check_names(findings, declared, ("parameters",))
    schema = schema_of(declared, options)
    for name, data in declared.items():
        where: KeyPath = ("parameters", name)
        if not _NAME.fullmatch(name):
            findings.error(where, f"{name!r} cannot be the name of a parameter",
                           "letters, digits, _ and -, beginning with a letter")  # fmt: skip
        elif name in PREDEFINED:
            findings.warn(where, f"hides the predefined {{{name}}}")
        _check_rules(findings, data, where)
        _check_values(findings, data, declared, where)
    return schema


def check_arguments(
    findings: Findings, arguments: Mapping[str, Any], declared: _Declared, where: KeyPath
) -> None:
    """Note the arguments of a test that its tool would refuse."""
    for name, value in arguments.items():
        data = declared.get(name)
        if data is None:
            near = get_close_matches(name, declared, 1)
            hint = f"did you mean {near[0]}?" if near else "declare it below parameters"
            findings.tolerate((*where, name), f"there is no parameter {name!r}", hint)
        elif problem := _problem(data, value):
            findings.tolerate((*where, name), problem)


def _parameter(name: str, data: Mapping[str, Any]) -> Parameter:
    default = data.get("default")
    return Parameter(
        name=name,
        type=data.get("type", "string"),
        default=default,
        has_default=default is not None,
        transform=data.get("transform", ""),
        format=data.get("format", ""),
        escape_shell=data.get("security", {}).get("escape-shell"),
        delimiter=data.get("delimiter"),
        path=data.get("path", _PATH_NAME.fullmatch(name) is not None),
        deprecated=_deprecated(data),
        detailed_help=data.get("detailed-help", ""),
        examples=data.get("examples", ()),
    )


def _deprecated(data: Mapping[str, Any]) -> str:
    instead = data.get("deprecated-alternative", "")
    if not data.get("deprecated") or not instead:
        return str(data.get("deprecated", ""))
    return f"use {instead} instead"


def _check_rules(findings: Findings, data: Mapping[str, Any], where: KeyPath) -> None:
    kind = data.get("type", "string")
    rules = data.get("validation", {})
    for rule in rules:
        if kind not in RULES[rule]:
            findings.warn(
                (*where, "validation", rule), f"{rule} says nothing about a {kind}",
                f"it is for: {', '.join(RULES[rule])}",
            )  # fmt: skip
    if "pattern" in rules:
        for _, message in schema_errors({"pattern": rules["pattern"]}):
            findings.error((*where, "validation", "pattern"), message)
    for least, most in (("minLength", "maxLength"), ("minimum", "maximum")):
        if least in rules and most in rules and rules[least] > rules[most]:
            findings.error((*where, "validation", least), f"is more than {most}")


def _check_values(
    findings: Findings, data: Mapping[str, Any], declared: _Declared, where: KeyPath
) -> None:
    default = data.get("default")
    if "default" not in data and "required" not in data:
        findings.warn(where, "is empty when it is not given", "say required: or default:")
    templated = isinstance(default, str) and uses_any(default, declared)
    if default is not None and not templated and (problem := _problem(data, default)):
        findings.tolerate((*where, "default"), problem)
    for position, example in enumerate(data.get("examples", ())):
        if problem := _problem(data, example):
            findings.warn((*where, "examples", position), problem)
    rules = {k: v for k, v in data.get("validation", {}).items() if k != "enum"}
    for position, value in enumerate(data.get("validation", {}).get("enum", ())):
        if problem := _problem({**data, "validation": rules}, value):
            findings.warn((*where, "validation", "enum", position), problem)


_PYTHON_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,), "number": (int, float), "boolean": (bool,), "array": (list,),
    "object": (dict,),
}  # fmt: skip


def _problem(data: Mapping[str, Any], value: object) -> str:
    """Say why a parameter would refuse `value`; empty when it would not."""
    kind = data.get("type", "string")
    if not isinstance(value, _PYTHON_TYPES[kind]) or (
        isinstance(value, bool) and kind != "boolean"
    ):
        return f"{_shown(value)} is no {kind}"
    rules = data.get("validation")
    if not rules:
        return ""
    schema = schema_of({"value": data})["properties"]["value"]
    if any(True for _ in schema_errors(schema)):
        return ""
    return value_problem(schema, value)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
