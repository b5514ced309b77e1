"""What the tests of tools share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.mcp_web import visited  # noqa: F401 - a fixture
from tests.support.tool_command import Shell


@pytest.fixture
def opta(capfd, monkeypatch):
    """`opta …` as a function, in a directory of its own, where nobody can be asked."""
    monkeypatch.setenv("OPTA_GLOBAL_DIR", str(Path.cwd().parent / "global"))
    with open("/dev/null") as nobody:
        monkeypatch.setattr("sys.stdin", nobody)
        yield Shell(capfd)
