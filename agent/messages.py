"""The messages of a conversation, independent of any API's wire format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from tools.record import record

if TYPE_CHECKING:
    from tools.definition import ToolCall, ToolResult

BY_PERSON = "you-"
"""How the ids of calls begin that the person typed."""


@record
class Image:
    """An image as requests hold it: its media type (`image/png`) and its bytes in base64."""

    media_type: str
    base64: str

    @property
    def url(self) -> str:
        """The image as a `data:` address (RFC 2397)."""
        return f"data:{self.media_type};base64,{self.base64}"


@dataclass(frozen=True, eq=False)
class UserMessage:
    """What the person said. `context` is text opta adds for the model before it (may be empty).

    The summary of what was said before is a context without a text. `at` is when it was said, in
    seconds since 1970; None where that is not known.
    """

    text: str
    context: str = ""
    images: tuple[Image, ...] = ()
    at: float | None = None

    @property
    def model_text(self) -> str:
        """The text as the model sees it: the context first."""
        return "\n\n".join(filter(None, (self.context, self.text)))


@dataclass(frozen=True, eq=False)
class AssistantMessage:
    """What the model answered.

    `reasoning` and `extras` are what some servers want back unchanged with the next request
    (`reasoning_content`, `reasoning_details`, thought signatures); `extras` maps a field name of
    the wire message to its value. `interrupted` marks text that was cut by the person.
    """

    text: str
    calls: tuple[ToolCall, ...] = ()
    reasoning: str = ""
    extras: Mapping[str, Any] = field(default_factory=dict)
    interrupted: bool = False

    @property
    def model_text(self) -> str:
        """The text as the model sees it later: an interruption is said, never left silent."""
        return f"{self.text}\n[interrupted by the user]".lstrip() if self.interrupted else self.text


@dataclass(frozen=True, eq=False)
class ToolMessage:
    """The answer to one call. `title` is the call in a few words for people, where it is known."""

    call: ToolCall
    result: ToolResult
    title: str = ""


Message: TypeAlias = UserMessage | AssistantMessage | ToolMessage
