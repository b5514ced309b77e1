"""Shows a model the lines that look most like text it did not find."""

from __future__ import annotations

import time
from collections.abc import Iterator
from difflib import SequenceMatcher
from heapq import nlargest

from tools.record import record

_SIMILAR = 0.6
_BUDGET_S = 0.3
_SHOWN = 2
_SHOWN_LINES = 12
_LINE_CHARS = 200


@record
class Passage:
    """Lines of a text: the number of the first, from 1, and how alike they are, 0 to 1."""

    line: int
    lines: tuple[str, ...]
    likeness: float

    def numbered(self) -> str:
        """Return the lines as the read tool shows them."""
        return "\n".join(
            f"{number}\t{line[:_LINE_CHARS]}" for number, line in enumerate(self.lines, self.line)
        )


def closest(text: str, wanted: str) -> list[Passage]:
    """Return up to two passages of `text` that look most like `wanted`, in their order.

    Stops after `_BUDGET_S` seconds with the best of what was looked at.
    """
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    target = [line.strip() for line in wanted.splitlines()]
    while target and not target[0]:
        target.pop(0)
    if not lines or not target:
        return []
    deadline = time.monotonic() + _BUDGET_S
    anchor = max(range(len(target)), key=lambda number: len(target[number]))
    likely = nlargest(20, _alike(lines, target[anchor], deadline))
    found: list[Passage] = []
    for _, number in likely:
        if time.monotonic() > deadline and found:
            break
        first = max(0, min(number - anchor, len(lines) - len(target)))
        passage = _passage(lines, first, target)
        if passage.likeness >= _SIMILAR:
            found.append(passage)
    return sorted(_apart(found), key=lambda passage: passage.line)


def _alike(lines: list[str], wanted: str, deadline: float) -> Iterator[tuple[float, int]]:
    """Yield how alike each line is, with its index, for lines that may be alike enough."""
    matcher = SequenceMatcher(autojunk=False)
    matcher.set_seq2(wanted[:_LINE_CHARS])
    known: dict[str, float] = {}
    for number, line in enumerate(lines):
        stripped = line.strip()[:_LINE_CHARS]
        if stripped not in known:
            if number % 64 == 0 and time.monotonic() > deadline:
                return
            known[stripped] = _ratio(matcher, stripped)
        if known[stripped] >= _SIMILAR / 2:
            yield known[stripped], number


def _ratio(matcher: SequenceMatcher[str], line: str) -> float:
    matcher.set_seq1(line)
    if matcher.real_quick_ratio() < _SIMILAR or matcher.quick_ratio() < _SIMILAR:
        return 0.0
    return matcher.ratio()


def _passage(lines: list[str], first: int, target: list[str]) -> Passage:
    part = lines[first : first + len(target)]
    one = "\n".join(line.strip() for line in part)[:4000]
    likeness = SequenceMatcher(None, one, "\n".join(target)[:4000], autojunk=False).ratio()
    return Passage(first + 1, tuple(part[:_SHOWN_LINES]), likeness)


def _apart(passages: list[Passage]) -> list[Passage]:
    """Return the best passages that do not overlap."""
    kept: list[Passage] = []
    for passage in sorted(passages, key=lambda passage: -passage.likeness):
        if all(abs(passage.line - other.line) >= len(passage.lines) for other in kept):
            kept.append(passage)
    return kept[:_SHOWN]
