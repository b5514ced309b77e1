"""Writes a conversation as a Chat Completions request."""

from __future__ import annotations

from collections.abc import Sequence

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

CALL_EXTRAS = "_calls"
"""Key of `AssistantMessage.extras`: call id to what its entry in `tool_calls` carried besides."""

REASONING_FIELD = "_reasoning_field"
"""Key of `AssistantMessage.extras`: the field that `AssistantMessage.reasoning` goes back in."""


class ChatRequestWriter:
    """Writes the requests of one client. `origin` names its server and model."""

    def __init__(
        self, model: str, origin: str, options: ModelOptions, traits: ServerTraits
    ) -> None:
        self._options = options
        self._traits = traits
        self._fixed = {
            "model": to_bytes(model),
            **{key: to_bytes(value) for key, value in options.body.items()},
            "stream": b"true",
        }
        self._messages = MessageEncoder(ChatMessageWriter(origin, traits))
        self._tools = ToolsEncoder(lambda tool: tool)

    def body(self, request: ModelRequest) -> tuple[bytes, frozenset[str]]:
        """Return the request's bytes and the names of its top-level keys."""
        traits = self._traits
        messages = self._messages.encode(request.messages, traits)
        if request.system:
            messages.insert(0, to_bytes({"role": "system", "content": request.system}))
        fields: dict[str, bytes | list[bytes]] = {
            **self._fixed,
            "stream_options": b'{"include_usage":true}',
        }
        fields["messages"] = messages
        if request.tools:
            fields["tools"] = self._tools.encode(request.tools)
        if self._options.max_output_tokens and traits.output_limit_key:
            fields[traits.output_limit_key] = to_bytes(self._options.max_output_tokens)
        sent = {key: value for key, value in fields.items() if key not in traits.dropped}
        return json_object(sent), frozenset(sent)


class ChatMessageWriter:
    """Writes messages; see `MessageWriter`."""

    def __init__(self, origin: str, traits: ServerTraits) -> None:
        self._origin = origin
        self._traits = traits

    def user(self, text: str, images: Sequence[Image]) -> JsonObject:
        """Return what the person said: text alone as such, for servers that know nothing else."""
        if not images:
            return {"role": "user", "content": text}
        parts = [{"type": "image_url", "image_url": {"url": image.url}} for image in images]
        return {"role": "user", "content": [{"type": "text", "text": text}, *parts]}

    def result(self, message: ToolMessage, call_id: str) -> JsonObject:
        """Return the result of a call."""
        return {"role": "tool", "tool_call_id": call_id, "content": message.result.text}

    def assistant(self, message: AssistantMessage, ids: tuple[str, ...]) -> list[JsonObject]:
        """Return an answer, with what its server wants back."""
        wire: JsonObject = {"role": "assistant", "content": message.model_text}
        if not message.calls:
            return [wire]
        extras = extras_for(message, self._origin) if self._traits.reasoning_back else {}
        of_calls = extras.get(CALL_EXTRAS, {})
        wire["tool_calls"] = [
            {
                "id": wire_id,
                "type": "function",
                "function": {
                    "name": wire_name(call.name) or "unknown",
                    "arguments": history_arguments(call.arguments_json),
                },
                **of_calls.get(call.id, {}),
            }
            for call, wire_id in zip(message.calls, ids, strict=True)
        ]
        wire |= {key: value for key, value in extras.items() if not key.startswith("_")}
        if field := extras.get(REASONING_FIELD):
            wire[field] = message.reasoning
        if self._traits.reasoning_required and not wire.get("reasoning_content"):
            wire["reasoning_content"] = message.reasoning or " "
        return [wire]
