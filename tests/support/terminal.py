"""Runs a command in a real terminal (tmux), types into it and reads what it shows.

Each `Terminal` has a tmux server of its own, so tests cannot see each other and closing one ends
only what it started. Nothing here sleeps for luck: every wait polls and has a deadline.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType

import pytest

needs_tmux = pytest.mark.skipif(
    shutil.which("tmux") is None, reason="tmux is not installed: no real terminal to test in"
)

_CONFIG = """\
set -g history-limit 100000
set -g remain-on-exit on
set -g remain-on-exit-format ""
set -g status off
set -g default-terminal "tmux-256color"
set -g escape-time 0
set -g assume-paste-time 0
"""
_POLL_S = 0.02


class Terminal:
    """One command in one tmux window.

    `columns` and `rows` are the size of the screen. `env` is added to the environment of the
    test. Use as a context manager: leaving it ends the command and the tmux server.
    """

    def __init__(
        self,
        argv: Sequence[str | Path],
        *,
        columns: int = 80,
        rows: int = 24,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> None:
        # The path of a Unix socket is short: pytest's own directories are too deep for it.
        self._directory = Path(tempfile.mkdtemp(prefix="tm-"))
        self._socket = self._directory / "s"
        self._output = self._directory / "output"
        self._pid = self._directory / "pid"
        self._status = self._directory / "status"
        config = self._directory / "conf"
        config.write_text(_CONFIG)
        started = self._directory / "go"
        os.mkfifo(started)
        # The command waits for the pipe that records its output: not one byte is missed.
        command = shlex.join(str(part) for part in argv)
        # tmux loses the status of some commands that end at once, so the shell writes it down.
        script = (
            f"read -r _ < {started}; trap : INT HUP TERM; "
            f"sh -c 'echo $$ > {self._pid}; exec \"$@\"' sh {command}; echo $? > {self._status}"
        )
        settings = [f"-e{name}={value}" for name, value in (env or {}).items()]
        self.tmux(
            "-f", str(config), "new-session", "-d", "-x", str(columns), "-y", str(rows),
            "-c", str(cwd or Path.cwd()), *settings, "sh", "-c", script,
        )  # fmt: skip
        self.tmux("pipe-pane", "-O", f"cat >> {self._output}")
        self.started_at = time.monotonic()
        started.write_text("go\n")

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def tmux(self, *arguments: str, data: bytes | None = None) -> str:
        """Run one tmux command against this terminal's server and return what it printed."""
        done = subprocess.run(
            ["tmux", "-u", "-S", str(self._socket), *arguments],
            input=data, capture_output=True, check=False, timeout=20,
            env={**os.environ, "LC_ALL": "C.UTF-8"},
        )  # fmt: skip
        if done.returncode != 0:
            raise RuntimeError(f"tmux {' '.join(arguments)}: {done.stderr.decode()}")
        return done.stdout.decode(errors="replace")

    def send(self, *keys: str) -> None:
        """Press keys by their tmux names: `Enter`, `C-c`, `M-Enter`, `Escape`, `Up`, `BTab`."""
        self.tmux("send-keys", *keys)

    def type(self, text: str) -> None:
        """Type `text` as it is."""
        self.tmux("send-keys", "-l", "--", text)

    def paste(self, text: str) -> None:
        """Paste `text` the way a terminal does, bracketed where the program asked for it."""
        self.tmux("load-buffer", "-", data=text.encode())
        self.tmux("paste-buffer", "-p", "-r")

    def resize(self, columns: int, rows: int) -> None:
        """Change the size of the screen."""
        self.tmux("resize-window", "-x", str(columns), "-y", str(rows))

    def screen(self) -> str:
        """Return what is visible now, without colours."""
        return self.tmux("capture-pane", "-p")

    def scrollback(self, *, joined: bool = False) -> str:
        """Return everything from the first line on. `joined` undoes the wrapping of lines."""
        return self.tmux("capture-pane", "-p", "-S", "-", "-E", "-", *(["-J"] if joined else []))

    def escapes(self) -> str:
        """Return what is visible with the escape sequences of its colours."""
        return self.tmux("capture-pane", "-p", "-e")

    def output(self) -> bytes:
        """Return every byte the command wrote so far."""
        return self._output.read_bytes() if self._output.exists() else b""

    def cursor(self) -> tuple[int, int]:
        """Return column and row of the cursor, from 0."""
        column, row = self._pane("#{cursor_x} #{cursor_y}").split()
        return int(column), int(row)

    def pid(self) -> int:
        """Return the process id of the command."""
        return int(self._pid.read_text())

    def exit_status(self) -> int | None:
        """Return the exit code, 128 + signal for a killed command, None while it runs."""
        text = self._status.read_text() if self._status.exists() else ""
        return int(text) if text.endswith("\n") else None

    def wait(
        self,
        seen: str | Callable[[str], bool],
        timeout_s: float = 10.0,
        *,
        everything: bool = False,
    ) -> str:
        """Poll until `seen` is on the screen (or, a function, is true of it); return the screen.

        `everything` looks at the scrollback too. Raises AssertionError with the last screen when
        `timeout_s` seconds have passed.
        """
        test = seen if callable(seen) else lambda text: seen in text
        deadline = time.monotonic() + timeout_s
        while True:
            text = self.scrollback() if everything else self.screen()
            if test(text):
                return text
            if time.monotonic() > deadline:
                what = "a condition" if callable(seen) else repr(seen)
                raise AssertionError(f"waited {timeout_s} s for {what}; the screen:\n{text}")
            time.sleep(_POLL_S)

    def wait_exit(self, timeout_s: float = 10.0) -> int:
        """Poll until the command has ended and return its exit status."""
        deadline = time.monotonic() + timeout_s
        while (status := self.exit_status()) is None:
            if time.monotonic() > deadline:
                raise AssertionError(f"still running after {timeout_s} s:\n{self.screen()}")
            time.sleep(_POLL_S)
        return status

    def close(self) -> None:
        """End the command and the tmux server, and remove their files."""
        with contextlib.suppress(RuntimeError):
            self.tmux("kill-server")
        shutil.rmtree(self._directory, ignore_errors=True)

    def _pane(self, form: str) -> str:
        return self.tmux("display-message", "-p", form).strip()
