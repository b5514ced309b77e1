"""What the readers of all APIs share: the deltas of one answer, and how it ended."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

from agent.model.base import (
    CallDelta,
    Delta,
    Finished,
    FinishReason,
    ModelError,
    ReasoningDelta,
    TextDelta,
    UsageDelta,
)
from agent.model.failures import Problem, Target, cut, error_for
from agent.model.sse import SseEvent
from agent.model.wire_ids import unused_id
from agent.model.wire_json import decode, is_object
from tools.definition import JsonObject


class DeltaBuffer:
    """Collects deltas; pieces of the same kind that arrived together become one."""

    def __init__(self) -> None:
        self.has_text = False
        self._pieces: list[str] = []
        self._reasoning = False
        self._deltas: list[Delta] = []

    def text(self, piece: str) -> None:
        """Take a piece of the answer."""
        if self._reasoning:
            self._close_run()
            self._reasoning = False
        if piece:
            self._pieces.append(piece)
            self.has_text = True

    def reasoning(self, piece: str) -> None:
        """Take a piece of reasoning."""
        if not self._reasoning:
            self._close_run()
            self._reasoning = True
        if piece:
            self._pieces.append(piece)

    def drain(self) -> list[Delta]:
        """Return what was collected since the last call."""
        self._close_run()
        deltas, self._deltas = self._deltas, []
        return deltas

    def _close_run(self) -> None:
        if self._pieces:
            kind = ReasoningDelta if self._reasoning else TextDelta
            self._deltas.append(kind("".join(self._pieces)))
            self._pieces = []


class ThinkTags:
    """Tells reasoning in `<think>` tags at the start of the text from the answer behind it.

    Local servers without a reasoning parser leave the tags in the content. Tags further on are
    text like any other.
    """

    OPEN = "<think>"
    CLOSE = "</think>"

    def __init__(self, buffer: DeltaBuffer) -> None:
        self._buffer = buffer
        self._held = ""
        self._state = "start"

    def feed(self, piece: str) -> None:
        """Take the next piece of content."""
        if self._state == "text":
            self._buffer.text(piece)
            return
        self._held += piece
        if self._state == "start":
            self._at_start()
        if self._state == "thinking":
            self._thinking()
        if self._state == "after" and (text := self._held.lstrip()):
            self._to_text(text)

    def end(self) -> None:
        """Hand on what was held back in case it became a tag."""
        if self._state == "thinking":
            self._buffer.reasoning(self._held)
        elif self._held.strip():
            self._buffer.text(self._held)
        self._held = ""

    def _at_start(self) -> None:
        text = self._held.lstrip()
        if text.startswith(self.OPEN):
            self._state, self._held = "thinking", text.removeprefix(self.OPEN).lstrip()
        elif not self.OPEN.startswith(text):
            self._to_text(self._held)

    def _thinking(self) -> None:
        inside, close, behind = self._held.partition(self.CLOSE)
        if close:
            self._buffer.reasoning(inside.rstrip())
            self._state, self._held = "after", behind
            return
        keep = max(n for n in range(len(self.CLOSE)) if self._held.endswith(self.CLOSE[:n]))
        cut = len(self._held) - keep
        self._buffer.reasoning(self._held[:cut])
        self._held = self._held[cut:]

    def _to_text(self, text: str) -> None:
        self._state, self._held = "text", ""
        self._buffer.text(text)


class Assembler(ABC):
    """Puts one answer together from the events of its stream.

    `finished`: the model has said that it is done; usage may still follow. `complete`: nothing more
    is to come.
    """

    def __init__(
        self, used_ids: set[str], origin: str, target: Target, headers: Mapping[str, str]
    ) -> None:
        """Begin. `used_ids` are the call ids of the conversation so far, `origin` names server and
        model, `headers` came before the stream."""
        self.finished = False
        self.complete = False
        self._used_ids = used_ids
        self._origin = origin
        self._target = target
        self._headers = headers
        self._buffer = DeltaBuffer()
        self._content = ThinkTags(self._buffer)
        self._usage: UsageDelta | None = None

    @abstractmethod
    def feed(self, event: SseEvent) -> None:
        """Take the next event. Raises ModelError where it reports one."""

    @abstractmethod
    def end(self) -> list[Delta]:
        """Return what is left, `Finished` last. Raises ModelError (CUT) where an end is missing."""

    def drain(self) -> list[Delta]:
        """Return the deltas that arrived since the last call."""
        return self._buffer.drain()

    def _failure(self, said: JsonObject) -> ModelError:
        """Return the error for what the server reports within the stream."""
        return error_for(Problem.in_stream(said.get("error") or said, self._headers), self._target)


class CallBuilder:
    """One tool call while its pieces arrive."""

    def __init__(self) -> None:
        self.id = ""
        self.name = ""
        self.extras: JsonObject = {}
        self._arguments: list[str] = []

    @property
    def arguments(self) -> str:
        """The arguments as far as they arrived."""
        return "".join(self._arguments)

    @arguments.setter
    def arguments(self, whole: str) -> None:
        self._arguments = [whole]

    def add(self, piece: str) -> None:
        """Take the next piece of the arguments."""
        self._arguments.append(piece)

    @property
    def whole(self) -> bool:
        """True when the arguments are a complete JSON object."""
        return is_object(self.arguments)


def finished_calls(
    calls: list[CallBuilder], used_ids: set[str], reason: FinishReason | None
) -> list[CallDelta]:
    """Return the calls of a complete answer, with usable ids and `{}` for no arguments.

    Malformed arguments go on as they are: whoever runs the call answers them. In an answer that
    was stopped the last call was cut unless its arguments are whole, and is left out.
    """
    if reason in _STOPPED and calls and not calls[-1].whole:
        calls = calls[:-1]
    return [
        CallDelta(
            unused_id(call.id or call.name + str(number), used_ids),
            call.name,
            call.arguments if call.arguments.strip() else "{}",
        )
        for number, call in enumerate(calls)
    ]


def parsed_event(event: SseEvent) -> object:
    """Return the JSON of an event, None for an empty one. Raises ModelError for anything else."""
    if not event.data:
        return None
    try:
        return decode(event.data)
    except (ValueError, RecursionError):
        if event.event == "error":
            return {"error": event.data}
        raise cut("the server sent a line that is not JSON") from None


_STOPPED = (FinishReason.TRUNCATED, FinishReason.FILTERED)

_REASONS = {
    **dict.fromkeys(("stop", "end", "end_turn", "eos", "stop_sequence"), FinishReason.STOP),
    **dict.fromkeys(("tool_calls", "tool_use", "function_call"), FinishReason.CALLS),
    **dict.fromkeys(("length", "max_tokens", "max_output_tokens"), FinishReason.TRUNCATED),
    **dict.fromkeys(("content_filter", "safety", "refusal"), FinishReason.FILTERED),
}


def finish_reason(said: str | None) -> FinishReason | None:
    """Return what a server's word for the end means, None for a word that is not known."""
    return _REASONS.get((said or "").lower())


def token_count(usage: JsonObject, *names: str) -> int:
    """Return the first of the named counts that is there, else 0. `a.b` looks inside `a`."""
    for name in names:
        value: object = usage
        for part in name.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        if isinstance(value, int) and value:
            return value
    return 0


def last_deltas(
    calls: list[CallDelta],
    usage: UsageDelta | None,
    reason: FinishReason,
    extras: JsonObject,
) -> list[Delta]:
    """Return the end of an answer. Calls that came make it an answer of calls, whatever it said."""
    if calls and reason not in _STOPPED:
        reason = FinishReason.CALLS
    return [*calls, *([usage] if usage else []), Finished(reason, extras or None)]
