"""What the files of a directory are at one moment, by content, and what changed since another.

Links are never followed, and a file with several names is left out: putting one of them back
would change the others (R21). What the project ignores is left out too: build results and
installed packages are made again. Files of secrets are not copied anywhere (R39).
"""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, TypeAlias

from tools.files.gitignore import Ignores
from tools.files.paths import is_temporary
from tools.files.protected import sensitivity

MAX_FILES = 200_000
MAX_FILE_BYTES = 5_000_000
MAX_TOTAL_BYTES = 500_000_000
_MAX_DEPTH = 100
_FRESH_NS = 50_000_000
"""A file changed so short ago may change again without a new time: it is read again."""

_BY_HANDLE = os.scandir in os.supports_fd and os.open in os.supports_dir_fd
_DIRECTORY = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
_FILE = os.O_RDONLY | sum(
    getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY", "O_CLOEXEC")
)

Signature: TypeAlias = tuple[int, int, int, int, int]
"""Modification and change time (ns), size (bytes), inode, mode: equal means unchanged."""

KeepContent: TypeAlias = Callable[[bytes, bytes], None]
"""Keeps a content: its sha256 digest (32 bytes), and the bytes."""


class FileVersion(NamedTuple):
    """A file at one moment: sha256 of its content (32 bytes), permission bits."""

    digest: bytes
    mode: int


_HIDDEN = "was ignored, or could not be looked into, before or after"

DIRECTORY = FileVersion(b"", 0)
"""Stands for a directory."""


class Seen(NamedTuple):
    """A file as it was looked at."""

    signature: Signature
    version: FileVersion


class Change(NamedTuple):
    """One path that differs: None stands for nothing there. `path` has `/` between its names."""

    path: str
    before: FileVersion | None
    after: FileVersion | None


@dataclass(slots=True)
class Snapshot:
    """The files below a directory, its directories, and what could not be kept, with the reason.

    `hidden` are files and directories that are ignored or could not be looked into. `incomplete`
    says why the tree as a whole was not looked at; empty where it was.
    """

    files: dict[str, Seen] = field(default_factory=dict)
    directories: set[str] = field(default_factory=set)
    left_out: dict[str, tuple[Signature, str]] = field(default_factory=dict)
    hidden: set[str] = field(default_factory=set)
    incomplete: str = ""

    def changes_to(self, later: Snapshot) -> list[Change]:
        """Return what has to be done to this snapshot to get `later`, by path."""
        found = [
            Change(path, _version(self.files, path), _version(later.files, path))
            for path in _different(self.files, later.files)
            if path not in self.left_out and path not in later.left_out
        ]
        found += [
            Change(path, *((DIRECTORY, None) if path in self.directories else (None, DIRECTORY)))
            for path in self.directories ^ later.directories
        ]
        hidden = self.hidden | later.hidden
        return sorted(
            change
            for change in found
            if change.before != change.after and not _hidden_at(change.path, hidden)
        )

    def uncovered(self, later: Snapshot) -> list[tuple[str, str]]:
        """Return paths that changed and cannot be put back, each with the reason."""
        paths = {
            path
            for path in self.left_out.keys() | later.left_out.keys()
            if _signature_of(self, path) != _signature_of(later, path)
        }
        found = {(path, _reason(self, later, path)) for path in paths}
        hidden = self.hidden | later.hidden
        different = _different(self.files, later.files) | (self.directories ^ later.directories)
        for path in different if hidden else ():
            # Ignored before and not after, it is there as before: no new file, none that is gone.
            found.update((place, _HIDDEN) for place in _hidden_at(path, hidden))
        return sorted(found)


@dataclass(slots=True)
class _Listing:
    """The names in a directory as long as it and the ignore rules stay the same."""

    signature: Signature
    above: Ignores
    ignore_file: Signature | None
    ignores: Ignores
    files: tuple[str, ...]
    directories: tuple[str, ...]
    hidden: tuple[str, ...]


class TreeWatcher:
    """Takes snapshots of one directory; what did not change is not read again.

    `root` is a real path. `known` are signatures and versions from earlier, whose content is kept
    already. `apart` is a directory that is not looked into. Not for use by two threads at once.
    """

    def __init__(
        self, root: Path, known: Mapping[str, Seen], keep: KeepContent, apart: Path | None = None
    ) -> None:
        self.root = root
        self._apart = "" if apart is None else os.fspath(apart)
        self._known = dict(known)
        self._keep = keep
        self._listings: dict[str, _Listing] = {}

    def snapshot(self, go_on: Callable[[], bool] = lambda: True) -> Snapshot:
        """Look at the whole tree; `incomplete` where it is too large or `go_on` said no."""
        taken = Snapshot()
        look = _Look(self._known, self._keep, taken, time.time_ns(), go_on)
        try:
            self._enter("", os.fspath(self.root), None, Ignores(), look, 0)
        except OSError:
            taken.hidden.add("")
        if not taken.incomplete:
            self._known = dict(taken.files)
        return taken

    def snapshot_of(self, paths: Iterable[str]) -> Snapshot:
        """Look at these paths alone (relative, `/` between names)."""
        taken = Snapshot()
        look = _Look(self._known, self._keep, taken, time.time_ns(), lambda: True)
        for path in paths:
            parent, _, name = path.rpartition("/")
            with suppress(OSError), _opened(self.root, parent) as (handle, base):
                look.at_files([name], f"{parent}/" if parent else "", handle, base)
        return taken

    def _enter(
        self, relative: str, path: str, parent: int | None, above: Ignores, look: _Look, depth: int
    ) -> None:
        handle = _open_directory(path, parent)
        try:
            listing = self._listing(relative, path, handle, above)
            prefix = f"{relative}/" if relative else ""
            look.at_files(listing.files, prefix, handle, path)
            look.taken.hidden.update(prefix + name for name in listing.hidden)
            for name in listing.directories if depth < _MAX_DEPTH else ():
                if look.taken.incomplete:
                    return
                inner = prefix + name
                look.taken.directories.add(inner)
                try:
                    self._enter(inner, f"{path}/{name}", handle, listing.ignores, look, depth + 1)
                except FileNotFoundError:
                    continue
                except OSError:
                    look.taken.hidden.add(inner)
        finally:
            if handle is not None:
                os.close(handle)

    def _listing(self, relative: str, path: str, handle: int | None, above: Ignores) -> _Listing:
        signature = _signature(os.stat(path) if handle is None else os.fstat(handle))  # noqa: PTH116
        known = self._listings.get(relative)
        if (
            known is not None
            and known.signature == signature
            and known.above is above
            and (known.ignore_file is None or known.ignore_file == _ignore_file(path, handle))
        ):
            return known
        ignore_file = _ignore_file(path, handle)
        ignores = above.within(Path(path))
        files: list[str] = []
        directories: list[str] = []
        hidden: list[str] = []
        with os.scandir(path if handle is None else handle) as entries:
            for entry in entries:
                is_directory = entry.is_dir(follow_symlinks=False)
                ignored = ignores.ignored(f"{path}/{entry.name}", is_directory=is_directory)
                if (
                    entry.name == ".git"
                    or is_temporary(entry.name)
                    or f"{path}/{entry.name}" == self._apart
                ):
                    continue
                kind = hidden if ignored else directories if is_directory else files
                kind.append(entry.name)
        names = (tuple(sorted(found)) for found in (files, directories, hidden))
        listing = _Listing(signature, above, ignore_file, ignores, *names)
        if time.time_ns() - signature[0] > _FRESH_NS:
            self._listings[relative] = listing
        return listing


@dataclass(slots=True)
class _Look:
    """One walk over a tree."""

    known: Mapping[str, Seen]
    keep: KeepContent
    taken: Snapshot
    now_ns: int
    go_on: Callable[[], bool]
    total_bytes: int = 0

    def at_files(
        self, names: Iterable[str], prefix: str, handle: int | None, directory: str
    ) -> None:
        """Take the files of one directory into the snapshot. What is gone meanwhile is not there.

        Tens of thousands go through this loop before a turn: it does little for each.
        """
        known, files, size = self.known, self.taken.files, 0
        for name in names:
            path = prefix + name
            try:
                found = _status(name, handle, directory)
            except OSError:
                continue
            seen = known.get(path)
            if seen is not None and seen[0] == _signature(found):
                files[path] = seen
                size += found.st_size
            elif reason := _reason_to_leave_out(path, found):
                self.taken.left_out[path] = (_signature(found), reason)
            else:
                self._read(path, name, handle, directory)
                size += found.st_size
                if not self.go_on():
                    break
        self.total_bytes += size
        self._check_size()

    def _check_size(self) -> None:
        if len(self.taken.files) > MAX_FILES:
            self.taken.incomplete = f"it has more than {MAX_FILES:,} files"
        elif self.total_bytes > MAX_TOTAL_BYTES:
            self.taken.incomplete = f"its files are more than {MAX_TOTAL_BYTES // 10**6} MB"
        elif not self.go_on():
            self.taken.incomplete = "it was left before all of it was looked at"

    def _read(self, path: str, name: str, handle: int | None, directory: str) -> None:
        try:
            descriptor = os.open(name if handle is not None else f"{directory}/{name}", _FILE,
                                 dir_fd=handle)  # fmt: skip
        except OSError as error:
            reason = (error.strerror or "cannot be read").lower()
            self.taken.left_out[path] = ((0, 0, 0, 0, 0), reason)
            return
        with open(descriptor, "rb", buffering=0) as file:
            status = os.fstat(descriptor)
            if reason := _reason_to_leave_out(path, status):
                self.taken.left_out[path] = (_signature(status), reason)
                return
            data = file.read(MAX_FILE_BYTES + 1) or b""
        digest = hashlib.sha256(data).digest()
        self.keep(digest, data)
        fresh = self.now_ns - max(status.st_mtime_ns, status.st_ctime_ns) < _FRESH_NS
        signature = (0, 0, 0, 0, 0) if fresh else _signature(status)
        self.taken.files[path] = Seen(signature, FileVersion(digest, stat.S_IMODE(status.st_mode)))


def _signature(found: os.stat_result) -> Signature:
    return (found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino, found.st_mode)


def _status(name: str, handle: int | None, directory: str) -> os.stat_result:
    if handle is None:
        return os.lstat(f"{directory}/{name}")
    return os.stat(name, dir_fd=handle, follow_symlinks=False)


def _reason_to_leave_out(path: str, found: os.stat_result) -> str:
    if stat.S_ISLNK(found.st_mode):
        return "is a link"
    if not stat.S_ISREG(found.st_mode):
        return "is no regular file"
    if found.st_nlink > 1:
        return "has several names (hard links)"
    if found.st_size > MAX_FILE_BYTES:
        return f"is larger than {MAX_FILE_BYTES // 10**6} MB"
    return "may hold secrets" if sensitivity(Path(path)) else ""


def _open_directory(path: str, parent: int | None) -> int | None:
    if not _BY_HANDLE:
        return None
    if parent is None:
        return os.open(path, _DIRECTORY)
    return os.open(path.rpartition("/")[2], _DIRECTORY, dir_fd=parent)


@contextmanager
def _opened(root: Path, relative: str) -> Iterator[tuple[int | None, str]]:
    """Open a directory below the root, no link on the way; give its handle and path."""
    path = os.fspath(root)
    handle = _open_directory(path, None)
    try:
        for name in filter(None, relative.split("/")):
            path = f"{path}/{name}"
            outer, handle = handle, _open_directory(path, handle)
            if outer is not None:
                os.close(outer)
        yield handle, path
    finally:
        if handle is not None:
            os.close(handle)


def _ignore_file(path: str, handle: int | None) -> Signature | None:
    with suppress(OSError):
        return _signature(_status(".gitignore", handle, path))
    return None


def _version(files: Mapping[str, Seen], path: str) -> FileVersion | None:
    seen = files.get(path)
    return None if seen is None else seen.version


def _different(before: Mapping[str, Seen], after: Mapping[str, Seen]) -> set[str]:
    return {
        path for path in before.keys() | after.keys() if before.get(path) is not after.get(path)
    }


def _hidden_at(path: str, hidden: set[str]) -> set[str]:
    """Return which of `hidden` a path is, or lies below."""
    names = path.split("/")
    return {"/".join(names[:count]) for count in range(len(names) + 1)} & hidden


def _signature_of(taken: Snapshot, path: str) -> Signature | None:
    if path in taken.left_out:
        return taken.left_out[path][0]
    seen = taken.files.get(path)
    return None if seen is None else seen.signature


def _reason(before: Snapshot, after: Snapshot, path: str) -> str:
    return (after.left_out.get(path) or before.left_out[path])[1]
