"""Tells a person who looks elsewhere what opta does: the terminal's title, and its bell."""

from __future__ import annotations

import time
from collections.abc import Callable
from enum import Enum

from prompt_toolkit.output import Output

from agent.ui.port import Signals
from tools.engine.output import sanitize

TITLE_CHARS = 60
"""The greatest length of the title, in characters."""

_PUSH_TITLE, _POP_TITLE = "\x1b[22;2t", "\x1b[23;2t"
"""Keep and bring back what the title was; terminals without a stack of titles ignore both."""


class State(Enum):
    """What opta does. The value is the mark that the title begins with."""

    IDLE = ""
    WORKING = "… "
    ASKING = "? "


class Attention:
    """Shows the state in the title, and rings when the person is waited for and seems away.

    Away is who pressed no key for `Signals.bell_s` seconds. A question rings once, as soon as
    that is so; a turn only where it is so when it ends.
    """

    def __init__(
        self,
        name: str,
        output: Output,
        signals: Callable[[], Signals],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`name` is what the title shows, `signals` what the person wants, `clock` in seconds."""
        # Also without what turns the direction of text, which a window's title would obey.
        self._name = "".join(filter(str.isprintable, " ".join(sanitize(name).split())))
        self._output = output
        self._signals = signals
        self._clock = clock
        self._state = State.IDLE
        self._title = ""
        self._key_at = clock()
        self._told = True

    def key_pressed(self) -> None:
        """The person is there."""
        self._key_at = self._clock()

    def update(self, state: State) -> None:
        """Take the state as it is now."""
        signals = self._signals()
        if signals.title:
            self._show_title(state)
        if state is not self._state:
            self._told = state is State.WORKING
            self._state = state
        quiet = bool(signals.bell_s) and self._clock() - self._key_at >= signals.bell_s
        if quiet and not self._told:
            self._output.bell()
        self._told = self._told or quiet or state is State.IDLE

    def close(self) -> None:
        """Give the terminal its own title back."""
        if self._title:
            self._output.write_raw(_POP_TITLE)
            self._output.flush()

    def _show_title(self, state: State) -> None:
        title = f"{state.value}{self._name} · opta"[:TITLE_CHARS]
        if title == self._title:
            return
        if not self._title:
            self._output.write_raw(_PUSH_TITLE)
        self._title = title
        self._output.set_title(title)
        self._output.flush()
