"""Serves a running program over its channel: starts it, answers what it asks, takes its result."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from tools.code.channel import Channel, ChannelError
from tools.code.host import Asked, Host
from tools.definition import Invocation, JsonObject, ResolvedCall, ToolError, ToolResult
from tools.files.workspace import FileProblem

Ask: TypeAlias = Callable[[ResolvedCall, Invocation], Awaitable[ToolResult]]
"""Decides and runs a call that a program makes, as one of the model's is."""

MAX_ASKED = 16
"""How many calls of one program are under way at a time; what else it sends waits."""

_LAST = frozenset({"returned", "threw", "unusable"})


class Refused(Exception):
    """The person refused a call of the program without a word, which ends the turn."""

    def __init__(self, result: ToolResult) -> None:
        super().__init__(result.text)
        self.result = result


class Serving:
    """The program of one call, as opta sees it."""

    def __init__(self, start: JsonObject, host: Host, ask: Ask) -> None:
        """Serve a program that `start`, a frame, starts."""
        self._start = start
        self._host = host
        self._ask = ask
        self._places = asyncio.Semaphore(MAX_ASKED)
        self._asked: set[asyncio.Task[None]] = set()
        self._waited_s = 0.0
        self._waiting_since: float | None = None
        self._refused: asyncio.Future[JsonObject | None] = asyncio.Future()

    def waited_s(self) -> float:
        """Return for how long the program has waited for what it asked for, in seconds."""
        since = self._waiting_since
        return self._waited_s + (0.0 if since is None else time.monotonic() - since)

    async def run(self, channel: Channel) -> JsonObject | None:
        """Start the program and return its last frame, None where it ends without one.

        Raises ChannelError, Refused. What it still asked for then is stopped.
        """
        frames = asyncio.ensure_future(self._frames(channel))
        try:
            await asyncio.wait((frames, self._refused), return_when=asyncio.FIRST_COMPLETED)
            return self._refused.result() if self._refused.done() else frames.result()
        finally:
            tasks = [frames, *self._asked]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _frames(self, channel: Channel) -> JsonObject | None:
        async for frame in channel.open():
            kind = frame.get("type")
            if kind in _LAST:
                return frame
            if kind == "ready":
                channel.send(self._start)
            elif kind == "ask":
                await self._places.acquire()
                self._begin(frame, channel)
            else:
                raise ChannelError(f"sent a frame that is not known: {str(kind)[:40]!r}")
        return None

    def _begin(self, frame: JsonObject, channel: Channel) -> None:
        if not self._asked:
            self._waiting_since = time.monotonic()
        task = asyncio.create_task(self._answer(frame, channel))
        self._asked.add(task)
        task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[None]) -> None:
        self._asked.discard(task)
        self._places.release()
        if not self._asked:
            self._waited_s, self._waiting_since = self.waited_s(), None

    async def _answer(self, frame: JsonObject, channel: Channel) -> None:
        answer: JsonObject
        try:
            answer = {"value": await self._value(frame)}
        except (ToolError, FileProblem) as error:
            answer = {"error": str(error)}
        except Refused as error:
            if not self._refused.done():
                self._refused.set_exception(error)
            return
        channel.send({"id": frame.get("id"), **answer})

    async def _value(self, frame: JsonObject) -> object:
        asked: Asked = await asyncio.to_thread(
            self._host.prepare, frame.get("method"), frame.get("params")
        )
        result = await self._ask(asked.call, asked.invocation)
        if result.stop_turn:
            raise Refused(result)
        if asked.given and (result.success or asked.given[0] is not None):
            return asked.given[0]
        raise ToolError(result.text)
