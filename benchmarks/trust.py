"""The check at a start that a trusted project is unchanged: `python -m benchmarks.trust PROJECT`.

Prints the ms of the check, in a process that has checked nothing yet. The floor reads the files.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from benchmarks import measure
from benchmarks.bench import Bench, Figure
from benchmarks.tool_files import write_tools

TOOL_FILES = 50


def trustcheck(bench: Bench) -> list[Figure]:
    project = bench.directory / "trusted"
    (project / ".opta").mkdir(parents=True)
    (project / ".opta" / "config.yml").write_text("permissions:\n  deny: ['run_command(rm:*)']\n")
    (project / "AGENTS.md").write_text("Run the tests before you are done.\n" * 50)
    write_tools(project / ".opta" / "tools", TOOL_FILES)
    _run(bench, "--grant", project)
    runs = [json.loads(_run(bench, project)) for _ in range(bench.runs * 4)]
    floor, opta = (median(taken[client] for taken in runs) for client in ("floor", "opta"))
    return [Figure(f"trust check, {TOOL_FILES} tool files", "ms", floor, opta, 5)]


def _run(bench: Bench, *words: str | Path) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.trust", *words], cwd=measure.ROOT,
        env=bench.environment(), stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    return done.stdout


def _grant(project: Path) -> None:
    from tools import storage
    from tools.permissions.trust import inspect
    from tools.permissions.trust_store import TrustStore

    TrustStore(storage.state_dir()).grant(inspect(project))


def _check(project: Path) -> dict[str, float]:
    from agent.project import trust_in

    def check() -> None:
        if not trust_in(project, given=False).level.runs:
            raise RuntimeError("the project is not trusted")

    def read() -> None:
        for path in project.rglob("*"):
            if path.is_file():
                path.read_bytes()

    opta = _ms(check)
    return {"opta": opta, "floor": _ms(read)}


def _ms(work: Callable[[], None]) -> float:
    start = time.perf_counter()
    work()
    return 1000 * (time.perf_counter() - start)


if __name__ == "__main__":
    if sys.argv[1] == "--grant":
        _grant(Path(sys.argv[2]))
    else:
        print(json.dumps(_check(Path(sys.argv[1]).resolve())))
