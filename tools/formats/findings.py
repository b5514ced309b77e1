"""Collects everything that is wrong with one document, each thing with its place."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from tools.formats.problems import ToolFileError, ToolProblem
from tools.yamltext import REPEATED_HINT, Document, KeyPath, json_path, repeated_key

MOST = 100
"""So many problems of one kind are told of one file: more help nobody, and take long to find."""

_INVISIBLE = re.compile("[\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f]")


class Findings:
    """What is wrong with a document: errors stop its tool from loading, warnings do not.

    After MOST errors the reading ends: whatever notes one more raises ToolFileError.
    """

    def __init__(self, document: Document) -> None:
        self.document = document
        self.errors: list[ToolProblem] = []
        self.warnings: list[ToolProblem] = []
        self._wrong: set[KeyPath] = set()
        self._noted: dict[str, int] = defaultdict(int)

    def error(self, where: KeyPath, message: str, hint: str = "") -> None:
        """Note what makes the tool unusable; a key that has an error gets no second one."""
        if where in self._wrong:
            return
        if len(self.errors) == MOST:
            self.errors.append(_more(self.document.path))
            raise ToolFileError(self.errors, self.warnings)
        self._wrong.add(where)
        self.errors.append(self._problem(where, message, hint))

    def tolerate(self, where: KeyPath, message: str, hint: str = "") -> None:
        """Note an error by the rules of the format with which the tool works all the same."""
        found = self._problem(where, message, hint)
        self._warn(replace(found, warning=True, tolerated=True))

    def warn(self, where: KeyPath, message: str, hint: str = "") -> None:
        """Note what its author should know."""
        self._warn(replace(self._problem(where, message, hint), warning=True))

    def repeated_keys(self, *, allowed: bool) -> None:
        """Note the keys that are there twice; where that is `allowed`, the last one counts."""
        note = self.tolerate if allowed else self.error
        for where, first in self.document.repeated.items():
            note(where, repeated_key(where, first), REPEATED_HINT)

    def invisible(self, where: KeyPath, text: str) -> None:
        """Warn about characters that nobody sees."""
        if not text.isascii() and (found := _INVISIBLE.search(text)):
            self.warn(where, f"holds an invisible character (U+{ord(found[0]):04X})")

    def raise_errors(self) -> None:
        """Raise ToolFileError if anything makes the tool unusable."""
        if self.errors:
            raise ToolFileError(self.errors, self.warnings)

    def _warn(self, problem: ToolProblem) -> None:
        self._noted[problem.severity] += 1
        if self._noted[problem.severity] <= MOST:
            self.warnings.append(problem)
        elif self._noted[problem.severity] == MOST + 1:
            self.warnings.append(replace(_more(self.document.path), warning=True))

    def _problem(self, where: KeyPath, message: str, hint: str) -> ToolProblem:
        line, column = self.document.position(where)
        return ToolProblem(self.document.path, message, line, column, json_path(where), hint)


def _more(path: Path) -> ToolProblem:
    return ToolProblem(path, f"there is more, not told after the first {MOST}")


def few(problems: Sequence[ToolProblem], path: Path) -> list[ToolProblem]:
    """Return the first MOST of the errors in a file and of its warnings, in their order."""
    if len(problems) <= MOST:
        return list(problems)
    seen: Counter[str] = Counter()
    kept: list[ToolProblem] = []
    dropped: list[ToolProblem] = []
    for problem in problems:
        seen[problem.severity] += 1
        (kept if seen[problem.severity] <= MOST else dropped).append(problem)
    if not dropped:
        return kept
    return [*kept, replace(_more(path), warning=all(problem.warning for problem in dropped))]


def listed(names: Iterable[str], most: int = 20) -> str:
    """Write names for a message: all, or the first `most` and how many more there are."""
    known = list(names)
    more = f", … and {len(known) - most:,} more" if len(known) > most else ""
    return ", ".join(known[:most]) + more


def kind_of(value: object) -> str:
    """Say in words what a value is, for `found …`."""
    match value:
        case None:
            return "nothing (null)"
        case bool():
            return str(value).lower()
        case int() | float():
            return f"the number {value}"
        case str():
            return f"the text {value[:40]!r}"
        case list():
            return "a list"
    return "an object"
