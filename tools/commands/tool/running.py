"""`opta tool run`: a tool by hand, the person's own act (X147)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TextIO

from tools.actions import CodeAction, PlanAction, shells_of
from tools.commands.tool.builder import split_pair, typed_as_one_of
from tools.commands.tool.kit import DONE, FAILED, CommandError, Context, UsageError, usable
from tools.commands.tool.options import COMMON_OPTIONS, Option, Parsed
from tools.commands.tool.store import read_bytes
from tools.definition import (
    CommandDisplay,
    DiffDisplay,
    Display,
    Outcome,
    TextDisplay,
    ToolCall,
    ToolDefinition,
    ToolError,
    ToolResult,
)
from tools.engine.output import visible
from tools.engine.results import TIMED_OUT_CODE, StepResult, StepState
from tools.events import CallDecided, CallEvent, CallOutput
from tools.formats.references import uses_any
from tools.permissions.gate import NOBODY_ASKED, NOT_GRANTED
from tools.permissions.question import PERSON_SAID_NO

ARGUMENT_OPTIONS = (
    Option("--param", ("NAME=VALUE",), many=True),
    Option("--args", ("JSON|@FILE|-",)),
)
OPTIONS = (
    *COMMON_OPTIONS,
    *ARGUMENT_OPTIONS,
    Option("--dry-run"),
    Option("--show-command"),
)
_BY_HAND = "by-hand"
_HOW_VALUES_PASS = (
    "Values are shown in place; a shell gets them in variables, which are set before the script "
    "and not exported."
)
_WHY_NOT = {
    PERSON_SAID_NO: "you said no",
    NOBODY_ASKED: "it asks first, and nobody can be asked here; run it in a terminal",
}


def run(parsed: Parsed, context: Context) -> int:
    """Run a tool; its output is on standard output, its exit code is the answer."""
    file = context.store.find(parsed.words[0], parsed.scope)
    tool = usable(file)
    arguments = arguments_of(tool, parsed, context.stdin)
    told = _Told(context, is_program=isinstance(tool.action, CodeAction))
    executor = context.executor(tool, told.observe, not parsed.flag("--dry-run"))
    call = ToolCall(_BY_HAND, tool.name, json.dumps(arguments))
    if parsed.flag("--dry-run") or parsed.flag("--show-command"):
        try:
            invocation = executor.prepare(call)
        except ToolError as error:
            raise CommandError(str(error)) from error
        if parsed.flag("--dry-run"):
            how = [_HOW_VALUES_PASS] if takes_values(tool) else []
            told_of = _warnings(invocation.hazards, invocation.warnings)
            context.say("\n".join([_shown(invocation.preview), *how, *told_of]))
            return DONE
        context.note(_shown(invocation.preview))
    return told.ending(asyncio.run(executor.run(call, told.emit)))


class _Told:
    """Passes on what a tool prints: as it comes to a terminal, else byte for byte at the end.

    What a program prints is not its result: it goes to standard error as it comes.
    """

    def __init__(self, context: Context, *, is_program: bool) -> None:
        self._context = context
        self._is_program = is_program
        self._live = context.out.isatty()
        self._steps: Sequence[StepResult] | None = None
        self._refused = ""

    def emit(self, event: CallEvent) -> None:
        match event:
            case CallDecided(call=ToolCall(id=call_id), allowed=False, by=by):
                # What its program asks for and does not get, it may go on without.
                self._refused = by if call_id == _BY_HAND else self._refused
            case CallDecided(hazards=hazards, warnings=warnings):
                for text in _warnings(hazards, warnings):
                    self._context.note(text)
            case CallOutput(text=text) if self._is_program or self._live:
                stream = self._context.err if self._is_program else self._context.out
                stream.write(text)
                stream.flush()

    def observe(self, steps: Sequence[StepResult]) -> None:
        self._steps = steps

    def ending(self, result: ToolResult) -> int:
        """Say how it ended and return the exit code. Raises CommandError where nothing ran."""
        if self._refused:
            lines = [line for line in result.text.splitlines() if line.startswith(NOT_GRANTED)]
            why = _WHY_NOT.get(self._refused, f"denied ({self._refused})")
            lines.append(f"Not run: {why}. Nothing was done.")
            raise CommandError("\n".join(lines))
        if self._steps is None:
            return self._whole(result)
        if not self._live:
            _write(self._context.out, [step.output for step in self._steps])
            _write(self._context.err, [step.error for step in self._steps])
        for step in self._steps:
            if step.note and (len(self._steps) > 1 or step.state is not StepState.FAILED):
                self._context.note(f"{step.name}: {step.note}")
            if step.cut:
                self._context.note(f"{step.name}: {step.cut}")
        if result.success:
            return DONE
        if result.outcome is Outcome.TIMED_OUT:
            return TIMED_OUT_CODE
        codes = [step.exit_code for step in self._steps if step.exit_code]
        return result.exit_code or (codes[-1] if codes else FAILED)

    def _whole(self, result: ToolResult) -> int:
        """End a call that has no steps to tell of. Raises CommandError where it did not succeed."""
        if not result.success:
            raise CommandError(result.text)
        self._context.say(result.text)
        return DONE


def _write(stream: TextIO, parts: Sequence[bytes]) -> None:
    stream.flush()
    for part in parts:
        stream.buffer.write(part)
    stream.buffer.flush()


def takes_values(tool: ToolDefinition) -> bool:
    """Tell whether a step of the tool is a script with places for values."""
    action = tool.action
    if not isinstance(action, PlanAction):
        return False
    names = {*action.parameters, *(step.name for step in action.steps)}
    scripts = (shell for step in action.steps for shell in shells_of(step.command))
    return any(shell.placeholders and uses_any(shell.text, names) for shell in scripts)


def _warnings(hazards: Sequence[str], warnings: Sequence[str]) -> list[str]:
    dangers = [f"high risk: {visible(hazard)}" for hazard in hazards]
    return [*dangers, *(f"warning: {visible(warning)}" for warning in warnings)]


def arguments_of(tool: ToolDefinition, parsed: Parsed, stdin: TextIO) -> dict[str, Any]:
    """Return the arguments that `--param` and `--args` give to a call. Raises UsageError."""
    given = _from_json(parsed.options.get("--args"), stdin)
    return given | arguments_from(tool, parsed.texts("--param"), "--param")


def arguments_from(tool: ToolDefinition, pairs: Iterable[str], option: str) -> dict[str, Any]:
    """Return the arguments that texts `NAME=VALUE` give to a call of `tool`.

    `option` is where they stood, for messages. Raises UsageError, OptionError.
    """
    arguments: dict[str, Any] = {}
    properties = tool.parameters.get("properties", {})
    for text in pairs:
        name, value = split_pair(text, option)
        if (
            properties
            and name not in properties
            and not tool.parameters.get("additionalProperties")
        ):
            raise UsageError(
                f"{tool.name} has no parameter {name!r}. It has {', '.join(properties)}."
            )
        types = properties.get(name, {}).get("type", "string")
        types = [types] if isinstance(types, str) else types
        arguments[name] = typed_as_one_of(value, types, f"{option} {name}")
    return arguments


def _from_json(source: str | None, stdin: TextIO) -> dict[str, Any]:
    if source is None:
        return {}
    if source == "-":
        text, where = stdin.read(), "standard input"
    elif source.startswith("@"):
        path = Path(source[1:]).expanduser()
        text, where = read_bytes(path).decode("utf-8", "replace"), str(path)
    else:
        text, where = source, "--args"
    try:
        arguments = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{where} is not JSON: {error}") from None
    if not isinstance(arguments, dict):
        raise UsageError(f'{where} must be a JSON object, such as {{"NAME": "value"}}')
    return arguments


def _shown(display: Display) -> str:
    match display:
        case CommandDisplay(command, cwd, note):
            return "\n".join(part for part in (command, f"in {cwd}", note) if part)
        case TextDisplay(text):
            return text
        case DiffDisplay(diff=diff):
            return diff
