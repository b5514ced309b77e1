"""The record of a session: append-only JSON Lines, each event on disk before it is shown (R47).

The first line is the head: `{"v": 1, "type": "session", "id", "cwd", "model", "created", "opta"}`
with `created` in seconds since 1970, and `kind`: `chat`, `batch` for `opta -p`, `mcp` for
`opta mcp serve`. Every other line is one event in the form of
`agent.event_json`, with two additions: `t`, its time in seconds since 1970 (not on `text` and
`reasoning`, of which there are thousands), and on `end` lines `turns` and `tokens`, the totals of
the session so far, which make listings fast. Of the live output of one call the first
`OUTPUT_CHARS` characters are recorded; the result has its end, and a file of its own the rest.

A line is handed to the kernel with one write(2) and no fsync: it survives the death of opta, not
that of the machine.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from json.encoder import encode_basestring_ascii
from pathlib import Path

from agent.conversation import Usage
from agent.event_json import VERSION, EventJsonError, from_json, to_json
from agent.events import (
    Event,
    Level,
    Notice,
    TurnFinished,
    TurnStarted,
)
from agent.model.base import ReasoningDelta, TextDelta, UsageDelta
from agent.redaction import RedactedStream, Redactor
from tools.definition import JsonObject
from tools.events import CallFinished, CallOutput
from tools.record import record
from tools.storage import AppendFile, StorageError

OUTPUT_CHARS = 16 * 1024
CHAT, BATCH, SERVED, LOOP = KINDS = "chat", "batch", "mcp", "loop"


@record
class SessionInfo:
    """The head of a journal. `created` is in seconds since 1970, `opta` the version, and
    `kind` is one of KINDS."""

    id: str
    cwd: str
    model: str
    created: float
    opta: str
    kind: str = CHAT


class SessionBusy(StorageError):
    """This session is being written already."""


class Journal:
    """Records the events of one session.

    The file is made with the first event that is more than a notice, so that looking around
    leaves no session behind.

    What cannot be written (a full disk) is told once; the session then goes on unrecorded.
    """

    def __init__(
        self,
        path: Path,
        info: SessionInfo,
        *,
        tell: Callable[[Notice], None],
        redact: Redactor | None = None,
        earlier: Recording | None = None,
        unwritable: StorageError | None = None,
    ) -> None:
        """Make a journal.

        `unwritable` says why there is no place for one: it is told with the first event.

        With `earlier`, what `path` already holds, recording goes on behind it; the file is then
        opened at once. Raises StorageError for that, and SessionBusy.
        """
        self.path = path
        self._info = info
        self._tell = tell
        self._redact = redact or Redactor()
        self._text = self._redact.stream()
        self._reasoning = self._redact.stream()
        self._outputs: dict[str, RedactedStream] = {}
        self._unwritable = unwritable
        self._file: AppendFile | None = None
        self._ended = False
        self._before: list[bytes] = []
        self._turns = earlier.turns if earlier else 0
        self._tokens = earlier.tokens if earlier else 0
        self._output_left: dict[str, int] = {}
        if earlier is not None:
            self._file = _open_alone(path, create=False)
            self._file.end_line()

    @property
    def recorded(self) -> bool:
        """True when there is something on disk to come back to."""
        return self._file is not None and self._turns > 0

    def record(self, event: Event) -> None:
        """Write one event; an event sink to be called before every other one. Never raises."""
        if self._ended:
            return
        line = self._line(event)
        if self._file is None and isinstance(event, Notice):
            self._before.append(line)
            return
        try:
            if self._file is None:
                self._file = self._begin()
            if line:
                self._file.write(line)
        except StorageError as error:
            self.close()
            kept = "; what was recorded until now is kept" if self._file else ""
            self._tell(
                Notice(f"{error} This session goes on without being recorded{kept}.", Level.WARNING)
            )

    def close(self) -> None:
        """Close the file, so that another opta may go on with the session."""
        if self._file is not None and not self._ended:
            self._file.close()
        self._ended = True

    def _begin(self) -> AppendFile:
        if self._unwritable is not None:
            raise self._unwritable
        file = _open_alone(self.path, create=True)
        try:
            file.write(_encode(self._redact.tree(_head(self._info))) + b"".join(self._before))
        except StorageError:
            file.close()
            raise
        return file

    def _line(self, event: Event) -> bytes:
        if isinstance(event, TextDelta):
            return _delta("text", self._text.feed(event.text))
        if isinstance(event, ReasoningDelta):
            return _delta("reasoning", self._reasoning.feed(event.text))
        if isinstance(event, CallOutput):
            stream = self._outputs.setdefault(event.call_id, self._redact.stream())
            return self._output(CallOutput(event.call_id, stream.feed(event.text)))
        return self._held_back(event) + self._whole_line(event)

    def _held_back(self, event: Event) -> bytes:
        """Return the ends of what came in pieces, which may have been beginnings of secrets."""
        held = _delta("text", self._text.finish())
        held += _delta("reasoning", self._reasoning.finish())
        if isinstance(event, CallFinished) and event.call.id in self._outputs:
            rest = self._outputs.pop(event.call.id).finish()
            held += self._output(CallOutput(event.call.id, rest))
        return held

    def _output(self, event: CallOutput) -> bytes:
        event = self._shortened(event)
        return self._whole_line(event) if event.text else b""

    def _whole_line(self, event: Event) -> bytes:
        value = to_json(event) | {"t": round(time.time(), 3)}
        return _encode(self._redact.tree(value | self._totals(event)))

    def _totals(self, event: Event) -> JsonObject:
        if isinstance(event, TurnStarted):
            self._turns += 1
        elif isinstance(event, UsageDelta):
            self._tokens += event.input + event.output
        elif isinstance(event, TurnFinished):
            return {"turns": self._turns, "tokens": self._tokens}
        return {}

    def _shortened(self, event: CallOutput) -> CallOutput:
        left = self._output_left.get(event.call_id, OUTPUT_CHARS)
        text = event.text[:left]
        self._output_left[event.call_id] = left - len(text)
        return CallOutput(event.call_id, text)


def _open_alone(path: Path, *, create: bool) -> AppendFile:
    file = AppendFile(path, create=create)
    if not file.lock():
        file.close()
        raise SessionBusy(
            f"The session {path.stem} is already open, here or in another opta. Go on with it "
            "there, close it there first, or start a new session."
        )
    return file


def _head(info: SessionInfo) -> JsonObject:
    return {
        "v": VERSION,
        "type": "session",
        "id": info.id,
        "cwd": info.cwd,
        "model": info.model,
        "created": info.created,
        "opta": info.opta,
        "kind": info.kind,
    }


def _encode(value: JsonObject) -> bytes:
    return json.dumps(value, separators=(",", ":"), default=repr).encode() + b"\n"


def _delta(kind: str, text: str) -> bytes:
    if not text:
        return b""
    # 20,000 of these in an answer: three times as fast as going through a dictionary.
    return f'{{"v":{VERSION},"type":"{kind}","text":{encode_basestring_ascii(text)}}}\n'.encode()


@record
class Entry:
    """One recorded event. `time` is in seconds since 1970, None where none was recorded."""

    event: Event
    time: float | None


@dataclass(slots=True)
class Recording:
    """What a journal holds. `damaged` are the numbers (from 1) of lines that were skipped."""

    info: SessionInfo | None = None
    entries: list[Entry] = field(default_factory=list)
    damaged: list[int] = field(default_factory=list)
    newer: int = 0

    @property
    def events(self) -> Iterator[Event]:
        """The events in their order."""
        return (entry.event for entry in self.entries)

    @property
    def turns(self) -> int:
        """How many messages of the person there are."""
        return sum(isinstance(event, TurnStarted) for event in self.events)

    @property
    def tokens(self) -> int:
        """What all requests used, in tokens of input and output."""
        return self.usage.total

    @property
    def usage(self) -> Usage:
        """What all requests used."""
        usage = Usage()
        for event in self.events:
            if isinstance(event, UsageDelta):
                usage.add(event)
        return usage

    def notice(self, path: Path) -> str:
        """Say what could not be read, or nothing."""
        parts = []
        if self.damaged:
            lines = "line" if len(self.damaged) == 1 else "lines"
            shown = ", ".join(map(str, self.damaged[:3])) + (", …" if self.damaged[3:] else "")
            parts.append(f"skipped {len(self.damaged)} damaged {lines} of {path} ({shown})")
        if self.newer:
            parts.append(f"skipped {self.newer} events of a newer opta in {path}")
        return "; ".join(parts)


def read_journal(path: Path) -> Recording:
    """Read a journal; damaged lines are skipped and counted. Raises StorageError."""
    try:
        data = path.read_bytes()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise StorageError(f"Cannot read the session {path}: {reason}.") from error
    return parse_journal(data)


def parse_journal(data: bytes) -> Recording:
    """Read the bytes of a journal. Never raises."""
    recording = Recording()
    for number, line in enumerate(data.split(b"\n"), start=1):
        if line.strip():
            _take_line(recording, number, line)
    return recording


def _take_line(recording: Recording, number: int, line: bytes) -> None:
    value = decode_line(line)
    if value is None:
        recording.damaged.append(number)
    elif value.get("type") == "session":
        recording.info = recording.info or read_head(value)
        if recording.info is None:
            recording.damaged.append(number)
    elif isinstance(value.get("v"), int) and value["v"] > VERSION:
        recording.newer += 1
    else:
        when = value.get("t")
        try:
            event = from_json(value)
        except EventJsonError:
            recording.damaged.append(number)
        else:
            recording.entries.append(Entry(event, when if isinstance(when, int | float) else None))


def decode_line(line: bytes) -> JsonObject | None:
    """Return the object on a line, or None where the line is damaged."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def read_head(value: JsonObject) -> SessionInfo | None:
    """Return the head that an object stands for, or None."""
    texts = [value.get(key) for key in ("id", "cwd", "model", "opta")]
    created = value.get("created")
    if not all(isinstance(text, str) for text in texts) or not isinstance(created, int | float):
        return None
    identity, cwd, model, opta = map(str, texts)
    kind = str(value.get("kind"))
    return SessionInfo(identity, cwd, model, created, opta, kind if kind in KINDS else CHAT)
