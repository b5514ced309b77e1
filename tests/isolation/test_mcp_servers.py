"""MCP servers in a sandbox, where their entry asks for one."""

from __future__ import annotations

import shlex
import shutil
import socket
import sys
from pathlib import Path

import pytest

from tests.support.cli import opta
from tests.support.mcp_session import SCRIPT, session
from tools.definition import Scope
from tools.sources.mcp.config import ServerConfig
from tools.sources.mcp.connection import State


def curious(listening: socket.socket, outside: Path, **settings: bool) -> ServerConfig:
    """A server that first tries what it can touch; its program lies beside the workspace."""
    script = shutil.copy(SCRIPT, outside.parent)
    port = listening.getsockname()[1]
    tries = [
        "echo in > inside",
        f"echo out > {shlex.quote(str(outside))}",
        "touch .envrc",
        f"(exec 3<>/dev/tcp/127.0.0.1/{port}) && echo reached > reached",
    ]
    line = (
        f"{{ {'; '.join(tries)}; }} 2>/dev/null; exec {shlex.join((sys.executable, script, 'ok'))}"
    )
    return ServerConfig("ok", Scope.USER, "config.yml:1", "bash", ("-c", line), **settings)


@pytest.fixture
def listening():
    with socket.create_server(("127.0.0.1", 0)) as made:
        yield made


@pytest.mark.parametrize("network", [False, True])
@pytest.mark.parametrize("backend", ["bubblewrap", "landlock"])
async def test_a_server_in_a_sandbox_works_and_touches_only_the_workspace(
    workspace, needs, listening, backend, network
):
    needs(backend)
    outside = workspace.parent / "outside"
    config = curious(listening, outside, sandbox=True, sandbox_network=network)
    async with session(workspace, config, backend=backend) as s:
        assert s.told == []
        assert await s.text("mcp_ok_echo", text="hi") == "hi"
    assert (workspace / "inside").exists()
    assert not outside.exists()
    assert not (workspace / ".envrc").exists()
    assert (workspace / "reached").exists() == network


async def test_without_it_a_server_is_a_program_like_any_other(workspace, listening):
    outside = workspace.parent / "outside"
    async with session(workspace, curious(listening, outside)) as s:
        assert s.told == []
    assert outside.exists()
    assert (workspace / "reached").exists()


async def test_where_there_is_no_sandbox_the_server_is_not_started(workspace, listening):
    config = curious(listening, workspace / "outside", sandbox=True)
    async with session(workspace, config, backend="seatbelt") as s:
        assert s.servers.connections["ok"].state is State.FAILED
        (told,) = s.told
    assert "in a sandbox, which this machine cannot do: seatbelt: it is for macOS" in told
    assert not (workspace / "inside").exists()


def test_the_entry_of_a_file_says_it_and_get_shows_it(workspace):
    entry = '{"command": "x", "sandbox": true, "sandboxNetwork": true}'
    (workspace / ".mcp.json").write_text(f'{{"mcpServers": {{"one": {entry}}}}}')
    shown = opta("mcp", "get", "one", "--trust", cwd=workspace)
    assert "  sandbox: yes, with the network\n" in shown.stdout
    (workspace / ".mcp.json").write_text('{"mcpServers": {"one": {"command": "x", "sandbox": 1}}}')
    wrong = opta("mcp", "get", "one", "--trust", cwd=workspace)
    assert "$.mcpServers.one.sandbox: must be true or false" in wrong.stderr
