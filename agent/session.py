"""Sessions on disk: their names and places, starting, finding, resuming and listing them.

A session is one journal: `<state>/sessions/<project>/<id>.jsonl`. `<project>` is the name of the
directory worked in with a hash of its real path; `<id>` is the time of the start (UTC) and four
random characters, so ids sort by age. One opta at a time writes a session: for the second one
resuming it is an error that says so.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import field
from itertools import islice
from pathlib import Path

from agent.conversation import Usage
from agent.errors import UserError
from agent.events import Notice, ToolsLoaded
from agent.journal import (
    BATCH,
    CHAT,
    Journal,
    Recording,
    SessionBusy,
    SessionInfo,
    read_journal,
)
from agent.messages import Message
from agent.redaction import Redactor
from agent.replay import replay, unsent
from agent.session_summary import SessionSummary, summary_of
from tools.events import CallFinished
from tools.record import record
from tools.storage import AppendFile, StorageError, remove, state_dir

_ALPHABET = "abcdefghijkmnpqrstuvwxyz23456789"
_ID = re.compile(r"[A-Za-z0-9-]+")


class SessionError(UserError):
    """A session cannot be found, resumed or removed."""


class SessionInUse(SessionError):
    """Another opta, or this one, has the session open."""


@record
class Session:
    """A session that is being recorded.

    `messages` is the history it begins with and `usage` what that cost (empty unless resumed);
    `notices` say what the person should know about how it was found. `moved`: it goes on in
    another directory than before. `unsent` are commands of the person's that the model has not
    seen, `loaded` the names of deferred tools that were loaded.
    """

    info: SessionInfo
    journal: Journal
    messages: tuple[Message, ...] = ()
    notices: tuple[str, ...] = ()
    usage: Usage = field(default_factory=Usage)
    moved: bool = False
    unsent: tuple[CallFinished, ...] = ()
    loaded: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """The id for `--resume`."""
        return self.info.id


def start(
    cwd: Path,
    model: str,
    version: str,
    *,
    tell: Callable[[Notice], None],
    redact: Redactor | None = None,
    kind: str = CHAT,
) -> Session:
    """Begin a session. Its file is made with its first event; problems with that go to `tell`."""
    created = time.time()
    info = SessionInfo(new_id(created), str(cwd.resolve()), model, round(created, 3), version, kind)
    unwritable = None
    try:
        path = project_dir(cwd) / f"{info.id}.jsonl"
    except SessionError as error:
        path, unwritable = Path(os.devnull), StorageError(str(error))
    return Session(info, Journal(path, info, tell=tell, redact=redact, unwritable=unwritable))


def resume(
    path: Path, cwd: Path, *, tell: Callable[[Notice], None], redact: Redactor | None = None
) -> Session:
    """Go on with the session in `path`, in the directory `cwd`.

    Raises SessionError when it cannot be read, SessionInUse when another opta is writing it.
    """
    try:
        recording = read_journal(path)
        info = recording.info or _guessed_info(path, cwd)
        journal = Journal(path, info, tell=tell, redact=redact, earlier=recording)
    except SessionBusy as error:
        raise SessionInUse(str(error)) from error
    except StorageError as error:
        raise SessionError(str(error)) from error
    notices = [f"{text[0].upper()}{text[1:]}." if (text := recording.notice(path)) else ""]
    moved = info.cwd != str(cwd.resolve())
    if moved:
        notices.append(f"This session began in {info.cwd}; it goes on in {cwd.resolve()}.")
    return Session(
        info,
        journal,
        tuple(replay(recording.events)),
        tuple(filter(None, notices)),
        recording.usage,
        moved,
        unsent(recording.events),
        _loaded(recording),
    )


def resume_newest(
    cwd: Path, kind: str, *, tell: Callable[[Notice], None], redact: Redactor | None = None
) -> Session:
    """Go on with the `newest` session; raises SessionError, which names an older one if need be."""
    path = newest(cwd, kind)
    try:
        return resume(path, cwd, tell=tell, redact=redact)
    except SessionInUse:
        older = next((s for s in summaries(cwd) if s.answered and not in_use(s.path)), None)
        way = (
            f"To go on with an older one: opta --resume {older.id} ({older.title}). "
            if older
            else ""
        )
        raise SessionInUse(
            f"The newest session here, {path.stem}, is open already, here or in another opta. "
            f"{way}To start a new one: opta"
        ) from None


def newest(cwd: Path, kind: str = BATCH) -> Path:
    """Return the journal of the newest session of a directory. Raises SessionError.

    For a chat (`kind` CHAT) that is the newest chat, where there is one: jobs of `opta -p` are
    left aside, and always what MCP clients and the iterations of a loop did.
    """
    own = (CHAT, BATCH)
    for wanted in ((CHAT,), own) if kind == CHAT else (own,):
        found = next((summary for summary in summaries(cwd) if summary.kind in wanted), None)
        if found is not None:
            return found.path
    raise SessionError(
        f"There is no earlier session in {cwd.resolve()}. Start one with `opta`, or choose "
        "one of another directory from `opta sessions list --all`."
    )


def find(identity: str) -> Path:
    """Return the journal with this id, or the only one whose id begins so, of any directory.

    Raises SessionError when there is none or more than one.
    """
    if not _ID.fullmatch(identity):
        raise SessionError(f"{identity!r} is no session id. `opta sessions list` shows them.")
    found = [p for p in _journals(_project_dirs()) if p.stem.startswith(identity)]
    exact = [path for path in found if path.stem == identity]
    if len(exact or found) == 1:
        return (exact or found)[0]
    if not found:
        raise SessionError(
            f"There is no session {identity}. `opta sessions list --all` shows all there are."
        )
    shown = ", ".join(sorted(path.stem for path in found)[:5])
    raise SessionError(f"{len(found)} sessions begin with {identity}: {shown}. Give more of it.")


def summaries(cwd: Path | None = None, limit: int | None = None) -> Iterator[SessionSummary]:
    """Yield sessions, the newest first: of one directory, or of all where `cwd` is None.

    Reads only the ends of large files. Files without a message of the person are left out.
    """
    directories = _project_dirs() if cwd is None else [project_dir(cwd)]
    dated = _newest_first(_journals(directories))
    found = (summary_of(path, updated) for updated, path in dated)
    return islice((summary for summary in found if summary is not None), limit)


def recent(cwd: Path | None, limit: int) -> list[Path]:
    """Return the newest journals of one directory, or of all where `cwd` is None."""
    directories = _project_dirs() if cwd is None else [project_dir(cwd)]
    return [path for _, path in _newest_first(_journals(directories))[:limit]]


def load(path: Path) -> Recording:
    """Read a session to show it. Raises SessionError."""
    try:
        return read_journal(path)
    except StorageError as error:
        raise SessionError(str(error)) from error


def delete(path: Path) -> None:
    """Remove a session from the disk. Raises SessionError, also while another opta writes it."""
    try:
        file = AppendFile(path, create=False)
        try:
            if not file.lock():
                raise SessionError(f"The session {path.stem} is open in another opta. Close it.")
            remove(path)
        finally:
            file.close()
    except StorageError as error:
        raise SessionError(str(error)) from error


def project_dir(cwd: Path) -> Path:
    """Return the directory for the sessions of `cwd`. Raises SessionError without a home."""
    real = os.fsencode(cwd.resolve())
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", cwd.resolve().name)[:40].strip("-.") or "root"
    return _sessions_dir() / f"{name}-{hashlib.sha256(real).hexdigest()[:10]}"


def new_id(created: float) -> str:
    """Return an id for a session that begins at `created` (seconds since 1970)."""
    when = time.strftime("%y%m%d-%H%M%S", time.gmtime(created))
    return f"{when}-{''.join(secrets.choice(_ALPHABET) for _ in range(4))}"


def in_use(path: Path) -> bool:
    """Tell whether another opta has a session open."""
    try:
        file = AppendFile(path, create=False)
    except StorageError:
        return True
    try:
        return not file.lock()
    finally:
        file.close()


def _sessions_dir() -> Path:
    try:
        return state_dir() / "sessions"
    except StorageError as error:
        raise SessionError(str(error)) from error


def _project_dirs() -> list[Path]:
    try:
        with os.scandir(_sessions_dir()) as entries:
            return [Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []


def _journals(directories: Iterable[Path]) -> Iterator[Path]:
    for directory in directories:
        with suppress(OSError), os.scandir(directory) as entries:
            for entry in entries:
                if entry.name.endswith(".jsonl") and entry.is_file(follow_symlinks=False):
                    yield Path(entry.path)


def _newest_first(paths: Iterable[Path]) -> list[tuple[float, Path]]:
    dated = []
    for path in paths:
        with suppress(OSError):
            dated.append((path.stat().st_mtime, path))
    return sorted(dated, reverse=True)


def _loaded(recording: Recording) -> tuple[str, ...]:
    names = (n for e in recording.events if isinstance(e, ToolsLoaded) for n in e.names)
    return tuple(dict.fromkeys(names))


def _guessed_info(path: Path, cwd: Path) -> SessionInfo:
    return SessionInfo(path.stem, str(cwd.resolve()), "", 0.0, "")
