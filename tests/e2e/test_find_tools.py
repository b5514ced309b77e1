"""Deferred tools in the real program: found by words, loaded for the session, paid when used."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from agent.tokens import count_text
from tests.support.cli import lines, opta
from tests.support.mcp_session import entry
from tests.support.model_server import ModelServer, answer, call, say, scripted_call
from tools.cost import Form, tools_cost

ALLOW = ("--allow", "run_command(echo:*)")


def config_dir() -> Path:
    path = Path(os.environ["XDG_CONFIG_HOME"]) / "opta"
    (path / "tools").mkdir(parents=True, exist_ok=True)
    return path


def settings(**values):
    (config_dir() / "config.yml").write_text(json.dumps(values))


def add_tool(name, description="Does it.", **more):
    data = {"name": name, "description": description, "command": f"echo ran {name}"}
    data["parameters"] = {"type": "object", "properties": {}}
    (config_dir() / "tools" / f"{name}.json").write_text(json.dumps(data | more))


def add_tools(count):
    for number in range(count):
        add_tool(f"plain_{number:02}", f"Plain tool {number}.")


def tools_of(request):
    return [tool["function"]["name"] for tool in request.json["tools"]]


def cost_of(request):
    return tools_cost(request.json["tools"], Form.JSON_LINES, count_text).total


def test_without_a_deferred_tool_nothing_is_paid_for_the_search():
    add_tools(10)
    with ModelServer([say("done")]) as server:
        opta("-p", "go", server=server)
        assert "find_tools" not in tools_of(server.requests[0])
        assert "plain_09" in tools_of(server.requests[0])


@pytest.mark.row("A32")
def test_a_tool_over_the_limit_is_found_loaded_and_called():
    add_tools(10)
    add_tool("zz_release", "Publishes a version of the app.", tags=["deploy"])
    script = [call("find_tools", query="publish a new release"), call("zz_release"), say("done")]
    with ModelServer(script) as server:
        done = opta("-p", "go", *ALLOW, server=server)
        first, second, third = (request.json["tools"] for request in server.requests)
        found, ran = server.results
    assert done.stdout == "done\n"
    assert "zz_release" not in json.dumps([t for t in first if "find_" not in json.dumps(t)])
    assert "zz_release" in json.dumps(first), "the search says what there is"
    # A provider's cache holds what was sent before: the new tool comes after all others.
    assert second[:-1] == first
    assert second[-1]["function"]["name"] == "zz_release"
    assert third == second
    assert found.startswith("Loaded")
    assert "zz_release: Publishes a version" in found
    assert "ran zz_release" in ran
    assert "deferred" in done.stderr
    assert "zz_release" in done.stderr


def test_loaded_tools_survive_a_restart_and_a_summary_of_the_conversation():
    add_tools(10)
    add_tool("zz_release", "Publishes a version.")
    script = [
        call("find_tools", query="publish"),
        say("word " * 3000),
        say("SUMMARY"),
        say("after"),
    ]
    with ModelServer(script) as server:
        opta("-p", "a", server=server)
        settings(context_window=2000)
        done = opta("-p", "b", "--continue", server=server)
        last = server.requests[-1]
    assert done.stdout == "after\n"
    assert "SUMMARY" in json.dumps(last.json["messages"])
    assert tools_of(last)[-1] == "zz_release"
    assert last.json["tools"] == server.requests[1].json["tools"]


def test_another_conversation_begins_without_what_this_one_loaded():
    add_tools(10)
    add_tool("zz_release")
    with ModelServer([call("find_tools", query="zz_release"), say("a"), say("b")]) as server:
        opta("-p", "a", server=server)
        opta("-p", "b", server=server)
        assert tools_of(server.requests[1])[-1] == "zz_release"
        assert "zz_release" not in tools_of(server.requests[2])


def test_a_deferred_tool_called_by_its_name_runs_and_stays():
    add_tools(10)
    add_tool("zz_release")
    with ModelServer([call("zz_release"), say("done")]) as server:
        done = opta("-p", "go", *ALLOW, "--output-format", "stream-json", server=server)
        (ran,) = server.results
        assert tools_of(server.requests[1])[-1] == "zz_release"
    assert "ran zz_release" in ran
    loaded = [event["names"] for event in lines(done.stdout) if event["type"] == "loaded"]
    assert loaded == [["zz_release"]]


def test_a_deferred_tool_called_with_wrong_arguments_is_loaded_so_that_the_next_try_fits():
    add_tools(10)
    schema = {"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]}
    add_tool("zz_release", parameters=schema)
    script = [call("zz_release", where="x"), call("zz_release", to="x"), say("done")]
    with ModelServer(script) as server:
        opta("-p", "go", *ALLOW, server=server)
        refused, ran = server.results
        sent = server.requests[1].json["tools"][-1]["function"]
    assert "$.to: missing" in refused
    assert sent["parameters"]["required"] == ["to"]
    assert "ran zz_release" in ran


def test_deferring_a_tool_lifts_no_rule():
    add_tools(10)
    add_tool("zz_release")
    with ModelServer([call("zz_release"), say("done")]) as server:
        opta("-p", "go", "--deny", "zz_release", server=server)
        assert server.results[0].startswith("Permission denied")


def test_a_thousand_tools_of_servers_cost_one_small_schema():
    settings(
        mcpServers={"many": entry("many"), "more": entry("many")}, mcp={"maxTools": 1},
    )  # fmt: skip
    wanted = scripted_call("find_tools", query="tool_321 of more")
    with ModelServer([say("hi"), answer(calls=[wanted]), say("done")]) as server:
        settings_before = tools_without_servers(server)
        done = opta("-p", "go", server=server)
        first, second = server.requests[1], server.requests[2]
    assert done.returncode == 0
    (one,) = (name for name in tools_of(first) if name.startswith("mcp_"))
    finder = next(t for t in first.json["tools"] if t["function"]["name"] == "find_tools")
    assert "500 of more" in finder["function"]["description"]
    assert cost_of(first) - settings_before < 200
    assert tools_of(second)[: len(tools_of(first))] == tools_of(first)
    assert "mcp_more_tool_321" in tools_of(second)
    assert one in tools_of(second)


def tools_without_servers(server):
    """Return the tokens of the built-in tools alone."""
    opta("-p", "go", "--config", "mcp.enabled=false", server=server)
    return cost_of(server.requests[0])


def test_tools_beyond_the_budget_of_tokens_wait_and_the_person_s_own_stay():
    settings(tools={"tokenBudget": 2000}, mcpServers={"many": entry("many")})
    add_tool("mine")
    with ModelServer([say("done")]) as server:
        opta("-p", "go", server=server)
        sent = server.requests[0]
    assert 1800 < cost_of(sent) <= 2000
    assert "mine" in tools_of(sent)
    assert {"find_tools", "read_file", "run_command"} <= set(tools_of(sent))


def test_what_the_settings_name_stays_before_what_they_do_not():
    add_tools(12)
    settings(tools={"plain_11": {"enabled": True}})
    with ModelServer([say("done")]) as server:
        opta("-p", "go", server=server)
        assert "plain_11" in tools_of(server.requests[0])
        assert "plain_09" not in tools_of(server.requests[0])


def test_without_the_search_tools_over_the_limit_are_off():
    add_tools(11)
    settings(tools={"find_tools": {"enabled": False}})
    with ModelServer([call("plain_10"), say("done")]) as server:
        opta("-p", "go", server=server)
        assert "find_tools" not in tools_of(server.requests[0])
        assert "is off (over the limit of 10 custom tools)" in server.results[0]


@pytest.mark.row("E46", "E92")
def test_the_listing_shows_what_waits_and_adds_up_to_what_is_sent():
    add_tools(12)
    listed = opta("tools", "--model", "test-model")
    data = json.loads(opta("tools", "--format", "json", "--model", "test-model").stdout)
    with ModelServer([say("done")]) as server:
        opta("-p", "go", server=server)
        assert data["total_tokens"] == cost_of(server.requests[0])
        assert data["deferred"]["tools"] == 2
        assert f"~{data['total_tokens']} tokens" in listed.stdout
    (row,) = (row for row in data["tools"] if row["name"] == "plain_11")
    assert (row["enabled"], row["deferred"]) == (False, True)
    assert data["deferred"]["tokens"] == 2 * row["tokens"]
    assert "✗ plain_11" in listed.stdout
    assert "(deferred: over the limit of 10 custom tools)" in listed.stdout
    assert f"Deferred: 2 tools, ~{2 * row['tokens']} tokens" in listed.stdout


def test_a_search_that_finds_nothing_says_what_there_is():
    add_tools(12)
    script = [call("find_tools", query="weather"), call("find_tools", query=" "), say("done")]
    with ModelServer(script) as server:
        opta("-p", "go", server=server)
        nothing, empty = server.results
        assert tools_of(server.requests[1]) == tools_of(server.requests[0])
    assert nothing == "No tool matches. Other words may; there are: plain_10, plain_11."
    assert "query is empty" in empty
