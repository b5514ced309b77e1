"""Which values cannot do harm even in a hazardous place: what is declared leaves them no room.

What the author of a tool wrote, such as a default or the text of a format, is no hazard either:
it was there to be read before the tool was trusted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from tools.actions import Parameter, PlanAction
from tools.definition import ToolDefinition
from tools.engine.hazards import Hazard, HazardKind
from tools.engine.template import Placeholder

_SCALARS = frozenset({"number", "integer", "boolean", "null"})
_FREE_PROPERTIES = frozenset({"output", "error"})
_FIXED_NAMES = frozenset({"TOOL_NAME", "OS", "DATE", "TIME", "TIMESTAMP"})
_SAFE_CHARACTERS = frozenset(",.:_@%+=-")
_TRIED = tuple(map(chr, (*range(256), *range(0x2018, 0x2030))))

_NAME = re.compile(r"[A-Za-z_][\w-]*", re.ASCII)
_LITERAL = re.compile(r"'((?:[^'\\]|\\.)*)'|\"((?:[^\"\\]|\\.)*)\"")
_TOKEN = re.compile(
    r"(?P<open>\((?:\?:)?)|(?P<close>\))|(?P<choice>\|)"
    r"|(?P<count>[*+?]\??|\{\d+(?:,\d*)?\}\??)"
    r"|(?P<character>\[\^?(?:[^\[\]\\]|\\.)+\]|\\.|[^\\\[\](){}*+?|^$])",
    re.DOTALL,
)


def can_harm(
    hazard: Hazard,
    tool: ToolDefinition,
    arguments: Mapping[str, Any] | None = None,
    chosen: Mapping[str, Any] | None = None,
) -> bool:
    """Tell whether a value at a hazard can do more than stand for itself.

    `arguments` are those of a call; without them any value is meant that the tool admits.
    `chosen` are values that the author of an alias set.
    """
    assert isinstance(tool.action, PlanAction)
    place, parameters = hazard.placeholder, tool.action.parameters
    if place.step_property is not None and not place.expression:
        return hazard.kind is not HazardKind.OPTION and place.step_property in _FREE_PROPERTIES
    if hazard.kind is HazardKind.OPTION:
        if place.name not in parameters:
            return False
        if arguments is None:
            return not place.expression and not _starts_plainly(tool, parameters[place.name])
        written = tuple(_written(place, parameters))
        if all(word.startswith(written) for word in hazard.values):
            return False
    return any(
        _is_free(hazard.kind, name, tool, arguments, chosen or {})
        for name in _names(place)
        if place.name == name or name in parameters
    )


def _is_free(
    kind: HazardKind,
    name: str,
    tool: ToolDefinition,
    arguments: Mapping[str, Any] | None,
    chosen: Mapping[str, Any],
) -> bool:
    """Tell whether the model could choose harmful text for a name."""
    assert isinstance(tool.action, PlanAction)
    parameter = tool.action.parameters.get(name)
    if parameter is None:
        return name not in _FIXED_NAMES and kind is not HazardKind.OPTION
    if arguments is not None and not _is_given(parameter, arguments, chosen):
        return False
    schema = _schema(tool, name)
    if is_closed(schema):
        return False
    return kind is HazardKind.OPTION or not _admits_only_safe(schema.get("pattern"))


def _is_given(
    parameter: Parameter, arguments: Mapping[str, Any], chosen: Mapping[str, Any]
) -> bool:
    """Tell whether a value is not what the author wrote; a default may be made of others."""
    name = parameter.name
    value = arguments.get(name, parameter.default)
    written = [parameter.default, chosen.get(name)]
    return value not in written or (isinstance(value, str) and "{" in value)


def is_closed(schema: Mapping[str, Any]) -> bool:
    """Tell whether a schema admits only numbers, truth values, or what it lists."""
    declared = schema.get("type")
    types = [declared] if isinstance(declared, str) else declared or ["any"]
    return "enum" in schema or "const" in schema or _SCALARS.issuperset(types)


def _admits_only_safe(pattern: object) -> bool:
    """Tell whether a pattern holds for letters, digits and marks without a meaning in code."""
    if not isinstance(pattern, str) or pattern[:1] != "^" or pattern[-1:] != "$":
        return False
    depth, at, body = 0, 0, pattern[1:-1]
    while at < len(body):
        token = _TOKEN.match(body, at)
        if token is None:
            return False
        at = token.end()
        depth += (token.lastgroup == "open") - (token.lastgroup == "close")
        if token.lastgroup == "choice" and depth < 1:
            return False
        if token.lastgroup == "character" and not all(map(_is_safe, _admitted(token[0]))):
            return False
    return depth == 0 and not body.endswith("\\")


def _starts_plainly(tool: ToolDefinition, parameter: Parameter) -> bool:
    """Tell whether no value of a parameter begins with a dash of its own."""
    schema = _schema(tool, parameter.name)
    if is_closed(schema) or (parameter.format and not parameter.format.startswith("{")):
        return True
    pattern = schema.get("pattern")
    if not isinstance(pattern, str) or pattern[:1] != "^" or "|" in pattern:
        return False
    start = pattern[1:].removeprefix("(?:").lstrip("(")
    token = _TOKEN.match(start)
    if token is None or token.lastgroup != "character" or "-" in _admitted(token[0]):
        return False
    return start[token.end() : token.end() + 1] not in ("*", "?", "{")


def _admitted(token: str) -> Iterator[str]:
    """Yield the characters, of those that are tried, that a piece of a pattern stands for."""
    try:
        compiled = re.compile(token, re.DOTALL)
    except re.error:
        yield from _TRIED
        return
    yield from (character for character in _TRIED if compiled.fullmatch(character))


def _is_safe(character: str) -> bool:
    return character.isalnum() or character in _SAFE_CHARACTERS


def _written(place: Placeholder, parameters: Mapping[str, Parameter]) -> Iterator[str]:
    """Yield how words begin that the tool's author wrote into an expression or a format.

    A dash alone is none: it leaves the option to the value.
    """
    texts = ["".join(literal) for literal in _LITERAL.findall(place.expression)]
    parameter = parameters.get(place.name)
    if parameter is not None and not place.expression:
        texts = [parameter.format]
    for word in " ".join(texts).split():
        start = word.partition("{")[0]
        if start.strip("-"):
            yield start


def _names(place: Placeholder) -> list[str]:
    if not place.expression:
        return [place.name]
    return [place.name, *_NAME.findall(_LITERAL.sub("", place.expression))]


def _schema(tool: ToolDefinition, name: str) -> Mapping[str, Any]:
    properties = tool.parameters.get("properties", {})
    found = properties.get(name) if isinstance(properties, Mapping) else None
    return found if isinstance(found, Mapping) else {}
