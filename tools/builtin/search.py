"""Searches files with opta's own means: every expression under a deadline (R42)."""

from __future__ import annotations

import os
import re
import stat
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tools.builtin.findings import Findings, Hit
from tools.definition import ToolError
from tools.files.gitignore import Ignores
from tools.files.globs import Globs
from tools.files.hardlinks import HardLinks, other_names
from tools.files.protected import sensitivity
from tools.files.textfile import NotText, decode
from tools.files.walk import Entry, walk
from tools.permissions.rules import Rule
from tools.record import record

MAX_FILE_BYTES = 32 * 1024 * 1024
BUDGET_S = 20.0
TEXT_BUDGET_S = 2.0
"""How long an expression may take on one text, in seconds: nothing can interrupt it earlier."""

_WHOLE_TEXT_DIFFERS = re.compile(r"\\[AZz]|\(\?<?!")
_META = re.compile(r"[\\^$.|?*+()\[\]{}]")


@record
class Request:
    """What to look for below `place` (a real path, in the tree `root`).

    Hits are named with `prefix` before their path below `place`.

    `literal` takes the pattern as text, `across` lets matches span lines. `names` None searches
    contents; else paths that match are the hits. `include` None takes every file; where it is a
    single pattern, `ending` is that pattern. `budget_s` is how long it may take, in seconds.
    `kept_by` names the permission rule that a file is left out for.
    """

    pattern: str
    place: Path
    root: Path
    limit: int
    prefix: str = ""
    literal: bool = False
    across: bool = False
    names: Globs | None = None
    include: Globs | None = None
    exclude: Globs | None = None
    ending: str = ""
    budget_s: float = BUDGET_S
    kept_by: Callable[[Path], Rule | None] = lambda path: None

    def takes(self, relative: str) -> bool:
        """True when a file is to be looked at; exclude wins over include (E129)."""
        if self.exclude is not None and self.exclude.matches(relative):
            return False
        return self.include is None or self.include.matches(relative)


@dataclass
class Clock:
    """When a search has to end: after its time, or when nobody waits any more."""

    deadline: float
    cancelled: threading.Event = field(default_factory=threading.Event)

    def left(self) -> float:
        """Return the seconds that one expression may take now, at least a millisecond."""
        return min(max(self.deadline - time.monotonic(), 0.001), TEXT_BUDGET_S)

    def runs(self) -> bool:
        """True while there is time and somebody waits."""
        return not self.cancelled.is_set() and time.monotonic() < self.deadline


def search(request: Request, clock: Clock) -> Findings:
    """Search and return what was found by path. Raises ToolError for a bad expression."""
    findings = Findings(request.limit)
    look = None if request.names is not None else _Matcher(request, clock)
    links = HardLinks(request.root)
    answered = bool(sensitivity(request.place) or other_names(request.place, request.root))
    try:
        for entry in _entries(request, clock):
            if (rule := request.kept_by(entry.path)) is not None:
                findings.keep_out(rule, is_directory=entry.is_directory)
            elif request.names is not None:
                findings.add(_name_hits(request, request.names, entry))
            elif not entry.is_directory and request.takes(entry.relative):
                name = f"{request.prefix}{entry.relative}"
                if not answered and sensitivity(entry.path):
                    findings.secret.append(name)
                elif look is not None:
                    findings.add(
                        _content_hits(name, entry, look, findings, None if answered else links)
                    )
    except TimeoutError:
        findings.stopped = "stopped: this expression takes too long; make it simpler"
        return findings
    if not clock.runs():
        findings.stopped = (
            f"stopped after {request.budget_s:g} s; there may be more: narrow path or glob"
        )
    return findings


def is_expression(pattern: str) -> bool:
    """True when a pattern means something else as an expression than as plain text."""
    return _META.search(pattern) is not None


def _entries(request: Request, clock: Clock) -> Iterator[Entry]:
    place = request.place
    if place.is_dir():
        tree = request.root if request.root in (place, *place.parents) else place
        yield from walk(place, Ignores.above(place, tree), clock.runs)
    else:
        yield Entry(place.name, place, False, None)


def _name_hits(request: Request, names: Globs, entry: Entry) -> list[Hit]:
    if entry.is_directory and not names.lists_directories:
        return []
    if not names.matches(entry.relative) or not request.takes(entry.relative):
        return []
    return [Hit(f"{request.prefix}{entry.relative}{'/' * entry.is_directory}")]


def _content_hits(
    name: str, entry: Entry, look: _Matcher, findings: Findings, links: HardLinks | None
) -> list[Hit]:
    try:
        with open(entry.open(), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                return []
            if links is not None and links.reason(entry.path, status):
                findings.linked.append(name)
                return []
            if status.st_size > MAX_FILE_BYTES:
                findings.large.append(name)
                return []
            text, _ = decode(file.read(MAX_FILE_BYTES))
    except (OSError, NotText):
        return []
    return [Hit(name, *found) for found in look.hits(text)]


class _Matcher:
    """Finds the matching lines of a text: number, text, column."""

    def __init__(self, request: Request, clock: Clock) -> None:
        self._clock = clock
        self._across = request.across
        self._text = request.pattern if request.literal else ""
        self._expression = None if request.literal else _compiled(request.pattern)
        self._prefilter = _WHOLE_TEXT_DIFFERS.search(request.pattern) is None

    def hits(self, text: str) -> Iterator[tuple[int, str, int]]:
        """Yield the hits of one file. Raises TimeoutError."""
        if self._expression is None:
            if self._text in text:
                yield from self._by_line(text)
        elif self._across:
            yield from self._spanning(text)
        elif not self._prefilter or self._search(text) is not None:
            # Most files hold no match at all; the others are looked at line by line.
            yield from self._by_line(text)

    def _by_line(self, text: str) -> Iterator[tuple[int, str, int]]:
        for number, raw in enumerate(text.split("\n"), 1):
            line = raw.removesuffix("\r")
            column = line.find(self._text) if self._expression is None else self._column(line)
            if column >= 0:
                yield number, line, column

    def _column(self, line: str) -> int:
        found = self._search(line)
        return -1 if found is None else found.start()

    def _search(self, text: str) -> Any:
        assert self._expression is not None
        return self._expression.search(text, timeout=self._clock.left(), concurrent=True)

    def _spanning(self, text: str) -> Iterator[tuple[int, str, int]]:
        assert self._expression is not None
        line, counted = 1, 0
        for found in self._expression.finditer(text, timeout=self._clock.left(), concurrent=True):
            line += text.count("\n", counted, found.start())
            counted = found.start()
            start = text.rfind("\n", 0, found.start()) + 1
            end = text.find("\n", max(found.end() - 1, found.start()))
            whole = text[start : end if end >= 0 else len(text)]
            yield line, whole.replace("\r\n", "\n").removesuffix("\r"), found.start() - start


def _compiled(pattern: str) -> Any:
    import regex  # type: ignore[import-untyped]

    try:
        return regex.compile(pattern, regex.MULTILINE)
    except (regex.error, RecursionError, OverflowError) as error:
        raise ToolError(
            f"The pattern {pattern!r} is no regular expression: {error}. To find it as plain "
            'text use mode "grep".'
        ) from None
