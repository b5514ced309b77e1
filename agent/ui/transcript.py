"""What goes into the terminal's own scrollback, once and in order, and the open end below it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from enum import Enum, auto

from agent.errors import sentence
from agent.events import (
    AssistantFinished,
    ContextCompacted,
    Event,
    Level,
    MessageAdded,
    Notice,
    RequestStarted,
    RetryScheduled,
    TurnFinished,
)
from agent.messages import BY_PERSON
from agent.model.base import ReasoningDelta, TextDelta
from agent.ui import render
from agent.ui.ansi import Colour, paint
from agent.ui.markdown_stream import MarkdownStream
from agent.ui.wrap import indent, tail
from tools.definition import CommandDisplay, DiffDisplay, Source, TextDisplay
from tools.engine.output import ControlStripper, sanitize, visible
from tools.events import CallDecided, CallFinished, CallOutput
from tools.permissions.question import PERSON_SAID_NO, PermissionRequest

SHOW_SHORTENED = "Ctrl-O"
"""The key that shows what was shortened."""

_KEPT_SHORTENED = 20
"""How many shortened results can be shown whole, the last."""

_KEPT_CHARS = 4096
"""How much of live output and of reasoning is kept to show its end, in characters."""


class _Kind(Enum):
    USER = auto()
    BLOCK = auto()
    CALL = auto()
    NOTICE = auto()
    TEXT = auto()


_CLOSE = frozenset([_Kind.CALL, _Kind.NOTICE])
"""Kinds whose items follow each other without an empty line."""


class Transcript:
    """Collects what is to be printed and renders it when the width is known.

    `take` gives each item once. `tail` is what may still change: the open Markdown block, the
    output of a running call, or the model's reasoning.
    """

    def __init__(self, colour: Colour, *, key: str = "") -> None:
        """`key` is the one that calls `show_shortened`, none where nobody can press it."""
        self._colour = colour
        self._key = key
        self._shortened: deque[CallFinished] = deque(maxlen=_KEPT_SHORTENED)
        self._items: list[tuple[_Kind, Callable[[int], str]]] = []
        self._printed: _Kind | None = None
        self._stripper = ControlStripper()
        self._stream = MarkdownStream()
        self._streamed = False
        self._reasoning = ""
        self._live: dict[str, str] = {}
        self._seen: set[str] = set()
        self._denied: dict[str, str] = {}

    @property
    def printed(self) -> bool:
        """True when `take` has given something."""
        return self._printed is not None

    def add(self, event: Event) -> None:
        """Take one event."""
        match event:
            case TextDelta(text):
                self._add_text(text)
            case ReasoningDelta(text):
                self._reasoning = (self._reasoning + sanitize(text))[-_KEPT_CHARS:]
            case MessageAdded(message):
                self.user(message.text)
            case RequestStarted():
                self._streamed = False
            case AssistantFinished(message):
                if not self._streamed and message.text:
                    self._add_text(message.text)
                self._end_answer()
            case CallDecided() | CallOutput() | CallFinished():
                self._add_of_call(event)
            case RetryScheduled(reason, delay_s):
                self._end_answer()
                self.notice(f"{sentence(reason)} Trying again in {delay_s:.0f} s.", Level.WARNING)
            case ContextCompacted(_, _, before, after):
                self.notice(f"The conversation was summarised: {before:,} → {after:,} tokens.")
            case Notice(text, level):
                self.notice(text, level)
            case TurnFinished():
                self._end_answer()
                self._live.clear()
                self._put(
                    _Kind.NOTICE, lambda columns: render.turn_end(event, columns, self._colour)
                )

    def user(self, text: str) -> None:
        """Add what the person said."""
        self._put(_Kind.USER, lambda columns: render.user_text(text, columns, self._colour))

    def text(self, text: str) -> None:
        """Add plain text of opta's own."""
        self._put(_Kind.TEXT, lambda columns: render.plain(text, columns))

    def notice(self, text: str, level: Level = Level.INFO) -> None:
        """Add a line that is not part of the conversation."""
        self._put(_Kind.NOTICE, lambda columns: render.notice(text, level, columns, self._colour))

    def request(self, request: PermissionRequest, *, key: str = "") -> None:
        """Add what a person is about to decide on: whole, or shortened where `key` shows it."""
        self._seen.add(request.call.id)
        preview, call_title = request.invocation.preview, request.invocation.title
        limit = render.ASKED_DIFF_LINES if key else None

        def show(columns: int) -> str:
            shown = []
            if _needs_title(request):
                title = indent(visible(call_title), columns, "? ", "  ")
                shown = [paint(line, "bold yellow", self._colour) for line in title]
            if not (isinstance(preview, TextDisplay) and preview.text in call_title):
                shown.append(render.details(preview, columns, self._colour, limit=limit, key=key))
            return "\n".join(shown)

        self._put(_Kind.TEXT, show)

    def refused(self, call_id: str, reason: str) -> None:
        """Keep why the person refused a call, to be shown with its end."""
        self._denied[call_id] = f"you: {reason}"

    def show_shortened(self) -> None:
        """Add the last result that was shortened, whole; the next time the one before it."""
        if not self._shortened:
            self.notice("Nothing else was shortened.")
            return
        event = self._shortened.pop()
        self._put(_Kind.CALL, lambda columns: self._call(event, columns, most=None))

    def take(self, columns: int) -> str:
        """Return everything new as lines for a terminal of this width, each ended."""
        lines = []
        for kind, show in self._items:
            text = show(columns)
            if not text:
                continue
            if self._printed is not None and not (kind is self._printed and kind in _CLOSE):
                lines.append("")
            lines.append(text)
            self._printed = kind
        self._items.clear()
        return "".join(f"{line}\n" for line in lines)

    def tail(self, columns: int, rows: int) -> list[str]:
        """Return the last lines of what is still open."""
        open_text = self._stream.tail(columns * (rows + 1))
        if not open_text.strip():
            open_text = next(reversed(self._live.values()), "")
        return tail(open_text.strip("\n"), columns, rows) if open_text.strip() else []

    def reasoning(self, columns: int, rows: int) -> list[str]:
        """Return the last lines of what the model thinks, while it does nothing else."""
        text = self._reasoning.strip("\n")
        return tail(text, columns, rows) if text.strip() else []

    def _put(self, kind: _Kind, show: Callable[[int], str]) -> None:
        self._items.append((kind, show))

    def _add_text(self, text: str) -> None:
        self._streamed = True
        self._reasoning = ""
        for block in self._stream.feed(self._stripper.feed(text)):
            self._put_block(block)

    def _end_answer(self) -> None:
        self._reasoning = ""
        for block in self._stream.feed(self._stripper.finish()) + self._stream.finish():
            self._put_block(block)

    def _put_block(self, block: str) -> None:
        def show(columns: int) -> str:
            from agent.ui.markdown import render_block

            return render_block(block, columns, self._colour)

        self._put(_Kind.BLOCK, show)

    def _add_of_call(self, event: CallDecided | CallOutput | CallFinished) -> None:
        match event:
            case CallDecided(call, _, _, False, by):
                self._denied.setdefault(call.id, "" if by == PERSON_SAID_NO else f"by {by}")
            case CallOutput(call_id, text):
                self._live[call_id] = (self._live.pop(call_id, "") + text)[-_KEPT_CHARS:]
            case CallFinished():
                self._add_call(event)

    def _add_call(self, event: CallFinished) -> None:
        self._live.pop(event.call.id, None)
        seen = event.call.id in self._seen
        self._seen.discard(event.call.id)
        denied = self._denied.pop(event.call.id, "")

        own = event.call.id.startswith(BY_PERSON)
        most = render.SHOWN_OWN_LINES if own else render.SHOWN_LINES

        def show(columns: int) -> str:
            shown = self._call(event, columns, seen=seen, denied=denied, most=most)
            if shown != self._call(event, columns, seen=seen, denied=denied, most=None):
                self._shortened.append(event)
            return shown

        self._put(_Kind.CALL, show)

    def _call(
        self,
        event: CallFinished,
        columns: int,
        *,
        seen: bool = False,
        denied: str = "",
        most: int | None,
    ) -> str:
        line = render.call_line(event.title or event.call.name, event.result, columns, self._colour)
        body = render.call_body(
            event.result, columns, self._colour, seen=seen, denied=denied, most=most, key=self._key
        )
        return f"{line}\n{body}" if body else line


def _needs_title(request: PermissionRequest) -> bool:
    """Tell whether the title says what neither the preview nor the question does."""
    match request.invocation.preview:
        case CommandDisplay():
            tool = request.call.tool
            return tool.origin.source is not Source.BUILTIN and (
                request.invocation.title != tool.name
            )
        case DiffDisplay():
            return False
        case TextDisplay():
            return True
