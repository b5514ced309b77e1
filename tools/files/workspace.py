"""Reads and writes files for every tool: real paths, no links followed, nothing half written."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path

from tools.definition import Effect, EffectKind, ResolvedCall
from tools.files.directory import Directory, UnsafeFile, remove_unfinished
from tools.files.hardlinks import other_names
from tools.files.paths import PathProblem, absolute_path, is_within, real_path, shown_name
from tools.files.protected import protection, sensitivity
from tools.permissions.grant import Grant
from tools.record import record

_KERNEL_FILES = {"environ", "auxv", "mem", "maps", "smaps", "kcore", "kmsg", "pagemap"}
"""Files below `/proc` that hold secrets or memory, or never end (R20)."""


__all__ = ["FileMissing", "FileProblem", "FileState", "Workspace", "remove_unfinished"]


class FileProblem(Exception):
    """A file cannot be read or written. The message goes to the model."""


class FileMissing(FileProblem):
    """There is no such file."""


@record
class FileState:
    """What a file was when it was seen: modification time (ns), size (bytes), sha256 (hex).

    `digest` is empty for a file of which only a part was read; then time and size decide.
    """

    mtime_ns: int
    size: int
    digest: str


class Workspace:
    """The directory the person works in, and what was seen of its files in this session (R15, R17).

    `root` is a real path. `seen` remembers the state of each file that was read or written.
    `also_readable` are directories outside that count as inside for reading.
    """

    def __init__(self, root: Path, also_readable: tuple[Path, ...] = ()) -> None:
        self.root = root.resolve()
        self.also_readable = tuple(directory.resolve() for directory in also_readable)
        self.seen: dict[Path, FileState] = {}

    def resolve(self, text: str) -> Path:
        """Return the real absolute path of `text` (relative: to the root; `~` is expanded).

        Raises FileProblem for NUL bytes, empty text, and Windows device and network paths.
        """
        try:
            return real_path(text, self.root)
        except PathProblem as error:
            raise FileProblem(str(error)) from error
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise FileProblem(f"Cannot look up {shown_name(text)}: {reason}.") from error

    def effect(self, kind: EffectKind, path: Path, subject: str, asked: str = "") -> Effect:
        """Describe reading or writing `path` for the gate: inside, protected (R27), secret (R40).

        `asked` is the path as the model wrote it: a link named `.env` is as sensitive as a file,
        and so is a file of which a hard link is named so.
        """
        names = [path]
        if asked:
            names.append(absolute_path(asked, self.root))
        writing = kind is EffectKind.WRITE
        sensitive = next(filter(None, map(sensitivity, names)), "")
        if not sensitive and path.is_relative_to(self.root):
            sensitive = other_names(path, self.root)
        return Effect(
            kind,
            str(path),
            subject,
            inside=self._inside(path, writing=writing),
            protected=next(filter(None, map(protection, names)), "") if writing else "",
            sensitive=sensitive,
        )

    def shown(self, path: Path) -> str:
        """Return `path` as people read it: relative to the root where it lies inside."""
        return shown_name(str(path.relative_to(self.root) if self.root in path.parents else path))

    @contextmanager
    def open(self, path: Path) -> Iterator[BufferedReader]:
        """Open a regular file for reading, no link followed on the way (R16).

        Raises FileMissing, or FileProblem for anything but a readable regular file (R20).
        """
        _refuse_kernel_file(path, self.shown(path))
        try:
            with Directory(path.parent) as directory:
                descriptor = directory.open_regular(path.name)
            with open(descriptor, "rb") as file:
                yield file
        except (OSError, UnsafeFile) as error:
            raise self._problem("read", path, error) from error

    def read(self, path: Path, limit_bytes: int) -> bytes:
        """Read a regular file and remember its state.

        Raises FileMissing, or FileProblem for anything but a readable regular file (R20), or one
        over the limit.
        """
        data, state = self.peek(path, limit_bytes)
        self.seen[path] = state
        return data

    def peek(self, path: Path, limit_bytes: int) -> tuple[bytes, FileState]:
        """Read a regular file without counting it as seen. Raises as `read` does."""
        with self.open(path) as file:
            status = os.fstat(file.fileno())
            data = b"" if status.st_size > limit_bytes else file.read(limit_bytes + 1)
            if status.st_size > limit_bytes or len(data) > limit_bytes:
                raise FileProblem(
                    f"{self.shown(path)} is too large: {status.st_size:,} bytes, at most "
                    f"{limit_bytes:,}. Read a part of it, or use run_command."
                )
            return data, _state(status, hashlib.sha256(data).hexdigest())

    def remember(self, path: Path, status: os.stat_result) -> None:
        """Remember a file of which only a part was read, by time and size."""
        self.seen[path] = FileState(status.st_mtime_ns, status.st_size, "")

    def check_unchanged(self, path: Path) -> None:
        """Raise FileProblem when `path` exists and is not as it was last seen, or never was (R17).

        An empty file has nothing to lose and need not have been seen. The content decides where
        it is known: a new time alone is no change.
        """
        try:
            with self.open(path) as file:
                self._check_seen(path, file)
        except FileMissing:
            if path in self.seen:
                raise FileProblem(
                    f"{self.shown(path)} was deleted since it was read. Nothing was changed."
                ) from None

    def write(self, grant: Grant, call: ResolvedCall, path: Path, data: bytes) -> None:
        """Replace or create a file: temporary file, fsync, rename; keeps mode and owner (R17).

        Missing directories are made. Checks that the file is as last seen immediately before the
        rename. Remembers the new state. Raises GrantError, FileProblem.
        """
        grant.check(call)
        self._check_writable(path)
        try:
            with Directory(path.parent, create=True) as directory:
                status = directory.replace(path.name, data, lambda: self.check_unchanged(path))
        except (OSError, UnsafeFile) as error:
            raise self._problem("write", path, error) from error
        self.seen[path] = _state(status, hashlib.sha256(data).hexdigest())

    def delete(self, grant: Grant, call: ResolvedCall, path: Path) -> None:
        """Delete a regular file or an empty directory. Raises GrantError, FileProblem."""
        grant.check(call)
        if path == self.root or path in self.root.parents:
            raise FileProblem(f"{self.shown(path)} holds the workspace and is not deleted.")
        try:
            with Directory(path.parent) as directory:
                directory.delete(path.name)
        except (OSError, UnsafeFile) as error:
            raise self._problem("delete", path, error) from error
        self.seen.pop(path, None)

    def put_back(
        self,
        grant: Grant,
        call: ResolvedCall,
        path: Path,
        data: bytes | None,
        mode: int,
        expected_digest: str,
    ) -> None:
        """Give a file an earlier content and permission bits; None deletes it (R21).

        `expected_digest` is the sha256 (hex) of what it must hold now, empty where nothing may be
        there: whatever came in between is kept. Raises GrantError, FileProblem.
        """
        grant.check(call)

        def check() -> None:
            if self._digest_now(path) != expected_digest:
                raise FileProblem("was changed since")

        try:
            check()
            with Directory(path.parent, create=data is not None) as directory:
                if data is None:
                    directory.delete(path.name)
                else:
                    directory.replace(path.name, data, check, mode)
        except (OSError, UnsafeFile) as error:
            raise self._problem("write", path, error) from error

    def put_back_directory(
        self, grant: Grant, call: ResolvedCall, path: Path, *, there: bool
    ) -> None:
        """Make a directory, or delete it where it is empty. Raises GrantError, FileProblem."""
        grant.check(call)
        try:
            with Directory(path if there else path.parent, create=there) as directory:
                if not there and directory.is_directory(path.name):
                    directory.delete(path.name)
        except (OSError, UnsafeFile) as error:
            raise self._problem("delete", path, error) from error

    def _digest_now(self, path: Path) -> str:
        try:
            with self.open(path) as file:
                if os.fstat(file.fileno()).st_nlink > 1:
                    raise FileProblem("has several names (hard links)")
                return hashlib.file_digest(file, "sha256").hexdigest()
        except FileMissing:
            return ""

    def _inside(self, path: Path, *, writing: bool) -> bool:
        readable = () if writing else self.also_readable
        return any(is_within(path, directory) for directory in (self.root, *readable))

    def _check_seen(self, path: Path, file: BufferedReader) -> None:
        status = os.fstat(file.fileno())
        seen = self.seen.get(path)
        if seen is None:
            if status.st_size == 0:
                return
            raise FileProblem(
                f"{self.shown(path)} exists and was not read in this session. Nothing was "
                "changed. Read it first."
            )
        same = seen.size == status.st_size and (
            hashlib.file_digest(file, "sha256").hexdigest() == seen.digest
            if seen.digest
            else status.st_mtime_ns == seen.mtime_ns
        )
        if not same:
            raise FileProblem(
                f"{self.shown(path)} changed since it was read. Nothing was changed. "
                "Read it again, then repeat the change."
            )

    def _check_writable(self, path: Path) -> None:
        if path.exists() and not os.access(path, os.W_OK):
            raise FileProblem(f"Cannot write {self.shown(path)}: it is read-only.")

    def _problem(self, what: str, path: Path, error: OSError | UnsafeFile) -> FileProblem:
        shown = self.shown(path)
        if isinstance(error, FileNotFoundError | NotADirectoryError):
            return FileMissing(f"There is no file {shown}.")
        if isinstance(error, FileExistsError):
            return FileProblem(f"{shown} appeared meanwhile. Nothing was changed. Read it first.")
        if isinstance(error, UnsafeFile):
            return FileProblem(f"Cannot {what} {shown}: it {error}.")
        if stat.S_ISDIR(_mode(path)) and what == "delete":
            return FileProblem(f"Cannot delete {shown}: the directory is not empty.")
        return FileProblem(f"Cannot {what} {shown}: {(error.strerror or str(error)).lower()}.")


def _state(status: os.stat_result, digest: str) -> FileState:
    return FileState(status.st_mtime_ns, status.st_size, digest)


def _mode(path: Path) -> int:
    try:
        return os.lstat(path).st_mode
    except OSError:
        return 0


def _refuse_kernel_file(path: Path, shown: str) -> None:
    if "proc" in path.parts[:-1] and path.name in _KERNEL_FILES:
        raise FileProblem(
            f"Cannot read {shown}: it is the memory or environment of a process, not a file."
        )
