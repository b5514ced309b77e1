"""What opta keeps of a team: its last good answer, and the tool files that the person accepted.

Both lie below the state directory. The files are what counts: several opta at once, and one that
is started without a network, find there what another one has fetched or accepted.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar

from tools import storage
from tools.record import record
from tools.sources.team.answer import TeamAnswer, TeamError, TeamFile, parse_answer
from tools.sources.team.config import TeamConfig

ValueT = TypeVar("ValueT")
_NOTHING: Mapping[str, str] = {}


@record
class LastAnswer:
    """An answer, the tag it came with, and when it was last known to be current (epoch, s)."""

    answer: TeamAnswer
    etag: str
    checked_at: float


class TeamStore:
    """The files of one team source. Each is read again only when it has changed."""

    def __init__(self, config: TeamConfig) -> None:
        self._org = config.name
        directory = storage.state_dir() / "team" / config.identity
        self._answer = _Watched(directory / "answer.json", self._read_answer)
        self._accepted = _Watched(directory / "accepted.json", _read_accepted)

    def last(self) -> LastAnswer | None:
        """Return the last good answer; None when there is none, or what is there is damaged.

        Raises StorageError.
        """
        return self._answer.value()

    def accepted(self) -> Mapping[str, str]:
        """Return the texts of the files that were accepted, by name. Raises StorageError."""
        return self._accepted.value() or _NOTHING

    def keep(self, answer: TeamAnswer, etag: str) -> None:
        """Keep a good answer for later. Raises StorageError."""
        record = {
            "etag": etag, "checked_at": time.time(), "answer": answer.to_bytes().decode(),
        }  # fmt: skip
        storage.write_private(self._answer.path, json.dumps(record).encode())

    def accept(self, files: Iterable[TeamFile], shared: TeamAnswer) -> None:
        """Use exactly these files from now on, and forget what is no longer `shared`.

        Raises StorageError.
        """
        names = {file.path for file in shared.files}
        kept = {path: text for path, text in self.accepted().items() if path in names}
        record = {"files": kept | {file.path: file.text for file in files}}
        storage.write_private(self._accepted.path, json.dumps(record).encode())

    def _read_answer(self, record: Any) -> LastAnswer:
        answer = parse_answer(record["answer"].encode(), self._org)
        return LastAnswer(answer, str(record["etag"]), float(record["checked_at"]))


def _read_accepted(record: Any) -> Mapping[str, str]:
    return {str(path): str(text) for path, text in dict(record["files"]).items()}


class _Watched(Generic[ValueT]):
    """A JSON file of opta's own. What is damaged counts as not there: nothing is trusted by it."""

    def __init__(self, path: Path, read: Callable[[Any], ValueT]) -> None:
        self.path = path
        self._read = read
        self._seen: tuple[int, ...] | None = None
        self._value: ValueT | None = None

    def value(self) -> ValueT | None:
        """Return what the file says now. Raises StorageError."""
        seen = _signature(self.path)
        if seen != self._seen or not seen:
            data = storage.read_private(self.path) if seen else None
            self._value = None if data is None else self._parsed(data)
            self._seen = seen
        return self._value

    def _parsed(self, data: bytes) -> ValueT | None:
        try:
            return self._read(json.loads(data))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, TeamError):
            return None


def _signature(path: Path) -> tuple[int, ...]:
    try:
        found = os.stat(path, follow_symlinks=False)  # noqa: PTH116 - at every message
    except OSError:
        return ()
    return (found.st_mtime_ns, found.st_size, found.st_ino)
