"""MCP servers that have an address, and logins to them: real HTTP on loopback."""

from __future__ import annotations

import asyncio
import gzip
import json
import signal
import socket
import subprocess
from collections.abc import Iterator
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.support.cli import OPTA, opta
from tests.support.mcp_conformance import visit
from tests.support.mcp_session import session
from tests.support.mcp_web import at, free_port, running, running_process
from tests.support.model_server import ModelServer, Reply
from tests.support.soon import SOON_S, soon
from tools import storage
from tools.definition import Outcome
from tools.permissions.rules import Verdict, parse_rule
from tools.sources.mcp import sdk
from tools.sources.mcp.config import LoginSettings
from tools.sources.mcp.connection import State
from tools.sources.mcp.login import LoginFailed, checked_url, log_in


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with running() as url:
        yield url


async def test_a_server_with_an_address_is_called_with_the_configured_headers(tmp_path, address):
    async with session(tmp_path, at(address, headers={"X-Test": "hello"})) as s:
        assert s.told == []
        assert await s.text("mcp_web_add", a=1, b=2) == "3"
        assert await s.text("mcp_web_headers") == "hello"


async def test_an_address_where_nobody_listens_costs_one_line(tmp_path):
    async with session(tmp_path, at("http://127.0.0.1:9/mcp")) as s:
        assert s.servers.connections["web"].state is State.FAILED
        (told,) = s.told
        assert told.startswith("MCP server web is not available: connection refused")
        assert "\n" not in told


async def test_an_address_on_this_machine_is_asked_through_no_proxy(tmp_path, address, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    async with session(tmp_path, at(address)) as s:
        assert s.told == []


WRONG = {
    "a page": (Reply(b"<html>Log in to the wifi", 200, {"Content-Type": "text/html"}),
               "Unexpected content type: text/html"),
    "an error": (Reply(b"boom", 500), "it answered with HTTP 500 (Internal Server Error)"),
    "no such place": (Reply(b"", 404), "it answered with HTTP 404 (Not Found)"),
    "half a message": (Reply(b'{"jsonrpc":"2.0","id":0,"res', 200,
                             {"Content-Type": "application/json"}),
                       "Failed to parse JSON response: it sent no message of MCP"),
    "a stream of something": (Reply(b"data: hello\n\n"),
                              "Failed to parse SSE message: it sent no message of MCP"),
    "another result": (lambda request: Reply(
        json.dumps({"jsonrpc": "2.0", "id": request.json["id"], "result": {"a": 1}}).encode(), 200,
        {"Content-Type": "application/json"}), "no message of MCP: capabilities: Field required"),
}  # fmt: skip


def offered(request, **settings: str) -> Reply:
    """The answer of a server that has nothing, and says so at length."""
    result = {"protocolVersion": "2025-11-25", "capabilities": {},
              "serverInfo": {"name": "long", "version": "1"},
              "instructions": "x" * (9 << 20)}  # fmt: skip
    body = json.dumps({"jsonrpc": "2.0", "id": request.json.get("id"), "result": result}).encode()
    if settings:
        body = gzip.compress(body)
    return Reply(body, 200, {"Content-Type": "application/json", **settings})


TOO_LONG = {
    "long": (offered, "it sent more than 8 MiB"),
    "compressed": (lambda request: offered(request, **{"Content-Encoding": "gzip"}),
                   "it sent a compressed answer, which was not asked for"),
    "a long error": (Reply(b" " * (9 << 20), 500, {"Content-Type": "application/json"}),
                     "it answered with HTTP 500"),
}  # fmt: skip


@pytest.mark.parametrize("long", TOO_LONG)
async def test_an_answer_is_not_read_beyond_what_a_message_may_have(tmp_path, long):
    reply, said = TOO_LONG[long]
    with ModelServer([reply] * 20) as web:
        async with session(tmp_path, at(web.base_url, start_ms=SOON_S * 1000)) as s:
            assert s.servers.connections["web"].state is State.FAILED
            assert said in s.told[0]
        assert {request.headers.get("accept-encoding") for request in web.requests} == {"identity"}


@pytest.mark.parametrize("wrong", WRONG)
async def test_an_address_that_speaks_something_else_costs_one_line(tmp_path, wrong):
    reply, said = WRONG[wrong]
    with ModelServer([reply] * 20) as web:
        async with session(tmp_path, at(web.base_url, start_ms=SOON_S * 1000)) as s:
            (told,) = s.told
    assert told.startswith("MCP server web is not available: ")
    assert said in told
    assert "pydantic" not in told
    assert len(told) < 160


async def test_a_rule_against_a_host_keeps_opta_from_connecting(tmp_path, address):
    rule = parse_rule(Verdict.DENY, "network:127.0.0.1", "the test")
    async with session(tmp_path, at(address), rules=(rule,)) as s:
        (told,) = s.told
        assert "denied by rule network:127.0.0.1 (the test)" in told


async def test_a_server_that_goes_away_fails_the_call_and_is_connected_again(tmp_path):
    with running() as url:
        running_ = session(tmp_path, at(url, call_ms=5000))
        s = await running_.__aenter__()
        assert await s.text("mcp_web_add", a=1, b=2) == "3"
    try:
        result = await s.call("mcp_web_add", {"a": 1, "b": 2})
        assert not result.success
        assert "The MCP server web ended while this ran (the connection was lost)" in result.text
        await soon(lambda: s.servers.connections["web"].state is State.WAITING)
        assert "; opta connects again in 1 s" in s.told[0]
    finally:
        await running_.__aexit__(None, None, None)


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="no signal stops a process here")
async def test_a_server_that_hangs_keeps_neither_a_call_nor_the_end_of_opta_waiting(tmp_path):
    with running_process() as (url, process):
        async with asyncio.timeout(SOON_S), session(tmp_path, at(url, call_ms=300)) as s:
            assert await s.text("mcp_web_add", a=1, b=2) == "3"
            process.send_signal(signal.SIGSTOP)
            result = await s.call("mcp_web_add", {"a": 1, "b": 2})
            assert result.outcome is Outcome.TIMED_OUT


def test_a_person_logs_in_once_with_the_browser(visited):
    with running("login") as url:
        assert opta("mcp", "add", "web", url).returncode == 0
        before = opta("mcp", "get", "web", "--check")
        assert before.returncode == 1
        assert "MCP server web needs a login: log in with: opta mcp login web" in before.stderr
        assert not visited.exists()
        login = subprocess.run(
            [*OPTA, "mcp", "login", "web"], capture_output=True, text=True, timeout=60
        )
        assert login.returncode == 0, login.stderr
        assert "Logged in to web. The login is kept in " in login.stdout
        (asked,) = visited.read_text().splitlines()
        assert asked.startswith(url.removesuffix("/mcp") + "/authorize?")
        (kept,) = (storage.state_dir() / "mcp" / "logins").glob("*.json")
        assert kept.stat().st_mode & 0o777 == 0o600
        token = json.loads(kept.read_text())["tokens"]["access_token"]
        after = opta("mcp", "get", "web", "--check")
        assert after.returncode == 0, after.stderr
        assert "mcp_web_add  Add two numbers." in after.stdout
        assert token not in login.stdout + after.stdout + after.stderr
        assert opta("mcp", "login", "web", "--forget").stdout == "The login is deleted.\n"
        assert opta("mcp", "get", "web", "--check").returncode == 1


async def test_where_no_new_program_may_log_in_it_says_what_to_do_instead(tmp_path):
    with running("login", "closed") as url:
        sdk.load()
        with pytest.raises(LoginFailed) as told:
            await log_in(at(url), visit)
    assert str(told.value) == (
        "the server knows no opta and registers no new programs (HTTP 404). Register one on its "
        f"site: opta mcp add web {url} --client-id ID --client-secret-env NAME; or make a token "
        "there: --header 'Authorization: Bearer ${TOKEN}'"
    )


SECRET = "canary-of-the-secret/+"


def registered(redirect: str, **settings: str) -> str:
    """What the server knows opta as, as an argument for it."""
    return json.dumps({
        "client_id": "opta of ours", "client_secret": SECRET, "redirect_uris": [redirect],
        "token_endpoint_auth_method": "client_secret_basic", **settings,
    })  # fmt: skip


def test_a_program_registered_by_hand_logs_in_and_its_secret_stays_in_the_environment(
    visited, tmp_path, monkeypatch
):
    port = free_port()
    redirect = f"http://localhost:{port}/callback"
    monkeypatch.setenv("OUR_SECRET", SECRET)
    with running("login", "closed", registered(redirect)) as url:
        added = opta("mcp", "add", "web", url, "--client-id", "opta of ours",
                     "--client-secret-env", "OUR_SECRET", "--callback-port", str(port))  # fmt: skip
        login = opta("mcp", "login", "web")
        assert login.returncode == 0, login.stderr
        (asked,) = visited.read_text().splitlines()
        query = parse_qs(urlsplit(asked).query)
        assert (query["client_id"], query["redirect_uri"]) == (["opta of ours"], [redirect])
        after = opta("mcp", "get", "web", "--check")
        assert "mcp_web_add  Add two numbers." in after.stdout, after.stderr
        assert "  login: as opta of ours\n" in after.stdout
    listed = opta("mcp", "list", "--format", "json")
    assert opta("mcp").stdout == opta("mcp", "list").stdout != ""
    assert url in opta("mcp").stdout
    assert json.loads(listed.stdout)[0]["clientId"] == "opta of ours"
    printed = [one.stdout + one.stderr for one in (added, login, after, listed)]
    written = [path.read_bytes() for home in (storage.state_dir(), storage.config_dir())
               for path in home.rglob("*") if path.is_file()]  # fmt: skip
    assert b"${OUR_SECRET}" in b"".join(written)
    assert SECRET not in "".join(printed)
    assert SECRET.encode() not in b"".join(written)


async def log_in_as(url: str, port: int = 0, **settings: str) -> str:
    """Log in as the program that `registered` registers; return the address that was shown."""
    shown: list[str] = []

    def show(address: str) -> None:
        shown.append(address)
        visit(address)

    given = {"client_id": "opta of ours", "client_secret": SECRET, **settings}
    sdk.load()
    await log_in(at(url, login=LoginSettings(callback_port=port, **given)), show)
    return shown[0]


async def test_a_secret_is_sent_in_the_form_to_a_server_that_takes_no_other():
    port = free_port()
    client = registered(
        f"http://localhost:{port}/callback", token_endpoint_auth_method="client_secret_post"
    )
    with running("login", "closed", "post", client) as url:
        await log_in_as(url, port)


async def test_the_scopes_of_the_configuration_are_asked_for():
    port = free_port()
    client = registered(f"http://localhost:{port}/callback", scope="read write admin")
    with running("login", "closed", client) as url:
        asked = await log_in_as(url, port, scopes="read write")
    assert parse_qs(urlsplit(asked).query)["scope"] == ["read write"]


@pytest.mark.parametrize(
    ("server", "secret", "said"),
    [("plain", "another canary", "Invalid client_secret"), ("telling", SECRET, "no token with ")],
)
async def test_a_login_that_is_refused_says_why_without_the_secret(server, secret, said):
    port = free_port()
    client = registered(f"http://localhost:{port}/callback")
    with running("login", "closed", server, client) as url, pytest.raises(LoginFailed) as told:
        await log_in_as(url, port, client_secret=secret)
    assert said in str(told.value)
    assert secret not in str(told.value)


@pytest.mark.parametrize("by_hand", [True, False])
async def test_a_login_that_ran_out_is_renewed_without_the_person(tmp_path, by_hand):
    port = free_port()
    client = registered(f"http://localhost:{port}/callback")
    login = LoginSettings("opta of ours", SECRET, callback_port=port if by_hand else 0)
    with running("login", "tenant", client) as url:
        config = at(url, login=login if by_hand else LoginSettings())
        sdk.load()
        await log_in(config, visit)
        for _ in range(2):
            async with session(tmp_path, config) as s:
                assert s.told == []
                assert await s.text("mcp_web_add", a=1, b=2) == "3"


async def test_a_port_to_come_back_to_that_is_taken_is_named():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        with pytest.raises(LoginFailed, match=rf"port {port}, .*in use"):
            await log_in_as("http://127.0.0.1:9/mcp", port)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (("--client-secret-env", "NAME"), "oauth.clientSecret: needs the clientId"),
        (("--client-id", "a", "--client-secret-env", "s3cret!"), "takes the name of a variable"),
        (("--client-id", "a", "--callback-port", "70000"), "oauth.callbackPort: must be a port"),
    ],
)
def test_a_login_that_could_not_work_is_not_saved(wrong, said):
    added = opta("mcp", "add", "web", "https://x.example/mcp", *wrong)
    assert (added.returncode, said in added.stderr) == (2, True), added.stderr
    assert "No MCP server is configured" in opta("mcp").stdout


def test_a_program_has_no_login():
    added = opta("mcp", "add", "--client-id", "a", "web", "--", "true")
    assert (added.returncode, "goes with an address" in added.stderr) == (2, True)


async def test_a_login_that_ends_during_a_chat_is_one_line_and_no_crash(tmp_path):
    with running("login") as url:
        sdk.load()
        await log_in(at(url), visit)
        async with session(tmp_path, at(url)) as s:
            assert await s.text("mcp_web_add", a=1, b=2) == "3"
            await s.call("mcp_web_log_out")
            result = await s.call("mcp_web_add", {"a": 1, "b": 2})
            assert not result.success
            assert "needs a login: log in with: opta mcp login web" in result.text
            assert s.servers.connections["web"].state is State.LOGIN
            assert s.told == ["MCP server web needs a login: log in with: opta mcp login web"]


@pytest.mark.parametrize(
    "url",
    ["file:///etc/passwd", "javascript:alert(1)", "http://", "https://x/\x1b]52;c;", "calc.exe"],
)
def test_a_browser_is_opened_with_http_addresses_only(url):
    with pytest.raises(LoginFailed):
        checked_url(url)
