"""What looking at the files costs before a call that may change some.

`python -m benchmarks.undo [FILES ...]`; the floor asks for the status of each file, nothing else.
The first look of all reads every file, and is shown apart; figures are medians of the later ones.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from unittest import mock

from agent.undo import FileHistory
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


async def looks(root: Path) -> list[float]:
    """Return the ms of the look before the first call of each of several turns."""
    history = FileHistory(Workspace(root), PermissionGate(RuleSet((), root), None))
    call, taken = make_invocation(runs("make")), []
    for number in range(TURNS):
        history.begin("benchmark", "turn")
        started = time.perf_counter()
        await history.before_change(call)
        taken.append((time.perf_counter() - started) * 1000)
        (root / "src1" / "m1" / "f1.py").write_text(str(number))
        history.end()
        await history.settle()
    await history.aclose()
    return taken


def figures(counts: list[int]) -> Iterator[str]:
    """Measure trees of so many files and yield a line for each."""
    for count in counts:
        with tempfile.TemporaryDirectory() as directory:
            base = Path(directory).resolve()
            write_tree(base / "project", count)
            with mock.patch.dict(os.environ, XDG_STATE_HOME=str(base / "state")):
                first, *later = asyncio.run(looks(base / "project"))
            least = median(floor(base / "project") for _ in range(TURNS))
            kept = sum(file.stat().st_size for file in (base / "state").rglob("*.sqlite"))
            taken, target = median(later), TARGETS_MS.get(count)
            verdict = "" if target is None else f"<= {target} ms  {_word(taken <= target)}"
            yield (
                f"{count:>7,} files  floor {least:7.1f} ms  look {taken:7.1f} ms  "
                f"{taken / least:4.1f}x  {verdict}  (first {first:,.0f} ms, kept {kept:,} bytes)"
            )


def _word(met: bool) -> str:
    return "ok" if met else "MISSED"


if __name__ == "__main__":
    for line in figures([int(word) for word in sys.argv[1:]] or list(TARGETS_MS)):
        print(line, flush=True)
