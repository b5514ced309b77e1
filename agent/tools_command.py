"""`opta tools`: the twin of `/tools` on the command line."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from agent import streams
from agent.configuration import mcp_configured, read_settings
from agent.errors import UserError
from agent.flags import CODEX_FLAGS, add_codex_flags, add_model_flags
from agent.project import project_root, trust_in
from agent.settings_values import Settings
from agent.team import team_tools
from agent.tool_registry import build_registry, build_tools_command
from tools.commands import tools as command
from tools.cost import form_of
from tools.definition import ToolDefinition

if TYPE_CHECKING:
    from tools.sources.mcp.config import ServerConfig


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    command.configure(parser)
    parser.add_argument(
        "--trust",
        action="store_true",
        help="trust this directory's tools and settings for this run",
    )
    parser.add_argument("-C", "--directory", metavar="DIR", help="work in DIR")
    parser.add_argument(
        "--connect", action="store_true",
        help="ask the MCP servers for their tools now; otherwise those of their last connection "
        "are shown",
    )  # fmt: skip
    add_model_flags(parser)
    add_codex_flags(parser)


def run(arguments: argparse.Namespace, out: TextIO) -> int:
    """Carry it out; return the exit code. Raises UserError."""
    root = project_root(arguments.directory)
    trust = trust_in(root, given=arguments.trust)
    names = ("model", "base_url", "api", *CODEX_FLAGS)
    flags = {name: getattr(arguments, name) for name in names}
    settings = read_settings(root, flags, trusted=trust.settings)
    for text in filter(None, [trust.unused(), *settings.warnings]):
        streams.tell(text)
    configured = mcp_configured(trust, settings)
    for problem in configured.problems:
        streams.tell(str(problem))
    servers = [config for config in configured.servers.values() if config.enabled]
    served, seen = _served(servers, root, settings, now=arguments.connect)
    tools = build_tools_command(
        root,
        build_registry(trust, settings, load_served=lambda: served, team=team_tools(settings)),
        settings,
        lambda: form_of(settings.model),
        called="opta tools",
    )
    tools.seen = seen
    try:
        return command.run(arguments, tools, out, sys.stderr)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise UserError(str(error)) from None


def _served(
    servers: Sequence[ServerConfig], root: Path, settings: Settings, *, now: bool
) -> tuple[list[ToolDefinition], dict[str, float | None]]:
    """Return the tools of MCP servers, and when those offered them that are not asked `now`."""
    if not servers:
        return [], {}
    if now:
        return asyncio.run(_offered_now(servers, root, settings)), {}
    from tools.sources.mcp.seen import recall, seen_definitions

    last = {config.name: recall(config) for config in servers}
    times = {name: seen.at if seen else None for name, seen in last.items()}
    return seen_definitions(servers), times


async def _offered_now(
    servers: Sequence[ServerConfig], root: Path, settings: Settings
) -> list[ToolDefinition]:
    from agent.mcp_by_hand import connected
    from tools.sources.mcp.files import Configured

    configured = Configured({config.name: config for config in servers})
    async with connected(configured, root, settings) as running:
        return running.definitions()
