"""The requests to one server that wait for an answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")


class CallTimeout(Exception):
    """A server did not answer in time."""


class Pending:
    """Sends requests and waits for them; who gives up waiting is not kept by what comes then."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Future[Any]] = set()
        self._asking = 0

    async def answer(self, request: Awaitable[T], timeout_ms: int) -> T:
        """Wait for an answer. Raises CallTimeout, and what the request raises.

        A request that is given up is cancelled, of which the SDK tells the server.
        """
        task = asyncio.ensure_future(request)
        self._keep(task)
        try:
            await self._wait_for(task, timeout_ms / 1000)
        except BaseException:
            task.cancel()
            raise
        return task.result()

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something in the background."""
        self._keep(asyncio.create_task(work))

    def cancel(self) -> None:
        """Give up everything."""
        for task in self._tasks:
            task.cancel()

    @contextmanager
    def asking(self) -> Iterator[None]:
        """The person is asked on behalf of the server: that time is not the server's own."""
        self._asking += 1
        try:
            yield
        finally:
            self._asking -= 1

    async def _wait_for(self, task: asyncio.Future[Any], seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not task.done():
            left = deadline - time.monotonic()
            if self._asking:
                deadline, left = time.monotonic() + seconds, seconds
            elif left <= 0:
                raise CallTimeout
            await asyncio.wait({task}, timeout=left)

    def _keep(self, task: asyncio.Future[Any]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._forget)

    def _forget(self, task: asyncio.Future[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            # Looked at here, because the one who waited may have left.
            task.exception()
