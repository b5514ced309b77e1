"""Hooks: programs that are told of calls and turns, or deny a call; the real command throughout."""

from __future__ import annotations

import json
import os
import stat
import sys
from pathlib import Path

import pytest

from agent.ui.ansi import Colour
from agent.ui.trust import describe
from tests.support.cli import lines, opta
from tests.support.model_server import ModelServer, call, say
from tools.permissions.trust import inspect

SKIP = "--dangerously-skip-permissions"

RECORD = """
import json, os, sys
text = sys.stdin.read()
with open(sys.argv[1], "a") as file:
    file.write(json.dumps({"told": json.loads(text), "cwd": os.getcwd(), "env": dict(os.environ),
                           "group": os.getpgrp() == os.getpid()}) + "\\n")
"""
CODEX = Path("config.toml")


def home(*parts):
    return Path(os.environ["HOME"], *parts)


def user_config(text):
    path = Path(os.environ["XDG_CONFIG_HOME"], "opta", "config.yml")
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path.parent


@pytest.fixture
def recorder(tmp_path):
    """A hook that writes down what it is told: its words, and what it wrote."""
    script = tmp_path / "record.py"
    script.write_text(RECORD)

    class Recorder:
        def words(self, name="told"):
            return json.dumps([sys.executable, str(script), str(tmp_path / name)])

        def told(self, name="told"):
            path = tmp_path / name
            return lines(path.read_text()) if path.exists() else []

    return Recorder()


@pytest.mark.row("B37", "B38")
def test_the_hooks_of_codex_are_told_of_each_call_and_of_the_end_of_the_turn(recorder):
    home(".codex").mkdir()
    home(".codex/config.toml").write_text(
        f"tool_hook_command = {recorder.words()}\nstop_hook_command = {recorder.words('stop')}\n"
    )
    script = [call("run_command", command="echo hi; sleep 0.2; exit 3"), say("All done.")]
    env = {**os.environ, "OPENAI_API_KEY": "sk-secret", "OPTA_TEST_TOKEN": "t"}
    with ModelServer(script) as server:
        done = opta("-p", "go", SKIP, "--output-format", "json", server=server, env=env)
        session = json.loads(done.stdout)["session_id"]
        before, after = recorder.told()
        server.add(say("Still here."))
        again = opta("-p", "and now?", "--continue", server=server)
        assert len(server.sent_messages) == 6
    assert again.stdout == "Still here.\n"
    assert [t["told"]["phase"] for t in (before, after)] == ["before_execution", "after_execution"]
    for told in (before["told"], after["told"]):
        assert told["tool_name"] == "run_command"
        assert (told["call_id"], told["source"]) == ("call_0_run_command", "built-in")
        assert told["arguments"] == {"command": "echo hi; sleep 0.2; exit 3"}
        assert (told["session_id"], told["cwd"]) == (session, str(Path.cwd()))
    assert "outcome" not in before["told"]
    outcome = after["told"]["outcome"]
    assert (outcome["status"], outcome["success"], outcome["exit_code"]) == ("error", False, 3)
    assert outcome["text"].startswith("hi")
    assert 200 <= outcome["duration_ms"] < 10_000
    stop, _ = recorder.told("stop")
    assert stop["told"]["phase"] == "stop"
    assert (stop["told"]["end"], stop["told"]["text"]) == ("done", "All done.")
    assert (stop["told"]["requests"], stop["told"]["input_tokens"]) == (2, 20)
    assert (stop["told"]["output_tokens"], stop["told"]["model"]) == (10, "test-model")
    assert (stop["told"]["session_id"], stop["told"]["cwd"]) == (session, str(Path.cwd()))
    for record in (before, stop):
        assert not {"OPENAI_API_KEY", "OPTA_TEST_TOKEN"} & set(record["env"])
        assert record["cwd"] == str(home(".codex"))
        assert record["group"]


@pytest.mark.row("B7")
def test_hooks_are_off_unless_configured_and_those_of_a_profile_count_with_it_alone(recorder):
    home(".codex").mkdir()
    home(".codex/config.toml").write_text(
        f"stop_hook_command = {recorder.words('root')}\n"
        f"[profiles.audit]\ntool_hook_command = {recorder.words('tool')}\n"
        f"stop_hook_command = {recorder.words('profile')}\n"
    )
    with ModelServer([call("file_search", pattern="x"), say("ok")] * 2) as server:
        opta("-p", "go", server=server)
        without = [len(recorder.told(name)) for name in ("root", "tool", "profile")]
        opta("-p", "go", "--profile", "audit", server=server)
    assert without == [1, 0, 0]
    assert [len(recorder.told(name)) for name in ("root", "tool", "profile")] == [1, 2, 1]


@pytest.mark.row("B39")
@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["/no/such/program"], "could not be started"),
        ([sys.executable, "-c", "import sys; sys.exit('broken')"], "exit code 1: broken"),
        ([sys.executable, "-c", "import time; time.sleep(300)"], "took more than 1 s"),
        ([sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"], "signal SIGKILL"),
    ],
)
def test_a_hook_that_does_not_work_is_told_and_recorded_and_stops_nothing(words, told):
    user_config(f"tool_hook_command: {json.dumps(words)}\nhook_timeout: 1\n")
    with ModelServer([call("file_search", pattern="x"), say("ok")]) as server:
        done = opta("-p", "go", "--output-format", "stream-json", server=server)
    assert done.returncode == 0
    events = lines(done.stdout)
    hooks = [e for e in events if e["type"] == "hook"]
    assert [h["phase"] for h in hooks] == ["before_execution", "after_execution"]
    assert all(told in h["problem"] for h in hooks)
    assert [told in e["text"] for e in events if e["type"] == "notice"] == [True]
    session = json.loads(done.stdout.splitlines()[-1])["session_id"]
    (journal,) = Path(os.environ["XDG_STATE_HOME"]).rglob(f"{session}.jsonl")
    assert [e["type"] for e in lines(journal.read_text())].count("hook") == 2


def test_what_a_hook_leaves_running_ends_with_it(tmp_path):
    words = ["sh", "-c", f"sleep 300 & echo $! > {tmp_path}/pid"]
    user_config(f"stop_hook_command: {json.dumps(words)}\n")
    with ModelServer([say("ok")]) as server:
        opta("-p", "go", server=server)
    child = Path("/proc", (tmp_path / "pid").read_text().strip())
    assert not child.exists() or (child / "stat").read_text().split()[2] == "Z"


@pytest.mark.row("B40")
def test_a_hook_on_the_command_line_beats_those_of_files(recorder):
    home(".codex").mkdir()
    home(".codex/config.toml").write_text(f"stop_hook_command = {recorder.words('codex')}\n")
    user_config(f"stop_hook_command: {recorder.words('user')}\n")
    with ModelServer([say("a"), say("b"), say("c")]) as server:
        opta("-p", "go", server=server)
        opta("-p", "go", "--config", f"stop_hook_command={recorder.words('flag')}", server=server)
        opta("-p", "go", "--config", "stop_hook_command=[]", server=server)
    assert [len(recorder.told(name)) for name in ("codex", "user", "flag")] == [1, 1, 1]


@pytest.mark.parametrize(
    "override", ["nonsense=1", "tool_hook_command=3", "tool_hook_command", "stop_hook_comand=[]"]
)
def test_a_wrong_override_is_one_error_with_exit_code_2(override):
    done = opta("-p", "go", "--config", override, "--model", "m")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert override.partition("=")[0] in done.stderr


DENIES = [
    ("import sys; print('no writes', file=sys.stderr); sys.exit(2)", "no writes"),
    ("""print('{"decision": "deny", "reason": "no writes"}')""", "no writes"),
    ("""print('{"decision": "block"}')""", "it gave no reason"),
]


@pytest.mark.parametrize(("code", "reason"), DENIES)
def test_a_pre_tool_hook_denies_with_a_reason_that_the_model_and_the_person_are_told(code, reason):
    hook = {"command": [sys.executable, "-c", code], "tools": ["write_*"]}
    user_config(f"pre_tool_hooks: [{json.dumps(hook)}]\n")
    script = [
        call("write_file", path="a.txt", content="x"), call("run_command", command="touch b.txt"),
        say("ok"),
    ]  # fmt: skip
    with ModelServer(script) as server:
        done = opta("-p", "go", SKIP, "--output-format", "stream-json", server=server)
        denied, ran = server.results
    assert denied.startswith(f"Permission denied by a hook of the user: {reason}. Nothing was done")
    assert (Path("a.txt").exists(), Path("b.txt").exists(), ran) == (False, True, "(no output)")
    decided = [e for e in lines(done.stdout) if e["type"] == "decided"]
    assert [d["allowed"] for d in decided] == [False, True]
    assert decided[0]["by"].startswith("hook ")
    assert decided[0]["by"].endswith(f": {reason}")


ALLOWS = ("""print('{"decision": "allow"}')""", "print('[1')")


@pytest.mark.parametrize("code", ALLOWS)
def test_a_hook_cannot_allow_what_the_gate_denies_or_asks(code):
    hook = {"command": [sys.executable, "-c", code]}
    user_config(f"pre_tool_hooks: [{json.dumps(hook)}]\n")
    with ModelServer([call("run_command", command="touch made"), say("no")] * 2) as server:
        asked = opta("-p", "go", server=server)
        opta("-p", "go", SKIP, "--deny", "run_command", server=server)
        assert "Permission denied by the rule" in server.results[0]
    assert asked.returncode == 3
    assert not Path("made").exists()


@pytest.mark.parametrize(("required", "written"), [(True, False), (False, True)])
def test_a_hook_that_is_required_denies_when_it_does_not_work(required, written):
    hook = {"command": ["/no/such/program"], "required": required}
    user_config(f"pre_tool_hooks: [{json.dumps(hook)}]\n")
    with ModelServer([call("write_file", path="a.txt", content="x"), say("ok")]) as server:
        opta("-p", "go", SKIP, server=server)
        (told,) = server.results
    assert Path("a.txt").exists() is written
    assert ("it is required, and it could not be started" in told) is required


def test_a_deny_rule_holds_for_hooks_too(recorder):
    rule = f"run_command({sys.executable}:*)"
    user_config(f"stop_hook_command: {recorder.words()}\npermissions: {{deny: ['{rule}']}}\n")
    with ModelServer([say("ok")]) as server:
        done = opta("-p", "go", server=server)
    assert recorder.told() == []
    assert "denies it" in done.stderr


def test_the_hooks_of_a_project_count_after_trust_alone_and_are_shown_in_the_question(recorder):
    Path(".opta").mkdir()
    Path(".opta/config.yml").write_text(f"stop_hook_command: {recorder.words('yml')}\n")
    Path(".opta/config.toml").write_text(f"stop_hook_command = {recorder.words('toml')}\n")
    user_config(f"stop_hook_command: {recorder.words('user')}\n")
    with ModelServer([say("a"), say("b")]) as server:
        opta("-p", "go", server=server)
        untrusted = [len(recorder.told(name)) for name in ("yml", "toml", "user")]
        opta("-p", "go", "--trust", server=server)
    assert untrusted == [0, 0, 1]
    assert [len(recorder.told(name)) for name in ("yml", "toml", "user")] == [1, 1, 2]
    assert recorder.told("yml")[0]["cwd"] == str(Path.cwd())
    shown = describe(inspect(Path.cwd()), "", 10_000, Colour.PLAIN)
    for name in ("yml", "toml"):
        assert recorder.words(name) in shown.replace("\n", "")


def test_a_hook_of_the_person_runs_no_file_of_the_project_it_is_used_in(tmp_path):
    config = user_config("stop_hook_command: [./hook.sh]\n")
    for directory, name in ((config, "own"), (Path.cwd(), "foreign")):
        script = directory / "hook.sh"
        script.write_text(f"#!/bin/sh\ntouch {tmp_path}/{name}\n")
        script.chmod(script.stat().st_mode | stat.S_IXUSR)
    with ModelServer([say("a")]) as server:
        opta("-p", "go", server=server)
    assert (tmp_path / "own").exists()
    assert not (tmp_path / "foreign").exists()


def test_a_wrong_hook_in_config_toml_is_named_with_its_line_and_the_others_count(recorder):
    home(".codex").mkdir()
    home(".codex/config.toml").write_text(
        f"stop_hook_command = {recorder.words()}\n\ntool_hook_command = 'text'\n"
    )
    with ModelServer([say("ok")]) as server:
        done = opta("-p", "go", server=server)
    assert "config.toml:3:" in done.stderr
    assert len(recorder.told()) == 1


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("pre_tool_hooks: [{command: []}]", "[0].command must be a list of a program and its"),
        ("pre_tool_hooks: [{command: [x]}, {command: [x], tool: a}]",
         "[1].tool is unknown: a hook has command, tools, timeout, required"),
        ("pre_tool_hooks: [x]", "[0] is no hook: write {command: [PROGRAM"),
        ("pre_tool_hooks: [{tools: [x]}]", "[0] has no command"),
        ("pre_tool_hooks: x", " must be a list of hooks: command, tools, timeout, required"),
        ("tool_hook_command: text", " must be a list of a program and its arguments, not 'text'"),
        ("pre_tool_hooks: [{command: [x], timeout: 0}]", "[0].timeout must be a number of seconds"),
        ("pre_tool_hooks: [{command: [x], tools: a}]", "[0].tools must be a list of names"),
        ("pre_tool_hooks: [{command: [x], required: 1}]", "[0].required must be true or false"),
    ],
)  # fmt: skip
def test_wrong_settings_of_hooks_are_named_with_their_place(text, told):
    user_config(f"model: m\n{text}\n")
    done = opta("-p", "go")
    assert done.returncode == 2
    name = text.split(":")[0]
    assert f"config.yml:2:1: {name}{told}" in done.stderr


def test_a_hook_that_the_machine_enforces_is_left_out_by_nobody(recorder):
    managed = Path(os.environ["OPTA_GLOBAL_DIR"])
    (managed / "config.yml").write_text(
        f"stop_hook_command: {recorder.words('managed')}\nenforce: [stop_hook_command]\n"
    )
    user_config(f"stop_hook_command: {recorder.words('user')}\n")
    with ModelServer([say("a")]) as server:
        done = opta("-p", "go", "--config", "stop_hook_command=[]", server=server)
    assert [len(recorder.told(name)) for name in ("managed", "user")] == [1, 0]
    assert "enforces it" in done.stderr
