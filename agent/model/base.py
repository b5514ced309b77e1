"""The port to a model: what is asked, what streams back, and how it can fail."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from tools.record import record

if TYPE_CHECKING:
    from agent.messages import Message
    from tools.definition import JsonObject


@record
class ModelRequest:
    """One request. `tools` are wire schemas in the order they are sent (stable across turns)."""

    system: str
    messages: Sequence[Message]
    tools: Sequence[JsonObject] = ()


@record
class TextDelta:
    """A piece of the answer."""

    text: str


@record
class ReasoningDelta:
    """A piece of the model's reasoning, where the server shows it."""

    text: str


@record
class CallDelta:
    """One complete tool call: clients assemble the pieces (`arguments_json` as it arrived)."""

    id: str
    name: str
    arguments_json: str


@record
class UsageDelta:
    """What the server says it counted, in tokens. `cached` is the part of `input` from a cache."""

    input: int
    output: int
    cached: int = 0


class FinishReason(StrEnum):
    """Why the answer ended. TRUNCATED: the output limit; calls cut by it are not delivered."""

    STOP = "stop"
    CALLS = "calls"
    TRUNCATED = "truncated"
    FILTERED = "filtered"


@record
class Finished:
    """The end of the stream. `extras`: see AssistantMessage.extras."""

    reason: FinishReason
    extras: Mapping[str, Any] | None = None


Delta: TypeAlias = TextDelta | ReasoningDelta | CallDelta | UsageDelta | Finished


class FailureKind(StrEnum):
    """What went wrong, as far as the person's next step depends on it."""

    NO_KEY = "no_key"
    UNAUTHORISED = "unauthorised"
    UNKNOWN_MODEL = "unknown_model"
    NO_CONNECTION = "no_connection"
    RATE_LIMITED = "rate_limited"
    SERVER = "server"
    CONTEXT_TOO_LONG = "context_too_long"
    IMAGES_REFUSED = "images_refused"
    CUT = "cut"
    REJECTED = "rejected"


class ModelError(Exception):
    """A request failed.

    The message is one sentence for the person, `next_step` another. `retry_after_s` is the
    server's own wish in seconds; `transient` says that the same request may succeed later.
    """

    def __init__(
        self,
        kind: FailureKind,
        message: str,
        *,
        next_step: str = "",
        transient: bool = False,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.next_step = next_step
        self.transient = transient
        self.retry_after_s = retry_after_s


class ModelClient(Protocol):
    """A model. One request is under way at a time."""

    def stream(self, request: ModelRequest) -> AsyncIterator[Delta]:
        """Send one request and yield its deltas; the last one is `Finished`.

        Makes one attempt: retrying is the loop's business. Raises ModelError.
        """
        ...

    async def aclose(self) -> None:
        """Close connections."""
        ...
