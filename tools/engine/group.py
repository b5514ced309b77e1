"""Ends processes together with everything they started.

A process is the leader of a group (and session) of its own. A group is ended with SIGTERM, and
with SIGKILL `KILL_AFTER_S` later where that was not enough. The waiting is done by a thread that
is not a daemon: the interpreter does not exit before it, so nothing outlives opta (R44); where
opta is killed, `watchdog` does it.

On Windows, for which there is no test here, the group is the process tree as `taskkill /T` finds
it, and the gentle signal is CTRL_BREAK.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from io import FileIO
from pathlib import Path

from tools.engine.watchdog import Watchdog

KILL_AFTER_S = 1.8
"""How long a group may take to end after its first SIGTERM, in seconds."""

_POLL_S = 0.01
_LOOK_CLOSER_S = 0.05
_COLLECT_S = 1.0

_live: set[ProcessGroup] = set()
_watchdog = Watchdog()


class ProcessGroup:
    """A started process and its descendants, as far as they did not leave its group."""

    def __init__(self, leader: subprocess.Popen[bytes]) -> None:
        self.leader = leader
        self._asked: float | None = None
        self._ending: threading.Thread | None = None
        _live.add(self)
        _tell()

    def empty(self) -> bool:
        """Collect the leader if it ended; True when nothing of the group is left.

        Once the leader is collected its number stays taken while other members live, so it is
        safe to signal the group after this said False.
        """
        if self.leader.poll() is None:
            return False
        if os.name == "posix" and self._signal(0):
            return False
        _forget(self)
        return True

    def over(self) -> bool:
        """True when no member runs any more, also where nobody collected the last of them."""
        return self.empty() or (
            self.leader.returncode is not None and _only_zombies(self.leader.pid)
        )

    def terminate(self) -> None:
        """Ask every member to end; wakes stopped ones so that they can."""
        if self._asked is None:
            self._asked = time.monotonic()
        if os.name == "posix":
            self._signal(signal.SIGTERM)
            self._signal(signal.SIGCONT)
        else:
            with suppress(OSError, ValueError):
                self.leader.send_signal(signal.CTRL_BREAK_EVENT)  # type: ignore[attr-defined,unused-ignore]

    def kill(self) -> None:
        """End every member at once."""
        if os.name == "posix":
            self._signal(signal.SIGKILL)
        else:
            command = ["taskkill", "/T", "/F", "/PID", str(self.leader.pid)]
            with suppress(OSError):
                subprocess.run(command, capture_output=True, check=False)

    def end(self, pipes: Iterable[FileIO] = (), then: Callable[[], object] = lambda: None) -> None:
        """End what is left of the group: ask now and return; a thread sees to the rest.

        `pipes` are non-blocking read ends that the thread empties and closes, so that a process
        that says goodbye is not ended by a broken pipe in the middle of its clean-up. `then` is
        called when nothing of the group is left.
        """
        if self.empty():
            for pipe in pipes:
                pipe.close()
            then()
            return
        self.terminate()
        ending = threading.Thread(target=self._see_to_it, args=(tuple(pipes), then))
        # Started before other threads can see it: one that was not cannot be joined.
        ending.start()
        self._ending = ending

    def join(self) -> None:
        """Wait until `end` is through, if it was called."""
        if self._ending is not None:
            self._ending.join()

    def _see_to_it(self, pipes: tuple[FileIO, ...], then: Callable[[], object]) -> None:
        deadline = (self._asked or time.monotonic()) + KILL_AFTER_S
        look_closer = time.monotonic() + _LOOK_CLOSER_S
        while not self.empty():
            for pipe in pipes:
                _discard(pipe)
            now = time.monotonic()
            if now >= deadline:
                self.kill()
                break
            if now >= look_closer:
                if _only_zombies(self.leader.pid):
                    break
                look_closer = now + _LOOK_CLOSER_S
            time.sleep(_POLL_S)
        for pipe in pipes:
            pipe.close()
        # A process in uninterruptible sleep cannot be collected; opta must not wait for it.
        with suppress(subprocess.TimeoutExpired):
            self.leader.wait(_COLLECT_S)
        _forget(self)
        then()

    def _signal(self, number: int) -> bool:
        if self not in _live:
            return False
        try:
            os.killpg(self.leader.pid, number)
        except (ProcessLookupError, PermissionError):
            # No permission: macOS says so of a group of zombies, Linux of one that became root's.
            return False
        return True


def watch() -> None:
    """Make ready what ends processes if opta is killed, before one is started (R44)."""
    _watchdog.start()


async def settle() -> None:
    """Wait until every group that is being ended has ended (at most about 3 s)."""
    for group in tuple(_live):
        await asyncio.to_thread(group.join)


def settle_now() -> None:
    """Do what `settle` does in a thread that may block."""
    for group in tuple(_live):
        group.join()


def kill_all() -> None:
    """End every process that tools started, at once."""
    groups = tuple(_live)
    for group in groups:
        group.kill()
    for group in groups:
        with suppress(subprocess.TimeoutExpired):
            group.leader.wait(_COLLECT_S)
        group.join()
        _forget(group)


def _forget(group: ProcessGroup) -> None:
    if group in _live:
        _live.discard(group)
        _tell()


def _tell() -> None:
    _watchdog.tell(lambda: [group.leader.pid for group in tuple(_live)])


def _only_zombies(group: int) -> bool:
    """Tell whether every member has ended, where an init process that is slow (or, in many
    containers, missing) has not collected them. False where there is no /proc to tell."""
    try:
        with os.scandir("/proc") as entries:
            statuses = [f"{entry.path}/stat" for entry in entries if entry.name.isdecimal()]
    except OSError:
        return False
    seen = False
    for path in statuses:
        with suppress(OSError):
            # The name in parentheses may hold anything; the fields after it are fixed.
            state, _, its_group = Path(path).read_bytes().rpartition(b")")[2].split()[:3]
            if int(its_group) == group:
                if state not in (b"Z", b"X"):
                    return False
                seen = True
    return seen


def _discard(pipe: FileIO) -> None:
    with suppress(OSError, ValueError):
        while pipe.read(64 * 1024):
            pass


# What is registered last is done first.
atexit.register(_watchdog.close)
atexit.register(kill_all)
