"""What tools were called and have cost, read from the sessions of the real program."""

from __future__ import annotations

import json
import time
from pathlib import Path

from agent.session import project_dir
from agent.tool_use import tool_use
from tests.support.cli import OPTA, connected, opta
from tests.support.mcp_client import served, text
from tests.support.mcp_session import entry
from tests.support.model_server import ModelServer, call, say
from tests.support.soon import SOON_S
from tests.support.terminal import Terminal, needs_tmux
from tools import storage

LOOK = """\
name: look
description: d
schema: {type: object, properties: {}}
code: |
  export async function execute(args, { platform }) {
    await platform.fs.readFile("a.txt");
    return await platform.fs.readFile("a.txt");
  }
"""


def usage(*arguments):
    done = opta("tools", "usage", "--format", "json", "--model", "test-model", *arguments)
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    return data, {row["name"]: row for row in data["tools"]}


def read(times):
    Path("a.txt").write_text("hello\n")
    return [call("read_file", path="a.txt")] * times


def test_a_tool_s_price_is_what_its_requests_cost_for_each_call():
    with ModelServer([*read(3), say("done"), say("again")]) as server:
        opta("-p", "go", server=server)
        opta("-p", "more", server=server)
    data, rows = usage()
    assert (data["sessions"], data["requests"]) == (2, 5)
    row = rows["read_file"]
    assert (row["calls"], row["requests"]) == (3, 5)
    listed = json.loads(opta("tools", "--format", "json", "--model", "test-model").stdout)
    (tokens,) = (tool["tokens"] for tool in listed["tools"] if tool["name"] == "read_file")
    assert (row["tokens"], row["paid"]) == (tokens, 5 * tokens)
    assert row["per_call"] == round(5 * tokens / 3)
    assert (rows["git"]["calls"], rows["git"]["per_call"]) == (0, None)
    assert "bash_execution" not in rows, "it was not sent"


def test_a_tool_that_is_sent_often_and_never_called_is_named_with_the_way_out():
    with ModelServer([*read(20), say("done")]) as server:
        opta("-p", "go", server=server)
    shown = opta("tools", "usage").stdout
    assert "never used: disable?" in next(x for x in shown.splitlines() if x.startswith("git "))
    assert "disable?" not in next(x for x in shown.splitlines() if x.startswith("read_file "))
    (advice,) = (line for line in shown.splitlines() if "opta tools disable " in line)
    assert "read_file" not in advice
    words = advice.partition("opta tools disable ")[2].split()
    assert "git" in words
    off = opta("tools", "disable", *words)
    assert off.returncode == 0
    assert off.stdout.count("✗ Disabled tool") == len(words)
    assert not any(row["never_used"] for row in usage()[1].values())


def test_only_the_requests_that_held_a_tool_count_for_it():
    with ModelServer([say("one"), say("two")]) as server:
        opta("-p", "go", server=server)
        opta("tools", "disable", "git")
        opta("-p", "go on", "--continue", server=server)
    data, rows = usage()
    assert (data["sessions"], data["requests"]) == (1, 2)
    assert (rows["git"]["requests"], rows["read_file"]["requests"]) == (1, 2)


def test_a_deferred_tool_costs_from_its_loading_on():
    tools = storage.config_dir() / "tools"
    tools.mkdir(parents=True)
    for number in range(11):
        data = {"name": f"t{number:02}", "description": "d", "command": "true",
                "parameters": {"type": "object", "properties": {}}}  # fmt: skip
        (tools / f"t{number}.json").write_text(json.dumps(data))
    script = [call("find_tools", query="t10"), *read(1), say("done")]
    with ModelServer([*script, say("next")]) as server:
        opta("-p", "go", server=server)
        _, rows = usage()
        assert (rows["t10"]["requests"], rows["t09"]["requests"]) == (2, 3)
        # What was called is among the first ten from now on.
        session = next(project_dir(Path.cwd()).glob("*.jsonl"))
        with session.open("a") as file:
            called = {"id": "c", "name": "t10", "arguments": "{}"}
            line = {"v": 1, "type": "proposed", "call": called, "t": 1}
            file.write(json.dumps(line, separators=(",", ":")) + "\n")
        opta("-p", "other", server=server)
        sent = server.offered
    assert "t10" in sent
    assert "t09" not in sent


def test_what_the_person_ran_is_no_call_of_the_model_and_damage_counts_nothing():
    with ModelServer([*read(1), say("done")]) as server:
        opta("-p", "look at @a.txt", server=server)
        (session,) = project_dir(Path.cwd()).glob("*.jsonl")
        session.write_bytes(session.read_bytes() + b'{"v":1,"type":"request"\n\xff\n')
    data, rows = usage()
    assert data["requests"] == 2
    assert rows["read_file"]["calls"] == 1


def define(name, content):
    tools = storage.config_dir() / "tools"
    tools.mkdir(parents=True, exist_ok=True)
    (tools / f"{name}.yml").write_text(content)


def test_what_the_program_of_a_tool_asks_for_is_no_call_of_the_model():
    define("look", LOOK)
    with ModelServer([call("look"), *read(2), say("done")]) as server:
        done = opta("-p", "go", "--allow", "look", server=server)
    assert done.returncode == 0, done.stderr
    session = next(project_dir(Path.cwd()).glob("*.jsonl")).read_text()
    assert session.count('"type":"started"') == 5, "two reads are the program's"
    rows = usage()[1]
    assert (rows["look"]["calls"], rows["read_file"]["calls"]) == (1, 2)
    assert rows["read_file"]["per_call"] == round(rows["read_file"]["paid"] / 2)


async def test_what_mcp_clients_call_is_told_of_and_costs_nothing_here():
    define("greet", "name: greet\ndescription: d\nbash: echo hello\n")
    with ModelServer([*read(20), say("done")]) as server:
        opta("-p", "go", server=server)
    assert usage()[1]["greet"]["never_used"]
    async with served(Path.cwd(), "--allow", "greet") as client:
        for _ in range(2):
            assert await text(client, "greet") == "hello"
    row = usage()[1]["greet"]
    assert (row["calls"], row["by_clients"], row["per_call"]) == (0, 2, None)
    assert not row["never_used"], "to switch it off would take it from those clients"
    shown = opta("tools", "usage").stdout
    assert "Called by MCP clients (opta mcp serve): greet 2." in shown


def test_a_directory_without_sessions_says_so():
    done = opta("tools", "usage")
    assert done.returncode == 0
    assert "No tool was sent to a model here yet" in done.stdout


def test_a_remembered_count_is_read_again_once_the_session_grows():
    with ModelServer([say("one"), say("two")]) as server:
        opta("-p", "go", server=server)
        assert usage()[0]["requests"] == 1
        opta("-p", "go on", "--continue", server=server)
        assert usage()[0]["requests"] == 2
    (storage.state_dir() / "tool-use.json").write_text("[]")
    assert usage()[0]["requests"] == 2


@needs_tmux
def test_the_tools_of_servers_are_known_also_where_none_is_connected():
    config = storage.config_dir() / "config.yml"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(json.dumps({"mcpServers": {"ok": entry("ok")}}))
    with (
        ModelServer([say("hello there")]) as server,
        Terminal([*OPTA, *connected(server)], columns=100, rows=50) as terminal,
    ):
        terminal.wait("ask ·", SOON_S)
        for text, shown in (("hi", "hello there"), ("/tools usage", "Tokens paid: what")):
            terminal.type(text)
            terminal.send("Enter")
            screen = terminal.wait(shown, SOON_S)
    (line,) = (x for x in screen.splitlines() if x.strip().startswith("mcp_ok_echo"))
    assert "?" not in line

    def of_echo(text):
        return next(x for x in text.splitlines() if x.startswith("mcp_ok_echo"))

    assert of_echo(opta("tools", "usage").stdout).split() == line.split()
    # Of another server of this name nothing is known.
    config.write_text(json.dumps({"mcpServers": {"ok": entry("noisy")}}))
    by_hand = opta("tools", "usage").stdout
    assert "?" in of_echo(by_hand)
    assert "?: not there now" in by_hand


def test_many_long_sessions_are_counted_once():
    sessions = 100
    place = project_dir(Path.cwd())
    place.mkdir(parents=True)
    head = {"v": 1, "type": "session", "id": "x", "cwd": str(Path.cwd()), "model": "m",
            "created": 1.0, "opta": "0"}  # fmt: skip
    tools = {"v": 1, "type": "tools", "names": ["read_file", "git"]}
    request = {"v": 1, "type": "request", "number": 1}
    text = {"v": 1, "type": "text", "text": "word "}
    events = [head, tools, *[request, *[text] * 200] * 10]
    data = "".join(json.dumps(event, separators=(",", ":")) + "\n" for event in events)
    for number in range(sessions):
        (place / f"s{number}.jsonl").write_text(data)
    assert usage()[1]["git"]["requests"] == 10 * sessions
    before = time.process_time()
    assert tool_use(Path.cwd()).requests == 10 * sessions
    assert time.process_time() - before < 1
