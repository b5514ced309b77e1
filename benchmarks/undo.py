"""What looking at the files costs before a call that may change some.

The floor asks for the status of each file, nothing else. The first look of all reads and keeps
every file; its floor reads them.
"""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from statistics import median
from unittest import mock

from agent.undo import FileHistory
from benchmarks.bench import Bench, Figure
from tests.support.calls import make_invocation, runs
from tools.files.workspace import Workspace
from tools.permissions.gate import PermissionGate
from tools.permissions.rules import RuleSet

TARGETS_MS = {5_000: 50, 50_000: 500}
TURNS = 7


def write_tree(root: Path, count: int) -> None:
    """Write so many files of about 3 kB into directories of ten or a hundred."""
    for number in range(count):
        path = root / f"src{number % 50}" / f"m{number % 500}" / f"f{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"value = {number}\n" * 200)


def floor(root: Path) -> float:
    """Return the ms that the status of each file takes."""
    started = time.perf_counter()
    for directory, _, names in os.walk(root):
        for name in names:
            os.stat(f"{directory}/{name}", follow_symlinks=False)  # noqa: PTH116
    return (time.perf_counter() - started) * 1000


def read_all(root: Path) -> float:
    """Return the ms that reading each file takes."""
    started = time.perf_counter()
    for path in root.rglob("*.py"):
        path.read_bytes()
    return (time.perf_counter() - started) * 1000


async def looks(root: Path) -> list[float]:
    """Return the ms of the look before the first call of each of several turns."""
    history = FileHistory(Workspace(root), PermissionGate(RuleSet((), root), None))
    call, taken = make_invocation(runs("make")), []
    for number in range(TURNS):
        history.begin("benchmark", "turn", time.time())
        started = time.perf_counter()
        await history.before_change(call)
        taken.append((time.perf_counter() - started) * 1000)
        (root / "src1" / "m1" / "f1.py").write_text(str(number))
        history.end()
        await history.settle()
    await history.aclose()
    return taken


def undo(bench: Bench) -> list[Figure]:
    figures = []
    for count, target in TARGETS_MS.items():
        base = bench.directory / f"undo-{count}"
        write_tree(base / "project", count)
        with mock.patch.dict(os.environ, XDG_STATE_HOME=str(base / "state")):
            first, *later = asyncio.run(looks(base / "project"))
        least = median(floor(base / "project") for _ in range(TURNS))
        read = median(read_all(base / "project") for _ in range(bench.runs))
        figures += [
            Figure(f"undo, a look at {count:,} files", "ms", least, median(later), target),
            Figure("undo, the first look of all", "ms", read, first),
        ]
    return figures
