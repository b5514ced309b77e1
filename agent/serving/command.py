"""`opta mcp serve`: opta's tools for other agents."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from agent import streams
from agent.app import Options
from agent.chat import Chat
from agent.configuration import read_settings
from agent.errors import DONE, INTERRUPTED, USAGE, UserError
from agent.journal import SERVED
from agent.project import ProjectTrust, project_root, trust_in
from agent.serving.asking import ClientApprover
from agent.serving.calls import ServedCalls, ServedTools, served_chat
from agent.serving.http import MIN_TOKEN, Listening, listen, new_token, serve_http
from agent.serving.options import TOKEN_VARIABLE
from agent.settings_files import managed_file, user_file
from agent.settings_values import Settings
from agent.signals import cancel_on_signals
from agent.tokens import count_text
from tools.cost import CostMeter, form_of
from tools.engine.process import settle
from tools.permissions.rules import Rule

SHOWN_NAMES = 20
"""How many names are told at the start."""


def run(arguments: argparse.Namespace) -> int:
    """Serve until the client leaves or a signal comes. Raises UserError."""
    if arguments.port is not None and not (arguments.http and 0 <= arguments.port < 1 << 16):
        raise UserError("--port takes a number below 65536, and goes with --http", USAGE)
    token = _token() if arguments.http else ""
    listening = _listening(arguments.port or 0) if arguments.http else None
    root = project_root(arguments.directory)
    trust = trust_in(root, given=arguments.trust)
    options = Options.of(arguments, SERVED)
    approver = ClientApprover()
    chat = served_chat(trust, options, approver)
    renew = _Renewal(chat, trust, options)
    serving = _Serving(chat, renew, approver, arguments.tools, listening, token)
    return asyncio.run(serving.run())


def _token() -> str:
    token = os.environ.get(TOKEN_VARIABLE, "")
    if token and (len(token) < MIN_TOKEN or not token.isascii() or not token.isprintable()):
        raise UserError(f"{TOKEN_VARIABLE} must have {MIN_TOKEN} plain characters or more", USAGE)
    return token


def _listening(port: int) -> Listening:
    try:
        return listen(port)
    except OSError as error:
        raise UserError(f"port {port} cannot be used: {error.strerror or error}") from None


class _Renewal:
    """Takes over what the settings say now, where a file of them has changed.

    Rules that the person added, and tools that they switched, count from the next call on.
    """

    def __init__(self, chat: Chat, trust: ProjectTrust, options: Options) -> None:
        self._chat, self._trust, self._options = chat, trust, options
        self._seen = self._state()
        self._rules: tuple[Rule, ...] = self._read().rules

    def __call__(self) -> None:
        state = self._state()
        if state == self._seen:
            return
        self._seen = state
        try:
            settings = self._read()
        except UserError as error:
            self._chat.notice(f"the settings are not taken over: {error}")
            return
        rules = self._chat.gate.rules
        answered = [rule for rule in rules if rule not in self._rules]
        rules.use((*settings.rules, *answered))
        self._rules = settings.rules
        self._chat.registry.use_switches(settings.switches)

    def _read(self) -> Settings:
        return read_settings(self._trust.root, self._options.flags, trusted=self._trust.settings)

    def _state(self) -> tuple[object, ...]:
        files = [user_file(), managed_file(), self._trust.root / ".opta/config.yml"]
        return (self._trust.level, *map(_stamp, files))


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


class _Serving:
    """One run of the server."""

    def __init__(
        self,
        chat: Chat,
        renew: Callable[[], None],
        approver: ClientApprover,
        patterns: Sequence[str],
        listening: Listening | None,
        token: str,
    ) -> None:
        self._chat = chat
        self._renew = renew
        self._patterns = patterns
        self._listening = listening
        self._token = token
        self._calls = ServedCalls(chat, approver)

    async def run(self) -> int:
        work = asyncio.ensure_future(self._serve())
        cancel_on_signals(work)
        try:
            await work
            return DONE
        except asyncio.CancelledError:
            return INTERRUPTED
        finally:
            await self._calls.close()
            await self._chat.aclose()
            await settle()

    async def _serve(self) -> None:
        from agent.serving.sdk import Handlers

        tools = ServedTools(self._chat, self._patterns, self._renew)
        await tools.look()
        form = form_of(self._chat.model_name)
        costs = partial(CostMeter(count_text).measure, form=form)
        handlers = Handlers(tools, self._calls, costs)
        self._tell_tools(tools, costs(tool.wire for tool in tools.tools.values()).total)
        if self._chat.team is not None:
            self._chat.team.start()
        watching = asyncio.create_task(tools.watch())
        try:
            if self._listening is None:
                await _over_standard_streams(handlers.server())
            else:
                token = self._token or new_token()
                ready = partial(_tell_address, "" if self._token else token)
                await serve_http(handlers.server(), self._listening, token, ready)
        finally:
            watching.cancel()

    def _tell_tools(self, tools: ServedTools, tokens: int) -> None:
        names = list(tools.tools)
        rest = f" and {len(names) - SHOWN_NAMES} more" if len(names) > SHOWN_NAMES else ""
        listed = f": {', '.join(names[:SHOWN_NAMES])}{rest}" if names else ""
        noun = "tool" if len(names) == 1 else "tools"
        streams.tell(f"serving {len(names)} {noun} ({tokens:,} tokens){listed}")
        for pattern in tools.unmatched():
            streams.tell(
                f"no tool that is on has a name like {pattern!r}; opta tools list shows all"
            )


async def _over_standard_streams(server: Any) -> None:
    from agent.serving.stdio import standard_streams

    async with standard_streams(streams.tell) as (source, target):
        await server.run(source, target, server.create_initialization_options())


def _tell_address(token: str, address: str) -> None:
    """Print the address, and the token where it is a new one: it is shown once."""
    streams.tell(f"serving at {address} (Ctrl-C to stop)")
    if token:
        # Not through `streams.tell`, which hides what looks like a secret.
        sys.stderr.write(f"Authorization: Bearer {token}\n")
        sys.stderr.flush()
