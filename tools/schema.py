"""Checks the arguments of a call against the tool's JSON Schema, and mends what is clearly meant.

Models write "10" for 10, null for "not given" and JSON as text; those are put right before the
check. Everything that is still wrong is told at once, in words the model can act on.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any, NoReturn

from tools.definition import JsonObject, ToolDefinition, ToolError
from tools.yamltext import json_path

MAX_ERRORS = 20
MAX_DEPTH = 100
_SHOWN_CHARACTERS = 80

_STRING_OR_TRAILING_COMMA = re.compile(r'("(?:[^"\\]|\\.)*")|,(?=\s*[}\]])', re.DOTALL)
_SURROGATE = re.compile("[\ud800-\udfff]")
_INTEGER = re.compile(r"[-+]?\d{1,300}(\.0*)?", re.ASCII)
_NUMBER = re.compile(r"[-+]?\d{1,300}(\.\d+)?([eE][-+]?\d{1,3})?", re.ASCII)


def parse_arguments(text: str) -> JsonObject:
    """Return the arguments that a model wrote as JSON text.

    Nothing at all and `null` mean no arguments. Raw control characters in strings and trailing
    commas are accepted; text that was cut off never is. Raises ToolError.
    """
    value = _loads(text) if text.strip() else {}
    if isinstance(value, str) and value.lstrip().startswith("{"):
        value = _loads(value)
    if value is None:
        return {}
    if not isinstance(value, dict):
        _refuse(f"The arguments must be one JSON object, not {_kind(value)}.")
    return value


def _loads(text: str) -> Any:
    try:
        try:
            return _decode(text)
        except json.JSONDecodeError as error:
            first = error
        return _decode(_STRING_OR_TRAILING_COMMA.sub(lambda found: found[1] or "", text))
    except json.JSONDecodeError:
        _refuse(_what_is_wrong(text, first))
    except RecursionError:
        _refuse("The arguments are nested too deeply.")
    except ValueError as error:
        _refuse(f"The arguments are not valid JSON: {error}.")


def _decode(text: str) -> Any:
    value = json.loads(text, strict=False, parse_constant=_no_constant)
    if text.count("[") + text.count("{") > MAX_DEPTH:
        _check_depth(value)
    # Half a surrogate pair cannot be written as UTF-8: not to a process, a file or the journal.
    return _without_surrogates(value) if "\\u" in text or _SURROGATE.search(text) else value


def _check_depth(value: Any) -> None:
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            child
            for item in level
            if isinstance(item, dict | list)
            for child in (item.values() if isinstance(item, dict) else item)
        ]
    if level:
        raise RecursionError


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON value")


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return _SURROGATE.sub("\ufffd", value)
    if isinstance(value, list):
        return [_without_surrogates(item) for item in value]
    if isinstance(value, dict):
        return {_without_surrogates(key): _without_surrogates(v) for key, v in value.items()}
    return value


def _what_is_wrong(text: str, error: json.JSONDecodeError) -> str:
    if _is_cut_off(text):
        return (
            f"The arguments are cut off: the JSON ends after {len(text)} characters before it is "
            "complete. Make a smaller call, for example a file in several parts."
        )
    near = text[max(0, error.pos - 15) : error.pos + 15]
    return (
        f"The arguments are not valid JSON: {error.msg} at line {error.lineno} column "
        f"{error.colno}, near {near!r}."
    )


def _is_cut_off(text: str) -> bool:
    """Tell whether a string or bracket is still open at the end of `text`."""
    depth, in_string, escaped = 0, False, False
    for character in text:
        if in_string:
            in_string = escaped or character != '"'
            escaped = character == "\\" and not escaped
        elif character == '"':
            in_string = True
        else:
            depth += (character in "{[") - (character in "}]")
    return in_string or depth > 0


def _refuse(reason: str) -> NoReturn:
    raise ToolError(f"{reason} Nothing was done. Send one JSON object; {{}} for no arguments.")


def check_arguments(
    definition: ToolDefinition, arguments: JsonObject, aliases: Mapping[str, str]
) -> JsonObject:
    """Return the arguments as the tool wants them: named, typed and completed with defaults.

    `aliases` maps argument names that models also use to those of the schema. The given object is
    not changed. Raises ToolError with every wrong argument: its JSON path, what was given, what
    is wanted.
    """
    schema = definition.parameters
    given = _rename(arguments, schema.get("properties", {}), aliases)
    mended = _mend(given, schema)
    validator = _validator(definition)
    if validator.is_valid(mended):
        return dict(mended)
    lines: list[str] = []
    for error in validator.iter_errors(mended):
        lines += _explain(error, schema, given)
    shown = lines[:MAX_ERRORS]
    if len(lines) > MAX_ERRORS:
        shown.append(f"and {len(lines) - MAX_ERRORS} more")
    raise ToolError(
        f"The arguments of {definition.wire_name} are wrong; nothing was done:\n"
        + "\n".join(f"- {line}" for line in shown)
    )


def _rename(
    arguments: JsonObject, properties: Mapping[str, Any], aliases: Mapping[str, str]
) -> JsonObject:
    renamed: JsonObject = {}
    for name, value in arguments.items():
        target = aliases.get(name, name)
        known = name in properties or target not in properties
        taken = target in arguments or target in renamed
        renamed[name if known or taken else target] = value
    return renamed


def _mend(value: Any, schema: Any) -> Any:
    """Return `value` with what is clearly meant put right, all the way down."""
    if not isinstance(schema, Mapping):
        return value
    value = _convert(value, _types(schema))
    if isinstance(value, dict):
        return _mend_object(value, schema)
    if isinstance(value, list) and "items" in schema:
        return [_mend(item, schema["items"]) for item in value]
    return value


def _mend_object(value: JsonObject, schema: Mapping[str, Any]) -> JsonObject:
    properties = schema.get("properties", {})
    required = schema.get("required", [])
    mended: JsonObject = {}
    for name, item in value.items():
        wanted = properties.get(name)
        if item is None and wanted is not None and name not in required and not _nullable(wanted):
            continue
        mended[name] = _mend(item, wanted)
    for name, wanted in properties.items():
        if name not in mended and isinstance(wanted, Mapping) and "default" in wanted:
            mended[name] = wanted["default"]
    return mended


def _types(schema: Mapping[str, Any]) -> frozenset[str]:
    """Return the types a schema names itself or in its alternatives; empty where it names none."""
    named = schema.get("type")
    if named is not None:
        return frozenset([named] if isinstance(named, str) else named)
    branches = [*schema.get("anyOf", ()), *schema.get("oneOf", ())]
    found = [_types(branch) for branch in branches if isinstance(branch, Mapping)]
    return frozenset().union(*found)


def _nullable(schema: Any) -> bool:
    if not isinstance(schema, Mapping):
        return True
    types = _types(schema)
    return "null" in types or (not types and None in schema.get("enum", [None]))


def _convert(value: Any, types: frozenset[str]) -> Any:
    if isinstance(value, float) and value.is_integer() and "integer" in types:
        return int(value)
    if not isinstance(value, str) or not types or "string" in types:
        return value
    text = value.strip()
    if "integer" in types and _INTEGER.fullmatch(text):
        return int(text.partition(".")[0])
    if "number" in types and _NUMBER.fullmatch(text):
        return float(text) if any(c in text for c in ".eE") else int(text)
    kind, meant = _WORDS.get(text.lower(), ("", None))
    return meant if kind in types else _structure(value, text, types)


def _structure(value: str, text: str, types: frozenset[str]) -> Any:
    """Return the list or object that `text` spells, if one is wanted; else `value`."""
    wanted: list[type] = [list] * ("array" in types) + [dict] * ("object" in types)
    if not wanted or text[:1] not in ("[", "{"):
        return value
    try:
        found = _decode(text)
    except (ValueError, RecursionError):
        return value
    return found if isinstance(found, tuple(wanted)) else value


_WORDS = {"true": ("boolean", True), "false": ("boolean", False), "null": ("null", None)}

_RULES = {
    "minimum": "at least {}",
    "maximum": "at most {}",
    "exclusiveMinimum": "more than {}",
    "exclusiveMaximum": "less than {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minItems": "at least {} items",
    "maxItems": "at most {} items",
    "uniqueItems": "no item twice",
}

_validators: dict[str, Any] = {}


def _validator(definition: ToolDefinition) -> Any:
    """Return the compiled schema; it never fetches anything and its patterns take bounded time."""
    digest = definition.digest
    if digest not in _validators:
        import jsonschema_rs

        try:
            compiled = jsonschema_rs.validator_for(
                dict(definition.parameters),
                offline=True,
                pattern_options=jsonschema_rs.FancyRegexOptions(backtrack_limit=100_000),
            )
        except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError) as error:
            raise ToolError(
                f"The tool {definition.name} cannot be called: its parameters are not usable JSON "
                f"Schema ({error.message[:200]}). Go on without it."
            ) from None
        _validators[digest] = compiled
    return _validators[digest]


def _explain(error: Any, schema: Mapping[str, Any], arguments: JsonObject) -> Iterator[str]:
    path = tuple(error.instance_path)
    kind = error.kind.as_dict()
    match error.kind.name:
        case "required":
            name = kind["property"]
            wanted = _wanted(_schema_at(schema, (*path, name)))
            sent = "" if path else f"; sent: {', '.join(arguments) or 'nothing'}"
            yield f"{json_path((*path, name))}: missing, wanted {wanted}{sent}"
        case "additionalProperties":
            known = list(_schema_at(schema, path).get("properties", {}))
            for name in kind["unexpected"]:
                near = get_close_matches(name, known, 1)
                hint = f" (did you mean {near[0]}?)" if near else ""
                allowed = ", ".join(known) or "none"
                yield f"{json_path((*path, name))}: unknown argument{hint}, allowed: {allowed}"
        case "enum" if path and isinstance(path[-1], str):
            unknown = f"Unknown {path[-1]} {_shown(error.instance)}"
            yield f"{json_path(path)}: {unknown}, wanted {_rule(error)}"
        case _:
            yield f"{json_path(path)}: got {_shown(error.instance)}, wanted {_rule(error)}"


def _rule(error: Any) -> str:
    kind = error.kind.as_dict()
    match error.kind.name:
        case "type":
            return " or ".join(kind["types"])
        case "enum":
            return "one of " + ", ".join(_shown(option) for option in kind["options"])
        case "const":
            return _shown(kind["expected_value"])
        case "pattern":
            pattern = kind.get("pattern")  # missing where the check took too many steps
            return f"text matching {pattern}" if pattern else "a shorter text: its pattern is slow"
        case "anyOf" | "oneOf":
            return " or ".join(_rule(branch[0]) for branch in kind["context"] if branch)
    limits = " ".join(str(v) for v in kind.values() if isinstance(v, int | float | str))
    return _RULES.get(error.kind.name, f"{error.kind.name} {{}}").format(limits).strip()


def _schema_at(schema: Any, path: tuple[str | int, ...]) -> Mapping[str, Any]:
    """Return the part of a schema that describes a place, as far as plain nesting tells."""
    for key in path:
        if not isinstance(schema, Mapping):
            return {}
        inner = schema.get("items") if isinstance(key, int) else schema.get("properties", {})
        schema = inner.get(key) if isinstance(key, str) and isinstance(inner, Mapping) else inner
    return schema if isinstance(schema, Mapping) else {}


def _wanted(schema: Mapping[str, Any]) -> str:
    types = " or ".join(sorted(_types(schema))) or "a value"
    if "enum" in schema:
        return "one of " + ", ".join(_shown(option) for option in schema["enum"])
    description = schema.get("description")
    return f"{types} ({description})" if isinstance(description, str) else types


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    if len(text) <= _SHOWN_CHARACTERS:
        return text
    return f"{text[:_SHOWN_CHARACTERS]}… ({len(text)} characters)"


def _kind(value: Any) -> str:
    names = {list: "a list", str: "a text", bool: "true or false", int: "a number"}
    return names.get(type(value), "a number")
