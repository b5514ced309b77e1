"""What tools may be called, and which of several of the same name counts."""

from __future__ import annotations

from collections.abc import Iterable

from tools.actions import McpAction
from tools.definition import Source, ToolDefinition, wire_name
from tools.formats.problems import ToolProblem, shown_path

SETTING_NAMES = frozenset(
    ["showTokenCosts", "autoLoadCustomTools", "maxExecutionTime", "maxCustomTools", "tokenBudget"]
)
"""Keys of the `tools:` settings that are not tools, so no tool can have such a name (X68)."""

SESSION_NAMES = frozenset({"task_add", "task_status", "task_list", "session_complete"})
"""Names that belong to the tools of a session (X13)."""


def other_names(tool: ToolDefinition) -> tuple[str, ...]:
    """Return what a tool answers to besides its own name (X12, X27)."""
    if isinstance(tool.action, McpAction):
        # As other programs spell it.
        return (tool.wire_name, wire_name(f"mcp__{tool.action.server}__{tool.action.tool}"))
    if tool.origin.source is not Source.CUSTOM:
        return (tool.wire_name,)
    return (tool.wire_name, f"custom.{tool.name}", f"custom_{tool.name}")


def without_conflicts(
    definitions: Iterable[ToolDefinition], reserved: frozenset[str]
) -> tuple[list[ToolDefinition], list[ToolProblem]]:
    """Keep the first tool of every name; say what happened to the others (X2, X13).

    No tool may have one of the `reserved` wire names, those of the built-in tools.
    """
    kept: dict[str, ToolDefinition] = {}
    problems: list[ToolProblem] = []
    for tool in definitions:
        refusal = refused_name(tool.name, reserved)
        first = kept.get(tool.wire_name)
        if refusal:
            problems.append(_problem(tool, refusal, hint="choose another name"))
        elif first is None:
            kept[tool.wire_name] = tool
        elif first.name != tool.name:
            problems.append(_problem(
                tool, f"the API sees {tool.name!r} and {first.name!r} ({place(first)}) "
                f"as one name, {tool.wire_name!r}", hint="rename one of them",
            ))  # fmt: skip
        elif first.origin.scope is not tool.origin.scope:
            problems.append(_problem(
                tool, f"tool {tool.name} is overridden by the {first.origin.scope} tool "
                f"{place(first)}", warning=True,
            ))  # fmt: skip
        else:
            problems.append(_problem(
                tool, f"Tool {tool.name} already registered, skipping",
                hint=f"the first is {place(first)}", warning=True,
            ))  # fmt: skip
    return list(kept.values()), problems


def wire_names(tools: Iterable[ToolDefinition]) -> frozenset[str]:
    """Return the names that the API knows the tools by."""
    return frozenset(tool.wire_name for tool in tools)


def refused_name(name: str, builtins: frozenset[str]) -> str:
    """Say why no custom tool may have this name (X13), or nothing.

    `builtins` are the wire names of the built-in tools.
    """
    on_wire = wire_name(name)
    if on_wire in builtins:
        return f"the name {name!r} conflicts with built-in tool {on_wire}"
    if on_wire in SESSION_NAMES:
        return f"the name {name!r} conflicts with a session tool"
    if on_wire.startswith("mcp_"):
        return f"the name {name!r} starts with mcp_, which is kept for MCP tools"
    if name in SETTING_NAMES:
        return f"the name {name!r} is a setting"
    return ""


def _problem(
    tool: ToolDefinition, message: str, *, hint: str = "", warning: bool = False
) -> ToolProblem:
    origin = tool.origin
    return ToolProblem(
        origin.path, message, line=origin.line, key="$.name", hint=hint, warning=warning
    )


def place(tool: ToolDefinition) -> str:
    """Return the file of a tool as people see it, empty for one without."""
    return shown_path(tool.origin.path) if tool.origin.path else ""
