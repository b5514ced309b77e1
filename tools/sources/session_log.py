"""The record of a task session: append-only JSON Lines, and the tasks that it adds up to.

A session has a directory `<store>/<name>/` with `log.jsonl` in it. Every line is a frame:
`{"id", "topic", "t", "meta"}`, `t` in seconds since 1970, and a `body` where there is one. Topics
are `ralph.<name>.task` (003), `ralph.<name>.control` and `ralph.<name>.iteration`. A frame is one
write(2): a kill leaves it there whole or not at all, and two programs may add to one log.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from tools import storage
from tools.definition import JsonObject
from tools.record import record, with_texts

LOG_FILE = "log.jsonl"
MIN_PREFIX = 8
"""The shortest beginning of a task id that stands for it, in characters (X78)."""

NO_TASKS = "No tasks yet"
_ALPHABET = "abcdefghijkmnpqrstuvwxyz23456789"
_ID_CHARS = 12
SESSION_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}")
_SHOWN_CANDIDATES = 5


class SessionLogError(Exception):
    """A session's record cannot be used. The message says which, why and what to do."""


class TaskError(Exception):
    """No task, or more than one, goes by what was asked for. Nothing was stored."""


class TaskStatus(StrEnum):
    """What can be said of a task, in the order of the groups of a list (X77)."""

    IN_PROGRESS = "in_progress"
    BLOCKED = "blocked"
    REMAINING = "remaining"
    COMPLETED = "completed"


@record
class Task:
    """A task as it is now. `content` is exactly what was added."""

    id: str
    content: str
    status: TaskStatus


@record
class Frame:
    """One record. `time` is in seconds since 1970."""

    id: str
    topic: str
    time: float
    meta: JsonObject
    body: str = ""

    @property
    def kind(self) -> str:
        """The last part of the topic: `task`, `control` or `iteration`."""
        return self.topic.rpartition(".")[2]


@dataclass(slots=True)
class _State:
    """What the frames read so far add up to."""

    frames: list[Frame] = field(default_factory=list)
    tasks: dict[str, Task] = field(default_factory=dict)
    damaged: list[int] = field(default_factory=list)
    offset: int = 0
    lines: int = 0


class SessionLog:
    """The log of one session. What others append shows after `refresh`.

    `hide` takes secrets out of what is recorded (R39): the log may lie in the project.
    """

    def __init__(
        self, store: Path, name: str, *, create: bool = True, below: Path | None = None
    ) -> None:
        """Open the log of session `name` in the directory `store`, made where `create` says so.

        No link is followed after `below`, by default the parent of `store`. Raises
        SessionLogError.
        """
        self.store = Path(os.path.abspath(store))  # noqa: PTH100 - Path.absolute keeps `..`
        self.name = check_name(name)
        self.path = self.store / name / LOG_FILE
        if not create and not self.path.exists():
            raise SessionLogError(
                f"There is no session {name} in {self.store}. `opta loop status` lists them."
            )
        try:
            if create:
                storage.private_dir(self.path.parent, below or self.store.parent)
            self._file = storage.AppendFile(self.path, create=create)
        except storage.StorageError as error:
            raise SessionLogError(str(error)) from error
        self._state = _State()
        self.hide: Callable[[str], str] = str
        self.refresh()

    def close(self) -> None:
        """Close the file and give up its lock."""
        self._file.close()

    def lock(self) -> bool:
        """Take the session for this process; False when another one runs it."""
        return self._file.lock()

    @property
    def frames(self) -> tuple[Frame, ...]:
        """All records, the oldest first."""
        return tuple(self._state.frames)

    @property
    def tasks(self) -> tuple[Task, ...]:
        """The tasks as they are now, in the order they were added."""
        return tuple(self._state.tasks.values())

    @property
    def damaged(self) -> str:
        """Say which lines could not be read, or nothing."""
        lines = self._state.damaged
        if not lines:
            return ""
        shown = ", ".join(map(str, lines[:3])) + (", …" if lines[3:] else "")
        return f"skipped {len(lines)} damaged line{'s' * (len(lines) > 1)} of {self.path} ({shown})"

    def append(self, kind: str, meta: JsonObject, body: str = "") -> Frame:
        """Record a frame of this `kind` and return it. Raises SessionLogError."""
        meta, body = with_texts(meta, self.hide), self.hide(body)
        frame = Frame(_new_id(), f"ralph.{self.name}.{kind}", round(time.time(), 3), meta, body)
        value = {"id": frame.id, "topic": frame.topic, "t": frame.time, "meta": meta}
        if body:
            value["body"] = body
        line = json.dumps(value, separators=(",", ":")).encode() + b"\n"
        self.end_line()
        try:
            self._file.write(line)
        except storage.StorageError as error:
            raise SessionLogError(str(error)) from error
        self.refresh()
        return frame

    def end_line(self) -> None:
        """End a line in the middle of which another program was killed: it counts as damaged.

        Raises SessionLogError.
        """
        try:
            self._file.end_line()
        except storage.StorageError as error:
            raise SessionLogError(str(error)) from error
        self.refresh()

    def refresh(self) -> None:
        """Take up what was appended since the last time. Raises SessionLogError."""
        try:
            data = self._file.read_from(self._state.offset)
        except storage.StorageError as error:
            raise SessionLogError(str(error)) from error
        whole = data[: data.rfind(b"\n") + 1]
        self._state.offset += len(whole)
        for line in whole.splitlines():
            self._state.lines += 1
            if line.strip() and not self._take(line):
                self._state.damaged.append(self._state.lines)

    def find_task(self, asked: str) -> Task:
        """Return the task with this id, or the only one whose id begins so. Raises TaskError."""
        exact = self._state.tasks.get(asked)
        if exact is not None:
            return exact
        if len(asked) < MIN_PREFIX:
            raise TaskError(
                f"{asked!r} is too short: give the id of a task, or at least its first "
                f"{MIN_PREFIX} characters. Nothing was changed.{self._listed()}"
            )
        found = [task for task in self.tasks if task.id.startswith(asked)]
        if not found:
            raise TaskError(f"There is no task {asked!r}. Nothing was changed.{self._listed()}")
        if len(found) > 1:
            ids = ", ".join(task.id for task in found[:_SHOWN_CANDIDATES])
            raise TaskError(
                f"{len(found)} tasks begin with {asked!r}: {ids}. Give more of the id. "
                "Nothing was changed."
            )
        return found[0]

    def _listed(self) -> str:
        ids = [task.id for task in self.tasks if task.status is not TaskStatus.COMPLETED]
        if not ids:
            return ""
        more = ", …" if len(ids) > _SHOWN_CANDIDATES else ""
        return f" Open tasks: {', '.join(ids[:_SHOWN_CANDIDATES])}{more}."

    def _take(self, line: bytes) -> bool:
        """Add one line to the state; False where it is no frame of this session."""
        frame = _frame(line)
        if frame is None or not frame.topic.startswith(f"ralph.{self.name}."):
            return False
        if frame.kind == "task" and not self._take_task(frame):
            return False
        self._state.frames.append(frame)
        return True

    def _take_task(self, frame: Frame) -> bool:
        tasks = self._state.tasks
        match frame.meta:
            case {"action": "add", "status": status} if status in list(TaskStatus):
                tasks.setdefault(frame.id, Task(frame.id, frame.body, TaskStatus(status)))
            case {"action": "status", "id": str(id_), "status": status} if (
                status in list(TaskStatus) and id_ in tasks
            ):
                tasks[id_] = replace(tasks[id_], status=TaskStatus(status))
            case _:
                return False
        return True


def check_name(name: str) -> str:
    """Return a session name that is safe as a directory and in a topic (X80).

    Raises SessionLogError.
    """
    if not SESSION_NAME.fullmatch(name):
        raise SessionLogError(
            f"{name!r} cannot be the name of a session: use letters, digits, '.', '_' and '-', at "
            "most 64 and no '.' or '-' in front."
        )
    return name


def task_state(tasks: Iterable[Task]) -> str:
    """Return the tasks grouped by status, with their ids: for the model and for people (D47)."""
    tasks = tuple(tasks)
    groups = []
    for status in TaskStatus:
        lines = [_task_line(task) for task in tasks if task.status is status]
        if lines:
            groups.append("\n".join([status.value.replace("_", " ").upper(), *lines]))
    return "\n\n".join(groups) or NO_TASKS


def _task_line(task: Task) -> str:
    # Further lines of a task are indented, so that none of them looks like another task.
    content = "\n  ".join(task.content.splitlines())
    return f"- [{task.id}] {content}"


def _new_id() -> str:
    return "".join(secrets.choice(_ALPHABET) for _ in range(_ID_CHARS))


def _frame(line: bytes) -> Frame | None:
    try:
        value: Any = json.loads(line)
    except (ValueError, RecursionError):
        return None
    match value:
        case {
            "id": str(id_), "topic": str(topic), "t": int() | float() as time_, "meta": dict(meta)
        }:  # fmt: skip
            body = value.get("body", "")
            return Frame(id_, topic, time_, meta, body) if isinstance(body, str) else None
        case _:
            return None
