"""What streaming an answer into the terminal costs.

A real chat runs in a pseudo terminal of 120x40 and is sent pieces of four characters at 200 a
second, while keys are pressed. The floor is a bare program that writes the pieces and echoes keys.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import statistics
import struct
import sys
import tempfile
import termios
import time
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.bench import Bench, Figure

ROOT = Path(__file__).resolve().parent.parent
HARNESS = ROOT / "tests" / "ui" / "harness.py"
DELTAS = 2000
KEY, BACKSPACE = b"Q", b"\x7f"
KEY_EVERY_S = 0.1
FLOOR = """
import os, select, sys, termios, time, tty
tty.setraw(0)
started = time.monotonic()
for number in range({deltas}):
    os.write(1, b"word")
    while (left := started + number / 200 - time.monotonic()) > 0:
        if select.select([0], [], [], left)[0]:
            os.write(1, os.read(0, 100))
"""


@dataclass
class Measured:
    """CPU in seconds, output in bytes, echo times in seconds."""

    cpu_s: float = 0.0
    written: int = 0
    first_paint_s: float = 0.0
    echoes: list[float] = field(default_factory=list)

    @property
    def echo_p95_ms(self) -> float:
        return 1000 * statistics.quantiles(self.echoes, n=20)[-1]


class Session:
    """One program in a pseudo terminal, and a person who types."""

    def __init__(self, argv: list[str], environment: dict[str, str]) -> None:
        self.measured = Measured()
        self._started = time.monotonic()
        self._pid, self._terminal = pty.fork()
        if self._pid == 0:
            os.execvpe(argv[0], argv, environment)
        size = struct.pack("HHHH", 40, 120, 0, 0)
        fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, size)

    def wait_for(self, pattern: bytes) -> None:
        """Read until `pattern` was written."""
        seen = b""
        while not re.search(pattern, seen):
            seen += self._read(10.0)
        self.measured.first_paint_s = time.monotonic() - self._started

    def send(self, data: bytes) -> None:
        os.write(self._terminal, data)

    def type_until_end(self) -> Measured:
        """Press a key every so often and take it back, until the program ends."""
        next_key = time.monotonic() + 1.0
        pressed: float | None = None
        while True:
            try:
                data = self._read(max(next_key - time.monotonic(), 0.0))
            except OSError:
                break
            self.measured.written += len(data)
            now = time.monotonic()
            if pressed is not None and KEY in data:
                self.measured.echoes.append(now - pressed)
                pressed = None
                self.send(BACKSPACE)
            if now >= next_key:
                next_key = now + KEY_EVERY_S
                if pressed is None:
                    pressed = now
                    self.send(KEY)
        _, _, usage = os.wait4(self._pid, 0)
        self.measured.cpu_s = usage.ru_utime + usage.ru_stime
        return self.measured

    def _read(self, wait_s: float) -> bytes:
        ready, _, _ = select.select([self._terminal], [], [], wait_s)
        if not ready:
            return b""
        data = os.read(self._terminal, 65536)
        if not data:
            raise OSError("the program has ended")
        return data


def measure_chat(deltas: int) -> Measured:
    with tempfile.TemporaryDirectory() as state:
        environment = {**os.environ, "TERM": "xterm-256color", "XDG_STATE_HOME": state}
        session = Session([sys.executable, str(HARNESS)], environment)
        session.wait_for(rb"gpt-x")
        session.send(f"bench {deltas}\r".encode())
        return session.type_until_end()


def measure_floor(deltas: int) -> Measured:
    program = FLOOR.format(deltas=deltas)
    return Session([sys.executable, "-c", program], dict(os.environ)).type_until_end()


def uistream(bench: Bench) -> list[Figure]:
    floor, opta = measure_floor(DELTAS), measure_chat(DELTAS)
    floor_us, opta_us = (1_000_000 * each.cpu_s / DELTAS for each in (floor, opta))
    return [
        Figure("a streamed piece, CPU", "us", floor_us, opta_us, 1000),
        Figure("a streamed piece, written", "bytes", floor.written / DELTAS,
               opta.written / DELTAS),
        Figure("echo of a key while streaming, p95", "ms", floor.echo_p95_ms, opta.echo_p95_ms, 50),
    ]  # fmt: skip
