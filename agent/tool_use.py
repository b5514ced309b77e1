"""Reads from the journals of the last sessions which tools were sent and called.

What one journal says is remembered in a file and read again only when the journal has grown.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TypeGuard

from agent import session
from agent.errors import UserError
from agent.journal import SERVED, decode_line
from agent.messages import BY_PERSON
from tools import storage
from tools.commands.usage import ToolUse
from tools.definition import JsonObject, outer_id

SESSIONS = 100
"""How many sessions are looked at, the newest first."""

MAX_REMEMBERED = 1000
_VERSION = 2
"""Of what is remembered: other versions counted something else."""

_KINDS = ("session", "tools", "request", "proposed")
_TOLD = tuple(f'{{"v":1,"type":"{kind}"'.encode() for kind in _KINDS)
"""How the lines begin that count. Most lines of a journal are pieces of answers."""


def tool_use(cwd: Path) -> ToolUse:
    """Return what the sessions of a directory say. What cannot be read counts nothing."""
    try:
        return _added_up(session.recent(cwd, SESSIONS))
    except UserError:
        return ToolUse()


def recent_calls(cwd: Path) -> Counter[str]:
    """Return how often tools were called: here, or anywhere where there was no call here."""
    here = _all_calls(tool_use(cwd))
    with suppress(UserError):
        return here or _all_calls(_added_up(session.recent(None, SESSIONS)))
    return here


def _all_calls(use: ToolUse) -> Counter[str]:
    return Counter(use.calls) + Counter(use.by_clients)


def _added_up(journals: list[Path]) -> ToolUse:
    sessions = requests = 0
    calls, by_clients, sent = Counter[str](), Counter[str](), Counter[str]()
    for counts in _counts(journals):
        calls.update(counts["calls"])
        by_clients.update(counts["by_clients"])
        if counts["sent"]:
            sessions += 1
            requests += counts["requests"]
            sent.update(counts["sent"])
    return ToolUse(sessions, requests, calls, sent, by_clients)


def _counts(journals: list[Path]) -> Iterator[JsonObject]:
    known = _remembered()
    new = False
    for path in journals:
        try:
            found = path.stat()
        except OSError:
            continue
        state = [found.st_size, found.st_mtime_ns]
        counts = known.pop(path.stem, None)
        if counts is None or counts["state"] != state:
            counts, new = {"state": state, **_count(path)}, True
        known[path.stem] = counts
        yield counts
    if new:
        newest = dict(list(known.items())[-MAX_REMEMBERED:])
        text = json.dumps({"v": _VERSION, "sessions": newest}, separators=(",", ":"))
        with suppress(storage.StorageError):
            storage.write_private(_file(), text.encode())


def _count(path: Path) -> JsonObject:
    """Count in one journal. Lines that are damaged are passed over."""
    requests = 0
    current: tuple[str, ...] = ()
    calls, sent = Counter[str](), Counter[str]()
    ids = set[str]()
    served = False
    with suppress(OSError), path.open("rb") as file:
        for line in file:
            value = decode_line(line) if line.startswith(_TOLD) else None
            match value:
                case {"type": "session", "kind": kind}:
                    served = kind == SERVED
                case {"type": "tools", "names": [*names]}:
                    current = tuple(map(str, names))
                case {"type": "request"} if current:
                    requests += 1
                    sent.update(current)
                case {"type": "proposed", "call": {"id": str(id_), "name": str(name)}}:
                    ids.add(id_)
                    calls[name] += not (id_.startswith(BY_PERSON) or outer_id(id_) in ids)
    by_model, by_clients = ({}, +calls) if served else (+calls, {})
    return {"requests": requests, "calls": by_model, "by_clients": by_clients, "sent": sent}


def _remembered() -> dict[str, JsonObject]:
    # A file that cannot be read costs time, nothing else.
    with suppress(storage.StorageError, ValueError):
        match json.loads(storage.read_private(_file()) or b"{}"):
            case {"v": version, "sessions": {**sessions}} if version == _VERSION:
                return {str(name): found for name, found in sessions.items() if _is_whole(found)}
    return {}


def _is_whole(counts: object) -> TypeGuard[JsonObject]:
    match counts:
        case {
            "state": [int(), int()], "requests": int(),
            "calls": {**calls}, "by_clients": {**by_clients}, "sent": {**sent},
        }:  # fmt: skip
            numbers = (*calls.values(), *by_clients.values(), *sent.values())
            return all(isinstance(number, int) for number in numbers)
    return False


def _file() -> Path:
    return storage.state_dir() / "tool-use.json"
