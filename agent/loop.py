"""One turn: the model answers, its calls run, their results go back, until it is done.

Prints nothing, asks nothing, knows no settings. Whatever stops a turn, the history it leaves is
valid: every call has a result and every user message an answer.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent.compaction import Compactor
from agent.conversation import Conversation
from agent.events import (
    AssistantFinished,
    Emit,
    ImagesDropped,
    Level,
    MessageAdded,
    Notice,
    RequestStarted,
    ToolsSent,
    TurnEnd,
    TurnFinished,
    TurnStarted,
)
from agent.messages import AssistantMessage, UserMessage
from agent.model.base import (
    CallDelta,
    FailureKind,
    Finished,
    FinishReason,
    ModelClient,
    ModelError,
    ReasoningDelta,
    TextDelta,
    UsageDelta,
)
from agent.retry import Retries
from tools.clock import elapsed_ms
from tools.definition import ToolCall
from tools.executor import CallBatch, ToolExecutor
from tools.record import record

DEFAULT_WINDOW_TOKENS = 128_000
"""The size of the context window where nobody says it."""

MAX_INVALID_ANSWERS = 3
CUT_FROM_TOKENS = 4_000
"""Below this, an estimate that is twice the count may just be a bad estimate."""


@record
class Limits:
    """Bounds of a turn: requests, tokens of the whole session, size of the context window."""

    max_turns: int | None = None
    max_tokens_total: int | None = None
    context_window: int = DEFAULT_WINDOW_TOKENS


@record
class TurnOutcome:
    """How the turn ended, and the model's last text. `unusable`: the settings have to change."""

    end: TurnEnd
    text: str = ""
    detail: str = ""
    next_step: str = ""
    unusable: bool = False


class _Stop(Exception):
    """Ends the turn for a reason that is not the model's own."""

    def __init__(self, end: TurnEnd, detail: str, next_step: str = "") -> None:
        super().__init__(detail)
        self.outcome = TurnOutcome(end, detail=detail, next_step=next_step)


async def _nothing_added() -> Sequence[UserMessage]:
    return ()


@record
class TurnContext:
    """Where a turn gets what the person's side has for the model.

    `standing` is what a conversation begins with (see `Compactor`). `added` returns what the person
    said meanwhile; it is asked after the calls of each answer.
    """

    standing: Callable[[], str] = str
    added: Callable[[], Awaitable[Sequence[UserMessage]]] = _nothing_added


_REFUSALS = (FailureKind.IMAGES_REFUSED, FailureKind.REJECTED)
"""How requests fail that a server will never take: images may be why, even if it does not say."""


async def run_turn(
    message: UserMessage,
    *,
    model: ModelClient,
    executor: ToolExecutor,
    conversation: Conversation,
    limits: Limits,
    emit: Emit,
    context: TurnContext | None = None,
) -> TurnOutcome:
    """Run one turn to its end.

    Failures of the model end the turn and are told in the outcome. Cancelling the task raises
    CancelledError after the history was made valid and `TurnFinished` was emitted.
    """
    started = time.monotonic()
    context = context or TurnContext()
    compactor = Compactor(model, emit, limits.context_window, context.standing)
    turn = _Turn(model, executor, conversation, limits, emit, compactor, context.added)
    emit(TurnStarted(message))
    conversation.add_user(message)
    try:
        outcome = await turn.run()
    except _Stop as stop:
        turn.close_history()
        outcome = stop.outcome
    except ModelError as error:
        turn.close_history()
        turn.drop_images(error)
        outcome = failed(error)
    except asyncio.CancelledError:
        turn.close_history()
        emit(TurnFinished(TurnEnd.CANCELLED, duration_ms=elapsed_ms(started)))
        raise
    except Exception as error:
        turn.close_history()
        emit(TurnFinished(TurnEnd.FAILED, f"internal error: {error}", "", elapsed_ms(started)))
        raise
    emit(TurnFinished(outcome.end, outcome.detail, outcome.next_step, elapsed_ms(started)))
    return outcome


@dataclass(slots=True)
class _Answer:
    """An answer while it streams in."""

    text: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    usage: UsageDelta | None = None
    reason: FinishReason | None = None
    extras: dict[str, Any] = field(default_factory=dict)

    def message(self, *, interrupted: bool = False) -> AssistantMessage:
        return AssistantMessage(
            text="".join(self.text),
            # Calls of an answer that did not end were never complete: they are not kept.
            calls=() if interrupted else tuple(self.calls),
            reasoning="".join(self.reasoning),
            extras=self.extras,
            interrupted=interrupted,
        )


class _Turn:
    def __init__(
        self,
        model: ModelClient,
        executor: ToolExecutor,
        conversation: Conversation,
        limits: Limits,
        emit: Emit,
        compactor: Compactor,
        added: Callable[[], Awaitable[Sequence[UserMessage]]],
    ) -> None:
        self._model = model
        self._executor = executor
        self._conversation = conversation
        self._limits = limits
        self._emit = emit
        self._compactor = compactor
        self._added = added
        self._requests = 0
        self._invalid_answers = 0
        self._compacted = False

    async def run(self) -> TurnOutcome:
        while True:
            self._check_limits()
            await self._compactor.make_room(self._conversation)
            answer = await self._ask_model()
            self._warn_if_cut(answer.usage)
            if answer.calls:
                await self._run_calls(answer)
                await self._take_added()
                continue
            message = self._keep(answer)
            return _ended(answer.reason, message)

    async def _take_added(self) -> None:
        for message in await self._added():
            self._conversation.add_user(message)
            self._emit(MessageAdded(message))

    def close_history(self) -> None:
        """Answer the person's message where nothing else did."""
        if isinstance(self._conversation.messages[-1], UserMessage):
            message = AssistantMessage("", interrupted=True)
            self._conversation.commit(message)
            self._emit(AssistantFinished(message))

    def drop_images(self, error: ModelError) -> None:
        """Leave out images that a server refuses: it would refuse every later request, too."""
        if error.kind in _REFUSALS and self._conversation.drop_images():
            self._emit(ImagesDropped())
            self._emit(Notice("the images are left out of the conversation from now on"))

    def _check_limits(self) -> None:
        limits = self._limits
        if limits.max_turns is not None and self._requests >= limits.max_turns:
            raise _Stop(
                TurnEnd.LIMIT,
                f"the limit of {limits.max_turns} requests to the model was reached",
                "Raise --max-turns, or go on with another message.",
            )
        spent = self._conversation.usage.total
        if limits.max_tokens_total is not None and spent >= limits.max_tokens_total:
            raise _Stop(
                TurnEnd.LIMIT,
                f"{spent:,} tokens were used, the limit is {limits.max_tokens_total:,}",
                "Raise --max-tokens-total.",
            )

    async def _ask_model(self) -> _Answer:
        """Send the request until it is answered. What arrived of a failed answer is kept."""
        self._requests += 1
        retries = Retries(self._emit)
        while True:
            answer = _Answer()
            try:
                self._tell_tools()
                self._emit(RequestStarted(self._requests))
                await self._stream(answer)
                return answer
            except asyncio.CancelledError:
                self._keep_part(answer)
                raise
            except ModelError as error:
                if await self._compacted_for(error):
                    continue
                delay_s = retries.delay_s(error)
                if delay_s is None:
                    self._keep_part(answer)
                    raise
            await asyncio.sleep(delay_s)

    def _tell_tools(self) -> None:
        """Record what the request will hold: only so is it known what each tool has cost."""
        schemas = self._executor.registry.wire()
        if schemas != self._conversation.tools_told:
            self._conversation.tools_told = schemas
            self._emit(ToolsSent(tuple(schema["function"]["name"] for schema in schemas)))

    def _warn_if_cut(self, usage: UsageDelta | None) -> None:
        """Some servers (Ollama) cut a long prompt without a word: only their count shows it."""
        expected = self._conversation.estimated_tokens
        if usage is None or not usage.input or self._conversation.cut_told:
            return
        if expected > CUT_FROM_TOKENS and expected > 2 * usage.input:
            self._conversation.cut_told = True
            self._emit(
                Notice(
                    f"the server read {usage.input:,} of about {expected:,} tokens: it seems to "
                    "cut long prompts. Raise its context length (Ollama: OLLAMA_CONTEXT_LENGTH) "
                    "and set context_window to the same",
                    Level.WARNING,
                )
            )

    async def _compacted_for(self, error: ModelError) -> bool:
        """The server knows its window better than the settings: make room once, then try again."""
        if error.kind is not FailureKind.CONTEXT_TOO_LONG or self._compacted:
            return False
        self._compacted = True
        return await self._compactor.compact(self._conversation)

    async def _stream(self, answer: _Answer) -> None:
        request = self._conversation.request(self._executor.registry.wire())
        async for delta in self._model.stream(request):
            match delta:
                case TextDelta(text):
                    answer.text.append(text)
                    self._emit(delta)
                case ReasoningDelta(text):
                    answer.reasoning.append(text)
                    self._emit(delta)
                case CallDelta():
                    answer.calls.append(ToolCall(delta.id, delta.name, delta.arguments_json))
                case UsageDelta():
                    answer.usage = delta
                    self._emit(delta)
                case Finished(reason, extras):
                    answer.reason = reason
                    answer.extras = dict(extras or {})

    def _keep(self, answer: _Answer, *, interrupted: bool = False) -> AssistantMessage:
        message = answer.message(interrupted=interrupted)
        self._conversation.record_usage(answer.usage, message)
        self._conversation.commit(message)
        self._emit(AssistantFinished(message))
        return message

    def _keep_part(self, answer: _Answer) -> None:
        if answer.text or answer.reasoning:
            self._keep(answer, interrupted=True)

    async def _run_calls(self, answer: _Answer) -> None:
        message = answer.message()
        self._conversation.record_usage(answer.usage, message)
        # The journal has the calls before anything runs.
        self._emit(AssistantFinished(message))
        batch = self._executor.batch(message.calls, self._emit)
        try:
            await batch.run()
        finally:
            self._conversation.commit(message, batch.results())
        self._check_calls(batch)

    def _check_calls(self, batch: CallBatch) -> None:
        if any(result.stop_turn for result in batch.results()):
            raise _Stop(TurnEnd.REFUSED, "you refused a call")
        self._invalid_answers = 0 if batch.valid else self._invalid_answers + 1
        if self._invalid_answers >= MAX_INVALID_ANSWERS:
            raise _Stop(
                TurnEnd.FAILED,
                f"The model sent {MAX_INVALID_ANSWERS} answers in a row without a valid tool call.",
                "Say what you want in other words, or use a model that handles tools well.",
            )


def _ended(reason: FinishReason | None, message: AssistantMessage) -> TurnOutcome:
    text = message.text
    match reason:
        case FinishReason.TRUNCATED:
            return TurnOutcome(
                TurnEnd.FAILED, text, "The answer was cut at the model's output limit.",
                "Ask it to go on, or raise max_output_tokens.",
            )  # fmt: skip
        case FinishReason.FILTERED:
            return TurnOutcome(
                TurnEnd.FAILED, text, "The provider's content filter stopped the answer."
            )
        case _ if not text.strip():
            but = "reasoned but gave no answer" if message.reasoning else "gave no answer"
            return TurnOutcome(TurnEnd.FAILED, "", f"The model {but}.", "Ask it to go on.")
        case _:
            return TurnOutcome(TurnEnd.DONE, text)


def failed(error: ModelError) -> TurnOutcome:
    """Return how a turn ends that the model's side has stopped."""
    return TurnOutcome(
        TurnEnd.FAILED,
        detail=str(error),
        next_step=error.next_step,
        unusable=error.kind is FailureKind.NO_KEY,
    )
