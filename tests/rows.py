"""Which rows of docs/compatibility.md are proven by tests: `python -m tests.rows` prints them.

A test claims rows with `@pytest.mark.row("A12", "A13")`. A row is proven when at least one test
that claims it passed and none failed.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs" / "compatibility.md"
RECORD = ROOT / ".pytest_cache" / "opta-rows.json"
PROPERTY = "row"
SIZES = {"A": 45, "B": 40, "C": 404, "D": 54, "E": 153}
"""How many rows each design has; ids count from 1 without a gap."""

_ROW = re.compile(r"\| ([A-Z]\d+) \| (.+) \|")


def read_rows(text: str) -> list[tuple[str, str]]:
    """Return (id, what holds) for each table row of `text`, in order, duplicates included."""
    return [(match[1], match[2]) for match in map(_ROW.fullmatch, text.splitlines()) if match]


@cache
def known_ids() -> frozenset[str]:
    """Return the ids of all rows."""
    return frozenset(row for row, _ in read_rows(DOCUMENT.read_text(encoding="utf-8")))


def claimed_by(item: pytest.Item) -> list[str]:
    """Return the ids of the rows that a test claims, those of its class and module included."""
    return [row for marker in item.iter_markers("row") for row in marker.args]


@dataclass
class Tally:
    """The outcome of a run as far as rows are concerned."""

    passed: set[str] = field(default_factory=set)
    failed: set[str] = field(default_factory=set)

    @property
    def proven(self) -> set[str]:
        return self.passed - self.failed

    def add(self, report: pytest.TestReport) -> None:
        """Count one phase of one test. An expected failure proves nothing."""
        claimed = {value for name, value in report.user_properties if name == PROPERTY}
        if report.failed:
            self.failed |= claimed
        elif report.when == "call" and report.passed and not hasattr(report, "wasxfail"):
            self.passed |= claimed


class Recorder:
    """Pytest plugin of the controlling process: writes the tally of a full run to RECORD."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._tally = Tally()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._tally.add(report)

    def pytest_sessionfinish(self) -> None:
        if not self._is_full_run():
            return
        RECORD.parent.mkdir(exist_ok=True)
        RECORD.write_text(json.dumps({"time": time.time(), "rows": sorted(self._tally.proven)}))

    def _is_full_run(self) -> bool:
        option = self._config.option
        return (
            self._config.args_source == pytest.Config.ArgsSource.TESTPATHS
            and not option.keyword
            and not option.markexpr
            and not option.collectonly
            and not getattr(option, "lf", False)
        )


def summary(rows: Iterable[str], proven: set[str]) -> str:
    """Return per design how many rows are proven, and the ids of the others."""
    designs: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        designs[row[0]].append(row)
    lines = []
    for design, ids in sorted(designs.items()):
        missing = [row for row in ids if row not in proven]
        lines.append(f"{design}: {len(ids) - len(missing)}/{len(ids)} rows proven by passing tests")
        if missing:
            lines.append(f"   not claimed: {_ranges(missing)}")
    return "\n".join(lines)


def _ranges(ids: list[str]) -> str:
    """Return `A1-A3, A7` for A1, A2, A3, A7."""
    numbers = sorted(int(row[1:]) for row in ids)
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    letter = ids[0][0]
    return ", ".join(
        f"{letter}{run[0]}" if len(run) == 1 else f"{letter}{run[0]}-{letter}{run[-1]}"
        for run in runs
    )


def _newest_source() -> float:
    """Return when a Python file or the document was last changed (seconds since 1970)."""
    folders = [ROOT / name for name in ("agent", "tools", "prompts", "tests")]
    files = [DOCUMENT, *(file for folder in folders for file in folder.rglob("*.py"))]
    return max(file.stat().st_mtime for file in files)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.rows", description=__doc__)
    parser.add_argument("--last", action="store_true", help="use the last full run as it is")
    last = parser.parse_args().last
    stale = not RECORD.exists() or json.loads(RECORD.read_text())["time"] < _newest_source()
    if stale and not last:
        command = [sys.executable, "-m", "pytest", "-q", "-n", "auto"]
        subprocess.run(command, cwd=ROOT, check=False)
    if not RECORD.exists():
        print("no full run of the tests is recorded: run `make test` first", file=sys.stderr)
        return 1
    record = json.loads(RECORD.read_text())
    print(f"full run of {(time.time() - record['time']) / 60:.0f} minutes ago")
    document = read_rows(DOCUMENT.read_text(encoding="utf-8"))
    print(summary([row for row, _ in document], set(record["rows"])))
    return 0


if __name__ == "__main__":
    sys.exit(main())
