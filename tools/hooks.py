"""Runs the person's programs around calls and turns: to be told, or to deny a call (X30).

A hook gets one JSON object on standard input, in a process group of its own, with a deadline and
without provider keys. It can make a call not happen, never make one happen: the gate decides
after it. One that fails, hangs or is missing is told of and stops nothing, unless it is required.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from tools.actions import BuiltinAction
from tools.clock import elapsed_ms
from tools.definition import (
    CommandDisplay,
    Effect,
    EffectKind,
    Invocation,
    JsonObject,
    Origin,
    Progress,
    ResolvedCall,
    Source,
    ToolDefinition,
    ToolResult,
)
from tools.engine.output import one_line, visible
from tools.engine.process import ProcessResult, ProcessSpec, ProcessStartError, run_process
from tools.events import Emit, HookFinished
from tools.hook_settings import HookCommand, HookSettings
from tools.permissions.gate import PermissionGate
from tools.permissions.grant import Grant
from tools.record import record

DENIED_CODE = 2
"""The exit code with which a `pre_tool` hook denies a call; its standard error is the reason."""

MAX_TEXT_CHARS = 16 * 1024
"""How much of a result's text a hook is told."""

_REASON_CHARS = 1000
_TOOL = ToolDefinition(
    "hook", "Tell a program of a call or a turn.", {}, BuiltinAction("hook"),
    Origin(Source.BUILTIN, "opta"),
)  # fmt: skip


@record
class Refusal:
    """A call that a hook denied: the hook, and its reason in words."""

    by: str
    reason: str


@record
class _Answer:
    """How a hook ended. `problem` says why it did not do its work, empty when it did."""

    problem: str = ""
    exit_code: int | None = None
    output: bytes = b""
    errors: bytes = b""


class HookRunner:
    """Runs the hooks of a chat.

    `tell` shows a line to the person, `about` says which session it is: a front end sets them.
    """

    def __init__(
        self,
        settings: HookSettings,
        gate: PermissionGate,
        root: Path,
        env: Mapping[str, str],
        trusted: Callable[[], bool],
    ) -> None:
        self.tell: Callable[[str], None] = lambda text: None
        self.about: Callable[[], JsonObject] = dict
        self._settings = settings
        self._gate = gate
        self._root = root
        self._env = env
        self._trusted = trusted
        self._count = 0
        self._told: set[tuple[HookCommand, str]] = set()

    async def refusal(self, call: ResolvedCall, emit: Emit) -> Refusal | None:
        """Ask the `pre_tool` hooks, in their order, whether a call may be; the first no counts."""
        for hook in self._wanted(self._settings.pre_tool, call):
            answer = await self._run(hook, "pre_tool", self._call(call), call.id, emit)
            reason = _denial(answer)
            if answer.problem and hook.required:
                reason = f"it is required, and {answer.problem}"
            if reason:
                return Refusal(hook.line, reason)
        return None

    async def before(self, call: ResolvedCall, emit: Emit) -> None:
        """Tell of a call that was allowed and is about to run."""
        for hook in self._wanted(self._settings.tool, call):
            await self._run(hook, "before_execution", self._call(call), call.id, emit)

    async def after(self, call: ResolvedCall, result: ToolResult, emit: Emit) -> None:
        """Tell how a call ended."""
        outcome = {
            "status": result.outcome.value,
            "success": result.success,
            "exit_code": result.exit_code,
            "duration_ms": result.duration_ms,
            "text": result.text[:MAX_TEXT_CHARS],
        }
        for hook in self._wanted(self._settings.tool, call):
            payload = {**self._call(call), "outcome": outcome}
            await self._run(hook, "after_execution", payload, call.id, emit)

    async def stopped(self, summary: JsonObject, emit: Emit) -> None:
        """Tell that a turn is over."""
        for hook in self._settings.stop:
            if self._counts(hook):
                await self._run(hook, "stop", summary, "", emit)

    def _wanted(self, hooks: tuple[HookCommand, ...], call: ResolvedCall) -> list[HookCommand]:
        names = {call.tool.name, call.tool.wire_name}
        return [
            hook for hook in hooks
            if self._counts(hook) and (
                not hook.tools
                or any(fnmatchcase(name, glob) for name in names for glob in hook.tools)
            )
        ]  # fmt: skip

    def _counts(self, hook: HookCommand) -> bool:
        return not hook.project or self._trusted()

    def _call(self, call: ResolvedCall) -> JsonObject:
        return {
            "tool_name": call.tool.name,
            "source": call.tool.origin.source.value,
            "call_id": call.id,
            "arguments": call.arguments,
        }

    async def _run(
        self, hook: HookCommand, phase: str, payload: JsonObject, call_id: str, emit: Emit
    ) -> _Answer:
        started = time.monotonic()
        value = {"phase": phase, "cwd": str(self._root), **self.about(), **payload}
        answer = await self._answer(hook, json.dumps(value, default=str).encode() + b"\n")
        refused = phase == "pre_tool" and bool(_denial(answer))
        if answer.exit_code and not refused and not answer.problem:
            answer = _Answer(f"it ended with exit code {answer.exit_code}{_said(answer.errors)}")
        took_ms = elapsed_ms(started)
        emit(HookFinished(phase, hook.line, call_id, answer.problem, refused, took_ms))
        # Once is enough to act on; every run is in the journal.
        if answer.problem and (hook, answer.problem) not in self._told:
            self._told.add((hook, answer.problem))
            self.tell(f"hook {visible(hook.line)} ({hook.source}): {visible(answer.problem)}")
        return answer

    async def _answer(self, hook: HookCommand, data: bytes) -> _Answer:
        self._count += 1
        call = ResolvedCall(f"hook-{self._count}", _TOOL, {"argv": list(hook.argv)})
        spec = ProcessSpec(hook.argv, hook.cwd, self._env, hook.timeout_ms, stdin=data)
        answers: list[_Answer] = []

        async def run(grant: Grant, progress: Progress) -> ToolResult:
            answers.append(_ended(await run_process(grant, call, spec), hook))
            return ToolResult(hook.line)

        effect = Effect(EffectKind.EXECUTE, hook.line, "run_command")
        shown = CommandDisplay(hook.line, str(hook.cwd))
        invocation = Invocation(hook.line, (effect,), shown, run)
        decision = self._gate.authorise_configured(call, invocation, f"hook of {hook.source}")
        if decision.grant is None:
            return _Answer(f"the {decision.by} denies it")
        try:
            await invocation.run(decision.grant, lambda text: None)
        except ProcessStartError as error:
            return _Answer(f"it could not be started: {error}")
        return answers[0]


def _ended(process: ProcessResult, hook: HookCommand) -> _Answer:
    if process.timed_out:
        return _Answer(f"it took more than {hook.timeout_ms / 1000:g} s and was ended")
    if process.signal is not None:
        return _Answer(f"it was ended by signal {process.signal_name}")
    return _Answer("", process.exit_code, process.stdout.head, process.stderr.head)


def _denial(answer: _Answer) -> str:
    """Return why a `pre_tool` hook denies a call, or nothing where it does not."""
    if answer.problem:
        return ""
    if answer.exit_code == DENIED_CODE:
        return _text(answer.errors) or "it gave no reason"
    if answer.exit_code != 0:
        return ""
    try:
        said: Any = json.loads(answer.output or b"null")
    except (ValueError, RecursionError):
        return ""
    if not isinstance(said, dict) or said.get("decision") not in ("deny", "block"):
        return ""
    reason = said.get("reason")
    return _text(reason.encode()) if isinstance(reason, str) and reason else "it gave no reason"


def _said(errors: bytes) -> str:
    text = _text(errors)
    return f": {text}" if text else ""


def _text(data: bytes) -> str:
    return one_line(data.decode("utf-8", "replace"), _REASON_CHARS)
