"""The four tools of a task session (003): native ones, whose effects are frames in its log."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import prompts
from tools.actions import BuiltinAction
from tools.builtin.kit import Builtin, Services
from tools.definition import (
    Invocation,
    Origin,
    Progress,
    ResolvedCall,
    Risk,
    Source,
    TextDisplay,
    ToolDefinition,
    ToolError,
    ToolResult,
)
from tools.engine.output import one_line
from tools.permissions.grant import Grant
from tools.record import record
from tools.sources.session_log import (
    SessionLog,
    SessionLogError,
    TaskError,
    task_state,
)

MAX_CONTENT_CHARS = 8_000
"""Every task is in every prompt of the loop: one this long belongs in a file."""

_TITLE_CHARS = 60
_ORDER = frozenset({"session-log"})
"""Calls of one message are recorded in their order."""

_ADD_STATUS = ["remaining", "blocked"]
_NEW_STATUS = ["in_progress", "completed", "blocked"]

_PARAMETERS: Mapping[str, Mapping[str, Any]] = {
    "task_add": {
        "content": {"type": "string", "description": "Task description"},
        "status": {
            "type": "string", "enum": _ADD_STATUS, "default": "remaining",
            "description": "Initial status",
        },
    },
    "task_status": {
        "id": {"type": "string", "description": "Task ID (full or 8+ char prefix)"},
        "status": {"type": "string", "enum": _NEW_STATUS, "description": "New status"},
    },
    "task_list": {},
    "session_complete": {},
}  # fmt: skip
_REQUIRED = {"task_add": ["content"], "task_status": ["id", "status"]}

_Act: TypeAlias = Callable[[Mapping[str, Any]], str]


@record
class SessionContext:
    """What the tools of a session know of it.

    `store_path` is absolute; `iteration` counts from 1; `parent_pid` is the process that runs the
    loop.
    """

    store_path: Path
    session_name: str
    iteration: int
    parent_pid: int


def definitions() -> tuple[ToolDefinition, ...]:
    """Return the four tools as the model sees them, sorted by name."""
    return tuple(
        ToolDefinition(
            name=name,
            description=prompts.load(f"tools/{name}"),
            parameters={
                "type": "object", "properties": properties, "required": _REQUIRED.get(name, []),
            },
            action=BuiltinAction(name),
            origin=Origin(Source.SESSION, format="session"),
            risk=Risk.LOW,
            parallel=True,
        )
        for name, properties in sorted(_PARAMETERS.items())
    )  # fmt: skip


class SessionTools:
    """The tools of one session; `context` is what they are bound to at the moment."""

    def __init__(self, log: SessionLog, context: SessionContext) -> None:
        self.log = log
        self.context = context
        self._acts: dict[str, _Act] = {
            "task_add": self._add,
            "task_status": self._status,
            "task_list": self._list,
            "session_complete": self._complete,
        }

    def begin(self, iteration: int) -> None:
        """Bind the tools to an iteration."""
        self.context = replace(self.context, iteration=iteration)

    def builtins(self) -> tuple[Builtin, ...]:
        """Return them for the executor."""
        return tuple(Builtin(tool, self._prepare, {}) for tool in definitions())

    def _prepare(self, call: ResolvedCall, services: Services) -> Invocation:
        act = self._acts[call.tool.name]

        async def run(grant: Grant, progress: Progress) -> ToolResult:
            grant.check(call)
            try:
                self.log.refresh()
                return ToolResult(act(call.arguments))
            except (SessionLogError, TaskError) as error:
                raise ToolError(str(error)) from error

        title = _title(call)
        return Invocation(title, (), TextDisplay(title), run, exclusive=_ORDER)

    def _add(self, arguments: Mapping[str, Any]) -> str:
        content = arguments["content"]
        if not content.strip():
            raise ToolError("The task has no content. Nothing was added.")
        if len(content) > MAX_CONTENT_CHARS:
            raise ToolError(
                f"The task has {len(content):,} characters, at most {MAX_CONTENT_CHARS:,} are "
                "taken. Put the details into a file and name it. Nothing was added."
            )
        meta = {"action": "add", "status": arguments.get("status", "remaining")}
        return self.log.append("task", self._meta(meta), content).id

    def _status(self, arguments: Mapping[str, Any]) -> str:
        task, status = self.log.find_task(arguments["id"]), arguments["status"]
        self.log.append("task", self._meta({"action": "status", "id": task.id, "status": status}))
        return f"Task {task.id} marked as {status}"

    def _list(self, arguments: Mapping[str, Any]) -> str:
        return task_state(self.log.tasks)

    def _complete(self, arguments: Mapping[str, Any]) -> str:
        meta = {"action": "session_complete", "parent_pid": self.context.parent_pid}
        self.log.append("control", self._meta(meta))
        return "Session terminated"

    def _meta(self, meta: dict[str, Any]) -> dict[str, Any]:
        return {**meta, "iteration": self.context.iteration}


def _title(call: ResolvedCall) -> str:
    return one_line(" ".join([call.tool.name, *map(str, call.arguments.values())]), _TITLE_CHARS)
