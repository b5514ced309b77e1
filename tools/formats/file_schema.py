"""The JSON Schema of a tool file, for editors that complete and check what a person types."""

from __future__ import annotations

from collections.abc import Mapping

from tools.definition import JsonObject
from tools.formats.cycod_keys import TOOL
from tools.formats.cycod_steps import COMMAND_KEYS
from tools.formats.fields import SEMANTIC_VERSION, Key, Keys, Kind
from tools.formats.mimir import KEYS as MIMIR
from tools.formats.opta_json import KEYS as OPTA

_PRINTED, _SEEN = r"[^\x00-\x1f\x7f]", r"[^\x00-\x20\x7f]"
_TEXT: JsonObject = {"type": "string"}
_COMMAND: JsonObject = {"type": ["string", "boolean"], "minLength": 1}
_SCALAR: JsonObject = {"type": ["string", "boolean", "integer"]}
_TYPES: Mapping[Kind, JsonObject] = {
    Kind.TEXT: _TEXT,
    Kind.NAME: {"type": "string", "pattern": f"^{_PRINTED}*{_SEEN}{_PRINTED}*$"},
    Kind.COMMAND_LINE: {"type": ["array", "string"]},
    Kind.COMMAND: _COMMAND,
    Kind.EXPRESSION: _COMMAND,
    Kind.FLAG: {"type": "boolean"},
    Kind.DEPRECATION: {"type": ["boolean", "string"]},
    Kind.NUMBER: {"type": "number"},
    Kind.INTEGER: {"type": "integer"},
    Kind.COUNT: {"type": "integer", "minimum": 0},
    Kind.DEADLINE: {"type": "number", "minimum": 1},
    Kind.DELAY: {"type": "number", "minimum": 0},
    Kind.SIZE: {
        "type": ["string", "integer"],
        "minimum": 1,
        "pattern": r"^\s*\d+(\.\d+)?\s*([KkMmGg]([Ii]?[Bb])?|[Bb])?\s*$",
    },
    Kind.VERSION: {"type": "string", "pattern": f"^{SEMANTIC_VERSION.pattern}$"},
    Kind.VALUE: {},
    Kind.VALUE_LIST: {"type": ["array", "null"]},
    Kind.VALUES: {"type": ["object", "null"]},
    Kind.VARIABLES: {"type": ["object", "null"], "additionalProperties": _SCALAR},
}


def file_schema() -> JsonObject:
    """Return the schema of the tool files that are read from directories."""
    cycod = _object(TOOL) | {"oneOf": _requires(*COMMAND_KEYS, "steps", "base-tool")}
    steps = cycod["properties"]["steps"]
    steps["minItems"] = 1
    steps["items"]["oneOf"] = _requires(*COMMAND_KEYS, "use-tool")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A tool for opta",
        "if": {"required": ["command"]},
        "then": _object(OPTA),
        "else": {"if": {"required": ["code"]}, "then": _object(MIMIR), "else": cycod},
    }


def _requires(*names: str) -> list[JsonObject]:
    return [{"required": [name]} for name in names]


def _object(keys: Keys) -> JsonObject:
    schema: JsonObject = {
        "type": "object",
        "properties": {key.name: _schema(key) for key in keys.values()},
        "patternProperties": {"^x-": {}},
        "additionalProperties": False,
    }
    required = [key.name for key in keys.values() if key.required]
    return schema | ({"required": required} if required else {})


def _schema(key: Key) -> JsonObject:
    default = {} if key.default is None else {"default": key.default}
    return {"description": key.meaning} | default | _value(key)


def _value(key: Key) -> JsonObject:
    match key.kind:
        case Kind.MAP:
            return _object(key.keys) | {"type": ["object", "null"]}
        case Kind.NAMED:
            return {"type": ["object", "null"], "additionalProperties": _object(key.keys)}
        case Kind.LIST:
            return {"type": ["array", "null"], "items": _object(key.keys)}
        case Kind.TEXTS:
            items = _TEXT | _choices(key)
            return {"anyOf": [items, {"type": ["array", "null"], "items": items}]}
    filled = {"pattern": r"\S"} if key.required and key.kind is Kind.TEXT else {}
    return {**_TYPES[key.kind], **filled, **_choices(key)}


def _choices(key: Key) -> JsonObject:
    return {"enum": list(key.choices)} if key.choices else {}
