"""The permissions that tools declare to need: for the rules, for the walls, and in words (X121)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from tools.confinement import Confinement
from tools.definition import Effect, EffectKind, ToolDefinition
from tools.engine.prepared import PreparedPlan
from tools.record import record


@record
class Need:
    """A declared permission with its values in place.

    `path` (absolute) and `host` where it is about one; `inside` says that a path lies in the
    workspace.
    """

    text: str
    tool: str
    path: Path | None = None
    writes: bool = False
    host: str = ""
    inside: bool = False


def declared_needs(plan: PreparedPlan) -> Iterator[Need]:
    """Yield what the file of a tool, and of the aliases that led to it, declares."""
    for tool in (*plan.passed, plan.call.tool):
        for template in tool.security.permissions:
            yield _need(plan.bindings.fill(template), plan)


def effects_of(needs: Iterable[Need]) -> Iterator[Effect]:
    """Yield the effects that permission rules are matched against."""
    for need in needs:
        if need.host:
            yield Effect(EffectKind.NETWORK, need.host, need.tool)
        elif need.path is not None:
            kind = EffectKind.WRITE if need.writes else EffectKind.READ
            yield Effect(kind, str(need.path), need.tool, inside=need.inside)


def about_needs(
    needs: Iterable[Need], tools: Iterable[ToolDefinition], walls: Confinement | None
) -> Iterator[str]:
    """Yield a line for each permission, saying whether the tool is held to it, and the reasons."""
    for need in needs:
        yield f"declares that it needs {need.text} ({_held(need, walls)})"
    for tool in tools:
        if tool.security.permissions and tool.security.justification:
            yield f"its reason: {tool.security.justification}"


def _need(permission: str, plan: PreparedPlan) -> Need:
    kind, _, rest = permission.partition(":")
    action, _, value = rest.partition(":")
    name = plan.call.tool.name
    if kind == "network" and value:
        return Need(permission, name, host=value)
    if kind == "filesystem" and action in ("read", "write") and value:
        path = Path(os.path.normpath(plan.surroundings.cwd / Path(value).expanduser()))
        inside = path.resolve().is_relative_to(plan.setting.root.resolve())
        return Need(permission, name, path, writes=action == "write", inside=inside)
    return Need(permission, name)


def _held(need: Need, walls: Confinement | None) -> str:
    if walls is None or (not need.host and need.path is None):
        return "not enforced"
    if need.host:
        return f"the {walls.level} lets it reach any host"
    if need.writes and need.path is not None and not need.path.exists():
        return f"the {walls.level} cannot let it make what does not exist yet"
    return f"held to by the {walls.level}"
