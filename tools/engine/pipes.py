"""Moves bytes between pipes and the event loop, and tells it when a process has ended.

Where the loop watches descriptors it does; elsewhere (the Windows proactor loop; for ends of
processes also macOS) a daemon thread waits and reports to the loop.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from io import FileIO
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import subprocess

CHUNK_BYTES = 64 * 1024
_CHUNKS_AHEAD = 4


class PipeReader:
    """Hands everything that arrives at the read end of a pipe to `on_data`, then calls `on_end`."""

    def __init__(
        self, pipe: FileIO, on_data: Callable[[bytes], None], on_end: Callable[[], None]
    ) -> None:
        self.ended = False
        self._pipe: FileIO | None = pipe
        self._on_data = on_data
        self._on_end = on_end
        self._loop = asyncio.get_running_loop()
        try:
            self._loop.add_reader(pipe.fileno(), self.read)
            os.set_blocking(pipe.fileno(), False)
            self._threaded = False
        except NotImplementedError:
            self._threaded = True
            self._ahead = threading.Semaphore(_CHUNKS_AHEAD)
            threading.Thread(target=self._read_in_thread, args=(pipe,), daemon=True).start()

    def read(self) -> bool:
        """Take one piece if there is any; True when there may be more."""
        if self.ended or self._pipe is None or self._threaded:
            return False
        try:
            data = self._pipe.read(CHUNK_BYTES)
        except OSError:
            data = b""
        if data is None:
            return False
        self._deliver(data)
        return not self.ended

    def release(self) -> FileIO | None:
        """Stop, and return the pipe if it is still open; None where it ended or a thread has it."""
        pipe, self._pipe, self.ended = self._pipe, None, True
        if pipe is None or self._threaded:
            return None
        self._loop.remove_reader(pipe.fileno())
        return pipe

    def _deliver(self, data: bytes) -> None:
        if self.ended:
            return
        if data:
            self._on_data(data)
            return
        pipe = self.release()
        if pipe is not None:
            pipe.close()
        self._on_end()

    def _read_in_thread(self, pipe: FileIO) -> None:
        data = b"-"
        while data:
            try:
                data = pipe.read(CHUNK_BYTES) or b""
            except OSError:
                data = b""
            self._ahead.acquire()
            try:
                self._loop.call_soon_threadsafe(self._deliver_and_go_on, data)
            except RuntimeError:
                # The loop was closed; keep reading so that the process can go on to its end.
                self._ahead.release()
        pipe.close()

    def _deliver_and_go_on(self, data: bytes) -> None:
        self._ahead.release()
        self._deliver(data)


class PipeWriter:
    """Writes `data` to a pipe and closes it. A reader that goes away early is no error."""

    def __init__(self, pipe: FileIO, data: bytes) -> None:
        self._pipe = pipe
        self._rest = memoryview(data)
        self._loop = asyncio.get_running_loop()
        self._watching = False
        if os.name == "posix":
            os.set_blocking(pipe.fileno(), False)
        try:
            self._write()
            if self._rest:
                self._loop.add_writer(pipe.fileno(), self._write)
                self._watching = True
        except NotImplementedError:
            threading.Thread(target=self._write_in_thread, daemon=True).start()

    def close(self) -> None:
        """Stop writing."""
        if self._pipe.closed:
            return
        if self._watching:
            self._loop.remove_writer(self._pipe.fileno())
        with suppress(OSError):
            self._pipe.close()

    def _write(self) -> None:
        try:
            written = self._pipe.write(self._rest)
        except OSError:
            written = len(self._rest)
        self._rest = self._rest[written or 0 :]
        if not self._rest:
            self.close()

    def _write_in_thread(self) -> None:
        if os.name == "posix":
            os.set_blocking(self._pipe.fileno(), True)
        while self._rest:
            self._write()


def when_ended(process: subprocess.Popen[bytes], tell: Callable[[], None]) -> Callable[[], None]:
    """Call `tell` in the running loop once the process has ended; returns how to stop waiting."""
    loop = asyncio.get_running_loop()
    try:
        descriptor = os.pidfd_open(process.pid)
    except (AttributeError, OSError):
        return _wait_in_thread(loop, process, tell)
    stopped = False

    def stop() -> None:
        nonlocal stopped
        if not stopped:
            stopped = True
            loop.remove_reader(descriptor)
            os.close(descriptor)

    def ended() -> None:
        stop()
        tell()

    try:
        loop.add_reader(descriptor, ended)
    except NotImplementedError:
        os.close(descriptor)
        return _wait_in_thread(loop, process, tell)
    return stop


def _wait_in_thread(
    loop: asyncio.AbstractEventLoop,
    process: subprocess.Popen[bytes],
    tell: Callable[[], None],
) -> Callable[[], None]:
    stopped = threading.Event()

    def report() -> None:
        if not stopped.is_set():
            tell()

    def wait() -> None:
        process.wait()
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(report)

    threading.Thread(target=wait, daemon=True).start()
    return stopped.set
