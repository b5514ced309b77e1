"""Evaluates the JavaScript of tool files: conditions, transforms and conditional text (X44, X62).

Each evaluation has a fresh context without any function of the host, and bounds on time and memory
(see `tools.engine.javascript`). References such as
`{build.exit-code}` become variables; their values are handed over as JSON and never become
source text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, TypeAlias

from tools.engine.arguments import argument_text
from tools.engine.output import clipped
from tools.engine.template import Names
from tools.formats.references import STEP_PROPERTIES
from tools.record import record

Lookup: TypeAlias = Callable[[str, str | None], Any]
"""Gives the JSON value of a parameter, or of a step's property; None where it has none (X43)."""


class ExpressionError(ValueError):
    """An expression cannot be read or evaluated. The message says what, where and what to do."""


@record
class Problem:
    """What is wrong with an expression; `line` and `column` are 1-based, in its text."""

    message: str
    line: int = 1
    column: int = 1


def check(source: str, names: Names, *, bare: bool = False) -> list[Problem]:
    """Return what is wrong with an expression, without running it.

    `bare` says that `names` also stand for themselves without braces, as in `{A ? 'x' : 'y'}`.
    """
    parsed = _parse(source, names, bare)
    if parsed.problems:
        return parsed.problems
    try:
        _run(_COMPILE, parsed, list(parsed.variables), [])
    except _ScriptError as error:
        return [Problem(error.message, *parsed.original(error.line, error.column))]
    return []


def condition(source: str, names: Names, lookup: Lookup) -> bool:
    """Tell whether an expression is true, by the rules of JavaScript. Raises ExpressionError."""
    return bool(_evaluate(source, _parse(source, names, bare=False), {}, lookup, _TRUTH))


def choose(source: str, names: Names, lookup: Lookup) -> Any:
    """Return the value of an expression in which `names` stand without braces.

    Raises ExpressionError.
    """
    return _evaluate(source, _parse(source, names, bare=True), {}, lookup, _VALUE)


def evaluate(source: str, variables: Mapping[str, Any]) -> Any:
    """Return the value of an expression over `variables` (JSON values, by JavaScript name).

    Raises ExpressionError, also when the result is no JSON value.
    """
    return _evaluate(source, _parse(source, Names(), bare=False), variables, None, _VALUE)


def string_literals(source: str) -> frozenset[str]:
    """Return the texts that an expression itself holds in plain quotes."""
    tokens = (found for found in _TOKEN.finditer(source) if found.lastgroup == "string")
    return frozenset(found[0][1:-1] for found in tokens if "\\" not in found[0])


_BODY = 'const body = "return (\\n" + input.source + "\\n)";'
_COMPILE = f"{_BODY} new Function(...input.names, body); 'null'"
_CALL = f"{_BODY} const result = new Function(...input.names, body)(...input.values);"
_TRUTH = f"{_CALL} result ? 'true' : 'false'"
_VALUE = (
    f"{_CALL} if (typeof result === 'number' && !Number.isFinite(result)) "
    "throw new TypeError('the result is ' + result);"
    "const text = JSON.stringify(result); if (text === undefined) "
    "throw new TypeError('the result is ' + typeof result); text"
)
_LINES_BEFORE = 3  # `(function anonymous(`, `) {` and `return (`

_NAME = r"[A-Za-z_][A-Za-z0-9_-]*"
_PROPERTY = "|".join(sorted(STEP_PROPERTIES, key=len, reverse=True))
_TOKEN = re.compile(
    rf"""(?P<string>'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*")
    |(?P<template>`(?:[^`\\]|\\.)*`)
    |(?P<comment>//[^\n]*|/\*.*?\*/)
    |(?P<reference>(?<!\$)\{{{_NAME}(?:\.[a-z-]+)?\}})
    |(?P<word>(?<![\w$.]){_NAME}(?:\.(?:{_PROPERTY})(?![\w-]))?)
    |(?P<slash>/)
    |(?P<operand>[\w$)\]}}])
    |(?P<other>\S)""",
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_REGEX = re.compile(r"/(?:[^/\\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+/[a-z]*")
_INNER = re.compile(rf"(?<![$\\])\{{({_NAME})(?:\.([a-z-]+))?\}}", re.ASCII)
_BEFORE_REGEX = frozenset({"return", "typeof", "in", "instanceof", "void", "case"})


@dataclass
class _Parsed:
    """JavaScript in which references are variables. `variables`: name to reference and as text."""

    source: str
    variables: dict[str, tuple[str, str | None, bool]] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    moved: list[tuple[int, int]] = field(default_factory=list)
    original_source: str = ""

    def original(self, line: int, column: int) -> tuple[int, int]:
        """Return where a place of `source` is in the text of the author."""
        lines = self.source.split("\n")
        if not 1 <= line <= len(lines):
            return _position(self.original_source, len(self.original_source))
        at = sum(len(text) + 1 for text in lines[: line - 1]) + column - 1
        before = next((m for m in reversed(self.moved) if m[0] <= at), (0, 0))
        end = len(self.original_source)
        return _position(self.original_source, min(before[1] + at - before[0], end))


def _position(text: str, at: int) -> tuple[int, int]:
    return text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)


def _parse(source: str, names: Names, bare: bool) -> _Parsed:
    return _Parser(source, names, bare).run()


class _Parser:
    def __init__(self, source: str, names: Names, bare: bool) -> None:
        self.source, self.names, self.bare = source, names, bare
        self.parsed = _Parsed("", original_source=source)
        self.prefix = "_opta"
        while self.prefix in source:
            self.prefix += "_"
        self.operand = False  # whether a slash would divide

    def run(self) -> _Parsed:
        out: list[str] = []
        at = length = 0
        while found := _TOKEN.search(self.source, at):
            text, end = self._token(found)
            piece = self.source[at : found.start()] + text
            out.append(piece)
            length += len(piece)
            at = end
            self.parsed.moved.append((length, at))
        self.parsed.source = "".join(out) + self.source[at:]
        return self.parsed

    def _token(self, found: re.Match[str]) -> tuple[str, int]:
        """Return what a token becomes, and where it ends."""
        text, kind = found[0], found.lastgroup
        if kind == "slash":
            return self._slash(found)
        if kind == "word":
            return self._word(found)
        if kind == "reference":
            return self._braces(found)
        if kind != "comment":
            self.operand = kind != "other"
        if kind == "string":
            text = self._string(found)
        elif kind == "template":
            text = self._template(found)
        return text, found.end()

    def _slash(self, found: re.Match[str]) -> tuple[str, int]:
        regex = None if self.operand else _REGEX.match(self.source, found.start())
        if regex is None:
            self.operand = False
            return "/", found.end()
        self.operand = True
        for inner in _INNER.finditer(regex[0]):
            if self.names.knows(inner[1], inner[2]):
                self._problem(
                    f"{inner[0]} stands within a regular expression, where it cannot be data; "
                    "use the text functions, such as includes()",
                    regex.start() + inner.start(),
                )
        return regex[0], regex.end()

    def _string(self, found: re.Match[str]) -> str:
        quote = found[0][0]
        parts = list(self._inner(found[0][1:-1], found.start() + 1))
        if len(parts) == 1:
            return found[0]
        texts = [part if at % 2 else f"{quote}{part}{quote}" for at, part in enumerate(parts)]
        return f"({'+'.join(texts)})"

    def _template(self, found: re.Match[str]) -> str:
        parts = self._inner(found[0], found.start())
        return "".join(f"${{{part}}}" if at % 2 else part for at, part in enumerate(parts))

    def _inner(self, text: str, start: int) -> Iterator[str]:
        """Yield text and the variables in it by turns, beginning and ending with text."""
        taken = 0
        for inner in _INNER.finditer(text):
            if self.names.knows(inner[1], inner[2]):
                yield text[taken : inner.start()]
                yield self._variable(inner[1], inner[2], as_text=True)
                taken = inner.end()
            elif inner[2] in STEP_PROPERTIES:
                self._unknown(inner[0], inner[1], start + inner.start())
        yield text[taken:]

    def _braces(self, found: re.Match[str]) -> tuple[str, int]:
        """Read a reference; where it is none the brace belongs to JavaScript."""
        name, _, wanted = found[0][1:-1].partition(".")
        known = self.names.knows(name, wanted or None)
        shouted = name.upper() == name and not wanted and not self.operand
        self.operand = known
        if known:
            return self._variable(name, wanted or None), found.end()
        if shouted or wanted in STEP_PROPERTIES:
            self._unknown(found[0], name, found.start())
        return "{", found.start() + 1

    def _word(self, found: re.Match[str]) -> tuple[str, int]:
        text = found[0]
        name, _, wanted = text.partition(".")
        if self.bare:
            if wanted and self.names.knows(name, wanted):
                return self._variable(name, wanted), found.end()
            while name:
                if self.names.knows(name, None):
                    return self._variable(name, None), found.start() + len(name)
                name = name.rpartition("-")[0]
        word = re.match(r"\w+", text, re.ASCII)
        assert word is not None
        self.operand = word[0] not in _BEFORE_REGEX
        return word[0], found.start() + len(word[0])

    def _variable(self, name: str, wanted: str | None, *, as_text: bool = False) -> str:
        key = (name, wanted, as_text)
        for variable, known in self.parsed.variables.items():
            if known == key:
                return variable
        variable = f"{self.prefix}{len(self.parsed.variables)}"
        self.parsed.variables[variable] = key
        return variable

    def _unknown(self, text: str, name: str, at: int) -> None:
        known = self.names.steps if "." in text else self.names.parameters | self.names.predefined
        near = get_close_matches(name, sorted(known), 1)
        hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(sorted(known)) or '-'}"
        kind = "step" if "." in text else "parameter"
        self._problem(f"{text} refers to the {kind} {name!r}, which does not exist; {hint}", at)

    def _problem(self, message: str, at: int) -> None:
        self.parsed.problems.append(Problem(message, *_position(self.source, at)))


def _evaluate(
    source: str,
    parsed: _Parsed,
    variables: Mapping[str, Any],
    lookup: Lookup | None,
    script: str,
) -> Any:
    for problem in parsed.problems:
        raise _error(source, problem)
    names, values = list(variables), list(variables.values())
    for variable, (name, wanted, as_text) in parsed.variables.items():
        assert lookup is not None
        value = lookup(name, wanted)
        names.append(variable)
        values.append(("" if value is None else argument_text(value)) if as_text else value)
    try:
        return json.loads(_run(script, parsed, names, values))
    except _ScriptError as error:
        place = parsed.original(error.line, error.column)
        raise _error(source, Problem(error.message, *place)) from None


def _error(source: str, problem: Problem) -> ExpressionError:
    return ExpressionError(
        f"The expression `{clipped(source, 200)}` failed at line {problem.line}, "
        f"column {problem.column}: {problem.message}. Correct it in the tool file."
    )


class _ScriptError(Exception):
    """JavaScript failed; `line` and `column` are those of the translated source, or 0."""

    def __init__(self, message: str, line: int = 0, column: int = 0) -> None:
        super().__init__(message)
        self.message, self.line, self.column = message, line, column


_PLACE = re.compile(r"<input>:(\d+):(\d+)")


def _run(script: str, parsed: _Parsed, names: list[str], values: list[Any]) -> str:
    """Run `script` and return its text. Raises _ScriptError, and ExpressionError without engine."""
    from tools.engine import javascript

    given = json.dumps({"source": parsed.source, "names": names, "values": values})
    try:
        return javascript.run_script(script, given)
    except javascript.EngineError as error:
        raise ExpressionError(str(error)) from None
    except javascript.TooSlowError:
        raise _too_slow() from None
    except javascript.ScriptError as error:
        raise _script_error(str(error)) from None


def _too_slow() -> _ScriptError:
    from tools.engine.javascript import TIME_LIMIT_S

    return _ScriptError(f"it took longer than {TIME_LIMIT_S} s and was stopped", 1, 1)


def _script_error(text: str) -> _ScriptError:
    message = text.partition("\n")[0]
    if "interrupted" in message:
        return _too_slow()
    if "out of memory" in message or message == "null":
        from tools.engine.javascript import MEMORY_LIMIT_BYTES

        limit = MEMORY_LIMIT_BYTES // 1024**2
        return _ScriptError(f"it needed more than {limit} MB of memory", 1, 1)
    place = _PLACE.search(text)
    if place is None:
        return _ScriptError(message, 1, 1)
    return _ScriptError(message, int(place[1]) - _LINES_BEFORE, int(place[2]))
