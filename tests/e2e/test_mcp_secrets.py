"""What MCP servers and teams are given in secret is in no file, on no screen and in no request of
opta's, whoever says it again (R39)."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.e2e.test_mcp import chat, configure, enter
from tests.support.cli import OPTA, opta
from tests.support.mcp_session import entry
from tests.support.mcp_web import running, visited  # noqa: F401 - a fixture
from tests.support.model_server import ModelServer, answer, call, say, scripted_call
from tests.support.team import ORG, TOKEN, configure_team, serving, write_tools
from tests.support.terminal import needs_tmux
from tools import storage

BEARER = "canary1-of-the-bearer"
KEY = "canary2 of a/key"
SECRETS = (BEARER, KEY)
HARMLESS = ("debug-everything", "application/vnd.opta+json", "gzip, identity", "production")


@pytest.fixture(scope="module")
def address():
    with running() as url:
        yield url


def with_headers(url: str) -> dict[str, object]:
    """A server with an address; one of its headers comes from the environment."""
    headers = {
        "Authorization": "Bearer ${MCP_BEARER}", "X-Api-Key": KEY, "X-Mode": HARMLESS[0],
        "Accept-Format": HARMLESS[1], "X-Coding": HARMLESS[2], "X-Auth-Mode": HARMLESS[3],
    }  # fmt: skip
    return {"url": url, "headers": headers}


def kept() -> dict[Path, bytes]:
    """All files that opta has written, beside what keeps a login."""
    base = Path.home().parent
    return {
        path: path.read_bytes()
        for name in ("state", "cache", "data", "runtime", "home", "work")
        for path in (base / name).rglob("*")
        if path.is_file() and path.parent.name != "logins" and path.name != "login.json"
    }


def assert_nowhere(secrets, server: ModelServer, *printed: str) -> None:
    """No secret was written, printed or sent."""
    files = kept()
    assert any(path.suffix == ".jsonl" for path in files), "there is no journal"
    for secret in secrets:
        for path, data in files.items():
            assert secret.encode() not in data, path
        for text in printed:
            assert secret not in text
        for message in sent(server):
            assert secret not in message


def sent(server: ModelServer) -> list[str]:
    """What the model was sent, beside its own words."""
    messages = [m for m in server.sent_messages if m["role"] != "assistant"]
    tools = [request.json["tools"] for request in server.requests]
    return [json.dumps(part, ensure_ascii=False) for part in (*messages, *tools)]


def results(server: ModelServer) -> list[str]:
    return [m["content"] for m in server.sent_messages if m["role"] == "tool"]


@pytest.mark.parametrize("form", ["text", "json", "stream-json"])
def test_r39_a_job_says_no_header_of_a_server(monkeypatch, address, form):
    monkeypatch.setenv("MCP_BEARER", BEARER)
    configure(web=with_headers(address))
    told = json.dumps(f"{BEARER} {KEY}")
    calls = [scripted_call("mcp_web_heard"), scripted_call("mcp_web_refuse"),
             scripted_call("run_command", command=f"printf '%s ' {told}")]  # fmt: skip
    with ModelServer([answer(calls=calls), say(f"It is {BEARER}, or {KEY}.", piece=2)]) as server:
        done = opta(
            "-p", "go", "--allow", "mcp:web/*", "--allow", "run_command", "--output-format", form,
            server=server,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        heard, refused, printed = results(server)
        assert_nowhere(SECRETS, server, done.stdout, done.stderr)
    assert '"authorization": "[redacted]"' in heard or "Bearer [redacted]" in heard
    assert "[redacted]" in refused
    assert "[redacted] [redacted]" in printed
    assert "[redacted]" in done.stdout
    for harmless in HARMLESS:
        assert harmless in heard


@needs_tmux
def test_r39_a_chat_says_no_header_of_a_server_that_is_added_meanwhile(monkeypatch, address):
    monkeypatch.setenv("MCP_BEARER", BEARER)
    configure()
    replies = [say("nothing there"), say("not yet"), call("mcp_web_heard"), say("done")]
    with ModelServer(replies) as server:
        with chat(server, "--allow", "mcp:web/*") as terminal:
            enter(terminal, "go")
            terminal.wait("nothing there")
            configure(web=with_headers(address))
            enter(terminal, "once more")
            terminal.wait("not yet")
            enter(terminal, f"now, but not {KEY}")
            terminal.wait("done")
            enter(terminal, "/mcp web")
            terminal.wait("headers:")
            terminal.send("C-d")
            terminal.wait_exit()
            screen = terminal.output().decode()
        assert "[redacted]" in results(server)[0]
        assert_nowhere([BEARER], server, screen)
    assert b"now, but not [redacted]" in kept()[storage.state_dir() / "history"]


def test_r39_a_program_that_tells_what_it_was_given_is_quoted_without_it(monkeypatch):
    monkeypatch.setenv("ACME_TOKEN", "canary3-from-outside")
    given = {
        "GITHUB_TOKEN": "canary4-of-a-program", "CUSTOM": "${ACME_TOKEN}",
        "DATABASE_URL": "postgresql://postgres:canary5@localhost/db", "LOG_LEVEL": "debugging",
        "PGPASSWORD": "postgres", "NODE_ENV": "production",
    }  # fmt: skip
    arguments = ("-", "--api-key", "canary6-of-an-option", "--header=X-Token: canary7-of-a-header")
    configure(
        tells=entry("tells", *arguments, env=given),
        dies=entry("tells", *arguments, "--die", env=given),
    )
    secrets = ("canary3", "canary4", "canary5", "canary6", "canary7")
    with ModelServer([call("mcp_tells_tell"), say("done")]) as server:
        done = opta("-p", "go", "--allow", "mcp:tells/*", server=server)
        (told,) = results(server)
        logs = opta("mcp", "logs", "tells").stdout
        listed = [opta("mcp", *words) for words in (
            ("list",), ("list", "--format", "json"), ("get", "tells"), ("get", "dies", "--check"),
        )]  # fmt: skip
        shown = [text for one in listed for text in (one.stdout, one.stderr)]
        assert_nowhere(secrets, server, done.stdout, done.stderr, logs, *shown)
    assert "MCP server dies is not available: exit code 1: cannot log in with" in done.stderr
    for text in (told, logs):
        for harmless in ("postgres", "production", "debugging"):
            assert harmless in text
        assert "[redacted]" in text


def test_r39_tokens_of_a_login_are_said_nowhere_when_they_were_renewed_meanwhile(visited):  # noqa: F811
    with running("login", "tenant") as url:
        opta("mcp", "add", "web", url)
        login = subprocess.run(
            [*OPTA, "mcp", "login", "web"], capture_output=True, text=True, timeout=60
        )
        assert login.returncode == 0, login.stderr
        before = tokens()
        calls = [scripted_call("mcp_web_heard"), scripted_call("mcp_web_heard")]
        with ModelServer([answer(calls=calls), say("done")]) as server:
            done = opta("-p", "go", "--allow", "mcp:web/*", server=server)
            assert done.returncode == 0, done.stderr
            assert "Bearer [redacted]" in results(server)[0]
            assert tokens() != before, "nothing was renewed"
            assert_nowhere((*before, *tokens()), server, done.stdout, done.stderr)


def tokens() -> tuple[str, ...]:
    (path,) = (storage.state_dir() / "mcp" / "logins").glob("*.json")
    return (json.loads(path.read_text())["tokens"]["access_token"],)


def test_r39_a_kept_token_of_a_team_is_said_nowhere(tmp_path):
    with serving(write_tools(tmp_path / "shared", scan="echo scanned {1}")) as served:
        configure_team(url=served.url, org=ORG)
        assert opta("team", "login", stdin=f"{TOKEN}\n").returncode == 0
        command = f"echo {TOKEN}; cat {os.environ['XDG_STATE_HOME']}/opta/team/*/login.json"
        with ModelServer([call("run_command", command=command), say(f"It is {TOKEN}")]) as server:
            done = opta("-p", "go", "--allow", "run_command", server=server)
            assert_nowhere((TOKEN,), server, done.stdout, done.stderr)
            assert "[redacted]" in done.stdout
