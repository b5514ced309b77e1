"""Where the walls of a sandbox stand: which files are kept and which are hidden (R27, R40).

It looks at the disk when a process starts. Of a workspace it sees the upper directories: a walk
over all of a large tree would cost more than the command.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path

from tools.confinement import Walls
from tools.files.paths import folded_name
from tools.files.protected import (
    START_FILES,
    holds_secret,
    home_directory,
    is_protected,
    own_directories,
    protected_names,
    secret_places,
)

MAX_ENTRIES = 2000
"""How many names of a writable tree are looked at, the nearest first."""

_NOT_ENTERED = frozenset({
    ".git", "node_modules", ".venv", "venv", "__pycache__", "target", "site-packages", ".tox",
    ".mypy_cache", ".pytest_cache", "vendor", "Pods", ".gradle",
})  # fmt: skip

_GIT_KEPT = ("hooks", "config", "config.worktree", "commondir", "modules", "worktrees", "info")
"""What git runs or obeys in its directory; the rest a commit must be able to write."""

_SYSTEM_SECRETS = ("/etc/shadow", "/etc/gshadow", "/etc/shadow-", "/etc/gshadow-",
                   "/etc/sudoers.d", "/etc/ssl/private")  # fmt: skip


def survey(writable: Sequence[Path], readable: Sequence[Path]) -> Walls:
    """Return the walls for what may be written, and for secrets that may be read all the same.

    opta's own directories are hidden whatever else is said.
    """
    tops = tuple(dict.fromkeys(Path(os.path.realpath(path)) for path in writable))
    shown = tuple(Path(os.path.realpath(path)) for path in readable)
    kept: dict[Path, None] = {}
    guarded: dict[Path, None] = {}
    hidden = dict.fromkeys(_secrets())
    for top in tops:
        if not top.is_dir():
            continue
        for path in _obeyed(top):
            (kept if _stands(path) else guarded)[path] = None
        for path, is_secret in _found_in(top):
            (hidden if is_secret else kept)[path] = None
    visible = [path for path in hidden if not any(path.is_relative_to(top) for top in shown)]
    own = [path for path in own_directories() if path.exists()]
    return Walls(
        tops, tuple(path for path in kept if path not in tops), (*visible, *own), tuple(guarded)
    )


def _stands(path: Path) -> bool:
    """True for what can be mounted over: a link can be replaced, so it is guarded."""
    return os.path.lexists(path) and not path.is_symlink()


def _obeyed(top: Path) -> Iterator[Path]:
    """Yield the names directly in `top` that something runs or obeys, there or not."""
    for name in protected_names():
        path = top / name
        if name == ".git" and path.is_dir() and not path.is_symlink():
            yield from (path / inner for inner in _GIT_KEPT)
        else:
            yield path
    if top == home_directory():
        yield from (top / name for name in START_FILES)


def _found_in(top: Path) -> Iterator[tuple[Path, bool]]:
    """Yield what is to be hidden (True) or kept (False) further down, breadth first."""
    pending = deque([str(top)])
    seen = 0
    while pending and seen < MAX_ENTRIES:
        directory = pending.popleft()
        for entry in _entries(directory):
            seen += 1
            name = folded_name(entry.name)
            if entry.is_symlink():
                continue
            if holds_secret(name):
                yield Path(entry.path), True
            elif is_protected(name):
                yield from ((path, False) for path in _kept_of(Path(entry.path)))
            elif entry.is_dir() and name not in _NOT_ENTERED:
                pending.append(entry.path)


def _kept_of(path: Path) -> list[Path]:
    if path.name == ".git" and path.is_dir():
        return [inner for name in _GIT_KEPT if _stands(inner := path / name)]
    return [path]


def _entries(directory: str | Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as entries:
            return list(entries)
    except OSError:
        return []


def _secrets() -> Iterator[Path]:
    """Yield where this person, and this machine, keep keys and logins, as far as they exist."""
    machine = (path for path in map(Path, _SYSTEM_SECRETS) if path.exists())
    for path in (*machine, *secret_places()):
        yield Path(os.path.realpath(path))
