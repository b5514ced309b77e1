"""A tool of opta's through `opta mcp serve`, called again and again by a client with pipes.

The floor is the SDK's own server, with a tool that does no more than read the same file.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.bench import OPTA, Bench, Figure

CALLS = 200
FLOOR = """
from pathlib import Path
from mcp.server.mcpserver import MCPServer
server = MCPServer("floor")
@server.tool()
def read_file(path: str) -> str:
    return Path(path).read_text()
server.run()
"""


def mcpserve(bench: Bench) -> list[Figure]:
    project = bench.directory / "served"
    project.mkdir()
    (project / "notes.txt").write_text("value = 1\n" * 200)
    commands = {
        "floor": [sys.executable, "-c", FLOOR],
        "opta": [OPTA, "mcp", "serve", "--tools", "read_file"],
    }
    starts: dict[str, list[float]] = {client: [] for client in commands}
    calls: dict[str, list[float]] = {client: [] for client in commands}
    for _ in range(bench.runs):
        for client, command in commands.items():
            start, call = _session(command, bench.environment(), project)
            starts[client].append(1000 * start)
            calls[client].append(1000 * call)
    start, call = median(starts["floor"]), median(calls["floor"])
    return [
        Figure("mcp serve, the first answer", "ms", start, median(starts["opta"]), start + 150),
        Figure("mcp serve, a call", "ms", call, median(calls["opta"]), call + 3),
    ]


def _session(
    command: Sequence[str], environment: Mapping[str, str], project: Path
) -> tuple[float, float]:
    """Return the seconds from start to the first answer, and those of the median call."""
    started = time.perf_counter()
    with subprocess.Popen(
        command,
        cwd=project,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as server:
        who = {"name": "benchmark", "version": "0"}
        opening = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": who}
        _ask(server, 0, "initialize", opening)
        answered = time.perf_counter() - started
        _send(server, {"jsonrpc": "2.0", "method": "notifications/initialized"})
        taken = []
        for number in range(1, CALLS + 1):
            before = time.perf_counter()
            params = {"name": "read_file", "arguments": {"path": "notes.txt"}}
            result = _ask(server, number, "tools/call", params)
            taken.append(time.perf_counter() - before)
            if "value = 1" not in result["content"][0]["text"] or result.get("isError"):
                raise RuntimeError(f"a call failed: {result}")
        assert server.stdin is not None
        server.stdin.close()
    return answered, median(taken)


def _ask(server: subprocess.Popen[bytes], number: int, method: str, params: object) -> Any:
    _send(server, {"jsonrpc": "2.0", "id": number, "method": method, "params": params})
    assert server.stdout is not None
    while line := server.stdout.readline():
        answer = json.loads(line)
        if answer.get("id") == number:
            return answer["result"]
    raise RuntimeError(f"{method} was not answered")


def _send(server: subprocess.Popen[bytes], message: object) -> None:
    assert server.stdin is not None
    server.stdin.write(json.dumps(message).encode() + b"\n")
    server.stdin.flush()
