"""Where opta keeps its own files, and the only functions that write them.

Directories are 0700 and files 0600, names of scratch files are unpredictable, and nothing is
written through a link or into what belongs to another user (R18, R19). On Windows, where neither
modes nor owners mean this, only the refusal of links remains.
"""

from __future__ import annotations

import atexit
import errno
import os
import secrets
import shutil
import stat
import tempfile
import time
from contextlib import suppress
from functools import cache
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment,unused-ignore]

SCRATCH_KEPT_S = 7 * 24 * 3600
"""How long full outputs of commands, and caches of programs, are kept, in seconds."""

KEPT_FILES = 256
"""How many files of one kind are kept for programs that opta starts."""

_USE_NOTED_S = 24 * 3600

_OPEN_FLAGS = sum(
    getattr(os, name, 0) for name in ("O_CLOEXEC", "O_NOFOLLOW", "O_NONBLOCK", "O_BINARY")
)
"""Nonblocking, so that a FIFO in place of a file is refused and not waited for."""


class StorageError(Exception):
    """One of opta's own files cannot be used. The message says which, why and what to do."""


def config_dir() -> Path:
    """Return the directory of the user's settings and tools (XDG base directories).

    Raises StorageError when there is no home directory to put it in.
    """
    return _user_dir("XDG_CONFIG_HOME", ".config") / "opta"


def state_dir() -> Path:
    """Return the directory of sessions, trust, caches and history. Raises StorageError."""
    return _user_dir("XDG_STATE_HOME", ".local/state") / "opta"


def global_dir() -> Path:
    """Return the directory of the machine's settings: `OPTA_GLOBAL_DIR`, or `/etc/opta`."""
    return Path(os.environ.get("OPTA_GLOBAL_DIR") or "/etc/opta")


def output_dir() -> Path:
    """Return the directory of full command outputs. Raises StorageError."""
    return state_dir() / "output"


def private_dir(path: Path, below: Path | None = None) -> Path:
    """Make `path` a directory that only its owner can use, and return it.

    No component after `below` may be a link or belong to another user; `below` defaults to the
    parent of the opta directory that holds `path`. Missing parents are made private too.
    Raises StorageError.
    """
    trusted = below or _trusted_parent(path)
    try:
        for directory in reversed([path, *path.parents]):
            _enter(directory, checked=directory != trusted and directory.is_relative_to(trusted))
        if os.name == "posix" and stat.S_IMODE(path.stat().st_mode) != 0o700:
            path.chmod(0o700)
    except OSError as error:
        raise _problem("create the directory", path, error) from error
    return path


def read_private(path: Path) -> bytes | None:
    """Return the bytes of one of opta's own files, or None when there is none.

    Raises StorageError when it is a link, belongs to another user or cannot be read.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | _OPEN_FLAGS)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _problem("read", path, error) from error
    with open(descriptor, "rb") as file:
        _check_regular(path, descriptor)
        return file.read()


def read_regular(path: Path, most: int, flags: int = 0) -> bytes:
    """Return the bytes of a file of somebody else's; never waits for a FIFO, device or link.

    `flags` are added to those of `open`. Raises OSError, whose `strerror` says what is there
    instead of a regular file, and of one that has more than `most` bytes how many.
    """
    for name in ("O_CLOEXEC", "O_NONBLOCK", "O_BINARY"):
        flags |= getattr(os, name, 0)
    with open(os.open(path, os.O_RDONLY | flags), "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, f"it is {_kind(found.st_mode)}, not a regular file")
        if found.st_size > most:
            size = f"it has {found.st_size:,} bytes, more than the allowed {most:,}"
            raise OSError(errno.EFBIG, size)
        # Files of /proc say that they are empty, and some of those wait for what never comes.
        return file.read(min(most, found.st_size))


def _kind(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return "a directory"
    return "a FIFO" if stat.S_ISFIFO(mode) else "a device"


def write_private(path: Path, data: bytes, below: Path | None = None) -> None:
    """Replace or create a file so that a kill at any moment leaves the old or the new one.

    See `private_dir` for `below`. Raises StorageError.
    """
    directory = private_dir(path.parent, below)
    try:
        if path.is_symlink():
            raise StorageError(f"{path} is a link. opta does not write through links: remove it.")
        descriptor, name = tempfile.mkstemp(dir=directory, prefix=f".{path.name}.")
        temporary = Path(name)
        try:
            with open(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(descriptor)
            temporary.replace(path)
        except BaseException:
            with suppress(OSError):
                temporary.unlink()
            raise
    except OSError as error:
        raise _problem("write", path, error) from error


def private_file(path: Path) -> Path:
    """Make sure that `path` is a private file of one's own, empty where it is new; return it.

    For what a library opens by its path. Counts as a use of the file, by its modification time.
    Raises StorageError.
    """
    AppendFile(path).close()
    with suppress(OSError):
        os.utime(path)
    return path


def kept_file(name: str, text: str) -> Path:
    """Return a file of opta's own that holds exactly `text`, for programs that opta starts.

    Beside a new one stay those that were used last: `KEPT_FILES` in one directory.
    Raises StorageError.
    """
    path = state_dir() / "kept" / name
    data = text.encode()
    if read_private(path) != data:
        write_private(path, data)
        _keep_newest(path.parent)
    elif path.stat().st_mtime < time.time() - _USE_NOTED_S:
        os.utime(path)
    return path


def _keep_newest(directory: Path) -> None:
    with suppress(OSError):
        found = [entry for entry in os.scandir(directory) if entry.is_file(follow_symlinks=False)]
        found.sort(key=lambda entry: entry.stat(follow_symlinks=False).st_mtime, reverse=True)
        for entry in found[KEPT_FILES:]:
            Path(entry).unlink()


def cache_dir(name: str) -> Path:
    """Return a directory in which a program that opta starts keeps what it can make again.

    It is another one every `SCRATCH_KEPT_S`, and what is left of earlier ones is deleted: such a
    program deletes nothing, and one that still runs never sees files of its own replaced.
    Raises StorageError.
    """
    place = state_dir() / name
    now = private_dir(place / str(int(time.time() // SCRATCH_KEPT_S)))
    with suppress(OSError):
        for entry in os.scandir(place):
            if entry.name != now.name:
                _delete_entry(entry)
    return now


def _delete_entry(entry: os.DirEntry[str]) -> None:
    if entry.is_dir(follow_symlinks=False):
        shutil.rmtree(entry.path, ignore_errors=True)
    else:
        Path(entry).unlink(missing_ok=True)


class AppendFile:
    """A private file that only grows. Each write is there whole, or not at all."""

    def __init__(self, path: Path, *, create: bool = True) -> None:
        """Open `path`, made with its directory where `create` says so. Raises StorageError."""
        self.path = path
        if create:
            private_dir(path.parent)
        flags = os.O_RDWR | os.O_APPEND | (os.O_CREAT if create else 0) | _OPEN_FLAGS
        try:
            self._descriptor = os.open(path, flags, 0o600)
        except OSError as error:
            raise _problem("open", path, error) from error
        try:
            _check_regular(path, self._descriptor)
        except BaseException:
            self.close()
            raise

    def lock(self) -> bool:
        """Take the file for this process until it is closed; False when another one has it."""
        if fcntl is None:
            return True
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            # A file system without locks must not keep anyone from working.
            return error.errno not in (errno.EWOULDBLOCK, errno.EACCES)
        return True

    def write(self, data: bytes) -> None:
        """Append `data` with one system call where the disk lets it. Raises StorageError."""
        written = 0
        try:
            while written < len(data):
                written += os.write(self._descriptor, data[written:] if written else data)
        except OSError as error:
            self._take_back(written)
            raise _problem("write", self.path, error) from error

    def read_from(self, offset: int) -> bytes:
        """Return what the file holds from byte `offset` on. Raises StorageError."""
        try:
            os.lseek(self._descriptor, offset, os.SEEK_SET)
            with open(self._descriptor, "rb", closefd=False) as file:
                return file.read()
        except OSError as error:
            raise _problem("read", self.path, error) from error

    def end_line(self) -> None:
        """Append a newline where the last line has none, as after a kill in the middle of one."""
        try:
            size = os.fstat(self._descriptor).st_size
            if not size:
                return
            os.lseek(self._descriptor, size - 1, os.SEEK_SET)
            if os.read(self._descriptor, 1) != b"\n":
                self.write(b"\n")
        except OSError as error:
            raise _problem("read", self.path, error) from error

    def close(self) -> None:
        """Close the file and give up its lock."""
        os.close(self._descriptor)

    def _take_back(self, count: int) -> None:
        if count:
            with suppress(OSError):
                os.ftruncate(self._descriptor, os.fstat(self._descriptor).st_size - count)


def note_unfinished(path: Path) -> AppendFile | None:
    """Note that `path` is about to be written and is rubbish if opta is killed meanwhile.

    The note lasts until `forget_unfinished`. None where it cannot be kept: that stops no writing.
    """
    try:
        note = AppendFile(_unfinished_dir() / secrets.token_hex(8))
    except StorageError:
        return None
    try:
        note.lock()
        note.write(os.fsencode(path))
    except StorageError:
        forget_unfinished(note)
        return None
    return note


def forget_unfinished(note: AppendFile | None) -> None:
    """Forget a note: the file is whole, or gone."""
    if note is not None:
        with suppress(OSError):
            note.path.unlink()
        note.close()


def take_unfinished() -> list[Path]:
    """Return the files that an opta which was killed noted as unfinished, and forget the notes."""
    found = []
    with suppress(StorageError, OSError), os.scandir(_unfinished_dir()) as entries:
        for entry in entries:
            with suppress(StorageError, OSError):
                path = _taken_note(Path(entry.path))
                if path:
                    found.append(Path(os.fsdecode(path)))
    return found


def _taken_note(place: Path) -> bytes:
    note = AppendFile(place, create=False)
    try:
        # Who is still writing holds the lock.
        if not note.lock():
            return b""
        path = place.read_bytes()
        place.unlink()
        return path
    finally:
        note.close()


def _unfinished_dir() -> Path:
    return state_dir() / "unfinished"


def remove(path: Path) -> None:
    """Delete one of opta's own files, if it is still there. Raises StorageError."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise _problem("delete", path, error) from error


def scratch_file(suffix: str) -> tuple[int, Path]:
    """Create a file for a full output: its descriptor (which the caller closes) and its path.

    Files older than `SCRATCH_KEPT_S` are deleted on the way. Raises StorageError.
    """
    directory = private_dir(output_dir())
    _delete_old(directory)
    try:
        descriptor, name = tempfile.mkstemp(dir=directory, suffix=suffix)
    except OSError as error:
        raise _problem("create a file in", directory, error) from error
    return descriptor, Path(name)


def write_scratch(data: bytes, suffix: str = ".txt") -> Path:
    """Write a full output to a file of its own and return its path. Raises StorageError."""
    descriptor, path = scratch_file(suffix)
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
    except OSError as error:
        raise _problem("write", path, error) from error
    return path


def keep_text(text: str) -> str:
    """Keep a person's text that could not be used; return a sentence that says where it is."""
    try:
        return f"Your text is kept in {write_scratch(text.encode())}."
    except StorageError as error:
        return f"Your text could not be kept: {error}"


def data_descriptor(data: bytes) -> int:
    """Return a descriptor from which `data` can be read: a file without a name, for children.

    The caller closes it. Raises StorageError.
    """
    try:
        if hasattr(os, "memfd_create"):
            descriptor = os.memfd_create("opta")
        else:
            descriptor, name = tempfile.mkstemp(dir=private_dir(output_dir()))
            Path(name).unlink()
    except OSError as error:
        raise _problem("create a file in", Path("memory"), error) from error
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(data)
        os.lseek(descriptor, 0, os.SEEK_SET)
    except OSError as error:
        os.close(descriptor)
        raise _problem("write", Path(f"descriptor {descriptor}"), error) from error
    return descriptor


@cache
def session_temp() -> Path:
    """Return a directory that this process alone has, removed when it exits. Raises StorageError.

    What runs in a sandbox sees it as the temporary directory.
    """
    try:
        path = Path(tempfile.mkdtemp(prefix="opta-")).resolve()
    except OSError as error:
        raise _problem("create a directory in", Path(tempfile.gettempdir()), error) from error
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


def remove_tree(path: Path) -> None:
    """Delete a directory of opta's own with all that is in it. Raises StorageError."""
    try:
        shutil.rmtree(path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise _problem("delete", path, error) from error


def remove_empty(path: Path) -> None:
    """Delete a directory of opta's own if nothing is in it."""
    with suppress(OSError):
        path.rmdir()


def _user_dir(variable: str, default: str) -> Path:
    # The specification says that relative values are to be ignored.
    configured = Path(os.environ.get(variable, ""))
    if configured.is_absolute():
        return configured
    try:
        # An empty HOME would mean the root directory.
        home = Path() if os.environ.get("HOME") == "" else Path.home()
    except RuntimeError:
        home = Path()
    if not home.is_absolute():
        raise StorageError(f"There is no home directory. Set HOME or {variable} to one.")
    return home / default


def _trusted_parent(path: Path) -> Path:
    candidates = [global_dir()]
    for find in (config_dir, state_dir):
        with suppress(StorageError):
            candidates.append(find())
    return next((own.parent for own in candidates if path.is_relative_to(own)), path.parent)


def _enter(directory: Path, *, checked: bool) -> None:
    with suppress(FileExistsError):
        if checked or not directory.exists():
            directory.mkdir(0o700)
    if not checked:
        return
    found = directory.lstat()
    if stat.S_ISLNK(found.st_mode):
        raise StorageError(f"{directory} is a link. opta keeps its files in real directories only.")
    if not stat.S_ISDIR(found.st_mode):
        raise StorageError(f"{directory} is not a directory. Move it away.")
    _check_owner(directory, found)


def _check_regular(path: Path, descriptor: int) -> None:
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        raise StorageError(f"{path} is not a regular file. Move it away.")
    _check_owner(path, found)


def _check_owner(path: Path, found: os.stat_result) -> None:
    if os.name == "posix" and found.st_uid != os.geteuid():
        raise StorageError(
            f"{path} belongs to another user (uid {found.st_uid}). Give it to yours, or set "
            "XDG_CONFIG_HOME and XDG_STATE_HOME to directories of your own."
        )


def _delete_old(directory: Path) -> None:
    oldest = time.time() - SCRATCH_KEPT_S
    with suppress(OSError):
        for entry in os.scandir(directory):
            with suppress(OSError):
                if entry.stat(follow_symlinks=False).st_mtime < oldest:
                    Path(entry.path).unlink()


def _problem(what: str, path: Path, error: OSError) -> StorageError:
    if error.errno == errno.ELOOP or path.is_symlink():
        return StorageError(f"Cannot {what} {path}: it is a link, and opta follows none.")
    reason = (error.strerror or str(error)).lower()
    return StorageError(
        f"Cannot {what} {path}: {reason}. Check its permissions and the disk, or set "
        "XDG_CONFIG_HOME and XDG_STATE_HOME to directories you can write."
    )
