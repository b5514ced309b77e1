"""`/tools` and `opta tools`: lists tools with their cost, switches them, shows one.

The views are functions of rows and return text; the shape of every line is fixed (padding, marks,
bars), because people compare and parse it.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, TextIO

from tools.advertising import ToolEntry
from tools.commands.usage import KnownTool, ToolUse, usage_data, usage_rows, usage_view
from tools.cost import CostMeter, Form, list_tokens
from tools.definition import JsonObject
from tools.engine.output import json_text, visible
from tools.formats.problems import ToolProblem, shown_path
from tools.record import record
from tools.registry import ToolRegistry
from tools.tool_names import place

DEFAULT_PRICE_PER_1000 = 0.001
BAR_WIDTH = 50
BAR_MAX_TOKENS = 1000
TOOL_LIST = "(tool list)"

_BADGES = {"built-in": "[Built-in]", "custom": "[Custom]", "mcp": "[MCP]", "teams": "[Teams]"}
_USAGE = (
    ("enable <name> ", "Enable a tool"),
    ("disable <name>", "Disable a tool"),
    ("info <name>   ", "Show tool details"),
    ("tokens        ", "Show token breakdown"),
)
_ACTIONS = ("list", "enable", "disable", "info", "tokens", "usage")


@record
class ToolRow:
    """One tool as people see it. `tokens` is measured, `declared` what its file claims.

    A `deferred` one costs nothing until the model loads it.
    """

    name: str
    source: str
    tokens: int
    enabled: bool
    reason: str = ""
    declared: int | None = None
    deferred: bool = False
    enforced: bool = False


def badge(source: str) -> str:
    """Return the mark of a source: `[Custom]`, and `[<source>]` for one without its own."""
    return _BADGES.get(source, f"[{source}]")


def bar(tokens: int) -> str:
    """Return a bar of 50 characters; 1000 tokens and more fill it (X60: halves round up)."""
    full = min((tokens * BAR_WIDTH * 2 + BAR_MAX_TOKENS) // (2 * BAR_MAX_TOKENS), BAR_WIDTH)
    return "█" * full + "░" * (BAR_WIDTH - full)


def total_tokens(rows: Sequence[ToolRow], list_cost: int = 0) -> int:
    """Return what the tools that are on cost together (X59)."""
    return sum(row.tokens for row in rows if row.enabled) + list_cost


def list_view(
    rows: Sequence[ToolRow],
    *,
    list_cost: int = 0,
    problems: Sequence[ToolProblem] = (),
    show_costs: bool = True,
    command: str = "/tools",
    seen: Mapping[str, float | None] | None = None,
) -> str:
    """Return all tools, on and off, what they cost, and what is wrong with tool files.

    `seen` see `ToolsCommand`.
    """
    lines = ["Available Tools:", "", *(_list_line(row, show_costs) for row in rows)]
    if show_costs:
        lines += ["", f"Total system prompt cost: ~{total_tokens(rows, list_cost)} tokens"]
        lines += _deferred_lines(rows)
    if seen:
        lines += ["", _seen_line(seen)]
    if problems:
        lines += ["", "Problems:", *(f"  {_problem_line(problem)}" for problem in problems)]
    lines += ["", "Usage:", *(f"  {command} {words} - {help_}" for words, help_ in _USAGE)]
    return "\n".join(lines)


def _deferred_lines(rows: Sequence[ToolRow]) -> list[str]:
    waiting = [row.tokens for row in rows if row.deferred]
    if not waiting:
        return []
    noun = "tool" if len(waiting) == 1 else "tools"
    return [
        f"Deferred: {len(waiting)} {noun}, ~{sum(waiting)} tokens that are not sent; the model "
        "loads what it needs with find_tools"
    ]


def _seen_line(seen: Mapping[str, float | None]) -> str:
    """Say how old what is shown of MCP servers is."""
    told = [
        f"{name} of {_when(at)}" if at else f"{name} (never connected)"
        for name, at in sorted(seen.items())
    ]
    return f"MCP tools as last offered: {', '.join(told)}. --connect asks the servers now."


def _when(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))


def _list_line(row: ToolRow, show_costs: bool) -> str:
    line = f"{'✓' if row.enabled else '✗'} {visible(row.name):<25} {badge(row.source):<12}"
    if show_costs:
        line += f" ~{row.tokens} tokens"
        if row.declared is not None:
            line += f" (declared {row.declared})"
    if row.enforced:
        line += " (enforced)"
    if row.reason:
        line += f" ({row.reason})"
    return line.rstrip()


def _problem_line(problem: ToolProblem) -> str:
    return f"{'warning' if problem.warning else 'error'}: {problem}"


def tokens_view(
    rows: Sequence[ToolRow], *, list_cost: int = 0, price_per_1000: float = DEFAULT_PRICE_PER_1000
) -> str:
    """Return what each tool that is on adds to a request, the dearest first."""
    costs = [(visible(row.name), row.tokens) for row in rows if row.enabled]
    if list_cost:
        costs.append((TOOL_LIST, list_cost))
    costs.sort(key=lambda cost: -cost[1])
    total = total_tokens(rows, list_cost)
    return "\n".join([
        "Token Cost Breakdown:", "",
        *(f"{name:<25} {bar(tokens)} {tokens}" for name, tokens in costs), "",
        f"Total: {total} tokens (~${total / 1000 * price_per_1000:.4f})",
    ])  # fmt: skip


def info_view(row: ToolRow, description: str, parameters: Mapping[str, Any], file: str = "") -> str:
    """Return everything about one tool; `file` is where it is defined, if in one."""
    declared = "" if row.declared is None else f" (declared {row.declared})"
    return "\n".join([
        f"Tool: {visible(row.name)}",
        f"Description: {visible(description)}",
        f"Source: {badge(row.source)}",
        f"Enabled: {'Yes' if row.enabled else 'No'}",
        *(["Enforced: Yes (by your team; it cannot be disabled)"] if row.enforced else []),
        *([f"Reason: {row.reason}"] if row.reason else []),
        f"Token Cost: ~{row.tokens} tokens{declared}",
        *([f"File: {visible(file)}"] if file else []),
        "", "Parameters:",
        json_text(parameters, indent=2),
    ])  # fmt: skip


@record
class Answer:
    """What a command says: text for people, data for programs, and whether it was done."""

    text: str
    data: Mapping[str, Any]
    done: bool = True


class ToolsCommand:
    """Carries out `/tools …` and `opta tools …` on a registry.

    `seen` says of MCP servers that are not connected when they offered the tools that are shown
    (epoch, in seconds; None: never).
    """

    def __init__(
        self,
        registry: ToolRegistry,
        meter: CostMeter,
        form: Callable[[], Form],
        *,
        show_costs: bool = True,
        price_per_1000: float = DEFAULT_PRICE_PER_1000,
        use: Callable[[], ToolUse] = ToolUse,
        command: str = "/tools",
    ) -> None:
        """Make the command.

        `form` tells how the model in use counts tools. `price_per_1000` is in dollars for 1000
        tokens. `use` reads what was called of late. `command` is how the person calls it.
        """
        self._registry = registry
        self._meter = meter
        self._form = form
        self._show_costs = show_costs
        self._price_per_1000 = price_per_1000
        self._use = use
        self._command = command
        self.seen: Mapping[str, float | None] = {}

    def run(self, words: Sequence[str]) -> Answer:
        """Do what the words after `/tools` say; without any, or with unknown ones, list (X71)."""
        action, *names = words or ["list"]
        if action == "tokens":
            return self._tokens()
        if action == "usage":
            return self._usage()
        if action not in ("enable", "disable", "info"):
            return self._list()
        if not names:
            return _failed("usage", "", f"Usage: {self._command} {action} <name>")
        answers = [self._act_on(action, name) for name in names]
        if len(answers) == 1:
            return answers[0]
        text = "\n".join(answer.text for answer in answers)
        failed = next((answer for answer in answers if not answer.done), None)
        data = {"tools": [answer.data for answer in answers]}
        if failed is not None:
            data["error"] = failed.data["error"]
        return Answer(text, data, done=failed is None)

    def _act_on(self, action: str, name: str) -> Answer:
        entry = self._registry.find(name)
        if entry is None:
            return _failed("not_found", name, f"Tool not found: {name}")
        if action == "info":
            return self._info(entry)
        return self._switch(entry, action == "enable")

    def tokens_of(self, wire: Sequence[JsonObject]) -> int:
        """Return what these schemas together add to a request."""
        return sum(self._meter.measure(wire, self._form()).per_tool.values())

    def _rows(self) -> list[ToolRow]:
        entries = self._registry.entries()
        costs = self._meter.measure([entry.definition.wire for entry in entries], self._form())
        return [_row(entry, costs.per_tool[entry.definition.wire_name]) for entry in entries]

    def _list_cost(self, rows: Sequence[ToolRow]) -> int:
        return list_tokens([row.name for row in rows if row.enabled], self._form())

    def _list(self) -> Answer:
        rows, problems = self._rows(), self._registry.problems
        cost = self._list_cost(rows)
        text = list_view(
            rows, list_cost=cost, problems=problems, show_costs=self._show_costs,
            command=self._command, seen=self.seen,
        )  # fmt: skip
        data = {"tools": [asdict(row) for row in rows], **_sums(rows, cost)}
        data["mcp_servers"] = {name: {"seen_at": at} for name, at in self.seen.items()}
        data["problems"] = [
            {**asdict(p), "path": str(p.path) if p.path else None} for p in problems
        ]
        return Answer(text, data)

    def _tokens(self) -> Answer:
        rows = self._rows()
        cost = self._list_cost(rows)
        sums = _sums(rows, cost)
        price = sums["total_tokens"] / 1000 * self._price_per_1000
        return Answer(
            tokens_view(rows, list_cost=cost, price_per_1000=self._price_per_1000),
            {"tools": {row.name: row.tokens for row in rows if row.enabled}, **sums, "usd": price},
        )

    def _usage(self) -> Answer:
        use = self._use()
        told = use.names
        seen = [e for e in self._registry.entries() if e.definition.wire_name in told]
        costs = self._meter.measure([entry.definition.wire for entry in seen], self._form())
        known = [_known(entry, costs.per_tool[entry.definition.wire_name]) for entry in seen]
        rows = usage_rows(use, known)
        return Answer(usage_view(use, rows, self._command), usage_data(use, rows))

    def _info(self, entry: ToolEntry) -> Answer:
        tool, row = entry.definition, self._measured(entry)
        details = {"description": tool.description, "parameters": dict(tool.parameters)}
        path = str(tool.origin.path) if tool.origin.path else None
        return Answer(
            info_view(row, tool.description, tool.parameters, place(tool)),
            asdict(row) | details | {"scope": tool.origin.scope, "path": path},
        )

    def _switch(self, entry: ToolEntry, on: bool) -> Answer:
        name, word = entry.definition.name, "enabled" if on else "disabled"
        if entry.enabled is on and not entry.deferred:
            text = f"Tool already {word}: {visible(name)}"
            return Answer(text, _state(name, on, changed=False))
        if entry.enforced:
            verb, reason = "enable" if on else "disable", "enforced by enterprise policy"
            return _failed("enforced", name, f"Cannot {verb} tool: {visible(name)} ({reason})")
        try:
            after = self._registry.switch(name, on)
        except OSError as error:
            return _failed("not_saved", name, f"Cannot save that {name} is {word}: {error}")
        if after.enabled is not on:
            return _failed("still_off", name, f"Tool stays off: {name} ({after.reason})")
        tokens = 0 if entry.deferred and not on else self._measured(after).tokens
        done, sign = ("✓ Enabled", "+") if on else ("✗ Disabled", "-")
        text = f"{done} tool: {visible(name)} ({sign}{tokens} tokens)"
        data = {**_state(name, on, changed=True), "tokens": tokens}
        if saved := self._registry.saved_in:
            text += f"\n  saved in {visible(shown_path(saved))}"
            data["saved_in"] = str(saved)
        return Answer(text, data)

    def _measured(self, entry: ToolEntry) -> ToolRow:
        costs = self._meter.measure([entry.definition.wire], self._form())
        return _row(entry, costs.per_tool[entry.definition.wire_name])


def _row(entry: ToolEntry, tokens: int) -> ToolRow:
    tool = entry.definition
    return ToolRow(
        tool.name, tool.origin.source.value, tokens, entry.enabled, entry.reason,
        tool.declared_token_cost, entry.deferred, tool.origin.enforced,
    )  # fmt: skip


def _known(entry: ToolEntry, tokens: int) -> KnownTool:
    tool = entry.definition
    removable = entry.enabled and not tool.origin.enforced
    return KnownTool(tool.name, tool.wire_name, tokens, removable)


def _sums(rows: Sequence[ToolRow], list_cost: int) -> dict[str, Any]:
    return {
        "list_tokens": list_cost,
        "total_tokens": total_tokens(rows, list_cost),
        "deferred": {
            "tools": sum(row.deferred for row in rows),
            "tokens": sum(row.tokens for row in rows if row.deferred),
        },
    }


def _state(name: str, on: bool, *, changed: bool) -> dict[str, Any]:
    return {"name": name, "enabled": on, "changed": changed}


def _failed(error: str, name: str, text: str) -> Answer:
    return Answer(visible(text), {"error": error, "name": name, "message": text}, done=False)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `opta tools`."""
    parser.add_argument(
        "action", nargs="?", default="list", metavar="ACTION",
        help="list (default), enable, disable, info, tokens or usage",
    )  # fmt: skip
    parser.add_argument("names", nargs="*", metavar="NAME", help="tools to enable, disable or show")
    parser.add_argument(
        "--format", choices=("text", "json"), default="text", help="how to print the answer"
    )
    parser.add_argument(  # As `opta -p` calls it.
        "--output-format", dest="format", choices=("text", "json"),
        default=argparse.SUPPRESS, help=argparse.SUPPRESS,
    )  # fmt: skip


def run(
    arguments: argparse.Namespace, command: ToolsCommand, out: TextIO, err: TextIO | None = None
) -> int:
    """Carry out `opta tools`; return 0 done, 1 not done, 2 wrong usage.

    The answer goes to `out`; what could not be done goes to `err` (standard error by default), or
    to `out` too as JSON.
    """
    if arguments.action not in _ACTIONS:
        told = f"opta tools does not know {arguments.action!r}; it takes {', '.join(_ACTIONS)}"
        (err or sys.stderr).write(f"opta: {visible(told)}\n")
        return 2
    answer = command.run([arguments.action, *arguments.names])
    if arguments.format == "json":
        out.write(f"{json_text(answer.data, indent=2)}\n")
    else:
        stream = out if answer.done else err or sys.stderr
        stream.write(f"{answer.text}\n")
    if answer.done:
        return 0
    return 2 if answer.data["error"] == "usage" else 1
