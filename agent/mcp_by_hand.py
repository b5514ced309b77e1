"""Connects to MCP servers for one command."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from agent import log, streams
from agent.configuration import surroundings_of_servers
from agent.settings_values import Settings
from tools.permissions.gate import PermissionGate
from tools.permissions.rules import RuleSet
from tools.sources.mcp.servers import McpServers

if TYPE_CHECKING:
    from tools.sources.mcp.files import Configured


@asynccontextmanager
async def connected(
    configured: Configured, root: Path, settings: Settings
) -> AsyncIterator[McpServers]:
    """Connect to all of them, and end them afterwards. What is wrong is told on standard error."""
    from tools.engine.process import settle
    from tools.sources.mcp.http import open_address

    gate = PermissionGate(RuleSet(settings.rules, root))
    around = surroundings_of_servers(root, settings, gate)
    servers = McpServers(lambda: configured, around, partial(open_address, learn=log.learn))
    servers.tell = streams.tell
    try:
        servers.start()
        await servers.ready(None, lambda text: None)
        yield servers
    finally:
        await servers.close()
        await settle()
