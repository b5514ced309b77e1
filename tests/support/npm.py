"""Programs from npm, installed once for all tests of a run."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tools.storage import AppendFile

VERSIONS = {
    "@modelcontextprotocol/server-everything": "2026.8.31",
    "@modelcontextprotocol/server-filesystem": "2026.8.31",
    "@modelcontextprotocol/conformance": "0.1.13",
}
"""0.1.13 is the last conformance suite that runs on Node 20."""

needs_npm = pytest.mark.skipif(
    shutil.which("node") is None or shutil.which("npm") is None,
    reason="node or npm is not installed: the published MCP servers cannot be run",
)
_INSTALL_S = 240


def installed(factory: pytest.TempPathFactory) -> Path:
    """Install the packages, or wait until another worker has; return the `node_modules`.

    npm's own cache is used as it is. Skips, saying why, where npm cannot get them.
    """
    base = factory.getbasetemp()
    shared = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "npm"
    shared.mkdir(exist_ok=True)
    lock = AppendFile(shared / "lock")
    try:
        _wait_for(lock)
        if not (shared / "done").exists():
            _install(shared)
            (shared / "done").touch()
    finally:
        lock.close()
    return shared / "node_modules"


def _wait_for(lock: AppendFile) -> None:
    import fcntl

    fcntl.flock(lock._descriptor, fcntl.LOCK_EX)


def _install(directory: Path) -> None:
    (directory / "package.json").write_text(json.dumps({"dependencies": VERSIONS, "private": True}))
    command = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--silent"]
    done = subprocess.run(
        command, cwd=directory, capture_output=True, text=True, timeout=_INSTALL_S, check=False
    )
    if done.returncode != 0:
        pytest.skip(f"npm could not install the published MCP servers: {done.stderr[-300:]}")
