"""A front end that only prints: the whole conversation as text, questions answered with yes."""

from __future__ import annotations

from typing import TextIO

from agent.events import Event, TurnStarted
from agent.ui.ansi import Colour, detect
from agent.ui.approval import asked
from agent.ui.transcript import Transcript
from agent.ui.wrap import columns_of
from tools.permissions.question import Answer, Choice, PermissionRequest


class PlainFrontEnd:
    """Prints events as the chat would, and each permission question with the answer it gives.

    An event sink, and an `Approver` that says yes once to everything; `because` says why.
    """

    def __init__(self, out: TextIO, because: str) -> None:
        self._out = out
        self._because = because
        self._transcript = Transcript(detect() if out.isatty() else Colour.PLAIN)

    def emit(self, event: Event) -> None:
        """Print what the event finishes."""
        if isinstance(event, TurnStarted):
            self._transcript.user(event.message.text)
        self._transcript.add(event)
        self._print()

    async def ask(self, request: PermissionRequest) -> Answer:
        """Print the question and answer it."""
        self._transcript.request(request)
        self._transcript.text(
            f"{asked(request)} ({request.told_reason}) → yes, once ({self._because})"
        )
        self._print()
        return Answer(Choice.ONCE)

    def _print(self) -> None:
        self._out.write(self._transcript.take(columns_of(self._out)))
        self._out.flush()
