"""All MCP servers of a session: started in the background, asked for their tools, ended together.

Nothing here imports the SDK before a server is configured and the chat is open. What servers offer
is taken over between turns only: `definitions` says what there is now, `news` what a person should
hear of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from tools.actions import McpAction
from tools.confinement import Confinement, Level
from tools.definition import (
    Effect,
    EffectKind,
    Invocation,
    Origin,
    ResolvedCall,
    Source,
    TextDisplay,
    ToolDefinition,
    ToolError,
    ToolResult,
)
from tools.engine.masking import Masker
from tools.engine.output import visible
from tools.engine.process import ProcessStartError
from tools.permissions.gate import PermissionGate
from tools.permissions.grant import Grant
from tools.record import record
from tools.storage import StorageError

if TYPE_CHECKING:
    from tools.engine.isolation.choice import Isolation
    from tools.engine.service import Service
    from tools.formats.problems import ToolProblem
    from tools.sources.mcp import sdk
    from tools.sources.mcp.accepted import Review, ToolReviews
    from tools.sources.mcp.catalog import Catalog
    from tools.sources.mcp.config import ServerConfig
    from tools.sources.mcp.connection import Connection
    from tools.sources.mcp.files import Configured
    from tools.sources.mcp.log import ServerLog

WAIT_S = 5.0
"""How long a message of the chat waits for servers that are still starting, in seconds."""

Elicit: TypeAlias = "Callable[[str, sdk.Elicitation], Awaitable[sdk.ElicitationAnswer]]"


async def _decline(server: str, question: sdk.Elicitation) -> sdk.ElicitationAnswer:
    from tools.sources.mcp import sdk

    return sdk.ElicitationAnswer("decline")


@record
class Surroundings:
    """What servers run in: the workspace, the environment of children without secrets (R38).

    `isolation` is for those that are to run in a sandbox; `masker` hides what opta was given in
    secret in all that they say (R39).
    """

    root: Path
    child_env: Mapping[str, str]
    gate: PermissionGate
    isolation: Isolation
    masker: Masker = field(default_factory=Masker)


class _Oddities:
    """Tools that cannot be used, and words that hold what nobody sees: the person hears once."""

    def __init__(self) -> None:
        self._told: dict[str, tuple[str, ...]] = {}

    def news(self, name: str, catalog: Catalog) -> Iterator[str]:
        """Yield the lines about a server that are new."""
        odd = (*catalog.refused, *catalog.hidden)
        if not odd or self._told.get(name) == odd:
            return
        self._told[name] = odd
        if catalog.refused:
            more = len(catalog.refused) - 1
            rest = f" (and {more} more: /mcp {name})" if more else ""
            yield f"MCP server {name}: not used: {catalog.refused[0]}{rest}"
        if catalog.hidden:
            tools = visible(", ".join(catalog.hidden))
            yield (
                f"MCP server {name}: invisible characters in its words about {tools} are shown as "
                "escapes"
            )


class McpServers:
    """See the module.

    `configured` is called for the configuration as it is now. `tell` and `elicit` are set by the
    front end: one takes a line for the person, the other asks for what a server wants to know.
    `masker` hides secrets in what servers say.
    """

    def __init__(
        self,
        configured: Callable[[], Configured],
        surroundings: Surroundings,
        http: Callable[[ServerConfig], AbstractAsyncContextManager[tuple[Any, Any]]],
    ) -> None:
        self._configured = configured
        self._surroundings = surroundings
        self._http = http
        self._oddities = _Oddities()
        self._told_problems: tuple[ToolProblem, ...] = ()
        self._definitions: list[ToolDefinition] | None = None
        self._closing: set[asyncio.Task[None]] = set()
        self._started = False
        self.connections: dict[str, Connection] = {}
        self.masker = surroundings.masker
        self.tell: Callable[[str], None] = lambda text: None
        self.elicit: Elicit = _decline

    def start(self) -> None:
        """Begin to connect to all servers; needs a running event loop, and returns at once."""
        self._started = True
        self.reconfigure()

    def reconfigure(self) -> None:
        """Take over what the files say now: new servers start, others end or start anew."""
        if not self._started:
            return
        configured = self._configured()
        servers = configured.servers
        for problem in configured.problems:
            if problem not in self._told_problems:
                self.tell(str(problem))
        self._told_problems = configured.problems
        for name, connection in list(self.connections.items()):
            if servers.get(name) != connection.config:
                self._drop(name)
        for name, config in servers.items():
            if name not in self.connections:
                self._connect(config)

    async def restart(self, name: str) -> None:
        """Connect anew. Raises KeyError when there is no such server."""
        old = self.connections[name]
        await old.close()
        self._connect(old.config)

    async def ready(self, wait_s: float | None, tell: Callable[[str], None]) -> None:
        """Wait until every server is ready or failed, at most `wait_s` seconds (None: no limit).

        Where there is a limit, a server is waited for once and later messages go on without it.
        Each has a deadline of its own for its start. `tell` hears which ones are waited for, if
        that takes a moment, and which are not waited for any longer. Those that needed a login, and
        have one now, are connected again first.
        """
        await self._connect_those_logged_in(tell)
        starting = [c for c in self._starting() if wait_s is None or not c.waited_for]
        if not starting:
            return
        waits = [asyncio.ensure_future(c.settled()) for c in starting]
        try:
            _, pending = await asyncio.wait(waits, timeout=0.3)
            if pending:
                tell(f"waiting for {_servers(self._starting())} to start")
                limit = None if wait_s is None else max(wait_s - 0.3, 0)
                _, pending = await asyncio.wait(waits, timeout=limit)
            if pending:
                tell(f"{_servers(self._starting())} will be used once started")
                for connection in starting:
                    connection.waited_for = True
        finally:
            for wait in waits:
                wait.cancel()

    async def close(self) -> None:
        """End all servers at the same time."""
        await asyncio.gather(*self._closing, *(c.close() for c in self.connections.values()))

    def definitions(self) -> list[ToolDefinition]:
        """Return the tools of all servers that are ready, by server and name."""
        if self._definitions is None:
            self._definitions = self._make_definitions()
        return self._definitions

    def review(self, name: str) -> Review:
        """Return how the tools of a server differ from what was accepted (R34)."""
        return self._reviews.of(name)

    def accept(self, name: str) -> None:
        """Use the tools of a server as they are now. Raises KeyError, StorageError."""
        connection = self.connections[name]
        self._reviews.accept(connection.config, connection.catalog.tools)
        self._note_change()

    def connection(self, name: str) -> Connection:
        """Return a server. Raises ToolError when there is none of this name."""
        if name not in self.connections:
            known = ", ".join(self.connections) or "none"
            raise ToolError(f"There is no MCP server {name!r}; there are: {known}.")
        return self.connections[name]

    @cached_property
    def _reviews(self) -> ToolReviews:
        from tools.sources.mcp.accepted import ToolReviews

        return ToolReviews(lambda text: self.tell(text))

    def _connect(self, config: ServerConfig) -> None:
        from tools.sources.mcp.connection import Connection, Host

        host = Host(
            start=self._start_program,
            http=self._open_address,
            tell=lambda text: self.tell(text),
            changed=self._note_change,
            elicit=lambda server, question: self.elicit(server, question),
            root_uri=self._surroundings.root.as_uri(),
            masker=self.masker,
        )
        self.connections[config.name] = connection = Connection(config, host)
        connection.start()
        self._note_change()

    async def _connect_those_logged_in(self, tell: Callable[[str], None]) -> None:
        for name, connection in list(self.connections.items()):
            if connection.state.needs_login and await connection.login.is_new():
                tell(f"MCP server {name}: you logged in; opta connects again")
                await self.restart(name)

    def _drop(self, name: str) -> None:
        connection = self.connections.pop(name)
        self._reviews.forget(name)
        closing = asyncio.create_task(connection.close())
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)
        self._note_change()

    def _starting(self) -> list[Connection]:
        return [c for c in self.connections.values() if c.state.is_starting]

    def _note_change(self) -> None:
        self._definitions = None

    def _make_definitions(self) -> list[ToolDefinition]:
        if not self.connections:
            return []
        from tools.sources.mcp.catalog import Offer, all_definitions
        from tools.sources.mcp.connection import State
        from tools.sources.mcp.seen import remember

        offers = []
        for connection in self.connections.values():
            if connection.state is not State.READY:
                continue
            config, catalog = connection.config, connection.catalog
            for line in self._oddities.news(config.name, catalog):
                self.tell(line)
            review = self._reviews.look_at(config, catalog.tools)
            offers.append(Offer(config, catalog, review.changed))
            with suppress(StorageError):
                # It is a convenience; that nothing can be stored is said of what matters.
                remember(config, catalog)
        return all_definitions(offers)

    def _start_program(self, config: ServerConfig, log: ServerLog) -> Service:
        """Start the program of a server, which the person configured or trusted. Raises
        ProcessStartError."""
        from tools.engine.service import Service, ServiceSpec

        around = self._surroundings
        call, grant = self._permitted(config)
        env = {**around.child_env, **config.env}
        return Service(
            grant, call, ServiceSpec(config.argv, config.directory(around.root), env), log.printed
        )

    def _open_address(self, config: ServerConfig) -> AbstractAsyncContextManager[tuple[Any, Any]]:
        self._permitted(config)
        return self._http(config)

    def _permitted(self, config: ServerConfig) -> tuple[ResolvedCall, Grant]:
        """Let the gate allow the connection: deny rules hold for it. Raises ProcessStartError."""
        call, invocation = connecting(config, self._surroundings.root)
        if config.sandbox:
            invocation = replace(
                invocation, confinement=_walls(config, self._surroundings.isolation)
            )
        decision = self._surroundings.gate.authorise_configured(
            call, invocation, f"configured in {config.place}"
        )
        if decision.grant is None:
            raise ProcessStartError(f"denied by {decision.by}")
        return call, decision.grant


def connecting(config: ServerConfig, root: Path) -> tuple[ResolvedCall, Invocation]:
    """Return the start of a server in `root` as a call, which rules are matched against."""
    import shlex

    tool = ToolDefinition(
        name="mcp_connect",
        description="",
        parameters={},
        action=McpAction(config.name, ""),
        origin=Origin(Source.MCP, "mcp", config.scope),
    )
    target = (
        Effect(EffectKind.NETWORK, config.host, "mcp_connect")
        if config.url
        else Effect(
            EffectKind.EXECUTE,
            shlex.join(config.argv),
            "mcp_connect",
            cwd=str(config.directory(root)),
        )
    )
    effects = (Effect(EffectKind.SERVER, f"{config.name}/", "mcp_connect"), target)
    title = f"connect to the MCP server {config.name}"

    async def run(grant: Grant, progress: object) -> ToolResult:
        raise NotImplementedError  # a connection is no call with a result

    arguments = {"server": config.name, "url": config.url, "argv": list(config.argv)}
    return (
        ResolvedCall(f"mcp-{config.name}", tool, arguments),
        Invocation(title, effects, TextDisplay(title), run),
    )


def _walls(config: ServerConfig, isolation: Isolation) -> Confinement | None:
    """Return the walls of a server that is to have some. Raises ProcessStartError."""
    from tools.engine.isolation.choice import Demands

    demands = Demands(Level.SANDBOX, network=config.sandbox_network)
    try:
        return isolation.for_tool(config.name, demands)
    except ToolError as error:
        raise ProcessStartError(str(error)) from None


def _servers(connections: list[Connection]) -> str:
    names = [connection.config.name for connection in connections]
    return f"MCP server{'s' if len(names) != 1 else ''} {', '.join(names)}"
