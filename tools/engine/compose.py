"""Finds the tools that tools are made of: the base of an alias, the tool of a step (X128, X129)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from tools.actions import AliasAction, BuiltinAction, Parameter, PlanAction
from tools.definition import JsonObject, ResolvedCall, ToolDefinition, ToolError
from tools.engine.predefined import predefined_values
from tools.engine.surroundings import system_temp
from tools.engine.values import Values

MAX_DEPTH = 10
"""How many tools may stand one in the other."""


class ToolFinder(Protocol):
    """Knows the other tools. The registry is above the engine, so it is handed in."""

    def find(self, name: str) -> ToolDefinition | None:
        """Return the tool of this name if it may be used."""
        ...

    def check(self, tool: ToolDefinition, arguments: JsonObject) -> JsonObject:
        """Return the arguments as the tool wants them. Raises ToolError."""
        ...


def find_plan(name: str, user: str, within: tuple[str, ...], tools: ToolFinder) -> ToolDefinition:
    """Return the tool `name` that the tool `user` names; `within` are those around it.

    Raises ToolError when there is none, when it is no custom tool, and for a ring.
    """
    tool = tools.find(name)
    if tool is None:
        raise ToolError(
            f"The tool {user} needs the tool {name!r}, which was not found. Nothing was done. "
            "Add a tool of that name, or correct the name in the file."
        )
    if isinstance(tool.action, BuiltinAction):
        raise ToolError(
            f"The tool {user} names {name!r}, which is built in: only custom tools can be used "
            "by tools. Nothing was done."
        )
    if tool.name in within:
        ring = " -> ".join((*within[within.index(tool.name) :], tool.name))
        raise ToolError(f"These tools use each other: {ring}. Nothing was done.")
    if len(within) >= MAX_DEPTH:
        raise ToolError(
            f"More than {MAX_DEPTH} tools use one another: {' -> '.join(within)}. Nothing was done."
        )
    return tool


def through_aliases(
    call: ResolvedCall, within: tuple[str, ...], tools: ToolFinder, root: Path
) -> tuple[ResolvedCall, tuple[ToolDefinition, ...]]:
    """Return the call that an alias stands for, and the aliases on the way. Raises ToolError."""
    passed: list[ToolDefinition] = []
    while isinstance(call.tool.action, AliasAction):
        alias = call.tool
        passed.append(alias)
        within = (*within, alias.name)
        base = find_plan(call.tool.action.base, alias.name, within, tools)
        arguments = _with_defaults(call, call.tool.action.defaults, base, root)
        call = ResolvedCall(call.id, base, tools.check(base, arguments))
    return call, tuple(passed)


def _with_defaults(
    call: ResolvedCall, defaults: Mapping[str, Any], base: ToolDefinition, root: Path
) -> JsonObject:
    """Return the arguments, completed with defaults that may refer to them and to each other."""
    declared = base.action.parameters if isinstance(base.action, PlanAction) else {}
    parameters = {
        name: Parameter(name, default=given.default, has_default=given.has_default)
        for name, given in declared.items()
    }
    parameters |= {name: Parameter(name) for name in call.arguments.keys() - parameters.keys()}
    parameters |= {
        name: Parameter(name, default=value, has_default=True) for name, value in defaults.items()
    }
    predefined = predefined_values(call.tool.name, root, system_temp(os.environ), os.environ)
    values = Values(parameters, call.arguments, predefined).json
    return {name: values[name] for name in dict.fromkeys((*defaults, *call.arguments))}
