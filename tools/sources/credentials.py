"""Keeps what a login gave: in the system's keyring where the package `keyring` is installed and
works, else in a 0600 file of opta's own."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from tools import storage
from tools.record import record


@record
class Credentials:
    """One login: `service` and `identity` name it in the keyring, `path` is the file without one.

    Its methods raise StorageError where the file cannot be used.
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
            text = keyring.get_password(self.service, self.identity)
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
            keyring.set_password(self.service, self.identity, text)
        else:
            storage.write_private(self.path, text.encode())


def _keyring() -> Any:
    """Return the keyring module where it is installed and has a real place to keep things."""
    import importlib

    try:
        keyring = importlib.import_module("keyring")
        return keyring if keyring.get_keyring().priority >= 1 else None
    except Exception:
        # Its backends fail in many ways; each means that there is no keyring.
        return None
