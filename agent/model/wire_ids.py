"""Call ids as servers accept them: there, not used twice, of legal characters."""

from __future__ import annotations

import hashlib
import re
import string
from collections.abc import Iterable

from agent.messages import AssistantMessage, Message
from tools.definition import ToolCall

_LEGAL = re.compile(r"[A-Za-z0-9_.:-]{1,64}")
_NINE = re.compile(r"[A-Za-z0-9]{9}")
_ALPHABET = string.ascii_letters + string.digits


def nine_characters(seed: str) -> str:
    """Return nine letters and digits, the same for the same `seed`: the form all servers take."""
    number = int.from_bytes(hashlib.sha256(seed.encode("utf-8", "replace")).digest())
    digits = []
    for _ in range(9):
        number, digit = divmod(number, len(_ALPHABET))
        digits.append(_ALPHABET[digit])
    return "".join(digits)


def unused_id(wanted: str, used: set[str], *, nine: bool = False) -> str:
    """Return `wanted` if it is legal and not used yet, else nine characters made from it.

    `nine` demands the nine-character form (Mistral). The id is added to `used`.
    """
    legal = (_NINE if nine else _LEGAL).fullmatch(wanted)
    candidate = wanted if legal else nine_characters(wanted)
    number = 1
    while candidate in used:
        number += 1
        candidate = nine_characters(f"{wanted}#{number}")
    used.add(candidate)
    return candidate


def used_call_ids(messages: Iterable[Message]) -> set[str]:
    """Return the ids of all calls in a conversation."""
    answers = (message for message in messages if isinstance(message, AssistantMessage))
    return {call.id for message in answers for call in message.calls}


class WireIds:
    """Gives every call of a history its id on the wire, and its result the same one."""

    def __init__(self, *, nine: bool) -> None:
        self._nine = nine
        self._used: set[str] = set()
        self._open: dict[str, list[str]] = {}

    def of_calls(self, calls: Iterable[ToolCall]) -> tuple[str, ...]:
        """Return the ids of the calls of the next assistant message."""
        self._open = {}
        ids = []
        for call in calls:
            wire = unused_id(call.id, self._used, nine=self._nine)
            self._open.setdefault(call.id, []).append(wire)
            ids.append(wire)
        return tuple(ids)

    def of_result(self, call: ToolCall) -> str:
        """Return the id for the result of `call`, which the newest assistant message made."""
        waiting = self._open.get(call.id)
        if not waiting:
            return unused_id(call.id, self._used, nine=self._nine)
        return waiting.pop(0) if len(waiting) > 1 else waiting[0]
