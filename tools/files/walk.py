"""Walks a directory tree in order, following no link and leaving out what the project ignores."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from tools.files.directory import Directory, UnsafeFile
from tools.files.gitignore import Ignores
from tools.files.paths import is_temporary
from tools.record import record

_BY_HANDLE = os.scandir in os.supports_fd and os.open in os.supports_dir_fd
_DIRECTORY = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
_FILE = (
    os.O_RDONLY
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_BINARY", 0)
)
_MAX_DEPTH = 100

KERNEL_TREES = (Path("/proc"), Path("/sys"))
"""What looks like files here is made while it is read: memory, or what never ends (R20)."""


@record
class Entry:
    """A file or directory below the root; `relative` has `/` between its names."""

    relative: str
    path: Path
    is_directory: bool
    handle: int | None

    def open(self) -> int:
        """Open the file and return its descriptor, which the caller closes.

        Only valid until the walk goes on. Raises OSError, also for links.
        """
        if self.handle is None:
            return open_unlinked(self.path)
        return os.open(self.path.name, _FILE, dir_fd=self.handle)


def open_unlinked(path: Path) -> int:
    """Open a regular file that is found without a link on the way; the caller closes it.

    Raises OSError.
    """
    try:
        with Directory(path.parent) as directory:
            return directory.open_regular(path.name)
    except UnsafeFile as error:
        raise OSError(errno.ELOOP, str(error), str(path)) from error


def walk(root: Path, ignores: Ignores, go_on: Callable[[], bool]) -> Iterator[Entry]:
    """Yield what lies below `root`, sorted by name, `.git` and ignored entries left out.

    Directories that cannot be read are left out too. Stops when `go_on` says no.
    """
    yield from _walk(root, "", None, ignores, go_on, 0)


def _walk(
    directory: Path,
    prefix: str,
    parent: int | None,
    ignores: Ignores,
    go_on: Callable[[], bool],
    depth: int,
) -> Iterator[Entry]:
    handle = _open(directory, parent)
    if handle is None and _BY_HANDLE:
        return
    try:
        for name, is_directory in _listed(directory, handle):
            path = directory / name
            if not go_on():
                return
            if name == ".git" or is_temporary(name) or (not prefix and path in KERNEL_TREES):
                continue
            if ignores.ignored(str(path), is_directory=is_directory):
                continue
            yield Entry(f"{prefix}{name}", path, is_directory, handle)
            if is_directory and depth < _MAX_DEPTH:
                inner = ignores.within(path)
                yield from _walk(path, f"{prefix}{name}/", handle, inner, go_on, depth + 1)
    finally:
        if handle is not None:
            os.close(handle)


def _open(directory: Path, parent: int | None) -> int | None:
    if not _BY_HANDLE:
        return None
    try:
        if parent is None:
            with Directory(directory) as opened:
                return opened.listed()
        return os.open(directory.name, _DIRECTORY, dir_fd=parent)
    except (OSError, UnsafeFile):
        return None


def _listed(directory: Path, handle: int | None) -> list[tuple[str, bool]]:
    """Return names with whether they are directories; links, pipes and devices are left out."""
    try:
        with os.scandir(directory if handle is None else handle) as entries:
            found = [
                (entry.name, entry.is_dir(follow_symlinks=False))
                for entry in entries
                if entry.is_dir(follow_symlinks=False) or entry.is_file(follow_symlinks=False)
            ]
    except OSError:
        return []
    return sorted(found)
