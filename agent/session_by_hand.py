"""`opta tool run task_list …`: the tools of a task session by hand (D49), also for opencode."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from agent.configuration import read_settings
from agent.errors import DONE, FAILED, USAGE, UserError
from agent.log import redactor
from agent.project import project_root, trust_in
from agent.spec_loop import next_iteration
from tools.builtin.kit import Services
from tools.commands.tool.kit import UsageError
from tools.commands.tool.options import Option, OptionError, Parsed, count, parse
from tools.commands.tool.running import ARGUMENT_OPTIONS, arguments_of
from tools.definition import ToolCall
from tools.executor import ToolExecutor
from tools.files.workspace import Workspace
from tools.permissions.gate import PermissionGate
from tools.permissions.rules import RuleSet
from tools.registry import ToolRegistry, ToolSettings
from tools.sources.session import SessionContext, SessionTools, definitions
from tools.sources.session_log import LOG_FILE, SessionLog, SessionLogError
from tools.sources.session_store import claim, open_session, session_names, store_path

OPTIONS = (
    *ARGUMENT_OPTIONS,
    Option("--session", ("NAME",)),
    Option("--store", ("DIR",)),
    Option("--directory", ("DIR",)),
    Option("--iteration", ("N",), convert=count),
    Option("--parent-pid", ("N",), convert=count),
)


def run(words: Sequence[str], stdin: TextIO, out: TextIO) -> int:
    """Carry out `opta tool run WORDS` for a session tool; return the exit code.

    Raises UserError.
    """
    try:
        parsed = parse(words, OPTIONS)
        if len(parsed.words) > 1:
            raise OptionError(f"run takes one NAME, and {parsed.words[1]!r} is too much")
        name = parsed.words[0]
        tool = next(tool for tool in definitions() if tool.name == name)
        arguments = json.dumps(arguments_of(tool, parsed, stdin))
        root = project_root(parsed.options.get("--directory"))
        log = _open(parsed, root)
    except (OptionError, UsageError) as error:
        raise UserError(f"{error}. See `opta help loop`.", USAGE) from None
    except SessionLogError as error:
        raise UserError(str(error)) from None
    try:
        tools = SessionTools(log, _context(parsed, log))
        executor = _executor(tools, root)
        log.hide = redactor()
        call = ToolCall("by-hand", name, arguments)
        result = asyncio.run(executor.run_as_person(call, lambda event: None))
    finally:
        log.close()
    if not result.success:
        raise UserError(result.text, FAILED)
    out.write(f"{result.text}\n")
    return DONE


def _open(parsed: Parsed, root: Path) -> SessionLog:
    """Open the session named, or the one used last; adding a task to a new name begins it."""
    store, name = parsed.options.get("--store"), parsed.options.get("--session")
    if name is None:
        name = _latest(store, root)
    new = parsed.words[0] == "task_add" and name not in session_names(store, root)
    log = open_session(store, root, name, create=new)
    if new:
        claim(log.path)
    return log


def _latest(store: str | None, root: Path) -> str:
    place = store_path(store, root)
    names = session_names(store, root)
    if not names:
        raise SessionLogError(
            f"There is no session in {place}. Name a new one with --session and add a task to it, "
            "or begin with `opta loop SPEC.md`."
        )
    return max(names, key=lambda name: (place / name / LOG_FILE).stat().st_mtime)


def _context(parsed: Parsed, log: SessionLog) -> SessionContext:
    """Bind the tools to the iteration that runs. Raises UserError for a run that is over."""
    started = [frame for frame in log.frames if frame.meta.get("action") == "start"]
    parent = int(started[-1].meta.get("pid", 0)) if started else os.getpid()
    given = parsed.options.get("--parent-pid", parent)
    if given != parent:
        raise UserError(
            f"these tools were made for a run of the session {log.name} that is over. Start it "
            "again with `opta loop`, which makes them anew."
        )
    iteration = parsed.options.get("--iteration") or next_iteration(log.frames)
    return SessionContext(log.store, log.name, iteration, given)


def _executor(tools: SessionTools, root: Path) -> ToolExecutor:
    settings = read_settings(root, {}, trusted=trust_in(root, given=False).settings)
    rules = RuleSet(settings.rules, root)
    builtins = {made.definition.name: made for made in tools.builtins()}
    registry = ToolRegistry(
        [made.definition for made in builtins.values()],
        lambda: ([], []),
        ToolSettings({}),
        lambda name, on: None,
    )
    services = Services(Workspace(root), {}, rules)
    return ToolExecutor(registry, PermissionGate(rules), builtins, services)
