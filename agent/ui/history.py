"""What the person typed before, kept private in the state directory."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from prompt_toolkit.history import History

from agent import log
from tools import storage

KEPT_BYTES = 1 << 20
"""How much of the file is kept when it has grown to twice that, in bytes."""


class InputHistory(History):
    """History in a file of JSON strings, one a line, so that several opta can append at once.

    A file that cannot be used costs the history, never the input: `problem` says what is wrong.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.problem = ""

    def load_history_strings(self) -> Iterable[str]:
        """Return the entries, newest first."""
        try:
            data = storage.read_private(self.path) or b""
            if len(data) > 2 * KEPT_BYTES:
                data = data[-KEPT_BYTES:].partition(b"\n")[2]
                storage.write_private(self.path, data)
        except storage.StorageError as error:
            self.problem = str(error)
            return []
        return [text for line in reversed(data.splitlines()) if (text := _read(line))]

    def store_string(self, string: str) -> None:
        """Append one entry."""
        text = json.dumps(log.redactor()(string), ensure_ascii=False)
        line = text.encode("utf-8", "replace") + b"\n"
        try:
            file = storage.AppendFile(self.path)
        except storage.StorageError as error:
            self.problem = str(error)
            return
        try:
            file.write(line)
        except storage.StorageError as error:
            self.problem = str(error)
        finally:
            file.close()


def _read(line: bytes) -> str:
    try:
        value = json.loads(line)
    except ValueError:
        return ""
    return value if isinstance(value, str) else ""
