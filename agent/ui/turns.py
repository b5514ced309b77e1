"""The turn that runs and the messages that wait for it to end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from agent.events import Event, Level, MessageAdded, Notice, TurnEnd, TurnFinished

_UNSENT = "Stopped before it was sent: it is in the input again."
STOP_WAIT_S = 3.0
"""How long leaving waits for a turn to clean up, in seconds."""


class Turns:
    """Runs one turn at a time, each in a task of its own.

    `text` is what the turn that runs was started with, empty when none runs; `queue` what waits,
    to join the turn or to begin the next.
    `started` is told the text of each turn that begins, and `tell` what a turn raised.
    `give_back` gets the waiting messages when the work went another way than they were meant for:
    it was stopped, or it failed; and the text of a turn that was stopped before anything was done
    for it.
    """

    def __init__(
        self,
        submit: Callable[[str, Callable[[], Sequence[str]]], Awaitable[None]],
        *,
        started: Callable[[str], None],
        tell: Callable[[Event], None],
        give_back: Callable[[Sequence[str]], None],
        changed: Callable[[], None],
    ) -> None:
        self.queue: list[str] = []
        self.text = ""
        self._submit = submit
        self._started = started
        self._tell = tell
        self._give_back = give_back
        self._changed = changed
        self._task: asyncio.Task[None] | None = None
        self._stopping = self._begun = False
        self._end: TurnEnd | None = None

    @property
    def running(self) -> bool:
        """True while a turn runs, also while it is being stopped."""
        return self._task is not None

    @property
    def stoppable(self) -> bool:
        """True while a turn runs that nobody stopped yet."""
        return self._task is not None and not self._stopping

    def send(self, text: str) -> None:
        """Start a turn, or let it wait for the one that runs."""
        if self._task is not None:
            self.queue.append(text)
            return
        self._stopping, self._begun, self._end = False, False, None
        self.text = text
        self._started(text)
        self._task = asyncio.create_task(self._run(text))
        self._task.add_done_callback(self._ended)

    def stop(self) -> None:
        """Cancel the turn."""
        if self._task is not None:
            self._stopping = True
            self._task.cancel()
            self._return_queue()

    def add(self, event: Event) -> None:
        """Take one event of the turn: what joins it, or how it ends, concerns the queue."""
        self._begun = self._begun or not isinstance(event, Notice)
        if isinstance(event, MessageAdded):
            del self.queue[:1]
        elif isinstance(event, TurnFinished):
            self._end = event.end

    async def close(self) -> None:
        """Cancel the turn and wait a while for it; nothing is started after it."""
        if self._task is not None:
            self._task.remove_done_callback(self._ended)
            self._task.cancel()
            await asyncio.wait({self._task}, timeout=STOP_WAIT_S)

    async def _run(self, text: str) -> None:
        await self._submit(text, lambda: tuple(self.queue))

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._task, text, self.text = None, self.text, ""
        if task.cancelled() and not self._begun:
            self._give_back((text,))
            self._tell(Notice(_UNSENT, Level.WARNING))
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._tell(Notice(f"{type(error).__name__}: {error}", Level.ERROR))
        if error is not None or self._end in (TurnEnd.FAILED, TurnEnd.LIMIT):
            self._return_queue()
        if self.queue:
            self.send(self.queue.pop(0))
        self._changed()

    def _return_queue(self) -> None:
        if self.queue:
            self._give_back(tuple(self.queue))
            self.queue.clear()
