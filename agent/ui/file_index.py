"""The files of the workspace that a person may refer to, found in the background."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

MAX_FILES = 50_000
"""Of files and directories: a larger list takes longer to search than a key may take."""
MAX_DEPTH = 24
MAX_SECONDS = 2.0
FRESH_S = 5.0
"""How long a list is used before the next question looks again, in seconds."""


class FileIndex:
    """Relative paths below `root`, directories with a trailing slash; `.gitignore` is respected.

    The first question waits a moment for the list, later ones get the last list while a thread
    makes a new one. Very large trees are cut off, near directories first.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._paths: tuple[str, ...] = ()
        self._made_at = float("-inf")
        self._thread: threading.Thread | None = None

    def paths(self, wait_s: float = 0.2) -> tuple[str, ...]:
        """Return the paths known now. Never called on the event loop's thread."""
        if time.monotonic() - self._made_at > FRESH_S and not self._is_busy():
            self._thread = threading.Thread(target=self._refresh, daemon=True)
            self._thread.start()
        if self._thread is not None and not self._paths:
            self._thread.join(wait_s)
        return self._paths

    def _is_busy(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def _refresh(self) -> None:
        self._paths = tuple(walk(self._root))
        self._made_at = time.monotonic()


def walk(root: Path) -> Iterator[str]:
    """Yield the relative paths below `root`, breadth first, within the limits of this module."""
    deadline = time.monotonic() + MAX_SECONDS
    found = 0
    level: list[tuple[str, tuple[tuple[str, GitIgnoreSpec], ...]]] = [("", ())]
    for _ in range(MAX_DEPTH):
        deeper = []
        for directory, outer in level:
            rules = (*outer, *_ignore_rules(root, directory))
            for name, is_directory in _entries(root / directory):
                path = directory + name + ("/" if is_directory else "")
                if name == ".git" or _is_ignored(path, rules):
                    continue
                found += 1
                if found > MAX_FILES or time.monotonic() > deadline:
                    return
                yield path
                if is_directory:
                    deeper.append((path, rules))
        level = deeper


def _entries(directory: Path) -> list[tuple[str, bool]]:
    """Return names and whether they are directories; links are never followed."""
    try:
        with os.scandir(directory) as entries:
            return sorted(
                (entry.name, entry.is_dir(follow_symlinks=False))
                for entry in entries
                if entry.name.isprintable()
            )
    except OSError:
        return []


def _ignore_rules(root: Path, directory: str) -> Iterator[tuple[str, GitIgnoreSpec]]:
    file = root / directory / ".gitignore"
    try:
        text = file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""
    except OSError:
        return
    if text:
        from pathspec import GitIgnoreSpec

        yield directory, GitIgnoreSpec.from_lines(text.splitlines())


def _is_ignored(path: str, rules: tuple[tuple[str, GitIgnoreSpec], ...]) -> bool:
    """Say what the nearest `.gitignore` with an opinion says."""
    for directory, spec in reversed(rules):
        include = spec.check_file(path[len(directory) :]).include
        if include is not None:
            return include
    return False
