"""One conversation with all that belongs to it: what a front end talks to."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import field, replace
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from agent import log
from agent.aside import Aside, for_programs
from agent.compaction import Compactor
from agent.context import MessageContext
from agent.conversation import Conversation, Prices, Usage
from agent.events import (
    AssistantFinished,
    Emit,
    Event,
    Level,
    Notice,
    Rewound,
    ToolsLoaded,
    TurnEnd,
    TurnFinished,
    TurnStarted,
)
from agent.log import logger
from agent.loop import Limits, TurnContext, TurnOutcome, failed, run_turn
from agent.messages import AssistantMessage, Message, ToolMessage, UserMessage
from agent.model.base import ModelClient, ModelError, TextDelta
from agent.session import Session
from agent.shown_events import ShownEvents
from agent.streams import OutputError
from agent.ui.port import Signals
from agent.undo import FileHistory
from tools.commands.tools import ToolsCommand
from tools.cost import Form, form_of
from tools.definition import JsonObject
from tools.engine.jobs import Jobs
from tools.events import CallDecided, CallFinished
from tools.executor import ToolExecutor
from tools.hooks import HookRunner
from tools.record import record, with_texts
from tools.sources.mcp.servers import McpServers

if TYPE_CHECKING:
    from tools.sources.team.tools import TeamTools

DECISIONS_KEPT = 20

Tell: TypeAlias = Callable[[Notice], None]


@record
class Parts:
    """What `agent.app` puts together for a chat.

    `begin_session` takes the model's name, `reopen_session` a session id (empty: the newest).
    `server_wait_s` is how long a message waits for MCP servers that start; None: until they did.
    """

    model_name: str
    base_url: str
    make_model: Callable[[str], ModelClient]
    executor: ToolExecutor
    context: MessageContext
    files: FileHistory
    hooks: HookRunner
    jobs: Jobs
    check_project: Callable[[], Awaitable[str]]
    begin_session: Callable[[str, Tell], Session]
    reopen_session: Callable[[str, Tell], Session]
    limits: Limits
    system: str
    tools_command: Callable[[Callable[[], Form]], ToolsCommand]
    servers: McpServers
    team: TeamTools | None
    server_wait_s: float | None
    prices: Prices = field(default_factory=Prices)
    signals: Signals = field(default_factory=Signals)
    warnings: tuple[str, ...] = ()


class Chat:
    """A conversation that is recorded, shown and steered.

    Events go to the journal first, then to the front end set with `show_on` (R47). `decisions`
    are the last ones of the gate, in words. `in_turn` tells whether a turn runs.
    """

    def __init__(self, parts: Parts) -> None:
        self.model_name = parts.model_name
        self.base_url = parts.base_url
        self.limits = parts.limits
        self.prices = parts.prices
        self.signals = parts.signals
        self.executor = parts.executor
        self.executor.ask_model = for_programs(
            lambda: Aside(self._client(), self.emit), lambda: self.conversation
        )
        self.gate = parts.executor.gate
        self.registry = parts.executor.registry
        self.registry.on_load = lambda names: self.emit(ToolsLoaded(names))
        self.files = parts.files
        self.context = parts.context
        self.servers = parts.servers
        self.team = parts.team
        self.server_wait_s = parts.server_wait_s
        self.tools = parts.tools_command(lambda: form_of(self.model_name))
        self.jobs = parts.jobs
        self.conversation = Conversation(parts.system)
        self.decisions: list[str] = []
        self.last_outcome: TurnOutcome | None = None
        self._parts = parts
        self._show: Emit = lambda event: None
        self._shown = ShownEvents(log.redactor())
        self._model: ModelClient | None = None
        self.in_turn = False
        self.session = parts.begin_session(self.model_name, self._tell)

    def show_on(self, show: Emit) -> None:
        """Set the front end's event sink, and tell it what the settings warn of."""
        self._show = show
        self.gate.tell = lambda text: self.notice(text, Level.WARNING)
        self.files.tell = self.notice
        self.jobs.tell = self.notice
        self._parts.hooks.tell = lambda text: self.notice(text, Level.WARNING)
        self._parts.hooks.about = lambda: {
            "session_id": self.session.id,
            "model": self.model_name,
        }
        self.servers.tell = self.gate.tell
        for text in self._parts.warnings:
            self._tell(Notice(text, Level.WARNING))

    def emit(self, event: Event) -> None:
        """Record one event, then show it. A front end that fails costs a log line, no turn."""
        self.session.journal.record(event)
        if isinstance(event, CallDecided):
            verb = "allowed" if event.allowed else "denied"
            self.decisions.append(f"{verb}: {event.title}: {event.by}")
            del self.decisions[:-DECISIONS_KEPT]
        try:
            for shown in self._shown.of(event):
                self._show(shown)
        except (BrokenPipeError, OutputError):
            raise
        except Exception:
            logger.exception("the front end failed on %s", type(event).__name__)

    def notice(self, text: str, level: Level = Level.INFO) -> None:
        """Show one line (or several) that is not part of the conversation."""
        self.emit(Notice(text, level))

    async def look_again(self) -> None:
        """Look at the project and the tool files again, and tell what changed (R25, X16)."""
        told = await self._parts.check_project()
        self.servers.reconfigure()
        if self.team is not None:
            self.team.look_again()
        if told:
            self.notice(told, Level.WARNING)
        self.tell_problems()

    def tell_problems(self) -> None:
        """Tell what is wrong with tool files, as far as it is news."""
        for line in self.registry.refresh():
            self.notice(line, Level.WARNING)

    async def say(
        self,
        text: str,
        typed: str | None = None,
        *,
        given: str | None = None,
        waiting: Callable[[], Iterable[str]] = tuple,
    ) -> TurnOutcome:
        """Run one turn of the conversation.

        `typed` is what of `text` the person wrote themselves, all of it by default: only there an
        `@path` hands over a file (R30). With `given` the text is not a person's: `given` goes
        along, and no file that it names. `waiting` returns the messages that wait to join the turn.
        """
        await self.servers.ready(self.server_wait_s, self.notice)
        await self.look_again()
        self.conversation.hold_tools(self.registry.wire())
        try:
            model = self._client()
        except ModelError as error:
            self.emit(TurnFinished(TurnEnd.FAILED, str(error), error.next_step))
            self.last_outcome = replace(failed(error), unusable=True)
            return self.last_outcome
        self.context.tell_jobs(self.jobs.take_news())
        context, images = await self.context.take(
            text if typed is None else typed,
            first=not self.conversation.messages,
            tell=self.notice,
            given=given,
        )

        async def added() -> list[UserMessage]:
            take = partial(self.context.take, first=False, tell=self.notice)
            return [UserMessage(one, *await take(one), at=time.time()) for one in waiting()]

        now = time.time()
        redact = log.redactor()
        self.files.begin(self.session.id, redact(text), now)
        self.in_turn = True
        try:
            outcome = await run_turn(
                UserMessage(text, context, images, now),
                model=model,
                executor=self.executor,
                conversation=self.conversation,
                limits=self.limits,
                emit=self.emit,
                context=TurnContext(self.context.standing, added),
            )
            self.last_outcome = with_texts(outcome, redact)
        finally:
            self.in_turn = False
            self.files.end()
        summary = _turn_summary(self.last_outcome, self.conversation.usage, self.prices)
        await self._parts.hooks.stopped(summary, self.emit)
        return self.last_outcome

    async def run_as_person(self, command: str, *, background: bool = False) -> None:
        """Run a shell command that the person typed; the model sees it with the next message."""
        if command:
            await self.context.run_as_person(command, self.emit, background=background)

    async def start_tool_as_person(self, name: str, arguments: JsonObject) -> None:
        """Start a tool in the background for the person; the model learns of it like that."""
        await self.context.start_tool_as_person(name, arguments, self.emit)

    def goodbye(self) -> str:
        """The way back, for printing on exit; empty when nothing was recorded."""
        if not self.session.journal.recorded:
            return ""
        return f"To go on with this session: opta --resume {self.session.id}"

    def use_model(self, name: str) -> None:
        """Go on with another model; raises ModelError when there is no such client."""
        self._model = self._parts.make_model(name)
        self.model_name = name

    def clear(self) -> str:
        """Start over: a new session with an empty history."""
        way_back = self.goodbye()
        self._use_session(self._parts.begin_session(self.model_name, self._tell))
        return " ".join(filter(None, ["A new conversation begins.", way_back]))

    async def compact(self, wishes: str) -> str:
        """Summarise the history now. Raises ModelError."""
        standing = self.context.standing
        compactor = Compactor(self._client(), self.emit, self.limits.context_window, standing)
        done = await compactor.compact(self.conversation, wishes)
        return "" if done else "There is nothing to summarise yet."

    def rewind(self, position: int) -> None:
        """Forget the message at `position` of the history, and what followed it."""
        self.conversation.rewind(position)
        self.context.rewound()
        self.emit(Rewound(position))

    def resume(self, identity: str) -> str:
        """Go on with another session and show what was said in it; see `open_session`."""
        told = self.open_session(identity)
        for event in _shown_again(self.conversation.messages):
            self._show(event)
        return told

    def open_session(self, identity: str) -> str:
        """Go on with the session of this id, or the newest of this directory where it is empty.

        Raises SessionError; the present session then goes on.
        """
        session = self._parts.reopen_session(identity, self._tell)
        self._use_session(session)
        for text in session.notices:
            self.notice(text, Level.WARNING)
        turns = sum(isinstance(m, UserMessage) and bool(m.text) for m in session.messages)
        return f"Session {session.id} goes on after {turns} of your messages."

    async def aclose(self) -> None:
        """Stop what runs in the background; close servers, connections and the journal."""
        stopped = await self.jobs.stop_all()
        if stopped:
            self.notice(f"{stopped} job{'s' * (stopped > 1)} in the background stopped")
        await self.files.aclose()
        await self.servers.close()
        if self.team is not None:
            await self.team.close()
        self.session.journal.close()
        if self._model is not None:
            await self._model.aclose()

    def _tell(self, notice: Notice) -> None:
        # Not recorded: what is told this way is about the recording, or older than it.
        self._show(notice)

    def _use_session(self, session: Session) -> None:
        self.session.journal.close()
        self.session = session
        self.conversation = Conversation(self._parts.system, session.messages)
        self.conversation.usage = session.usage
        self.registry.begin(session.loaded)
        self.context.forget()
        if session.moved:
            self.context.tell_place()
        for finished in session.unsent:
            self.context.take_up(finished.call, finished.result)

    def _client(self) -> ModelClient:
        if self._model is None:
            self._model = self._parts.make_model(self.model_name)
        return self._model


def start_sources(chat: Chat) -> None:
    """Begin to connect to MCP servers and to ask the team's; nothing waits for either."""
    chat.servers.start()
    if chat.team is None:
        return

    def changed() -> None:
        # What a turn began with, it ends with; `look_again` tells before the next one.
        if not chat.in_turn:
            chat.tell_problems()

    chat.team.changed = changed
    chat.team.start()


def _turn_summary(outcome: TurnOutcome, usage: Usage, prices: Prices) -> JsonObject:
    """Return what the hooks at the end of a turn are told; usage is that of the session."""
    return {
        "end": outcome.end.value,
        "text": outcome.text,
        "detail": outcome.detail,
        "requests": usage.requests,
        "input_tokens": usage.input,
        "output_tokens": usage.output,
        "cost_usd": prices.cost_usd(usage),
    }


def _shown_again(messages: Iterable[Message]) -> Iterator[Event]:
    for message in messages:
        match message:
            case UserMessage(text=""):
                yield Notice("What was said before is summarised for the model.", Level.INFO)
            case UserMessage():
                yield TurnStarted(message)
            case AssistantMessage():
                yield TextDelta(message.text)
                yield AssistantFinished(message)
            case ToolMessage(call, result, title):
                yield CallFinished(call, title or call.name, result)
