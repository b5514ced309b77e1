"""opta's tools for an MCP client: which are served, and their calls, through gate and journal.

Knows nothing of MCP itself. A call is found, checked, decided and run as the model's own calls
are; calls of a client may overlap, and each is a task of its own, so that whoever waits for it may
go away.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from fnmatch import fnmatchcase

from agent import streams
from agent.app import Options, build_chat
from agent.chat import Chat
from agent.events import (
    AssistantFinished,
    Event,
    Level,
    Notice,
    TurnEnd,
    TurnFinished,
    TurnStarted,
)
from agent.messages import AssistantMessage, UserMessage
from agent.project import ProjectTrust
from agent.serving.asking import Ask, ClientApprover, way_to_allow
from tools.clock import elapsed_ms
from tools.definition import JsonObject, Outcome, Source, ToolCall, ToolDefinition, ToolResult
from tools.engine.output import visible
from tools.events import CallEvent, CallFinished, CallOutput

LOOK_S = 2.0
"""How often it is looked at whether the tools have changed, in seconds."""

MOST_OF_THE_TIME = 0.02
"""Looking takes no more than this part of the time: many tools are looked at less often."""

SOURCES = (Source.CUSTOM, Source.TEAMS)
"""Which tools are served where nothing is said: what the client does not have itself."""


def served_chat(trust: ProjectTrust, options: Options, approver: ClientApprover) -> Chat:
    """Return the chat whose tools and rules hold for calls of clients. Raises UserError."""
    chat = build_chat(trust, options, approver=approver)
    chat.show_on(_tell_notices)
    if not trust.level.runs and trust.report.anything:
        streams.tell(
            "this directory is not trusted: its own tools and settings are not served; trust it "
            "in a chat, or add --trust"
        )
    return chat


def _tell_notices(event: Event) -> None:
    if isinstance(event, Notice):
        streams.tell(event.text)


class ServedTools:
    """The tools that a client is offered: those that are on, and whose names fit.

    `patterns` are globs for names, such as `*`; without any, all tools but the built-in ones.
    `renew` takes over what the settings say now. `changed` is called when the list is another.
    """

    def __init__(self, chat: Chat, patterns: Sequence[str], renew: Callable[[], None]) -> None:
        self._chat = chat
        self._patterns = tuple(patterns)
        self._renew = renew
        self._entries: object = None
        self._tools: dict[str, ToolDefinition] = {}
        self._looking = asyncio.Lock()
        self.changed: list[Callable[[], None]] = []

    @property
    def tools(self) -> dict[str, ToolDefinition]:
        """The tools by the names clients call them by; another object when it is another list."""
        entries = self._chat.registry.entries()
        if entries is not self._entries:
            self._entries = entries
            found = (entry.definition for entry in entries if entry.enabled)
            tools = {tool.wire_name: tool for tool in found if self._serves(tool)}
            if tools != self._tools:
                self._tools = tools
        return self._tools

    def unmatched(self) -> list[str]:
        """Return the patterns that no tool fits."""
        tools = self.tools.values()
        return [p for p in self._patterns if not any(_fits(tool, p) for tool in tools)]

    async def look(self) -> None:
        """Look at the project, the tool files and the settings again."""
        async with self._looking:
            before = self.tools
            self._renew()
            await self._chat.look_again()
        if self.tools is not before:
            for tell in self.changed:
                tell()

    async def watch(self) -> None:
        """Look again and again, for as long as this is not cancelled."""
        while True:
            started = time.monotonic()
            await self.look()
            await asyncio.sleep(max(LOOK_S, (time.monotonic() - started) / MOST_OF_THE_TIME))

    def _serves(self, tool: ToolDefinition) -> bool:
        if not self._patterns:
            return tool.origin.source in SOURCES
        return any(_fits(tool, pattern) for pattern in self._patterns)


def _fits(tool: ToolDefinition, pattern: str) -> bool:
    return fnmatchcase(tool.name, pattern) or fnmatchcase(tool.wire_name, pattern)


class ServedCall:
    """A call of a client. `output` is told what it prints; `task` gives its result."""

    def __init__(self, call: ToolCall) -> None:
        self.call = call
        self.output: Callable[[str], None] = lambda text: None
        self.task: asyncio.Task[ToolResult] | None = None


class ServedCalls:
    """Runs the calls of clients. What overlaps is one turn of the session."""

    def __init__(self, chat: Chat, approver: ClientApprover) -> None:
        self._chat = chat
        self._approver = approver
        self._ids = (f"mcp-{number}" for number in itertools.count(1))
        self._running: set[asyncio.Task[ToolResult]] = set()
        self._began = 0.0

    def begin(self, name: str, arguments: JsonObject, client: str, ask: Ask | None) -> ServedCall:
        """Begin a call of `client`. `ask` asks who sits before it, where somebody does."""
        made = ServedCall(ToolCall(next(self._ids), name, json.dumps(arguments)))
        if ask is not None:
            self._approver.clients[made.call.id] = ask
        if not self._running:
            self._began = time.monotonic()
            said = f"{visible(client)} calls {visible(name)}"
            self._chat.emit(TurnStarted(UserMessage(said)))
        made.task = asyncio.create_task(self._run(made))
        self._running.add(made.task)
        made.task.add_done_callback(self._ended)
        return made

    async def close(self) -> None:
        """Stop every call and all that it started."""
        running = list(self._running)
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running)

    async def _run(self, served: ServedCall) -> ToolResult:
        call = served.call

        def emit(event: CallEvent) -> None:
            if isinstance(event, CallFinished) and event.call is call:
                # A history has the message with a call before its result: calls that overlap
                # are in it in the order of their ends.
                self._chat.emit(AssistantFinished(AssistantMessage("", (call,))))
            self._chat.emit(event)
            if isinstance(event, CallOutput):
                served.output(event.text)

        try:
            (result,) = await self._chat.executor.batch([call], emit).run()
        finally:
            self._approver.clients.pop(call.id, None)
            request = self._approver.unanswered.pop(call.id, None)
        if request is None or result.outcome is not Outcome.DENIED:
            return result
        return replace(result, text=f"{result.text}\n{way_to_allow(request)}")

    def _ended(self, task: asyncio.Task[ToolResult]) -> None:
        self._running.discard(task)
        with suppress(asyncio.CancelledError):
            error = task.exception()
            if error is not None:
                self._chat.notice(f"internal error: {error}", Level.ERROR)
        if not self._running:
            took_ms = elapsed_ms(self._began)
            self._chat.emit(TurnFinished(TurnEnd.DONE, duration_ms=took_ms))
