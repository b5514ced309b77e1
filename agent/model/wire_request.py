"""What requests of all APIs have in common: a body put together from bytes that were made once."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from agent.messages import AssistantMessage, Image, Message, ToolMessage, UserMessage
from agent.model.traits import ServerTraits
from agent.model.wire_ids import WireIds
from agent.model.wire_json import to_bytes
from tools.definition import JsonObject

ORIGIN = "_origin"
"""Key of `AssistantMessage.extras`: the server and model whose extras they are. Other servers
refuse them, so they go back to nobody else."""


BETWEEN = AssistantMessage("OK.")
"""Stands between a tool and a user message where a server insists on an answer there."""


class MessageWriter(Protocol):
    """Writes messages in the form of one API."""

    def user(self, text: str, images: Sequence[Image]) -> JsonObject:
        """Return the wire object of what the person said, and of the images they handed over."""
        ...

    def assistant(self, message: AssistantMessage, ids: tuple[str, ...]) -> list[JsonObject]:
        """Return the wire objects of an answer; `ids` are the ids of its calls."""
        ...

    def result(self, message: ToolMessage, call_id: str) -> JsonObject:
        """Return the wire object of the result of the call `call_id`."""
        ...


class MessageEncoder:
    """Writes messages, each one once.

    A conversation grows at its end, so what the last request held is kept as bytes and only what
    was added is written; a history that was changed (compacted, pruned) is written anew. The
    same messages always give the same bytes, which is what prompt caches live on.
    """

    def __init__(self, writer: MessageWriter) -> None:
        self._writer = writer
        self._rules: object = None
        self._restart()

    def encode(self, messages: Sequence[Message], traits: ServerTraits) -> list[bytes]:
        """Return the wire objects of a conversation, in order.

        User messages in a row become one, as some chat templates refuse two. An answer without
        text and calls is left out.
        """
        rules = (
            traits.nine_character_ids,
            traits.assistant_after_tool,
            traits.reasoning_back,
            traits.reasoning_required,
        )
        known = self._messages
        grown = len(known) <= len(messages) and all(map(operator.is_, known, messages))
        if rules != self._rules or not grown:
            self._restart()
            self._rules = rules
            self._ids = WireIds(nine=traits.nine_character_ids)
        # The user messages at the end may still be joined by more: they are not kept.
        end = len(messages)
        while end > len(self._messages) and not _is_sent_alone(messages[end - 1]):
            end -= 1
        added = messages[len(self._messages) : end]
        self._encoded += self._write(added, traits)
        self._messages += added
        return self._encoded + self._write(messages[end:], traits)

    def _restart(self) -> None:
        self._messages: list[Message] = []
        self._encoded: list[bytes] = []
        self._ids = WireIds(nine=False)
        self._after_tool = False

    def _write(self, messages: Sequence[Message], traits: ServerTraits) -> list[bytes]:
        objects: list[JsonObject] = []
        for turn in _merged(messages):
            match turn:
                case ToolMessage():
                    objects.append(self._writer.result(turn, self._ids.of_result(turn.call)))
                case AssistantMessage():
                    objects += self._writer.assistant(turn, self._ids.of_calls(turn.calls))
                case users:
                    if self._after_tool and traits.assistant_after_tool:
                        objects += self._writer.assistant(BETWEEN, ())
                    text = "\n\n".join(user.model_text for user in users)
                    images = [image for user in users for image in user.images]
                    objects.append(self._writer.user(text, images))
            self._after_tool = isinstance(turn, ToolMessage)
        return [to_bytes(item) for item in objects]


class ToolsEncoder:
    """Writes the tools of a request once, for as long as they are the same objects."""

    def __init__(self, write: Callable[[JsonObject], JsonObject]) -> None:
        self._write = write
        self._tools: tuple[JsonObject, ...] = ()
        self._encoded: list[bytes] = []

    def encode(self, tools: Sequence[JsonObject]) -> list[bytes]:
        """Return the wire objects of the tools."""
        same = len(tools) == len(self._tools) and all(map(operator.is_, tools, self._tools))
        if not same:
            self._tools = tuple(tools)
            self._encoded = [to_bytes(self._write(tool)) for tool in tools]
        return self._encoded


def json_object(fields: Mapping[str, bytes | list[bytes]]) -> bytes:
    """Return a JSON object of encoded values; lists of encoded items become arrays.

    All of it is joined once: at the end of a long conversation a copy costs more than the rest.
    """
    parts = []
    for key, value in fields.items():
        parts += [b",", to_bytes(key), b":"]
        if isinstance(value, bytes):
            parts.append(value)
        else:
            items = [part for item in value for part in (b",", item)]
            parts += [b"[", *items[1:], b"]"]
    return b"".join([b"{", *parts[1:], b"}"])


def extras_for(message: AssistantMessage, origin: str) -> Mapping[str, Any]:
    """Return what `message` carries for the server it came from, nothing for any other."""
    return message.extras if message.extras.get(ORIGIN) == origin else {}


def _merged(
    messages: Sequence[Message],
) -> Iterator[ToolMessage | AssistantMessage | list[UserMessage]]:
    users: list[UserMessage] = []
    for message in messages:
        if isinstance(message, UserMessage):
            users.append(message)
            continue
        if not _is_sent_alone(message):
            continue
        if users:
            yield users
            users = []
        yield message
    if users:
        yield users


def _is_sent_alone(message: Message) -> bool:
    match message:
        case UserMessage():
            return False
        case AssistantMessage():
            return bool(message.model_text or message.calls)
        case ToolMessage():
            return True
