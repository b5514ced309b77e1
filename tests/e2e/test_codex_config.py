"""Tools of a Codex config.toml in the real program, against a model server on loopback."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from pathlib import Path

import pytest

from agent.ui.menu import GRACE_S
from tests.support.cli import OPTA, connected, opta
from tests.support.model_server import ModelServer, answer, call, say, scripted_call
from tests.support.terminal import Terminal, needs_tmux
from tests.support.tool_files import EXAMPLES
from tools.definition import wire_name

EXAMPLE = (EXAMPLES / "001" / "config.toml").read_text()
NAMES = {"count_files", "custom_echo", "echo_demo", "of_work", "other"}
ECHO = """\
import json, os
text = json.loads(os.environ["CODEX_TOOL_ARGS_JSON"])["text"]
print(f"{os.environ['CUSTOM_TOOL_PREFIX']}{text} {os.environ['CODEX_TOOL_CALL_ID']}")
"""


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def offered(server):
    """The tools of config.toml in the newest request."""
    return [t["function"] for t in server.requests[-1].json["tools"]
            if t["function"]["name"] in NAMES]  # fmt: skip


def results(server):
    """What the model got for each call, by its id, in the newest request."""
    return {m["tool_call_id"]: m["content"] for m in server.sent_messages if m["role"] == "tool"}


@pytest.mark.row("B1", "B3", "B6", "B23", "B25", "B34", "B36")
def test_config_defined_custom_tool_runs_command():
    write(Path(".opta/config.toml"), EXAMPLE.replace('"python3"', json.dumps(sys.executable)))
    write(Path("tools/custom_tools/echo_tool.py"), ECHO)
    texts = ["hi 'there' $(id)", "second\nline"]
    calls = [scripted_call("echo_demo", text=text) for text in texts]
    with ModelServer([answer(calls=calls), say("done")]) as server:
        done = opta("-p", "say hi", "--trust", "--allow", "echo_demo", server=server)
        (schema,) = [tool for tool in offered(server) if tool["name"] == "echo_demo"]
        assert schema["description"] == "Echo text"
        assert schema["parameters"] == {
            "type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"],
        }  # fmt: skip
        system = json.dumps(server.requests[0].json["messages"])
        got = results(server)
    assert (done.returncode, done.stdout) == (0, "done\n")
    assert "echo_demo" not in system
    assert "MCP" not in done.stderr
    assert len(got) == 2
    assert list(got.values()) == [
        f"prefix: {text} {identity}" for text, identity in zip(texts, got, strict=True)
    ]


@pytest.mark.row("B2", "B14")
@pytest.mark.parametrize(
    ("flags", "code", "ran"),
    [
        ((), 3, []),
        (("--allow", "plain"), 3, ["plain"]),
        (("--allow", "plain", "--allow", "escalated"), 3, ["plain"]),
        (("--dangerously-skip-permissions",), 3, ["plain"]),
        (("--dangerously-skip-permissions", "--deny", "plain"), 3, []),
    ],
)
def test_a_job_runs_what_is_allowed_and_never_what_is_escalated(flags, code, ran):
    write(
        Path(".opta/config.toml"),
        "[custom_tools.plain]\ncommand = ['touch', 'plain']\n"
        "[custom_tools.escalated]\ncommand = ['touch', 'escalated']\n"
        "with_escalated_permissions = true\n",
    )
    turns = [call("plain"), call("escalated"), say("done")]
    with ModelServer(turns) as server:
        done = opta("-p", "go", "--trust", *flags, server=server)
        told = list(results(server).values())
        assert "asks for escalated permissions, and nobody is there to be asked" in told[1]
    assert done.returncode == code
    assert [name for name in ("plain", "escalated") if Path(name).exists()] == ran


PROFILED = f"""{EXAMPLE}
[profiles.work.custom_tools.of_work]
command = "echo w''orked"
with_escalated_permissions = true
"""
THREE = {"count_files", "custom_echo", "echo_demo"}
CHOICES = {
    "default home": ((), {}, {"other"}),
    "CODEX_HOME": ((), {"CODEX_HOME": "second"}, THREE),
    "config-home": (("--config-home", "second"), {"CODEX_HOME": "nowhere"}, THREE),
    "config-file": (("--config-file", "second/config.toml"), {}, THREE),
    "both": (("--config-home", "nowhere", "--config-file", "second/config.toml"), {}, THREE),
    "profile": (("--config-home", "second", "--profile", "work"), {}, {*THREE, "of_work"}),
}


@pytest.fixture
def homes():
    """A file in the default home, and one elsewhere that has a profile."""
    write(Path.home() / ".codex/config.toml", "[custom_tools.other]\ncommand = 'true'\n")
    write(Path("second/config.toml"), PROFILED)


@pytest.mark.row("B4", "B32", "B33")
@pytest.mark.parametrize("choice", CHOICES)
def test_the_file_is_the_users_own_or_the_chosen_one_in_every_command(homes, choice):
    flags, variables, wanted = CHOICES[choice]
    env = {**os.environ, **variables}
    with ModelServer([say("hello")]) as server:
        job = opta("-p", "hi", *flags, env=env, server=server)
        assert job.returncode == 0, job.stderr
        assert {tool["name"] for tool in offered(server)} == wanted
    for words in (["tools", "list"], ["tool", "list"]):
        done = opta(*words, "--format", "json", *flags, env=env)
        assert done.returncode == 0, done.stderr
        named = {wire_name(name) for name in re.findall(r'"name": "(.*?)"', done.stdout)}
        assert named & NAMES == wanted


@pytest.mark.row("B33")
@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--config-file", "missing.toml"), "missing.toml does not exist"),
        (("--config-home", "missing"), "missing/config.toml does not exist"),
        (("--config-file", "."), "is not a file"),
        (("--config-file", "codex.conf"), "codex.conf is not named *.toml"),
    ],
)
def test_a_chosen_file_that_cannot_be_used_is_a_usage_error(flags, said):
    Path("codex.conf").touch()
    for words in (["-p", "hi", "--model", "m"], ["tools", "list"], ["tool", "list"]):
        done = opta(*words, *flags)
        assert (done.returncode, done.stdout) == (2, "")
        assert said in done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.row("B5")
def test_a_file_that_is_not_toml_is_one_line_and_the_job_has_the_other_tools(homes):
    write(Path("broken/config.toml"), "[custom_tools.a]\ncommand = \n")
    write(Path(".opta/config.toml"), "[custom_tools.other]\ncommand = 'true'\n")
    with ModelServer([say("hello")]) as server:
        done = opta("-p", "hi", "--trust", "--config-home", "broken", server=server)
        assert [tool["name"] for tool in offered(server)] == ["other"]
    (line,) = [line for line in done.stderr.splitlines() if "config.toml" in line]
    assert "broken/config.toml:2:11: this is not TOML" in line
    assert done.returncode == 0


@needs_tmux
@pytest.mark.row("B1", "B2", "B4", "B14", "B35")
def test_the_chat_lists_them_asks_for_them_and_runs_them(homes):
    write(Path("second/config.toml"), PROFILED.replace("custom_tools/echo_tool", "echo"))
    write(Path("tools/echo.py"), ECHO)
    flags = ("--config-home", "second", "--profile", "work")
    with (
        ModelServer([call("echo_demo", text="hi"), call("of_work"), say("All is done.")]) as server,
        Terminal([*OPTA, *connected(server), *flags]) as terminal,
    ):
        terminal.wait("ask ·")
        terminal.type("/mcp list tools")
        terminal.send("Enter")
        screen = terminal.wait("Count files under the repository")
        assert "MCP servers: none is configured" in screen
        assert "  echo_demo    Echo text" in screen
        assert "  of_work      Run echo" in screen
        terminal.type("go")
        terminal.send("Enter")
        screen = terminal.wait("[y] yes, once")
        assert "python3 tools/echo.py" in screen
        assert "CUSTOM_TOOL_PREFIX='prefix: '" in screen
        time.sleep(GRACE_S + 0.1)
        terminal.send("y")
        terminal.wait("prefix: hi")
        terminal.wait("asks for escalated permissions")
        assert "echo w''orked" in terminal.wait("[y] yes, once")
        time.sleep(GRACE_S + 0.1)
        terminal.send("y")
        terminal.wait("All is done.")
        assert list(results(server).values())[-1] == "worked"
