"""Files of a directory that is held open, so that no link can come in between (R16, R17, R20).

A path is resolved once, before a person or a rule allows it. From then on every component is
opened relative to the one before it and none may be a link: what was swapped for one in the
meantime makes the call fail. Where the system has no such calls (Windows), paths are compared
with their resolved form before use.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from tools import storage
from tools.files.paths import TEMPORARY, is_temporary

_BY_HANDLE = os.open in os.supports_dir_fd and hasattr(os, "O_NOFOLLOW")
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
# A handle that only names a directory needs no permission to list it.
_DIRECTORY = getattr(os, "O_PATH", os.O_RDONLY) | getattr(os, "O_DIRECTORY", 0) | _NO_FOLLOW
# Nonblocking, so that a FIFO put in the place of a file is refused and not waited for.
_READ = os.O_RDONLY | _NO_FOLLOW | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_FOLLOW | getattr(os, "O_BINARY", 0)

_LINK_UNSUPPORTED = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EACCES}


class UnsafeFile(Exception):
    """A file that is not read or written for what it is. The message completes `<path> …`."""


def remove_unfinished() -> list[Path]:
    """Remove what a killed opta left half written beside files of the user; return what it was."""
    removed = []
    for path in storage.take_unfinished():
        with suppress(OSError, UnsafeFile, ValueError):
            if is_temporary(path.name) and path.is_absolute():
                with Directory(path.parent) as directory:
                    directory.delete(path.name)
                removed.append(path)
    return removed


class Directory:
    """An open directory. `path` must be a real path; use as a context manager.

    Raises OSError as the system does, and UnsafeFile for links in the path.
    """

    def __init__(self, path: Path, *, create: bool = False) -> None:
        self.path = path
        self._handle: int | None = None
        if not _BY_HANDLE:
            self._open_by_path(create)
            return
        handle = os.open(path.anchor, _DIRECTORY)
        try:
            for name in path.parts[1:]:
                handle = self._enter(handle, name, create)
        except BaseException:
            os.close(handle)
            raise
        self._handle = handle

    def __enter__(self) -> Directory:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._handle is not None:
            os.close(self._handle)

    def status(self, name: str) -> os.stat_result | None:
        """Return what `name` is, links not followed; None when there is nothing."""
        try:
            return os.stat(self._at(name), dir_fd=self._handle, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def is_directory(self, name: str) -> bool:
        """Tell whether `name` is a directory itself, not a link to one. Raises OSError."""
        found = self.status(name)
        return found is not None and stat.S_ISDIR(found.st_mode)

    def open_regular(self, name: str) -> int:
        """Open a regular file for reading and return its descriptor, which the caller closes.

        Raises FileNotFoundError, OSError, UnsafeFile.
        """
        found = self.status(name)
        if found is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
        # Asked before opening, because opening a device can already do something.
        _check_regular(found)
        try:
            descriptor = os.open(self._at(name), _READ, dir_fd=self._handle)
        except OSError as error:
            raise _as_link(error) from error
        try:
            _check_regular(os.fstat(descriptor))
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def listed(self) -> int | None:
        """Open the directory to list what is in it, and return the descriptor for the caller.

        None where the system has no such calls.
        """
        if self._handle is None:
            return None
        return os.open(".", os.O_RDONLY | os.O_DIRECTORY | _NO_FOLLOW, dir_fd=self._handle)

    def replace(
        self, name: str, data: bytes, check: Callable[[], None], mode: int | None = None
    ) -> os.stat_result:
        """Put `data` in the place of `name` and return the new state.

        All is written and synced to a temporary file first; `check` is called immediately before
        it takes the name, and may raise to prevent that. The new file has the mode, owner and
        extended attributes of the old; `mode` sets other permission bits. Raises OSError,
        UnsafeFile, and what `check` raises.
        """
        old = self.status(name)
        if old is not None:
            _check_regular(old)
        temporary = TEMPORARY.format(secrets.token_hex(8))
        made = 0o600 if old is not None or mode is not None else 0o666
        note = storage.note_unfinished(self.path / temporary)
        try:
            descriptor = os.open(self._at(temporary), _CREATE, made, dir_fd=self._handle)
            with open(descriptor, "wb", buffering=0) as file:
                _write_all(file.fileno(), data)
                if old is not None:
                    self._take_over(file.fileno(), name, old)
                if mode is not None and os.name == "posix":
                    os.fchmod(file.fileno(), mode)
                os.fsync(file.fileno())
                state = os.fstat(file.fileno())
            check()
            self._give_name(temporary, name, new=old is None)
        except BaseException:
            with suppress(OSError):
                os.unlink(self._at(temporary), dir_fd=self._handle)
            raise
        finally:
            storage.forget_unfinished(note)
        self._sync()
        return state

    def delete(self, name: str) -> None:
        """Delete a regular file or an empty directory. Raises OSError, UnsafeFile."""
        found = self.status(name)
        if found is not None and stat.S_ISDIR(found.st_mode):
            os.rmdir(self._at(name), dir_fd=self._handle)
            return
        if found is not None:
            _check_regular(found)
        os.unlink(self._at(name), dir_fd=self._handle)

    def _open_by_path(self, create: bool) -> None:
        if create:
            self.path.mkdir(parents=True, exist_ok=True)
        if Path(os.path.realpath(self.path)) != self.path:
            raise UnsafeFile("now leads through a link")
        if not self.path.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(self.path))

    def _enter(self, handle: int, name: str, create: bool) -> int:
        if create:
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=handle)
        try:
            inner = os.open(name, _DIRECTORY, dir_fd=handle)
        except NotADirectoryError:
            # With O_DIRECTORY a link is reported as "not a directory".
            if stat.S_ISLNK(os.stat(name, dir_fd=handle, follow_symlinks=False).st_mode):
                raise UnsafeFile(f"now leads through a link ({name})") from None
            raise
        except OSError as error:
            raise _as_link(error) from error
        os.close(handle)
        return inner

    def _at(self, name: str) -> str:
        return name if self._handle is not None else str(self.path / name)

    def _take_over(self, descriptor: int, name: str, old: os.stat_result) -> None:
        """Give the new file what belonged to the old one beside its contents."""
        if os.name != "posix":
            return
        new = os.fstat(descriptor)
        if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
            try:
                os.fchown(descriptor, old.st_uid, old.st_gid)
            except PermissionError:
                raise UnsafeFile(
                    f"belongs to another user or group ({old.st_uid}:{old.st_gid}), which could "
                    "not be kept"
                ) from None
        self._copy_attributes(descriptor, name)
        os.fchmod(descriptor, stat.S_IMODE(old.st_mode))

    def _copy_attributes(self, descriptor: int, name: str) -> None:
        if not hasattr(os, "listxattr"):
            return
        with suppress(OSError):
            source = os.open(self._at(name), _READ, dir_fd=self._handle)
            try:
                for attribute in os.listxattr(source):
                    with suppress(OSError):
                        os.setxattr(descriptor, attribute, os.getxattr(source, attribute))
            finally:
                os.close(source)

    def _give_name(self, temporary: str, name: str, *, new: bool) -> None:
        source, target = self._at(temporary), self._at(name)
        if new and hasattr(os, "link"):
            # A link fails where a rename would swallow a file that appeared meanwhile.
            try:
                os.link(source, target, src_dir_fd=self._handle, dst_dir_fd=self._handle)
            except OSError as error:
                if error.errno not in _LINK_UNSUPPORTED:
                    raise
            else:
                os.unlink(source, dir_fd=self._handle)
                return
        os.replace(source, target, src_dir_fd=self._handle, dst_dir_fd=self._handle)

    def _sync(self) -> None:
        """Make the new name survive a power cut, where directories can be synced."""
        if self._handle is None:
            return
        with suppress(OSError):
            descriptor = os.open(".", os.O_RDONLY, dir_fd=self._handle)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


def _write_all(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _check_regular(found: os.stat_result) -> None:
    for test, what in (
        (stat.S_ISREG, ""),
        (stat.S_ISDIR, "is a directory"),
        (stat.S_ISLNK, "is now a link"),
        (stat.S_ISFIFO, "is a named pipe"),
        (stat.S_ISSOCK, "is a socket"),
    ):
        if test(found.st_mode):
            if what:
                raise UnsafeFile(what)
            return
    raise UnsafeFile("is a device")


def _as_link(error: OSError) -> Exception:
    return UnsafeFile("now leads through a link") if error.errno == errno.ELOOP else error
