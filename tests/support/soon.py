"""Tells "stopped" from "waited": a bound on time that measures nothing, and waiting within it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

SOON_S = 20
"""Seconds. Less than what a test must not wait for (30 s or more, or for ever), far more than a
slow and busy machine needs for what it does."""

_LOOK_S = 0.02


def until(condition: Callable[[], T], within_s: float = SOON_S) -> T:
    """Wait until a condition holds, and return what it gave."""
    deadline = time.monotonic() + within_s
    while not (found := condition()):
        assert time.monotonic() < deadline, f"it does not hold within {within_s} s"
        time.sleep(_LOOK_S)
    return found


async def soon(condition: Callable[[], T], within_s: float = SOON_S) -> T:
    """Do what `until` does, while other tasks go on."""
    deadline = time.monotonic() + within_s
    while not (found := condition()):
        assert time.monotonic() < deadline, f"it does not hold within {within_s} s"
        await asyncio.sleep(_LOOK_S)
    return found
