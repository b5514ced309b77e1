"""Messages over opta's own standard streams, which then hold nothing else.

The SDK's transport is not used: it reads in a thread that nothing ends, so that opta could not be
stopped while the client is silent, and it takes messages of any length.
"""

from __future__ import annotations

import asyncio
import os
import queue
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from tools.engine.pipes import CHUNK_BYTES
from tools.sources.mcp.stdio import MessageTooLong, lines_of

_AHEAD = 4


@asynccontextmanager
async def standard_streams(tell: Callable[[str], None]) -> AsyncIterator[tuple[Any, Any]]:
    """Yield what the SDK's server reads from and writes to; `tell` hears why it ended early.

    Meanwhile standard input is empty, and what is printed goes to standard error: nothing but
    messages reaches the client, whatever is called.
    """
    import anyio

    wire = _Wire(*_claimed())
    to_server, from_client = anyio.create_memory_object_stream[Any](0)
    to_client, from_server = anyio.create_memory_object_stream[Any](0)
    tasks = [
        asyncio.create_task(_receive(wire, to_server, tell)),
        asyncio.create_task(_send(wire, from_server, to_server)),
    ]
    try:
        yield from_client, to_client
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for stream in (to_server, from_client, to_client, from_server):
            stream.close()


def _claimed() -> tuple[int, int]:
    """Take the standard streams away from everything else; return what they were."""
    taken = os.dup(0), os.dup(1)
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    os.dup2(2, 1)
    return taken


async def _receive(wire: _Wire, to_server: Any, tell: Callable[[str], None]) -> None:
    import anyio
    from mcp.shared.message import SessionMessage
    from mcp.types import jsonrpc_message_adapter

    try:
        async for line in lines_of(wire.read):
            try:
                message: Any = jsonrpc_message_adapter.validate_json(line, by_name=False)
            except ValueError as error:
                message = error
            with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                await to_server.send(
                    message if isinstance(message, Exception) else SessionMessage(message)
                )
    except MessageTooLong as error:
        tell(f"the client sent {error}: its connection is closed")
    finally:
        to_server.close()


async def _send(wire: _Wire, from_server: Any, to_server: Any) -> None:
    try:
        async for item in from_server:
            text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
            await wire.write(text.encode() + b"\n")
    except OSError:
        # Nobody reads any more: that is the end, as if nobody wrote.
        to_server.close()


class _Wire:
    """Two descriptors, each served by a thread that may block; neither keeps opta from ending."""

    def __init__(self, source: int, target: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._chunks: asyncio.Queue[bytes] = asyncio.Queue()
        self._ahead = threading.Semaphore(_AHEAD)
        self._writes: queue.SimpleQueue[tuple[bytes, asyncio.Future[None]]] = queue.SimpleQueue()
        for work, descriptor in ((self._read_all, source), (self._write_all, target)):
            threading.Thread(target=work, args=(descriptor,), daemon=True).start()

    async def read(self) -> bytes:
        """Return what came next; nothing at the end."""
        data = await self._chunks.get()
        self._ahead.release()
        return data

    async def write(self, data: bytes) -> None:
        """Write all of it. Raises OSError where nobody reads."""
        written = self._loop.create_future()
        self._writes.put((data, written))
        await written

    def _read_all(self, descriptor: int) -> None:
        data = b"-"
        while data:
            self._ahead.acquire()
            try:
                data = os.read(descriptor, CHUNK_BYTES)
            except OSError:
                data = b""
            self._tell(self._chunks.put_nowait, data)

    def _write_all(self, descriptor: int) -> None:
        while True:
            data, written = self._writes.get()
            try:
                rest = memoryview(data)
                while rest:
                    rest = rest[os.write(descriptor, rest) :]
            except OSError as error:
                self._tell(_settle, written, error)
            else:
                self._tell(_settle, written, None)

    def _tell(self, call: Any, *arguments: Any) -> None:
        # At the very end the loop is closed already.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(call, *arguments)


def _settle(written: asyncio.Future[None], error: OSError | None) -> None:
    if written.done():
        return
    if error is None:
        written.set_result(None)
    else:
        written.set_exception(error)
