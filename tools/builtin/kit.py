"""What a built-in tool is made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from tools.actions import BuiltinAction
from tools.definition import (
    Effect,
    Invocation,
    JsonObject,
    Origin,
    Progress,
    ResolvedCall,
    Risk,
    Source,
    TextDisplay,
    ToolDefinition,
    ToolError,
    ToolResult,
)
from tools.engine.isolation.choice import Isolation
from tools.engine.masking import Masker
from tools.files.workspace import Workspace
from tools.permissions.grant import Grant
from tools.permissions.rules import RuleSet
from tools.record import record

if TYPE_CHECKING:
    from tools.engine.jobs import Jobs


def _not_served(call: ResolvedCall) -> Invocation:
    raise ToolError(f"{call.tool.name} belongs to an MCP server, and none is connected here.")


Prepare: TypeAlias = Callable[[ResolvedCall, "Services"], Invocation]


@record
class Services:
    """What a tool may use.

    `child_env` is the environment of processes (R38); `rules` are those of the gate, for tools
    that come across files the gate was not asked about; `max_execution_ms` caps every timeout
    (`tools.maxExecutionTime`, X8). `isolation` chooses what processes run behind; without one
    commands run as the user, and a tool that asks for more is refused. `masker` hides opta's own
    secrets in what processes print (R39). `jobs` are calls in the background, None where nobody
    stays to read them. `prepare_served` prepares calls of tools of MCP servers.
    """

    workspace: Workspace
    child_env: Mapping[str, str]
    rules: RuleSet = field(default_factory=RuleSet)
    max_execution_ms: int | None = None
    isolation: Isolation | None = None
    masker: Masker = field(default_factory=Masker)
    jobs: Jobs | None = None
    prepare_served: Callable[[ResolvedCall], Invocation] = _not_served

    def in_background(self, invocation: Invocation) -> Invocation:
        """Return the call as a job. Raises ToolError where there can be none."""
        if self.jobs is None:
            raise ToolError(
                "Nothing can go on in the background here, where nobody stays to read it. Nothing "
                "was run."
            )
        return self.jobs.background(invocation)


@record
class Builtin:
    """A built-in: what the model sees, and how a call of it is prepared.

    `prepare` raises ToolError or FileProblem when the call cannot be done. `aliases` maps
    argument names that models also use to the ones in the schema (`file_path` -> `path`).
    """

    definition: ToolDefinition
    prepare: Prepare
    aliases: Mapping[str, str]


def define(  # noqa: PLR0913 - one line per fact of a tool reads better than a builder
    name: str,
    description: str,
    properties: JsonObject,
    required: list[str],
    *,
    risk: Risk,
    enabled: bool = True,
    declared_token_cost: int | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> ToolDefinition:
    """Make the definition of a built-in tool."""
    return ToolDefinition(
        name=name,
        description=description,
        parameters={"type": "object", "properties": properties, "required": required},
        action=BuiltinAction(name),
        origin=Origin(Source.BUILTIN, format="python"),
        risk=risk,
        parallel=True,
        declared_token_cost=declared_token_cost,
        enabled=enabled,
        metadata=metadata or {},
    )


def file_key(path: Path) -> frozenset[str]:
    """Return the `exclusive` key of calls that touch the file `path`."""
    return frozenset({f"file:{path}"})


def failing(
    title: str,
    effects: tuple[Effect, ...],
    problem: Exception,
    exclusive: frozenset[str] = frozenset(),
) -> Invocation:
    """Return an invocation that only tells what is wrong, once reading `effects` is allowed.

    What a message says of a file (its lines, even that it exists) is read access, so a call that
    fails while it is prepared must not answer before the gate has. With an `exclusive` key it
    may be right once an earlier call has run.
    """

    async def run(grant: Grant, progress: Progress) -> ToolResult:
        raise problem

    return Invocation(
        title, effects, TextDisplay(title), run, exclusive=exclusive, dependent=bool(exclusive)
    )
