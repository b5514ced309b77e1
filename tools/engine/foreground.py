"""Lends opta's terminal to a process, as a shell does for the job in its foreground.

The process keeps a group of its own, so it can be ended with all that it started; while that group
is in the foreground the keys (Ctrl-C, Ctrl-Z, Ctrl-\\) are its alone.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import subprocess

try:
    import termios
except ImportError:  # Windows, where processes share the console and nothing has to be lent
    termios = None  # type: ignore[assignment,unused-ignore]

_TERMINAL = 0


def has_terminal() -> bool:
    """Tell whether opta's standard input is a terminal."""
    return os.isatty(_TERMINAL)


def waiting(argv: tuple[str, ...]) -> tuple[str, ...]:
    """Return `argv` started so that it begins when it has been lent the terminal, not before.

    Till then the keys are not its, and it would be stopped for asking for them.
    """
    if termios is None:
        return argv
    return ("/bin/sh", "-c", 'kill -STOP $$; exec "$@"', "sh", *argv)


class LentTerminal:
    """The terminal while `process`, the leader of a group of its own, has it.

    The process was started with `waiting`. To be used in the thread of the running loop, which
    must be the main one for Ctrl-Z to work.
    """

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._loop = asyncio.get_running_loop()
        self._modes: list[Any] = []
        if termios is None:
            return
        with suppress(termios.error, OSError):
            self._modes = termios.tcgetattr(_TERMINAL)
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        if not os.WIFSTOPPED(status):
            process.returncode = os.waitstatus_to_exitcode(status)
            return
        self._lend()
        # macOS has no waitid before Python 3.13; there Ctrl-Z leaves opta waiting.
        if hasattr(os, "waitid"):
            threading.Thread(target=self._watch, name="terminal", daemon=True).start()

    def take_back(self) -> None:
        """Take the terminal, with the modes it had. Doing so twice is no harm."""
        if termios is None:
            return
        with _not_stopped_for_it(), suppress(termios.error, OSError):
            if os.tcgetpgrp(_TERMINAL) == self._process.pid:
                os.tcsetpgrp(_TERMINAL, os.getpgrp())
                if self._modes:
                    termios.tcsetattr(_TERMINAL, termios.TCSADRAIN, self._modes)

    def _lend(self) -> None:
        with suppress(OSError):
            # A program in the background has no terminal to lend.
            if os.tcgetpgrp(_TERMINAL) == os.getpgrp():
                os.tcsetpgrp(_TERMINAL, self._process.pid)
        with suppress(OSError):
            os.killpg(self._process.pid, signal.SIGCONT)

    def _watch(self) -> None:
        """See when the process is stopped, as with Ctrl-Z, until it ends."""
        options = os.WSTOPPED | os.WEXITED
        with suppress(ChildProcessError, RuntimeError):
            while True:
                found = os.waitid(os.P_PID, self._process.pid, options | os.WNOWAIT)
                if found is None or found.si_code not in (os.CLD_STOPPED, os.CLD_TRAPPED):
                    return
                os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WNOHANG)
                self._loop.call_soon_threadsafe(self._pause)

    def _pause(self) -> None:
        """Stop opta, and what shares its group, with the process; go on with it."""
        self.take_back()
        # From the main thread: it takes the signal itself, before it gets any further.
        os.kill(0, signal.SIGTSTP)
        self._lend()


@contextmanager
def _not_stopped_for_it() -> Iterator[None]:
    """Hold back the signal that a program in the background gets for setting its terminal."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTOU})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
