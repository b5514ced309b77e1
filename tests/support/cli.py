"""Runs the real `opta` command as a process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

LAUNCHER = Path(__file__).parents[2] / "opta.py"
OPTA = (sys.executable, str(LAUNCHER))
TIMEOUT_S = 60


def opta(*arguments, server=None, stdin="", cwd=None, env=None, flags=()):
    """Run opta to its end; with `server`, against that model server. Text in, text out."""
    return subprocess.run(
        [*OPTA, *arguments, *connected(server), *flags],
        input=stdin, capture_output=True, text=True, cwd=cwd, env=env, timeout=TIMEOUT_S,
    )  # fmt: skip


def connected(server):
    """The flags that connect opta to a model server on loopback."""
    return () if server is None else ("--base-url", server.base_url, "--model", "test-model")


def lines(text):
    """The JSON objects of a text, one per line."""
    return [json.loads(line) for line in text.splitlines()]
