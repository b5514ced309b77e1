"""The history of a conversation: always valid, only ever appended to between compactions."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from agent.messages import AssistantMessage, Message, ToolMessage, UserMessage
from agent.model.base import ModelRequest, UsageDelta
from tools.record import record

if TYPE_CHECKING:
    from tools.definition import JsonObject, ToolResult

CHARACTERS_PER_TOKEN = 4
PRUNED = "[old output removed to save room; run the call again if it is needed]"
KEEP_OUTPUT_TOKENS = 40_000
MINIMUM_GAIN_TOKENS = 20_000
IMAGE_TOKENS = 1_000
"""About what an image costs: between 85 and 1,600, depending on its size and on the model."""

NOT_SENT = "[the images could not be sent: the model does not see them]"


@dataclass(slots=True)
class Usage:
    """Tokens spent in this session, as the server counted them; `estimated` where it did not."""

    input: int = 0
    output: int = 0
    cached: int = 0
    requests: int = 0
    estimated: bool = False

    @property
    def total(self) -> int:
        """Input and output together."""
        return self.input + self.output

    def add(self, counted: UsageDelta) -> None:
        """Add what the server counted for one request."""
        self.requests += 1
        self.input += counted.input
        self.output += counted.output
        self.cached += counted.cached


@record
class Prices:
    """US dollars per million tokens; None where nobody said."""

    input: float | None = None
    output: float | None = None

    def cost_usd(self, usage: Usage) -> float | None:
        """Return what these tokens cost in US dollars, None where a price is missing."""
        if self.input is None or self.output is None:
            return None
        return (usage.input * self.input + usage.output * self.output) / 1_000_000


class Conversation:
    """System prompt, messages and usage.

    `cut_told`: the person knows that the server reads only a part of it. `tools_told` are the
    schemas that the journal knows requests to hold.
    `context_tokens` is the size of the next request: what the server counted last time plus an
    estimate of what came after.
    """

    def __init__(self, system: str, messages: Iterable[Message] = ()) -> None:
        self.system = system
        self.messages: list[Message] = list(messages)
        self.usage = Usage()
        self.overhead_tokens = 0
        self._held: Sequence[JsonObject] = ()
        self._counted_tokens = self._counted_overhead = 0
        self._uncounted = self._all = sum(map(_characters, self.messages))
        self.cut_told = False
        self.tools_told: Sequence[JsonObject] = ()

    @property
    def context_tokens(self) -> int:
        """Tokens of the next request, as far as known."""
        base = self.overhead_tokens
        if self._counted_tokens:
            base = max(self._counted_tokens + base - self._counted_overhead, 0)
        else:
            base += len(self.system) // CHARACTERS_PER_TOKEN
        return base + self._uncounted // CHARACTERS_PER_TOKEN

    @property
    def message_tokens(self) -> int:
        """About the size of all messages, in tokens."""
        return self._all // CHARACTERS_PER_TOKEN

    @property
    def estimated_tokens(self) -> int:
        """Tokens of the next request by our own estimate alone, whatever a server counted."""
        return self.overhead_tokens + (len(self.system) + self._all) // CHARACTERS_PER_TOKEN

    def request(self, tools: Sequence[JsonObject]) -> ModelRequest:
        """Return the next request; its messages are the live list."""
        return ModelRequest(self.system, self.messages, tools)

    def hold_tools(self, schemas: Sequence[JsonObject]) -> None:
        """Count the tools that the next request will hold; cheap while they are the same."""
        if schemas is self._held:
            return
        self._held = schemas
        self.overhead_tokens = len(json.dumps(schemas)) // CHARACTERS_PER_TOKEN

    def add_user(self, message: UserMessage) -> None:
        """Append what the person said."""
        self._append(message)

    def commit(
        self,
        answer: AssistantMessage,
        results: Sequence[ToolResult] = (),
        titles: Sequence[str] = (),
    ) -> None:
        """Append an answer together with the results of all its calls, or nothing.

        `titles` are those of the calls, for showing them again.

        Raises ValueError when a call would stay without a result.
        """
        if len(answer.calls) != len(results):
            raise ValueError(f"{len(answer.calls)} calls but {len(results)} results")
        self._append(answer)
        named = titles or [""] * len(results)
        for call, result, title in zip(answer.calls, results, named, strict=True):
            self._append(ToolMessage(call, result, title))

    def record_usage(self, usage: UsageDelta | None, answer: AssistantMessage) -> None:
        """Add what one request cost; call it before the answer is committed."""
        if usage is None:
            self.usage.estimated = True
            output = _characters(answer) // CHARACTERS_PER_TOKEN
            self.usage.add(UsageDelta(self.context_tokens, output))
            return
        self.usage.add(usage)
        self._counted_tokens = usage.input
        self._counted_overhead = self.overhead_tokens
        self._uncounted = 0

    def prune_outputs(self) -> int:
        """Remove old tool output, newest 40,000 tokens kept; return the tokens gained.

        Does nothing when it would gain little: every change of old messages costs the provider's
        prompt cache.
        """
        newer = gain = 0
        pruned: dict[int, ToolMessage] = {}
        for position, message in reversed(list(enumerate(self.messages))):
            if not isinstance(message, ToolMessage):
                continue
            tokens = len(message.result.text) // CHARACTERS_PER_TOKEN
            newer += tokens
            if newer > KEEP_OUTPUT_TOKENS and tokens > len(PRUNED):
                result = replace(message.result, text=PRUNED)
                pruned[position] = replace(message, result=result)
                gain += tokens
        if gain < MINIMUM_GAIN_TOKENS:
            return 0
        for position, message in pruned.items():
            self.messages[position] = message
        self._recount()
        return gain

    def tail(self, tokens: int) -> int:
        """Return how many of the last messages fit in `tokens` without splitting a call from its
        result; a user message stays with its answer only when both fit."""
        size = 0
        fitting = 0
        for count, message in enumerate(reversed(self.messages), start=1):
            size += _characters(message) // CHARACTERS_PER_TOKEN
            if size > tokens:
                break
            if not isinstance(message, ToolMessage):
                fitting = count
        return fitting

    def compact(self, summary: str, kept: int) -> None:
        """Replace all but the last `kept` messages by `summary`."""
        rest = self.messages[len(self.messages) - kept :] if kept else []
        first = UserMessage("", summary)
        if rest and isinstance(rest[0], UserMessage):
            # Two user messages in a row are refused by some chat templates.
            context = f"{summary}\n\n{rest[0].context}".strip()
            first = replace(rest[0], context=context)
            rest = rest[1:]
        self.messages = [first, *rest]
        self._recount()

    def rewind(self, kept: int) -> None:
        """Forget all but the first `kept` messages."""
        del self.messages[kept:]
        self._recount()

    def drop_images(self) -> bool:
        """Leave out the images of all messages, and say so in these. False where there are none."""
        dropped = False
        for position, message in enumerate(self.messages):
            if isinstance(message, UserMessage) and message.images:
                context = f"{message.context}\n{NOT_SENT}".lstrip()
                self.messages[position] = replace(message, context=context, images=())
                dropped = True
        if dropped:
            self._recount()
        return dropped

    def clear(self) -> None:
        """Forget all messages; what was spent stays counted."""
        self.messages = []
        self._recount()

    def _append(self, message: Message) -> None:
        self.messages.append(message)
        size = _characters(message)
        self._uncounted += size
        self._all += size

    def _recount(self) -> None:
        self._counted_tokens = 0
        self._uncounted = self._all = sum(map(_characters, self.messages))


def _characters(message: Message) -> int:
    if isinstance(message, UserMessage):
        images = len(message.images) * IMAGE_TOKENS * CHARACTERS_PER_TOKEN
        return len(message.text) + len(message.context) + images
    if isinstance(message, ToolMessage):
        return len(message.result.text)
    return (
        len(message.text)
        + len(message.reasoning)
        + sum(len(call.name) + len(call.arguments_json) for call in message.calls)
    )
