"""Runs `opta loop`: opens the session, builds the chat, shows the run, says how it ended."""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import shutil
import sys
import time
from collections.abc import Callable
from contextlib import closing, nullcontext
from pathlib import Path
from typing import TextIO

from agent.app import Options, build_chat
from agent.batch import tell_trust
from agent.chat import Chat, start_sources
from agent.errors import DONE, FAILED, INTERRUPTED, LIMIT, NEEDS_PERMISSION, USAGE, UserError
from agent.journal import LOOP
from agent.log import redactor
from agent.project import project_root, trust_in
from agent.signals import cancel_on_signals
from agent.spec_loop import MAX_ITERATIONS, Budget, LoopEnd, Run, Spec, SpecLoop, torn_iteration
from agent.ui.loop_view import JsonLoopView, TerminalLoopView
from tools.engine.process import settle
from tools.sources.opencode import session_file
from tools.sources.session import SessionContext, SessionTools
from tools.sources.session_log import SessionLog
from tools.sources.session_store import claim, is_own, open_session, take_opencode, write_opencode

TICK_S = 1.0
_LOCK_TRIES, _LOCK_PAUSE_S = 5, 0.1


def run_loop(arguments: argparse.Namespace, out: TextIO) -> int:
    """Run what the parsed command line asks for; return the exit code.

    Raises UserError, SessionLogError.
    """
    root = project_root(arguments.directory)
    path = Path(arguments.spec).expanduser()
    shown = path.absolute()
    name = str(shown.relative_to(root) if shown.is_relative_to(root) else path)
    spec = Spec(path, name)
    log = open_session(arguments.store, root, _session_name(arguments))
    try:
        _take(log, trusted=arguments.trust)
        with closing(take_opencode(root)) if arguments.opencode else nullcontext():
            return asyncio.run(_loop(arguments, spec, log, root, out))
    finally:
        log.close()


def _take(log: SessionLog, *, trusted: bool) -> None:
    """Take the session for this process. Raises UserError."""
    if not _locked(log):
        running = next((f.meta.get("pid") for f in reversed(log.frames) if "pid" in f.meta), "?")
        raise UserError(
            f"the session {log.name} is being run by another opta (process {running}). Wait for "
            "it, or start a session of another name with --name."
        )
    if log.frames and not trusted and not is_own(log.path):
        raise UserError(
            f"{log.path} was not written by opta on this machine: its tasks would tell the model "
            f"what to do. Look at it with `opta loop log {log.name}`; --trust goes on with it."
        )
    claim(log.path)
    log.end_line()


def _locked(log: SessionLog) -> bool:
    # `opta loop status` holds the lock for a moment, to see whether it is free.
    for _ in range(_LOCK_TRIES):
        if log.lock():
            return True
        time.sleep(_LOCK_PAUSE_S)
    return False


async def _loop(
    arguments: argparse.Namespace, spec: Spec, log: SessionLog, root: Path, out: TextIO
) -> int:
    tools = SessionTools(log, SessionContext(log.store, log.name, 0, os.getpid()))
    trust = trust_in(root, given=arguments.trust, remembered=False)
    chat = build_chat(
        trust,
        Options.of(arguments, LOOP),
        session_tools=tools.builtins(),
    )
    log.hide = redactor()
    budget = _budget(arguments, chat)
    kind = JsonLoopView if arguments.output_format == "json" else TerminalLoopView
    view = kind(out, sys.stderr, budget.iterations)
    chat.show_on(view.emit)
    tell_trust(chat, trust, given=arguments.trust)
    _tell_log(chat, log)
    start_sources(chat)
    prepare = _opencode_writer(root, tools) if arguments.opencode else _nothing
    work = asyncio.ensure_future(SpecLoop(chat, tools, spec, budget, view, prepare).run())
    cancel_on_signals(work)
    ticking = asyncio.ensure_future(_tick(view))
    try:
        done = await work
    finally:
        ticking.cancel()
        await chat.aclose()
        await settle()
    code = _exit_code(done)
    view.summarise(done, code)
    return code


def _tell_log(chat: Chat, log: SessionLog) -> None:
    if log.damaged:
        chat.notice(log.damaged)
    torn = torn_iteration(log.frames)
    if torn and not any(frame.kind == "control" for frame in torn):
        number = torn[0].meta.get("iteration")
        chat.notice(f"iteration #{number} was stopped before its end: it is run again")


def _nothing() -> None:
    """Nothing else is made for an iteration."""


def _opencode_writer(root: Path, tools: SessionTools) -> Callable[[], None]:
    program = shutil.which(sys.argv[0]) or sys.argv[0]
    launcher = str(Path(program).absolute())
    opta = [sys.executable, launcher] if launcher.endswith(".py") else [launcher]

    def write() -> None:
        write_opencode(root, session_file(tools.context, opta))

    return write


async def _tick(view: TerminalLoopView) -> None:
    while True:
        await asyncio.sleep(TICK_S)
        view.tick()


def _budget(arguments: argparse.Namespace, chat: Chat) -> Budget:
    iterations = arguments.max_iterations or (None if arguments.until_complete else MAX_ITERATIONS)
    tokens = arguments.loop_tokens or chat.limits.max_tokens_total
    return Budget(iterations, arguments.loop_turns, tokens, arguments.max_time)


def _exit_code(run: Run) -> int:
    codes: dict[LoopEnd, int] = {
        LoopEnd.COMPLETE: DONE,
        LoopEnd.FAILED: FAILED,
        LoopEnd.UNUSABLE: USAGE,
        LoopEnd.DENIED: NEEDS_PERMISSION,
        LoopEnd.CANCELLED: INTERRUPTED,
    }
    return codes.get(run.end, LIMIT)


def _session_name(arguments: argparse.Namespace) -> str:
    if arguments.name is not None:
        return str(arguments.name)
    stem = re.sub(r"[^A-Za-z0-9._-]+", "-", Path(arguments.spec).stem)
    return stem.strip("-.")[:64] or "spec"
