"""What the signals that end a program do to work without a person at the keyboard."""

from __future__ import annotations

import asyncio
import signal
from contextlib import suppress
from typing import Any


def cancel_on_signals(work: asyncio.Future[Any]) -> None:
    """Let Ctrl-C, SIGTERM and the end of the terminal cancel `work`, which then ends in order."""
    loop = asyncio.get_running_loop()
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        # Windows has no such handlers: there KeyboardInterrupt ends the program.
        with suppress(NotImplementedError, AttributeError):
            loop.add_signal_handler(getattr(signal, name), work.cancel)
