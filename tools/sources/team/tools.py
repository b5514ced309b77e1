"""The tools of the team: the last good answer, as far as the person has accepted it (R28).

A file of the team is used in exactly the text that was accepted. What is new waits; where a file
has changed, the accepted text stays in use until the person has seen the difference and said yes.
What the team takes back is gone at once.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from operator import is_
from pathlib import Path

from tools.definition import Origin, Scope, Source, ToolDefinition
from tools.formats.problems import ToolFileError, ToolProblem
from tools.permissions.allowlist import Allowlist
from tools.record import record
from tools.sources.files import usable_tools
from tools.sources.team.answer import TeamAnswer, TeamError, TeamFile
from tools.sources.team.config import TeamConfig
from tools.sources.team.source import Fetch
from tools.sources.team.store import LastAnswer, TeamStore
from tools.storage import StorageError

SHOWN_NAMES = 5
"""How many waiting tools one line names."""


@record
class Reading:
    """What a file defines, and what is wrong with it."""

    tools: tuple[ToolDefinition, ...] = ()
    problems: tuple[ToolProblem, ...] = ()

    @property
    def usable(self) -> bool:
        """True when all of the file can be used."""
        return bool(self.tools) and all(problem.warning for problem in self.problems)


@record
class Waiting:
    """A file that waits to be accepted: `before` is the text in use, None where it is new."""

    file: TeamFile
    before: str | None
    names: tuple[str, ...]

    @property
    def kind(self) -> str:
        """What happened to it."""
        return "new" if self.before is None else "changed"

    @property
    def title(self) -> str:
        """The tools it defines, and what happened to them."""
        return f"{', '.join(self.names)} ({self.kind})"


@record
class TeamState:
    """All that is known of a team now. `unusable` are problems of the files as they are shared."""

    last: LastAnswer | None = None
    in_use: tuple[ToolDefinition, ...] = ()
    waiting: tuple[Waiting, ...] = ()
    problems: tuple[ToolProblem, ...] = ()


@dataclass
class TeamTools:
    """See the module. Without `fetch` what is kept is used, and nothing is asked for.

    `refused_name` says why a tool may not have a name, or nothing. `changed` is called when a
    refresh in the background has ended. `shown` is what the person has seen of what waits.
    `code_image` is as in ToolFiles.
    """

    config: TeamConfig
    fetch: Fetch | None = None
    refused_name: Callable[[str], str] = lambda name: ""
    changed: Callable[[], None] = lambda: None
    shown: frozenset[Waiting] = frozenset()
    code_image: str = ""
    _store: TeamStore | None = field(default=None, init=False)
    _state: TeamState = field(default_factory=TeamState, init=False)
    _built_from: tuple[object, object] = field(default=(object(), object()), init=False)
    _readings: dict[tuple[str, str], Reading] = field(default_factory=dict, init=False)
    _failure: tuple[str, ToolProblem] | None = field(default=None, init=False)
    _refreshing: asyncio.Task[None] | None = field(default=None, init=False)
    _refreshed_at: float | None = field(default=None, init=False)

    def load(self) -> tuple[list[ToolDefinition], list[ToolProblem]]:
        """Return the tools in use, and what people should know: for the registry."""
        try:
            state = self.state()
        except StorageError as error:
            return [], [ToolProblem(None, f"team {self.config.name}: {error}")]
        problems = [*state.problems]
        allowlist = self.allowlist()
        if allowlist is not None:
            told = f"{allowlist.owner} allows only the commands: {allowlist.shown}"
            problems.append(ToolProblem(None, told, warning=True))
        if state.waiting:
            problems.append(_waits(self.config.name, state.waiting))
        if self._failure is not None:
            problems.append(self._failure[1])
        return [*state.in_use], problems

    def allowlist(self) -> Allowlist | None:
        """Return the commands that the team allows; None where it does not say (E153)."""
        last = None
        with suppress(StorageError):
            last = self.state().last
        if last is None or last.answer.allowlist is None:
            return None
        return Allowlist(last.answer.allowlist, f"the team {last.answer.org}")

    def state(self) -> TeamState:
        """Return what is known now. Raises StorageError."""
        store = self._kept()
        last, accepted = store.last(), store.accepted()
        built_from = (last, accepted)
        if not all(map(is_, built_from, self._built_from)):
            self._state = self._built(last, accepted)
            self._built_from = built_from
        return self._state

    async def sync(self, *, anew: bool = False) -> bool:
        """Read the source now; return whether it says something new.

        `anew` takes any answer, also one that is older than the last. Raises TeamError,
        StorageError; the last good answer then stays.
        """
        store = self._kept()
        assert self.fetch is not None
        last = store.last()
        fresh = await self.fetch(None if anew else last)
        self._failure = None
        if fresh is None:
            assert last is not None
            store.keep(last.answer, last.etag)
            return False
        await asyncio.to_thread(self._check_names, fresh.answer)
        store.keep(fresh.answer, fresh.etag)
        return last is None or fresh.answer.digest != last.answer.digest

    def accept(self, waiting: Iterable[Waiting]) -> None:
        """Use these files from now on, in exactly the text that was shown. Raises StorageError."""
        last = self.state().last
        if last is not None:
            self._kept().accept([one.file for one in waiting], last.answer)

    def named(self, names: Sequence[str]) -> list[Waiting]:
        """Return what waits under these names, of tools or files; all without any.

        Raises TeamError for a name under which nothing waits, StorageError.
        """
        waiting = self.state().waiting
        known = {name for one in waiting for name in (one.file.path, *one.names)}
        for name in names:
            if name not in known:
                there = ", ".join(name for one in waiting for name in one.names) or "none"
                raise TeamError(f"no tool {name!r} waits to be accepted; waiting: {there}")
        return [
            one for one in waiting if not names or {one.file.path, *one.names}.intersection(names)
        ]

    def start(self) -> None:
        """Begin to keep up with the source in the background; needs a running event loop."""
        self._refreshed_at = -float("inf")
        self.look_again()

    def look_again(self) -> None:
        """Refresh in the background where the last time is too long ago. Returns at once."""
        if self.fetch is None or self._refreshed_at is None or self._refreshing is not None:
            return
        # A directory costs nothing to look at.
        every_s = self.config.refresh_s if self.config.url else 0
        if time.monotonic() - self._refreshed_at >= every_s:
            self._refreshing = asyncio.create_task(self._refresh())

    async def close(self) -> None:
        """Stop what runs in the background."""
        self._refreshed_at = None
        if self._refreshing is not None:
            self._refreshing.cancel()
            await asyncio.gather(self._refreshing, return_exceptions=True)

    async def _refresh(self) -> None:
        try:
            await self.sync()
        except (TeamError, StorageError) as error:
            self._note(str(error))
        finally:
            self._refreshing = None
            if self._refreshed_at is not None:
                self._refreshed_at = time.monotonic()
        self.changed()

    def _note(self, reason: str) -> None:
        """Keep what went wrong, for people: the same line as long as it is the same."""
        if self._failure is not None and self._failure[0] == reason:
            return
        last = None
        with suppress(StorageError):
            last = self._kept().last()
        meanwhile = "nothing of it is known here yet"
        if last is not None:
            meanwhile = f"its tools of {ago(last.checked_at)} are used"
        told = f"team {self.config.name} ({self.config.place}): {reason}; {meanwhile}"
        self._failure = reason, ToolProblem(None, told, warning=True)

    def _kept(self) -> TeamStore:
        if self._store is None:
            self._store = TeamStore(self.config)
        return self._store

    def _built(self, last: LastAnswer | None, accepted: Mapping[str, str]) -> TeamState:
        in_use: list[ToolDefinition] = []
        waiting: list[Waiting] = []
        problems: list[ToolProblem] = []
        for file in last.answer.files if last is not None else ():
            before = accepted.get(file.path)
            shared = self._read(file)
            problems += shared.problems
            if before is not None:
                used = shared if before == file.text else self._read(TeamFile(file.path, before))
                in_use += used.tools
            if before != file.text and shared.usable:
                waiting.append(Waiting(file, before, tuple(tool.name for tool in shared.tools)))
        return TeamState(last, tuple(in_use), tuple(waiting), tuple(problems))

    def _read(self, file: TeamFile) -> Reading:
        key = (file.path, file.digest)
        if key not in self._readings:
            self._readings[key] = read_file(
                file, self.config.name, self.refused_name, self.code_image
            )
        return self._readings[key]

    def _check_names(self, answer: TeamAnswer) -> None:
        """Raise TeamError where two files define one tool: nobody could say which is meant."""
        found: dict[str, str] = {}
        for file in answer.files:
            for tool in self._read(file).tools:
                other = found.setdefault(tool.wire_name, file.path)
                if other != file.path:
                    raise TeamError(f"it has the tool {tool.name} twice: {other}, {file.path}")


def read_file(
    file: TeamFile, team: str, refused_name: Callable[[str], str], code_image: str = ""
) -> Reading:
    """Return what a file of a team defines; its tools are the team's, whatever the file says."""
    path = Path(f"team {team}", file.path)
    origin = Origin(Source.TEAMS, "", Scope.TEAM, path, digest=file.digest, enforced=True)
    try:
        tools, problems = usable_tools(file.text.encode(), origin, code_image=code_image)
    except ToolFileError as error:
        return Reading((), (*error.problems, *error.warnings))
    for tool in tools:
        refusal = refused_name(tool.name)
        if refusal:
            problems.append(ToolProblem(
                path, refusal, tool.origin.line, key="$.name", hint="its author has to rename it"
            ))  # fmt: skip
    kept = [tool for tool in tools if not refused_name(tool.name)]
    return Reading(tuple(kept), tuple(problems))


def _waits(team: str, waiting: Iterable[Waiting]) -> ToolProblem:
    titles = [one.title for one in waiting]
    more = f" and {len(titles) - SHOWN_NAMES} more" if len(titles) > SHOWN_NAMES else ""
    verb = "waits" if len(titles) == 1 else "wait"
    return ToolProblem(
        None, f"team {team}: {', '.join(titles[:SHOWN_NAMES])}{more} {verb} until you accept",
        hint="/team or `opta team accept` shows what it is", warning=True,
    )  # fmt: skip


def ago(then: float) -> str:
    """Say how long ago a time (epoch, in seconds) was."""
    seconds = max(time.time() - then, 0)
    for size, unit in ((86400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= size:
            count = int(seconds // size)
            return f"{count} {unit}{'s' * (count > 1)} ago"
    return "a moment ago"
