"""The one place that knows the SDK's server: what it is asked, and answers in its types.

Two forms of the protocol are spoken. Up to 2025-11-25 a server may ask the client in the middle of
a call. From 2026-07-28 on a question goes out as the result of the call, and the client calls again
with the answer: until then the call waits here, and nothing but that answer lets it go on.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Any

from agent.serving.asking import Ask, Question, Reply
from agent.serving.calls import ServedCall, ServedCalls, ServedTools
from tools.cost import ToolsCost
from tools.definition import JsonObject, ToolResult
from tools.record import record
from tools.sources.mcp.sdk import load, product_version

ANSWER_S = 600.0
"""How long a call waits for the client to come back with an answer, in seconds."""

MAX_WAITING = 100
"""How many calls wait for an answer; more are told that nobody can be asked."""

PROGRESS_S = 0.1
"""Output of a call is passed on as progress no more often than this, in seconds."""

TOKENS = "opta/tokens"
"""The key of `_meta` under which a listed tool says what its schema costs a model, in tokens."""

_PROGRESS_CHARACTERS = 200
_KEY = "permission"
_SESSIONS = 100


class _Questions:
    """The questions of one call, for a client that is answered with them."""

    def __init__(self) -> None:
        self.asked: asyncio.Future[Question] = asyncio.get_running_loop().create_future()
        self._reply: asyncio.Future[Reply | None] = asyncio.get_running_loop().create_future()

    async def ask(self, question: Question) -> Reply | None:
        """Wait for the answer."""
        self.asked.set_result(question)
        return await self._reply

    def answer(self, reply: Reply | None) -> None:
        """Let the call go on, ready for its next question."""
        loop = asyncio.get_running_loop()
        replied = self._reply
        self.asked, self._reply = loop.create_future(), loop.create_future()
        if not replied.done():
            replied.set_result(reply)


@record
class _Waiting:
    """A call that waits for an answer, and what has to be called again for it to go on."""

    call: ServedCall
    questions: _Questions
    name: str
    arguments: JsonObject
    expiry: asyncio.TimerHandle


class Handlers:
    """Answers what clients ask. `costs` tells what tools cost."""

    def __init__(
        self,
        tools: ServedTools,
        calls: ServedCalls,
        costs: Callable[[Iterable[JsonObject]], ToolsCost],
    ) -> None:
        load()
        from mcp.server.subscriptions import InMemorySubscriptionBus

        self._tools = tools
        self._calls = calls
        self._costs = costs
        self._listed: tuple[object, JsonObject] | None = None
        self._waiting: dict[str, _Waiting] = {}
        self._sessions: deque[Any] = deque(maxlen=_SESSIONS)
        self._bus = InMemorySubscriptionBus()
        self._telling: set[asyncio.Task[None]] = set()
        tools.changed.append(self._tell_change)

    def server(self) -> Any:
        """Return the SDK's server with these handlers."""
        from mcp import types
        from mcp.server.lowlevel import NotificationOptions, Server
        from mcp.server.subscriptions import ListenHandler

        class Opta(Server[Any]):
            def get_capabilities(self, *_: Any, **given: Any) -> types.ServerCapabilities:
                return super().get_capabilities(NotificationOptions(tools_changed=True), **given)

        server = Opta(
            "opta",
            version=product_version(),
            on_list_tools=self.list_tools,
            on_call_tool=self.call_tool,
            on_subscriptions_listen=ListenHandler(self._bus),
        )
        server.add_notification_handler(
            "notifications/initialized", types.NotificationParams, self._remember
        )
        server.middleware.clear()
        return server

    async def list_tools(self, context: Any, params: Any) -> Any:
        """Answer `tools/list`, as the tools are now."""
        await self._tools.look()
        return self.listing()

    def listing(self) -> JsonObject:
        """Return all served tools on one page: the same object while they are the same."""
        from mcp import types

        tools = self._tools.tools
        if self._listed is None or self._listed[0] is not tools:
            costs = self._costs(tool.wire for tool in tools.values())
            listed = types.ListToolsResult(
                tools=[
                    types.Tool(
                        name=name,
                        description=tool.description,
                        input_schema=dict(tool.parameters),
                        _meta={TOKENS: costs.per_tool[name]},
                    )
                    for name, tool in tools.items()
                ]
            )
            plain = listed.model_dump(by_alias=True, mode="json", exclude_none=True)
            self._listed = (tools, plain)
        return self._listed[1]

    async def call_tool(self, context: Any, params: Any) -> Any:
        """Answer `tools/call`: a result, or a question that has to be answered first."""
        arguments = params.arguments or {}
        if params.request_state is not None:
            waiting = self._resumed(params, arguments)
            call, questions = waiting.call, waiting.questions
        else:
            if params.name not in self._tools.tools:
                raise _invalid(f"Unknown tool: {params.name}")
            questions = _Questions()
            ask = self._asker(context, questions)
            call = self._calls.begin(params.name, arguments, _client(context), ask)
        async with _Progress(context, call):
            result = await _result_or_question(call, questions)
        if isinstance(result, Question):
            return self._required(result, call, questions, params.name, arguments)
        return _as_result(result)

    def _asker(self, context: Any, questions: _Questions) -> Ask | None:
        """Return how to ask who sits before the client, None where it passes nothing on."""
        if not _takes_forms(context.session.client_capabilities):
            return None
        if context.session.can_send_request:
            return partial(_ask_now, context)
        return questions.ask if len(self._waiting) < MAX_WAITING else None

    def _required(
        self,
        question: Question,
        call: ServedCall,
        questions: _Questions,
        name: str,
        arguments: JsonObject,
    ) -> Any:
        from mcp import types

        state = secrets.token_urlsafe(24)
        expiry = asyncio.get_running_loop().call_later(ANSWER_S, self._expire, state)
        self._waiting[state] = _Waiting(call, questions, name, arguments, expiry)
        request = types.ElicitRequest(params=_form(question))
        return types.InputRequiredResult(input_requests={_KEY: request}, request_state=state)

    def _resumed(self, params: Any, arguments: JsonObject) -> _Waiting:
        """Let a call that waits go on with the answer. Raises MCPError for any other call."""
        waiting = self._waiting.get(params.request_state)
        if waiting is None or (waiting.name, waiting.arguments) != (params.name, arguments):
            raise _invalid(
                "No such call waits for an answer. Nothing was done; call the tool anew."
            )
        del self._waiting[params.request_state]
        waiting.expiry.cancel()
        waiting.questions.answer(_reply((params.input_responses or {}).get(_KEY)))
        return waiting

    def _expire(self, state: str) -> None:
        self._waiting.pop(state).questions.answer(None)

    async def _remember(self, context: Any, params: Any) -> None:
        self._sessions.append(context.session)

    def _tell_change(self) -> None:
        task = asyncio.create_task(self._tell_all())
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)

    async def _tell_all(self) -> None:
        from mcp.server.subscriptions import ToolsListChanged

        for session in list(self._sessions):
            # A client that has left is told in vain.
            with suppress(Exception):
                await session.send_tool_list_changed()
        await self._bus.publish(ToolsListChanged())


async def _result_or_question(call: ServedCall, questions: _Questions) -> ToolResult | Question:
    """Wait for the one or the other. When the waiting is cancelled, so is the call."""
    assert call.task is not None
    either: set[asyncio.Future[Any]] = {call.task, questions.asked}
    try:
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    except asyncio.CancelledError:
        call.task.cancel()
        raise
    return call.task.result() if call.task.done() else questions.asked.result()


async def _ask_now(context: Any, question: Question) -> Reply | None:
    """Ask in the middle of the call; None where the client cannot ask after all."""
    form = _form(question)
    try:
        result = await context.session.elicit_form(
            form.message, form.requested_schema, related_request_id=context.request_id
        )
    except Exception:
        return None
    return _reply(result)


def _form(question: Question) -> Any:
    from mcp import types

    return types.ElicitRequestFormParams(message=question.text, requested_schema=question.schema)


def _reply(result: Any) -> Reply:
    content = getattr(result, "content", None)
    return getattr(result, "action", "cancel"), content if isinstance(content, dict) else {}


def _takes_forms(capabilities: Any) -> bool:
    """Tell whether a client passes questions on. An empty capability, the oldest form, is a yes."""
    found = capabilities.elicitation if capabilities is not None else None
    return found is not None and (found.form is not None or found.url is None)


def _client(context: Any) -> str:
    params = context.session.client_params
    return f"{params.client_info.name}" if params is not None else "a client"


def _as_result(result: ToolResult) -> Any:
    from mcp import types

    text = types.TextContent(type="text", text=result.text)
    return types.CallToolResult(content=[text], is_error=not result.success)


def _invalid(message: str) -> Exception:
    from mcp import types
    from mcp.shared.exceptions import MCPError

    return MCPError(types.INVALID_PARAMS, message)


class _Progress:
    """Passes the output of a call on, one line at a time, where the client wants to hear of it."""

    def __init__(self, context: Any, call: ServedCall) -> None:
        self._session = context.session
        self._wanted = bool(context.meta and context.meta.get("progress_token") is not None)
        self._call = call
        self._line = ""
        self._new = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> None:
        if self._wanted:
            self._call.output = self._take
            self._task = asyncio.create_task(self._pass_on())

    async def __aexit__(self, *_: object) -> None:
        self._call.output = lambda text: None
        if self._task is not None:
            self._task.cancel()

    def _take(self, text: str) -> None:
        lines = text.split()
        if lines:
            self._line = text.strip().rpartition("\n")[2][:_PROGRESS_CHARACTERS]
            self._new.set()

    async def _pass_on(self) -> None:
        for number in range(1, 1 << 62):
            await self._new.wait()
            self._new.clear()
            with suppress(Exception):
                await self._session.report_progress(number, None, self._line)
            await asyncio.sleep(PROGRESS_S)
