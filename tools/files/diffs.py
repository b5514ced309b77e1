"""Makes unified diffs in a time that does not grow with the size of the file."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import SequenceMatcher
from io import StringIO
from typing import TypeAlias

_COMPARED_LINES = 2000
"""A changed region of more lines than this is shown as one block out, one block in."""

_Opcode: TypeAlias = tuple[str, int, int, int, int]


def unified_diff(old: str, new: str, path: str) -> str:
    """Return the unified diff from `old` to `new` with three lines of context; empty if equal."""
    if old == new:
        return ""
    before, after = (list(StringIO(text, newline="\n")) for text in (old, new))
    comparison = _Comparison(_opcodes(before, after))
    hunks = [_hunk(group, before, after) for group in comparison.get_grouped_opcodes()]
    return "\n".join([f"--- {path}", f"+++ {path}", *(line for hunk in hunks for line in hunk)])


class _Comparison(SequenceMatcher[str]):
    """Groups opcodes that are already known into hunks, as difflib does."""

    def __init__(self, opcodes: list[_Opcode]) -> None:
        super().__init__()
        self._opcodes = opcodes

    def get_opcodes(self) -> list[_Opcode]:  # type: ignore[override]
        return self._opcodes


def _opcodes(before: list[str], after: list[str]) -> list[_Opcode]:
    """Compare only what lies between the equal beginning and the equal end."""
    head = _common(before, after)
    tail = _common(before[head:][::-1], after[head:][::-1])
    old, new = before[head : len(before) - tail], after[head : len(after) - tail]
    if max(len(old), len(new)) > _COMPARED_LINES:
        inner: list[_Opcode] = [("replace", 0, len(old), 0, len(new))]
    else:
        inner = list(SequenceMatcher(None, old, new, autojunk=False).get_opcodes())
    ends = len(before) - tail, len(before), len(after) - tail, len(after)
    codes = [("equal", 0, head, 0, head)] if head else []
    codes += [(tag, a + head, b + head, c + head, d + head) for tag, a, b, c, d in inner]
    return [*codes, ("equal", *ends)] if tail else codes


def _common(one: list[str], other: list[str]) -> int:
    count = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        count += 1
    return count


def _hunk(codes: list[_Opcode], before: list[str], after: list[str]) -> Iterator[str]:
    first, last = codes[0], codes[-1]
    yield f"@@ -{_range(first[1], last[2])} +{_range(first[3], last[4])} @@"
    for tag, a, b, c, d in codes:
        if tag == "equal":
            yield from _marked(" ", before[a:b])
            continue
        yield from _marked("-", before[a:b])
        yield from _marked("+", after[c:d])


def _range(start: int, end: int) -> str:
    length = end - start
    if length == 1:
        return str(start + 1)
    return f"{start + 1 if length else start},{length}"


def _marked(mark: str, lines: list[str]) -> Iterator[str]:
    for line in lines:
        yield mark + line.removesuffix("\n").removesuffix("\r")
        if not line.endswith("\n"):
            yield "\\ No newline at end of file"
