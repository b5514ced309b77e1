"""A tool for other programs: as APIs of models take it, and as MCP clients and opencode load it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tools.commands.tool.kit import as_json
from tools.definition import JsonObject, ToolDefinition
from tools.sources.opencode import tool_file


class Form(NamedTuple):
    """One form: `text` writes it, `use` tells the person what it is for."""

    text: Callable[[ToolDefinition], str]
    use: str


def _claude(tool: ToolDefinition) -> JsonObject:
    return {
        "name": tool.wire_name,
        "description": tool.description,
        "input_schema": dict(tool.parameters),
    }


def _server(tool: ToolDefinition) -> JsonObject:
    arguments = ["mcp", "serve", "--tools", tool.wire_name]
    return {"mcpServers": {"opta": {"command": "opta", "args": arguments}}}


FORMS = {
    "openai": Form(lambda tool: as_json(tool.wire), "For `tools` of a Chat Completions request."),
    "claude": Form(
        lambda tool: as_json(_claude(tool)),
        "For `tools` of a Claude API request. Claude Code itself reads --format mcp.",
    ),
    "mcp": Form(
        lambda tool: as_json(_server(tool)),
        "For MCP clients, such as .mcp.json of Claude Code. --tools can be repeated.",
    ),
    "opencode": Form(
        tool_file, "For .opencode/tool/NAME.ts of the project: opencode calls it NAME."
    ),
}
