"""Calls of MCP tools: what they will do, how that looks, and the call itself."""

from __future__ import annotations

import json

from tools.actions import McpAction
from tools.builtin.running import time_limit
from tools.definition import (
    Effect,
    EffectKind,
    Invocation,
    Outcome,
    Progress,
    ResolvedCall,
    TextDisplay,
    ToolResult,
)
from tools.engine.output import bounded_text, clipped, sanitize
from tools.permissions.grant import Grant
from tools.sources.mcp.catalog import READ_RESOURCE, Catalog
from tools.sources.mcp.connection import Connection
from tools.sources.mcp.content import marked, result_of
from tools.sources.mcp.pending import CallTimeout
from tools.sources.mcp.servers import McpServers


def prepare_call(
    call: ResolvedCall, servers: McpServers, max_execution_ms: int | None = None
) -> Invocation:
    """Return what a call of a server's tool will do. Raises ToolError."""
    action = call.tool.action
    assert isinstance(action, McpAction)
    if action.tool == READ_RESOURCE and not action.server:
        return _prepare_reading(call, servers, max_execution_ms)
    connection, masker = servers.connection(action.server), servers.masker
    limit, note = time_limit(max_execution_ms, connection.config.call_ms)

    async def run(grant: Grant, progress: Progress) -> ToolResult:
        grant.check(call)
        try:
            result = await connection.call_tool(
                action.tool, call.arguments, lambda text: progress(masker.text(text)), limit
            )
        except CallTimeout:
            return _timed_out(connection, limit, note)
        return result_of(action.server, result, masker)

    return Invocation(
        title=f"{call.tool.name}({_brief(call)})",
        effects=(Effect(EffectKind.SERVER, f"{action.server}/{action.tool}", call.tool.name),),
        preview=TextDisplay(masker.text(_shown(call, connection, note))),
        run=run,
    )


def _prepare_reading(
    call: ResolvedCall, servers: McpServers, max_execution_ms: int | None
) -> Invocation:
    server, uri = call.arguments["server"], call.arguments.get("uri", "")
    connection = servers.connection(server)
    limit, note = time_limit(max_execution_ms, connection.config.call_ms)

    async def run(grant: Grant, progress: Progress) -> ToolResult:
        grant.check(call)
        if not uri:
            return ToolResult(marked(server, resource_list(connection.catalog)))
        try:
            text = bounded_text(servers.masker.text(await connection.read_resource(uri, limit)))
        except CallTimeout:
            return _timed_out(connection, limit, note)
        return ToolResult(marked(server, text.text), full_output=text.full_output)

    title = f"read {uri or 'the list of resources'} of {server}"
    return Invocation(
        title=title,
        effects=(Effect(EffectKind.SERVER, f"{server}/{READ_RESOURCE}", call.tool.name),),
        preview=TextDisplay(f"{title}\n{note}" if note else title),
        run=run,
    )


def resource_list(catalog: Catalog) -> str:
    """Return the resources of a server, one a line."""
    lines = [f"{r.uri}  {r.name}  {r.description}".rstrip() for r in catalog.resources]
    return "\n".join(lines) or "The server lists no resources."


def _timed_out(connection: Connection, limit_ms: int, note: str) -> ToolResult:
    said = (
        f"The MCP server {connection.config.name} did not answer within {limit_ms / 1000:g} s. It "
        "was told to stop; the outcome is unknown: check before doing it again."
    )
    return ToolResult(f"{said}\n[{note}]" if note else said, Outcome.TIMED_OUT)


def _shown(call: ResolvedCall, connection: Connection, note: str) -> str:
    """Return the arguments whole, and what the server says of its tool, for what that is worth."""
    action, config = call.tool.action, connection.config
    assert isinstance(action, McpAction)
    lines = [
        json.dumps(call.arguments, indent=2, ensure_ascii=False),
        f"{action.tool} of the MCP server {action.server} ({config.url or config.command})",
    ]
    hints = next((t.hints for t in connection.catalog.tools if t.name == action.tool), {})
    told = [words for key, words in _HINTS.items() if hints.get(key) is True]
    if told:
        lines.append(f"the server says, unchecked: {', '.join(told)}")
    return "\n".join([*lines, *([note] if note else [])])


_HINTS = {
    "read_only_hint": "only reads",
    "destructive_hint": "may destroy",
    "open_world_hint": "reaches out to others",
}


def _brief(call: ResolvedCall) -> str:
    return clipped(sanitize(json.dumps(call.arguments, ensure_ascii=False))[1:-1], 60)


def find_server(text: str, servers: McpServers) -> tuple[str, str] | None:
    """Return server and address of a mention `server:uri`, None where it names no server."""
    server, colon, uri = text.partition(":")
    return (server, uri) if colon and uri and server in servers.connections else None
