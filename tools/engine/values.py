"""From the arguments of a call to the values of a plan's placeholders (X94).

The order is: defaults, the parameter's transform, then for each placeholder its own transform,
its number picture, and the parameter's format. Quoting comes last and is not done here.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tools.actions import Parameter
from tools.definition import ToolError
from tools.engine.arguments import argument_text
from tools.engine.conversions import (
    ConversionError,
    as_picture,
    picture_problem,
    transform,
    transform_problem,
)
from tools.engine.expressions import (
    ExpressionError,
    Lookup,
    check,
    choose,
    string_literals,
)
from tools.engine.template import Names, Placeholder, Template, Value, as_text, parse
from tools.formats.references import PREDEFINED
from tools.record import record

_FORMAT_NAMES = Names(parameters=frozenset({"value"}))


@record
class Problem:
    """What is wrong with a declared parameter. `key` is the key of the file, such as `format`."""

    parameter: str
    key: str
    message: str


def parameter_problems(parameters: Mapping[str, Parameter]) -> list[Problem]:
    """Return what cannot work in transforms, formats and defaults, without a call (C279, X104)."""
    found: list[Problem] = []
    for name, parameter in parameters.items():
        if parameter.transform and (message := transform_problem(parameter.transform)):
            found.append(Problem(name, "transform", message))
        for place in parse(parameter.format, _FORMAT_NAMES).placeholders:
            found += [
                Problem(name, "format", message)
                for message in placeholder_problems(place, _FORMAT_NAMES)
            ]
        template = _default_template(parameter, parameters)
        for place in template.placeholders if template else ():
            found += [
                Problem(name, "default", message)
                for message in placeholder_problems(place, _names(parameters))
            ]
    return found + _rings(parameters)


def placeholder_problems(placeholder: Placeholder, names: Names) -> list[str]:
    """Return what cannot work in one placeholder, such as an unknown transform."""
    messages: list[str] = []
    if placeholder.transform:
        messages.append(transform_problem(placeholder.transform, script=False))
    if placeholder.picture is not None:
        messages.append(picture_problem(placeholder.picture))
    if placeholder.expression:
        messages += [
            f"line {problem.line}, column {problem.column}: {problem.message}"
            for problem in check(placeholder.expression, names, bare=True)
        ]
    return [message for message in messages if message]


class Values:
    """The values of one call.

    `json` maps each parameter to its JSON value after defaults and transforms, None where it has
    none; `composed` those that come of a default with placeholders; `warnings` are lines about
    deprecated parameters that were given.
    """

    def __init__(
        self,
        parameters: Mapping[str, Parameter],
        arguments: Mapping[str, Any],
        predefined: Mapping[str, str],
        steps: Lookup | None = None,
    ) -> None:
        """Fill in defaults and apply transforms to valid `arguments`.

        `steps` gives the properties of steps that have ended, at the time it is asked. Raises
        ToolError where a transform fails, and for defaults that need each other.
        """
        self._parameters, self._predefined, self._steps = parameters, predefined, steps
        self._arguments = arguments
        self.composed: dict[str, str] = {}
        self._open: list[str] = []
        self.json: dict[str, Any] = {}
        for name in parameters:
            self._resolve(name)
        self.warnings = tuple(_deprecations(parameters, arguments))

    def lookup(self, name: str, step_property: str | None) -> Any:
        """Return a JSON value for an expression: of a parameter, predefined name or step."""
        if step_property is not None:
            return self._steps(name, step_property) if self._steps else None
        return self._resolve(name) if name in self._parameters else self._predefined.get(name)

    def of(self, placeholders: Iterable[Placeholder], names: Names) -> dict[str, Value]:
        """Return the values of placeholders, by key. Raises ToolError."""
        return {place.key: self._value(place, names) for place in placeholders}

    def _value(self, place: Placeholder, names: Names) -> Value:
        parameter = None if place.step_property else self._parameters.get(place.name)
        try:
            if place.expression:
                return _arranged([_chosen(place.expression, names, self.lookup)], parameter)
            value = self._plain(place)
            if parameter is None or value is None:
                return _text(value)
            if parameter.format:
                return _formatted(parameter, value)
        except (ConversionError, ExpressionError) as error:
            raise ToolError(f"{{{place.key}}}: {error} Nothing was done.") from None
        return _unformatted(parameter, value, composed=place.name in self.composed)

    def _plain(self, place: Placeholder) -> Any:
        """Return the value of a placeholder before its parameter's format."""
        value = self.lookup(place.name, place.step_property)
        if value is not None and place.transform:
            value = transform(place.transform, value)
        if value is not None and place.picture is not None:
            value = as_picture(value, place.picture)
        return value

    def _resolve(self, name: str) -> Any:
        if name in self.json:
            return self.json[name]
        if name in self._open:
            raise ToolError(f"{_ring([*self._open, name])} Nothing was done.")
        self._open.append(name)
        parameter = self._parameters[name]
        value = self._untransformed(parameter)
        if parameter.transform and value is not None:
            try:
                value = transform(parameter.transform, value)
            except (ConversionError, ExpressionError) as error:
                raise ToolError(
                    f"The transform of {name} failed: {error} Nothing was done."
                ) from None
        self._open.pop()
        self.json[name] = value
        return value

    def _untransformed(self, parameter: Parameter) -> Any:
        default = parameter.default if parameter.has_default else None
        value = self._arguments.get(parameter.name, default)
        # Checking a call against the schema fills in the text of a default as it stands.
        template = _default_template(parameter, self._parameters) if value == default else None
        if template is None:
            return value
        names = _names(self._parameters)
        texts = {place.key: self._default_text(place, names) for place in template.placeholders}
        value = self.composed[parameter.name] = template.fill(texts)
        return value

    def _default_text(self, place: Placeholder, names: Names) -> str:
        try:
            if place.expression:
                return _text(choose(place.expression, names, self.lookup))
            return _text(self._plain(place))
        except (ConversionError, ExpressionError) as error:
            raise ToolError(f"{{{place.key}}} in a default: {error} Nothing was done.") from None


def _names(parameters: Mapping[str, Parameter]) -> Names:
    return Names(frozenset(parameters), PREDEFINED - parameters.keys())


def _default_template(parameter: Parameter, parameters: Mapping[str, Parameter]) -> Template | None:
    """Return the default as a template if it is text that holds or hides a placeholder."""
    if not parameter.has_default or not isinstance(parameter.default, str):
        return None
    template = parse(parameter.default, _names(parameters))
    return None if template.parts in ((parameter.default,), ()) else template


def _rings(parameters: Mapping[str, Parameter]) -> list[Problem]:
    needs: dict[str, list[str]] = {}
    for name, parameter in parameters.items():
        template = _default_template(parameter, parameters)
        places = template.placeholders if template else ()
        needs[name] = [place.name for place in places if place.name in parameters]
    found: list[Problem] = []
    ended: set[str] = set()
    for name in parameters:
        if ring := _find_ring(name, needs, ended):
            found.append(Problem(ring[0], "default", _ring(ring)))
    return found


def _find_ring(start: str, needs: Mapping[str, list[str]], ended: set[str]) -> list[str]:
    """Return a ring that `start` leads to, and note in `ended` what has been looked at."""
    path, todo = [start], [list(needs[start])]
    while path:
        if path[-1] in ended or not todo[-1]:
            ended.add(path.pop())
            todo.pop()
            continue
        following = todo[-1].pop(0)
        if following in path:
            ended.update(path)
            return [*path[path.index(following) :], following]
        path.append(following)
        todo.append(list(needs[following]))
    return []


def _ring(names: Sequence[str]) -> str:
    start = names.index(names[-1])
    return (
        f"The defaults of these parameters need each other: {' -> '.join(names[start:])}. "
        "Give one of them a default without placeholders."
    )


def _deprecations(
    parameters: Mapping[str, Parameter], arguments: Mapping[str, Any]
) -> Iterable[str]:
    for name, value in arguments.items():
        parameter = parameters.get(name)
        if parameter is None or not parameter.deprecated:
            continue
        if not parameter.has_default or value != parameter.default:
            yield f"The parameter {name} is deprecated: {parameter.deprecated}."


# How a value looks


@record
class _Piece:
    """Part of a formatted value: text of the tool's author, or data (X95)."""

    text: str
    data: bool


def _text(value: Any) -> str:
    return "" if value is None else argument_text(value)


def _unformatted(parameter: Parameter, value: Any, *, composed: bool) -> Value:
    if isinstance(value, list):
        elements = tuple(_text(element) for element in value)
        if parameter.delimiter is None:
            return elements
        return (parameter.delimiter.join(elements),) if elements else ()
    text = _text(value)
    # What the tool's author put together is one word, whatever is in it (X104).
    return (text,) if composed and text and parameter.escape_shell is not False else text


def _formatted(parameter: Parameter, value: Any) -> Value:
    text = _data_text(parameter, value)
    pieces: list[_Piece] = []
    for part in parse(parameter.format, _FORMAT_NAMES).parts:
        if isinstance(part, str):
            pieces.append(_Piece(part, data=False))
        elif part.expression:
            pieces.append(_chosen(part.expression, _FORMAT_NAMES, lambda name, _: value))
        elif part.transform:
            pieces.append(_Piece(_text(transform(part.transform, value)), data=True))
        elif part.picture is not None:
            pieces.append(_Piece(as_picture(value, part.picture), data=True))
        else:
            pieces.append(_Piece(text, data=True))
    return _arranged(pieces, parameter)


def _data_text(parameter: Parameter, value: Any) -> str:
    plain = _unformatted(parameter, value, composed=False)
    return as_text(plain)


def _chosen(expression: str, names: Names, lookup: Lookup) -> _Piece:
    text = _text(choose(expression, names, lookup))
    return _Piece(text, data=text not in string_literals(expression))


def _arranged(pieces: Sequence[_Piece], parameter: Parameter | None) -> Value:
    """Return formatted text; as exact words where splitting it would take data apart.

    The author's text is split as a shell would. Nothing is left of an empty result (X95).
    """
    text = "".join(piece.text for piece in pieces)
    escape = parameter.escape_shell if parameter else None
    quoted = any(re.search(r"[\"'\\]", piece.text) for piece in pieces if not piece.data)
    if escape is False or (escape is None and not quoted):
        return text
    return _words(pieces) if text else ()


def _words(pieces: Sequence[_Piece]) -> Value:
    text = "".join(piece.text for piece in pieces)
    marked = "".join("\0" if piece.data else piece.text for piece in pieces)
    data = iter([piece.text for piece in pieces if piece.data])
    try:
        words = shlex.split(marked)
    except ValueError:  # an apostrophe in the author's text
        return (text,)
    return tuple(re.sub("\0", lambda _: next(data), word) for word in words)
