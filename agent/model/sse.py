"""Decodes a Server-Sent Events stream, fed in whatever pieces the network delivers.

Follows the event stream format of the HTML standard (WHATWG HTML, 9.2.6) with one liberty: an event
that the end of the stream cuts off before its blank line is still delivered, by `close`.
"""

from __future__ import annotations

from typing import NamedTuple

MAX_LINE_BYTES = 32 * 1024 * 1024
"""A stream with a longer line is refused instead of filling the memory."""

_BOM = b"\xef\xbb\xbf"


class SseEvent(NamedTuple):
    """One event: `event` is its type ("" where the stream names none), `data` its payload."""

    event: str
    data: str


class SseDecoder:
    """Turns bytes into events. How the bytes are cut makes no difference.

    Lines may end in LF, CRLF or CR. Comments, `id` and `retry` are skipped. A line is decoded once
    it is whole, so UTF-8 sequences may be cut anywhere; bytes that are not UTF-8 become U+FFFD.
    """

    def __init__(self) -> None:
        self._pending: list[bytes] = []
        self._pending_size = 0
        self._after_cr = False
        self._at_start = True
        self._event = ""
        self._data: list[bytes] = []

    def feed(self, data: bytes) -> list[SseEvent]:
        """Take the next bytes and return the events that are complete now.

        Raises ValueError where a line exceeds `MAX_LINE_BYTES`.
        """
        if self._after_cr and data:
            self._after_cr = False
            data = data.removeprefix(b"\n")
        self._pending.append(data)
        self._pending_size += len(data)
        if b"\n" not in data and b"\r" not in data:
            if self._pending_size > MAX_LINE_BYTES:
                raise ValueError(f"a line is longer than {MAX_LINE_BYTES} bytes")
            return []
        block = b"".join(self._pending)
        lines = block.splitlines()
        rest = b"" if block.endswith((b"\n", b"\r")) else lines.pop()
        self._after_cr = block.endswith(b"\r")
        self._pending = [rest] if rest else []
        self._pending_size = len(rest)
        return self._take(lines)

    def close(self) -> list[SseEvent]:
        """Return what the end of the stream left unfinished, as an event where it has data."""
        lines = [b"".join(self._pending), b""]
        self._pending = []
        return self._take(lines)

    def _take(self, lines: list[bytes]) -> list[SseEvent]:
        if self._at_start and lines:
            self._at_start = False
            lines[0] = lines[0].removeprefix(_BOM)
        events: list[SseEvent] = []
        for line in lines:
            if line.startswith(b"data:"):
                self._data.append(line[6:] if line[5:6] == b" " else line[5:])
            elif line:
                self._take_other_field(line)
            else:
                if self._data:
                    text = b"\n".join(self._data).decode("utf-8", "replace")
                    events.append(SseEvent(self._event, text))
                    self._data = []
                self._event = ""
        return events

    def _take_other_field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        if name == b"event":
            self._event = value.removeprefix(b" ").decode("utf-8", "replace")
        elif name == b"data":
            self._data.append(b"")
