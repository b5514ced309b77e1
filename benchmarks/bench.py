"""Runs opta and the floor in turn, and says how their figures compare."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from benchmarks import measure

OPTA = str(Path(sys.executable).parent / "opta")
FLOOR = str(measure.ROOT / "benchmarks" / "floor.py")
CLIENTS = {
    "floor": [sys.executable, FLOOR, "go"],
    "opta": [OPTA, "-p", "go", "--dangerously-skip-permissions", "--output-format", "text"],
}


@dataclass
class Bench:
    """Where the programs run, how often, and what was measured so far."""

    directory: Path
    runs: int
    measured: dict[tuple[str, str], list[measure.Usage]] = field(default_factory=dict)
    seen: dict[tuple[str, str], list[dict[str, list[float]]]] = field(default_factory=dict)
    first_body: str = ""

    def environment(self, port: int = 9) -> dict[str, str]:
        """Return an environment without anything of the person's own."""
        names = ("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")
        own = {name: str(self.directory / "home") for name in names}
        return {
            "PATH": os.environ["PATH"], "LANG": "C.UTF-8", **own,
            "OPENAI_API_KEY": "none", "OPENAI_BASE_URL": f"http://127.0.0.1:{port}/v1",
            "OPTA_MODEL": "scripted",
        }  # fmt: skip

    def scenario(self, name: str) -> None:
        """Run a scenario with both clients in turn, unless that was done."""
        if ("opta", name) in self.measured:
            return
        with measure.server(name) as server:
            environment = self.environment(server.port)
            for _ in range(self.runs):
                for client, command in CLIENTS.items():
                    usage = measure.run(command, environment, self.directory / "project")
                    self.measured.setdefault((client, name), []).append(usage)
                    seen = server.last_run()
                    self.seen.setdefault((client, name), []).append(seen)
                    self.first_body = seen["first_body"]

    def wall(self, client: str, name: str) -> float:
        """Return the median wall time in seconds."""
        self.scenario(name)
        return median(usage.wall for usage in self.measured[client, name])

    def peak_mb(self, client: str, name: str) -> float:
        """Return the median peak memory in MB."""
        self.scenario(name)
        return median(usage.peak_mb for usage in self.measured[client, name])

    def between(self, client: str, name: str, turns: range) -> float:
        """Return the median ms from a response sent to the next request arrived."""
        self.scenario(name)
        return 1000 * median(
            seen["arrived"][turn] - seen["sent"][turn - 1]
            for seen in self.seen[client, name]
            for turn in turns
        )


@dataclass(frozen=True)
class Figure:
    """One line of the result; `target` is for opta, in the same unit, None where there is none."""

    name: str
    unit: str
    floor: float | None
    opta: float
    target: float | None = None

    def __str__(self) -> str:
        floor = f"{self.floor:9.2f}" if self.floor is not None else " " * 9
        ratio = f"{self.opta / self.floor:6.2f}x" if self.floor else " " * 7
        line = f"{self.name:<34} {floor} {self.opta:9.2f} {ratio} {self.unit:<7}"
        if self.target is None:
            return line
        return f"{line} <= {self.target:<8.2f} {'ok' if self.opta <= self.target else 'MISSED'}"
