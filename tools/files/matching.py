"""Finds the text a model wants replaced, exactly first and then a little more loosely.

Models get line ends, trailing blanks, the depth of indentation and typographic characters wrong.
Each level forgives one of these; the first level with a hit decides, and several hits mean that
the text is not unique, never that a looser level is tried. Only the bytes that matched are
replaced, whatever was folded to find them.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from enum import StrEnum
from itertools import accumulate, islice

from tools.files.textfile import line_end, with_line_end
from tools.record import record

MAX_PLACES = 100
"""More places than this are not counted: each costs a look at the whole text."""

MAX_COMPARED_LINES = 5_000_000
"""How many lines are compared in the search for another indentation."""

MAX_FOLDED_CHARS = 8 * 1024 * 1024
"""Texts longer than this, in characters, are only searched exactly."""


class Level(StrEnum):
    """How a text was found, in words for the model."""

    EXACT = "exact"
    LINE_ENDS = "line ends"
    TRAILING_BLANKS = "trailing blanks ignored"
    INDENTATION = "indentation shifted"
    PUNCTUATION = "quotes, dashes and spaces folded"
    NUMBERS = "line numbers removed"
    TABS = "\\t read as a tab"


@record
class Found:
    """Where a text stands: half-open ranges of the searched text, and what goes there instead."""

    level: Level
    spans: tuple[tuple[int, int], ...]
    replacement: str


class NotUnique(ValueError):
    """The text stands in several places. `lines` are the line numbers, from 1, of the first
    `MAX_PLACES`; `counted` is False where there are more."""

    def __init__(self, level: Level, lines: tuple[int, ...]) -> None:
        super().__init__(f"{len(lines)} places")
        self.level = level
        self.counted = len(lines) <= MAX_PLACES
        self.lines = lines[:MAX_PLACES]


class NotFound(ValueError):
    """The text stands nowhere."""


def find(text: str, old: str, new: str, *, every: bool = False) -> Found:
    """Find the one place of `old` in `text`, and what to put there so that it reads as `new`.

    `every` takes all places, exact ones only. `old` must not be empty. Raises NotFound, NotUnique.
    """
    attempts: list[tuple[str, str, Level | None]] = [(old, new, None)]
    if (plain := without_numbers(old)) is not None:
        attempts.append((plain, without_numbers(new) or new, Level.NUMBERS))
    for wanted, put, level in attempts:
        found = _every(text, wanted, put) if every else _one(text, wanted, put)
        if found is not None:
            return Found(level or found.level, found.spans, found.replacement)
    if not every and "\\t" in old:
        found = _exact(text, old.replace("\\t", "\t"), new.replace("\\t", "\t"))
        if found is not None:
            return Found(Level.TABS, found.spans, found.replacement)
    raise NotFound


def apply(text: str, found: Found) -> str:
    """Return `text` with the found places replaced, and everything else as it was."""
    pieces, position = [], 0
    for start, end in found.spans:
        pieces += [text[position:start], found.replacement]
        position = end
    return "".join([*pieces, text[position:]])


def line_of(text: str, position: int) -> int:
    """Return the number of the line, from 1, in which `position` lies."""
    return text.count("\n", 0, position) + 1


def without_numbers(text: str) -> str | None:
    """Drop the `N<tab>` that the read tool puts before lines; None unless every line has one."""
    lines = text.split("\n")
    body = lines[:-1] if lines[-1] == "" else lines
    stripped = [re.sub(r"^ *\d+\t", "", line, count=1) for line in body]
    if not body or any(before == after for before, after in zip(body, stripped, strict=True)):
        return None
    return "\n".join(stripped + lines[len(body) :])


def _one(text: str, old: str, new: str) -> Found | None:
    found = _exact(text, old, new)
    if found is not None or len(text) > MAX_FOLDED_CHARS:
        return found
    return (
        _folded(text, old, new, Level.LINE_ENDS, blanks=False)
        or _folded(text, old, new, Level.TRAILING_BLANKS, blanks=True)
        or _shifted(text, old, new)
        or _folded(text, old, new, Level.PUNCTUATION, blanks=True, fold=_fold_punctuation)
    )


def _every(text: str, old: str, new: str) -> Found | None:
    starts = []
    position = text.find(old)
    while position >= 0:
        starts.append(position)
        position = text.find(old, position + len(old))
    if not starts:
        return None
    spans = tuple((start, start + len(old)) for start in starts)
    return Found(Level.EXACT, spans, _fitting(text, old, new))


def _exact(text: str, old: str, new: str) -> Found | None:
    starts = list(_positions(text, old))
    if not starts:
        return None
    _check_unique(text, Level.EXACT, starts)
    span = (starts[0], starts[0] + len(old))
    return Found(Level.EXACT, (span,), _fitting(text, old, new))


def _fitting(text: str, old: str, new: str) -> str:
    """Give `new` the line ends of the text, unless `old` shows that the model sees them itself."""
    return new if "\r" in old else with_line_end(new, line_end(text)) if "\n" in new else new


def _positions(text: str, wanted: str) -> Iterator[int]:
    """Yield where `wanted` begins, overlapping places too: each of them makes it ambiguous.

    Stops one after `MAX_PLACES`.
    """
    position = text.find(wanted)
    for _ in range(MAX_PLACES + 1):
        if position < 0:
            return
        yield position
        position = text.find(wanted, position + 1)


def _check_unique(text: str, level: Level, starts: list[int]) -> None:
    if len(starts) > 1:
        raise NotUnique(level, tuple(line_of(text, start) for start in starts))


class _Lines:
    """The lines of a text with what a level ignores taken away, and the way back."""

    def __init__(self, text: str, *, blanks: bool, fold: Callable[[str], str]) -> None:
        raw = text.split("\n")
        self.starts = [0, *accumulate(len(line) + 1 for line in raw)]
        ends = [line.removesuffix("\r") for line in raw[:-1]] + raw[-1:]
        self.contents = [fold(line.rstrip(" \t") if blanks else line) for line in ends]
        self.ends = [start + len(end) for start, end in zip(self.starts, ends, strict=False)]
        self.folded = "\n".join(self.contents)
        self.folded_starts = [0, *accumulate(len(line) + 1 for line in self.contents)]

    def original(self, start: int, end: int) -> tuple[int, int]:
        """Return the range of the text that a range of the folded one came from."""
        return self._begin(start), self._end(end)

    def _begin(self, position: int) -> int:
        line = bisect_right(self.folded_starts, position) - 1
        column = position - self.folded_starts[line]
        if column == len(self.contents[line]):
            # It begins with the line end, which stands after the blanks that were ignored.
            return self.ends[line]
        return self.starts[line] + column

    def _end(self, position: int) -> int:
        line = bisect_right(self.folded_starts, position - 1) - 1
        column = position - self.folded_starts[line]
        if column > len(self.contents[line]):
            return self.starts[line + 1]
        return self.starts[line] + column


def _folded(
    text: str,
    old: str,
    new: str,
    level: Level,
    *,
    blanks: bool,
    fold: Callable[[str], str] = lambda line: line,
) -> Found | None:
    wanted = _Lines(old, blanks=blanks, fold=fold).folded
    if not wanted.strip():
        # Only blanks are left to find, and those stand everywhere.
        return None
    lines = _Lines(text, blanks=blanks, fold=fold)
    starts = list(_positions(lines.folded, wanted))
    if not starts:
        return None
    spans = [lines.original(start, start + len(wanted)) for start in starts]
    _check_unique(text, level, [start for start, _ in spans])
    return Found(level, (spans[0],), with_line_end(new, line_end(text)))


_PUNCTUATION = str.maketrans(
    {
        **dict.fromkeys("\u2018\u2019\u201a\u201b", "'"),
        **dict.fromkeys("\u201c\u201d\u201e\u201f", '"'),
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-"),
        **dict.fromkeys("\u00a0\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a", " "),
        **dict.fromkeys("\u202f\u205f\u3000", " "),
    }
)


def _fold_punctuation(line: str) -> str:
    return line.translate(_PUNCTUATION)


def _shifted(text: str, old: str, new: str) -> Found | None:
    """Find whole lines that are all indented more, or all less, by the same blanks."""
    lines = _Lines(text, blanks=True, fold=lambda line: line)
    wanted = [line.rstrip(" \t\r") for line in old.split("\n")]
    closed = len(wanted) > 1 and wanted[-1] == ""
    if closed:
        wanted.pop()
    hits = []
    most = MAX_COMPARED_LINES // len(wanted)
    for first in islice(_candidates(lines.contents, wanted), most):
        shift = _shift(wanted, lines.contents[first : first + len(wanted)])
        replacement = None if shift is None else _reindented(new, *shift)
        if replacement is not None:
            hits.append((first, replacement))
            if len(hits) > MAX_PLACES:
                break
    if not hits:
        return None
    _check_unique(text, Level.INDENTATION, [lines.starts[first] for first, _ in hits])
    first, replacement = hits[0]
    after = first + len(wanted)
    if closed and after == len(lines.contents):
        return None
    end = (
        lines.starts[after] if closed else lines.starts[after - 1] + len(lines.contents[after - 1])
    )
    span = (lines.starts[first], end)
    return Found(Level.INDENTATION, (span,), with_line_end(replacement, line_end(text)))


def _candidates(contents: list[str], wanted: list[str]) -> Iterator[int]:
    """Yield the lines at which `wanted` may begin, judged by its first line that is not blank."""
    offset = next((number for number, line in enumerate(wanted) if line.strip()), None)
    if offset is None:
        return
    key = wanted[offset].lstrip(" \t")
    for number, line in enumerate(contents):
        first = number - offset
        fits = first >= 0 and first + len(wanted) <= len(contents)
        if fits and line.endswith(key) and line.lstrip(" \t") == key:
            yield first


def _shift(wanted: list[str], actual: list[str]) -> tuple[str, str] | None:
    """Return the blanks to take away and to put before every line, None if there is no such."""
    shift: tuple[str, str] | None = None
    for want, have in zip(wanted, actual, strict=True):
        if not want or not have:
            if want != have:
                return None
            continue
        depth, real = _indentation(want), _indentation(have)
        if want[len(depth) :] != have[len(real) :]:
            return None
        if real.endswith(depth):
            this = ("", real.removesuffix(depth))
        elif depth.endswith(real):
            this = (depth.removesuffix(real), "")
        else:
            return None
        if shift not in (None, this):
            return None
        shift = this
    return shift


def _indentation(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" \t"))]


def _reindented(new: str, take: str, put: str) -> str | None:
    """Shift the lines of `new` like those found; None where one has less than is to be taken."""
    lines = []
    for line in new.split("\n"):
        if not line.strip():
            lines.append(line)
        elif line.startswith(take):
            lines.append(put + line.removeprefix(take))
        else:
            return None
    return "\n".join(lines)
