"""Makes the JSON Schema of a CYCOD tool's parameters: what the model is told of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from tools.definition import JsonObject
from tools.record import record

RULES: Mapping[str, tuple[str, ...]] = {
    "minLength": ("string",),
    "maxLength": ("string",),
    "pattern": ("string",),
    "minimum": ("number", "integer"),
    "maximum": ("number", "integer"),
    "enum": ("string", "number", "integer", "boolean", "array", "object"),
}
"""The validation rules of a parameter, which are JSON Schema keywords, and the types they fit."""


@record
class SchemaOptions:
    """What goes into a schema (X110). `types` maps parameter types to other JSON types."""

    types: Mapping[str, str] = field(default_factory=dict)
    descriptions: bool = True
    defaults: bool = True
    examples: bool = False
    sanitize: bool = True


def schema_of(
    parameters: Mapping[str, Mapping[str, Any]], options: SchemaOptions | None = None
) -> JsonObject:
    """Return the schema of an argument object for `parameters`, as a tool file declares them.

    A parameter with a default need not be given, whatever `required` says (X107).
    """
    options = options or SchemaOptions()
    schema: JsonObject = {
        "type": "object",
        "properties": {name: _property(data, options) for name, data in parameters.items()},
    }
    required = [
        name
        for name, data in parameters.items()
        if data.get("required") and data.get("default") is None
    ]
    return schema | ({"required": required} if required else {})


def _property(data: Mapping[str, Any], options: SchemaOptions) -> JsonObject:
    declared = data.get("type", "string")
    kind = options.types.get(declared, declared)
    schema: JsonObject = {"type": kind}
    if options.descriptions and data.get("description"):
        schema["description"] = data["description"]
    if kind == "array":
        schema["items"] = {}
    for rule, value in data.get("validation", {}).items():
        if not options.sanitize or kind in RULES.get(rule, ()):
            schema[rule] = list(value) if isinstance(value, tuple) else value
    if options.defaults and data.get("default") is not None:
        schema["default"] = _as(kind, data["default"])
    if options.examples and data.get("examples"):
        schema["examples"] = [_as(kind, example) for example in data["examples"]]
    if data.get("deprecated"):
        schema["deprecated"] = True
    return schema


def _as(kind: str, value: Any) -> Any:
    """Write a value of a parameter that the model is told is text, as text."""
    return json.dumps(value) if kind == "string" and not isinstance(value, str) else value
