"""Secrets in configuration that is wrong, old or unusual, and on the screen, stay unsaid (R39)."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.e2e.test_chat import chat, enter, leave
from tests.e2e.test_mcp_secrets import kept
from tests.support.cli import opta
from tests.support.mcp_session import entry
from tests.support.model_server import ModelServer, call, error, say
from tests.support.terminal import needs_tmux

KEY = "canary-1/of+the=key"


def configure(text: str | dict[str, object]) -> Path:
    directory = Path(os.environ["XDG_CONFIG_HOME"]) / "opta"
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / "config.yml"
    file.write_text(text if isinstance(text, str) else json.dumps(text))
    return directory


def assert_nowhere(*printed: str, secret: str = "canary") -> None:
    files = kept()
    for path, data in files.items():
        assert secret.encode() not in data, path
    for text in printed:
        assert secret not in text, text


WRONG = {
    "headers": 'headers: "Authorization: Bearer canary-12345"',
    "address": "base_url: http://user:canary-12345@127.0.0.1:9",
    "port": "base_url: http://user:canary-12345@127.0.0.1:999999",
    "one word": 'mcpServers: {web: {command: "nosuch --token canary-12345"}}',
    "shell": 'mcpServers: {web: {command: sh, args: [-c, "TOKEN=canary-1; echo $TOKEN >&2"]}}',
    "words": 'mcpServers: {web: {command: sh, args: [-c, "echo Authorization: Bearer canary-1"]}}',
}


@pytest.mark.parametrize("text", WRONG.values(), ids=WRONG)
def test_r39_what_is_wrong_is_told_without_the_secret(text):
    configure(text)
    done = [
        opta(*words) for words in (
            ("doctor",), ("doctor", "--format", "json"), ("config",), ("mcp", "list"),
            ("mcp", "get", "web", "--check"), ("mcp", "logs", "web"), ("-p", "go", "--model", "m"),
        )
    ]  # fmt: skip
    assert_nowhere(*(one.stdout for one in done), *(one.stderr for one in done))


def test_r39_a_mistake_on_the_command_line_is_told_without_the_value():
    for words in (("--header", "Authorization=Bearer canary-1"), ("-e", "canary-1")):
        done = opta("mcp", "add", "web", *words, "http://127.0.0.1:9")
        assert done.returncode == 2
        assert "canary" not in done.stderr


def test_r39_a_hook_that_fails_with_its_arguments_is_told_without_the_secret():
    script = 'echo "cannot reach it with $0 $2" >&2; exit 9'
    configure({"tool_hook_command": ["sh", "-c", script, "-H", "Authorization: Bearer canary-1"]})
    with ModelServer([call("run_command", command="echo one"), say("done")]) as server:
        done = opta("-p", "go", server=server)
    assert "cannot reach it with" in done.stderr
    assert_nowhere(done.stdout, done.stderr)


def test_r39_what_a_tool_sets_for_its_program_is_masked_by_its_name(monkeypatch):
    tool = {
        "name": "show", "description": "d", "bash": "env; echo ended",
        "environment": {"variables": {
            "ACME_TOKEN": "canary-1", "MODE": "debugging", "SORT_KEY": "{key}", "B_KEY": "{OF_ME}",
        }},
        "parameters": {"key": {"type": "string", "description": "d", "required": True}},
    }  # fmt: skip
    monkeypatch.setenv("OF_ME", "canary-2")
    tools = configure("") / "tools"
    tools.mkdir()
    (tools / "show.yml").write_text(json.dumps(tool))
    with ModelServer([call("show", key="by-name-and-2"), say("done")]) as server:
        done = opta("-p", "go", "--allow", "show", server=server)
        told = json.dumps(server.sent_messages)
    assert "MODE=debugging" in told
    assert "ACME_TOKEN=****" in told
    assert "B_KEY=****" in told
    assert "SORT_KEY=by-name-and-2" in told
    assert_nowhere(done.stdout, done.stderr, told)


def test_r39_a_token_in_the_command_of_a_tool_is_masked_and_what_runs_is_shown():
    runs = ("TOKEN=`echo ran`", "SECRET=$(echo ran)", "KEY=$OF_THE_PERSON", "PASSWORD={word}")
    tool = {
        "name": "show", "description": "d",
        "bash": f"echo 'Authorization: Bearer canary-1' API_KEY=canary-2\n{' '.join(runs)} true",
        "parameters": {"word": {"type": "string", "description": "d", "required": True}},
    }  # fmt: skip
    tools = configure("") / "tools"
    tools.mkdir()
    (tools / "show.yml").write_text(json.dumps(tool))
    with ModelServer([call("show", word="some-word-1"), say("done")]) as server:
        done = opta("-p", "go", "--allow", "show", "--output-format", "stream-json", server=server)
        told = json.dumps(server.sent_messages)
    assert "Authorization: Bearer **** API_KEY=****" in told
    for shown in (*runs[:3], "PASSWORD=some-word-1"):
        assert shown in done.stdout
    assert_nowhere(done.stdout, done.stderr, told)


def test_r39_keys_among_further_keys_of_requests_are_known():
    configure({"request": {"provider": {"api_key": "canary-1", "order": "canonical"}}})
    with ModelServer([call("run_command", command="echo canary-1 canonical"), say("ok")]) as server:
        done = opta("-p", "go", "--allow", "run_command", server=server)
        (told,) = [m["content"] for m in server.sent_messages if m["role"] == "tool"]
    assert told.startswith("[redacted] canonical")
    assert_nowhere(done.stdout, done.stderr)


def test_r39_a_session_from_before_the_secret_was_known_is_shown_without_it():
    with ModelServer([say("It is canary-1.")]) as server:
        assert "canary-1" in opta("-p", "what is canary-1?", server=server).stdout
    configure(
        {"mcpServers": {"a": {"url": "http://127.0.0.1:9", "headers": {"token": "canary-1"}}}}
    )
    for words in (("show",), ("export",), ("export", "--format", "json")):
        shown = opta("sessions", *words).stdout
        assert "what is [redacted]?" in shown
        assert "canary" not in shown
    configure("a mistake")
    assert "It is canary-1." in opta("sessions", "show").stdout


def test_r39_what_a_server_says_of_its_tools_is_noted_and_sent_without_secrets():
    configure({"mcpServers": {"says": entry("says", env={"SAYS_TOKEN": "canary-1"})}})
    with ModelServer([say("done")]) as server:
        done = opta("-p", "go", server=server)
        sent = server.requests[-1].body.decode()
    assert "It is [redacted] that lets you in." in sent
    listed = opta("tools", "info", "mcp_says_tell")
    assert "It is [redacted]" in listed.stdout
    assert_nowhere(done.stdout, done.stderr, sent, listed.stdout)


@needs_tmux
def test_r39_the_screen_shows_no_secret_that_the_model_says():
    configure(f"api_key: {KEY}\npermissions: {{allow: [run_command]}}\n")
    Path("notes.txt").write_text(f"the key is {KEY}\n")
    replies = [
        call("read_file", path="notes.txt"),
        call("run_command", command=f"echo {KEY}").but(reasoning=f"I use {KEY}"),
        say(f"I found {KEY} there, in pieces.", piece=3),
        say(f"**{KEY}**"),
    ]
    with ModelServer(replies) as server, chat(server) as terminal:
        enter(terminal, "look")
        terminal.wait("in pieces")
        enter(terminal, "again")
        terminal.wait(lambda screen: screen.count("[redacted]") >= 3)
        terminal.send("C-o")
        assert f"the key is {KEY}" in json.dumps(server.sent_messages), "it must stay editable"
        leave(terminal)
        shown = terminal.output().decode()
    assert "I found [redacted] there, in pieces." in shown.replace("\r\n", " ")
    for secret in (KEY, "canary-1"):
        assert secret not in shown
    Path("notes.txt").unlink()
    assert_nowhere()


def test_r39_undo_keeps_no_secret_of_what_the_person_said():
    configure({"api_key": KEY})
    with ModelServer([call("write_file", path="a.txt", content="x"), say("done")]) as server:
        done = opta("-p", f"go with {KEY}", "--allow", "write_file(**)", server=server)
    assert done.returncode == 0, done.stderr
    (database,) = (kept_path for kept_path in kept() if kept_path.suffix == ".sqlite")
    assert b"go with [redacted]" in database.read_bytes()
    assert_nowhere(done.stdout, done.stderr)


@pytest.mark.parametrize("form", ["text", "json"])
def test_r39_a_loop_and_its_record_in_the_project_hold_no_secret(form):
    configure({"api_key": KEY})
    Path("SPEC.md").write_text("Do it.\n")
    turns = [call("task_add", content=f"use {KEY}"), say(f"I used {KEY}"), error(400, f"no: {KEY}")]
    with ModelServer(turns) as server:
        done = opta("loop", "SPEC.md", "--max-iterations", "2", "--output-format", form,
                    server=server)  # fmt: skip
    assert "no: [redacted]" in done.stdout + done.stderr
    by_hand = opta("tool", "run", "task_add", "--param", f"content={KEY}")
    log = opta("loop", "log", "SPEC")
    assert "use [redacted]" in log.stdout
    assert by_hand.returncode == 0, by_hand.stderr
    assert_nowhere(done.stdout, done.stderr, log.stdout, by_hand.stdout, by_hand.stderr)


def test_r39_tokens_that_opta_has_by_names_of_its_own_are_known(monkeypatch):
    monkeypatch.setenv("OPTA_MCP_TOKEN", "canary-of-the-token")
    with ModelServer(
        [call("run_command", command="echo canary-of-the-token"), say("ok")]
    ) as server:
        done = opta("-p", "go", "--allow", "run_command", server=server)
        (told,) = [m["content"] for m in server.sent_messages if m["role"] == "tool"]
    assert told.startswith("[redacted]")
    assert_nowhere(done.stdout, done.stderr)
