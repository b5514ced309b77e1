"""Keeps what files held before and after each turn, so that changes can be taken back.

One private SQLite file for each directory worked in, in opta's state directory: it needs no git
and leaves the person's git alone. Contents are stored once, compressed, by their digest.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from tools import storage
from tools.files.snapshot import Change, FileVersion, Seen
from tools.record import record

if TYPE_CHECKING:
    import sqlite3

KEPT_S = 14 * 24 * 3600
"""How long changes can be taken back, in seconds."""

_HELD_BYTES = 16_000_000
"""How much content waits in memory to be written, in bytes."""

_SCHEMA = """
PRAGMA auto_vacuum = FULL;
CREATE TABLE IF NOT EXISTS content (digest BLOB PRIMARY KEY, data BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS seen (
    path BLOB PRIMARY KEY, mtime INTEGER, ctime INTEGER, size INTEGER, inode INTEGER,
    mode INTEGER, digest BLOB NOT NULL, permissions INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS turns (
    id INTEGER PRIMARY KEY, session TEXT NOT NULL, made REAL NOT NULL, title TEXT NOT NULL,
    state TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS changes (
    turn INTEGER NOT NULL REFERENCES turns (id) ON DELETE CASCADE, path BLOB NOT NULL,
    before BLOB, before_permissions INTEGER, after BLOB, after_permissions INTEGER,
    PRIMARY KEY (turn, path)
);
CREATE TABLE IF NOT EXISTS uncovered (
    turn INTEGER NOT NULL REFERENCES turns (id) ON DELETE CASCADE, path BLOB NOT NULL,
    reason TEXT NOT NULL, PRIMARY KEY (turn, path)
);
"""


class VersionsError(Exception):
    """What was kept of earlier states cannot be used. The message says why and what to do."""


class TurnState(StrEnum):
    """Where the changes of a turn are: in the files, taken back, or overtaken by later ones."""

    DONE = "done"
    UNDONE = "undone"
    OVERTAKEN = "overtaken"


@record
class RecordedTurn:
    """A turn that changed files. `uncovered` are paths it changed that cannot be put back."""

    id: int
    title: str
    changes: tuple[Change, ...]
    uncovered: tuple[tuple[str, str], ...]


class FileVersions:
    """The kept states of the files of one directory. Safe for use by several threads.

    Raises VersionsError from every method.
    """

    def __init__(self, root: Path) -> None:
        import sqlite3

        self._lock = threading.Lock()
        self._kept: dict[bytes, bytes] = {}
        self._kept_bytes = 0
        try:
            path = storage.private_file(_file_for(root))
            self._database = sqlite3.connect(path, timeout=10, check_same_thread=False)
            self._database.execute("PRAGMA foreign_keys = ON")
            self._database.executescript(_SCHEMA)
        except (sqlite3.Error, storage.StorageError) as error:
            raise _problem(error) from error
        self._forget_old()

    def keep(self, digest: bytes, data: bytes) -> None:
        """Keep a content (sha256, bytes), at the latest with the next `remember` or `record`."""
        self._kept[digest] = zlib.compress(data, 1)
        self._kept_bytes += len(data)
        if self._kept_bytes > _HELD_BYTES:
            with self._using() as database:
                self._store_kept(database)

    def known(self) -> dict[str, Seen]:
        """Return the files as they were last seen, whose contents are all kept."""
        with self._using() as database:
            rows = database.execute(
                "SELECT path, mtime, ctime, size, inode, mode, digest, permissions FROM seen"
            )
            return {
                os.fsdecode(row[0]): Seen(row[1:6], FileVersion(row[6], row[7])) for row in rows
            }

    def remember(self, before: Mapping[str, Seen], now: Mapping[str, Seen]) -> None:
        """Write down the files as they are `now`; `before` is what was written last."""
        gone = [(os.fsencode(path),) for path in before.keys() - now.keys()]
        new = [
            (os.fsencode(path), *seen.signature, *seen.version)
            for path, seen in now.items()
            if before.get(path) is not seen
        ]
        with self._using() as database:
            self._store_kept(database)
            database.executemany("DELETE FROM seen WHERE path = ?", gone)
            database.executemany("INSERT OR REPLACE INTO seen VALUES (?,?,?,?,?,?,?,?)", new)

    def record(
        self,
        session: str,
        title: str,
        changes: Iterable[Change],
        uncovered: Iterable[tuple[str, str]],
        began: float,
    ) -> None:
        """Write down what a turn of a session changed; what was undone cannot be redone now.

        `began` is when the turn did, in seconds since 1970.
        """
        with self._using() as database:
            self._store_kept(database)
            database.execute(
                "UPDATE turns SET state = ? WHERE session = ? AND state = ?",
                (TurnState.OVERTAKEN, session, TurnState.UNDONE),
            )
            turn = database.execute(
                "INSERT INTO turns (session, made, title, state) VALUES (?, ?, ?, ?)",
                (session, began, title, TurnState.DONE),
            ).lastrowid
            database.executemany(
                "INSERT INTO changes VALUES (?,?,?,?,?,?)",
                [
                    (turn, os.fsencode(change.path), *(change.before or (None, None)),
                     *(change.after or (None, None)))
                    for change in changes
                ],
            )  # fmt: skip
            database.executemany(
                "INSERT INTO uncovered VALUES (?,?,?)",
                [(turn, os.fsencode(path), reason) for path, reason in uncovered],
            )

    def last_done(self, session: str) -> list[RecordedTurn]:
        """Return the newest turn of a session whose changes are in the files, if there is one."""
        return self._find("WHERE session = ? AND state = 'done' ORDER BY id DESC LIMIT 1", session)

    def done_since(self, session: str, moment: float) -> list[RecordedTurn]:
        """Return the turns of a session whose changes are in the files, the newest first.

        The oldest is the first that began at `moment` or later, in seconds since 1970.
        """
        return self._find(
            "WHERE session = ?1 AND state = 'done' AND id >= "
            "(SELECT min(id) FROM turns WHERE session = ?1 AND made >= ?2) ORDER BY id DESC",
            session, moment,
        )  # fmt: skip

    def last_undone(self, session: str) -> list[RecordedTurn]:
        """Return the turn of a session that was taken back last, if there is one."""
        return self._find("WHERE session = ? AND state = 'undone' ORDER BY id LIMIT 1", session)

    def mark(self, turn: RecordedTurn, state: TurnState) -> None:
        """Write down that a turn's changes were taken back, or put again."""
        with self._using() as database:
            database.execute("UPDATE turns SET state = ? WHERE id = ?", (state, turn.id))

    def content(self, digest: bytes) -> bytes:
        """Return a kept content."""
        with self._using() as database:
            row = database.execute(
                "SELECT data FROM content WHERE digest = ?", (digest,)
            ).fetchone()
        if row is None:
            raise VersionsError("An earlier content is no longer kept: it cannot be put back.")
        try:
            data = zlib.decompress(row[0])
        except zlib.error as error:
            raise _problem(error) from error
        if hashlib.sha256(data).digest() != digest:
            raise VersionsError("A kept content is damaged: it is not put back.")
        return data

    def close(self) -> None:
        """Close the file."""
        import sqlite3

        with suppress(sqlite3.Error):
            self._database.close()

    def _find(self, clause: str, *values: str | float) -> list[RecordedTurn]:
        with self._using() as database:
            found = database.execute(f"SELECT id, title FROM turns {clause}", values).fetchall()
            return [_turn(database, *row) for row in found]

    @contextmanager
    def _using(self) -> Iterator[sqlite3.Connection]:
        import sqlite3

        try:
            with self._lock, self._database as database:
                yield database
        except sqlite3.Error as error:
            raise _problem(error) from error

    def _store_kept(self, database: sqlite3.Connection) -> None:
        kept, self._kept, self._kept_bytes = self._kept, {}, 0
        database.executemany(
            "INSERT OR IGNORE INTO content VALUES (?,?)",
            kept.items(),
        )

    def _forget_old(self) -> None:
        with self._using() as database:
            old = database.execute("DELETE FROM turns WHERE made < ?", (time.time() - KEPT_S,))
            if old.rowcount:
                database.execute(
                    "DELETE FROM content WHERE digest NOT IN (SELECT digest FROM seen) "
                    "AND digest NOT IN (SELECT before FROM changes WHERE before IS NOT NULL) "
                    "AND digest NOT IN (SELECT after FROM changes WHERE after IS NOT NULL)"
                )


def _turn(database: sqlite3.Connection, id_: int, title: str) -> RecordedTurn:
    changes = database.execute(
        "SELECT path, before, before_permissions, after, after_permissions "
        "FROM changes WHERE turn = ? ORDER BY path", (id_,),
    )  # fmt: skip
    found = tuple(Change(os.fsdecode(c[0]), _version(*c[1:3]), _version(*c[3:5])) for c in changes)
    uncovered = database.execute(
        "SELECT path, reason FROM uncovered WHERE turn = ? ORDER BY path", (id_,)
    )
    named = tuple((os.fsdecode(path), reason) for path, reason in uncovered)
    return RecordedTurn(id_, title, found, named)


def _file_for(root: Path) -> Path:
    """Return where the states of a directory's files are kept; drop what nobody used for long."""
    directory = storage.private_dir(storage.state_dir() / "undo")
    _drop_unused(directory)
    return directory / f"{hashlib.sha256(os.fsencode(root)).hexdigest()[:24]}.sqlite"


def _drop_unused(directory: Path) -> None:
    oldest = time.time() - KEPT_S
    with suppress(OSError):
        for entry in os.scandir(directory):
            with suppress(OSError, storage.StorageError):
                if entry.stat(follow_symlinks=False).st_mtime < oldest:
                    storage.remove(Path(entry.path))


def _version(digest: bytes | None, permissions: int | None) -> FileVersion | None:
    return None if digest is None else FileVersion(digest, permissions or 0)


def _problem(error: Exception) -> VersionsError:
    return VersionsError(f"Earlier states of files cannot be kept or read: {error}")
