"""Runs one program and says what it took."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import pty
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
READY = b"\x1b[?2004h"
"""Bracketed paste is switched on: the program has drawn its prompt and reads keys itself."""


@dataclass(frozen=True)
class Usage:
    """Wall time and CPU time in seconds, peak memory of the largest process in MB."""

    wall: float
    cpu: float
    peak_mb: float


def run(command: Sequence[str], environment: Mapping[str, str], directory: Path) -> Usage:
    """Run a program to its end. Raises RuntimeError with its stderr when it fails."""
    with open(directory / "stderr", "w+b") as errors:
        start = time.perf_counter()
        process = subprocess.Popen(
            command, env=environment, cwd=directory,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors,
        )  # fmt: skip
        _, status, used = os.wait4(process.pid, 0)
        wall = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            errors.seek(0)
            raise RuntimeError(f"{command[0]}: exit {process.returncode}: {errors.read().decode()}")
    return Usage(wall, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


def first_prompt(command: Sequence[str], environment: Mapping[str, str], directory: Path) -> float:
    """Return the seconds from start to the echo of a first key, in a terminal of 120x40.

    Raises RuntimeError when no prompt appears within 10 seconds.
    """
    start = time.perf_counter()
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(directory)
        termios.tcsetwinsize(0, (40, 120))
        os.execvpe(command[0], [*command], {**environment, "TERM": "xterm-256color"})
    try:
        _read_until(terminal, READY, start)
        os.write(terminal, b"q")
        _read_until(terminal, b"q", start)
        return time.perf_counter() - start
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(terminal)


def _read_until(terminal: int, wanted: bytes, start: float) -> None:
    seen = b""
    while wanted not in seen:
        readable, _, _ = select.select([terminal], [], [], start + 10 - time.perf_counter())
        if not readable:
            raise RuntimeError(f"no prompt within 10 s, only {seen!r}")
        try:
            data = os.read(terminal, 1 << 16)
        except OSError:
            raise RuntimeError(f"it ended with {seen.decode(errors='replace')}") from None
        if b"\x1b[6n" in data:
            os.write(terminal, b"\x1b[1;1R")
        seen += data


@dataclass(frozen=True)
class Server:
    """A model server in a process of its own."""

    port: int

    def last_run(self) -> dict[str, Any]:
        """Return what the server saw in the last complete run."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        connection.request("GET", "/run")
        run: dict[str, Any] = json.load(connection.getresponse())
        connection.close()
        return run


@contextlib.contextmanager
def server(scenario: str) -> Iterator[Server]:
    """Run the model server with a scenario."""
    command = [sys.executable, "-m", "benchmarks.server", scenario]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        yield Server(int(process.stdout.readline()))
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
