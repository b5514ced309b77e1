"""Takes the changes a turn made to files back, and puts them again: `/undo` and `/redo`.

The files are looked at before the first call of a turn that may change any, and after the turn:
so it also covers what commands did. Whatever was changed since is left as it is, and told (R21).
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tools import storage
from tools.actions import BuiltinAction
from tools.definition import (
    EffectKind,
    Invocation,
    Origin,
    ResolvedCall,
    Source,
    TextDisplay,
    ToolDefinition,
    ToolResult,
)
from tools.engine.output import one_line, sanitize
from tools.files.paths import shown_name
from tools.files.snapshot import DIRECTORY, Change, Seen, Snapshot, TreeWatcher
from tools.files.versions import FileVersions, RecordedTurn, TurnState, VersionsError
from tools.files.workspace import FileProblem, Workspace
from tools.permissions.gate import PermissionGate
from tools.permissions.grant import Grant
from tools.record import record

TITLE_CHARS = 60
_TOLD_AFTER_S = 1.0
_PUT_BACK = ToolDefinition(
    "put_back", "Give files an earlier content.", {}, BuiltinAction("put_back"),
    Origin(Source.BUILTIN, "opta"),
)  # fmt: skip


@record
class Restored:
    """What `/undo` or `/redo` did: `done` are lines such as `a.py (deleted)`, by path."""

    title: str
    done: tuple[str, ...]
    kept: tuple[tuple[str, str], ...]


@dataclass(slots=True)
class _Turn:
    """A turn that is running. `written` are paths that file tools named, relative to the root."""

    session: str
    title: str
    began: float
    before: asyncio.Task[Snapshot | None] | None = None
    written: set[str] = field(default_factory=set)


class FileHistory:
    """The changes of the turns in one workspace.

    `tell` shows a line to the person. `enabled` False keeps nothing. Where the files cannot be
    kept the turn goes on without, and says so once.
    """

    def __init__(self, workspace: Workspace, gate: PermissionGate, *, enabled: bool = True) -> None:
        self.tell: Callable[[str], None] = lambda text: None
        self._workspace = workspace
        self._gate = gate
        self._enabled = enabled
        self._turn: _Turn | None = None
        self._looking: asyncio.Task[Snapshot | None] | None = None
        self._recording: asyncio.Task[None] | None = None
        self._using = asyncio.Lock()
        self._leaving = False
        self._failure: Exception | None = None
        self._versions: FileVersions | None = None
        self._watcher: TreeWatcher | None = None
        self._remembered: dict[str, Seen] = {}

    def begin(self, session: str, title: str, at: float) -> None:
        """A turn begins, `at` seconds since 1970.

        Nothing is looked at before a call may change files.
        """
        if self._enabled:
            self._turn = _Turn(session, one_line(title, TITLE_CHARS), at)

    async def before_change(self, invocation: Invocation) -> None:
        """Wait until the files were looked at, before the first call that may change some."""
        turn = self._turn
        if turn is None or all(e.kind is EffectKind.READ for e in invocation.effects):
            return
        if turn.before is None:
            self._looking = turn.before = asyncio.create_task(self._look())
        finished, _ = await asyncio.wait([turn.before], timeout=_TOLD_AFTER_S)
        if not finished:
            self.tell("Keeping a copy of the files for /undo (only what changed is read again).")
        before = await asyncio.shield(turn.before)
        if self._failure is not None:
            self.tell(f"/undo is not available in this session: {self._failure}")
            self._failure = None
        if before is not None and before.incomplete:
            await self._follow(turn, before, _written(invocation, self._workspace.root))

    def end(self) -> None:
        """The turn is over: look again and keep what it changed, without anyone waiting."""
        turn, self._turn = self._turn, None
        if turn is not None and turn.before is not None:
            self._recording = asyncio.create_task(self._record(turn, turn.before, self._recording))

    async def undo(self, session: str) -> Restored | None:
        """Take back the newest turn of a session that changed files; None where there is none.

        Raises VersionsError.
        """
        restored = await self._restore(lambda kept: kept.last_done(session), TurnState.UNDONE)
        return restored[0] if restored else None

    async def redo(self, session: str) -> Restored | None:
        """Put again what was taken back last; None where nothing was. Raises VersionsError."""
        restored = await self._restore(lambda kept: kept.last_undone(session), TurnState.DONE)
        return restored[0] if restored else None

    async def changed_since(self, session: str, moment: float) -> list[str]:
        """Return what turns of a session have changed since and can be taken back, as paths.

        `moment` is in seconds since 1970. Raises VersionsError.
        """
        if not self._enabled:
            return []
        await self.settle()
        async with self._using:
            _, versions = await asyncio.to_thread(self._open)
            turns = versions.done_since(session, moment)
        return sorted({change.path for turn in turns for change in turn.changes})

    async def undo_since(self, session: str, moment: float) -> list[Restored]:
        """Take back all that turns of a session have changed since `moment`, the last one first.

        Raises VersionsError.
        """
        return await self._restore(lambda kept: kept.done_since(session, moment), TurnState.UNDONE)

    async def settle(self) -> None:
        """Wait until what the last turn changed is written down."""
        if self._recording is not None:
            await asyncio.wait([self._recording])

    async def aclose(self) -> None:
        """Finish what is being kept, and close the file."""
        await self.settle()
        self._leaving = True
        if self._looking is not None:
            await asyncio.wait([self._looking])
        async with self._using:
            if self._versions is not None:
                self._versions.close()
                self._versions = None

    async def _look(self) -> Snapshot | None:
        await self.settle()
        async with self._using:
            return await asyncio.to_thread(self._snapshot)

    def _snapshot(self) -> Snapshot | None:
        try:
            watcher, versions = self._open()
            if self._workspace.root in (Path.home(), Path("/")):
                return Snapshot(incomplete="it is your home directory")
            taken = watcher.snapshot(lambda: not self._leaving)
            if not taken.incomplete:
                versions.remember(self._remembered, taken.files)
                self._remembered = taken.files
        except (VersionsError, OSError, RuntimeError) as error:
            self._give_up(error)
            return None
        return taken

    def _open(self) -> tuple[TreeWatcher, FileVersions]:
        if self._versions is None or self._watcher is None:
            self._versions = FileVersions(self._workspace.root)
            self._remembered = self._versions.known()
            self._watcher = TreeWatcher(
                self._workspace.root, self._remembered, self._versions.keep,
                apart=storage.state_dir().resolve(),
            )  # fmt: skip
        return self._watcher, self._versions

    def _give_up(self, error: Exception) -> None:
        self._enabled = False
        self._failure = error

    async def _follow(self, turn: _Turn, before: Snapshot, paths: set[str]) -> None:
        """Look at files before a tool writes them, where the tree as a whole is too large."""
        new = paths - turn.written
        turn.written |= new
        async with self._using:
            if self._watcher is not None and new:
                _add(before, await asyncio.to_thread(self._watcher.snapshot_of, new))

    async def _record(
        self,
        turn: _Turn,
        looking: asyncio.Task[Snapshot | None],
        earlier: asyncio.Task[None] | None,
    ) -> None:
        if earlier is not None:
            await asyncio.wait([earlier])
        before = await looking
        if before is None:
            return
        async with self._using:
            try:
                await asyncio.to_thread(self._compare, turn, before)
            except (VersionsError, OSError) as error:
                self._give_up(error)

    def _compare(self, turn: _Turn, before: Snapshot) -> None:
        watcher, versions = self._open()
        if before.incomplete:
            after = watcher.snapshot_of(turn.written)
        else:
            after = self._snapshot() or before
        changes, uncovered = before.changes_to(after), before.uncovered(after)
        if changes or uncovered:
            versions.record(turn.session, turn.title, changes, uncovered, turn.began)

    async def _restore(
        self, find: Callable[[FileVersions], list[RecordedTurn]], wanted: TurnState
    ) -> list[Restored]:
        await self.settle()
        async with self._using:
            _, versions = await asyncio.to_thread(self._open)
            return [await self._restore_turn(versions, turn, wanted) for turn in find(versions)]

    async def _restore_turn(
        self, versions: FileVersions, turn: RecordedTurn, wanted: TurnState
    ) -> Restored:
        undoing = wanted is TurnState.UNDONE
        changes = [Change(c.path, c.after, c.before) if undoing else c for c in turn.changes]
        restored = await self._put_back(versions, turn, changes)
        if restored.done or not restored.kept:
            versions.mark(turn, wanted)
        return restored

    async def _put_back(
        self, versions: FileVersions, turn: RecordedTurn, changes: list[Change]
    ) -> Restored:
        """Do what the person asked for: shown, not asked, with a grant of the gate (R48)."""
        call = ResolvedCall(f"undo-{secrets.token_hex(4)}", _PUT_BACK, {"turn": turn.id})
        done: list[str] = []
        kept = list(turn.uncovered)

        async def run(grant: Grant, _: Callable[[str], None]) -> ToolResult:
            put = _PutBack(self._workspace, versions, grant, call)
            for change in _in_order(changes):
                try:
                    done.append(await asyncio.to_thread(put.change, change))
                except (FileProblem, VersionsError) as error:
                    kept.append((change.path, str(error)))
            return ToolResult(f"{len(done)} files put back")

        effects = tuple(
            self._workspace.effect(EffectKind.WRITE, self._workspace.root / path, path)
            for path in (change.path for change in changes)
        )
        invocation = Invocation(f"put back {turn.title}", effects, TextDisplay(""), run)
        decision = self._gate.authorise_person(call, invocation, "typed by you")
        if decision.grant is not None:
            await invocation.run(decision.grant, lambda text: None)
        return Restored(turn.title, tuple(sorted(filter(None, done))), tuple(sorted(kept)))


@record
class _PutBack:
    """Puts single files back for one granted call."""

    workspace: Workspace
    versions: FileVersions
    grant: Grant
    call: ResolvedCall

    def change(self, change: Change) -> str:
        """Turn what a path is (`before`) into what it shall be (`after`); return what was done.

        Raises FileProblem, VersionsError.
        """
        path = self.workspace.root / change.path
        shown = shown_name(change.path)
        if DIRECTORY in (change.before, change.after):
            there = change.after is not None
            self.workspace.put_back_directory(self.grant, self.call, path, there=there)
            return ""
        wanted = change.after
        data = None if wanted is None else self.versions.content(wanted.digest)
        self.workspace.put_back(
            self.grant, self.call, path, data, 0 if wanted is None else wanted.mode,
            "" if change.before is None else change.before.digest.hex(),
        )  # fmt: skip
        if wanted is None:
            return f"{shown} (deleted)"
        return f"{shown} (made again)" if change.before is None else f"{shown} (changed)"


_NOTHING_TO_UNDO = (
    "There is nothing to take back: no turn that is left changed files that undo covers "
    "(not `.git`, nor what is ignored or outside this directory)."
)


def told(restored: Restored | None, *, undoing: bool, way_back: str = "") -> str:
    """Say what was done; `way_back` is what the person types to reverse it."""
    if restored is None:
        return _NOTHING_TO_UNDO if undoing else "Nothing was taken back."
    verb = "Took back" if undoing else "Put again"
    lines = [f"{verb} what “{sanitize(restored.title)}” changed: {_files(len(restored.done))}."]
    lines += [f"  {line}" for line in restored.done]
    lines += _left(restored.kept)
    if way_back and restored.done:
        lines.append(f"To reverse it: {way_back}")
    return "\n".join(lines)


def told_all(restored: Sequence[Restored]) -> str:
    """Say what was taken back of several turns."""
    lines = [told(one, undoing=True) for one in restored]
    times = sum(bool(one.done) for one in restored)
    if times:
        lines.append(f"To reverse it: /redo{f', {times} times' if times > 1 else ''}")
    return "\n".join(lines)


def left(restored: Sequence[Restored]) -> str:
    """Say of which files earlier changes could not be taken back; empty where of all."""
    return "\n".join(_left(pair for one in restored for pair in one.kept))


def _left(kept: Iterable[tuple[str, str]]) -> list[str]:
    named = dict.fromkeys(f"  {shown_name(path)}: {reason}" for path, reason in kept)
    return ["Left as they are:", *named] if named else []


def _files(count: int) -> str:
    return "1 file" if count == 1 else f"{count:,} files"


def _in_order(changes: Iterable[Change]) -> list[Change]:
    """Deletions from the inside out, then directories from the outside in, then files."""

    def place(change: Change) -> tuple[int, int, str]:
        depth = change.path.count("/")
        is_directory = DIRECTORY in (change.before, change.after)
        if change.after is None:
            return (1 if is_directory else 0, -depth, change.path)
        return (2 if is_directory else 3, depth, change.path)

    return sorted(changes, key=place)


def _written(invocation: Invocation, root: Path) -> set[str]:
    paths = (Path(e.value) for e in invocation.effects if e.kind is EffectKind.WRITE)
    return {path.relative_to(root).as_posix() for path in paths if path.is_relative_to(root)}


def _add(taken: Snapshot, more: Snapshot) -> None:
    taken.files.update(more.files)
    taken.left_out.update(more.left_out)
