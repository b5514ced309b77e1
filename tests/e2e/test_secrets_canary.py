"""Canaries: no configured secret is in any file that opta writes, nor in an error (R38, R39)."""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
from pathlib import Path
from urllib.parse import quote

import pytest

from agent import log
from agent.redaction import Redactor, environment_secrets
from tests.e2e.test_chat import chat, enter, leave
from tests.support.cli import opta
from tests.support.model_server import ModelServer, call, error, say
from tests.support.terminal import needs_tmux
from tools.secret_values import address_secrets

KEY = "sk-canary/1+key=of-config"
PASSWORD = "canary@2 password"
HEADER = "canary3-header-value"
OF_ENVIRONMENT = "canary4-key-of-environment"
EVERYTHING = f"{KEY} {PASSWORD} {HEADER} {OF_ENVIRONMENT}"


def base() -> Path:
    return Path.home().parent


@pytest.fixture
def server():
    """A model server; the user's configuration holds one secret of each kind for it."""
    with ModelServer([]) as server:
        config = base() / "config/opta/config.yml"
        config.parent.mkdir(parents=True)
        address = server.base_url.replace("//", f"//user:{quote(PASSWORD)}@")
        config.write_text(
            f"base_url: {address}\nmodel: m\napi_key: {json.dumps(KEY)}\n"
            f"headers: {{x-token: Token {HEADER}}}\n"
            "permissions: {allow: [run_command, leaky]}\n"
        )
        config.chmod(0o600)
        yield server


def script(server: ModelServer, *replies: object) -> None:
    server.add(*replies)


def spellings() -> list[bytes]:
    """The canaries, and parts of them that no mask may leave."""
    found = [KEY, json.dumps(KEY)[1:-1], PASSWORD, quote(PASSWORD), HEADER, OF_ENVIRONMENT]
    found += [base64.b64encode(secret.encode()).decode() for secret in (KEY, PASSWORD)]
    found += ["canary/", "canary@2", "canary3-", "canary4-", "canary9-"]
    return [text.encode() for text in found]


def assert_clean(*texts: str) -> None:
    files = [
        path
        for name in ("state", "cache", "data", "runtime", "home", "work")
        for path in (base() / name).rglob("*")
        if path.is_file() and not path.is_symlink()
    ]
    assert any(path.stat().st_size for path in files), "nothing was written at all"
    for canary in spellings():
        holding = [path for path in files if canary in path.read_bytes()]
        assert not holding, (canary, holding)
        for text in texts:
            assert canary.decode() not in text, (canary, text)


def environment() -> dict[str, str]:
    return {**os.environ, "OPENAI_API_KEY": OF_ENVIRONMENT}


def leak(*more: str) -> object:
    """A command that prints all secrets, in a long output too."""
    lines = json.dumps(EVERYTHING)
    return call("run_command", command=f"printf '%s\\n' {lines!r} {' '.join(more)}")


def test_r39_a_job_leaves_no_secret_in_any_file(server):
    long = "; ".join([f"yes {json.dumps(EVERYTHING)!r} | head -n 9000"])
    script(
        server,
        say(f"The secrets are {EVERYTHING} {EVERYTHING}.", piece=3, reasoning=EVERYTHING),
    )
    first = opta("-p", f"my secrets: {EVERYTHING}", env=environment())
    assert first.returncode == 0, first.stderr
    script(
        server, leak(f"; {long}"), call("read_file", path=EVERYTHING),
        call(EVERYTHING, x=EVERYTHING), say("done"),
    )  # fmt: skip
    second = opta("-p", "go on", "--continue", env=environment())
    assert second.returncode == 0, second.stderr
    assert list((base() / "state/opta/output").iterdir()), "nothing was spooled"
    assert_clean(second.stderr)
    exported = opta("sessions", "export", _newest(), env=environment())
    assert "[redacted]" in exported.stdout
    assert_clean(exported.stdout)


def _newest() -> str:
    return next(iter((base() / "state/opta/sessions").rglob("*.jsonl"))).stem


@pytest.mark.parametrize("format", ["text", "json", "stream-json"])
@pytest.mark.parametrize(
    "reply",
    [
        error(401, f"the key {KEY} of user:{PASSWORD} is wrong ({HEADER})"),
        error(400, json.dumps({"echo": EVERYTHING})),
        error(404, f"no such model for {EVERYTHING}"),
        call("nothing", **{"x": 1}).but(status=418),
    ],
    ids=["401", "400", "404", "418"],
)
def test_r39_failures_say_no_secret(server, reply, format):
    script(server, reply, reply)
    failed = opta("-p", "a", "--output-format", format, env=environment())
    assert failed.returncode == 1, failed.stdout
    assert_clean(failed.stdout, failed.stderr)


def test_r39_a_server_that_is_not_there_is_named_without_the_password(server):
    config = base() / "config/opta/config.yml"
    config.write_text(re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:9", config.read_text()))
    failed = opta("-p", "a", env={**environment(), "HTTPS_PROXY": f"http://u:{HEADER}@localhost"})
    assert failed.returncode == 1
    assert "127.0.0.1:9" in failed.stderr
    assert_clean(failed.stdout, failed.stderr)


def test_r39_tools_run_by_hand_leave_no_secret(server):
    directory = base() / "config/opta/tools"
    directory.mkdir()
    command = f"printf '%s\\n' {json.dumps(EVERYTHING)!r}; yes {HEADER} | head -n 20000"
    (directory / "leaky.json").write_text(
        json.dumps({"name": "leaky", "description": "d", "command": command,
                    "parameters": {"type": "object", "properties": {}}})
    )  # fmt: skip
    by_hand = opta("tool", "run", "leaky", env=environment())
    assert by_hand.returncode == 0, by_hand.stderr
    script(server, call("leaky"), say("done"))
    asked = opta("-p", "leak", env=environment())
    assert asked.returncode == 0, asked.stderr
    assert list((base() / "state/opta/output").iterdir()), "nothing was spooled"
    assert_clean()


def test_r39_a_login_in_the_settings_of_git_reaches_neither_model_nor_session(server):
    subprocess.run(["git", "init", "-q", "."], check=True)
    remote = "https://x-access-token:canary9-of-a-remote@example.invalid/o/r.git"
    subprocess.run(["git", "remote", "add", "origin", remote], check=True)
    script(
        server, call("run_command", command="git remote -v; git config -l; git push"),
        call("read_file", path=".git/config"), call("git", operation="remote", args=["-v"]),
        say("done"),
    )  # fmt: skip
    done = opta("-p", "a", "--output-format", "stream-json")
    assert done.returncode == 3, done.stderr
    printed, denied, _ = server.results
    assert "x-access-token:[redacted]@example.invalid" in printed
    assert "it holds a login" in denied
    (base() / "work/.git/config").unlink()
    assert "canary9" not in json.dumps(server.sent_messages)
    assert_clean(done.stdout, done.stderr)


@pytest.mark.parametrize("key", ["base_url", "no_such_key"])
def test_r39_an_error_about_an_address_leaves_its_login_out(key):
    config = base() / "config/opta/config.yml"
    config.parent.mkdir(parents=True)
    config.write_text(f"{key}: htp://user:canary3-{HEADER}@host\n")
    failed = opta("-p", "a", "--base-url", f"hhttp://u:{quote(PASSWORD)}@host")
    assert failed.returncode == 2
    for canary in spellings():
        assert canary.decode() not in failed.stdout + failed.stderr


@needs_tmux
def test_r39_a_chat_leaves_no_secret_in_session_and_history(server, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", OF_ENVIRONMENT)
    script(server, say(f"I see {EVERYTHING}.", piece=2), leak(), say("end of it"))
    with chat(None) as terminal:
        enter(terminal, f"remember {HEADER}")
        terminal.wait("I see")
        enter(terminal, f"!echo {HEADER} {OF_ENVIRONMENT}")
        terminal.wait("[redacted] [redacted]")
        enter(terminal, "go on")
        terminal.wait("end of it")
        leave(terminal)
    assert b"remember" in (base() / "state/opta/history").read_bytes()
    assert_clean()


def test_r39_a_crash_report_holds_no_secret(monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", OF_ENVIRONMENT)
    failure = ValueError(EVERYTHING)
    log.install()
    assert OF_ENVIRONMENT not in log.report(failure)
    (base() / "state/opta/opta.log").unlink()
    log.install(Redactor([KEY, PASSWORD, HEADER, *environment_secrets()]))
    said = log.report(failure)
    assert_clean(said)
    log.install()


@pytest.mark.parametrize(
    ("address", "secrets"),
    [
        ("https://user:pass%40word@host/v1", {"user:pass%40word", "user:pass@word",
                                              "pass%40word", "pass@word"}),
        ("https://token-of-mine@host/v1", {"token-of-mine"}),
        ("https://host/v1?api-key=abcdefgh&api-version=2", {"abcdefgh"}),
        ("https://host/v1", set()), ("", set()), ("http://[", set()),
    ],
)  # fmt: skip
def test_the_secrets_of_an_address_are_known(address, secrets):
    assert set(address_secrets(address)) == secrets


def seen(server: ModelServer) -> str:
    return str(server.requests[-1].json["messages"][-1]["content"])


def test_r38_children_get_no_key_from_environment_or_file(server, monkeypatch):
    monkeypatch.setenv("OPTA_API_TOKEN", "canary5-own-token")
    Path("tool").mkdir()
    directory = base() / "config/opta/tools"
    directory.mkdir()
    (directory / "leaky.json").write_text(
        json.dumps({"name": "leaky", "description": "d", "command": "env; echo ended",
                    "parameters": {"type": "object", "properties": {}}})
    )  # fmt: skip
    for made in (
        call("run_command", command="env; echo ended"),
        call("leaky"),
        # The environment of opta itself does not hold a key that came from a file.
        call("run_command", command="tr '\\0' '\\n' < /proc/$PPID/environ; echo ended"),
    ):
        script(server, made, say("done"))
        ended = opta("-p", "a", env={k: v for k, v in os.environ.items()})
        assert ended.returncode == 0, ended.stderr
        assert "ended" in seen(server)
        assert "PATH=" in seen(server)
        assert "canary/" not in seen(server)
        assert "canary3" not in seen(server)
        assert "canary5" not in seen(server)
        if "PPID" in str(made):
            # What opta itself was started with: there it is, and not shown.
            assert "OPTA_API_TOKEN=[redacted]" in seen(server)
        else:
            assert "redacted" not in seen(server)
            assert "****" not in seen(server)


def test_r38_the_editor_gets_no_key(tmp_path):
    script = tmp_path / "editor"
    script.write_text(f'#!/bin/sh\nenv > "{tmp_path}/environment"\n')
    script.chmod(0o700)
    tool = base() / "config/opta/tools/mine.json"
    tool.parent.mkdir(parents=True)
    tool.write_text('{"name": "mine", "description": "d", "command": "true", "parameters": {}}')
    ended = opta("tool", "edit", "mine", env={**environment(), "EDITOR": str(script)})
    assert (tmp_path / "environment").exists(), ended.stderr
    text = (tmp_path / "environment").read_text()
    assert "PATH=" in text
    assert "OPENAI_API_KEY" not in text
