"""Checks the JSON Schemas that tool files hold, and values against them. Nothing is fetched."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from tools.formats.findings import Findings, kind_of, listed
from tools.yamltext import KeyPath

NO_PARAMETERS: Mapping[str, Any] = {"type": "object", "properties": {}}

_TYPES = "string, number, integer, boolean, array, object, null"


def check_parameters(findings: Findings, schema: object, where: KeyPath) -> None:
    """Note what keeps `schema` from describing the arguments of a function (X23)."""
    if not isinstance(schema, dict):
        findings.error(where, f"must be a JSON Schema object: found {kind_of(schema)}")
        return
    if schema.get("type") != "object":
        place = (*where, "type") if "type" in schema else where
        findings.error(place, 'must have "type": "object"')
    properties = schema.get("properties")
    if "properties" not in schema:
        hint = 'for none: "properties": {}'
        findings.error((*where, "properties"), "'properties' is missing", hint)
        return
    if not isinstance(properties, dict):
        message = f"must be an object: found {kind_of(properties)}"
        findings.error((*where, "properties"), message, "for none: {}")
        return
    _check_required(findings, schema.get("required", []), properties, (*where, "required"))
    for path, message in schema_errors(schema):
        findings.error((*where, *path), message)


def _check_required(
    findings: Findings, required: object, properties: Mapping[str, Any], where: KeyPath
) -> None:
    if not isinstance(required, list):
        findings.error(where, f"must be a list of names: found {kind_of(required)}")
        return
    for position, name in enumerate(required):
        if not isinstance(name, str):
            findings.error((*where, position), f"must be a name: found {kind_of(name)}")
        elif name not in properties:
            known = listed(properties) or "none"
            findings.error((*where, position), f"{name!r} is no property", f"properties: {known}")


def schema_errors(schema: dict[str, Any]) -> Iterator[tuple[KeyPath, str]]:
    """Yield what is wrong with a JSON Schema: where in it, and what."""
    import jsonschema_rs

    found = False
    for error in _schema_validator().iter_errors(schema):
        found = True
        where = tuple(error.instance_path)
        wanted = f"the types are {_TYPES}" if where[-1:] == ("type",) else error.message[:200]
        yield where, f"is not JSON Schema: {wanted}"
    if found:
        return
    try:
        jsonschema_rs.validator_for(schema, offline=True, ignore_unknown_formats=True)
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError) as error:
        path = tuple(getattr(error, "instance_path", ()))
        yield path, f"is not usable JSON Schema: {error.message[:200]}"


def value_problem(schema: dict[str, Any], value: object) -> str:
    """Say why `value` does not fit a schema without errors; empty when it does.

    A pattern may cost no more than a bounded number of steps (X100): one that needs more says so.
    """
    import jsonschema_rs

    validator = jsonschema_rs.validator_for(schema, offline=True, ignore_unknown_formats=True)
    return "; ".join(_short(str(error.message)) for error in validator.iter_errors(value))


def _short(message: str) -> str:
    """Leave the middle out: the value stands at the beginning, the reason at the end."""
    return message if len(message) <= 200 else f"{message[:60]} … {message[-120:]}"


@cache
def _schema_validator() -> Any:
    import jsonschema_rs

    return jsonschema_rs.Draft202012Validator(
        {"$ref": "https://json-schema.org/draft/2020-12/schema"}, offline=True
    )
