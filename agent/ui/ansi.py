"""Colours and attributes as escape sequences, as far as the terminal and the person want them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from enum import IntEnum

_CODES = {
    "bold": "1", "dim": "2", "italic": "3",
    "red": "31", "green": "32", "yellow": "33", "blue": "34", "cyan": "36",
}  # fmt: skip
_ATTRIBUTES = frozenset(["bold", "dim", "italic"])


class Colour(IntEnum):
    """What may be written: nothing (a dumb terminal), attributes only (NO_COLOR), or colours."""

    PLAIN = 0
    ATTRIBUTES = 1
    ANSI = 2
    EIGHT_BIT = 3
    TRUE = 4


def detect(environment: Mapping[str, str] = os.environ) -> Colour:
    """Return what the terminal can do and the person wants (no-color.org)."""
    term = environment.get("TERM", "")
    if term in ("", "dumb", "unknown"):
        return Colour.PLAIN
    if environment.get("NO_COLOR"):
        return Colour.ATTRIBUTES
    if environment.get("COLORTERM") in ("truecolor", "24bit"):
        return Colour.TRUE
    return Colour.EIGHT_BIT if "256" in term else Colour.ANSI


def paint(text: str, style: str, colour: Colour) -> str:
    """Return `text` in `style`: words such as `bold red`, left out where they cannot be shown."""
    if colour is Colour.PLAIN or not text:
        return text
    names = [n for n in style.split() if n in _ATTRIBUTES or colour >= Colour.ANSI]
    if not names:
        return text
    return f"\x1b[{';'.join(_CODES[name] for name in names)}m{text}\x1b[0m"
