"""Writes a conversation as a Responses API request.

The server keeps nothing (`store: false`): every request carries the conversation, and with it the
encrypted reasoning that the server handed out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agent.messages import AssistantMessage, Image, ToolMessage
from agent.model.base import ModelRequest
from agent.model.options import ModelOptions
from agent.model.traits import ServerTraits
from agent.model.wire_json import history_arguments, to_bytes
from agent.model.wire_request import (
    MessageEncoder,
    ToolsEncoder,
    extras_for,
    json_object,
)
from tools.definition import JsonObject, wire_name

OUTPUT = "_output"
"""Key of `AssistantMessage.extras`: the answer's items in order, only reasoning whole."""


class ResponsesRequestWriter:
    """Writes the requests of one client. `origin` names its server and model."""

    def __init__(
        self, model: str, origin: str, options: ModelOptions, traits: ServerTraits
    ) -> None:
        self._traits = traits
        self._fixed = {
            "model": to_bytes(model),
            **{key: to_bytes(value) for key, value in options.body.items()},
            "stream": b"true",
            "store": b"false",
            "include": b'["reasoning.encrypted_content"]',
        }
        if options.max_output_tokens:
            self._fixed["max_output_tokens"] = to_bytes(options.max_output_tokens)
        self._messages = MessageEncoder(ResponsesMessageWriter(origin, traits))
        self._tools = ToolsEncoder(_tool)

    def body(self, request: ModelRequest) -> tuple[bytes, frozenset[str]]:
        """Return the request's bytes and the names of its top-level keys."""
        fields: dict[str, bytes | list[bytes]] = {**self._fixed}
        if request.system:
            fields["instructions"] = to_bytes(request.system)
        fields["input"] = self._messages.encode(request.messages, self._traits)
        if request.tools:
            fields["tools"] = self._tools.encode(request.tools)
        sent = {k: v for k, v in fields.items() if k not in self._traits.dropped}
        return json_object(sent), frozenset(sent)


class ResponsesMessageWriter:
    """Writes messages as input items; see `MessageWriter`."""

    def __init__(self, origin: str, traits: ServerTraits) -> None:
        self._origin = origin
        self._traits = traits

    def user(self, text: str, images: Sequence[Image]) -> JsonObject:
        """Return what the person said."""
        message: JsonObject = {"type": "message", "role": "user", "content": text}
        if images:
            parts = [{"type": "input_image", "image_url": image.url} for image in images]
            message["content"] = [{"type": "input_text", "text": text}, *parts]
        return message

    def result(self, message: ToolMessage, call_id: str) -> JsonObject:
        """Return the result of a call."""
        return {"type": "function_call_output", "call_id": call_id, "output": message.result.text}

    def assistant(self, message: AssistantMessage, ids: tuple[str, ...]) -> list[JsonObject]:
        """Return the items of an answer, in the order they came."""
        calls = {
            call.id: {
                "type": "function_call",
                "call_id": wire_id,
                "name": wire_name(call.name) or "unknown",
                "arguments": history_arguments(call.arguments_json),
            }
            for call, wire_id in zip(message.calls, ids, strict=True)
        }
        text = [_text_item(message.model_text)] if message.model_text else []
        items: list[JsonObject] = []
        known = extras_for(message, self._origin) if self._traits.reasoning_back else {}
        for item in known.get(OUTPUT, ()):
            match item:
                case {"type": "reasoning"}:
                    items.append(item)
                case {"type": "function_call", "call_id": call_id} if call_id in calls:
                    items.append(calls.pop(call_id))
                case {"type": "message"} if text:
                    items.append(text.pop() | item)
        return [*items, *text, *calls.values()]


def _text_item(text: str) -> JsonObject:
    return {"type": "message", "role": "assistant", "content": text}


def _tool(tool: JsonObject) -> JsonObject:
    function: dict[str, Any] = tool["function"]
    return {"type": "function", **function, "strict": False}
