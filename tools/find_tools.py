"""`find_tools`: loads deferred tools, found by words, for the rest of the conversation."""

from __future__ import annotations

import prompts
from tools.advertising import MOST_NAMED, summed_up
from tools.builtin.kit import Builtin, Services, define
from tools.definition import (
    Invocation,
    Progress,
    ResolvedCall,
    Risk,
    TextDisplay,
    ToolDefinition,
    ToolError,
    ToolResult,
)
from tools.engine.output import one_line
from tools.permissions.grant import Grant
from tools.registry import ToolRegistry
from tools.tool_search import ToolSearch

NAME = "find_tools"
MOST_LOADED = 5
"""How many tools one search loads."""

_LINE_CHARS = 200


def definition() -> ToolDefinition:
    """Return it as the registry takes it: offered only while a tool is deferred."""
    return define(
        NAME,
        prompts.load(f"tools/{NAME}"),
        {"query": {"type": "string", "description": "Words for what is needed, or exact names"}},
        ["query"],
        risk=Risk.LOW,
        enabled=False,
        metadata={"tags": ["read"]},
    )


class FindTools:
    """Searches what the registry has deferred."""

    def __init__(self, registry: ToolRegistry) -> None:
        self._registry = registry
        self._search = ToolSearch(())
        self._searched: list[ToolDefinition] = []

    def builtin(self) -> Builtin:
        """Return the built-in for the executor."""
        aliases = {"q": "query", "search": "query", "keywords": "query", "name": "query"}
        return Builtin(definition(), self._prepare, aliases)

    def _prepare(self, call: ResolvedCall, services: Services) -> Invocation:
        query = call.arguments["query"]
        if not query.strip():
            raise ToolError("query is empty. Say in a few words what the tool should do.")

        async def run(grant: Grant, progress: Progress) -> ToolResult:
            grant.check(call)
            return ToolResult(self._load(query))

        title = f"Find tools: {query[:_LINE_CHARS]}"
        return Invocation(title, (), TextDisplay(title), run)

    def _load(self, query: str) -> str:
        """Load what matches and say what it is."""
        tools = self._deferrable()
        found = self._search.find(query)
        if not found:
            return f"No tool matches. Other words may; there are: {summed_up(tools)}."
        taken, rest = found[:MOST_LOADED], found[MOST_LOADED:]
        self._registry.load(tool.name for tool in taken)
        lines = ["Loaded; call them from your next message on:", *map(_line, taken)]
        if rest:
            named = ", ".join(tool.wire_name for tool in rest[:MOST_NAMED])
            more = f" and {len(rest) - MOST_NAMED} more" if len(rest) > MOST_NAMED else ""
            lines.append(f"Not loaded, but found too (ask by name): {named}{more}")
        return "\n".join(lines)

    def _deferrable(self) -> list[ToolDefinition]:
        """Return all tools that wait or did, and search those from now on."""
        tools = self._registry.deferrable
        if tools != self._searched:
            self._search, self._searched = ToolSearch(tools), tools
        return tools


def _line(tool: ToolDefinition) -> str:
    return f"- {tool.wire_name}: {one_line(tool.description, _LINE_CHARS)}"
