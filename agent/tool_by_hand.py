"""Runs a tool for `opta tool run` and `opta tool test`: the person's own act, through the gate."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import TypeAlias

from agent import log
from agent.configuration import isolation_of
from agent.settings_values import Settings
from tools import builtin, storage
from tools.actions import PlanAction, UseTool
from tools.builtin.kit import Builtin, Services
from tools.commands.tool.kit import CommandError, PersonExecutor
from tools.commands.tool.store import ToolStore
from tools.definition import Invocation, Scope, ToolCall, ToolDefinition, ToolResult
from tools.engine.environment import child_environment
from tools.engine.output import visible
from tools.engine.run import Observe
from tools.events import Emit
from tools.executor import Hooks, ToolExecutor
from tools.files.workspace import Workspace
from tools.permissions.gate import PermissionGate
from tools.permissions.question import Answer, Choice, PermissionRequest
from tools.permissions.rules import RuleSet, Verdict
from tools.registry import ToolRegistry, ToolSettings

Confirm: TypeAlias = Callable[[str], bool | None]
"""Asks the person yes or no; None where nobody can be asked."""

_UNBOUNDED = 1 << 30


def make_executor(
    store: ToolStore,
    tool: ToolDefinition,
    settings: Settings,
    observe: Observe | None,
    *,
    trusted: bool,
    by_hand: bool,
    confirm: Confirm,
) -> PersonExecutor:
    """Make what runs `tool` in the workspace, and may ask the person with `confirm`.

    Raises CommandError for a tool that is not trusted.
    """
    if tool.origin.scope is Scope.LOCAL and not trusted:
        raise CommandError(
            f"{tool.name} belongs to this project, which is not trusted: nothing was run. Look at "
            f"it with `opta tool get {tool.name}`, then add --trust, or trust it in a chat."
        )
    others: list[ToolDefinition] = []
    builtins: dict[str, Builtin] = {}
    # The tests of a tool call others than it, to clean up.
    if not by_hand or _needs_others(tool):
        others = [
            file.definition for file in store.files()
            if file.definition is not None and (trusted or file.scope is not Scope.LOCAL)
        ]  # fmt: skip
        builtins = {made.definition.name: made for made in builtin.all_builtins()}
    registry = ToolRegistry(
        [made.definition for made in builtins.values()],
        lambda: ([tool, *others], []),
        ToolSettings(
            {}, max_custom=_UNBOUNDED, max_execution_ms=settings.tool_settings().max_execution_ms
        ),
        lambda name, on: None,
    )
    rules = RuleSet(settings.rules, store.root)
    executor = ToolExecutor(
        registry,
        PermissionGate(rules, _ByHand(rules, confirm)),
        builtins,
        Services(
            Workspace(store.root, also_readable=(storage.output_dir(),)),
            child_environment(os.environ, secrets=settings.secret_variables),
            isolation=isolation_of(store.root, settings),
            masker=log.redactor().masker,
        ),
        hooks=Hooks(observe=observe),
        by_hand=by_hand,
    )
    return _PersonExecutor(executor)


def _needs_others(tool: ToolDefinition) -> bool:
    """Tell whether other tools decide what this one does, or whether it can have its name."""
    match tool.action:
        case PlanAction(steps=steps):
            uses = any(isinstance(step.command, UseTool) for step in steps)
            return uses or tool.wire_name in builtin.NAMES
    return True


class _PersonExecutor:
    """Runs calls that the person makes. See `PersonExecutor`."""

    def __init__(self, executor: ToolExecutor) -> None:
        self._executor = executor

    async def run(self, call: ToolCall, emit: Emit) -> ToolResult:
        (result,) = await self._executor.batch([call], emit).run()
        return result

    def prepare(self, call: ToolCall) -> Invocation:
        return self._executor.prepare(self._executor.resolve(call))


class _ByHand:
    """Answers for the person, whose own act the call is, except where a person must be asked.

    That is for elevated rights, and where a deny rule may hold: those are in force by hand too.
    """

    def __init__(self, rules: RuleSet, confirm: Confirm) -> None:
        self._rules, self._confirm = rules, confirm

    async def ask(self, request: PermissionRequest) -> Answer | None:
        judgement = self._rules.judge(request.call, request.invocation)
        may_be_denied = judgement is not None and judgement.rule.verdict is Verdict.DENY
        elevated = any(effect.protected for effect in request.invocation.effects)
        if not (may_be_denied or elevated):
            return Answer(Choice.ONCE)
        question = f"{visible(request.invocation.title)}: {visible(request.told_reason)}. Run it?"
        answer = await asyncio.to_thread(self._confirm, question)
        if answer is None:
            return None
        return Answer(Choice.ONCE if answer else Choice.NO)
