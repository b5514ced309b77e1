"""What a conversation tells its front ends and its journal: one union, in the order things happen.

An event sink is called synchronously, must not block and must not raise.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

from agent.model.base import ReasoningDelta, TextDelta, UsageDelta
from tools.events import CallEvent
from tools.record import record

if TYPE_CHECKING:
    from agent.messages import AssistantMessage, UserMessage


@record
class TurnStarted:
    """The person's text is about to go to the model."""

    message: UserMessage


@record
class MessageAdded:
    """What the person said while the model worked joins the turn: the next request holds it."""

    message: UserMessage


@record
class RequestStarted:
    """A request was sent; `number` counts the requests of this turn from 1."""

    number: int


@record
class RetryScheduled:
    """A request failed and is sent again after `delay_s` seconds."""

    reason: str
    delay_s: float
    attempt: int


@record
class AssistantFinished:
    """The whole answer to one request, as it enters the history."""

    message: AssistantMessage


class Level(StrEnum):
    """How loud a notice is."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@record
class Notice:
    """One line for the person that is not part of the conversation."""

    text: str
    level: Level = Level.INFO


@record
class ToolsSent:
    """The tools that requests hold from now on, by the names the model sees."""

    names: tuple[str, ...]


@record
class ToolsLoaded:
    """Deferred tools that every request from now on holds, by name."""

    names: tuple[str, ...]


@record
class ContextCompacted:
    """All messages but the last `kept` were replaced by `summary`; sizes are in tokens."""

    summary: str
    kept: int
    before: int
    after: int


@record
class Rewound:
    """All but the first `kept` messages were taken out of the history."""

    kept: int


@record
class ImagesDropped:
    """The images of all messages are left out from now on: the server refuses them."""


class TurnEnd(StrEnum):
    """How a turn ended."""

    DONE = "done"
    FAILED = "failed"
    REFUSED = "refused"
    LIMIT = "limit"
    CANCELLED = "cancelled"


@record
class TurnFinished:
    """The turn is over and the history valid. `detail` says more where it did not end well."""

    end: TurnEnd
    detail: str = ""
    next_step: str = ""
    duration_ms: int = 0


Event: TypeAlias = (
    TurnStarted
    | MessageAdded
    | RequestStarted
    | TextDelta
    | ReasoningDelta
    | UsageDelta
    | RetryScheduled
    | AssistantFinished
    | CallEvent
    | ToolsSent
    | ToolsLoaded
    | ContextCompacted
    | ImagesDropped
    | Rewound
    | Notice
    | TurnFinished
)
Emit: TypeAlias = Callable[[Event], None]
