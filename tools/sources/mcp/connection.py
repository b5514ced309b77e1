"""One MCP server: started, asked what it offers, called, started again after a crash, ended.

A connection is owned by one task, which opens and closes what the SDK wants opened and closed in
the same place; other tasks only send requests through it. Every wait has a deadline.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from enum import StrEnum
from typing import Any, TypeAlias, TypeVar

from tools.definition import JsonObject, ToolError
from tools.engine.masking import Masker
from tools.engine.output import clipped, visible
from tools.engine.process import ProcessStartError
from tools.engine.service import Service
from tools.record import record, with_texts
from tools.sources.mcp import sdk
from tools.sources.mcp.authorization import lacks_scopes, refusal
from tools.sources.mcp.catalog import Catalog
from tools.sources.mcp.config import ServerConfig
from tools.sources.mcp.content import ServerResult, mismatch, resources_text
from tools.sources.mcp.log import ServerLog
from tools.sources.mcp.login_store import LoginWatch
from tools.sources.mcp.pending import CallTimeout, Pending
from tools.sources.mcp.renewal import LoginNeeded
from tools.sources.mcp.stdio import StdioTransport

RESTART_AFTER_S = (1.0, 4.0, 16.0)
"""How long is waited before each further start of a server that crashed, in seconds."""

STEADY_S = 60.0
"""A server that worked for so long may crash as often again."""

GOODBYE_S = 1.5
"""How long the end of a connection may take, in seconds."""

_SHOWN_CHARACTERS = 300

T = TypeVar("T")

OnProgress: TypeAlias = Callable[[str], None]


class State(StrEnum):
    """Where a server stands."""

    OFF = "off"
    STARTING = "starting"
    READY = "ready"
    WAITING = "starting again"
    LOGIN = "needs a login"
    FAILED = "failed"
    ENDED = "ended"

    @property
    def is_starting(self) -> bool:
        """True until it is known for the first time whether the server can be used."""
        return self is State.STARTING

    @property
    def needs_login(self) -> bool:
        """True where the person has to log in first."""
        return self is State.LOGIN


@record
class Host:
    """What a connection needs of opta.

    `start` starts the program of a server, with its grant; `http` opens an address. `tell` takes
    one line for the person, `changed` is called when what the server offers or its state changed.
    `masker` hides secrets in what the server says.
    """

    start: Callable[[ServerConfig, ServerLog], Service]
    http: Callable[[ServerConfig], AbstractAsyncContextManager[tuple[Any, Any]]]
    tell: Callable[[str], None]
    changed: Callable[[], None]
    elicit: Callable[[str, sdk.Elicitation], Awaitable[sdk.ElicitationAnswer]]
    root_uri: str
    masker: Masker

    def said(self, text: str) -> str:
        """Return words of a server, or about it, as one line without secrets (R39)."""
        return short(self.masker.text(text))

    async def catalog(self, client: Any, config: ServerConfig) -> Catalog:
        """Return what a server offers, without secrets in its words."""
        found: Catalog = with_texts(await sdk.catalog(client, config), self.masker.text)
        return found


class _Refusals:
    """What the person was told already; a server that thinks of ever new reasons bores them not."""

    _MOST = 10

    def __init__(self) -> None:
        self._told: set[str] = set()

    def are_new(self, reason: str) -> bool:
        """Tell whether the person has yet to hear of this one, which they do now."""
        if reason in self._told or len(self._told) == self._MOST:
            return False
        self._told.add(reason)
        return True


class Connection:
    """See the module. `error` says in one line why there is none.

    `waited_for` says that a message has waited for its start, and gone on without it.
    """

    def __init__(self, config: ServerConfig, host: Host) -> None:
        self.config = config
        self.state = State.STARTING if config.enabled else State.OFF
        self.error = ""
        self.catalog = Catalog()
        self.login = LoginWatch(config)
        self.calls = 0
        self.waited_for = False
        self._host = host
        self._log = ServerLog(config.name, host.masker) if config.enabled else None
        self._client: Any = None
        self._transport: StdioTransport | None = None
        self._over = asyncio.Event()
        self._left = asyncio.Event()
        self._settled = asyncio.Event()
        self._owner: asyncio.Task[None] | None = None
        self._pending = Pending()
        self._crashes = 0
        self._refusals = _Refusals()

    def start(self) -> None:
        """Begin; what comes of it is told to the host."""
        if self.config.enabled and self._owner is None:
            self._owner = asyncio.create_task(self._own())

    async def settled(self) -> None:
        """Wait until the server is ready, or known not to be."""
        if self._owner is not None:
            await self._settled.wait()

    async def close(self) -> None:
        """End the connection and the program, whatever the server does about it."""
        self._pending.cancel()
        for _ in range(2):
            # The first cancellation says goodbye to the server, the second does without.
            if self._owner is not None and not self._owner.done():
                self._owner.cancel()
                await asyncio.wait({self._owner}, timeout=GOODBYE_S)
        if self._log is not None:
            self._log.close()
        self._enter(State.ENDED)

    async def call_tool(
        self, name: str, arguments: JsonObject, on_progress: OnProgress, timeout_ms: int
    ) -> ServerResult:
        """Call a tool. Raises CallTimeout, and ToolError when there is no result."""
        self.calls += 1
        schema = next((t.output_schema for t in self.catalog.tools if t.name == name), None)
        request = sdk.call_tool(self._connected(), name, arguments, on_progress)
        result = await self._answer(request, timeout_ms)
        broken = "" if result.is_error else mismatch(schema, result.structured)
        return ServerResult(result.content, result.structured, result.is_error, broken)

    async def read_resource(self, uri: str, timeout_ms: int) -> str:
        """Return the contents of a resource. Raises as `call_tool` does."""
        result = await self._answer(self._connected().read_resource(uri), timeout_ms)
        return resources_text(result.contents)

    async def prompt_text(self, name: str, arguments: dict[str, str]) -> str:
        """Return the text of a prompt, filled in. Raises as `call_tool` does."""
        request = sdk.prompt_text(self._connected(), name, arguments)
        return self._host.masker.text(await self._answer(request, self.config.call_ms))

    def _connected(self) -> Any:
        if self._client is None:
            why = f": {self.error}" if self.error else ""
            raise ToolError(
                f"The MCP server {self.config.name} is not there ({self.state}{why}). Nothing was "
                "done. Go on without it."
            )
        return self._client

    async def _answer(self, request: Awaitable[T], timeout_ms: int) -> T:
        try:
            return await self._pending.answer(request, timeout_ms)
        except CallTimeout:
            raise
        except Exception as error:
            raise ToolError(await self._no_answer(error)) from None

    async def _no_answer(self, error: Exception) -> str:
        refused = refusal(error)
        if refused:
            if self._refusals.are_new(refused):
                self._host.tell(f"MCP server {self.config.name} refused a call: {refused}")
            return (
                f"The MCP server {self.config.name} refused this: {refused}. Nothing was done. "
                "Tell the user."
            )
        if sdk.lost_connection(error):
            self._over.set()
            if self.config.url:
                # Only then it is known why the connection was lost.
                with suppress(TimeoutError):
                    async with asyncio.timeout(GOODBYE_S):
                        await self._left.wait()
        if self.state is State.LOGIN:
            return (
                f"The MCP server {self.config.name} {self.state}: {self.error}. Whether this call "
                "was carried out is not known. Tell the user."
            )
        if self._over.is_set():
            return (
                f"The MCP server {self.config.name} ended while this ran ({self._why_over()}). "
                "The outcome is unknown: check before doing it again."
            )
        reason = self._host.said(sdk.reason(error))
        return f"The MCP server {self.config.name} answered with an error: {reason}"

    async def _own(self) -> None:
        """Keep the connection until it is closed or is not worth another try."""
        try:
            await asyncio.to_thread(sdk.load)
            while await self._once():
                pass
        except Exception as error:
            # A defect here must cost this server only.
            self._fail(State.FAILED, f"{type(error).__name__}: {self._host.said(str(error))}")
        finally:
            self._settled.set()

    async def _once(self) -> bool:
        """Connect and stay; True when it is worth trying again."""
        began = time.monotonic()
        self._over, self._left = asyncio.Event(), asyncio.Event()
        was_ready = False
        try:
            async with AsyncExitStack() as stack:
                client = await self._open(stack)
                was_ready = True
                self._client = client
                self.error = ""
                self._enter(State.READY)
                self._settled.set()
                await self._over.wait()
                reason = self._why_over()
        except Exception as error:
            reason, state = self._explain(error)
            never_worked = not was_ready and not self._crashes
            if state is State.LOGIN:
                await self.login.note_refusal()
            if never_worked or state is State.LOGIN:
                # It is configured wrongly, or a person is needed: trying again would not help.
                self._fail(state, reason)
                return False
        finally:
            self._client = None
            self._left.set()
        return await self._again(reason, time.monotonic() - began)

    async def _open(self, stack: AsyncExitStack) -> Any:
        config = self.config
        transport: AbstractAsyncContextManager[tuple[Any, Any]]
        if config.url:
            self._transport = None
            transport = self._host.http(config)
        else:
            log = self._log
            assert log is not None
            log.begin(config.command)
            self._transport = StdioTransport(
                lambda: self._host.start(config, log), log, self._over.set
            )
            transport = self._transport
        async with asyncio.timeout(config.start_ms / 1000):
            callbacks = sdk.Callbacks(
                elicit=self._elicit,
                on_list_changed=lambda: self._pending.spawn(self._list_again()),
                on_log=lambda text: (
                    self._log.note(f"log: {self._host.said(text)}") if self._log else None
                ),
                root_uri=self._host.root_uri,
            )
            client = await sdk.open_client(stack, transport, callbacks)
            self.catalog = await self._host.catalog(client, config)
        return client

    async def _again(self, reason: str, lasted_s: float) -> bool:
        self._crashes = 0 if lasted_s >= STEADY_S else self._crashes
        if self._crashes >= len(RESTART_AFTER_S):
            self._fail(State.FAILED, f"it was lost {self._crashes + 1} times, last: {reason}")
            return False
        delay = RESTART_AFTER_S[self._crashes]
        self._crashes += 1
        self.error = reason
        self._enter(State.WAITING)
        self._host.tell(
            f"MCP server {self.config.name} ended ({reason}); opta connects again in {delay:.0f} s"
        )
        await asyncio.sleep(delay)
        return True

    def _explain(self, error: Exception) -> tuple[str, State]:
        """Say in one line why there is no connection."""
        plain = sdk.innermost(error)
        if isinstance(plain, LoginNeeded):
            return f"log in with: opta mcp login {self.config.name}", State.LOGIN
        if isinstance(plain, ProcessStartError):
            return self._host.masker.text(str(plain).rstrip(".")), State.FAILED
        if refusal(plain):
            return refusal(plain), State.LOGIN if lacks_scopes(plain) else State.FAILED
        if isinstance(plain, TimeoutError):
            reason = f"no answer within {self.config.start_ms / 1000:g} s"
        elif self._over.is_set() and self._transport is not None:
            reason = self._why_over()
        else:
            reason = self._host.said(sdk.reason(plain))
        if self._transport is not None and self._transport.garbage and not self._transport.fault:
            reason = f"{reason}; it printed: {self._transport.garbage}"
        return reason, State.FAILED

    def _why_over(self) -> str:
        transport = self._transport
        if transport is None:
            return "the connection was lost"
        status = transport.service.status if transport.service is not None else ""
        said = self._host.said(self._log.last_line) if self._log is not None else ""
        if transport.fault or not status:
            return transport.fault or "it closed its standard output"
        return f"{status}: {said}" if said else status

    def _fail(self, state: State, reason: str) -> None:
        self.error = reason
        self.catalog = Catalog()
        self._enter(state)
        name = self.config.name
        hint = "" if self.config.url or state is State.LOGIN else f"; its log: opta mcp logs {name}"
        what = "needs a login" if state is State.LOGIN else "is not available"
        self._host.tell(f"MCP server {name} {what}: {reason}{hint}")

    def _enter(self, state: State) -> None:
        self.state = state
        if self._log is not None:
            self._log.note(f"{state}{f': {self.error}' if self.error else ''}")
        self._host.changed()

    async def _elicit(self, question: sdk.Elicitation) -> sdk.ElicitationAnswer:
        with self._pending.asking():
            asked = with_texts(question, self._host.masker.text)
            return await self._host.elicit(self.config.name, asked)

    async def _list_again(self) -> None:
        client = self._client
        if client is None:
            return
        try:
            async with asyncio.timeout(self.config.start_ms / 1000):
                self.catalog = await self._host.catalog(client, self.config)
        except Exception as error:
            reason = self._host.said(sdk.reason(sdk.innermost(error)))
            self._host.tell(
                f"MCP server {self.config.name} says its tools changed, but does not list them: "
                f"{reason}"
            )
        else:
            self._host.changed()


def short(text: str) -> str:
    """Return a server's words as one line that is safe to show."""
    return clipped(visible(" ".join(text.split())), _SHOWN_CHARACTERS)
