"""What a program may ask of opta: files of the workspace, commands, the model.

Everything asked for becomes a call like one of the model's, under the name of the built-in that
does the same: rules about reading, writing and commands hold for programs as well (E65-E67).
"""

from __future__ import annotations

import asyncio
import base64
import os
import shlex
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import cache, partial
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

from tools.builtin import read_file, run_command, write_file
from tools.builtin.change import Change, changing
from tools.builtin.kit import Services, define
from tools.builtin.run_command import DEFAULT_TIMEOUT_S, MAX_TIMEOUT_S
from tools.builtin.running import Command, running, shell_argv, working_directory
from tools.definition import (
    CommandDisplay,
    Effect,
    EffectKind,
    Invocation,
    JsonObject,
    Progress,
    ResolvedCall,
    Risk,
    TextDisplay,
    ToolDefinition,
    ToolError,
    ToolResult,
)
from tools.engine.capture import Captured
from tools.engine.process import ProcessResult
from tools.files.gitignore import Ignores
from tools.files.globs import GlobProblem, Globs
from tools.files.paths import is_within
from tools.files.walk import walk
from tools.files.workspace import FileProblem, Workspace
from tools.permissions.allowlist import Allowlist
from tools.permissions.grant import Grant
from tools.record import record

AskModel: TypeAlias = Callable[[str, str], Awaitable[str]]
"""Sends a system prompt and a text to the model and returns its answer. Raises ToolError."""

MAX_FILE_BYTES = 8 * 1024 * 1024
MAX_OUTPUT_BYTES = 8 * 1024 * 1024
"""How much of each stream of a command a program gets; more is told of as cut off."""

MAX_FOUND = 10_000
"""How many names a search for files gives."""

_SEARCH_S = 10.0


MODEL = "llm"
"""By what name rules speak of questions that programs send to the model (E11)."""

_MODEL_TOOL = define(MODEL, "Ask the model.", {"prompt": {}, "system": {}}, [], risk=Risk.MEDIUM)


@record
class Asked:
    """A call that a program wants. `given` holds the value for the program once it has run."""

    call: ResolvedCall
    invocation: Invocation
    given: list[Any]


class Host:
    """Prepares what the program of one call asks for.

    `allowlist` are the only commands it may ask for; None leaves them to the permissions.
    """

    def __init__(
        self,
        call: ResolvedCall,
        services: Services,
        allowlist: tuple[str, ...] | None,
        ask_model: AskModel | None = None,
    ) -> None:
        self._call = call
        self._ask_model = ask_model
        self._services = services
        self._allowlist = None if allowlist is None else Allowlist(allowlist, call.tool.name)
        self._count = 0
        self._methods: Mapping[str, Callable[..., Asked]] = {
            "fs.readFile": self._read,
            "fs.writeFile": self._write,
            "fs.exists": partial(self._look, "Look for", _exists),
            "fs.readdir": partial(self._look, "List", _names),
            "fs.glob": self._glob,
            "executor.execute": self._execute,
            "llm.complete": self._complete,
        }

    def prepare(self, method: object, params: object) -> Asked:
        """Say what would be done. Raises ToolError, FileProblem for what cannot or may not be."""
        known = self._methods.get(method) if isinstance(method, str) else None
        if known is None:
            raise ToolError(f"There is no {str(method)[:60]!r} to ask for.")
        try:
            return known(*params if isinstance(params, list) else ())
        except TypeError as error:
            raise ToolError(f"{method} was called with what it does not take: {error}") from None

    def _read(self, path: str, encoding: str | None = None) -> Asked:
        encoding = encoding or "utf-8"
        if encoding not in ("utf-8", "utf8", "base64"):
            raise ToolError(f"The encoding {encoding[:20]!r} is not known: utf-8 or base64.")

        def content(workspace: Workspace, place: Path) -> str:
            data, _ = workspace.peek(place, MAX_FILE_BYTES)
            if encoding == "base64":
                return base64.b64encode(data).decode()
            try:
                return data.decode()
            except UnicodeDecodeError:
                raise FileProblem(
                    f"{workspace.shown(place)} is not UTF-8. Read it with the encoding base64."
                ) from None

        return self._look("Read", content, path)

    def _look(self, title: str, look: Callable[[Workspace, Path], Any], path: str) -> Asked:
        """Ask to read what is at a path."""
        workspace, asked = self._unseen(), _text(path, "a path")
        place = self._inside(asked)
        call = self._made(_definition(read_file), {"path": asked})
        given: list[Any] = []

        async def run(grant: Grant, progress: Progress) -> ToolResult:
            grant.check(call)
            given.append(await asyncio.to_thread(look, workspace, place))
            return ToolResult("(given to the program)")

        title = f"{title} {workspace.shown(place)}"
        effect = workspace.effect(EffectKind.READ, place, call.tool.name, asked)
        return self._asked(call, Invocation(title, (effect,), TextDisplay(title), run), given)

    def _glob(self, pattern: str, path: str = ".") -> Asked:
        try:
            globs = Globs([_text(pattern, "a pattern")])
        except GlobProblem as error:
            raise ToolError(str(error)) from None
        return self._look(f"Find {pattern} in", partial(_found, globs), path)

    def _write(self, path: str, content: str) -> Asked:
        asked, text = _text(path, "a path"), _text(content, "the content")
        self._inside(asked)
        call = self._made(_definition(write_file), {"path": asked, "content": text})
        try:
            data = text.encode()
        except UnicodeEncodeError as error:
            raise ToolError(f"The content is not text: {error.reason}.") from None
        summary = f"Wrote {len(data):,} bytes."
        change = Change(text, data, summary, show_diff=False)
        services = replace(self._services, workspace=self._unseen())
        invocation = changing(call, services, "Write", lambda target: change)
        return self._asked(call, invocation, [None])

    def _execute(self, command: Any, args: Any = None, options: Any = None) -> Asked:
        """Ask for a command: `execute(command, args)` or `execute({command, args, cwd})` (X63).

        With arguments it is a program, without any it is text for a shell.
        """
        wish = {**_map(options), "command": command, "args": args}
        if isinstance(command, dict):
            wish = {**command}
        program, words = _text(wish.get("command"), "a command"), _words(wish.get("args"))
        if not program.strip():
            raise ToolError("The command is empty.")
        line = program if words is None else shlex.join((program, *words))
        argv = (*shell_argv(self._services), line) if words is None else (program, *words)
        cwd = self._directory(wish.get("cwd"))
        arguments = {"command": line, "workdir": str(cwd)}
        call = self._made(_definition(run_command), arguments)
        given: list[Any] = []
        wanted = Command(line, argv, cwd, _timeout_ms(wish.get("timeout")), merged=False)
        invocation = running(
            call, self._services, wanted, lambda process: given.append(_ended(process))
        )
        if self._allowlist is not None:
            part = self._allowlist.refused(invocation, self._services.workspace.root)
            if part:
                raise ToolError(
                    f"{self._call.tool.name} may not run `{part}`: its allowlist has only "
                    f"{self._allowlist.shown}. Nothing was run."
                )
        return self._asked(call, invocation, given)

    def _complete(self, prompt: Any, system: str | None = None) -> Asked:
        """Ask the model: `complete(prompt)` or `complete({prompt, system})`."""
        wish = prompt if isinstance(prompt, dict) else {"prompt": prompt, "system": system}
        text, system = (
            _text(wish.get("prompt"), "a prompt"),
            _text(wish.get("system") or "", "a text"),
        )
        ask = self._ask_model
        if ask is None:
            raise ToolError("There is no model to ask here: only a conversation has one.")
        call = self._made(_MODEL_TOOL, {"prompt": text, "system": system})
        given: list[Any] = []

        async def run(grant: Grant, progress: Progress) -> ToolResult:
            grant.check(call)
            given.append(await ask(system, text))
            return ToolResult("(given to the program)")

        shown = "\n\n".join(filter(None, (system, text)))
        effect = Effect(EffectKind.PROGRAM, MODEL, MODEL)
        return self._asked(
            call, Invocation("Ask the model", (effect,), TextDisplay(shown), run), given
        )

    def _directory(self, asked: Any) -> Path:
        workspace = self._services.workspace
        if asked is None:
            return workspace.root
        return working_directory(workspace, str(self._inside(_text(asked, "a directory"))))

    def _inside(self, asked: str) -> Path:
        """Return the real path. Raises FileProblem where it is not in the workspace (E65)."""
        workspace = self._services.workspace
        path = workspace.resolve(asked)
        if not is_within(path, workspace.root):
            raise FileProblem(f"{workspace.shown(path)} is outside the workspace: not allowed.")
        return path

    def _unseen(self) -> Workspace:
        """Return the workspace, nothing read: what a program knows of files the model does not."""
        return Workspace(self._services.workspace.root)

    def _made(self, tool: ToolDefinition, arguments: JsonObject) -> ResolvedCall:
        self._count += 1
        return self._call.made(self._count, tool, arguments)

    def _asked(self, call: ResolvedCall, invocation: Invocation, given: list[Any]) -> Asked:
        """Let the person see which tool it is that asks."""
        name, shown = self._call.tool.name, invocation.preview
        if isinstance(shown, CommandDisplay):
            note = "; ".join(filter(None, (f"asked for by {name}", shown.note)))
            shown = replace(shown, note=note)
        title = f"{name}: {invocation.title}"
        return Asked(call, replace(invocation, title=title, preview=shown), given)


@cache
def _definition(builtin: ModuleType) -> ToolDefinition:
    """Return the tool whose rules a wish is held to."""
    made: ToolDefinition = builtin.tool().definition
    return made


def _exists(workspace: Workspace, place: Path) -> bool:
    return place.exists()


def _names(workspace: Workspace, place: Path) -> list[str]:
    try:
        return sorted(os.listdir(place))  # noqa: PTH208 - names are wanted
    except OSError as error:
        raise FileProblem(
            f"Cannot list {workspace.shown(place)}: {(error.strerror or str(error)).lower()}."
        ) from None


def _found(globs: Globs, workspace: Workspace, place: Path) -> list[str]:
    """Return the files below a directory that match, relative to it; ignored ones are left out."""
    deadline = time.monotonic() + _SEARCH_S
    ignores = Ignores.above(place, workspace.root)
    entries = walk(place, ignores, lambda: time.monotonic() < deadline)
    matching = (e.relative for e in entries if not e.is_directory and globs.matches(e.relative))
    found = list(islice(matching, MAX_FOUND))
    if time.monotonic() >= deadline:
        raise FileProblem(f"There is too much in {workspace.shown(place)} to search all of it.")
    return found


def _ended(process: ProcessResult) -> JsonObject:
    """Return how a command ended, as a program sees it; a signal counts 128 and its number."""
    code = process.exit_code if process.exit_code is not None else 128 + (process.signal or 0)
    stdout, whole = _output(process.stdout)
    stderr, whole_errors = _output(process.stderr)
    return {
        "stdout": stdout, "stderr": stderr, "exitCode": code, "timedOut": process.timed_out,
        "truncated": not (whole and whole_errors), "duration": process.duration_ms,
    }  # fmt: skip


def _output(captured: Captured) -> tuple[str, bool]:
    data = captured.head + captured.tail
    if captured.total_bytes > len(data) and captured.spool is not None:
        with captured.spool.open("rb") as file:
            data = file.read(MAX_OUTPUT_BYTES)
    return data.decode("utf-8", "replace"), len(data) == captured.total_bytes


def _timeout_ms(value: Any) -> int:
    if value is None:
        return DEFAULT_TIMEOUT_S * 1000
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ToolError("timeout must be a number of ms.")
    if not 0 < value <= MAX_TIMEOUT_S * 1000:
        raise ToolError(f"timeout must be more than 0 and at most {MAX_TIMEOUT_S * 1000} ms.")
    return max(1, round(value))


def _text(value: Any, what: str) -> str:
    if not isinstance(value, str):
        raise ToolError(f"It takes {what} as text, not {type(value).__name__}.")
    return value


def _words(value: Any) -> list[str] | None:
    if value is None:
        return None
    if not isinstance(value, list):
        raise ToolError("The arguments of a command must be a list of texts.")
    return [_text(word, "each argument") for word in value]


def _map(value: Any) -> JsonObject:
    return value if isinstance(value, dict) else {}
