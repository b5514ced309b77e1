"""Checks what only the engine can tell of a tool file: whether its plan can run, and its risk."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from tools.actions import Argv, Command, PlanAction, PlatformCommands, Shell
from tools.definition import Risk, ToolDefinition
from tools.engine.plan import PlanError, order_steps
from tools.engine.template import Names, TemplateError, parse_argv
from tools.engine.template_shell import SHELLS, Hazard, compile_shell
from tools.engine.template_windows import compile_pwsh
from tools.formats.cycod_steps import COMMAND_KEYS
from tools.formats.problems import ToolProblem
from tools.formats.references import PREDEFINED
from tools.yamltext import Document, DocumentError, KeyPath, json_path, parse

_Found: TypeAlias = tuple[KeyPath, str]


def plan_problems(definition: ToolDefinition, data: bytes = b"") -> list[ToolProblem]:
    """Return everything that keeps the plan of a tool from being run; nothing when it can be.

    `data` is the file, for the places of the problems. Expressions are checked too: that takes a
    JavaScript engine and a millisecond for each, so loading leaves it to the call.
    """
    action = definition.action
    if not isinstance(action, PlanAction):
        return []
    expressions = _placed(definition, list(_expressions(action)), data)
    return [*checked(definition, data)[1], *expressions]


def checked(
    definition: ToolDefinition, data: bytes = b""
) -> tuple[ToolDefinition, list[ToolProblem]]:
    """Return a tool with the risk its commands bring, and why its steps cannot be run.

    A value that an inner language reads as code, or that is pasted raw, is a high risk (X85, X88).
    """
    action = definition.action
    if not isinstance(action, PlanAction):
        return definition, []
    found: list[_Found] = []
    hazards: list[Hazard] = []
    try:
        order_steps(action.steps, (action.interaction.input,))
    except PlanError as error:
        found.append((("steps",), str(error)))
    for where, command in _commands(action):
        try:
            hazards += _compile(command, action)
        except TemplateError as error:
            found.append((where, str(error)))
    if hazards:
        definition = replace(definition, risk=max(definition.risk, Risk.HIGH))
    return definition, _placed(definition, found, data)


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
        yield ("steps", position), step.command
        if step.fallback and isinstance(step.command, Shell):
            where = ("steps", position, "error-handling", "fallback")
            yield where, replace(step.command, text=step.fallback)
    for position, shell in enumerate(action.cleanup):
        yield ("resources", "cleanup", position), shell


def _compile(command: Command, action: PlanAction) -> tuple[Hazard, ...]:
    """Return the hazards of a command. Raises TemplateError where it cannot be run safely."""
    names = _names(action)
    escape = {name: parameter.escape_shell for name, parameter in action.parameters.items()}
    match command:
        case PlatformCommands(default, platforms):
            shells = [shell for shell in (default, *platforms.values()) if shell is not None]
            return tuple(hazard for shell in shells for hazard in _compile(shell, action))
        case Argv(words, placeholders=True):
            parse_argv(words, names)
        case Shell(text=text) if "{" not in text:
            pass
        case Shell(kind, text, placeholders=True) if kind in SHELLS:
            return compile_shell(text, names, kind=kind, escape=escape).hazards
        case Shell("pwsh" | "powershell", text, placeholders=True):
            compile_pwsh(text, names, escape)
    return ()


def _names(action: PlanAction) -> Names:
    declared = frozenset(action.parameters)
    steps = frozenset(step.name for step in action.steps)
    return Names(declared, PREDEFINED - declared, steps)


def _placed(definition: ToolDefinition, found: list[_Found], data: bytes) -> list[ToolProblem]:
    if not found:
        return []
    origin = definition.origin
    document = _document(data, origin.path or Path("-"))
    problems = []
    for where, message in found:
        path = _exact(document, where) if document else where
        line, column = document.position(path) if document else (origin.line, 1)
        problems.append(ToolProblem(origin.path, message, line, column, json_path(path)))
    return problems


def _document(data: bytes, path: Path) -> Document | None:
    if not data:
        return None
    try:
        return parse(data, path, allow_repeated=True)
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
