"""A list of options that a person chooses from with arrows, Enter or one key each.

The widget holds state only: whoever shows it draws `fragments()` and passes on the keys.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Generic, TypeVar

from prompt_toolkit.formatted_text import StyleAndTextTuples

from agent.ui.wrap import indent, wrap
from tools.record import record

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

GRACE_S = 0.4
"""A question answers to no key before the keyboard was quiet for so long, in seconds."""

MAX_ROWS = 16
"""The greatest height of the options, in lines."""


@record
class Option(Generic[T_co]):
    """One option: `key` chooses it at once, empty where only arrows and Enter do."""

    value: T_co
    label: str
    key: str = ""


class Menu(Generic[T]):
    """A question and its options.

    `selected` None means that Enter alone chooses nothing. `escape` says in a word what Esc does,
    in a last line that names the keys; without it there is no such line. With `guarded`, keys
    that were on their way before the person can have seen the question do not answer it.
    `cancelled` is the answer to Esc and Ctrl-C, which work at once. `result` is done when there is
    an answer.
    """

    def __init__(
        self,
        question: Sequence[tuple[str, str]],
        options: Sequence[Option[T]],
        *,
        cancelled: T,
        selected: int | None = 0,
        guarded: bool = False,
        escape: str = "",
    ) -> None:
        self.question = question
        self.options = options
        self.selected = selected
        self.result: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._cancelled = cancelled
        self._quiet_since = time.monotonic()
        self._guarded = guarded
        self._escape = escape

    def press(self, key: str) -> None:
        """Take a key: a character, or `up`, `down`, `pageup`, `pagedown`, `enter`, `cancel`."""
        if key == "cancel":
            self._answer(self._cancelled)
            return
        if not self._is_open():
            return
        moves = {"up": -1, "down": 1, "pageup": -10, "pagedown": 10}
        if key in moves:
            self._move(moves[key])
        elif key == "enter":
            if self.selected is not None and self.options:
                self._answer(self.options[self.selected].value)
        else:
            for option in self.options:
                if option.key and option.key == key.lower():
                    self._answer(option.value)

    def fragments(self, columns: int, rows: int) -> StyleAndTextTuples:
        """Return the question and as many options around the selected one as fit."""
        lines = [
            (style, line)
            for style, text in self.question
            for line in wrap(text, columns, words=True)
        ]
        blocks = [self._option(number, columns) for number in range(len(self.options))]
        keys = wrap(self._keys(), columns, words=True) if self._escape else []
        room = min(max(rows - len(lines) - len(keys), 3), MAX_ROWS)
        for block in _window(blocks, self.selected or 0, room):
            lines += block
        lines += [("class:toolbar", line) for line in keys]
        # Where there is no room for all, what can be chosen matters more than why.
        return [(style, text + "\n") for style, text in lines[-max(rows, 1) :]]

    def _keys(self) -> str:
        letters = " ".join(option.key for option in self.options if len(option.key) == 1)
        line = " · ".join(filter(None, ["↑↓ Enter", letters, f"Esc: {self._escape}"]))
        return line if self.selected is not None else f"{line} · none selected yet"

    def _option(self, number: int, columns: int) -> list[tuple[str, str]]:
        option = self.options[number]
        chosen = number == self.selected
        first = ("> " if chosen else "  ") + (f"[{option.key}] " if option.key else "")
        style = "class:selected" if chosen else ""
        return [(style, line) for line in indent(option.label, columns, first, " " * len(first))]

    def _is_open(self) -> bool:
        """Say whether keys count by now; every key that comes too early starts the wait anew."""
        now = time.monotonic()
        if self._guarded and now - self._quiet_since < GRACE_S:
            self._quiet_since = now
            return False
        self._guarded = False
        return True

    def _move(self, distance: int) -> None:
        last = len(self.options) - 1
        if self.selected is None:
            self.selected = 0 if distance > 0 else last
        elif abs(distance) == 1:
            self.selected = (self.selected + distance) % (last + 1)
        else:
            self.selected = min(max(self.selected + distance, 0), last)

    def _answer(self, value: T) -> None:
        if not self.result.done():
            self.result.set_result(value)


def _window(
    blocks: list[list[tuple[str, str]]], selected: int, rows: int
) -> list[list[tuple[str, str]]]:
    """Return the blocks around the selected one that fit into `rows` lines."""
    first = last = min(selected, len(blocks) - 1) if blocks else 0
    used = sum(len(block) for block in blocks[first : last + 1])
    while True:
        grown = False
        if last + 1 < len(blocks) and used + len(blocks[last + 1]) <= rows:
            last += 1
            used += len(blocks[last])
            grown = True
        if first > 0 and used + len(blocks[first - 1]) <= rows:
            first -= 1
            used += len(blocks[first])
            grown = True
        if not grown:
            return blocks[first : last + 1]
