"""Where task sessions are kept: `.opta/sessions/` of a project, or a directory the person names."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from tools import storage
from tools.sources.opencode import PATH as OPENCODE_PATH
from tools.sources.session_log import LOG_FILE, SESSION_NAME, SessionLog, SessionLogError

_STORE = ".opta/sessions"


def open_session(chosen: str | None, root: Path, name: str, *, create: bool = True) -> SessionLog:
    """Open a session of the project in `root`, or of the store `chosen`.

    A new store of a project is left alone by git (X83). Raises SessionLogError.
    """
    if chosen is not None:
        return SessionLog(Path(chosen).expanduser(), name, create=create)
    store = root / _STORE
    log = SessionLog(store, name, create=create, below=root)
    if create:
        _hide_from_git(store, "*", root)
    return log


def session_names(chosen: str | None, root: Path) -> list[str]:
    """Return the names of the sessions in a store, sorted."""
    try:
        entries = sorted(store_path(chosen, root).iterdir())
    except OSError:
        return []
    return [e.name for e in entries if SESSION_NAME.fullmatch(e.name) and (e / LOG_FILE).is_file()]


def store_path(chosen: str | None, root: Path) -> Path:
    """Return the directory that holds the sessions."""
    return root / _STORE if chosen is None else Path(chosen).expanduser()


def claim(log: Path) -> None:
    """Remember that opta writes this log on this machine. Raises SessionLogError."""
    try:
        storage.private_file(_claim_file(log))
    except storage.StorageError as error:
        raise SessionLogError(str(error)) from error


def is_own(log: Path) -> bool:
    """Tell whether opta has written this log here: one that came with a project it has not."""
    try:
        return _claim_file(log).is_file()
    except storage.StorageError:
        return False


def take_opencode(root: Path) -> storage.AppendFile:
    """Take the file for opencode for this process, until what is returned is closed.

    There is one for a project, and in it one session. Raises SessionLogError where another loop
    has it.
    """
    try:
        taken = storage.AppendFile(_claim_file(root / OPENCODE_PATH))
    except storage.StorageError as error:
        raise SessionLogError(str(error)) from error
    if not taken.lock():
        taken.close()
        raise SessionLogError(
            f"{OPENCODE_PATH} serves another loop that is running here. Wait for it, or leave "
            "--opencode out."
        )
    return taken


def write_opencode(root: Path, text: str) -> Path:
    """Write the tools for opencode, replacing what was there; git leaves a new file alone.

    Raises SessionLogError.
    """
    path = root / OPENCODE_PATH
    try:
        storage.write_private(path, text.encode(), below=root)
    except storage.StorageError as error:
        raise SessionLogError(str(error)) from error
    _hide_from_git(path.parent, path.name, root)
    return path


def _hide_from_git(directory: Path, name: str, root: Path) -> None:
    """Let git ignore `name`, by a file that ignores itself; one that is there stays as it is."""
    ignore = directory / ".gitignore"
    if ignore.exists():
        return
    lines = [name] if name == "*" else [f"/{name}", f"/{ignore.name}"]
    try:
        storage.write_private(ignore, "".join(f"{line}\n" for line in lines).encode(), below=root)
    except storage.StorageError as error:
        raise SessionLogError(str(error)) from error


def _claim_file(log: Path) -> Path:
    real = os.fsencode(log.resolve())
    return storage.state_dir() / "loops" / hashlib.sha256(real).hexdigest()[:32]
