"""The figures of custom tools."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from statistics import median

from benchmarks import measure
from benchmarks.bench import OPTA, Bench, Figure
from benchmarks.tool_files import write_tools

TOOL_FILES = 1000


def toolstep(bench: Bench) -> list[Figure]:
    taken = _inside(bench, "step")
    floor, opta = 1000 * taken["floor"], 1000 * taken["opta"]
    return [Figure("a call of one step", "ms", floor, opta, floor + 3)]


def toolrun(bench: Bench) -> list[Figure]:
    project = bench.directory / "tools-project"
    (project / ".opta" / "tools").mkdir(parents=True)
    file = project / ".opta" / "tools" / "hello.yaml"
    file.write_text("name: hello\ndescription: Says hello.\nbash: echo hello\ntags: [read]\n")
    commands = {
        "floor": ["bash", "-c", "echo hello"],
        "opta": [OPTA, "tool", "run", "hello", "--trust"],
    }
    walls: dict[str, list[float]] = {client: [] for client in commands}
    for _ in range(bench.runs * 4):
        for client, command in commands.items():
            usage = measure.run(command, bench.environment(), project)
            walls[client].append(1000 * usage.wall)
    floor, opta = median(walls["floor"]), median(walls["opta"])
    return [Figure("opta tool run", "ms", floor, opta, floor + 150)]


def toolfiles(bench: Bench) -> list[Figure]:
    directory = bench.directory / "tool-files"
    write_tools(directory, TOOL_FILES)
    runs = [_inside(bench, "files", directory) for _ in range(bench.runs)]
    floor, cold, warm = (
        1000 * median(taken[part] for taken in runs) for part in ("floor", "opta", "warm")
    )
    return [
        Figure(f"{TOOL_FILES} tool files, first reading", "ms", floor, cold, 300),
        Figure(f"{TOOL_FILES} tool files, unchanged", "ms", floor, warm, 20),
    ]


def codetool(bench: Bench) -> list[Figure]:
    taken = _inside(bench, "codetool")
    floor, opta = 1000 * taken["floor"], 1000 * taken["opta"]
    return [Figure("a call of a TypeScript program", "ms", floor, opta, 60)]


def toolplan(bench: Bench) -> list[Figure]:
    taken = _inside(bench, "plan")
    floor, opta = 1000 * taken["floor"], 1000 * taken["opta"]
    return [Figure("200 steps, 20 at a time", "ms", floor, opta, 1.5 * floor)]


def tooloutput(bench: Bench) -> list[Figure]:
    taken = _inside(bench, "gigabyte")
    return [Figure("a step prints 1 GB, peak", "MB", taken["floor"], taken["opta"],
                   taken["floor"] + 64)]  # fmt: skip


def _inside(bench: Bench, name: str, directory: Path | None = None) -> dict[str, float]:
    """Measure in a process of its own, in an empty directory where none is given."""
    if directory is None:
        directory = bench.directory / name
        directory.mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.tool_calls", name, directory],
        cwd=measure.ROOT, env=bench.environment(), stdout=subprocess.PIPE, check=True,
    )  # fmt: skip
    taken: dict[str, float] = json.loads(done.stdout)
    return taken
