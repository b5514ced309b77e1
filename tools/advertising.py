"""Which of the tools that are on every request holds, and which wait until they are asked for.

A tool over a limit of number or of tokens is deferred, not dropped: `find_tools` loads it. What
stays is chosen once per build of the registry, built-ins first, then what the person has switched
on by name, then what was called most.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence

from tools.actions import McpAction
from tools.definition import JsonObject, ToolDefinition
from tools.record import record

BYTES_PER_TOKEN = 2.5
"""Fewer bytes than a token of a schema ever has on average: below it nothing needs counting."""

MOST_NAMED = 20
"""How many tools are named before only their sources are."""


@record
class ToolEntry:
    """One known tool. `reason` says why it is off, for people; empty when it is on.

    A `deferred` one is off only until the model asks for it. An `enforced` one is on or off as a
    team, or the owner of the machine, wants it: no switch changes that.
    """

    definition: ToolDefinition
    enabled: bool
    reason: str = ""
    deferred: bool = False
    enforced: bool = False


@record
class Deferral:
    """What the registry needs to defer tools.

    `finder` is the tool that loads them; its description holds `{tools}` where they are summed up.
    `calls` returns how often tools were called of late, by wire name. `measure` returns the tokens
    of schemas by wire name. Both are asked only where a limit may be reached.
    """

    finder: ToolDefinition
    calls: Callable[[], Mapping[str, int]]
    measure: Callable[[Sequence[JsonObject]], Mapping[str, int]]


@record
class Ranking:
    """The order in which tools stay: named in the settings, called most, the person's own before
    those of servers, nearest scope, name."""

    chosen: frozenset[str]
    calls: Callable[[], Mapping[str, int]]

    def sort(self, tools: Iterable[ToolDefinition]) -> list[ToolDefinition]:
        """Return the tools, those first that stay."""
        tools = list(tools)
        scopes = list(dict.fromkeys(tool.origin.scope for tool in tools))
        calls = self.calls()
        return sorted(
            tools,
            key=lambda tool: (
                tool.name not in self.chosen, -calls.get(tool.wire_name, 0),
                isinstance(tool.action, McpAction), scopes.index(tool.origin.scope), tool.name,
            ),
        )  # fmt: skip


def over_number(
    entries: Iterable[ToolEntry], limit: int, noun: str, ranking: Ranking
) -> dict[str, str]:
    """Return the names of the tools over a limit, with the reason (X3)."""
    wanted = [entry.definition for entry in entries if entry.enabled]
    if len(wanted) <= limit:
        return {}
    reason = f"over the limit of {limit} {noun}"
    return {tool.name: reason for tool in ranking.sort(wanted)[limit:]}


def over_budget(
    fixed: Sequence[ToolDefinition],
    others: Sequence[ToolDefinition],
    budget: int,
    deferral: Deferral,
    ranking: Ranking,
) -> dict[str, str]:
    """Return the names of those `others` that no longer fit into the budget, with the reason.

    `fixed` tools are always sent. `budget` is in tokens and covers both.
    """
    schemas = [tool.wire for tool in (*fixed, *others)]
    if sum(len(json.dumps(schema)) for schema in schemas) <= budget * BYTES_PER_TOKEN:
        return {}
    tokens = deferral.measure(schemas)
    left = budget - sum(tokens[tool.wire_name] for tool in fixed)
    over: dict[str, str] = {}
    for tool in ranking.sort(others):
        if tokens[tool.wire_name] <= left:
            left -= tokens[tool.wire_name]
        else:
            over[tool.name] = f"over the budget of {budget:,} tokens for tools"
    return over


def summed_up(tools: Sequence[ToolDefinition]) -> str:
    """Return which tools there are, in a line: by name, or by source where they are many."""
    if len(tools) <= MOST_NAMED:
        return ", ".join(tool.wire_name for tool in tools)
    counts: dict[str, int] = {}
    for tool in tools:
        action = tool.action
        source = action.server if isinstance(action, McpAction) else "the user's own"
        counts[source] = counts.get(source, 0) + 1
    largest = sorted(counts, key=lambda source: (-counts[source], source))
    named = [f"{counts[source]} of {source}" for source in largest[:MOST_NAMED]]
    rest = sum(counts[source] for source in largest[MOST_NAMED:])
    return ", ".join([*named, *([f"{rest} of others"] if rest else [])])
