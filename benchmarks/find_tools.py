"""The search of `find_tools` in 5,000 tools of 50 servers: `python -m benchmarks.find_tools`.

Prints the ms of the first search, which reads the tools, and of a later one. The floor looks for
one word in every description.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import time
from statistics import median

from benchmarks import measure
from benchmarks.bench import Bench, Figure

TOOLS, SERVERS = 5000, 50
QUERY = "create an invoice for the customer"
VERBS = ("create", "list", "get", "update", "delete", "search", "sync", "export", "import", "move")
NOUNS = ("issue", "page", "message", "invoice", "user", "deployment", "repository", "channel",
         "ticket", "calendar")  # fmt: skip


def findtools(bench: Bench) -> list[Figure]:
    runs = []
    for _ in range(bench.runs):
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.find_tools"], cwd=measure.ROOT,
            env=bench.environment(), stdout=subprocess.PIPE, check=True,
        )  # fmt: skip
        runs.append(json.loads(done.stdout))
    floor, first, later = (
        median(run[part] for run in runs) for part in ("floor", "first", "later")
    )
    return [
        Figure(f"find_tools, first of {TOOLS} tools", "ms", floor, first, 10),
        Figure("find_tools, a later search", "ms", floor, later, 10),
    ]


def _measured() -> dict[str, float]:
    from tools.actions import McpAction
    from tools.definition import Origin, Source, ToolDefinition
    from tools.tool_search import ToolSearch

    kinds = itertools.cycle(itertools.product(NOUNS, VERBS))
    tools = []
    for number, (noun, verb) in zip(range(TOOLS), kinds, strict=False):
        server, name = f"server{number % SERVERS}", f"{verb}_{noun}_{number}"
        text = (
            f"Runs {verb} on each {noun} of a workspace. Takes the id of the {noun} and returns "
            "its fields as JSON, at most 100 at a time, with a cursor for the next page."
        )
        tools.append(ToolDefinition(
            f"mcp_{server}_{name}", text, {"type": "object", "properties": {}},
            McpAction(server, name), Origin(Source.MCP, "mcp"),
        ))  # fmt: skip
    for tool in tools:
        _ = tool.wire_name  # The registry has looked at all names before.
    times = [time.perf_counter()]
    sum("invoice" in tool.description for tool in tools)
    times.append(time.perf_counter())
    search = ToolSearch(tools)
    assert "invoice" in search.find(QUERY)[0].name
    times.append(time.perf_counter())
    search.find(QUERY)
    times.append(time.perf_counter())
    names = ("floor", "first", "later")
    spent = (after - before for before, after in itertools.pairwise(times))
    return dict(zip(names, (1000 * s for s in spent), strict=True))


if __name__ == "__main__":
    print(json.dumps(_measured()))
