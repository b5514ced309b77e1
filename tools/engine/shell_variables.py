"""Writes values down for `sh` and `bash`: shell code that assigns variables.

Only single quotes are used: there are encodings (GBK, Shift-JIS) in which the byte of a backslash
or a backquote is part of a character, and none in which that of a single quote is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from tools.engine.template import TemplateError

_MOST_QUOTES = 1000
_PIECE = re.compile(rf"(?:[^']*'){{1,{_MOST_QUOTES}}}|[^']+")


def quote(text: str) -> str:
    """Return text as one word of shell code."""
    return "'" + text.replace("'", "'\\''") + "'"


def preamble(variables: Mapping[str, str | list[str]]) -> bytes:
    """Return shell code that assigns variables, lists as arrays of bash.

    Bytes that were no UTF-8 (`surrogateescape`) come out as they were. Raises TemplateError for a
    NUL character and for what cannot be encoded.
    """
    lines: list[str] = []
    for name, value in variables.items():
        parts: list[str] = []
        words = [_assignable(word, name, parts) for word in _as_list(value)]
        assigned = words[0] if isinstance(value, str) else f"({' '.join(words)})"
        lines += (f"{name}_{number}={part}\n" for number, part in enumerate(parts))
        lines.append(f"unset {name}; {name}={assigned}\n")
        if parts:
            lines.append(f"unset {' '.join(f'{name}_{number}' for number in range(len(parts)))}\n")
    return _encode("".join(lines))


def _as_list(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value


def _assignable(text: str, name: str, parts: list[str]) -> str:
    """Return `text` as one word; one of many quotes is put together from `{name}_0`, ….

    The shell takes a time that grows with the square of the quotes in one word, and with the
    length of a value each time something is added to it. What those variables hold is added to
    `parts`.
    """
    if text.count("'") <= _MOST_QUOTES:
        return quote(text)
    first = len(parts)
    parts += map(quote, _PIECE.findall(text))
    return '"' + "".join(f"${{{name}_{number}}}" for number in range(first, len(parts))) + '"'


def _encode(text: str) -> bytes:
    if "\0" in text:
        raise TemplateError("A value holds a NUL character, which a shell cannot hold.")
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise TemplateError("A value holds half of a surrogate pair, which is no text.") from None
