"""What the person behind an MCP client is asked before a call runs, and what their answer means.

The client shows the question and sends the answer; no tool and no text of a model is one. Whatever
is not plainly a yes is a no.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

from tools.definition import JsonObject
from tools.engine.output import visible
from tools.permissions.question import Answer, Choice, PermissionRequest
from tools.record import record

ANSWER = "answer"
"""The name of the only field of the question."""

_COLUMNS = 100


@record
class Question:
    """A question for an MCP client: its text, and the JSON Schema of the answer."""

    text: str
    schema: JsonObject


Reply: TypeAlias = tuple[str, Mapping[str, Any]]
"""What a client answers: `accept`, `decline` or `cancel`, and the fields it filled in."""

Ask: TypeAlias = Callable[[Question], Awaitable[Reply | None]]
"""Asks the client of one call; None where it has nobody to ask."""


class ClientApprover:
    """Sends each question to the client whose call it is about (see `Approver`).

    `unanswered` holds, by the id of the call, what nobody could be asked.
    """

    def __init__(self) -> None:
        self.clients: dict[str, Ask] = {}
        self.unanswered: dict[str, PermissionRequest] = {}

    async def ask(self, request: PermissionRequest) -> Answer | None:
        """Return the answer, None where nobody can be asked."""
        call_id = request.call.outermost_id
        ask = self.clients.get(call_id)
        reply = await ask(question_for(request)) if ask is not None else None
        if reply is None:
            self.unanswered[call_id] = request
            return None
        return answer_in(request, reply)


def question_for(request: PermissionRequest) -> Question:
    """Return the question, with all that would be done, whole and with nothing invisible (R37)."""
    # A call that nobody is asked about needs no screen.
    from agent.ui.ansi import Colour
    from agent.ui.approval import question
    from agent.ui.render import details

    lines = [text for _, text in question(request)]
    lines.append(details(request.invocation.preview, _COLUMNS, Colour.PLAIN))
    names = {"no": "No", "once": "Yes, once"}
    if request.suggested:
        rules = ", ".join(visible(rule.text) for rule in request.suggested)
        names["session"] = f"Yes, until opta ends: {rules}"
    field = {
        "type": "string",
        "title": "Allow it?",
        "enum": list(names),
        "enumNames": list(names.values()),
        "default": "no",
    }
    schema: JsonObject = {"type": "object", "properties": {ANSWER: field}, "required": [ANSWER]}
    return Question("\n".join(lines), schema)


def answer_in(request: PermissionRequest, reply: Reply) -> Answer:
    """Return what a reply means: a yes only where it was said in the words that were offered."""
    action, content = reply
    said = content.get(ANSWER) if action == "accept" else "no"
    if said == "once":
        return Answer(Choice.ONCE)
    if said == "session" and request.suggested:
        return Answer(Choice.SESSION)
    return Answer(Choice.NO)


def way_to_allow(request: PermissionRequest) -> str:
    """Say how the person can allow a call that nobody could be asked about."""
    if not request.suggested:
        return (
            "No rule can allow it: a person has to answer each time. Tell the user; a client that "
            "passes on questions (elicitation) or a chat with opta can ask them."
        )
    from shlex import quote

    commands = " && ".join(
        f"opta permissions add allow {quote(visible(rule.text))}" for rule in request.suggested
    )
    return f"Only the user can allow it, with a rule: {commands}"
