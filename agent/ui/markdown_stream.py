"""Splits a Markdown answer that is still arriving into blocks that will not change any more.

A block is printed once, when it is finished; only the open rest is drawn again and again. What
counts as a block follows CommonMark as far as it decides where one ends; a block may hold more
than one Markdown element, but never a part of one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum, auto

_FENCE = re.compile(r"(`{3,})[^`]*$|(~{3,})")
_HEADING = re.compile(r" {0,3}#{1,6}(?:\s|$)")
_ITEM = re.compile(r" {0,3}(?:[-+*]|\d{1,9}[.)])(?:\s|$)")
_INTERRUPTING_ITEM = re.compile(r" {0,3}(?:[-+*]|1[.)])[ \t]+\S")
_QUOTE = re.compile(r" {0,3}>")


class _Kind(Enum):
    NONE = auto()
    PARAGRAPH = auto()
    QUOTE = auto()
    LIST = auto()
    FENCE = auto()


class MarkdownStream:
    """Takes pieces of an answer; gives back finished blocks.

    The blocks and the tail, joined, are the text; the same text gives the same blocks however it
    was cut into pieces. The cost is linear in the length of the text.
    """

    def __init__(self) -> None:
        self._partial: list[str] = []
        self._lines: list[str] = []
        self._kind = _Kind.NONE
        self._fence = ""
        self._gap = False

    def feed(self, text: str) -> list[str]:
        """Take the next piece and return the blocks it finishes."""
        *ends, rest = text.split("\n")
        blocks: list[str] = []
        for end in ends:
            self._partial.append(end)
            line = "".join(self._partial)
            self._partial.clear()
            blocks += self._take(line + "\n")
        if rest:
            self._partial.append(rest)
        return blocks

    def finish(self) -> list[str]:
        """The text is over: return what is left of it. The stream can be used again."""
        blocks: list[str] = []
        if self._partial:
            line = "".join(self._partial)
            self._partial.clear()
            blocks += self._take(line)
        if self._lines:
            blocks.append(self._close())
        self._fence, self._gap = "", False
        return blocks

    def tail(self, limit: int) -> str:
        """Return the end of the open text: at least `limit` characters if there are as many."""
        pieces: list[str] = []
        size = 0
        for source in (self._partial, self._lines):
            for piece in reversed(source):
                if size >= limit:
                    break
                pieces.append(piece)
                size += len(piece)
        return "".join(reversed(pieces))

    def _close(self) -> str:
        block = "".join(self._lines)
        self._lines = []
        self._kind = _Kind.NONE
        self._fence, self._gap = "", False
        return block

    def _take(self, line: str) -> Iterator[str]:
        """Take one whole line; yield the blocks it ends."""
        if self._fence:
            yield from self._take_in_fence(line)
        elif not line.strip():
            self._lines.append(line)
            if self._kind is _Kind.LIST:
                self._gap = True
            elif self._kind is not _Kind.NONE:
                yield self._close()
        else:
            if self._kind is not _Kind.NONE and self._ends_before(line):
                yield self._close()
            yield from self._add(line)

    def _take_in_fence(self, line: str) -> Iterator[str]:
        bare = line.strip()
        closes = len(bare) >= len(self._fence) and set(bare) == {self._fence[0]}
        if self._kind is _Kind.LIST and bare and not closes and not line[0].isspace():
            # A line at the margin leaves the list and the fence in it.
            yield self._close()
            yield from self._add(line)
            return
        self._lines.append(line)
        if closes and (self._kind is _Kind.LIST or _indent(line) <= 3):
            self._fence = ""
            if self._kind is _Kind.FENCE:
                yield self._close()

    def _ends_before(self, line: str) -> bool:
        """Say whether the open block ends where `line`, which is not blank, begins."""
        if self._kind is _Kind.LIST:
            if _ITEM.match(line):
                return False
            if self._gap:
                return not line[0].isspace()
            return bool(_HEADING.match(line) or (_indent(line) <= 1 and _opening_fence(line)))
        return bool(
            _HEADING.match(line)
            or _INTERRUPTING_ITEM.match(line)
            or (_indent(line) <= 3 and _opening_fence(line))
            or (self._kind is _Kind.PARAGRAPH and _QUOTE.match(line))
        )

    def _add(self, line: str) -> Iterator[str]:
        """Put a line into the open block, opening one when there is none."""
        self._lines.append(line)
        self._gap = False
        fence = _opening_fence(line)
        if self._kind is _Kind.LIST:
            self._fence = fence
        elif self._kind is _Kind.NONE:
            if _HEADING.match(line):
                yield self._close()
            elif fence and _indent(line) <= 3:
                self._kind, self._fence = _Kind.FENCE, fence
            elif _ITEM.match(line):
                self._kind = _Kind.LIST
            else:
                self._kind = _Kind.QUOTE if _QUOTE.match(line) else _Kind.PARAGRAPH


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _opening_fence(line: str) -> str:
    """Return the marks of the fence that `line` opens, or nothing."""
    match = _FENCE.match(line.strip())
    return (match[1] or match[2]) if match else ""
