"""opencode from npm, which loads tool files that opta writes for it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from tests.support.cli import lines
from tests.support.model_server import ModelServer


def set_up(modules: Path) -> Path:
    """Make `.opencode` here as opencode itself would have: then it asks for nothing."""
    directory = Path(".opencode")
    (directory / "tool").mkdir(parents=True)
    for name in ("node_modules", "package.json", "package-lock.json"):
        (directory / name).symlink_to(modules.parent / name)
    return directory / "tool"


def run_opencode(modules: Path, server: ModelServer) -> list[dict[str, Any]]:
    """Let opencode do one job with the model server; return how its calls of tools went."""
    model = {"npm": "@ai-sdk/openai-compatible", "models": {"m": {"name": "m"}},
             "options": {"baseURL": server.base_url, "apiKey": "k"}}  # fmt: skip
    Path("opencode.json").write_text(json.dumps({"provider": {"loop": model}, "share": "disabled"}))
    # It would fetch its plugin and a list of models: what it needs of them is here.
    environment = {**os.environ, "PWD": str(Path.cwd()), "OPENCODE_DISABLE_AUTOUPDATE": "1",
                   "OPENCODE_DISABLE_MODELS_FETCH": "1", "npm_config_fetch_retries": "0",
                   "npm_config_registry": "http://127.0.0.1:1/"}  # fmt: skip
    program = modules / "opencode-linux-x64-baseline" / "bin" / "opencode"
    done = subprocess.run(
        [program, "run", "--model", "loop/m", "--format", "json", "do it"],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, env=environment, timeout=55,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return [e["part"]["state"] for e in lines(done.stdout) if e["type"] == "tool_use"]
