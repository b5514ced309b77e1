"""Makes room in the context window: old tool output goes first, then messages are summarised."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agent.aside import Aside
from agent.conversation import CHARACTERS_PER_TOKEN, Conversation
from agent.events import ContextCompacted, Emit, Notice
from agent.messages import AssistantMessage, Message, ToolMessage, UserMessage
from agent.model.base import FailureKind, ModelClient, ModelError
from prompts import load
from tools.record import record

CUT = "\n[the summary was cut at the model's output limit]"
RESERVE_TOKENS = 16_000
KEEP_RECENT_TOKENS = 20_000
SUMMARY = "<summary>"
"""What a summary begins with in the context of a message."""
RESULT_CHARACTERS = (2_000, 500, 100)
"""How much of each tool result the summariser sees: the first that makes the whole fit."""


@record
class Compactor:
    """Shrinks conversations for a model with a context window of `window` tokens.

    `standing` returns what a conversation begins with, which is said again: a summary loses it.
    """

    model: ModelClient
    emit: Emit
    window: int
    standing: Callable[[], str]

    async def make_room(self, conversation: Conversation) -> None:
        """Shrink the conversation when the next request would come close to the window.

        Raises ModelError when the summary cannot be had.
        """
        limit = self.window - min(RESERVE_TOKENS, self.window // 4)
        if conversation.context_tokens <= limit:
            return
        gained = conversation.prune_outputs()
        if gained:
            self.emit(Notice(f"removed about {gained:,} tokens of old tool output to make room"))
        if conversation.context_tokens > limit:
            await self.compact(conversation)

    async def compact(self, conversation: Conversation, wishes: str = "") -> bool:
        """Replace all but the newest messages by a summary. False when there is nothing to do.

        `wishes` is what the person wants kept. Raises ModelError; the conversation then is
        unchanged.
        """
        messages = conversation.messages
        kept = conversation.tail(min(KEEP_RECENT_TOKENS, conversation.message_tokens // 4))
        if messages and isinstance(messages[-1], UserMessage):
            kept = max(kept, 1)  # What is to be answered next is never summarised, however long.
        old, recent = messages[: len(messages) - kept], messages[len(messages) - kept :]
        if len(old) < 2:
            return False
        before = conversation.context_tokens
        summary = await self._summary(conversation, old, wishes)
        parts = [self.standing(), f"{SUMMARY}\n{summary}\n</summary>", _task(old, recent)]
        text = "\n\n".join(filter(None, [*parts, load("compacted")]))
        conversation.compact(text, kept)
        self.emit(ContextCompacted(text, kept, before, conversation.context_tokens))
        return True

    async def _summary(
        self, conversation: Conversation, old: Sequence[Message], wishes: str
    ) -> str:
        task = load("compact") + (f"\n\nThe user asks to keep: {wishes}" if wishes else "")
        transcript = _transcript(old, self.window // 2 * CHARACTERS_PER_TOKEN)
        text = f"<conversation>\n{transcript}\n</conversation>\n\n{task}"
        summary = await Aside(self.model, self.emit).ask(
            conversation, load("compact_system"), text, CUT
        )
        if not summary:
            raise ModelError(
                FailureKind.REJECTED,
                "The model gave no summary; the conversation is as it was.",
                next_step="Try again, or start a new conversation (in a chat with /clear).",
            )
        return summary


def _task(old: Sequence[Message], recent: Sequence[Message]) -> str:
    """Return the newest message of the person word for word, where only the summary had it."""
    if any(isinstance(message, UserMessage) for message in recent):
        return ""
    asked = [message.text or message.context for message in old if isinstance(message, UserMessage)]
    return f"The user's newest message, word for word:\n{asked[-1]}" if asked else ""


def _transcript(messages: Sequence[Message], limit: int) -> str:
    """Return the messages as text of at most `limit` characters, the middle left out last."""
    text = ""
    for characters in RESULT_CHARACTERS:
        text = "\n\n".join(_entry(message, characters) for message in messages)
        if len(text) <= limit:
            return text
    return _shortened(text, limit)


def _entry(message: Message, characters: int) -> str:
    match message:
        case UserMessage():
            return f"[user]\n{message.model_text}"
        case AssistantMessage():
            calls = [
                f"[call] {call.name} {_shortened(call.arguments_json, characters)}"
                for call in message.calls
            ]
            return "\n".join(["[assistant]", message.model_text, *calls])
        case ToolMessage():
            text = _shortened(message.result.text, characters)
            return f"[result of {message.call.name}]\n{text}"


def _shortened(text: str, characters: int) -> str:
    if len(text) <= characters:
        return text
    half = characters // 2
    return f"{text[:half]}\n[{len(text) - 2 * half} characters left out]\n{text[-half:]}"
