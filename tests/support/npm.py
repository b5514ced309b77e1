"""Programs from npm, installed once for all tests of a run."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

from tools.storage import AppendFile

SERVERS = {
    "@modelcontextprotocol/server-everything": "2026.8.31",
    "@modelcontextprotocol/server-filesystem": "2026.8.31",
    "@modelcontextprotocol/conformance": "0.1.13",
}
"""0.1.13 is the last conformance suite that runs on Node 20."""

OPENCODE = {"opencode-linux-x64-baseline": "1.18.33", "@opencode-ai/plugin": "1.18.33"}
"""opencode's program for any x64 processor, and what its custom tools import."""

BUN = {"@oven/bun-linux-x64-baseline": "1.4.5"}
"""bun's program for any x64 processor."""

VITEST = {"vitest": "3.2.4", "@vitest/coverage-v8": "3.2.4", "yarn": "1.22.22"}
"""The last major version of vitest that runs on Node 18."""

needs_npm = pytest.mark.skipif(
    shutil.which("node") is None or shutil.which("npm") is None,
    reason="node or npm is not installed: programs from npm cannot be run",
)
_INSTALL_S = 240


def installed(
    factory: pytest.TempPathFactory, packages: Mapping[str, str] = MappingProxyType(SERVERS)
) -> Path:
    """Install the packages, or wait until another worker has; return the `node_modules`.

    npm's own cache is used as it is. Skips, saying why, where npm cannot get them.
    """
    base = factory.getbasetemp()
    name = f"npm-{next(iter(packages)).rpartition('/')[2]}"
    shared = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / name
    shared.mkdir(exist_ok=True)
    lock = AppendFile(shared / "lock")
    try:
        _wait_for(lock)
        if not (shared / "done").exists():
            _install(shared, packages)
            (shared / "done").touch()
    finally:
        lock.close()
    return shared / "node_modules"


def _wait_for(lock: AppendFile) -> None:
    import fcntl

    fcntl.flock(lock._descriptor, fcntl.LOCK_EX)


def _install(directory: Path, packages: Mapping[str, str]) -> None:
    (directory / "package.json").write_text(
        json.dumps({"dependencies": dict(packages), "private": True})
    )
    command = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--silent"]
    done = subprocess.run(
        command, cwd=directory, capture_output=True, text=True, timeout=_INSTALL_S, check=False
    )
    if done.returncode != 0:
        pytest.skip(f"npm could not install {', '.join(packages)}: {done.stderr[-300:]}")
