"""Events as front ends get them: without the secrets that opta knows (R39).

What the model gets and what a person is asked about is not changed: only so an edit fits, and an
answer is to what will happen.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from agent.events import Event
from agent.model.base import ReasoningDelta, TextDelta
from agent.redaction import Redactor
from tools.record import with_texts


class ShownEvents:
    """Takes events in their order; an answer that comes in pieces may be held back for a moment."""

    def __init__(self, redact: Redactor) -> None:
        self._redact = redact
        self._text = redact.stream()
        self._reasoning = redact.stream()

    def of(self, event: Event) -> Iterator[Event]:
        """Yield what to show for one event."""
        match event:
            case TextDelta(text):
                yield from _delta(TextDelta, self._text.feed(text))
            case ReasoningDelta(text):
                yield from _delta(ReasoningDelta, self._reasoning.feed(text))
            case _:
                yield from _delta(ReasoningDelta, self._reasoning.finish())
                yield from _delta(TextDelta, self._text.finish())
                yield with_texts(event, self._redact) if self._redact.masker else event


def _delta(kind: Any, text: str) -> Iterator[Event]:
    if text:
        yield kind(text)
