"""What the terminal front end needs from the conversation it shows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from tools.record import record


@record
class StatusLine:
    """What the bottom line shows.

    `tokens_used` is the size of the context now and `context_window` its limit, both in tokens;
    `cost_usd` is None where no price is known.
    """

    model: str
    mode: str
    tokens_used: int = 0
    context_window: int = 0
    cost_usd: float | None = None


@record
class Signals:
    """How a person who looks elsewhere is told of what opta does.

    `bell_s` is after how many seconds without a key the bell rings, 0 for never; `title` whether
    the terminal's title is used.
    """

    bell_s: float = 0
    title: bool = False


class ChatPort(Protocol):
    """A conversation, as its front end sees it."""

    async def submit(self, text: str, waiting: Callable[[], Sequence[str]]) -> None:
        """Do what the person typed: a whole turn, a slash command or a `!` command.

        `waiting` is what they have sent since; a `MessageAdded` says that one of it was taken.

        Cancelling the calling task stops it; what it has to tell goes out as events before.
        """
        ...

    def status(self) -> StatusLine:
        """Return what the bottom line shows. Called on every redraw: must be cheap."""
        ...

    def signals(self) -> Signals:
        """Return how the person wants to be told. Called on every redraw: must be cheap."""
        ...

    def cycle_mode(self) -> None:
        """Go to the next permission mode."""
        ...

    def commands(self) -> Sequence[tuple[str, str]]:
        """Return the slash commands: name without the slash, and its help."""
        ...

    def following(self, name: str, before: Sequence[str]) -> Sequence[tuple[str, str]]:
        """Return what may follow a slash command and these words: each word and its help."""
        ...

    def references(self) -> Sequence[tuple[str, str]]:
        """Return what may follow an `@` beside files: each word and its help."""
        ...

    def goodbye(self) -> str:
        """Return what is printed on leaving: the way back into this session, or nothing."""
        ...
