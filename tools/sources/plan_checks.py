"""Checks what only the engine can tell of a tool file: whether its plan can run, and its risk."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path
from typing import TypeAlias

from tools.actions import Argv, Command, PlanAction, PlatformCommands, Shell
from tools.definition import Risk, ToolDefinition
from tools.engine.harmless import can_harm
from tools.engine.hazards import WordHazards, argv_hazards, windows_hazards
from tools.engine.plan import PlanError, order_steps
from tools.engine.template import Names, Placeholder, TemplateError, parse, parse_argv
from tools.engine.template_shell import SHELLS, ShellTemplate, compile_shell
from tools.engine.template_windows import compile_pwsh
from tools.formats.cycod_steps import COMMAND_KEYS
from tools.formats.problems import ToolProblem
from tools.formats.references import PREDEFINED
from tools.yamltext import Document, DocumentError, KeyPath, json_path
from tools.yamltext import parse as parse_document

_Found: TypeAlias = tuple[KeyPath, str]
_Compiled: TypeAlias = ShellTemplate | WordHazards


@dataclass(frozen=True, slots=True)
class PlanCheck:
    """What the engine says of a tool.

    `tool` has the risk that its commands bring: a value that an inner language reads as code, or
    that is pasted raw, is a high one (X85, X88). `problems` keep its steps from being run.
    """

    tool: ToolDefinition
    problems: tuple[ToolProblem, ...] = ()
    _compiled: tuple[tuple[KeyPath, _Compiled], ...] = ()

    def warnings(self, data: bytes) -> list[ToolProblem]:
        """Return where a value could do more than stand for itself, with what to do about it.

        `data` is the file. What is wrong with the plan is not said again.
        """
        found = []
        source = _Source.of(self.tool, data)
        for where, compiled in self._compiled:
            for hazard in compiled.possible:
                if can_harm(hazard, self.tool):
                    place = hazard.placeholder
                    line, column, key = source.position(where, place, compiled.placeholders)
                    message = f"high risk: {{{place.key}}} {hazard.message}"
                    path = self.tool.origin.path
                    found.append(
                        ToolProblem(path, message, line, column, key, hazard.advice, warning=True)
                    )
        return found


def check_plan(
    definition: ToolDefinition, data: bytes = b"", *, expressions: bool = False
) -> PlanCheck:
    """Check what a tool would run.

    `data` is the file, for the places of the problems. Checking `expressions` takes a JavaScript
    engine and a millisecond for each, so loading leaves that to the call.
    """
    action = definition.action
    if not isinstance(action, PlanAction):
        return PlanCheck(definition)
    found: list[_Found] = []
    compiled: list[tuple[KeyPath, _Compiled]] = []
    names, escape = _names(action), _escape(action)
    try:
        order_steps(action.steps, (action.interaction.input,))
    except PlanError as error:
        found.append((("steps",), str(error)))
    for where, command in _commands(action):
        try:
            compiled.append((where, _compile(command, names, escape)))
        except TemplateError as error:
            found.append((where, str(error)))
    if expressions:
        found += _expressions(action)
    if any(can_harm(hazard, definition) for _, one in compiled for hazard in one.hazards):
        definition = replace(definition, risk=max(definition.risk, Risk.HIGH))
    problems = _placed(definition, found, data)
    return PlanCheck(definition, tuple(problems), tuple(compiled))


def _expressions(action: PlanAction) -> Iterator[_Found]:
    written = any(p.transform or p.format or p.has_default for p in action.parameters.values())
    if written:
        from tools.engine.values import parameter_problems

        for problem in parameter_problems(action.parameters):
            yield ("parameters", problem.parameter, problem.key), problem.message
    for position, step in enumerate(action.steps):
        if step.condition:
            from tools.engine.expressions import check

            for fault in check(step.condition, _names(action)):
                yield ("steps", position, "run-condition"), fault.message


def _commands(action: PlanAction) -> Iterator[tuple[KeyPath, Command]]:
    for position, step in enumerate(action.steps):
        yield from _by_platform(("steps", position), step.command)
        if step.fallback and isinstance(step.command, Shell):
            where = ("steps", position, "error-handling", "fallback")
            yield where, replace(step.command, text=step.fallback)
    for position, shell in enumerate(action.cleanup):
        yield ("resources", "cleanup", position), shell


def _by_platform(where: KeyPath, command: Command) -> Iterator[tuple[KeyPath, Command]]:
    if not isinstance(command, PlatformCommands):
        yield where, command
        return
    if command.default is not None:
        yield (*where, "commands", "default"), command.default
    for name, shell in command.platforms.items():
        yield (*where, "commands", "platforms", name), shell


def _compile(command: Command, names: Names, escape: Mapping[str, bool | None]) -> _Compiled:
    """Read a command for any machine. Raises TemplateError where it cannot be run safely."""
    match command:
        case Argv(words, placeholders=True):
            return argv_hazards(parse_argv(words, names))
        case Shell(text=text) if "{" not in text:
            pass
        case Shell(kind, text, placeholders=True) if kind in SHELLS:
            return compile_shell(text, names, kind=kind, escape=escape)
        case Shell("pwsh" | "powershell", text, placeholders=True):
            return windows_hazards(compile_pwsh(text, names, escape).template)
        case Shell("cmd", text, placeholders=True):
            return windows_hazards(parse(text, names))
    return WordHazards()


def _names(action: PlanAction) -> Names:
    declared = frozenset(action.parameters)
    steps = frozenset(step.name for step in action.steps)
    return Names(declared, PREDEFINED - declared, steps)


def _escape(action: PlanAction) -> Mapping[str, bool | None]:
    return {name: parameter.escape_shell for name, parameter in action.parameters.items()}


def _placed(definition: ToolDefinition, found: list[_Found], data: bytes) -> list[ToolProblem]:
    if not found:
        return []
    source = _Source.of(definition, data)
    problems = []
    for where, message in found:
        line, column, key = source.position(where)
        problems.append(ToolProblem(definition.origin.path, message, line, column, key))
    return problems


@dataclass(frozen=True, slots=True)
class _Source:
    """The text of a file, for the places of what is wrong in it; `document` None: it is not known.

    `line` is where the tool begins.
    """

    document: Document | None
    text: str
    line: int | None

    @classmethod
    def of(cls, definition: ToolDefinition, data: bytes) -> _Source:
        """Read a file once more, as it was read for `definition`."""
        origin = definition.origin
        document = _document(data, origin.path or Path("-"))
        return cls(document, data.decode("utf-8-sig", "replace"), origin.line)

    def position(
        self,
        where: KeyPath,
        place: Placeholder | None = None,
        places: Sequence[Placeholder] = (),
    ) -> tuple[int | None, int | None, str]:
        """Return line, column and JSON path of a key, or of one of the `places` in its text."""
        if self.document is None:
            return self.line, 1, json_path(where)
        path = _exact(self.document, where)
        line, column = self.document.position(path)
        if place is not None:
            earlier = takewhile(lambda other: other is not place, places)
            before = sum(other.key == place.key for other in earlier)
            line, column = self._nth(f"{{{place.key}}}", before, line, column)
        return line, column, json_path(path)

    def _nth(self, text: str, before: int, line: int, column: int) -> tuple[int, int]:
        """Return where `text` stands behind a position, `before` times skipped; else that."""
        lines = self.text.splitlines(keepends=True)
        start = sum(map(len, lines[: line - 1])) + column - 1
        found = list(re.finditer(re.escape(text), self.text[start:]))[before : before + 1]
        if not found:
            return line, column
        at = start + found[0].start()
        return self.text.count("\n", 0, at) + 1, at - self.text.rfind("\n", 0, at)


def _document(data: bytes, path: Path) -> Document | None:
    if not data:
        return None
    try:
        return parse_document(data, path, allow_repeated=True)
    except DocumentError:
        from tools.formats.yaml_repair import parse_mended

        mended = parse_mended(data, path)
        return mended[0] if mended else None


def _exact(document: Document, where: KeyPath) -> KeyPath:
    """Return the path of the key that holds a command; a tool of one command has no steps."""
    if where[:1] == ("steps",) and ("steps",) not in document.positions:
        where = where[2:]
    keys = (key for key in COMMAND_KEYS if (*where, key) in document.positions)
    return (*where, *list(keys)[:1])
