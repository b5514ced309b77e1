"""`opta tool …`: gives the commands their project, the person and the path of a call."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TextIO

from agent.configuration import codex_config, read_settings, tool_files
from agent.errors import USAGE, UserError
from agent.flags import CODEX_FLAGS
from agent.help_command import page
from agent.project import is_trusted, project_root
from agent.settings import Settings
from tools import storage
from tools.commands import tool as commands
from tools.commands.tool.kit import CommandError, Context, PersonExecutor
from tools.commands.tool.options import Parsed
from tools.commands.tool.store import ToolStore
from tools.definition import Invocation, Scope, ToolCall, ToolDefinition, ToolResult
from tools.engine.output import visible
from tools.engine.run import Observe
from tools.events import Emit
from tools.executor import Hooks, ToolExecutor
from tools.permissions.gate import Answer, Choice, PermissionRequest
from tools.permissions.rules import RuleSet, Verdict
from tools.registry import ToolRegistry, ToolSettings

_HELP = ("-h", "--help")
_UNBOUNDED = 1 << 30


def main(words: Sequence[str], out: TextIO) -> int:
    """Carry out `opta tool WORDS`; return the exit code. Raises UserError."""
    name, *rest = words or [""]
    if name in _HELP:
        out.write(page("tool"))
        return 0
    if name not in commands.COMMANDS:
        sys.stderr.write(page("tool"))
        raise UserError(f"there is no command `opta tool {name}`" if name else _NO_COMMAND, USAGE)
    if any(word in _HELP for word in rest[: _before_dashes(rest)]):
        out.write(page(f"tool-{name}"))
        return 0
    try:
        return commands.run(name, rest, partial(_context, out))
    except CommandError as error:
        raise UserError(str(error), error.exit_code) from None
    except storage.StorageError as error:
        raise UserError(str(error)) from None


_NO_COMMAND = "name a command, such as `opta tool list`"


def _before_dashes(words: Sequence[str]) -> int:
    return words.index("--") if "--" in words else len(words)


def _context(out: TextIO, parsed: Parsed) -> Context:
    root = project_root(parsed.options.get("--directory"))
    trusted = parsed.flag("--trust") or is_trusted(root, may_ask=False)
    flags = {name: parsed.options.get(f"--{name.replace('_', '-')}") for name in CODEX_FLAGS}
    settings = read_settings(root, flags, trusted=trusted)
    store = ToolStore(root, tool_files(root, codex_config(settings)), settings.profile)
    return Context(
        store=store,
        out=out,
        err=sys.stderr,
        stdin=sys.stdin,
        trusted=trusted,
        confirm=_confirm,
        edit=_edit,
        export=_export,
        executor=lambda tool, observe, by_hand: _executor(
            store, tool, settings, observe, trusted=trusted, by_hand=by_hand
        ),
        tokens=_tokens,
    )


def _confirm(question: str) -> bool | None:
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return None
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _edit(text: str, editor: str) -> str:
    from agent.ui.editor import EditorError, edit

    environment = {"VISUAL": editor} if editor else os.environ
    try:
        return asyncio.run(edit(text, environment, suffix=".yaml"))
    except EditorError as error:
        raise CommandError(str(error)) from error


def _export(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def _tokens(tool: ToolDefinition) -> int:
    from agent.tokens import count_text
    from tools.cost import CostMeter, Form

    costs = CostMeter(count_text).measure([tool.wire], Form.OPENAI_O200K)
    return costs.per_tool[tool.wire_name]


def _executor(
    store: ToolStore,
    tool: ToolDefinition,
    settings: Settings,
    observe: Observe | None,
    *,
    trusted: bool,
    by_hand: bool,
) -> PersonExecutor:
    """Make what runs `tool` in the workspace. Raises CommandError for one that is not trusted."""
    from tools.builtin import all_builtins
    from tools.builtin.kit import Services
    from tools.engine.environment import child_environment
    from tools.files.workspace import Workspace
    from tools.permissions.gate import PermissionGate

    if tool.origin.scope is Scope.LOCAL and not trusted:
        raise CommandError(
            f"{tool.name} belongs to this project, which is not trusted: nothing was run. Look at "
            f"it with `opta tool get {tool.name}`, then add --trust, or trust it in a chat."
        )
    others = [
        file.definition for file in store.files()
        if file.definition is not None and (trusted or file.scope is not Scope.LOCAL)
    ]  # fmt: skip
    builtins = {builtin.definition.name: builtin for builtin in all_builtins()}
    registry = ToolRegistry(
        [builtin.definition for builtin in builtins.values()],
        lambda: ([tool, *others], []),
        ToolSettings(
            {}, max_custom=_UNBOUNDED, max_execution_ms=settings.tool_settings().max_execution_ms
        ),
        lambda name, on: None,
    )
    rules = RuleSet(settings.rules, store.root)
    executor = ToolExecutor(
        registry,
        PermissionGate(rules, _ByHand(rules)),
        builtins,
        Services(
            Workspace(store.root, also_readable=(storage.output_dir(),)),
            child_environment(os.environ, secrets=[settings.api_key_env]),
        ),
        hooks=Hooks(observe=observe),
        by_hand=by_hand,
    )
    return _PersonExecutor(executor)


class _PersonExecutor:
    """Runs calls that the person makes. See `PersonExecutor`."""

    def __init__(self, executor: ToolExecutor) -> None:
        self._executor = executor

    async def run(self, call: ToolCall, emit: Emit) -> ToolResult:
        batch = self._executor.batch([call], emit)
        try:
            await batch.run()
        finally:
            batch.close()
        return batch.results()[0]

    def prepare(self, call: ToolCall) -> Invocation:
        return self._executor.prepare(self._executor.resolve(call))


class _ByHand:
    """Answers for the person, whose own act the call is, except where a person must be asked.

    That is for elevated rights, and where a deny rule may hold: those are in force by hand too.
    """

    def __init__(self, rules: RuleSet) -> None:
        self._rules = rules

    async def ask(self, request: PermissionRequest) -> Answer:
        judgement = self._rules.judge(request.call, request.invocation)
        may_be_denied = judgement is not None and judgement.rule.verdict is Verdict.DENY
        elevated = any(effect.protected for effect in request.invocation.effects)
        if not (may_be_denied or elevated):
            return Answer(Choice.ONCE)
        question = f"{visible(request.invocation.title)}: {visible(request.told_reason)}. Run it?"
        answer = await asyncio.to_thread(_confirm, question)
        if answer:
            return Answer(Choice.ONCE)
        return Answer(Choice.NO, "nobody could be asked" if answer is None else "")
