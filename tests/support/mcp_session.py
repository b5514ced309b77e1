"""MCP servers for tests: configurations of `mcp_server.py`, and a session of such servers."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from tools.builtin.kit import Services
from tools.confinement import ANY, IsolationSettings
from tools.definition import Outcome, ResolvedCall, Scope, ToolCall, ToolError, ToolResult
from tools.engine.environment import child_environment
from tools.engine.isolation.choice import Isolation
from tools.engine.process import settle
from tools.executor import ToolExecutor
from tools.files.walls import survey
from tools.files.workspace import Workspace
from tools.permissions.gate import PermissionGate
from tools.permissions.rules import Rule, RuleSet
from tools.registry import ToolRegistry, ToolSettings
from tools.sources.mcp.calls import prepare_call
from tools.sources.mcp.config import ServerConfig
from tools.sources.mcp.files import Configured
from tools.sources.mcp.http import open_address
from tools.sources.mcp.servers import McpServers, Surroundings

SCRIPT = Path(__file__).with_name("mcp_server.py")


def command(kind: str, *arguments: object) -> list[str]:
    """The command line of a server of this kind."""
    return [sys.executable, str(SCRIPT), kind, *map(str, arguments)]


def server(kind: str, *arguments: object, name: str = "", **settings: Any) -> ServerConfig:
    """The configuration of a server of this kind, which is its name too."""
    argv = command(kind, *arguments)
    return ServerConfig(
        name or kind, Scope.USER, "config.yml:1", argv[0], tuple(argv[1:]), **settings
    )


def entry(kind: str, *arguments: object, **settings: Any) -> dict[str, Any]:
    """The same as an entry of a configuration file."""
    argv = command(kind, *arguments)
    return {"command": argv[0], "args": argv[1:], **settings}


class Session:
    """Running servers, and what was told of them."""

    def __init__(
        self,
        root: Path,
        configs: tuple[ServerConfig, ...],
        rules: tuple[Rule, ...],
        backend: str = ANY,
    ) -> None:
        self.configs = {config.name: config for config in configs}
        self.told: list[str] = []
        self.gate = PermissionGate(RuleSet(rules, root))
        isolation = Isolation(root, survey, IsolationSettings(backend=backend))
        around = Surroundings(root, child_environment(os.environ), self.gate, isolation)
        self.servers = McpServers(lambda: Configured(self.configs), around, open_address)
        self.servers.tell = self.told.append

    @property
    def names(self) -> list[str]:
        return [tool.name for tool in self.servers.definitions()]

    def registry(self) -> ToolRegistry:
        """The registry with the tools of the servers and no others."""
        return ToolRegistry(
            [], lambda: ([], []), ToolSettings({}), lambda name, on: None, self.servers.definitions
        )

    async def run(self, calls: Sequence[tuple[str, Mapping[str, Any]]]) -> tuple[ToolResult, ...]:
        """Run calls as the model makes them: found, checked, and decided where nobody answers."""
        services = Services(
            Workspace(Path.cwd()), {}, prepare_served=partial(prepare_call, servers=self.servers)
        )
        executor = ToolExecutor(self.registry(), self.gate, {}, services)
        made = [ToolCall(str(n), name, json.dumps(args)) for n, (name, args) in enumerate(calls)]
        return await executor.batch(made, lambda event: None).run()

    async def call(
        self, name: str, arguments: Mapping[str, Any] | None = None, progress: Any = None
    ) -> ToolResult:
        """Call a tool as the executor does, with the person's word for it."""
        tool = next(t for t in self.servers.definitions() if t.name == name)
        resolved = ResolvedCall("c1", tool, dict(arguments or {}))
        invocation = prepare_call(resolved, self.servers)
        decision = self.gate.authorise_person(resolved, invocation, "the test")
        assert decision.grant is not None
        try:
            return await invocation.run(decision.grant, progress or (lambda text: None))
        except ToolError as error:
            return ToolResult(str(error), Outcome.ERROR)

    async def text(self, name: str, **arguments: Any) -> str:
        """Call a tool that has to succeed; return its text without the marks around it."""
        result = await self.call(name, arguments)
        assert result.outcome is Outcome.OK, result.text
        return "\n".join(result.text.split("\n")[1:-1])


@asynccontextmanager
async def session(
    root: Path, *configs: ServerConfig, rules: tuple[Rule, ...] = (), backend: str = ANY
) -> AsyncIterator[Session]:
    """Start servers, wait until each is ready or failed, and end them."""
    made = Session(root, configs, rules, backend)
    made.servers.start()
    try:
        await made.servers.ready(None, lambda text: None)
        made.servers.definitions()
        yield made
    finally:
        await made.servers.close()
        await settle()
