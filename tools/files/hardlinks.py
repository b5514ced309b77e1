"""Whether a file is known under other names too: a hard link shows what another name hides (R40).

A name says nothing of a file that has several. Such a file asks when another of its names holds
secrets, or when a name lies where opta cannot see it: outside the workspace. Package managers
link their packages from a cache outside; in their directories only known secrets count.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from tools.files.protected import secret_places, sensitivity

_PACKAGES = frozenset(("node_modules", "site-packages", ".venv", "venv", ".git"))
_MAX_SECONDS = 0.5
_MAX_STORED = 2000

_Identity = tuple[int, int]


class HardLinks:
    """Knows the other names of files in `root`, a real path; looks only once anybody asks."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._names: dict[_Identity, list[Path]] | None = None
        self._complete = True

    def reason(self, path: Path, status: os.stat_result) -> str:
        """Say why the file with this status asks because of its other names; empty if it need not.

        `path` lies in the root and is not sensitive by its own name.
        """
        if not stat.S_ISREG(status.st_mode) or status.st_nlink < 2:
            return ""
        identity = (status.st_dev, status.st_ino)
        inside = self._index().get(identity, [])
        secret = next(filter(None, map(sensitivity, [*inside, *_stored(identity)])), "")
        if secret:
            return f"{path.name} is another name (hard link) of {secret}"
        if _PACKAGES.isdisjoint(path.parts) and len(inside) < status.st_nlink and self._complete:
            return f"{path.name} has another name (hard link) outside the workspace"
        return ""

    def _index(self) -> dict[_Identity, list[Path]]:
        if self._names is None:
            self._names = {}
            deadline = time.monotonic() + _MAX_SECONDS
            for path, identity in _linked_files(self._root):
                self._names.setdefault(identity, []).append(path)
                if time.monotonic() > deadline:
                    self._complete = False
                    break
        return self._names


def other_names(path: Path, root: Path) -> str:
    """Say why `path` asks because of its other names, or return an empty text."""
    try:
        status = os.lstat(path)
    except OSError:
        return ""
    return HardLinks(root).reason(path, status)


def _linked_files(root: Path) -> Iterator[tuple[Path, _Identity]]:
    """Yield the regular files below `root` that have several names, no link followed."""
    pending = [root]
    while pending:
        with suppress(OSError), os.scandir(pending.pop()) as entries:
            for entry in entries:
                with suppress(OSError):
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(Path(entry.path))
                    elif entry.is_file(follow_symlinks=False):
                        status = entry.stat(follow_symlinks=False)
                        if status.st_nlink > 1:
                            yield Path(entry.path), (status.st_dev, status.st_ino)


def _stored(wanted: _Identity) -> Iterator[Path]:
    """Yield the names of this file among the stores of keys and logins in the home directory."""
    left = _MAX_STORED
    for place in secret_places():
        for path in (place, *_files_below(place)):
            left -= 1
            with suppress(OSError):
                status = os.lstat(path)
                if (status.st_dev, status.st_ino) == wanted:
                    yield path
            if not left:
                return


def _files_below(directory: Path) -> Iterator[Path]:
    for place, _, names in os.walk(directory):
        yield from (Path(place, name) for name in names)
