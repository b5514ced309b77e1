"""Ends what tools started when opta itself is killed (SIGKILL, out of memory): nobody else would.

One small shell, started before the first process of a tool, waits for a pipe to close: opta is gone
then, and what still lives is ended as opta would have done it. Which groups live stands in a file
without a name, which the shell reads only then: while opta lives, telling it wakes nobody. It has a
session of its own, so that what ends opta does not end it too. On Windows there is none.
"""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress

from tools import storage

_SHELL = "/bin/sh"
_LEAVE_S = 1.0
# The file is the shell's standard output: no other number is sure to be free, and below 10.
_SCRIPT = """\
trap '' HUP INT TERM
read -r until_opta_is_gone
read -r live <&1
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
        self._file: int | None = None
        self._tried = False

    def start(self) -> None:
        """Start the shell, where that was not tried yet: so that to tell is but a moment."""
        with self._lock:
            if os.name == "posix" and not self._tried:
                self._tried = True
                self._start()

    def tell(self, groups: Callable[[], Iterable[int]]) -> None:
        """Say which groups live now; `groups` returns their numbers.

        It is asked while nobody else tells: what is told last is the latest.
        """
        with self._lock:
            if self._file is not None:
                with suppress(OSError):
                    # Only its first line counts: what a longer one left behind does not.
                    os.pwrite(self._file, f"{' '.join(map(str, groups()))}\n".encode(), 0)

    def close(self) -> None:
        """End the shell: opta leaves by itself, and has ended what it started."""
        with self._lock:
            shell, self._shell = self._shell, None
            if shell is not None and shell.stdin is not None:
                shell.stdin.close()
                with suppress(subprocess.TimeoutExpired):
                    shell.wait(_LEAVE_S)

    def _start(self) -> None:
        with suppress(OSError, storage.StorageError):
            self._file = storage.data_descriptor(b"")
            self._shell = subprocess.Popen(
                [_SHELL, "-c", _SCRIPT],
                bufsize=0, cwd="/", env={"PATH": os.defpath}, stdin=subprocess.PIPE,
                stdout=self._file, stderr=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
