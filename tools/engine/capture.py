"""Keeps the output of a process in bounded memory: its ends at hand, all of it in a file."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from tools import storage
from tools.record import record

HEAD_BYTES = 64 * 1024
TAIL_BYTES = 64 * 1024
SPOOL_BYTES = 256 * 1024 * 1024


@record
class Captured:
    """What one stream gave: its first and last bytes, how many there were, and where all are.

    `head + tail` is everything when `total_bytes` says so; else the middle is only in `spool`
    (a 0600 file, or None where nothing was cut or no file could be written). `spooled_bytes` is
    how much of the beginning the file holds: less than `total_bytes` where the limit of
    `SPOOL_BYTES` or the disk ended it.
    """

    head: bytes
    tail: bytes
    total_bytes: int
    spool: Path | None = None
    spooled_bytes: int = 0


class Capture:
    """Takes the bytes of one stream as they come."""

    def __init__(self) -> None:
        self._head = bytearray()
        self._tail = bytearray()
        self._total = 0
        self._spool: _Spool | None = None

    def add(self, data: bytes) -> None:
        """Take the next piece. Never raises: output that cannot be spooled is only counted."""
        self._total += len(data)
        if self._spool is not None:
            self._spool.write(data)
        elif self._total > HEAD_BYTES + TAIL_BYTES:
            self._spool = _Spool()
            for part in (self._head, self._tail, data):
                self._spool.write(part)
        room = HEAD_BYTES - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        self._tail += data
        if len(self._tail) > TAIL_BYTES:
            del self._tail[:-TAIL_BYTES]

    def finish(self) -> Captured:
        """Close the file and return what was captured."""
        path, written = (None, 0) if self._spool is None else self._spool.close()
        return Captured(bytes(self._head), bytes(self._tail), self._total, path, written)

    def discard(self) -> None:
        """Forget the output, and delete its file."""
        path = self.finish().spool
        if path is not None:
            with suppress(OSError):
                path.unlink()


class _Spool:
    """The file with the whole output, up to the limit. Stops silently at the first failure."""

    def __init__(self) -> None:
        self._written = 0
        self._descriptor: int | None = None
        self._path: Path | None = None
        with suppress(storage.StorageError):
            self._descriptor, self._path = storage.scratch_file(".txt")

    def write(self, data: bytes | bytearray) -> None:
        if self._descriptor is None:
            return
        rest = memoryview(data)[: SPOOL_BYTES - self._written]
        try:
            while rest:
                count = os.write(self._descriptor, rest)
                self._written += count
                rest = rest[count:]
        except OSError:
            self._end()

    def close(self) -> tuple[Path | None, int]:
        self._end()
        return self._path, self._written

    def _end(self) -> None:
        if self._descriptor is not None:
            with suppress(OSError):
                os.close(self._descriptor)
            self._descriptor = None
