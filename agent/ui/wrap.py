"""Breaks text into lines of a number of terminal columns. Nothing is ever dropped."""

from __future__ import annotations

import os
import re
import shutil
import sys
from typing import TextIO

from prompt_toolkit.utils import get_cwidth

TAB = " " * 4
MARGIN = 4
"""How many columns of a line's indentation its further lines keep."""

_FIRST_CELL = re.compile(r" *\S+(?: \S+)* {2,}(?=\S)")

CELL_INDENT = 2

UNWRAPPED = sys.maxsize
"""Columns of text that something else wraps, or nobody."""


def columns_of(out: TextIO) -> int:
    """Return the width of the terminal behind `out`; else what COLUMNS says, or 80."""
    try:
        return os.get_terminal_size(out.fileno()).columns
    except (OSError, ValueError):
        return shutil.get_terminal_size().columns


def wrap(text: str, columns: int, *, words: bool = False) -> list[str]:
    """Return the lines of `text`, none wider than `columns` (a wide character stays whole).

    `words` breaks at spaces where it can, else after a slash or an opening parenthesis. Joined
    again, the pieces of one line are that line.
    """
    columns = max(columns, 1)
    lines: list[str] = []
    for line in text.replace("\t", TAB).split("\n"):
        lines += _break(line, columns, words)
    return lines


def shorten(text: str, columns: int) -> str:
    """Return `text` with an ellipsis where it is wider than `columns`."""
    if get_cwidth(text) <= columns:
        return text
    while text and get_cwidth(text) >= max(columns, 1):
        text = text[:-1]
    return text + "…"


def tail(text: str, columns: int, count: int) -> list[str]:
    """Return the last `count` lines of `text` wrapped, at a cost that does not grow with `text`."""
    end = text[-columns * (count + 1) :]
    return wrap(end, columns, words=True)[-count:]


def indent(text: str, columns: int, first: str, rest: str) -> list[str]:
    """Wrap `text` behind the prefix `first`, further lines behind `rest` of the same width."""
    lines = wrap(text, columns - get_cwidth(first), words=True)
    return [first + lines[0], *(rest + line for line in lines[1:])]


def hanging(text: str, columns: int) -> list[str]:
    """Wrap `text` at words; what is broken off a line stays behind the margin of that line.

    In a table, where two blanks or more stand in a line, it stays in the second column, or is
    indented where that leaves too little room.
    """
    lines = []
    for line in text.replace("\t", TAB).split("\n"):
        cell = _FIRST_CELL.match(line)
        start = min(len(line) - len(line.lstrip(" ")), MARGIN, columns // 2)
        behind = start
        if cell and get_cwidth(cell[0]) <= columns // 2:
            start, behind = cell.end(), get_cwidth(cell[0])
        elif cell and columns > 2 * CELL_INDENT:
            behind = start + CELL_INDENT
        first, *rest = wrap(line[start:], columns - behind, words=True)
        lines += [line[:start] + first, *(" " * behind + piece for piece in rest)]
    return lines


def _break(line: str, columns: int, words: bool) -> list[str]:
    pieces = []
    while not _fits(line, columns):
        end = _cut(line, columns)
        if words:
            end = _between_words(line, end)
        pieces.append(line[:end])
        line = line[end:]
    return [*pieces, line]


def _between_words(line: str, end: int) -> int:
    """Return where the part before `end` may end without cutting a word, else `end`."""
    start = len(line) - len(line.lstrip())
    for marks in (" ", "/("):
        place = max(line.rfind(mark, start + 1, end) for mark in marks)
        if place > 0:
            return place + 1
    return end


def _fits(line: str, columns: int) -> bool:
    if line.isascii():
        return len(line) <= columns
    # No character is wider than two columns.
    return 2 * len(line) <= columns or get_cwidth(line) <= columns


def _cut(line: str, columns: int) -> int:
    """Return how many characters of `line` fit, at least one."""
    if line[:columns].isascii():
        return columns
    used = 0
    for position, character in enumerate(line):
        used += get_cwidth(character)
        if used > columns:
            return max(position, 1)
    return len(line)
