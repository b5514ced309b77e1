"""What can be wrong with a tool file, and where."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from tools.record import record


def _printable(text: str) -> str:
    """Return `text` with control, invisible and half characters written as escapes (R33, R36)."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def shown_path(path: Path) -> str:
    """Return a path for people: below the current directory relative, below home with `~`."""
    with suppress(OSError, RuntimeError):
        for base, prefix in ((Path.cwd(), ""), (Path.home(), "~/")):
            if base.parent != base and path.is_relative_to(base):
                return f"{prefix}{path.relative_to(base)}"
    return str(path)


@record
class ToolProblem:
    """A tool file that could not be used, or a warning about one that could.

    `path` is None for a warning about all tools together. `line` and `column` count from 1; `key`
    is a JSON path such as `$.parameters.required[0]`. A warning that is `tolerated` is an error by
    the rules of the format, with which the tool works all the same: loading lets it pass,
    checking a file by hand does not (X34, X36). `tool` names the tool it is about where a file
    holds several.
    """

    path: Path | None
    message: str
    line: int | None = None
    column: int | None = None
    key: str = ""
    hint: str = ""
    warning: bool = False
    tolerated: bool = False
    tool: str = ""

    @property
    def severity(self) -> str:
        """What it is to somebody who checks the file: `error` or `warning`."""
        return "warning" if self.warning and not self.tolerated else "error"

    def __str__(self) -> str:
        """One line for people: `path:line:column: key: message (hint)`, nothing in it unseen."""
        path = shown_path(self.path) if self.path else None
        place = ":".join(str(part) for part in (path, self.line, self.column) if part)
        told = ": ".join(part for part in (place, self.key, self.message) if part)
        return _printable(f"{told} ({self.hint})" if self.hint else told)


class ToolFileError(Exception):
    """A tool file is not usable.

    `problems` holds all that makes it so, at least one thing; `warnings` what else was noticed.
    """

    def __init__(
        self, problems: Sequence[ToolProblem], warnings: Sequence[ToolProblem] = ()
    ) -> None:
        super().__init__("; ".join(str(problem) for problem in problems))
        self.problems = tuple(problems)
        self.warnings = tuple(warnings)
