"""Checks what only the engine can tell of a tool file: whether its plan can run, and its risk."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from tools.actions import Argv, CodeAction, Command, PlanAction, PlatformCommands, Shell
from tools.definition import Risk, ToolDefinition
from tools.engine.harmless import can_harm
from tools.engine.hazards import (
    WordHazards,
    argv_hazards,
    run_templates,
    variable_hazards,
    windows_hazards,
)
from tools.engine.plan import PlanError, order_steps
from tools.engine.template import Names, TemplateError, parse, parse_argv
from tools.engine.template_shell import SHELLS, ShellTemplate, compile_shell
from tools.formats.problems import ToolProblem
from tools.formats.references import PREDEFINED
from tools.record import record
from tools.yamltext import KeyPath

_Found: TypeAlias = tuple[KeyPath, str]
_Compiled: TypeAlias = ShellTemplate | WordHazards


@record
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
        from tools.sources.argument_checks import argument_warnings
        from tools.sources.tool_text import ToolText, before

        source = ToolText.of(self.tool, data)
        found = argument_warnings(self.tool, source)
        for where, compiled in self._compiled:
            for hazard in compiled.possible:
                if can_harm(hazard, self.tool):
                    place = hazard.placeholder
                    found.append(
                        source.warning(
                            where,
                            f"high risk: {{{place.key}}} {hazard.message}",
                            hazard.advice,
                            re.escape(f"{{{place.key}}}"),
                            before(place, compiled.placeholders),
                        )
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
    for name, text in run_templates(action.environment):
        where = ("environment", "variables", name)
        try:
            compiled.append((where, variable_hazards(name, parse(text, names))))
        except TemplateError as error:
            found.append((where, str(error)))
    if expressions:
        found += _expressions(action)
    if definition.risk < Risk.HIGH and any(
        can_harm(hazard, definition) for _, one in compiled for hazard in one.hazards
    ):
        definition = replace(definition, risk=Risk.HIGH)
    problems = _placed(definition, found, data)
    return PlanCheck(definition, tuple(problems), tuple(compiled))


def checked_runtime(definition: ToolDefinition, code_image: str) -> ToolDefinition:
    """Return the tool as it is here: unavailable where nothing runs its code (X54)."""
    if not isinstance(definition.action, CodeAction):
        return definition
    from tools.code import runtimes

    path = os.environ.get("PATH", os.defpath)
    missing = runtimes.missing(definition.action.runtime, path, Path.cwd(), code_image)
    return replace(definition, unavailable=missing)


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
            from tools.engine.template_windows import compile_pwsh

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
    from tools.sources.tool_text import ToolText

    source = ToolText.of(definition, data)
    problems = []
    for where, message in found:
        line, column, key = source.position(where)
        problems.append(ToolProblem(definition.origin.path, message, line, column, key))
    return problems
