"""What calls of custom tools take inside one process: `python -m benchmarks.tool_calls NAME DIR`.

Prints seconds, or MB, as JSON. The floor of each is measured in turn with it.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from tools.definition import Scope, ToolCall, ToolResult
from tools.sources.files import ToolFiles

CALLS = 60
STEPS = 200
AT_ONCE = 20
OUTPUT_BYTES = 1_000_000_000


class Tools:
    """The tool files of a directory, and calls of them that nobody is asked about."""

    def __init__(self, directory: Path) -> None:
        from tools.builtin.kit import Services
        from tools.engine.environment import child_environment
        from tools.executor import ToolExecutor
        from tools.files.workspace import Workspace
        from tools.permissions.gate import PermissionGate
        from tools.permissions.rules import RuleSet
        from tools.registry import ToolRegistry, ToolSettings

        files = ToolFiles([(Scope.USER, directory)])
        registry = ToolRegistry([], files.load, ToolSettings({}), lambda name, on: None)
        gate = PermissionGate(RuleSet(), skip_permissions=True)
        services = Services(Workspace(directory), child_environment(os.environ))
        self._executor = ToolExecutor(registry, gate, {}, services)

    async def call(self, name: str) -> ToolResult:
        """Run a tool. Raises RuntimeError where it fails."""
        call = ToolCall("call", name, "{}")
        (result,) = await self._executor.batch([call], lambda event: None).run()
        if not result.success:
            raise RuntimeError(result.text[:1000])
        return result


def step(directory: Path) -> dict[str, float]:
    """One step against `subprocess.run` of the same script."""
    script = directory / "script"
    script.write_text("echo done\n")
    _write(directory, "one", "bash: echo done")

    def floor() -> None:
        subprocess.run(["bash", script], stdin=subprocess.DEVNULL, capture_output=True, check=True)

    return asyncio.run(_in_turn(directory, "one", floor, CALLS))


def plan(directory: Path) -> dict[str, float]:
    """Many steps of `true`, 20 at a time, against `xargs -P20`."""
    steps = "".join(
        f"  - {{name: s{number}, bash: 'true', parallel: true}}\n" for number in range(STEPS)
    )
    _write(directory, "many", f"steps:\n{steps.rstrip()}")
    loop = f"seq {STEPS} | xargs -P{AT_ONCE} -I{{}} bash -c true"

    def floor() -> None:
        subprocess.run(["bash", "-c", loop], stdin=subprocess.DEVNULL, check=True)

    return asyncio.run(_in_turn(directory, "many", floor, 7))


def gigabyte(directory: Path) -> dict[str, float]:
    """How many MB one step with a gigabyte of output needs; its first and last line must be right.

    The floor is what the process needs before.
    """
    _write(
        directory, "big",
        f"bash: echo first; yes filler | head -c {OUTPUT_BYTES}; echo; echo last\n"
        "timeout: 600000",
    )  # fmt: skip
    _write(directory, "small", "bash: echo done")
    tools = Tools(directory)
    asyncio.run(tools.call("small"))
    idle = _peak_mb()
    result = asyncio.run(tools.call("big"))
    lines = result.text.splitlines()
    if "first" not in lines[:5] or "last" not in lines[-5:]:
        raise RuntimeError(f"head or tail are wrong: {lines[:5]} … {lines[-5:]}")
    return {"floor": idle, "opta": _peak_mb()}


def codetool(directory: Path) -> dict[str, float]:
    """One program of a tool under deno, compiled before, against deno with an empty program."""
    from tools.code import runtimes

    runtime = runtimes.find("typescript", os.environ.get("PATH", os.defpath))[0]
    if runtime.name != "deno":
        raise RuntimeError(f"there is no deno here, only {runtime.name}")
    empty = directory / "empty.mts"
    empty.touch()
    code = "export const execute = async (args: unknown): Promise<string> => 'done';"
    (directory / "program.yml").write_text(
        f"name: program\ndescription: For measuring.\nschema: {{type: object, properties: {{}}}}\n"
        f'code: "{code}"\n'
    )

    def floor() -> None:
        subprocess.run([runtime.program, "run", "--quiet", empty], check=True)

    floor()
    return asyncio.run(_in_turn(directory, "program", floor, CALLS))


def files(directory: Path) -> dict[str, float]:
    """Read all tool files, and once more; the floor only parses them."""
    loading = ToolFiles([(Scope.USER, directory)])
    opta = _seconds(lambda: _check(loading))
    warm = min(_seconds(lambda: _check(loading)) for _ in range(5))
    floor = _seconds(lambda: _parse_all(directory))
    return {"floor": floor, "opta": opta, "warm": warm}


def _check(loading: ToolFiles) -> None:
    tools, problems = loading.load()
    if not tools or problems:
        raise RuntimeError(f"{len(tools)} tools, {problems[:3]}")
    for tool in tools:
        assert tool.wire_name
        assert tool.description


def _parse_all(directory: Path) -> None:
    import yaml

    for path in directory.iterdir():
        text = path.read_text()
        if path.suffix == ".json":
            json.loads(text)
        else:
            yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))


async def _in_turn(
    directory: Path, name: str, floor: Callable[[], None], times: int
) -> dict[str, float]:
    tools = Tools(directory)
    await tools.call(name)
    seconds: dict[str, list[float]] = {"floor": [], "opta": []}
    for _ in range(times):
        seconds["floor"].append(_seconds(floor))
        started = time.perf_counter()
        await tools.call(name)
        seconds["opta"].append(time.perf_counter() - started)
    return {client: median(taken) for client, taken in seconds.items()}


def _seconds(function: Callable[[], None]) -> float:
    started = time.perf_counter()
    function()
    return time.perf_counter() - started


def _peak_mb() -> float:
    unit = 1 << 20 if sys.platform == "darwin" else 1 << 10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def _write(directory: Path, name: str, action: str) -> None:
    (directory / f"{name}.yaml").write_text(
        f"name: {name}\ndescription: For measuring.\n{action}\ntags: [read]\n"
    )


MEASURES: dict[str, Callable[[Path], dict[str, float]]] = {
    function.__name__: function for function in (step, plan, codetool, gigabyte, files)
}


if __name__ == "__main__":
    print(json.dumps(MEASURES[sys.argv[1]](Path(sys.argv[2]))))
