"""`opta tool …`: gives the commands their project, the person and the path of a call."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from agent.configuration import codex_config, read_settings, tool_files
from agent.errors import USAGE, UserError
from agent.flags import CODEX_FLAGS
from agent.help_command import page
from agent.project import project_root, trust_in
from agent.streams import confirm
from tools import storage
from tools.commands import tool as commands
from tools.commands.tool.kit import CommandError, Context, PersonExecutor
from tools.commands.tool.options import Parsed
from tools.commands.tool.store import ToolStore
from tools.tool_names import SESSION_NAMES

if TYPE_CHECKING:
    from types import FrameType

    from tools.definition import ToolDefinition
    from tools.engine.run import Observe

_HELP = ("-h", "--help")


def main(words: Sequence[str], out: TextIO) -> int:
    """Carry out `opta tool WORDS`; return the exit code. Raises UserError."""
    name, *rest = words or [""]
    if name in _HELP:
        out.write(page("tool"))
        return 0
    if name not in commands.COMMANDS:
        sys.stderr.write(page("tool"))
        raise UserError(
            f"there is no command `opta tool {name}`; `opta help tools` has those there are"
            if name
            else _NO_COMMAND,
            USAGE,
        )
    if any(word in _HELP for word in rest[: _before_dashes(rest)]):
        out.write(page(f"tool-{name}"))
        return 0
    _end_orderly()
    if name == "run" and rest and rest[0] in SESSION_NAMES:
        from agent.session_by_hand import run

        return run(rest, sys.stdin, out)
    if name == "run" and "--for-model" in rest[: _before_dashes(rest)]:
        from agent.serving.one_call import run as run_for_model

        return run_for_model(rest, sys.stdin, out)
    try:
        return commands.run(name, rest, partial(_context, out))
    except CommandError as error:
        raise UserError(str(error), error.exit_code) from None
    except storage.StorageError as error:
        raise UserError(str(error)) from None


def _end_orderly() -> None:
    """Let SIGTERM and the end of the terminal do what Ctrl-C does: end the steps, clean up."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        # Raised in the middle of the event loop it would leave what waits there waiting:
        # while one runs, the handler of Ctrl-C cancels the task instead.
        ctrl_c = signal.getsignal(signal.SIGINT)
        if not callable(ctrl_c):
            raise KeyboardInterrupt
        ctrl_c(signal.SIGINT, frame)

    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        # Whoever had it ignored (nohup) wants it so.
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, interrupt)


_NO_COMMAND = "name a command, such as `opta tool list`; `opta help tools` has all of them"


def _before_dashes(words: Sequence[str]) -> int:
    return words.index("--") if "--" in words else len(words)


def _context(out: TextIO, parsed: Parsed) -> Context:
    root = project_root(parsed.options.get("--directory"))
    trust = trust_in(root, given=parsed.flag("--trust"))
    trusted = trust.level.runs
    flags = {name: parsed.options.get(f"--{name.replace('_', '-')}") for name in CODEX_FLAGS}
    settings = read_settings(root, flags, trusted=trust.settings)
    places, image = tool_files(root, codex_config(settings)), settings.isolation.code_image
    store = ToolStore(root, places, settings.profile, image)

    def executor(tool: ToolDefinition, observe: Observe | None, by_hand: bool) -> PersonExecutor:
        # Only what runs a tool pays for the engine: a list is there at once.
        from agent.tool_by_hand import make_executor

        return make_executor(
            store, tool, settings, observe, trusted=trusted, by_hand=by_hand, confirm=confirm
        )

    return Context(
        store=store,
        out=out,
        err=sys.stderr,
        stdin=sys.stdin,
        trusted=trusted,
        confirm=confirm,
        edit=_edit,
        export=_export,
        executor=executor,
        tokens=_tokens,
    )


def _edit(text: str, editor: str) -> str:
    import asyncio

    from agent.ui.editor import EditorError, edit

    environment = {**os.environ, "VISUAL": editor} if editor else os.environ
    try:
        return asyncio.run(edit(text, environment, suffix=".yaml"))
    except EditorError as error:
        raise CommandError(str(error)) from error


def _export(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _tokens(tool: ToolDefinition) -> int:
    from agent.tokens import count_text
    from tools.cost import CostMeter, Form

    costs = CostMeter(count_text).measure([tool.wire], Form.OPENAI_O200K)
    return costs.per_tool[tool.wire_name]
