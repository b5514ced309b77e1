"""What becomes of the output of a step while it comes: limited, masked, kept and shown."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from tools import storage
from tools.actions import OutputOptions
from tools.definition import Progress
from tools.engine.capture import HEAD_BYTES, Captured
from tools.engine.masking import Masker, OutputStream
from tools.engine.output import ModelText, for_model, live

MAX_LINE_CHARS = 8 * 1024
"""A longer line is shown in parts."""


class OutputLimitError(Exception):
    """A step printed more than its file allows. The message says how much that is (C386)."""


class StepStream:
    """One stream of one process: a filter for `run_process`.

    `kept` are its first bytes as they came, up to the limit, where something refers to them.
    """

    def __init__(
        self,
        options: OutputOptions,
        masker: Masker,
        *,
        keep: bool,
        show: Live | None,
    ) -> None:
        self.kept = bytearray()
        self.total = 0
        self._options = options
        self._masked = OutputStream(masker)
        self._keep = keep
        self._show = show

    def feed(self, data: bytes) -> bytes:
        """Take the next piece and return what of it may be stored.

        Raises OutputLimitError where the limit is not to be exceeded.
        """
        self.total += len(data)
        limit = self._options.limit_bytes
        if self.total > limit and not self._options.truncate:
            raise OutputLimitError(f"Output exceeds buffer limit of {limit} bytes")
        if self._keep and len(self.kept) < limit:
            self.kept += data[: limit - len(self.kept)]
        return self._shown(self._masked.feed(data))

    def finish(self) -> bytes:
        """Return what was held back."""
        rest = self._shown(self._masked.finish())
        if self._show is not None:
            self._show.finish()
        return rest

    def reference(self) -> bytes:
        """Return what later steps get: at most the limit, cut between characters."""
        data = bytes(self.kept)
        return data if self.total <= len(data) else cut_between_characters(data)

    def _shown(self, data: bytes) -> bytes:
        if data and self._show is not None:
            self._show.feed(data)
        return data


def for_result(captured: Captured, options: OutputOptions, clip: int) -> tuple[ModelText, str]:
    """Return captured output for the model, and a word about its limit or nothing (C385).

    Where little is to be kept, that much of the beginning is shown; else head and tail.
    """
    limit = options.limit_bytes
    if captured.total_bytes <= limit:
        return for_model(captured, clip), ""
    if limit <= HEAD_BYTES:
        head = cut_between_characters(captured.head[:limit])
        captured = Captured(head, b"", len(head))
    return for_model(captured, clip), f"Output truncated to {limit} bytes"


def cut_between_characters(data: bytes) -> bytes:
    """Drop an unfinished UTF-8 character at the end."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte & 0xC0 == 0x80:
            continue
        length = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
        return data[:-back] if length > back else data
    return data


class Live(Protocol):
    """Shows raw output while it comes."""

    def feed(self, data: bytes) -> None:
        """Show the next piece."""
        ...

    def finish(self) -> None:
        """Show what was held back."""
        ...


class LiveLog:
    """Writes all output to a file (X124)."""

    def __init__(self, path: Path) -> None:
        """Open the file. Raises StorageError."""
        self.path = path
        self._file = storage.AppendFile(path)

    def feed(self, data: bytes) -> None:
        """Write the next piece. Raises StorageError."""
        self._file.write(data)

    def finish(self) -> None:
        """Nothing is held back."""

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class LivePieces:
    """Shows each piece as it comes, safe for a terminal: for what runs alone."""

    def __init__(self, progress: Progress) -> None:
        self._take = live(progress)

    def feed(self, data: bytes) -> None:
        """Show the next piece."""
        self._take(data)

    def finish(self) -> None:
        """Nothing is held back."""


class LiveLines:
    """Shows whole lines with a label, so that those of several steps do not mix (C384)."""

    def __init__(self, label: str, progress: Progress) -> None:
        self._label = label
        self._begun = ""
        self._progress = progress
        self._take = live(self._lines)

    def feed(self, data: bytes) -> None:
        """Show the lines that are complete."""
        self._take(data)

    def finish(self) -> None:
        """Show the last line where it has no end."""
        if self._begun:
            self._lines("\n")

    def _lines(self, text: str) -> None:
        *lines, self._begun = (self._begun + text).split("\n")
        if len(self._begun) > MAX_LINE_CHARS:
            lines, self._begun = [*lines, self._begun], ""
        if lines:
            self._progress("".join(f"{self._label}{line}\n" for line in lines))
