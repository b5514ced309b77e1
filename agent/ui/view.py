"""What the lines below the scrollback show."""

from __future__ import annotations

from prompt_toolkit.formatted_text import StyleAndTextTuples

from agent.ui.activity import WAITING, WAITING_FOR_ANSWER, Activity, toolbar
from agent.ui.attention import State
from agent.ui.control import Control
from agent.ui.port import ChatPort
from agent.ui.questions import WHY_NOT, Questions
from agent.ui.transcript import Transcript
from agent.ui.turns import Turns
from agent.ui.wrap import shorten

TAIL_ROWS = 8
"""The greatest height of the open end of an answer."""

_SHOWN_QUEUE = 3

_ROOMY_ROWS = 16
"""From this height on, an empty line stands between what was said and what is drawn again."""


class View:
    """Reads the parts of the chat; every line it gives ends with a newline."""

    def __init__(
        self,
        port: ChatPort,
        transcript: Transcript,
        activity: Activity,
        turns: Turns,
        questions: Questions,
        control: Control,
    ) -> None:
        self._port = port
        self._transcript = transcript
        self._activity = activity
        self._turns = turns
        self._control = control
        self.questions = questions

    @property
    def state(self) -> State:
        """What opta does now."""
        if self.questions.is_open():
            return State.ASKING
        return State.WORKING if self._turns.running else State.IDLE

    def live(self, columns: int, rows: int) -> StyleAndTextTuples:
        """Return the open end of the answer, what opta is doing, and what waits."""
        lines: StyleAndTextTuples = []
        if not self.questions.is_choosing():
            if rows >= _ROOMY_ROWS and self._transcript.printed:
                lines.append(("", "\n"))
            height = min(TAIL_ROWS, max(rows // 3, 1))
            tail = self._transcript.tail(columns, height)
            lines += [("class:tail", f"{line}\n") for line in tail]
            if not tail:
                thought = self._transcript.reasoning(columns, height)
                lines += [("class:reasoning", f"{line}\n") for line in thought]
            if self._turns.running:
                lines.append(("class:status", f"{self._doing(columns)}\n"))
        queue = self._turns.queue
        waiting = [f"queued: {' '.join(text.split())}" for text in queue[:_SHOWN_QUEUE]]
        if len(queue) > _SHOWN_QUEUE:
            waiting.append(f"… and {len(queue) - _SHOWN_QUEUE} more queued")
        lines += [("class:queued", f"{shorten(text, columns)}\n") for text in waiting]
        return lines

    def _doing(self, columns: int) -> str:
        if self.questions.is_answering():
            why_not = self.questions.asked == WHY_NOT
            return shorten(WAITING if why_not else WAITING_FOR_ANSWER, columns)
        return self._activity.line(columns) if self._turns.stoppable else "stopping"

    def panel(self, columns: int, rows: int) -> StyleAndTextTuples:
        """Return the open question, nothing when there is none."""
        menu = self.questions.menu
        return menu.fragments(columns, max(rows - 3, 3)) if menu is not None else []

    def toolbar(self, columns: int, rows: int) -> StyleAndTextTuples:
        """Return the bottom line."""
        if self._control.hint:
            return [("class:hint", f"{shorten(self._control.hint, columns)}\n")]
        return [*toolbar(self._port.status(), columns), ("", "\n")]
