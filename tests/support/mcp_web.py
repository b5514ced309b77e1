"""MCP servers with an address for tests: `mcp_http_server.py` as a process, and who uses it."""

from __future__ import annotations

import contextlib
import os
import random
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tools.definition import Scope
from tools.sources.mcp.config import ServerConfig

SCRIPT = Path(__file__).with_name("mcp_http_server.py")

_BROWSER = """\
#!{python}
import sys, urllib.request
open({record!r}, "a").write(sys.argv[1] + "\\n")
urllib.request.urlopen(sys.argv[1]).read()
"""


@contextlib.contextmanager
def running(*arguments: str) -> Iterator[str]:
    """Run the server and give its address."""
    with running_process(*arguments) as (url, _):
        yield url


@contextlib.contextmanager
def running_process(*arguments: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    argv = [sys.executable, str(SCRIPT), *arguments]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}/mcp", process
        finally:
            process.kill()


def at(url: str, **settings: Any) -> ServerConfig:
    return ServerConfig("web", Scope.USER, "config.yml:1", url=url, **settings)


def free_port() -> int:
    """A port that nobody listens on, of those that no outgoing connection is given meanwhile."""
    while True:
        port = random.randrange(15_000, 30_000)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


@pytest.fixture
def visited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A browser that follows where it is sent; the file gets the addresses it was opened with."""
    if sys.platform in ("darwin", "win32"):
        pytest.skip("the browser is xdg-open")
    record = tmp_path / "visited"
    browser = tmp_path / "bin" / "xdg-open"
    browser.parent.mkdir()
    browser.write_text(_BROWSER.format(python=sys.executable, record=str(record)))
    browser.chmod(0o755)
    monkeypatch.setenv("PATH", f"{browser.parent}{os.pathsep}{os.environ['PATH']}")
    return record
