"""Defined once, used by other agents: what `opta tool export` writes for them, loaded by them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.support.cli import OPTA, opta
from tests.support.mcp_client import names, refused, text
from tests.support.model_server import ModelServer, RecordedRequest, call, say
from tests.support.npm import OPENCODE, installed, needs_npm
from tests.support.opencode import run_opencode, set_up
from tests.support.processes import group_is_gone
from tests.support.soon import SOON_S, soon
from tools import storage

GREET = """\
name: greet
description: Greet somebody.
parameters:
  NAME: {type: string, description: Whom., required: true}
  TIMES: {type: number, description: How often., default: 1}
  WORDS: {type: array, description: More., items: {type: string}, required: true}
bash: printf '%s times hello %s\\n' {TIMES} "{NAME}"
"""
NASTY = 'it\'s "$(touch made)" `id` \\ \n -x {NAME} ${HOME} 雪'
WAITS = "name: waits\ndescription: d\nbash: 'echo $$ > pid; sleep 600; :'\n"


@pytest.fixture(autouse=True)
def own_tools() -> None:
    tools = storage.config_dir() / "tools"
    tools.mkdir(parents=True)
    (tools / "greet.yaml").write_text(GREET)
    (tools / "waits.yaml").write_text(WAITS)


def exported(form: str, name: str = "greet") -> str:
    done = opta("tool", "export", name, "--format", form)
    assert done.returncode == 0, done.stderr
    assert len(done.stderr.splitlines()) == 1
    return done.stdout


def allow(rule: str) -> None:
    assert opta("permissions", "add", "allow", rule).returncode == 0


def test_the_schemas_for_the_apis_of_models_are_those_that_opta_sends():
    openai = json.loads(exported("openai"))
    claude = json.loads(exported("claude"))
    with ModelServer([say("hi")]) as server:
        assert opta("-p", "x", server=server).returncode == 0
    sent = {tool["function"]["name"]: tool for tool in server.requests[0].json["tools"]}
    assert openai == sent["greet"]
    function = openai["function"]
    assert claude == {"name": "greet", "description": "Greet somebody.",
                      "input_schema": function["parameters"]}  # fmt: skip
    assert claude["input_schema"]["required"] == ["NAME", "WORDS"]


async def test_an_mcp_client_starts_the_entry_and_has_that_tool_alone():
    from mcp import Client, StdioServerParameters
    from mcp.client.stdio import stdio_client

    entry = json.loads(exported("mcp"))["mcpServers"]["opta"]
    parameters = StdioServerParameters(**entry, env=dict(os.environ))
    arguments = {"NAME": NASTY, "WORDS": []}
    async with Client(stdio_client(parameters)) as client:
        assert await names(client) == ["greet"]
        assert "nobody is there to be asked" in await refused(client, "greet", arguments)
    allow("greet")
    async with Client(stdio_client(parameters)) as client:
        assert await text(client, "greet", arguments) == f"1 times hello {NASTY}"
    assert not Path("made").exists()


def test_the_entry_is_a_file_of_servers_as_opta_itself_reads_it():
    Path(".mcp.json").write_text(exported("mcp"))
    (server,) = json.loads(opta("mcp", "list", "--trust", "--format", "json").stdout)
    assert (server["command"], server["args"]) == ("opta", ["mcp", "serve", "--tools", "greet"])


def for_model(name: str, arguments: object = None, *flags: str) -> subprocess.CompletedProcess[str]:
    given = json.dumps({} if arguments is None else arguments)
    return opta("tool", "run", name, "--args", "-", "--for-model", *flags, stdin=given)


def test_a_models_call_is_refused_without_a_rule_and_answered_as_a_model_is():
    arguments = {"NAME": NASTY, "WORDS": ["a"]}
    done = for_model("greet", arguments)
    assert done.returncode == 1
    assert "nobody is there to be asked" in done.stdout
    assert done.stdout.endswith("opta permissions add allow greet\n")
    allow("greet")
    done = for_model("greet", arguments)
    assert (done.returncode, done.stdout) == (0, f"1 times hello {NASTY}\n")
    assert "$.NAME: missing" in for_model("greet", {"WORDS": []}).stdout
    assert not Path("made").exists()
    listed = opta("sessions", "list").stdout
    assert listed.count("another program calls greet") == 3
    assert opta("permissions", "add", "deny", "greet").returncode == 0
    assert "Permission denied by the rule greet" in for_model("greet", arguments).stdout


def test_a_models_call_of_a_projects_tool_needs_trust_and_meets_the_hooks():
    tools = Path(".opta/tools")
    tools.mkdir(parents=True)
    (tools / "local.yaml").write_text("name: local\ndescription: d\nbash: echo local\n")
    allow("local")
    done = for_model("local")
    assert done.returncode == 1
    assert "not trusted" in done.stderr
    assert "there is no tool 'local'" in done.stderr
    assert for_model("local", {}, "--trust").stdout == "local\n"
    hooks = {"pre_tool_hooks": [{"command": ["sh", "-c", "echo not today >&2; exit 2"]}]}
    path = storage.config_dir() / "config.yml"
    path.write_text(path.read_text() + json.dumps(hooks)[1:-1] + "\n")
    denied = for_model("local", {}, "--trust")
    assert (denied.returncode, "not today" in denied.stdout) == (1, True), denied


async def test_r44_a_signal_ends_a_models_call_and_what_it_started():
    allow("waits")
    pid = Path("pid")
    words = [*OPTA, "tool", "run", "waits", "--for-model"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        await soon(lambda: pid.exists() and pid.read_text().strip())
        process.send_signal(signal.SIGTERM)
        out, told = process.communicate(timeout=SOON_S)
    assert (process.returncode, out, told) == (130, b"", b"")
    await soon(lambda: group_is_gone(int(pid.read_text())))


@pytest.fixture(scope="session")
def opencode(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return installed(tmp_path_factory, OPENCODE)


@needs_npm
def test_opencode_loads_the_file_and_its_model_calls_the_tool(opencode):
    file = str(set_up(opencode) / "greet.ts")
    done = opta("tool", "export", "greet", "--format", "opencode", "--output", file)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr

    def answer(request: RecordedRequest) -> object:
        if not request.json.get("tools"):
            return say("A title")
        if request.json["messages"][-1]["role"] == "tool":
            return say("I have greeted.")
        return call("greet", NAME=NASTY, TIMES=2, WORDS=["a"])

    with ModelServer([answer] * 10) as server:
        refused = run_opencode(opencode, server)
        allow("greet")
        run = run_opencode(opencode, server)
    assert refused[0]["status"] == "error"
    assert "opta permissions add allow greet" in refused[0]["error"]
    (used,) = run
    assert (used["status"], used["output"]) == ("completed", f"2 times hello {NASTY}")
    assert not Path("made").exists()
    offered = next(r.json["tools"] for r in server.requests if r.json.get("tools"))
    (schema,) = [t["function"] for t in offered if t["function"]["name"] == "greet"]
    ours = json.loads(exported("openai"))["function"]
    assert schema["description"] == ours["description"]
    assert {key: schema["parameters"][key] for key in ("type", "properties", "required")} == {
        key: ours["parameters"][key] for key in ("type", "properties", "required")
    }


@needs_npm
@pytest.mark.row("D48")
def test_opencode_finds_the_tools_of_a_loop_and_works_on_its_session(opencode):
    set_up(opencode)
    Path("SPEC.md").write_text("x")
    runs = []

    def answer(request: RecordedRequest) -> object:
        if not request.json.get("tools"):
            return say("A title")
        told = [m["content"] for m in request.json["messages"] if m["role"] == "tool"]
        return [
            lambda: call("ralph_task_add", content=NASTY),
            lambda: call("ralph_task_status", id=told[0][:8], status="completed"),
            lambda: call("ralph_task_list"),
            lambda: call("ralph_session_complete"),
            lambda: say("I have done it."),
        ][len(told)]()

    def by_opencode(request: RecordedRequest) -> object:
        with ModelServer([answer] * 12) as server:
            runs.append(run_opencode(opencode, server))
        return say("opencode has done it.")

    with ModelServer([by_opencode]) as server:
        done = opta("loop", "SPEC.md", "--opencode", server=server)
    added, marked, listed, ended = (use["output"] for use in runs[0])
    assert marked == f"Task {added} marked as completed"
    assert listed.startswith(f"COMPLETED\n- [{added}] it's ")
    assert ended == "Session terminated"
    assert done.returncode == 0, done.stderr
    assert "1 of 1 task done" in done.stdout
    assert not Path("made").exists()
