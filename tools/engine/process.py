"""Starts processes for tools: the only module that does (a test reads the imports).

A process leads a group and session of its own, has no terminal, and takes its group along when it
ends: what a command left running in the background is asked to end, then killed. A program that
makes itself a session of its own (a daemon, `setsid`) leaves the group and stays.

There is no asyncio subprocess here: its transports cost more than the start of a small program.
"""

from __future__ import annotations

import asyncio
import errno
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from io import FileIO
from pathlib import Path
from typing import IO, Protocol, cast

from tools.confinement import Confinement
from tools.definition import ResolvedCall
from tools.engine.capture import Capture, Captured
from tools.engine.foreground import LentTerminal, waiting
from tools.engine.group import KILL_AFTER_S, ProcessGroup, kill_all, settle, settle_now, watch
from tools.engine.isolation.enter import Entered
from tools.engine.isolation.request import Request
from tools.engine.pipes import PipeReader, PipeWriter, when_ended
from tools.permissions.grant import Grant
from tools.record import record
from tools.storage import StorageError

__all__ = [
    "Captured",
    "ProcessResult",
    "ProcessSpec",
    "ProcessStartError",
    "StreamFilter",
    "kill_all",
    "run_process",
    "settle",
    "settle_now",
]

GRACE_S = 0.2
"""How long output is still read after the process ended, where its children hold the pipe."""

_NEW_GROUP: int = getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)
_AFTER_KILL_S = 1.0
_LEAST_WAIT_S = 0.02
_POLL_S = 0.001
_LOOK_CLOSER_S = 0.001
_LAST_CHUNKS = 16


@record
class ProcessSpec:
    """What to start. `env` is the whole environment; `stdin` None means closed (/dev/null).

    `merge_stderr` sends stderr into stdout, in the order written. `stdin_delay_ms` is how long
    nothing comes on stdin first. `descriptors` are open ones that the process gets under the same
    numbers; they stay the caller's to close. `terminal` lends the process opta's own terminal
    instead of `stdin`; with `pass_output` its output goes where opta's goes, and is not captured.
    `max_memory_bytes` is a limit as far as the machine has one; `reads` are files of opta's own
    that the process reads. `not_counted_s` tells how many seconds do not count until now. `one_cpu`
    keeps it, and all that it starts, on one processor, where the system can (Linux). `channel` is a
    socket that it gets as standard input and output, which are then not captured.
    """

    argv: tuple[str, ...]
    cwd: Path
    env: Mapping[str, str]
    timeout_ms: int
    stdin: bytes | None = None
    merge_stderr: bool = False
    stdin_delay_ms: int = 0
    descriptors: tuple[int, ...] = ()
    terminal: bool = False
    pass_output: bool = False
    max_memory_bytes: int | None = None
    reads: tuple[Path, ...] = ()
    not_counted_s: Callable[[], float] = lambda: 0.0
    one_cpu: bool = False
    channel: int | None = None


class StreamFilter(Protocol):
    """Sees the bytes of one stream before anything keeps or shows them."""

    def feed(self, data: bytes) -> bytes:
        """Return what may be kept of all that came so far; what it raises ends the process."""
        ...

    def finish(self) -> bytes:
        """Return what was held back."""
        ...


@record
class ProcessResult:
    """How a process ended. `exit_code` is None when a signal ended it (then `signal` is set).

    `remarks` are lines about what its walls made of it.
    """

    exit_code: int | None
    signal: int | None
    timed_out: bool
    stdout: Captured
    stderr: Captured
    duration_ms: int
    remarks: tuple[str, ...] = ()

    @property
    def signal_name(self) -> str:
        """The name of the signal that ended it, or its number where it has none."""
        try:
            return signal.Signals(self.signal or 0).name
        except ValueError:
            return str(self.signal)


class ProcessStartError(Exception):
    """The program could not be started (missing, not executable, arguments too long)."""


async def run_process(
    grant: Grant,
    call: ResolvedCall,
    spec: ProcessSpec,
    on_output: Callable[[bytes], None] | None = None,
    filters: tuple[StreamFilter, StreamFilter] | None = None,
) -> ProcessResult:
    """Run one process to its end, its deadline or the cancellation of the calling task.

    It is confined as the grant says, whatever the tool wanted.

    At the deadline the group is ended (SIGTERM, SIGKILL within 2 s) and the result holds what was
    printed until then. A cancelled call returns at once; its group is ended in the background.
    `on_output` gets each piece as it is read; what it raises ends the process and is raised here.
    `filters` are for stdout and stderr. Raises GrantError, ProcessStartError.
    """
    grant.check(call)
    run = _Run(spec, grant.confinement, on_output, filters)
    try:
        timed_out = await run.finish()
    except BaseException:
        run.abandon()
        raise
    return run.result(timed_out)


class _Run:
    """One process from its start to its result."""

    def __init__(
        self,
        spec: ProcessSpec,
        confinement: Confinement | None,
        on_output: Callable[[bytes], None] | None,
        filters: tuple[StreamFilter, StreamFilter] | None,
    ) -> None:
        self._spec = spec
        self._on_output = on_output
        self._failure: Exception | None = None
        self._started = time.monotonic()
        self._remarks: tuple[str, ...] = ()
        process, self._entered = start_confined(spec, confinement, _popen)
        self._group = ProcessGroup(process)
        self._terminal = LentTerminal(process) if spec.terminal else None
        self._ended = asyncio.Event()
        self._drained = asyncio.Event()
        self._stdout, self._stderr = Capture(), Capture()
        self._filtered = tuple(zip(filters or (), (self._stdout, self._stderr), strict=False))
        through = filters or (None, None)
        self._readers = [
            self._reader(pipe, capture, through[number])
            for number, (pipe, capture) in enumerate(
                ((process.stdout, self._stdout), (process.stderr, self._stderr))
            )
            if pipe is not None
        ]
        self._on_end()
        self._writer: PipeWriter | None = None
        self._stdin = cast(FileIO | None, process.stdin)
        self._feeding: asyncio.TimerHandle | None = None
        if spec.stdin_delay_ms:
            loop = asyncio.get_running_loop()
            self._feeding = loop.call_later(spec.stdin_delay_ms / 1000, self._feed)
        else:
            self._feed()
        self._stop_waiting = when_ended(process, self._ended.set)

    async def finish(self) -> bool:
        """Wait for the end, making it come at the deadline. True when it had to be made."""
        timed_out = not await self._ends_in_time()
        if timed_out:
            self._group.terminate()
            if not await _within(KILL_AFTER_S, self._ended):
                self._group.kill()
                await _within(_AFTER_KILL_S, self._ended)
        self._take_terminal()
        await _within(GRACE_S, self._drained)
        self._read_the_rest()
        for stream, capture in self._filtered:
            capture.add(stream.finish())
        if timed_out or self._entered.outlives(self._group.leader.poll()):
            # Removing a container asks its engine, which takes its time.
            await asyncio.to_thread(self._entered.stop)
        if self._entered.is_guarded:
            await self._end_all()
            self._remarks = tuple(self._entered.leave())
        if self._failure is not None:
            raise self._failure
        return timed_out

    async def _ends_in_time(self) -> bool:
        while not self._ended.is_set():
            limit_s = self._spec.timeout_ms / 1000 + self._spec.not_counted_s()
            left_s = limit_s - (time.monotonic() - self._started)
            if left_s <= 0:
                return False
            await _within(max(left_s, _LEAST_WAIT_S), self._ended)
        return True

    def abandon(self) -> None:
        """End the group in the background and forget its output."""
        self._take_terminal()
        self._group.end(self._release(), self._entered.abandon)
        self._stdout.discard()
        self._stderr.discard()

    def result(self, timed_out: bool) -> ProcessResult:
        """End what is left of the group and say how it went."""
        self._group.end(self._release(), self._entered.leave)
        status = self._group.leader.returncode
        if status is None:
            status = -signal.SIGKILL if os.name == "posix" else 1
        return ProcessResult(
            exit_code=status if status >= 0 else None,
            signal=-status if status < 0 else None,
            timed_out=timed_out,
            stdout=self._stdout.finish(),
            stderr=self._stderr.finish(),
            duration_ms=round((time.monotonic() - self._started) * 1000),
            remarks=self._remarks,
        )

    async def _end_all(self) -> None:
        """End the group and wait until nothing of it runs: what is found then stays so."""
        for end, seconds in ((self._group.terminate, GRACE_S), (self._group.kill, _AFTER_KILL_S)):
            deadline = time.monotonic() + seconds
            look_closer = time.monotonic() + _LOOK_CLOSER_S
            while not self._group.empty():
                end()
                if time.monotonic() > look_closer and self._group.over():
                    return
                if time.monotonic() > deadline:
                    break
                await asyncio.sleep(_POLL_S)
            else:
                return

    def _take_terminal(self) -> None:
        if self._terminal is not None:
            self._terminal.take_back()

    def _feed(self) -> None:
        if self._stdin is not None:
            self._writer, self._stdin = PipeWriter(self._stdin, self._spec.stdin or b""), None

    def _reader(self, pipe: IO[bytes], capture: Capture, stream: StreamFilter | None) -> PipeReader:
        def take(data: bytes) -> None:
            if self._failure is not None:
                return
            try:
                data = data if stream is None else stream.feed(data)
                capture.add(data)
                if self._on_output is not None:
                    self._on_output(data)
            except Exception as error:
                # Raised where the process is waited for, not in the loop's callback.
                self._failure = error
                self._ended.set()
                self._drained.set()

        return PipeReader(cast(FileIO, pipe), take, self._on_end)

    def _on_end(self) -> None:
        if all(reader.ended for reader in self._readers):
            self._drained.set()

    def _read_the_rest(self) -> None:
        # After a busy moment of the loop the grace may be over with output still in the pipe.
        for reader in self._readers:
            for _ in range(_LAST_CHUNKS):
                if not reader.read():
                    break

    def _release(self) -> list[FileIO]:
        self._stop_waiting()
        if self._feeding is not None:
            self._feeding.cancel()
        if self._stdin is not None:
            self._stdin.close()
        if self._writer is not None:
            self._writer.close()
        return [pipe for reader in self._readers if (pipe := reader.release()) is not None]


async def _within(seconds: float, event: asyncio.Event) -> bool:
    if not event.is_set():
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await event.wait()
    return event.is_set()


def start_confined(
    spec: ProcessSpec,
    confinement: Confinement | None,
    popen: Callable[[ProcessSpec, Entered], subprocess.Popen[bytes]],
) -> tuple[subprocess.Popen[bytes], Entered]:
    """Start a process behind its walls with `popen`. Raises ProcessStartError."""
    if not spec.argv:
        raise ProcessStartError("There is no program to start: the command is empty.")
    request = Request(
        spec.argv, spec.cwd, spec.env, spec.descriptors, spec.max_memory_bytes, spec.reads,
        spec.one_cpu,
    )  # fmt: skip
    entered = None
    try:
        entered = Entered(request, confinement)
        watch()
        with _on_one_cpu() if spec.one_cpu else nullcontext():
            return popen(spec, entered), entered
    except (OSError, ValueError, StorageError) as error:
        if entered is not None:
            entered.leave()
        if isinstance(error, StorageError):
            raise ProcessStartError(f"Cannot confine {spec.argv[0]!r}: {error}") from error
        raise ProcessStartError(why_not_started(spec, error)) from error
    finally:
        if entered is not None:
            entered.started()


def can_choose_cpu() -> bool:
    """Tell whether `ProcessSpec.one_cpu` holds on this system."""
    return hasattr(os, "sched_setaffinity")


@contextmanager
def _on_one_cpu() -> Iterator[None]:
    """Run on one processor for as long as it takes to start what inherits this."""
    if not can_choose_cpu():
        yield
        return
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {random.choice(sorted(allowed))})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


def _popen(spec: ProcessSpec, entered: Entered) -> subprocess.Popen[bytes]:
    stdin = subprocess.DEVNULL if spec.stdin is None else subprocess.PIPE
    stdin = stdin if spec.channel is None else spec.channel
    stdout = subprocess.PIPE if spec.channel is None else spec.channel
    stderr = subprocess.STDOUT if spec.merge_stderr else subprocess.PIPE
    posix = os.name == "posix"
    return subprocess.Popen(
        waiting(entered.argv) if spec.terminal else entered.argv,
        bufsize=0,
        cwd=spec.cwd,
        env=entered.env,
        stdin=None if spec.terminal else stdin,
        stdout=None if spec.pass_output else stdout,
        stderr=None if spec.pass_output else stderr,
        # A session of its own would have no terminal.
        start_new_session=posix and not spec.terminal,
        process_group=0 if posix and spec.terminal else None,
        pass_fds=entered.descriptors,
        creationflags=0 if spec.terminal else _NEW_GROUP,
    )


def why_not_started(spec: ProcessSpec, error: OSError | ValueError) -> str:
    """Return one line that says what keeps a program from being started."""
    program = spec.argv[0]
    if not isinstance(error, OSError):
        reason = f"an argument or environment value is not valid ({error})"
    elif not spec.cwd.is_dir():
        reason = f"the directory {spec.cwd} does not exist"
    elif error.errno == errno.ENOENT:
        reason = _why_not_found(program, spec.cwd / program)
    elif error.errno == errno.EACCES and not os.access(spec.cwd, os.X_OK):
        reason = f"no permission to enter {spec.cwd}"
    else:
        reason = _REASONS.get(error.errno or 0) or error.strerror or str(error)
    return f"Cannot start {program!r}: {reason}."


def _why_not_found(program: str, path: Path) -> str:
    if os.sep not in program:
        return "there is no such program on PATH; install it or give its path"
    if path.is_file():
        return "the interpreter named in its first line does not exist"
    return f"there is no file {path}"


_NOT_EXECUTABLE = "it is not executable (chmod +x may be missing)"
_REASONS = {
    errno.EACCES: _NOT_EXECUTABLE,
    errno.EISDIR: _NOT_EXECUTABLE,
    errno.ENOEXEC: "it is not a program for this machine and has no #! first line",
    errno.E2BIG: "its arguments and environment are longer than the system allows; pass the data "
    "on standard input or in a file",
}
