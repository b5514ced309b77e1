"""opta's own log: what went wrong inside, for a report of the fault. Made when there is something.

Without it, a fault in a thread or a forgotten task would be a traceback in the person's terminal.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from agent.redaction import Redactor, environment_secrets, without_logins
from tools import storage

NAME = "opta.log"

logger = logging.getLogger("opta")


class _PrivateFile(logging.Handler):
    """Appends to a private file; `redact` takes secrets out (R39)."""

    redact: Redactor | None = None

    def redacted(self) -> Redactor:
        """Return what redacts; before any setting is known, the keys of the environment."""
        return self.redact or Redactor(environment_secrets())

    def emit(self, record: logging.LogRecord) -> None:
        with suppress(storage.StorageError):
            log = storage.AppendFile(storage.state_dir() / NAME)
            line = f"{self.redacted()(self.format(record))}\n"
            log.write(line.encode("utf-8", "backslashreplace"))
            log.close()


_handler = _PrivateFile(logging.WARNING)
_handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))


def install(redact: Redactor | None = None) -> None:
    """Send what is logged, and what fails unseen, to the file. `redact` takes secrets out."""
    _handler.redact = redact
    root = logging.getLogger()
    if _handler not in root.handlers:
        root.addHandler(_handler)
    threading.excepthook = lambda args: _log_unseen(args.exc_value)
    sys.unraisablehook = lambda args: _log_unseen(args.exc_value)


def learn(secrets: Iterable[str]) -> None:
    """Take these out too, of all that this process writes and shows from now on."""
    if _handler.redact is None:
        install(Redactor(environment_secrets()))
    redactor().learn(secrets)


def redactor() -> Redactor:
    """Return what takes out the secrets that are known, of all that may end in a file.

    It is the same one from the first time that something was learned.
    """
    return _handler.redacted()


def shown(text: str) -> str:
    """Return `text` as it may be shown: without secrets, and without logins in addresses."""
    return redactor()(without_logins(text))


def report(error: BaseException) -> str:
    """Log an error that nobody foresaw; return the one line for the person."""
    if _handler not in logging.getLogger().handlers:
        install()
    logger.error("internal error", exc_info=error)
    first = next(iter(str(error).splitlines()), "")
    said = redactor()(f"{type(error).__name__}: {first}".rstrip(": "))
    return f"internal error: {said} (details in {_place()})"


def _log_unseen(error: BaseException | None) -> Any:
    if error is not None:
        logger.error("unseen error", exc_info=error)


def _place() -> Path | str:
    try:
        return storage.state_dir() / NAME
    except storage.StorageError:
        return "no log: there is no home directory"
