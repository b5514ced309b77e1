"""The channel between opta and the program of a call: lines of JSON over a pair of sockets.

The program gets its end as a descriptor, under the number that it had here; what it prints goes
another way. Everything that comes from there is a stranger's: bounded, and checked by who reads it.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator

from tools.definition import JsonObject

MAX_FRAME_BYTES = 16 * 1024 * 1024


class ChannelError(Exception):
    """The program sent what cannot be taken. The message says what, to follow "it"."""


class Channel:
    """opta's end. Close it when the call is over."""

    def __init__(self) -> None:
        """Make both ends. Raises OSError."""
        self._ours, self._theirs = socket.socketpair()
        self._writer: asyncio.StreamWriter | None = None

    @property
    def descriptor(self) -> int:
        """What the program inherits."""
        return self._theirs.fileno()

    async def open(self) -> AsyncIterator[JsonObject]:
        """Yield what the program sends until it has closed its end. Raises ChannelError."""
        reader, self._writer = await asyncio.open_connection(sock=self._ours, limit=MAX_FRAME_BYTES)
        while True:
            try:
                line = await reader.readline()
            except ValueError:
                size = MAX_FRAME_BYTES // 1024**2
                raise ChannelError(f"sent more than {size} MB at once") from None
            except ConnectionError:
                return
            if not line:
                return
            if line.strip():
                yield _frame(line)

    def send(self, frame: JsonObject) -> None:
        """Send a frame; a program that is gone gets nothing."""
        if self._writer is not None and not self._writer.is_closing():
            self._writer.write(json.dumps(frame).encode() + b"\n")

    def hang_up(self) -> None:
        """The program has ended: what it has sent can still be read, then the channel ends."""
        self._theirs.close()

    def close(self) -> None:
        """Close both ends."""
        self._theirs.close()
        if self._writer is None:
            self._ours.close()
        else:
            self._writer.close()


def _frame(line: bytes) -> JsonObject:
    try:
        frame = json.loads(line)
    except (ValueError, RecursionError):
        frame = None
    if not isinstance(frame, dict):
        raise ChannelError("sent what is not a JSON object")
    return frame
