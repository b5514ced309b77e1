"""Rebuilds the history of a conversation from the events of its record."""

from __future__ import annotations

from collections.abc import Iterable

from agent.conversation import Conversation
from agent.events import (
    AssistantFinished,
    ContextCompacted,
    Event,
    ImagesDropped,
    MessageAdded,
    RequestStarted,
    Rewound,
    TurnFinished,
    TurnStarted,
)
from agent.messages import BY_PERSON, AssistantMessage, Message, ToolMessage, UserMessage
from agent.model.base import TextDelta
from tools.definition import Outcome, ToolCall, ToolResult
from tools.events import CallFinished, CallOutput, CallStarted

STOPPED_BEFORE = "Not run: opta was stopped before it started. Nothing was done."
STOPPED_DURING = (
    "The outcome is unknown: opta was stopped while this ran. Check before doing it again."
)


def replay(events: Iterable[Event]) -> list[Message]:
    """Return the history that events leave behind: valid, every call with a result.

    A call without one says whether it had started; an answer that was cut keeps its text and is
    marked as interrupted.
    """
    replayed = _Replay()
    for event in events:
        replayed.take(event)
    return replayed.finish()


def unsent(events: Iterable[Event]) -> tuple[CallFinished, ...]:
    """Return the commands the person ran after the last message: the model has not seen them."""
    found: list[CallFinished] = []
    for event in events:
        if isinstance(event, TurnStarted):
            found.clear()
        elif isinstance(event, CallFinished) and event.call.id.startswith(BY_PERSON):
            found.append(event)
    return tuple(found)


class _Replay:
    def __init__(self) -> None:
        self._conversation = Conversation("")
        self._answer: AssistantMessage | None = None
        self._results: dict[int, ToolResult] = {}
        self._titles: dict[int, str] = {}
        self._started: set[str] = set()
        self._output: dict[str, str] = {}
        self._text: list[str] = []
        self._in_turn = False

    def take(self, event: Event) -> None:
        match event:
            case TurnStarted(message):
                self._close_turn()
                self._conversation.add_user(message)
                self._in_turn = True
            case MessageAdded(message):
                self._close_calls()
                self._conversation.add_user(message)
            case RequestStarted():
                self._close_calls()
                self._text = []
            case TextDelta(text):
                self._text.append(text)
            case AssistantFinished(message):
                self._close_calls()
                self._answer, self._text = message, []
            case CallStarted() | CallOutput() | CallFinished():
                self._take_of_call(event)
            case ContextCompacted(summary, kept):
                self._close_calls()
                self._compact(summary, kept)
            case Rewound(kept):
                self._close_turn()
                self._rewind(kept)
            case ImagesDropped():
                self._conversation.drop_images()
            case TurnFinished():
                self._close_turn()
                self._in_turn = False

    def _take_of_call(self, event: CallStarted | CallOutput | CallFinished) -> None:
        match event:
            case CallStarted(call):
                self._started.add(call.id)
            case CallOutput(call_id, text):
                self._output[call_id] = self._output.get(call_id, "") + text
            case CallFinished(call, title, result):
                self._finish_call(call, title, result)

    def finish(self) -> list[Message]:
        self._close_turn()
        return self._conversation.messages

    def _compact(self, summary: str, kept: int) -> None:
        self._conversation.compact(summary, max(kept, 0))
        messages = self._conversation.messages
        # Where damaged lines shifted the count, the cut may fall between a call and its result.
        while len(messages) > 1 and isinstance(messages[1], ToolMessage):
            del messages[1]

    def _rewind(self, kept: int) -> None:
        self._conversation.rewind(max(kept, 0))
        messages = self._conversation.messages
        # Where damaged lines shifted the count, the cut may fall between calls and their results.
        end = len(messages)
        while end and isinstance(messages[end - 1], ToolMessage):
            end -= 1
        asked = messages[end - 1] if end else None
        if isinstance(asked, AssistantMessage) and len(asked.calls) != len(messages) - end:
            del messages[end - 1 :]

    def _finish_call(self, call: ToolCall, title: str, result: ToolResult) -> None:
        calls = self._answer.calls if self._answer else ()
        # Some servers give several calls of one message the same id: take them in their order.
        for position, asked in enumerate(calls):
            if asked.id == call.id and position not in self._results:
                self._results[position] = result
                self._titles[position] = title
                return

    def _close_calls(self) -> None:
        """Commit the last answer, giving the calls that have no result one."""
        answer, self._answer = self._answer, None
        if answer is not None:
            results = [
                self._results.get(position) or self._unfinished(call)
                for position, call in enumerate(answer.calls)
            ]
            titles = [self._titles.get(position, "") for position in range(len(results))]
            self._conversation.commit(answer, results, titles)
        self._results, self._titles, self._started, self._output = {}, {}, set(), {}

    def _close_turn(self) -> None:
        self._close_calls()
        messages = self._conversation.messages
        text, self._text = "".join(self._text), []
        unanswered = self._in_turn and messages and isinstance(messages[-1], UserMessage)
        if text or unanswered:
            self._conversation.commit(AssistantMessage(text, interrupted=True))

    def _unfinished(self, call: ToolCall) -> ToolResult:
        if call.id not in self._started:
            return ToolResult(STOPPED_BEFORE, Outcome.CANCELLED)
        output = self._output.get(call.id, "").rstrip("\n")
        text = f"{STOPPED_DURING} Its output until then:\n{output}" if output else STOPPED_DURING
        return ToolResult(text, Outcome.CANCELLED)
