"""Connects to MCP servers for one command."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from agent import streams
from agent.configuration import isolation_of
from agent.settings_values import Settings
from tools.engine.environment import child_environment
from tools.permissions.gate import PermissionGate
from tools.permissions.rules import RuleSet
from tools.sources.mcp.servers import McpServers, Surroundings

if TYPE_CHECKING:
    from tools.sources.mcp.files import Configured


@asynccontextmanager
async def connected(
    configured: Configured, root: Path, settings: Settings
) -> AsyncIterator[McpServers]:
    """Connect to all of them, and end them afterwards. What is wrong is told on standard error."""
    from tools.engine.process import settle
    from tools.sources.mcp.http import open_address

    environment = child_environment(os.environ, secrets=settings.secret_variables)
    gate = PermissionGate(RuleSet(settings.rules, root))
    around = Surroundings(root, environment, gate, isolation_of(root, settings))
    servers = McpServers(lambda: configured, around, open_address)
    servers.tell = streams.tell
    try:
        servers.start()
        await servers.ready(None, lambda text: None)
        yield servers
    finally:
        await servers.close()
        await settle()
