"""What walls cost a command.

The same command runs as a process (the floor) and behind each sandbox of this machine, in turn, in
one process of opta. The first sandboxed command of a process also pays for trying the sandbox,
which is shown apart.
"""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from statistics import median

from benchmarks.bench import Bench, Figure
from tests.support.calls import make_call
from tools.confinement import Confinement, IsolationSettings, Sandboxing
from tools.engine.environment import child_environment
from tools.engine.isolation.choice import Isolation
from tools.engine.process import ProcessSpec, run_process
from tools.files.walls import survey
from tools.permissions.grant import mint

TARGET_MS = 30
FILES = 1000
BACKENDS = ("bubblewrap", "landlock")


async def once(root: Path, walls: Confinement | None) -> float:
    """Run a command to its end; return how long it took in ms."""
    call = make_call(arguments={"command": "true"})
    spec = ProcessSpec(("/bin/bash", "-c", "true"), root, child_environment(os.environ), 20_000)
    started = time.perf_counter()
    result = await run_process(mint(call, "benchmark", walls), call, spec)
    elapsed = (time.perf_counter() - started) * 1000
    assert result.exit_code == 0, result
    return elapsed


async def _measured(root: Path, runs: int) -> list[Figure]:
    """Measure every way in turn."""
    ways: dict[str, Confinement | None] = {"process": None}
    trying: dict[str, float] = {}
    for backend in BACKENDS:
        isolation = Isolation(root, survey, IsolationSettings(Sandboxing.AUTO, backend))
        started = time.perf_counter()
        walls = isolation.for_command()
        if walls is None:
            print(isolation.news()[0])
            continue
        trying[backend] = (time.perf_counter() - started) * 1000
        ways[backend] = walls
    took: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(runs):
        for name, walls in ways.items():
            took[name].append(await once(root, walls))
    floor = median(took["process"])
    figures = []
    for backend, once_ms in trying.items():
        name = f"a command behind {backend}"
        figures += [
            Figure(name, "ms", floor, median(took[backend]), floor + TARGET_MS),
            Figure(f"trying {backend}, once", "ms", floor, once_ms),
        ]
    return figures


def sandbox(bench: Bench) -> list[Figure]:
    root = bench.directory / "sandboxed"
    for number in range(FILES):
        file = root / f"package{number % 40}" / f"file{number}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    (root / ".git" / "hooks").mkdir(parents=True)
    return asyncio.run(_measured(root, 8 * bench.runs))
