"""Runs JavaScript in a process of its own, which is kept for the next script and can be ended.

The engine's own limit on time does not hold within its native functions.
"""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import IO

MEMORY_LIMIT_BYTES = 16 * 1024 * 1024
STACK_LIMIT_BYTES = 64 * 1024

TIME_LIMIT_S = 0.25
"""Processor time of one script."""

GIVE_UP_S = 1.0
"""How long a script is waited for, when the engine cannot stop it or the machine is busy."""

MODULE = "_quickjs"
"""The engine itself; the package around it imports much that is of no use here."""

_START_S = 10.0
_WORKER = Path(__file__).with_name("javascript_worker.py")


class EngineError(Exception):
    """There is no engine that can be asked. The message says what to do."""


class TooSlowError(Exception):
    """A script took too long and its process was ended."""


class ScriptError(Exception):
    """What the engine says of a script that failed."""


class _Worker:
    """One process that evaluates scripts, one after the other."""

    def __init__(self) -> None:
        found = find_spec(MODULE)
        if found is None or found.origin is None:
            raise EngineError(
                "Tool files with JavaScript expressions need the package quickjs-ng, which is not "
                "installed here. Install it with: pip install quickjs-ng"
            )
        limits = (MEMORY_LIMIT_BYTES, STACK_LIMIT_BYTES, TIME_LIMIT_S, GIVE_UP_S)
        packages = Path(found.origin).parent
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", _WORKER, packages, *map(str, limits)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd=_WORKER.parent,
                # Keys that are typed are not for it; nor is the environment.
                start_new_session=os.name == "posix",
                env={name: os.environ[name] for name in ("SYSTEMROOT",) if name in os.environ},
            )
        except OSError as error:
            raise EngineError(f"The JavaScript engine cannot be started: {error}") from error

    @property
    def living(self) -> bool:
        return self._process.poll() is None

    def ask(self, script: str, data: str) -> str:
        """Return what a script gives. Raises ScriptError, TooSlowError, EngineError."""
        parts = script.encode(), data.encode()
        try:
            with self._deadline():
                kind, text = self._exchange(parts)
        except (OSError, ValueError):
            self.end()
            raise self._why_ended() from None
        except BaseException:
            # An interrupt: the answer that is still to come would be taken for the next script's.
            self.end()
            raise
        if kind == b"error":
            raise ScriptError(text)
        return text

    @contextmanager
    def _deadline(self) -> Iterator[None]:
        """End the process when it takes too long, where it cannot do so itself (Windows)."""
        if hasattr(signal, "setitimer"):
            yield
            return
        timer = threading.Timer(GIVE_UP_S + _START_S, self._process.kill)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _why_ended(self) -> Exception:
        code, alarm = self._process.returncode, getattr(signal, "SIGALRM", None)
        if alarm is None or code == -alarm:
            return TooSlowError()
        return EngineError(f"The JavaScript engine broke down, with {code}. Write it differently.")

    def end(self) -> None:
        """End the process."""
        self._process.kill()
        for pipe in (self._stdin, self._stdout):
            with suppress(OSError):
                pipe.close()
        self._process.wait()

    def _exchange(self, parts: tuple[bytes, bytes]) -> tuple[bytes, str]:
        self._stdin.write(f"{len(parts[0])} {len(parts[1])}\n".encode() + b"".join(parts))
        self._stdin.flush()
        kind, length = self._stdout.readline().split()
        body = self._stdout.read(int(length))
        return kind, body.decode("utf-8", "surrogatepass")

    @property
    def _stdin(self) -> IO[bytes]:
        assert self._process.stdin is not None
        return self._process.stdin

    @property
    def _stdout(self) -> IO[bytes]:
        assert self._process.stdout is not None
        return self._process.stdout


_worker: _Worker | None = None
_asking = threading.Lock()


def run_script(script: str, data: str) -> str:
    """Run `script` in a fresh context, `input` being the JSON `data`; return its text.

    The context has no function of the host. Raises ScriptError, TooSlowError, EngineError.
    """
    global _worker
    with _asking:
        if _worker is None or not _worker.living:
            _worker = _Worker()
        return _worker.ask(script, data)


@atexit.register
def _end() -> None:
    if _worker is not None:
        _worker.end()
