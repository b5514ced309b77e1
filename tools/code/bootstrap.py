"""Runs the Python program of one call, as bootstrap.mjs runs those in JavaScript.

A program of its own (`python -I bootstrap.py`), behind walls: it imports nothing of opta. It talks
to opta over the socket whose descriptor NODE_CHANNEL_FD names, or, in a container, over standard
input and output.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import socket
import sys
import threading
import traceback
import types
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any


class Channel:
    """This end: one wish at a time, whichever thread has it."""

    def __init__(self, incoming: IO[bytes], outgoing: IO[bytes]) -> None:
        self._incoming, self._outgoing = incoming, outgoing
        self._lock = threading.Lock()
        self._asked = 0

    def send(self, frame: dict[str, Any]) -> None:
        """Send a frame."""
        self._outgoing.write(json.dumps(frame).encode() + b"\n")
        self._outgoing.flush()

    def receive(self) -> Any:
        """Return the next frame; leaves where opta has."""
        line = self._incoming.readline()
        if not line:
            os._exit(1)
        return json.loads(line)

    def ask(self, method: str, *params: object) -> Any:
        """Ask opta for something and wait for it. Raises OSError with opta's reason."""
        with self._lock:
            self._asked += 1
            self.send({"type": "ask", "id": self._asked, "method": method, "params": params})
            answer = self.receive()
        if "error" in answer:
            raise OSError(answer["error"])
        return answer.get("value")


def platform_of(channel: Channel) -> types.SimpleNamespace:
    """Return what a program finds in `context.platform`."""
    ask = channel.ask

    def execute(
        command: str, args: list[str] | None = None, *,
        cwd: str | None = None, timeout: int | None = None,
    ) -> types.SimpleNamespace:  # fmt: skip
        wish = {"command": command, "args": args, "cwd": cwd, "timeout": timeout}
        given = ask("executor.execute", wish)
        names = {"exitCode": "exit_code", "timedOut": "timed_out"}
        return types.SimpleNamespace(**{names.get(name, name): v for name, v in given.items()})

    files = types.SimpleNamespace(
        read_file=lambda path, encoding=None: ask("fs.readFile", path, encoding),
        write_file=lambda path, content: ask("fs.writeFile", path, content),
        exists=lambda path: ask("fs.exists", path),
        listdir=lambda path: ask("fs.readdir", path),
        glob=lambda pattern, path=".": ask("fs.glob", pattern, path),
    )
    return types.SimpleNamespace(fs=files, executor=types.SimpleNamespace(execute=execute))


def logger_of() -> types.SimpleNamespace:
    """Return what prints lines with their level."""

    def printer(level: str) -> Callable[[object], object]:
        return lambda message: sys.stdout.write(f"[{level}] {message}\n")

    return types.SimpleNamespace(info=printer("INFO"), warn=printer("WARN"), error=printer("ERROR"))


def context_of(given: dict[str, Any], channel: Channel) -> types.SimpleNamespace:
    """Return the context of a call."""
    conversation = given.get("conversation")
    if conversation is not None:
        conversation = types.SimpleNamespace(
            id=conversation["id"], working_directory=conversation["workingDirectory"]
        )
    directory = given["config"]["workingDirectory"]
    return types.SimpleNamespace(
        config=types.SimpleNamespace(working_directory=directory),
        conversation=conversation,
        platform=platform_of(channel),
        llm=types.SimpleNamespace(
            complete=lambda prompt, system="": channel.ask("llm.complete", prompt, system)
        ),
        logger=logger_of(),
    )


def run(call: dict[str, Any], channel: Channel) -> dict[str, Any]:
    """Run the program and return the last frame."""
    path = call["program"]
    try:
        names: dict[str, Any] = {"__name__": "tool", "__file__": path}
        exec(compile(Path(path).read_bytes(), path, "exec"), names)
        if not callable(names.get("execute")):
            raise TypeError("the code has no function execute(args, context)")
        value = names["execute"](call["args"], context_of(call["context"], channel))
        if inspect.isawaitable(value):
            value = asyncio.run(_awaited(value))
    except Exception as error:
        return {"type": "threw", "message": _described(error), "trace": _trace(error)}
    try:
        return {"type": "returned", "json": json.dumps(value, allow_nan=False)}
    except (TypeError, ValueError, RecursionError) as error:
        return {"type": "unusable", "message": f"its result is not JSON: {error}"}


async def _awaited(value: Any) -> Any:
    return await value


def _described(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _trace(error: Exception) -> str:
    """Return the places that led to the error, the innermost first."""
    places = [f"{at.filename}:{at.lineno}" for at in traceback.extract_tb(error.__traceback__)]
    if isinstance(error, SyntaxError):
        places.append(f"{error.filename}:{error.lineno}")
    return "\n".join(reversed(places))


def opened() -> Channel:
    """Return the channel that this program was started with."""
    descriptor = os.environ.pop("NODE_CHANNEL_FD", None)
    if descriptor is not None:
        own = socket.socket(fileno=int(descriptor))
        return Channel(own.makefile("rb"), own.makefile("wb"))
    channel = Channel(os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb"))
    # What the program reads and prints must not get between the frames.
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    return channel


def main() -> None:
    """Serve one call."""
    channel = opened()
    channel.send({"type": "ready"})
    answer = run(channel.receive(), channel)
    channel.send(answer)
    sys.stdout.flush()
    # Threads of the program keep nobody waiting.
    os._exit(0)


if __name__ == "__main__":
    main()
