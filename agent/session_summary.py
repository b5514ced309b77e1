"""What a list says of a session, from the ends of its record."""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from agent.journal import BATCH, CHAT, LOOP, SERVED, decode_line, read_head
from tools.definition import JsonObject
from tools.engine.output import one_line, sanitize
from tools.record import record

TITLE_CHARS = 80
_HEAD_BYTES = 32 * 1024
_TAIL_BYTES = 64 * 1024
_ANSWERS = ("text", "assistant")
_ITERATION = re.compile(r"## Context\n- Spec: (.+)\n- Iteration: (#\d+)\n")
"""How the prompt of an iteration begins: which spec and which iteration tell them apart."""
_MARKS = {BATCH: "-p: ", SERVED: "mcp: ", LOOP: "loop: "}


@record
class SessionSummary:
    """A session in a list. Times are in seconds since 1970.

    `title` is the first message, `last` the newest; `kind` is one of `journal.KINDS`; `answered`:
    the model said something at least once.
    """

    id: str
    path: Path
    cwd: str
    model: str
    title: str
    created: float
    updated: float
    turns: int
    tokens: int
    last: str = ""
    kind: str = CHAT
    answered: bool = True


def labels(listed: Sequence[SessionSummary]) -> list[str]:
    """Return what to call each session of a list: its title, with a mark where it is no chat.

    Where titles repeat, the last message tells the sessions apart.
    """
    titles = Counter(summary.title for summary in listed)
    return [
        _MARKS.get(summary.kind, "")
        + summary.title
        + (
            f" … {summary.last}"
            if titles[summary.title] > 1 and summary.last != summary.title
            else ""
        )
        for summary in listed
    ]


def local_time(seconds: float) -> str:
    """Return a time (seconds since 1970) for people, to the minute."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))


def summary_of(path: Path, updated: float) -> SessionSummary | None:
    """Return what a list says of the session in a file; None where the person said nothing in it.

    `updated` is when it was written last. Only the ends of a large file are read.
    """
    try:
        start, end = _ends(path)
    except OSError:
        return None
    info = next((info for item in start[:1] if (info := read_head(item))), None)
    turn = _first_turn(start)
    if info is None or turn is None:
        return None
    turns, tokens = _totals(end)
    title = _title(str(turn.get("text", "")), info.kind)
    last = next((item for item in reversed(end) if item.get("type") == "turn"), turn)
    answered = tokens > 0 or any(item.get("type") in _ANSWERS for item in (*start, *end))
    return SessionSummary(
        path.stem, path, info.cwd, info.model, title, info.created, updated, turns, tokens,
        _title(str(last.get("text", "")), info.kind), info.kind, answered,
    )  # fmt: skip


def _ends(path: Path) -> tuple[list[JsonObject], list[JsonObject]]:
    """Return the first and last lines of a journal, or all of them where these do not do."""
    with path.open("rb") as file:
        start = _objects(file.read(_HEAD_BYTES))
        size = os.fstat(file.fileno()).st_size
        file.seek(max(0, size - _TAIL_BYTES))
        end = _objects(file.read())
        if size > _TAIL_BYTES and not (_first_turn(start) and _has_end(end)):
            file.seek(0)
            start = end = _objects(file.read())
    return start, end


def _first_turn(items: list[JsonObject]) -> JsonObject | None:
    return next((item for item in items if item.get("type") == "turn"), None)


def _objects(data: bytes) -> list[JsonObject]:
    """Return the whole lines in a piece of a journal; its first and last may be cut."""
    return [value for line in data.split(b"\n") if (value := decode_line(line)) is not None]


def _has_end(items: list[JsonObject]) -> bool:
    return any(item.get("type") == "end" for item in items)


def _totals(items: list[JsonObject]) -> tuple[int, int]:
    """Return turns and tokens: the last totals on an `end` line, and what came after it."""
    turns = tokens = 0
    for item in items:
        match item:
            case {"type": "end", "turns": int(turns), "tokens": int(tokens)}:
                pass
            case {"type": "turn"}:
                turns += 1
            case {"type": "usage", "input": int(given), "output": int(made)}:
                tokens += given + made
    return turns, tokens


def _title(text: str, kind: str) -> str:
    found = _ITERATION.match(text) if kind == LOOP else None
    if found:
        text = f"{found[1]} {found[2]}"
    return one_line(sanitize(text[: 10 * TITLE_CHARS]), TITLE_CHARS)
