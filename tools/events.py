"""What happens to one call, as the executor tells it: proposed, decided, started, output, finished.

Front ends and the journal see these among the events of `agent.events`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from tools.record import record

if TYPE_CHECKING:
    from tools.definition import Display, ToolCall, ToolResult


@record
class CallProposed:
    """The model asked for a call; nothing was decided yet."""

    call: ToolCall


@record
class CallDecided:
    """The gate decided. `by` names the rule, flag or person; `title` is the call in a few words.

    `hazards` say what makes the call a high risk, `warnings` what else one should know of it.
    """

    call: ToolCall
    title: str
    preview: Display
    allowed: bool
    by: str
    hazards: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


@record
class CallStarted:
    """The call is about to run. Written to the journal before anything happens (R47)."""

    call: ToolCall
    title: str


@record
class CallOutput:
    """A piece of live output, safe for a terminal."""

    call_id: str
    text: str


@record
class CallFinished:
    """The call has its result, whatever it is. Exactly one for every `CallProposed`."""

    call: ToolCall
    title: str
    result: ToolResult


@record
class HookFinished:
    """A hook has run. `phase` is what it was told of; `call_id` is empty for the end of a turn.

    `problem` says why it did not do its work, empty when it did; `refused`: it denied the call.
    """

    phase: str
    command: str
    call_id: str
    problem: str
    refused: bool
    duration_ms: int


CallEvent: TypeAlias = (
    CallProposed | CallDecided | CallStarted | CallOutput | CallFinished | HookFinished
)
Emit: TypeAlias = Callable[[CallEvent], None]
