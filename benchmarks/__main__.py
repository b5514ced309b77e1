"""opta against the floor, in one run: `make bench` or `python -m benchmarks [--runs 5] [NAME ...]`.

Every figure is the median of whole processes, opta and floor in turn. Figures of two machines, or
of two moments of one, do not compare; the ratios do.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

from benchmarks import (
    find_tools,
    isolation,
    mcp_serve,
    measure,
    permissions,
    tool_figures,
    trust,
    ui_stream,
    undo,
)
from benchmarks.bench import CLIENTS, OPTA, Bench, Figure


def version(bench: Bench) -> list[Figure]:
    walls: dict[str, list[float]] = {"floor": [], "opta": []}
    commands = {"floor": [sys.executable, "-c", "pass"], "opta": [OPTA, "--version"]}
    for _ in range(bench.runs * 4):
        for client, command in commands.items():
            usage = measure.run(command, bench.environment(), bench.directory / "project")
            walls[client].append(usage.wall * 1000)
    floor, opta = median(walls["floor"]), median(walls["opta"])
    return [Figure("--version against python -c pass", "ms", floor, opta, 2 * floor)]


def prompt(bench: Bench) -> list[Figure]:
    """The floor is a program that does nothing but ask with the same line editor."""
    bare = "from prompt_toolkit import prompt; prompt('> ')"
    commands = {"floor": [sys.executable, "-c", bare], "opta": [OPTA, "--trust"]}
    times: dict[str, list[float]] = {client: [] for client in commands}
    for _ in range(bench.runs):
        for client, command in commands.items():
            project = bench.directory / "project"
            taken = measure.first_prompt(command, bench.environment(), project)
            times[client].append(1000 * taken)
    floor, opta = median(times["floor"]), median(times["opta"])
    return [Figure("first prompt that takes keys", "ms", floor, opta, 150)]


def mcp(bench: Bench) -> list[Figure]:
    """Ten servers that are slow to start must not be noticed before the first prompt."""
    with_servers = bench.directory / "with-servers"
    with_servers.mkdir(exist_ok=True)
    slow = {"command": sys.executable, "args": ["-c", "import time; time.sleep(60)"]}
    servers = {f"server{number}": slow for number in range(10)}
    (with_servers / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))
    times: dict[Path, list[float]] = {bench.directory / "project": [], with_servers: []}
    for _ in range(bench.runs):
        for directory, seconds in times.items():
            taken = measure.first_prompt([OPTA, "--trust"], bench.environment(), directory)
            seconds.append(1000 * taken)
    without, ten = map(median, times.values())
    return [Figure("first prompt, ten MCP servers against none", "ms", without, ten, 1.1 * without)]


def hello(bench: Bench) -> list[Figure]:
    floor, opta = (bench.wall(client, "hello") for client in CLIENTS)
    return [Figure("hello", "s", floor, opta, 0.25)]


def loop50(bench: Bench) -> list[Figure]:
    floor, opta = (
        1000 * (bench.wall(client, "loop50") - bench.wall(client, "hello")) / 50
        for client in CLIENTS
    )
    return [Figure("loop50, a turn", "ms", floor, opta, 6)]


def stream(bench: Bench) -> list[Figure]:
    floor, opta = (bench.wall(client, "stream") - bench.wall(client, "hello") for client in CLIENTS)
    return [Figure("stream over hello", "s", floor, opta, 0.3)]


def par8(bench: Bench) -> list[Figure]:
    floor, opta = (bench.between(client, "par8", range(1, 2)) / 1000 for client in CLIENTS)
    return [Figure("par8, the calls", "s", floor, opta, 1.1)]


def bigout(bench: Bench) -> list[Figure]:
    floor, opta = (bench.peak_mb(client, "bigout") for client in CLIENTS)
    return [Figure("bigout, peak", "MB", floor, opta, 100)]


def long300(bench: Bench) -> list[Figure]:
    early = {client: bench.between(client, "long300", range(5, 16)) for client in CLIENTS}
    late = {client: bench.between(client, "long300", range(290, 301)) for client in CLIENTS}
    return [
        Figure("long300, a turn at 10", "ms", early["floor"], early["opta"]),
        Figure("long300, a turn at 300", "ms", late["floor"], late["opta"], 1.5 * early["opta"]),
    ]


def specloop(bench: Bench) -> list[Figure]:
    """What an iteration of the loop costs from an answer to the next one's request.

    The floor is what lies between two requests of the least client, which runs a command there.
    """
    project = bench.directory / "project"
    (project / "SPEC.md").write_text("Do it.\n")
    seen = []
    with measure.server("specloop") as server:
        for number in range(bench.runs):
            command = [OPTA, "loop", "SPEC.md", "--max-iterations", "30", "--name", f"run{number}"]
            measure.run(command, bench.environment(server.port), project)
            seen.append(server.last_run())
    took_ms = 1000 * median(
        run["arrived"][turn] - run["sent"][turn - 1] for run in seen for turn in range(1, 30)
    )
    floor = bench.between("floor", "loop50", range(1, 30))
    return [Figure("opta loop, an iteration", "ms", floor, took_ms, 50)]


def tokens(bench: Bench) -> list[Figure]:
    from agent.tokens import count_messages, count_text
    from tools.cost import Form, tools_cost

    bench.scenario("hello")
    body = json.loads(bench.first_body)
    system = [m for m in body["messages"] if m["role"] in ("system", "developer")]
    tools = tools_cost(body["tools"], Form.OPENAI_O200K, count_text).total
    name = f"system prompt and {len(body['tools'])} tools ({tools})"
    return [Figure(name, "tokens", None, count_messages(system) + tools, 1500)]


FIGURES: dict[str, Callable[[Bench], list[Figure]]] = {
    function.__name__: function
    for function in (
        version, prompt, mcp, hello, loop50, stream, par8, bigout, long300, specloop, tokens,
        tool_figures.toolstep, tool_figures.toolrun, tool_figures.toolfiles,
        tool_figures.toolplan, tool_figures.tooloutput, tool_figures.codetool, trust.trustcheck,
        find_tools.findtools, mcp_serve.mcpserve, permissions.verdict, isolation.sandbox,
        undo.undo, ui_stream.uistream,
    )
}  # fmt: skip


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(FIGURES))
    parser.add_argument("--runs", type=int, default=5, help="how often each program runs")
    options = parser.parse_args(arguments)
    if unknown := set(options.names) - set(FIGURES):
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    with tempfile.TemporaryDirectory() as directory:
        bench = Bench(Path(directory), options.runs)
        (bench.directory / "home").mkdir()
        (bench.directory / "project").mkdir()
        subprocess.run(["git", "init", "-q", bench.directory / "project"], check=True)
        print(f"{'':<34} {'floor':>9} {'opta':>9} {'ratio':>7} {'unit':<7} target")
        for name in options.names or FIGURES:
            for figure in FIGURES[name](bench):
                print(figure, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
