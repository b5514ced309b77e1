"""Reads the stream of a Chat Completions answer.

Servers differ in how they cut calls into pieces, where they put reasoning and how they end. What
arrived is trusted over what the server says about it.
"""

from __future__ import annotations

import json
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
from agent.model.base import Delta, FailureKind, FinishReason, ModelError, UsageDelta
from agent.model.chat_request import CALL_EXTRAS, REASONING_FIELD
from agent.model.failures import Target, cut
from agent.model.sse import SseEvent
from agent.model.wire_request import ORIGIN
from tools.definition import JsonObject

REASONING_FIELDS = ("reasoning_content", "reasoning", "reasoning_text")
SENT_BACK = "reasoning_content"
"""The one of them that servers want back."""

_FAILED = frozenset({"error", "network_error", "unexpected_tool_call"})


class ChatAssembler(Assembler):
    """Puts one answer of Chat Completions together."""

    def __init__(
        self, used_ids: set[str], origin: str, target: Target, headers: Mapping[str, str]
    ) -> None:
        super().__init__(used_ids, origin, target, headers)
        self._calls = CallPieces()
        self._reasoning_field = ""
        self._details = ReasoningDetails()
        self._reason = ""

    def feed(self, event: SseEvent) -> None:
        """Take the next event. Raises ModelError where it reports one."""
        if event.data == "[DONE]":
            self.complete = True
            return
        chunk = parsed_event(event)
        if not isinstance(chunk, dict):
            return
        if chunk.get("error") or event.event == "error":
            raise self._failure(chunk)
        if usage := chunk.get("usage"):
            self._usage = _usage(usage)
        for choice in chunk.get("choices") or ():
            self._take_choice(choice)

    def end(self) -> list[Delta]:
        """Return what is left, `Finished` last. Raises ModelError (CUT) where an end is missing."""
        self._content.end()
        if not (self.finished or self.complete):
            raise cut("the stream ended before the answer did")
        reason = finish_reason(self._reason)
        calls = finished_calls(self._calls.in_order, self._used_ids, reason)
        if reason is None and not (calls or self._buffer.has_text):
            raise cut(f"the server ended it without an answer ({self._reason or 'no reason'})")
        return self._buffer.drain() + last_deltas(
            calls, self._usage, reason or FinishReason.STOP, self._extras([c.id for c in calls])
        )

    def _take_choice(self, choice: JsonObject) -> None:
        delta = choice.get("delta") or choice.get("message") or {}
        self._take_reasoning(delta)
        if content := delta.get("content"):
            self._take_content(content)
        if refusal := delta.get("refusal"):
            self._buffer.text(str(refusal))
        for piece in delta.get("tool_calls") or ():
            self._calls.add(piece)
        if function := delta.get("function_call"):
            self._calls.add({"index": 0, "function": function})
        if reason := choice.get("finish_reason"):
            self._take_reason(str(reason))

    def _take_content(self, content: object) -> None:
        if isinstance(content, str):
            self._content.feed(content)
            return
        for part in content if isinstance(content, list) else ():
            if not isinstance(part, dict):
                continue
            if thinking := part.get("thinking"):
                self._buffer.reasoning(_flat(thinking))
            elif text := part.get("text"):
                self._content.feed(str(text))

    def _take_reasoning(self, delta: JsonObject) -> None:
        for name in REASONING_FIELDS:
            piece = delta.get(name)
            if piece and isinstance(piece, str):
                self._reasoning_field = self._reasoning_field or name
                self._buffer.reasoning(piece)
                break
        for detail in delta.get("reasoning_details") or ():
            self._details.add(detail)

    def _take_reason(self, reason: str) -> None:
        if reason.lower() in _FAILED:
            raise ModelError(
                FailureKind.SERVER,
                f"The model server gave up in the middle of the answer ({reason}).",
                next_step="Try again in a moment.",
                transient=True,
            )
        self._reason = reason
        self.finished = True

    def _extras(self, call_ids: list[str]) -> JsonObject:
        extras: JsonObject = {}
        if self._reasoning_field == SENT_BACK:
            extras[REASONING_FIELD] = SENT_BACK
        if self._details.merged:
            extras["reasoning_details"] = self._details.merged
        made = zip(call_ids, self._calls.in_order, strict=False)
        if of_calls := {call_id: call.extras for call_id, call in made if call.extras}:
            extras[CALL_EXTRAS] = of_calls
        return {ORIGIN: self._origin, **extras} if extras else {}


class CallPieces:
    """Sorts the pieces of tool calls.

    A piece belongs to the call of its index or id. Where servers leave both out, or give every
    call the index 0, a name that comes with a new id, or after complete arguments, begins a call.
    """

    def __init__(self) -> None:
        self.in_order: list[CallBuilder] = []
        self._by_index: dict[int, CallBuilder] = {}
        self._by_id: dict[str, CallBuilder] = {}

    def add(self, piece: JsonObject) -> None:
        """Take a piece as it came in a delta."""
        function = piece.get("function") or {}
        name = str(function.get("name") or "")
        given = piece.get("id")
        call_id = "" if given is None else str(given)
        index = piece.get("index")
        call = self._find(index, call_id, name, bool(function.get("arguments")))
        call.id = call.id or call_id
        call.name = call.name or name
        if call_id:
            self._by_id.setdefault(call_id, call)
        if isinstance(index, int):
            self._by_index[index] = call
        if extra := piece.get("extra_content"):
            call.extras["extra_content"] = extra
        _add_arguments(call, function.get("arguments"))

    def _find(self, index: object, call_id: str, name: str, has_arguments: bool) -> CallBuilder:
        if isinstance(index, int):
            call = self._by_index.get(index)
        elif call_id and (name or call_id in self._by_id):
            call = self._by_id.get(call_id)
        else:
            call = self.in_order[-1] if self.in_order else None
        if call is None or _begins_another(call, call_id, name, has_arguments):
            call = CallBuilder()
            self.in_order.append(call)
        return call


def _begins_another(call: CallBuilder, call_id: str, name: str, has_arguments: bool) -> bool:
    """Tell whether a piece that would go to `call` is really the first of another one."""
    if not name:
        return False
    if call_id and call.id:
        return call_id != call.id
    if name != call.name:
        return bool(call.name)
    return has_arguments and call.whole


def _add_arguments(call: CallBuilder, arguments: object) -> None:
    if isinstance(arguments, str):
        call.add(arguments)
    elif arguments is not None:
        call.arguments = json.dumps(arguments, ensure_ascii=False)


class ReasoningDetails:
    """Puts OpenRouter's `reasoning_details` together, which must go back as they were."""

    def __init__(self) -> None:
        self.merged: list[JsonObject] = []

    def add(self, detail: object) -> None:
        """Take a piece: it continues the newest detail of the same type and index."""
        if not isinstance(detail, dict):
            return
        last = self.merged[-1] if self.merged else {}
        same = all(detail.get(key) == last.get(key) for key in ("type", "index"))
        if not self.merged or not same or detail.get("index") is None:
            self.merged.append(dict(detail))
            return
        for key, value in detail.items():
            if key in {"text", "summary", "data"} and isinstance(value, str):
                last[key] = (last.get(key) or "") + value
            elif value is not None:
                last[key] = value


def _usage(usage: Any) -> UsageDelta | None:
    if not isinstance(usage, dict):
        return None
    return UsageDelta(
        token_count(usage, "prompt_tokens", "input_tokens"),
        token_count(usage, "completion_tokens", "output_tokens"),
        token_count(usage, "prompt_tokens_details.cached_tokens", "prompt_cache_hit_tokens"),
    )


def _flat(value: object) -> str:
    if isinstance(value, list):
        return "".join(_flat(part.get("text", "")) for part in value if isinstance(part, dict))
    return str(value)
