"""`/tools usage`: how often tools were called in the last sessions, and what they have cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import asdict, field
from typing import Any

from tools.engine.output import visible
from tools.record import record

MANY_REQUESTS = 20
"""A tool that was in this many requests and never called is worth a hint."""


@record
class ToolUse:
    """What the records of sessions say of tools, by the names the model sees.

    `calls` counts calls of the model, `sent` the requests that held a tool, `by_clients` calls of
    MCP clients, whose requests are not known. Nor are those of some sessions: they are not among
    `sessions` and `requests`.
    """

    sessions: int = 0
    requests: int = 0
    calls: Mapping[str, int] = field(default_factory=dict)
    sent: Mapping[str, int] = field(default_factory=dict)
    by_clients: Mapping[str, int] = field(default_factory=dict)

    @property
    def names(self) -> Set[str]:
        """All tools that are told of."""
        return self.sent.keys() | self.calls.keys() | self.by_clients.keys()


@record
class KnownTool:
    """A tool that there is now; `removable` where a person may switch it off and has not."""

    name: str
    wire_name: str
    tokens: int
    removable: bool


@record
class UsageRow:
    """One tool. `tokens` is what its schema costs now, `paid` that times the requests it was in.

    Both are None for one that is not there now, such as that of a server which is not connected.
    `never_used`: sent often, called by nobody, and could be switched off.
    """

    name: str
    calls: int
    requests: int
    tokens: int | None = None
    paid: int | None = None
    never_used: bool = False
    by_clients: int = 0

    @property
    def per_call(self) -> int | None:
        """The tokens paid for each call, where that can be said."""
        return round(self.paid / self.calls) if self.calls and self.paid is not None else None


def usage_rows(use: ToolUse, tools: Iterable[KnownTool]) -> list[UsageRow]:
    """Return what each tool that was sent or called has cost, the dearest first."""
    known = {tool.wire_name: tool for tool in tools}
    rows = []
    for name in use.names:
        calls, requests, tool = use.calls.get(name, 0), use.sent.get(name, 0), known.get(name)
        by_clients = use.by_clients.get(name, 0)
        if tool is None:
            rows.append(UsageRow(name, calls, requests, by_clients=by_clients))
            continue
        never = tool.removable and not (calls or by_clients) and requests >= MANY_REQUESTS
        paid = tool.tokens * requests
        rows.append(UsageRow(tool.name, calls, requests, tool.tokens, paid, never, by_clients))
    return sorted(rows, key=lambda row: (-(row.paid or 0), -row.requests, row.name))


def usage_view(use: ToolUse, rows: Sequence[UsageRow], command: str) -> str:
    """Return the table, and what could be switched off."""
    if not rows:
        return (
            "No tool was sent to a model here yet. Once there are sessions in this directory, "
            f"{command} usage tells what each tool has cost and which are never called."
        )
    names = [visible(row.name) for row in rows]
    width = max(25, *map(len, names))
    counts = f"{_counted(use.sessions, 'session')}, {_counted(use.requests, 'request')}"
    lines = [
        f"Tool usage in this directory: {counts}", "",
        f"{'Tool':<{width}} {'Calls':>6} {'Requests':>8} {'Tokens paid':>12} {'Per call':>9}",
        *(_line(row, name, width) for row, name in zip(rows, names, strict=True)), "",
        "Tokens paid: what a tool costs in a request today, times the requests that held it.",
    ]  # fmt: skip
    if any(row.tokens is None for row in rows):
        lines.append("?: not there now. Tools of MCP servers are there in the chat: /tools usage")
    if served := [f"{visible(row.name)} {row.by_clients:,}" for row in rows if row.by_clients]:
        lines.append(f"Called by MCP clients (opta mcp serve): {', '.join(served)}.")
    return "\n".join([*lines, *_advice(rows, command)])


def usage_data(use: ToolUse, rows: Sequence[UsageRow]) -> dict[str, Any]:
    """Return the same for programs."""
    return {
        "sessions": use.sessions,
        "requests": use.requests,
        "tools": [{**asdict(row), "per_call": row.per_call} for row in rows],
    }


def _advice(rows: Sequence[UsageRow], command: str) -> list[str]:
    unused = [row for row in rows if row.never_used]
    if not unused:
        return []
    paid = sum(row.paid or 0 for row in unused)
    words = " ".join(visible(row.name) for row in unused)
    return [
        "", f"Never called: {_counted(len(unused), 'tool')}, {paid:,} tokens paid.",
        f"To switch off what you do not need: {command} disable {words}",
    ]  # fmt: skip


def _line(row: UsageRow, name: str, width: int) -> str:
    paid = "?" if row.paid is None else f"{row.paid:,}"
    each = "-" if row.per_call is None else f"{row.per_call:,}"
    line = f"{name:<{width}} {row.calls:>6,} {row.requests:>8,} {paid:>12} {each:>9}"
    return f"{line}  never used: disable?" if row.never_used else line


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
