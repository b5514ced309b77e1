"""`file_operations`: the documented tool of six operations; off by default (X14)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import prompts
from tools.builtin.change import MAX_BYTES, Change, Target, changing, free_name
from tools.builtin.kit import Builtin, Services, define, file_key
from tools.builtin.write_file import whole
from tools.definition import (
    EffectKind,
    Invocation,
    Progress,
    ResolvedCall,
    Risk,
    TextDisplay,
    ToolError,
    ToolResult,
)
from tools.engine.output import sanitize
from tools.files.paths import shown_name
from tools.files.textfile import NotText, decode
from tools.files.workspace import FileProblem, Workspace
from tools.permissions.grant import Grant

OPERATIONS = ("read", "write", "edit", "list", "delete", "exists")
MAX_CHARS = 50_000
_LISTED = 1000


def tool() -> Builtin:
    """Return the built-in."""
    definition = define(
        "file_operations",
        prompts.load("tools/file_operations"),
        {
            "operation": {"type": "string", "enum": list(OPERATIONS)},
            "path": {"type": "string", "description": "File or directory path"},
            "content": {"type": "string", "description": "Content to write (for write/edit)"},
            "pattern": {"type": "string", "description": "Search pattern for edit operation"},
            "replacement": {"type": "string", "description": "Replacement text for edit"},
            "backup": {
                "type": "boolean",
                "default": True,
                "description": "Create backup before changes",
            },
        },
        ["operation", "path"],
        risk=Risk.MEDIUM,
        enabled=False,
        declared_token_cost=320,
        metadata={"tags": ["read", "write"]},
    )
    return Builtin(definition, prepare, {"file_path": "path", "filePath": "path"})


def prepare(call: ResolvedCall, services: Services) -> Invocation:
    """Say what the operation does. Raises ToolError, FileProblem."""
    operation = call.arguments["operation"]
    backup = call.arguments.get("backup", True)
    match operation:
        case "read" | "list" | "exists":
            return _looking(call, services, _LOOK[operation])
        case "write":
            content = _needed(call, "content")
            return changing(
                call, services, "Write", lambda target: whole(target, content),
                overwrite=not backup, backup=backup,
            )  # fmt: skip
        case "edit":
            old = _needed(call, "pattern")
            new = str(call.arguments.get("replacement", call.arguments.get("content", "")))
            return changing(
                call, services, "Edit", lambda target: _replaced(target, old, new), backup=backup
            )
        case "delete":
            return _deleting(call, services, backup=backup)
    raise ToolError("Unknown operation")


def _needed(call: ResolvedCall, name: str) -> str:
    if name not in call.arguments:
        raise ToolError(f"The operation {call.arguments['operation']} needs {name}.")
    return str(call.arguments[name])


def _looking(
    call: ResolvedCall, services: Services, look: Callable[[Workspace, Path, str], str]
) -> Invocation:
    workspace, asked = services.workspace, call.arguments["path"]
    path = workspace.resolve(asked)
    named = shown_name(asked)
    title = f"{call.arguments['operation'].capitalize()} {workspace.shown(path)}"

    async def run(grant: Grant, progress: Progress) -> ToolResult:
        grant.check(call)
        return ToolResult(await asyncio.to_thread(look, workspace, path, named))

    return Invocation(
        title=title,
        effects=(workspace.effect(EffectKind.READ, path, call.tool.name, asked),),
        preview=TextDisplay(title),
        run=run,
        exclusive=file_key(path),
    )


def _read(workspace: Workspace, path: Path, named: str) -> str:
    try:
        text = sanitize(decode(workspace.read(path, MAX_BYTES))[0])
    except (FileProblem, NotText) as error:
        raise ToolError(f"Failed to read {named}: {error}") from None
    if len(text) > MAX_CHARS:
        left = len(text) - MAX_CHARS
        text = f"{text[:MAX_CHARS]}\n[{left:,} characters left out: read the rest with read_file]"
    return f"Content of {named}:\n\n{text}"


def _list(workspace: Workspace, path: Path, named: str) -> str:
    try:
        with os.scandir(path) as entries:
            names = sorted(
                f"{shown_name(entry.name)}{'/' * entry.is_dir(follow_symlinks=False)}"
                for entry in entries
            )
    except OSError as error:
        raise ToolError(f"Failed to list {named}: {error.strerror}") from None
    more = f"\n[{len(names) - _LISTED:,} more]" if len(names) > _LISTED else ""
    body = "\n".join(names[:_LISTED]) + more
    return f"Contents of {named}:\n\n{body}" if names else f"{named} is empty"


def _exists(workspace: Workspace, path: Path, named: str) -> str:
    if not os.path.lexists(path):
        return f"{named} does not exist"
    return f"{named} exists ({'directory' if path.is_dir() else 'file'})"


_LOOK: dict[str, Callable[[Workspace, Path, str], str]] = {
    "read": _read, "list": _list, "exists": _exists,
}  # fmt: skip


def _replaced(target: Target, old: str, new: str) -> Change:
    if target.data is None:
        raise ToolError(f"There is no file {target.shown}. Nothing was changed.")
    try:
        text, encoding = decode(target.data)
        count = text.count(old) if old else 0
        if not count:
            raise ToolError(f"The pattern does not stand in {target.shown}. Nothing was changed.")
        after = text.replace(old, new)
        data = encoding.encode(after)
    except (NotText, UnicodeEncodeError) as error:
        raise ToolError(f"{target.shown} cannot be edited: {error}.") from None
    summary = f"Edited {target.shown} ({count} place{'s' * (count != 1)})."
    return Change(after, data, summary, how=str(count))


def _deleting(call: ResolvedCall, services: Services, *, backup: bool) -> Invocation:
    workspace, asked = services.workspace, call.arguments["path"]
    path = workspace.resolve(asked)
    shown = workspace.shown(path)
    copy = free_name(path) if backup and path.is_file() else None
    effects = [workspace.effect(EffectKind.WRITE, path, call.tool.name, asked)]
    if copy is not None:
        effects.append(workspace.effect(EffectKind.WRITE, copy, call.tool.name))

    def delete(grant: Grant) -> ToolResult:
        grant.check(call)
        said = f"Deleted {shown}."
        if copy is not None:
            workspace.write(grant, call, copy, workspace.peek(path, MAX_BYTES)[0])
            said += f"\nBackup: {workspace.shown(copy)}"
        workspace.delete(grant, call, path)
        return ToolResult(said)

    async def run(grant: Grant, progress: Progress) -> ToolResult:
        return await asyncio.to_thread(delete, grant)

    return Invocation(
        title=f"Delete {shown}",
        effects=tuple(effects),
        preview=TextDisplay(f"Delete {shown}" + (f", kept as {copy.name}" if copy else "")),
        run=run,
        exclusive=file_key(path),
        dependent=True,
    )
