"""Asks the model something beside the conversation: for a summary, or for the program of a tool."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from agent.conversation import CHARACTERS_PER_TOKEN, Conversation
from agent.events import Emit
from agent.messages import UserMessage
from agent.model.base import (
    Finished,
    FinishReason,
    ModelClient,
    ModelError,
    ModelRequest,
    TextDelta,
    UsageDelta,
)
from agent.retry import Retries
from tools.definition import ToolError
from tools.record import record

_CUT = "\n[cut at the model's output limit]"


@record
class Aside:
    """Questions whose answers enter no conversation; what they cost counts for one."""

    model: ModelClient
    emit: Emit

    async def ask(self, conversation: Conversation, system: str, text: str, cut: str) -> str:
        """Return the answer, empty where there is none; `cut` ends one that the model broke off.

        Raises ModelError when trying again does not help.
        """
        request = ModelRequest(system=system, messages=[UserMessage(text)])
        retries = Retries(self.emit)
        while True:
            try:
                answer, usage = await self._ask_once(request, cut)
                break
            except ModelError as error:
                delay_s = retries.delay_s(error)
                if delay_s is None:
                    raise
            await asyncio.sleep(delay_s)
        if usage is None:
            usage = UsageDelta(
                len(text) // CHARACTERS_PER_TOKEN, len(answer) // CHARACTERS_PER_TOKEN
            )
            conversation.usage.estimated = True
        conversation.usage.add(usage)
        self.emit(usage)
        return answer

    async def _ask_once(self, request: ModelRequest, cut: str) -> tuple[str, UsageDelta | None]:
        parts: list[str] = []
        usage: UsageDelta | None = None
        ending = ""
        async for delta in self.model.stream(request):
            match delta:
                case TextDelta(text):
                    parts.append(text)
                case UsageDelta():
                    usage = delta
                case Finished(FinishReason.TRUNCATED):
                    ending = cut
        answer = "".join(parts).strip()
        return answer and answer + ending, usage


def for_programs(
    aside: Callable[[], Aside], conversation: Callable[[], Conversation]
) -> Callable[[str, str], Awaitable[str]]:
    """Return what answers the programs of tools: a system prompt and a text (E11).

    One at a time, as a model takes them. It raises ToolError where the model cannot be asked.
    """
    free = asyncio.Lock()

    async def ask(system: str, text: str) -> str:
        async with free:
            try:
                return await aside().ask(conversation(), system, text, _CUT)
            except ModelError as error:
                raise ToolError(f"The model cannot be asked: {error} {error.next_step}") from error

    return ask
