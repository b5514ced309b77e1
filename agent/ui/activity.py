"""What opta is doing right now, in one line, and the bottom line of the screen."""

from __future__ import annotations

import time

from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.utils import get_cwidth

from agent.events import Event, RequestStarted, RetryScheduled
from agent.model.base import ReasoningDelta, TextDelta
from agent.ui.port import StatusLine
from agent.ui.wrap import shorten
from tools.definition import outer_id
from tools.engine.output import sanitize
from tools.events import CallFinished, CallStarted

SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
SPIN_S = 0.25
"""How often the line moves while nothing else happens, in seconds."""


class Activity:
    """Follows the events of a turn."""

    def __init__(self) -> None:
        self._started = 0.0
        self._since = 0.0
        self._label = ""
        self._running: dict[str, tuple[str, float]] = {}

    def begin(self) -> None:
        """Something was submitted."""
        self._started = time.monotonic()
        self._running.clear()
        self._set("working")

    def add(self, event: Event) -> None:
        """Take one event."""
        match event:
            case RequestStarted():
                self._set("waiting for the model")
            case TextDelta():
                self._set("answering")
            case ReasoningDelta():
                self._set("thinking")
            case RetryScheduled():
                self._set("waiting to try again")
            case CallStarted(call, title):
                self._running[call.id] = (" ".join(sanitize(title).split()), time.monotonic())
            case CallFinished(call):
                self._running.pop(call.id, None)
                self._set("working")

    def answered(self) -> None:
        """The person has answered: what follows is not the time they took."""
        self._label = ""
        self._set("working")

    def line(self, columns: int) -> str:
        """Return the line as it is now, no wider than `columns`."""
        now = time.monotonic()
        spinner = SPINNER[int((now - self._started) / SPIN_S) % len(SPINNER)]
        if running := self._innermost():
            title, since = running[0]
            others = f" and {len(running) - 1} more" if len(running) > 1 else ""
        else:
            title, since, others = self._label, self._since, ""
        ending = f"{others}  {_elapsed(now - since)}"
        hint = "  (Esc to stop)"
        room = columns - 2 - get_cwidth(ending)
        if room >= get_cwidth(title) + len(hint):
            ending += hint
        return f"{spinner} {shorten(title, room)}{ending}"[:columns]

    def _innermost(self) -> list[tuple[str, float]]:
        """Return the running calls that wait for none of their own."""
        makers = {outer_id(call_id) for call_id in self._running}
        return [shown for call_id, shown in self._running.items() if call_id not in makers]

    def _set(self, label: str) -> None:
        if label != self._label:
            self._label = label
            self._since = time.monotonic()


WAITING_FOR_ANSWER = "waiting for your answer (Enter: send, Esc: none)"
WAITING = "waiting for your reason (Enter: send, empty to go back, Esc: no)"
"""Stands in place of the line while it is the person who is waited for."""

_LEAST_COLUMNS = 6
"""Less of a text than this says nothing."""


def toolbar(status: StatusLine, columns: int) -> StyleAndTextTuples:
    """Return the bottom line: as many of mode, model, context and cost as fit, in that order.

    Where it is narrow, the context is told more shortly and the model's name gives way to it.
    """
    model = sanitize(status.model)
    context = _context(status, columns - get_cwidth(f"{status.mode} · {model} · "))
    parts = [status.mode, model, context]
    if status.cost_usd is not None:
        parts.append(f"${status.cost_usd:.2f}")
    shown: StyleAndTextTuples = []
    left = columns
    for number, text in enumerate(parts):
        gap = " · " if shown else ""
        kept = get_cwidth(f" · {context}") if number == 1 and context else 0
        room = left - len(gap) - kept
        if not text or room < min(get_cwidth(text), _LEAST_COLUMNS):
            continue
        text = shorten(text, room)
        shown += [("class:toolbar", gap), ("class:toolbar" if number else "class:mode", text)]
        left -= len(gap) + get_cwidth(text)
    return shown


def _context(status: StatusLine, columns: int) -> str:
    """Return how full the context is, in `columns` if that can be."""
    if not status.context_window:
        return ""
    share = f"{100 * status.tokens_used // status.context_window}%"
    sizes = f"{_tokens(status.tokens_used)}/{_tokens(status.context_window)}"
    forms = (f"{sizes} tokens ({share})", f"{sizes} ({share})", share)
    return next((form for form in forms if len(form) <= columns), share)


def _elapsed(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 60 else f"{seconds // 60:.0f} min {seconds % 60:.0f} s"


def _tokens(count: int) -> str:
    if count < 1000:
        return str(count)
    return f"{count / 1000:.1f}k" if count < 100_000 else f"{count // 1000}k"
