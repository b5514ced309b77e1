"""How long something took."""

from __future__ import annotations

import time


def elapsed_ms(started: float) -> int:
    """Return the milliseconds since `started`, which `time.monotonic()` gave."""
    return round((time.monotonic() - started) * 1000)
