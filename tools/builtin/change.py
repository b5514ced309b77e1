"""One change of one file: worked out for the question, and made only on what was shown there.

What a person approved is a diff of the file as it was then. At the run the file must be the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from tools.builtin.kit import Services, failing, file_key
from tools.builtin.syntax import new_error
from tools.definition import (
    DiffDisplay,
    Effect,
    EffectKind,
    Invocation,
    Progress,
    ResolvedCall,
    ToolError,
    ToolResult,
)
from tools.engine.output import sanitize
from tools.files.diffs import unified_diff
from tools.files.textfile import NotText, decode
from tools.files.workspace import FileMissing, FileProblem, FileState, Workspace
from tools.permissions.grant import Grant
from tools.record import record

MAX_BYTES = 32 * 1024 * 1024
_DIFF_CHARS = 3000


@record
class Target:
    """The file to change: where it is, its bytes (None: there is none) and how it was seen."""

    path: Path
    shown: str
    data: bytes | None
    state: FileState | None

    @property
    def text(self) -> str | None:
        """The decoded content; None where there is no file or no text."""
        try:
            return None if self.data is None else decode(self.data)[0]
        except NotText:
            return None


@record
class Change:
    """What the file becomes. `how` says how the place was found."""

    text: str
    data: bytes
    summary: str
    how: str = ""
    show_diff: bool = True


Plan = Callable[[Target], Change]
"""Works out the change, without any effect. Raises ToolError when it cannot be made."""


def changing(
    call: ResolvedCall,
    services: Services,
    title: str,
    plan: Plan,
    *,
    overwrite: bool = False,
    backup: bool = False,
) -> Invocation:
    """Prepare a change of the file in the argument `path`.

    `overwrite` is for plans that do not look at the old content: such a file must have been read.
    `backup` keeps the old content beside the file. Raises FileProblem for a path that names none.
    """
    workspace = services.workspace
    asked = call.arguments["path"]
    path = workspace.resolve(asked)
    title = f"{title} {workspace.shown(path)}"
    try:
        if overwrite or path in workspace.seen:
            workspace.check_unchanged(path)
        before = _target(workspace, path)
        change = plan(before)
    except (ToolError, FileProblem) as problem:
        reading = workspace.effect(EffectKind.READ, path, call.tool.name, asked)
        return failing(title, (reading,), problem, file_key(path))
    copy = free_name(path) if backup and before.data else None

    def make(grant: Grant) -> ToolResult:
        grant.check(call)
        if _target(workspace, path).data != before.data:
            raise FileProblem(
                f"{before.shown} changed after this call was made. Nothing was changed. "
                "Read it again, then repeat the change."
            )
        if before.state is not None:
            workspace.seen[path] = before.state
        if copy is not None:
            workspace.write(grant, call, copy, before.data or b"")
        workspace.write(grant, call, path, change.data)
        return _result(workspace, before, change, copy)

    async def run(grant: Grant, progress: Progress) -> ToolResult:
        return await asyncio.to_thread(make, grant)

    return Invocation(
        title=title,
        effects=_effects(services, call, path, copy, asked, shows=change.show_diff),
        preview=_display(before, change),
        run=run,
        exclusive=file_key(path),
        dependent=True,
    )


def _target(workspace: Workspace, path: Path) -> Target:
    shown = workspace.shown(path)
    try:
        data, state = workspace.peek(path, MAX_BYTES)
    except FileMissing:
        return Target(path, shown, None, None)
    return Target(path, shown, data, state)


def _effects(
    services: Services,
    call: ResolvedCall,
    path: Path,
    copy: Path | None,
    asked: str,
    *,
    shows: bool,
) -> tuple[Effect, ...]:
    workspace, tool = services.workspace, call.tool.name
    effects = [workspace.effect(EffectKind.WRITE, path, tool, asked)]
    if copy is not None:
        effects.append(workspace.effect(EffectKind.WRITE, copy, tool))
    if shows and services.rules.keeping_from(path) is not None:
        # The diff in the result holds lines that the model did not write.
        effects.append(workspace.effect(EffectKind.READ, path, tool, asked))
    return tuple(effects)


def free_name(path: Path) -> Path:
    """Return the name of a backup beside `path` that nothing has yet."""
    copy, number = path.with_name(f"{path.name}.bak"), 0
    while copy.exists() or copy.is_symlink():
        number += 1
        copy = path.with_name(f"{path.name}.bak{number}")
    return copy


def _display(target: Target, change: Change) -> DiffDisplay:
    diff = unified_diff(target.text or "", change.text, target.shown)
    return DiffDisplay(target.shown, diff, created=target.data is None)


def _result(workspace: Workspace, target: Target, change: Change, copy: Path | None) -> ToolResult:
    display = _display(target, change)
    lines = [change.summary]
    if copy is not None:
        lines.append(f"Backup: {workspace.shown(copy)}")
    if error := new_error(target.path, target.text, change.text):
        lines.append(error)
    if change.show_diff:
        lines.append(_short(display.diff))
    return ToolResult("\n".join(lines), display=display)


def _short(diff: str) -> str:
    """Return the hunks of a diff without the file header, cut at a line where they are long."""
    hunks = sanitize(diff.partition("\n@@")[2])
    if len(hunks) <= _DIFF_CHARS:
        return f"@@{hunks}"
    return (
        f"@@{hunks[: hunks.rfind(chr(10), 0, _DIFF_CHARS)]}\n[diff cut: {len(hunks):,} characters]"
    )
