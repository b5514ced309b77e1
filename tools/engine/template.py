"""Reads templates: text in which `{NAME}` stands for a value (X91).

A template is parsed once, when its file is read. Values are put in afterwards and are never read
again (R4): what looks like a placeholder in a value stays text. This module places values into
plain text and into the words of an argument list; `template_shell` places them into scripts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TypeAlias

from tools.formats.references import STEP_PROPERTIES
from tools.record import open_record, record

MAX_PLACEHOLDER_CHARS = 1_000
"""A longer `{…}` is text."""

Value: TypeAlias = str | Sequence[str]
"""What a placeholder stands for: text, or exact words that are joined by blanks within a text."""


class TemplateError(ValueError):
    """A template cannot be used, or a value cannot be put into it.

    `line` and `column` (1-based, in the template) are 0 where the error is about no place in it.
    """

    def __init__(self, message: str, line: int = 0, column: int = 0) -> None:
        super().__init__(f"line {line}, column {column}: {message}" if line else message)
        self.message, self.line, self.column = message, line, column


@record
class Names:
    """The names that placeholders may use; every other brace is text.

    `parameters` are declared by the tool, `predefined` always there (`WORKSPACE`, `DATE`, …; each
    is one word wherever it stands), `steps` the steps of the plan.
    """

    parameters: frozenset[str] = frozenset()
    predefined: frozenset[str] = frozenset()
    steps: frozenset[str] = frozenset()

    def knows(self, name: str, step_property: str | None) -> bool:
        """Tell whether `{name}`, or `{name.step_property}`, is a placeholder."""
        if step_property is not None:
            return name in self.steps and step_property in STEP_PROPERTIES
        return name in self.parameters or name in self.predefined


@record
class Placeholder:
    """One place for a value.

    `key` is the text between the braces: equal keys have equal values. `name` is the parameter,
    predefined variable or step that comes first in it. A step has a `step_property`; `transform`
    is what follows a colon (`lowercase`), `picture` the argument of `format(…)`; `expression` is
    the whole of a conditional (`A ? 'x' : 'y'`), else empty. `start` and `end` are offsets in the
    template; `line` and `column` are 1-based.
    """

    key: str
    name: str
    start: int
    end: int
    line: int
    column: int
    step_property: str | None = None
    transform: str = ""
    picture: str | None = None
    expression: str = ""

    def fail(self, message: str) -> TemplateError:
        """Return an error about this place."""
        return TemplateError(f"{{{self.key}}} {message}", self.line, self.column)


@record
class UnknownName:
    """An upper-case `{NAME}` that nothing declares: text, and probably a mistake (X91)."""

    name: str
    start: int
    line: int
    column: int

    def error(self) -> TemplateError:
        """Return the error for a command that would run with the name in it (X93)."""
        return TemplateError(
            f"{{{self.name}}} is neither a parameter nor a predefined name, so the command is not "
            "run. Declare the parameter, or correct the name.",
            self.line,
            self.column,
        )


@open_record
class Template:
    """Parsed text: literal pieces and placeholders, in order."""

    source: str
    parts: tuple[str | Placeholder, ...]
    unknown: tuple[UnknownName, ...] = ()

    @cached_property
    def placeholders(self) -> tuple[Placeholder, ...]:
        """The places for values, in order."""
        return tuple(part for part in self.parts if isinstance(part, Placeholder))

    def fill(self, values: Mapping[str, Value]) -> str:
        """Return the text with `values` (by key) in it, for what no shell reads.

        Raises TemplateError for a placeholder without a value (X93).
        """
        return "".join(
            part if isinstance(part, str) else as_text(value_of(part, values))
            for part in self.parts
        )


def value_of(placeholder: Placeholder, values: Mapping[str, Value]) -> Value:
    """Return the value of a placeholder. Raises TemplateError when it has none (X93)."""
    try:
        return values[placeholder.key]
    except KeyError:
        raise placeholder.fail(
            "has no value, so the command is not run. Give it one, or a default."
        ) from None


def as_text(value: Value) -> str:
    """Return a value as it stands within a text: words are joined by blanks (X97)."""
    return value if isinstance(value, str) else " ".join(value)


_NAME = r"[A-Za-z_][A-Za-z0-9_-]*"
_LITERAL = re.compile(rf"\{{\{{({_NAME})(?:\.([a-z-]+))?\}}\}}")
_REFERENCE = re.compile(
    rf"\{{({_NAME})(?:\.([a-z-]+))?(?::([A-Za-z][A-Za-z0-9_-]*)(?:\(([^(){{}}\n]*)\))?)?\}}"
)
_CONDITIONAL = re.compile(
    rf"\{{\s*[!(]*\s*({_NAME})(?:\.([a-z-]+))?(?![A-Za-z0-9_.:-])"
    r"""(?:[^{}\n'"]|'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*")*\}"""
)
_CHOICE = re.compile(r"\?.*:", re.DOTALL)
_UPPER = re.compile(r"\{([A-Z][A-Z0-9_]+)(?::[a-z]+(?:\([^(){}\n]*\))?)?\}")


def parse(source: str, names: Names) -> Template:
    """Read a template. Nothing in it can be wrong: what is no placeholder is text."""
    return _Parser(source, names).run()


class _Parser:
    def __init__(self, source: str, names: Names) -> None:
        self.source, self.names = source, names
        self.parts: list[str | Placeholder] = []
        self.unknown: list[UnknownName] = []
        self.literal: list[str] = []
        self.line, self.line_start, self.counted = 1, 0, 0

    def run(self) -> Template:
        at, taken = self.source.find("{"), 0
        while at >= 0:
            self.literal.append(self.source[taken:at])
            taken = self._brace(at)
            at = self.source.find("{", taken)
        self.literal.append(self.source[taken:])
        self._end_literal()
        return Template(self.source, tuple(self.parts), tuple(self.unknown))

    def _brace(self, at: int) -> int:
        """Read what the brace at `at` begins; return where it ends."""
        limit = min(len(self.source), at + MAX_PLACEHOLDER_CHARS)
        if self.source[at - 1 : at] != "$":
            doubled = self.source.startswith("{{", at)
            literal = _LITERAL.match(self.source, at, limit) if doubled else None
            if literal and self.names.knows(literal[1], literal[2]):
                self.literal.append(literal[0][1:-1])
                return literal.end()
            found = self._reference(at, limit) or self._conditional(at, limit)
            if found is not None:
                self._end_literal()
                self.parts.append(found)
                return found.end
            upper = _UPPER.match(self.source, at, limit)
            if upper:
                self.unknown.append(UnknownName(upper[1], at, *self._position(at)))
        self.literal.append("{")
        return at + 1

    def _reference(self, at: int, limit: int) -> Placeholder | None:
        match = _REFERENCE.match(self.source, at, limit)
        if match is None or not self.names.knows(match[1], match[2]):
            return None
        transform, picture = match[3] or "", match[4]
        if picture is not None and transform != "format":
            return None
        return Placeholder(
            match[0][1:-1], match[1], at, match.end(), *self._position(at),
            step_property=match[2],
            transform="" if picture is not None else transform,
            picture=picture,
        )  # fmt: skip

    def _conditional(self, at: int, limit: int) -> Placeholder | None:
        match = _CONDITIONAL.match(self.source, at, limit)
        if match is None or not self.names.knows(match[1], match[2]):
            return None
        expression = match[0][1:-1].strip()
        if not _CHOICE.search(expression):
            return None
        return Placeholder(
            match[0][1:-1], match[1], at, match.end(), *self._position(at),
            step_property=match[2],
            expression=expression,
        )  # fmt: skip

    def _end_literal(self) -> None:
        text = "".join(self.literal)
        if text:
            self.parts.append(text)
        self.literal = []

    def _position(self, at: int) -> tuple[int, int]:
        lines = self.source.count("\n", self.counted, at)
        if lines:
            self.line += lines
            self.line_start = self.source.rfind("\n", 0, at) + 1
        self.counted = at
        return self.line, at - self.line_start + 1


@record
class ArgvTemplate:
    """A program and its arguments. A value stays within the word it stands in (X99)."""

    words: tuple[Template, ...]

    @property
    def placeholders(self) -> tuple[Placeholder, ...]:
        """The places for values, in order."""
        return tuple(place for word in self.words for place in word.placeholders)

    def fill(self, values: Mapping[str, Value]) -> tuple[str, ...]:
        """Return the words with `values` in them, as many as the template has.

        Raises TemplateError for a placeholder without a value (X93) and for a NUL character.
        """
        for place in self.placeholders:
            if "\0" in as_text(value_of(place, values)):
                raise place.fail("holds a NUL character, which no program can be given.")
        return tuple(word.fill(values) for word in self.words)


def parse_argv(words: Sequence[str], names: Names) -> ArgvTemplate:
    """Read the words of an argument list as templates."""
    return ArgvTemplate(tuple(parse(word, names) for word in words))
