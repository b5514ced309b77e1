"""What a person is asked and may answer, apart from the gate so that a chat starts without it."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from tools.record import record

if TYPE_CHECKING:
    from tools.definition import Invocation, ResolvedCall, Risk
    from tools.permissions.rules import Rule

PERSON_SAID_NO = "you (no)"
"""What decided a call to which a person said no."""


class Choice(StrEnum):
    """The answers a person can give."""

    ONCE = "once"
    SESSION = "session"
    ALWAYS = "always"
    NO = "no"


@record
class Answer:
    """A person's answer. `feedback` goes to the model with a NO; without it a NO ends the turn."""

    choice: Choice
    feedback: str = ""


@record
class PermissionRequest:
    """What a person is asked.

    `reason` says why there is a question at all. `suggested` are the rules that "for this session"
    and "always" would add; empty when the question must be asked every time.
    """

    call: ResolvedCall
    invocation: Invocation
    risk: Risk
    reason: str
    suggested: tuple[Rule, ...] = ()

    @property
    def told_reason(self) -> str:
        """`reason`, with what makes the call a high risk."""
        return "; ".join((self.reason, *(f"high risk: {h}" for h in self.invocation.hazards)))


class Approver(Protocol):
    """Asks the person. Cancelling the task while it waits means that nothing was allowed."""

    async def ask(self, request: PermissionRequest) -> Answer | None:
        """Return the person's answer, None where nobody can be asked."""
        ...
