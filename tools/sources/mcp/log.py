"""The log of one MCP server: what it printed beside its messages, and what opta did with it."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from pathlib import Path

from tools import storage
from tools.engine.masking import Masker, OutputStream
from tools.sources.mcp.config import NAME

MAX_BYTES = 1 << 20
"""The size at which a log begins anew; the one before is kept, so there are never more than two."""

_LINE_BYTES = 8 * 1024


def log_path(server: str) -> Path:
    """Return the log file of a server. Raises StorageError."""
    return storage.state_dir() / "mcp" / "logs" / f"{server}.log"


def read_log(server: str) -> bytes:
    """Return what the log of a server holds, oldest first; nothing where there is none.

    Raises StorageError.
    """
    if not NAME.fullmatch(server):
        return b""
    path = log_path(server)
    return (storage.read_private(_older(path)) or b"") + (storage.read_private(path) or b"")


class ServerLog:
    """Appends to the log of a server; may be called from any thread and never raises.

    What `masker` knows as secret is not in it (R39): servers print their environment, and requests.
    """

    def __init__(self, server: str, masker: Masker) -> None:
        self.masker = masker
        self._printed = OutputStream(masker)
        self._path = log_path(server)
        self._lock = threading.Lock()
        self._file: storage.AppendFile | None = None
        self._end = b""
        self._size = 0
        with suppress(storage.StorageError):
            self._open()

    def note(self, text: str) -> None:
        """Write a line of opta's own."""
        text = self.masker.text(text)
        self.write(f"[opta {time.strftime('%Y-%m-%d %H:%M:%S')}] {text}\n".encode())

    def begin(self, program: str) -> None:
        """Note that the program is started, of which nothing was heard yet."""
        self._end = b""
        self.write(self._printed.finish())
        self.note(f"starting {program}")

    def garbage(self, line: bytes) -> None:
        """Write a line that should have been a message."""
        self.write(b"[stdout] " + self.masker.data(line)[:_LINE_BYTES] + b"\n")

    def printed(self, data: bytes) -> None:
        """Write a piece of what the server printed on standard error."""
        self._end = (self._end + data)[-_LINE_BYTES:]
        self.write(self._printed.feed(data))

    @property
    def last_line(self) -> str:
        """The last line the server printed on standard error: mostly why it ended."""
        lines = self.masker.data(self._end).decode("utf-8", "replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "")

    def write(self, data: bytes) -> None:
        """Write to the log."""
        with self._lock, suppress(storage.StorageError):
            if self._file is None:
                return
            if self._size + len(data) > MAX_BYTES:
                self._begin_anew()
            self._file.write(data[-MAX_BYTES:])
            self._size += len(data)

    def close(self) -> None:
        """Close the file."""
        self.write(self._printed.finish())
        with self._lock:
            if self._file is not None:
                self._file.close()
            self._file = None

    def _open(self) -> None:
        self._file = storage.AppendFile(self._path)
        self._size = self._path.stat().st_size

    def _begin_anew(self) -> None:
        assert self._file is not None
        self._file.close()
        self._file = None
        storage.write_private(_older(self._path), storage.read_private(self._path) or b"")
        storage.remove(self._path)
        self._open()


def _older(path: Path) -> Path:
    return path.with_suffix(".log.1")
