"""Reads the stream of a Responses API answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent.model.answer import (
    Assembler,
    CallBuilder,
    finish_reason,
    finished_calls,
    last_deltas,
    parsed_event,
    token_count,
)
from agent.model.base import Delta, FinishReason, UsageDelta
from agent.model.failures import Target, cut
from agent.model.responses_request import OUTPUT
from agent.model.sse import SseEvent
from agent.model.wire_request import ORIGIN
from tools.definition import JsonObject

_TEXT_DELTAS = frozenset({"response.output_text.delta", "response.refusal.delta"})
_REASONING_DELTAS = frozenset(
    {"response.reasoning_summary_text.delta", "response.reasoning_text.delta"}
)
_ENDS = frozenset({"response.completed", "response.incomplete"})


class ResponsesAssembler(Assembler):
    """Puts one answer of the Responses API together."""

    def __init__(
        self, used_ids: set[str], origin: str, target: Target, headers: Mapping[str, str]
    ) -> None:
        super().__init__(used_ids, origin, target, headers)
        self._items = OutputItems()
        self._reason: FinishReason = FinishReason.STOP

    def feed(self, event: SseEvent) -> None:
        """Take the next event. Raises ModelError where it reports one."""
        if event.data == "[DONE]":
            return
        data = parsed_event(event)
        if not isinstance(data, dict):
            return
        kind = str(data.get("type") or event.event)
        if kind in _TEXT_DELTAS:
            self._items.has_text.add(_place(data))
            self._content.feed(str(data.get("delta") or ""))
        elif kind in _REASONING_DELTAS:
            self._buffer.reasoning(str(data.get("delta") or ""))
        elif kind.startswith("response.function_call_arguments."):
            self._items.take_arguments(data, whole=kind.endswith(".done"))
        elif kind in {"response.output_item.added", "response.output_item.done"}:
            self._take_item(_place(data), data.get("item"), done=kind.endswith(".done"))
        elif kind in _ENDS or data.get("object") == "response":
            self._take_end(data.get("response") or data)
        elif kind in {"error", "response.failed"} or "error" in data:
            raise self._failure(data.get("response") or data)

    def end(self) -> list[Delta]:
        """Return what is left, `Finished` last. Raises ModelError (CUT) where an end is missing."""
        self._content.end()
        if not self.finished:
            raise cut("the stream ended before the answer did")
        calls = finished_calls(self._items.calls, self._used_ids, self._reason)
        extras = self._items.extras([call.id for call in calls])
        if extras:
            extras[ORIGIN] = self._origin
        return self._buffer.drain() + last_deltas(calls, self._usage, self._reason, extras)

    def _take_item(self, place: int, item: Any, *, done: bool) -> None:
        if not isinstance(item, dict):
            return
        self._items.take(place, item)
        if done and item.get("type") == "message" and place not in self._items.has_text:
            self._items.has_text.add(place)
            for part in item.get("content") or ():
                self._content.feed(str(part.get("text") or part.get("refusal") or ""))

    def _take_end(self, response: Any) -> None:
        if response.get("status") == "failed":
            raise self._failure(response)
        for place, item in enumerate(response.get("output") or ()):
            self._take_item(place, item, done=True)
        usage = response.get("usage")
        if isinstance(usage, dict):
            self._usage = UsageDelta(
                token_count(usage, "input_tokens", "prompt_tokens"),
                token_count(usage, "output_tokens", "completion_tokens"),
                token_count(usage, "input_tokens_details.cached_tokens"),
            )
        if response.get("status") == "incomplete":
            details = response.get("incomplete_details") or {}
            self._reason = finish_reason(details.get("reason")) or FinishReason.TRUNCATED
        self.finished = self.complete = True


class OutputItems:
    """The items of an answer by their place in it."""

    def __init__(self) -> None:
        self.has_text: set[int] = set()
        self._items: dict[int, JsonObject] = {}
        self._calls: dict[int, CallBuilder] = {}

    @property
    def calls(self) -> list[CallBuilder]:
        """The calls in the order of their places."""
        return [self._calls[place] for place in sorted(self._calls)]

    def take(self, place: int, item: JsonObject) -> None:
        """Take an item as it was added, or whole when it is done."""
        self._items[place] = item
        if item.get("type") != "function_call":
            return
        call = self._calls.setdefault(place, CallBuilder())
        call.id = str(item.get("call_id") or item.get("id") or call.id)
        call.name = str(item.get("name") or call.name)
        if arguments := item.get("arguments"):
            call.arguments = str(arguments)

    def take_arguments(self, data: JsonObject, *, whole: bool) -> None:
        """Take a piece of a call's arguments, or all of them."""
        call = self._calls.setdefault(_place(data), CallBuilder())
        if not whole:
            call.add(str(data.get("delta") or ""))
        elif arguments := data.get("arguments"):
            call.arguments = str(arguments)

    def extras(self, call_ids: list[str]) -> JsonObject:
        """Return the order of the items, if reasoning that can be sent back is among them."""
        ids = iter(call_ids)
        output: list[JsonObject] = []
        for place in sorted(self._items):
            match self._items[place]:
                case {"type": "reasoning", "encrypted_content": str()} as item:
                    output.append(
                        {k: v for k, v in item.items() if k != "status" and v is not None}
                    )
                case {"type": "function_call"} if call_id := next(ids, ""):
                    output.append({"type": "function_call", "call_id": call_id})
                case {"type": "message", "phase": str(phase)}:
                    output.append({"type": "message", "phase": phase})
                case {"type": "message"}:
                    output.append({"type": "message"})
        worth_keeping = any(i["type"] == "reasoning" or "phase" in i for i in output)
        return {OUTPUT: output} if worth_keeping else {}


def _place(data: JsonObject) -> int:
    place = data.get("output_index")
    return place if isinstance(place, int) else 0
