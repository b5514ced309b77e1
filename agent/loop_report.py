"""`opta loop status` and `opta loop log`: what a session has come to."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any, TextIO

from agent.errors import DONE
from agent.project import project_root
from agent.spec_loop import task_counts
from agent.streams import write_json
from agent.ui.loop_view import counted
from tools.definition import JsonObject
from tools.engine.output import one_line, sanitize
from tools.sources.session_log import Frame, SessionLog, task_state
from tools.sources.session_store import open_session, session_names, store_path

_TASK_CHARS = 100


def write_status(arguments: argparse.Namespace, out: TextIO) -> int:
    """Write the state of one session, or a line for each. Raises UserError, SessionLogError."""
    root = project_root(arguments.directory)
    names = [arguments.name] if arguments.name else session_names(arguments.store, root)
    found = [_described(arguments.store, root, name) for name in names]
    if arguments.format == "json":
        write_json(out, found)
    elif not found:
        place = sanitize(str(store_path(arguments.store, root)))
        out.write(f"There are no sessions in {place}. Begin one: opta loop SPEC.md\n")
    for session in found if arguments.format == "text" else ():
        out.write(f"{sanitize(_line(session))}\n")
        if arguments.name:
            out.write(f"\n{sanitize(session['state'])}\n")
    return DONE


def write_log(arguments: argparse.Namespace, out: TextIO) -> int:
    """Write every record of a session. Raises UserError, SessionLogError."""
    log = open_session(
        arguments.store, project_root(arguments.directory), arguments.name, create=False
    )
    try:
        if arguments.format == "json":
            write_json(out, [_frame_json(frame) for frame in log.frames])
            return DONE
        for frame in log.frames:
            out.write(f"{sanitize(_frame_line(frame))}\n")
        if log.damaged:
            out.write(f"{sanitize(log.damaged)}\n")
    finally:
        log.close()
    return DONE


def _described(store: str | None, root: Path, name: str) -> dict[str, Any]:
    log = open_session(store, root, name, create=False)
    try:
        return {
            "session": name,
            "run": _run_state(log),
            "iteration": _iteration(log.frames),
            "counts": task_counts(log),
            "tasks": [
                {"id": task.id, "status": task.status.value, "content": task.content}
                for task in log.tasks
            ],
            "state": task_state(log.tasks),
            "log": str(log.path),
            "updated": log.frames[-1].time if log.frames else None,
            "damaged": log.damaged,
        }
    finally:
        log.close()


def _run_state(log: SessionLog) -> str:
    """Return `running`, `complete`, or `stopped`."""
    if not log.lock():
        return "running"
    for frame in reversed(log.frames):
        if frame.kind == "control":
            return "complete"
        if frame.kind == "iteration" and frame.meta.get("action") == "start":
            break
    return "stopped"


def _iteration(frames: tuple[Frame, ...]) -> int:
    numbers = (frame.meta.get("iteration", 0) for frame in reversed(frames))
    return next((number for number in numbers if isinstance(number, int)), 0)


def _line(session: dict[str, Any]) -> str:
    parts = [
        f"{session['session']}: {session['run']}",
        f"iteration {session['iteration']}",
        counted(session["counts"]),
    ]
    if session["updated"]:
        parts.append(_when(session["updated"]))
    return " · ".join(filter(None, [*parts, session["damaged"]]))


def _frame_line(frame: Frame) -> str:
    meta = dict(frame.meta)
    action = meta.pop("action", "")
    told = " ".join(f"{key}={value}" for key, value in meta.items() if value != "")
    content = one_line(frame.body, _TASK_CHARS)
    id_ = f"[{frame.id}] " if action == "add" else ""
    return " ".join(filter(None, [_when(frame.time), frame.kind, f"{action} {id_}{told}", content]))


def _frame_json(frame: Frame) -> JsonObject:
    return {
        "id": frame.id, "topic": frame.topic, "t": frame.time, "meta": frame.meta,
        "body": frame.body,
    }  # fmt: skip


def _when(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))
