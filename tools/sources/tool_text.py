"""The text of a tool file, for telling where in it something is wrong."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from tools.definition import ToolDefinition
from tools.engine.template import Placeholder
from tools.formats.cycod_steps import COMMAND_KEYS
from tools.formats.problems import ToolProblem
from tools.record import record
from tools.yamltext import Document, DocumentError, KeyPath, json_path, parse


@record
class ToolText:
    """A tool file, read once more. `document` None: where its keys are is not known.

    `path` and `line` say where the tool begins.
    """

    document: Document | None
    text: str
    path: Path | None
    line: int | None

    @classmethod
    def of(cls, definition: ToolDefinition, data: bytes) -> ToolText:
        """Read the bytes that `definition` came from."""
        origin = definition.origin
        document = _document(data, origin.path or Path("-"))
        return cls(document, data.decode("utf-8-sig", "replace"), origin.path, origin.line)

    def position(
        self, where: KeyPath, pattern: str = "", before: int = 0
    ) -> tuple[int | None, int | None, str]:
        """Return line, column and JSON path of a key.

        With `pattern`, line and column are those of what it matches behind the key, after so many
        matches `before` it.
        """
        if self.document is None:
            return self.line, 1, json_path(where)
        path = _exact(self.document, where)
        line, column = self.document.position(path)
        if pattern:
            line, column = self._match(pattern, before, line, column)
        return line, column, json_path(path)

    def warning(
        self, where: KeyPath, message: str, hint: str, pattern: str, before: int
    ) -> ToolProblem:
        """Return a warning about a place, as `position` finds it."""
        line, column, key = self.position(where, pattern, before)
        return ToolProblem(self.path, message, line, column, key, hint, warning=True)

    def _match(self, pattern: str, before: int, line: int, column: int) -> tuple[int, int]:
        lines = self.text.splitlines(keepends=True)
        start = sum(map(len, lines[: line - 1])) + column - 1
        matches = re.compile(pattern).finditer(self.text, start)
        found = next(islice(matches, before, None), None)
        if found is None:
            return line, column
        at = found.start()
        return self.text.count("\n", 0, at) + 1, at - self.text.rfind("\n", 0, at)


def before(place: Placeholder, places: Sequence[Placeholder]) -> int:
    """Return how many of the `places` of a text say the same as `place` and come before it."""
    number = next(at for at, other in enumerate(places) if other is place)
    return sum(other.key == place.key for other in places[:number])


def _document(data: bytes, path: Path) -> Document | None:
    if not data:
        return None
    try:
        return parse(data, path, allow_repeated=True)
    except DocumentError:
        from tools.formats.yaml_repair import parse_mended

        mended = parse_mended(data, path)
        return mended[0] if mended else None


def _exact(document: Document, where: KeyPath) -> KeyPath:
    """Return the path of the key that holds a command; a tool of one command has no steps."""
    if where[:1] == ("steps",) and ("steps",) not in document.positions:
        where = where[2:]
    keys = (key for key in (*COMMAND_KEYS, "command") if (*where, key) in document.positions)
    return (*where, *list(keys)[:1])
