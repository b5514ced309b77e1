"""Collects everything that is wrong with one document, each thing with its place."""

from __future__ import annotations

import re
from dataclasses import replace

from tools.formats.problems import ToolFileError, ToolProblem
from tools.yamltext import REPEATED_HINT, Document, KeyPath, json_path, repeated_key

_INVISIBLE = re.compile("[\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f]")


class Findings:
    """What is wrong with a document: errors stop its tool from loading, warnings do not."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.errors: list[ToolProblem] = []
        self.warnings: list[ToolProblem] = []

    def error(self, where: KeyPath, message: str, hint: str = "") -> None:
        """Note what makes the tool unusable; a key that has an error gets no second one."""
        if not any(known.key == json_path(where) for known in self.errors):
            self.errors.append(self._problem(where, message, hint))

    def tolerate(self, where: KeyPath, message: str, hint: str = "") -> None:
        """Note an error by the rules of the format with which the tool works all the same."""
        found = self._problem(where, message, hint)
        self.warnings.append(replace(found, warning=True, tolerated=True))

    def warn(self, where: KeyPath, message: str, hint: str = "") -> None:
        """Note what its author should know."""
        self.warnings.append(replace(self._problem(where, message, hint), warning=True))

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

    def _problem(self, where: KeyPath, message: str, hint: str) -> ToolProblem:
        line, column = self.document.position(where)
        return ToolProblem(self.document.path, message, line, column, json_path(where), hint)


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
