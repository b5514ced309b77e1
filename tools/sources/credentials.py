"""Keeps what a login gave: in the system's keyring where the package `keyring` is installed and
works, else in a 0600 file of opta's own."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from tools import storage
from tools.record import record

KEYRING_S = 15.0
"""How long a keyring may take, in seconds: it may wait for the person to unlock it."""


@record
class Credentials:
    """One login: `service` and `identity` name it in the keyring, `path` is the file without one.

    Its methods raise StorageError where the file, or the keyring, cannot be used.
    """

    service: str
    identity: str
    path: Path

    @property
    def place(self) -> str:
        """Where it is, for people."""
        return "the keyring" if _keyring() is not None else str(self.path)

    def load(self) -> dict[str, Any]:
        """Return what is kept; empty where nothing is, or it is damaged."""
        keyring = _keyring()
        if keyring is not None:
            text = _asked(keyring.get_password, self.service, self.identity)
        else:
            text = (storage.read_private(self.path) or b"").decode("utf-8", "replace")
        with suppress(ValueError):
            found = json.loads(text or "{}")
            return found if isinstance(found, dict) else {}
        return {}

    def save(self, data: dict[str, Any]) -> None:
        """Keep this instead."""
        text = json.dumps(data)
        keyring = _keyring()
        if keyring is not None:
            _asked(keyring.set_password, self.service, self.identity, text)
        else:
            storage.write_private(self.path, text.encode())


def _asked(ask: Callable[..., Any], *arguments: str) -> Any:
    """Ask the keyring; one that waits for ever keeps nobody. Raises StorageError."""
    answers: queue.SimpleQueue[tuple[Any, Exception | None]] = queue.SimpleQueue()

    def work() -> None:
        try:
            answers.put((ask(*arguments), None))
        except Exception as error:
            answers.put((None, error))

    threading.Thread(target=work, name="keyring", daemon=True).start()
    try:
        answer, error = answers.get(timeout=KEYRING_S)
    except queue.Empty:
        raise storage.StorageError(
            f"The keyring did not answer within {KEYRING_S:g} s. Unlock it, and try again."
        ) from None
    if error is not None:
        why = " ".join(str(error).split()) or type(error).__name__
        raise storage.StorageError(f"The keyring cannot be used: {why}. Unlock it, and try again.")
    return answer


def _keyring() -> Any:
    """Return the keyring module where it is installed and has a real place to keep things."""
    import importlib

    try:
        keyring = importlib.import_module("keyring")
        return keyring if keyring.get_keyring().priority >= 1 else None
    except Exception:
        # Its backends fail in many ways; each means that there is no keyring.
        return None
