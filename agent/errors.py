"""How the program ends: exit codes, and errors that are one message for the person."""

from __future__ import annotations

DONE, FAILED, USAGE, NEEDS_PERMISSION, LIMIT, INTERRUPTED = 0, 1, 2, 3, 4, 130


class UserError(Exception):
    """Something the person can put right. The message says what, where and what to do next."""

    def __init__(self, message: str, exit_code: int = FAILED) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def sentence(text: str) -> str:
    """Return `text` with a full stop where it has no end of its own."""
    return text if text.endswith((".", "!", "?", "…", ":")) else f"{text}."
