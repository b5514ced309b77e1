"""What walls cost a command: `python -m benchmarks.isolation [--runs 40]`.

The same command runs as a process (the floor) and behind each sandbox of this machine, in turn, in
one process of opta; figures are medians. The first sandboxed command of a process also pays for
trying the sandbox, which is shown apart.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
import time
from pathlib import Path
from statistics import median

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


async def measure(root: Path, runs: int) -> None:
    """Measure everything in turn and print it."""
    ways: dict[str, Confinement | None] = {"process (the floor)": None}
    for backend in BACKENDS:
        isolation = Isolation(root, survey, IsolationSettings(Sandboxing.AUTO, backend))
        started = time.perf_counter()
        walls = isolation.for_command()
        if walls is None:
            print(isolation.news()[0])
            continue
        print(f"{'trying ' + backend:<28} {(time.perf_counter() - started) * 1000:8.1f} ms, once")
        ways[f"sandbox ({backend})"] = walls
    took: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(runs):
        for name, walls in ways.items():
            took[name].append(await once(root, walls))
    floor = median(took["process (the floor)"])
    for name, times in took.items():
        added = median(times) - floor
        verdict = f"<= {TARGET_MS} ms  {'ok' if added <= TARGET_MS else 'MISSED'}"
        print(f"{name:<28} {median(times):8.1f} ms  adds {added:5.1f}  {verdict}")


def main() -> None:
    """Make a workspace of many files and measure in it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=40)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory).resolve() / "work"
        for number in range(FILES):
            file = root / f"package{number % 40}" / f"file{number}.py"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch()
        (root / ".git" / "hooks").mkdir(parents=True)
        asyncio.run(measure(root, arguments.runs))


if __name__ == "__main__":
    main()
