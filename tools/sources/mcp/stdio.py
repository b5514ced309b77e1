"""Messages over the pipes of a program, as the SDK's client wants its transports.

The SDK's own transport is not used: the program has to be started with a grant, to end with all
that it started, to keep its standard error out of the terminal, and to survive being talked to by
a server that prints what is no message, never ends a line, or never stops.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from types import TracebackType
from typing import Any

from tools.engine.output import visible
from tools.engine.service import Service
from tools.sources.mcp.log import ServerLog

MAX_MESSAGE_BYTES = 8 << 20
"""The longest message that is read, in bytes."""

MAX_GARBAGE_LINES = 1000
FLOOD_MESSAGES = 10_000
FLOOD_S = 5.0
"""More than so many messages in so many seconds are a flood."""

_SHOWN_CHARACTERS = 80
_ENDS_S = 0.2


class MessageTooLong(Exception):
    """A line does not end."""


async def lines_of(read: Callable[[], Awaitable[bytes]]) -> AsyncIterator[bytes]:
    """Yield what looks like messages, one line each. Raises MessageTooLong.

    `read` returns what came next, nothing at the end.
    """
    rest = bytearray()
    while data := await read():
        start = len(rest)
        rest += data
        end = rest.rfind(b"\n", start)
        if end >= 0:
            lines = bytes(rest[:end]).split(b"\n")
            del rest[: end + 1]
            for line in lines:
                if line.strip():
                    yield line
        if len(rest) > MAX_MESSAGE_BYTES:
            raise MessageTooLong(f"a message of more than {MAX_MESSAGE_BYTES >> 20} MiB")


class StdioTransport:
    """A connection through a `Service`: use once, with `async with`.

    `start` starts the program. `fault` says what was wrong with what it sent, or nothing; `over` is
    called when no more can come.
    """

    def __init__(
        self, start: Callable[[], Service], log: ServerLog, over: Callable[[], None]
    ) -> None:
        self._start = start
        self._log = log
        self._over = over
        self._tasks: list[asyncio.Task[None]] = []
        self._streams: list[Any] = []
        self.service: Service | None = None
        self.fault = ""
        self.garbage = ""
        self._garbage_lines = 0

    async def __aenter__(self) -> tuple[Any, Any]:
        import anyio

        self.service = self._start()
        to_client, from_server = anyio.create_memory_object_stream[Any](0)
        to_server, from_client = anyio.create_memory_object_stream[Any](0)
        self._streams = [to_client, from_server, to_server, from_client]
        self._tasks = [
            asyncio.create_task(self._receive(self.service, to_client)),
            asyncio.create_task(self._send(self.service, from_client)),
        ]
        return from_server, to_server

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for stream in self._streams:
            stream.close()
        for task in self._tasks:
            task.cancel()
        if self.service is not None:
            await self.service.stop()

    async def _receive(self, service: Service, to_client: Any) -> None:
        import anyio
        from mcp.shared.message import SessionMessage
        from mcp.types import jsonrpc_message_adapter

        rate = _Rate()
        try:
            async for line in lines_of(service.read):
                if rate.exceeded():
                    self.fault = f"it sent more than {FLOOD_MESSAGES:,} messages in {FLOOD_S:.0f} s"
                    return
                try:
                    message = jsonrpc_message_adapter.validate_json(line, by_name=False)
                except ValueError:
                    if self._note_garbage(line) > MAX_GARBAGE_LINES:
                        self.fault = f"it prints text instead of messages: {self.garbage}"
                        return
                    continue
                with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                    await to_client.send(SessionMessage(message))
        except MessageTooLong as error:
            self.fault = f"it sent {error}"
        else:
            # The end of the pipe comes a moment before that of the program, which says more.
            with suppress(TimeoutError):
                async with asyncio.timeout(_ENDS_S):
                    await service.ended()
        finally:
            to_client.close()
            self._over()

    def _note_garbage(self, line: bytes) -> int:
        self._log.garbage(line)
        self._garbage_lines += 1
        if not self.garbage:
            text = visible(self._log.masker.text(line.decode("utf-8", "replace").strip()))
            more = "…" if len(text) > _SHOWN_CHARACTERS else ""
            self.garbage = f"{text[:_SHOWN_CHARACTERS]}{more}"
        return self._garbage_lines

    async def _send(self, service: Service, from_client: Any) -> None:
        async for item in from_client:
            text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
            service.write(text.encode() + b"\n")


class _Rate:
    """Counts messages in windows of FLOOD_S."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._count = 0

    def exceeded(self) -> bool:
        self._count += 1
        if self._count <= FLOOD_MESSAGES:
            return False
        now = time.monotonic()
        if now - self._began <= FLOOD_S:
            return True
        self._began, self._count = now, 0
        return False
