"""What a person hears of tool files: everything at once, at the start, and as it is now."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.cli import OPTA, connected, opta
from tests.support.model_server import ModelServer, error
from tests.support.terminal import Terminal, needs_tmux
from tests.support.tool_files import EXAMPLES
from tools.permissions.trust import Trust, inspect
from tools.permissions.trust_store import TrustStore
from tools.storage import state_dir


@pytest.fixture
def tools_dir():
    directory = Path.home().parent / "config" / "opta" / "tools"
    directory.mkdir(parents=True, exist_ok=True)
    return directory


def test_all_mistakes_of_a_file_are_told_at_once(tools_dir):
    data = {"name": "read_file", "description": "", "extra": 1, "command": "true",
            "parameters": {"type": "object"}}  # fmt: skip
    (tools_dir / "bad.json").write_text(json.dumps(data))
    found = json.loads(opta("tools", "--output-format", "json").stdout)["problems"]
    assert [(p["key"], p["warning"]) for p in found] == [
        ("$.name", False),
        ("$.description", False),
        ("$.extra", True),
        ("$.parameters.properties", False),
    ]
    assert "conflicts with built-in tool read_file" in found[0]["message"]
    assert found[3]["message"] == "'properties' is missing"


def test_settings_that_are_not_read_are_told_beside_the_tools(tmp_path):
    (tmp_path / ".mimir").mkdir()
    printed = EXAMPLES / "004" / "config.as-printed.yml.txt"
    (tmp_path / ".mimir" / "config.yml").write_bytes(printed.read_bytes())
    done = opta("tools", "--trust", cwd=tmp_path)
    assert (done.returncode, len(done.stderr.splitlines())) == (0, 1)
    assert "config.yml:7:1: the key 'enabled' is there twice" in done.stderr


def test_a_problem_names_the_file_from_the_current_directory(tools_dir):
    (tools_dir / "bad.json").write_text("{")
    done = opta("tools", cwd=tools_dir)
    assert "  error: bad.json:1" in done.stdout


def test_tools_of_a_project_that_are_not_listed_are_spoken_of(tmp_path):
    directory = tmp_path / ".opta" / "tools"
    directory.mkdir(parents=True)
    assert opta("tools", cwd=tmp_path).stderr == ""
    (directory / "hi.yaml").write_text("description: Say hi\nbash: echo hi\n")
    for words in (["tools"], ["tools", "disable", "hi"]):
        told = opta(*words, cwd=tmp_path).stderr
        assert "this directory is not trusted: its own tools, MCP servers," in told
        assert "a chat asks when it starts here, and --trust uses them for this run" in told
    done = opta("tools", "--trust", cwd=tmp_path)
    assert (done.stderr, "✓ hi " in done.stdout) == ("", True)
    store = TrustStore(state_dir())
    store.grant(inspect(tmp_path), Trust.READING)
    assert "trusted to be read alone" in opta("tools", cwd=tmp_path).stderr
    store.grant(inspect(tmp_path))
    assert opta("tools", cwd=tmp_path).stderr == ""
    (directory / "hi.yaml").write_text("description: Say hello\nbash: echo hello\n")
    told = opta("tools", cwd=tmp_path).stderr
    assert "what this directory brings has changed since you trusted it" in told


def test_a_wrong_option_is_named_not_its_value():
    done = opta("tools", "--colour", "json")
    assert done.returncode == 2
    assert "unrecognized arguments: --colour" in done.stderr
    assert "it takes list, enable" in opta("tools", "json").stderr


def test_a_switch_says_where_it_is_kept(tmp_path):
    done = opta("tools", "disable", "git", cwd=tmp_path)
    first, second = done.stdout.splitlines()
    assert first.startswith("✗ Disabled tool: git (-")
    assert second.startswith("  saved in ")
    assert second.endswith("config.yml")


def test_a_server_that_wants_a_key_is_quoted():
    with ModelServer([error(401, "You need a licence")]) as server:
        done = opta("-p", "hi", server=server)
    assert "There is no API key for" in done.stderr
    assert "It said: You need a licence. Set OPENAI_API_KEY" in done.stderr


@needs_tmux
def test_the_chat_tells_at_the_start_and_tools_looks_again(tools_dir):
    (tools_dir / "bad.json").write_text("{")
    with (
        ModelServer([]) as server,
        Terminal([*OPTA, *connected(server)]) as terminal,
    ):
        terminal.wait("ask ·")
        terminal.wait("bad.json:1")
        (tools_dir / "bad.json").unlink()
        (tools_dir / "worse.json").write_text("{")
        terminal.type("/tools")
        terminal.send("Enter")
        listed = terminal.wait("/tools tokens").partition("Problems:")[2]
        assert "worse.json:1" in listed
        assert "bad.json" not in listed
