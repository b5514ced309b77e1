"""Starts programs that stay: servers that opta talks to through their pipes.

A service leads a process group of its own and takes that along when it ends, as the processes of
`tools.engine.process` do. Each pipe is served by a thread that may block, which works the same on
every system; a program that writes faster than it is read has to wait.
"""

from __future__ import annotations

import asyncio
import os
import queue
import subprocess
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO

from tools.definition import ResolvedCall
from tools.engine.group import ProcessGroup
from tools.engine.isolation.enter import Entered
from tools.engine.pipes import CHUNK_BYTES, when_ended
from tools.engine.process import ProcessSpec, start_confined
from tools.permissions.grant import Grant
from tools.record import record

LEAVE_S = 0.5
"""How long a service may take to end by itself once its standard input is closed, in seconds."""

_AHEAD = 4
_DRAINED_S = 0.2
_NEW_GROUP: int = getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)


@record
class ServiceSpec:
    """What to start. `env` is the whole environment."""

    argv: tuple[str, ...]
    cwd: Path
    env: Mapping[str, str]


class Service:
    """A running program: read from it, write to it, stop it. It is confined as its grant says.

    Belongs to the event loop it was started in. `on_stderr` is called in a thread of its own with
    each piece of standard error, and with nothing at its end.
    """

    def __init__(
        self,
        grant: Grant,
        call: ResolvedCall,
        spec: ServiceSpec,
        on_stderr: Callable[[bytes], None],
    ) -> None:
        """Start it. Raises GrantError, ProcessStartError."""
        grant.check(call)
        self._loop = asyncio.get_running_loop()
        wanted = ProcessSpec(spec.argv, spec.cwd, spec.env, timeout_ms=0)
        self._process, self._entered = start_confined(wanted, grant.confinement, _popen)
        self._on_stderr = on_stderr
        self._group = ProcessGroup(self._process)
        self._chunks: asyncio.Queue[bytes] = asyncio.Queue()
        self._ahead = threading.Semaphore(_AHEAD)
        self._writes: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._ended = asyncio.Event()
        self._stop_waiting = when_ended(self._process, self._on_end)
        self._stopped = False
        for work, pipe in (
            (self._read_all, self._process.stdout),
            (self._write_all, self._process.stdin),
        ):
            threading.Thread(target=work, args=(pipe,), daemon=True).start()
        threading.Thread(
            target=_pass_on, args=(self._process.stderr, on_stderr), daemon=True
        ).start()

    @property
    def status(self) -> str:
        """How the program ended, in words; empty while it runs."""
        code = self._process.poll()
        if code is None:
            return ""
        return f"exit code {code}" if code >= 0 else f"signal {-code}"

    async def read(self) -> bytes:
        """Return what came next on standard output; nothing at its end."""
        data = await self._chunks.get()
        self._ahead.release()
        if not data:
            self._chunks.put_nowait(b"")
        return data

    def write(self, data: bytes) -> None:
        """Send `data` to standard input, in order; never waits. A closed pipe is no error."""
        self._writes.put(data)

    async def ended(self) -> None:
        """Wait until the program has ended."""
        await self._ended.wait()

    async def stop(self) -> None:
        """Let the program leave, then end its group; what resists is killed in the background."""
        if self._stopped:
            return
        self._stopped = True
        self._writes.put(None)
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(LEAVE_S):
                    await self._ended.wait()
        finally:
            self._stop_waiting()
            self._group.end(then=self._clear_up)

    def _clear_up(self) -> None:
        for line in self._entered.leave():
            self._on_stderr(f"{line}\n".encode())

    def _on_end(self) -> None:
        self._ended.set()
        # A program it left behind may hold the pipe open: what was written is read, then it ends.
        self._loop.call_later(_DRAINED_S, self._chunks.put_nowait, b"")

    def _read_all(self, pipe: IO[bytes]) -> None:
        data = b"-"
        while data:
            try:
                data = pipe.read(CHUNK_BYTES) or b""
            except (OSError, ValueError):
                data = b""
            self._ahead.acquire()
            try:
                self._loop.call_soon_threadsafe(self._chunks.put_nowait, data)
            except RuntimeError:
                break
        pipe.close()

    def _write_all(self, pipe: IO[bytes]) -> None:
        with suppress(OSError, ValueError):
            while (data := self._writes.get()) is not None:
                rest = memoryview(data)
                while rest:
                    rest = rest[pipe.write(rest) :]
        with suppress(OSError):
            pipe.close()


def _pass_on(pipe: IO[bytes], take: Callable[[bytes], None]) -> None:
    data = b"-"
    while data:
        try:
            data = pipe.read(CHUNK_BYTES) or b""
        except (OSError, ValueError):
            data = b""
        take(data)
    pipe.close()


def _popen(spec: ProcessSpec, entered: Entered) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        entered.argv,
        bufsize=0,
        cwd=spec.cwd,
        env=entered.env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=os.name == "posix",
        pass_fds=entered.descriptors,
        creationflags=_NEW_GROUP,
    )
