"""Ends what tools started when opta itself is killed (SIGKILL, out of memory): nobody else would.

One small shell, started with the first process of a tool, reads from a pipe which groups live. When
the pipe closes, opta is gone, and what still lives is ended as opta would have done it. It has a
session of its own, so that what ends opta does not end it too. On Windows there is none.
"""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterable
from contextlib import suppress

_SHELL = "/bin/sh"
_LEAVE_S = 1.0
_SCRIPT = """\
trap '' HUP INT TERM
live=
while read -r line; do live=$line; done
[ -n "$live" ] || exit 0
for group in $live; do
    kill -s TERM -- "-$group"
    kill -s CONT -- "-$group"
done
sleep 2
for group in $live; do kill -s KILL -- "-$group"; done
"""


class Watchdog:
    """Tells a shell which process groups live. Safe for use by several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._shell: subprocess.Popen[bytes] | None = None
        self._tried = False
        self._told: tuple[int, ...] = ()

    def tell(self, groups: Iterable[int]) -> None:
        """Say which groups live now (their numbers)."""
        if os.name != "posix":
            return
        with self._lock:
            live = tuple(sorted(groups))
            if live == self._told:
                return
            self._told = live
            if not self._tried:
                self._start()
            # A shell that was ended, or stopped for long, is done without.
            with suppress(OSError):
                if self._shell is not None and self._shell.stdin is not None:
                    self._shell.stdin.write(f"{' '.join(map(str, live))}\n".encode())

    def close(self) -> None:
        """End the shell: opta leaves by itself, and has ended what it started."""
        with self._lock:
            shell, self._shell = self._shell, None
            if shell is not None and shell.stdin is not None:
                shell.stdin.close()
                with suppress(subprocess.TimeoutExpired):
                    shell.wait(_LEAVE_S)

    def _start(self) -> None:
        self._tried = True
        with suppress(OSError):
            self._shell = subprocess.Popen(
                [_SHELL, "-c", _SCRIPT],
                bufsize=0, cwd="/", env={"PATH": os.defpath}, stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
            if self._shell.stdin is not None:
                os.set_blocking(self._shell.stdin.fileno(), False)
