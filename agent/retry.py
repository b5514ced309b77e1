"""When a failed request is sent again, and after how long."""

from __future__ import annotations

import random

from agent.events import Emit, RetryScheduled
from agent.model.base import FailureKind, ModelError

MAX_ATTEMPTS = 5
MAX_CUTS = 1
MAX_DELAY_S = 60.0


class Retries:
    """Counts the failures of one request."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._attempts = 0
        self._cuts = 0

    def delay_s(self, error: ModelError) -> float | None:
        """Return how many seconds to wait before the next try, which is announced.

        None where there is to be none: the fault lasts, or there were enough.
        """
        self._attempts += 1
        self._cuts += error.kind is FailureKind.CUT
        if not error.transient or self._attempts >= MAX_ATTEMPTS or self._cuts > MAX_CUTS:
            return None
        delay_s = _delay_s(error, self._attempts)
        self._emit(RetryScheduled(str(error), delay_s, self._attempts))
        return delay_s


def _delay_s(error: ModelError, attempt: int) -> float:
    if error.retry_after_s is not None:
        return min(error.retry_after_s, MAX_DELAY_S)
    return min(0.5 * 2.0**attempt, MAX_DELAY_S) * random.uniform(0.8, 1.2)
