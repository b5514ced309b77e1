"""`opta mcp serve --http`: on loopback, for those with the token, and for no web page (R35)."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import re
import signal
import socket
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.cli import OPTA, opta
from tests.support.mcp_client import MODES, Person, names, refused, text
from tests.support.processes import group_is_gone
from tests.support.soon import SOON_S, soon

GREET = """\
name: greet
description: Greet somebody.
parameters:
  NAME: {type: string, required: true}
bash: printf 'hello %s' "{NAME}"
"""
HELLO = {
    "jsonrpc": "2.0", "id": 1, "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {},
               "clientInfo": {"name": "raw", "version": "1"}},
}  # fmt: skip


@pytest.fixture
def project(tmp_path: Path) -> Path:
    tools = tmp_path / ".opta" / "tools"
    tools.mkdir(parents=True)
    (tools / "greet.yaml").write_text(GREET)
    return tmp_path


class Served:
    """A running server: where it is, its token, and what it printed."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stderr is not None
        self.process = process
        self.told = ""
        self.token = ""
        while not (found := re.search(r"serving at http://127\.0\.0\.1:(\d+)/mcp ", self.told)):
            line = process.stderr.readline()
            assert line, self.told
            self.told += line
        self.port = int(found[1])

    def read_token(self) -> Served:
        assert self.process.stderr is not None
        line = self.process.stderr.readline()
        self.told += line
        self.token = line.strip().removeprefix("Authorization: Bearer ")
        return self

    def post(self, method: str = "POST", **headers: str) -> int:
        """Say hello as any program could; return the status."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=SOON_S)
        sent = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        connection.request(method, "/mcp", json.dumps(HELLO), sent | headers)
        with contextlib.closing(connection):
            return connection.getresponse().status

    def bearer(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}


@contextlib.contextmanager
def serving(root: Path, *flags: str):
    argv = [*OPTA, "mcp", "serve", "--http", "--trust", *flags]
    with subprocess.Popen(
        argv, cwd=root, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        try:
            yield Served(process)
        finally:
            process.kill()


@contextlib.asynccontextmanager
async def connected(
    server: Served, mode: str, person: Person | None = None, on_message=None
) -> AsyncIterator:
    import httpx2
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    address = f"http://127.0.0.1:{server.port}/mcp"
    async with httpx2.AsyncClient(headers=server.bearer(), timeout=SOON_S) as http_client:
        transport = streamable_http_client(address, http_client=http_client)
        async with Client(
            transport, mode=mode, elicitation_callback=person, message_handler=on_message,
            cache=None,
        ) as client:  # fmt: skip
            yield client


@pytest.mark.parametrize("mode", MODES)
async def test_several_clients_share_tools_gate_and_questions(project, mode):
    person = Person("once")
    with serving(project) as server:
        server.read_token()
        async with connected(server, mode, person) as one, connected(server, mode) as two:
            assert await names(one) == await names(two) == ["greet"]
            assert await text(one, "greet", {"NAME": "you"}) == "hello you"
            assert "nobody is there to be asked" in await refused(two, "greet", {"NAME": "x"})
    assert len(person.asked) == 1


async def test_clients_over_http_hear_that_the_tools_have_changed(project):
    heard: list[str] = []

    async def on_message(message):
        heard.append(type(message).__name__)

    with serving(project) as server:
        server.read_token()
        async with connected(server, "legacy", on_message=on_message) as client:
            assert await names(client) == ["greet"]
            done = opta("tools", "disable", "greet", "--trust", cwd=project)
            assert done.returncode == 0, done.stderr
            await soon(lambda: "ToolListChangedNotification" in heard)
            assert await names(client) == []


def test_r35_nothing_is_answered_without_the_token_from_a_page_or_under_another_name(project):
    with serving(project) as server:
        assert server.post() == 401
        server.read_token()
        assert len(server.token) >= 40
        good = server.bearer()
        assert server.post(**good) == 200
        assert server.post(Authorization=f"Bearer {server.token}x") == 401
        assert server.post(Authorization=f"Basic {server.token}") == 401
        assert server.post(Authorization="Bearer ") == 401
        assert server.post(**good, Host="evil.example") == 421
        assert server.post(**good, Host=f"evil.example:{server.port}") == 421
        assert server.post(**good, Host="127.0.0.1:1") == 421
        for origin in ("https://evil.example", f"http://127.0.0.1:{server.port}", "null"):
            for method in ("POST", "GET", "DELETE", "OPTIONS"):
                assert server.post(method, **good, Origin=origin) == 403
                assert server.post(method, Origin=origin) == 401
        other = serving(project)
        with other as second:
            assert second.read_token().token != server.token


def test_r35_it_listens_on_loopback_alone(project):
    with serving(project) as server:
        table = Path("/proc/net/tcp")
        if table.exists():
            listening = [
                line.split()[1] for line in table.read_text().splitlines()
                if line.split()[3] == "0A" and line.split()[1].endswith(f":{server.port:04X}")
            ]  # fmt: skip
            assert listening == [f"0100007F:{server.port:04X}"]
        with pytest.raises(OSError, match="refused"):
            socket.create_connection(("127.0.0.2", server.port), timeout=SOON_S)


def test_a_token_of_the_persons_own_is_used_not_printed_and_not_handed_to_tools(
    project, monkeypatch
):
    token = "my-own-token-1234567890"
    monkeypatch.setenv("OPTA_MCP_TOKEN", token)
    tool = "name: env\ndescription: d\nbash: echo got ${{OPTA_MCP_TOKEN:-nothing}}\n"
    (project / ".opta" / "tools" / "env.yaml").write_text(tool)
    with serving(project, "--allow", "env") as server:
        server.token = token
        assert server.post(**server.bearer()) == 200
        assert server.post() == 401
        server.process.send_signal(signal.SIGTERM)
        _, told = server.process.communicate(timeout=SOON_S)
    assert token not in server.told + told
    monkeypatch.setenv("OPTA_MCP_TOKEN", "short")
    done = opta("mcp", "serve", "--http")
    assert done.returncode == 2
    assert "OPTA_MCP_TOKEN must have 20 plain characters or more" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_r44_a_signal_ends_the_server_its_calls_and_its_connections(project, number):
    waits = "name: waits\ndescription: d\nbash: 'echo $$ > pid; sleep 600; :'\n"
    (project / ".opta" / "tools" / "waits.yaml").write_text(waits)
    with serving(project, "--allow", "waits") as server:
        server.read_token()

        async def call() -> None:
            async with connected(server, "legacy") as client:
                await client.call_tool("waits", {})

        calling = asyncio.create_task(call())
        pid = project / "pid"
        await soon(lambda: pid.exists() and pid.read_text().strip())
        server.process.send_signal(number)
        out, told = await asyncio.to_thread(server.process.communicate, timeout=SOON_S)
        calling.cancel()
        await asyncio.wait({calling})
    assert server.process.returncode == 130
    assert "Traceback" not in told
    assert out == ""
    await soon(lambda: group_is_gone(int(pid.read_text())))


def test_a_port_that_is_taken_and_wrong_ports_are_one_error():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = opta("mcp", "serve", "--http", "--port", port)
    assert done.returncode == 1
    assert f"port {port} cannot be used: " in done.stderr
    assert opta("mcp", "serve", "--port", "80").returncode == 2
    assert opta("mcp", "serve", "--http", "--port", "70000").returncode == 2
