"""Finds lines and columns in TOML, which the parser of the standard library does not tell."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tools.yamltext import KeyPath, Position

MAX_DEPTH = 64
"""Longer dotted names are placed by their beginning."""

_NAME = r"""(?:"[^"\\\n]*"|'[^'\n]*'|[A-Za-z0-9_-]+)"""
_NAMES = rf"{_NAME}(?:[ \t]*\.[ \t]*{_NAME})*"
_TABLE = re.compile(rf"[ \t]*\[\[?[ \t]*(?P<name>{_NAMES})[ \t]*\]\]?[ \t]*(?:#.*)?")
_ENTRY = re.compile(rf"[ \t]*(?P<name>{_NAMES})[ \t]*=")
_QUOTED = re.compile(r"""\"{3}|'{3}|"(?:[^"\\]|\\.)*"|'[^']*'|\#.*""")
_END_OF_LONG_TEXT = {'"""': re.compile(r'\\.|"""'), "'''": re.compile("'''")}


def key_positions(text: str) -> dict[KeyPath, Position]:
    """Return where the tables and keys of a correct TOML text stand, in time linear in it.

    What is inside a value has no place of its own; the first of several tables of a list counts.
    """
    positions: dict[KeyPath, Position] = {}
    table: KeyPath = ()
    for number, line in _outside_of_long_texts(text):
        header = _TABLE.fullmatch(line.rstrip("\r"))
        if header:
            table = _names(header["name"])
            positions.setdefault(table, (number, line.index("[") + 1))
        elif entry := _ENTRY.match(line):
            names = _names(entry["name"])
            place = (number, entry.start("name") + 1)
            for depth in range(1, len(names) + 1):
                positions.setdefault((*table, *names[:depth]), place)
    return positions


def _outside_of_long_texts(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines, with their numbers, that do not begin inside a text of several lines."""
    inside = ""
    for number, line in enumerate(text.split("\n"), 1):
        if not inside:
            yield number, line
        at = 0
        while True:
            wanted = _END_OF_LONG_TEXT.get(inside, _QUOTED)
            marks = (inside,) if inside else tuple(_END_OF_LONG_TEXT)
            found = next((m for m in wanted.finditer(line, at) if m[0] in marks), None)
            if found is None:
                break
            at, inside = found.end(), "" if inside else found[0]


def _names(text: str) -> KeyPath:
    """Return the parts of a dotted name, as many as a file may have."""
    return tuple(part.strip("\"'") for part in re.findall(_NAME, text)[:MAX_DEPTH])
