"""Tools are found by the words that people and models use for them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.actions import McpAction
from tools.definition import Origin, Source, ToolDefinition
from tools.tool_search import ToolSearch


def tool(name, description="", server="", **metadata):
    return ToolDefinition(
        f"mcp_{server}_{name}" if server else name, description, {"type": "object"},
        McpAction(server, name), Origin(Source.MCP, "mcp"), metadata=metadata,
    )  # fmt: skip


TOOLS = [
    tool("create_issue", "Opens an issue in a repository.", "github"),
    tool("list_issues", "Lists the issues of a repository.", "github"),
    tool("createPullRequest", "Opens a pull request.", "github"),
    tool("send_message", "Sends a message to a channel of the team.", "slack"),
    tool("deploy", "Brings the app to production.", tags=["release", "cloud"]),
    tool("weather", "Tells the forecast.", **{"search-keywords": ["temperature", "rain"]}),
    tool("db-query", "Runs SQL.", category="database"),
]


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("create github issue", "mcp_github_create_issue"),
        ("how do I open a pull request?", "mcp_github_createPullRequest"),
        ("list of all issues", "mcp_github_list_issues"),
        ("slack", "mcp_slack_send_message"),
        ("post messages", "mcp_slack_send_message"),
        ("make a release", "deploy"),
        ("will it rain", "weather"),
        ("database", "db-query"),
        ("SQL", "db-query"),
        ("weather, please", "weather"),
        ("`deploy`", "deploy"),
        ("mcp_slack_send_message weather", "mcp_slack_send_message"),
    ],
)
def test_the_best_match_comes_first(query, first):
    assert ToolSearch(TOOLS).find(query)[0].name == first


def test_several_tools_are_found_by_their_exact_names():
    found = ToolSearch(TOOLS).find("deploy, weather")
    assert {tool.name for tool in found[:2]} == {"deploy", "weather"}


def test_a_tool_that_only_shares_a_common_word_is_no_match():
    found = ToolSearch(TOOLS).find("create issue")
    assert "mcp_slack_send_message" not in [tool.name for tool in found]
    assert ToolSearch(TOOLS).find("bake a cake") == []
    assert ToolSearch(()).find("anything") == []


def test_only_tools_with_every_word_are_found_where_the_best_one_has_them_all():
    tools = [tool(f"{verb}_queue_{place}") for verb in ("restart", "stop") for place in "abc"]
    search = ToolSearch([*tools, tool("restart_queue_mars"), tool("restart_queue_moon")])
    assert [found.name for found in search.find("restart the queue on mars")] == [
        "restart_queue_mars"
    ]
    assert [found.name for found in search.find("stop queue")] == [
        "stop_queue_a", "stop_queue_b", "stop_queue_c",
    ]  # fmt: skip
    assert [found.name for found in search.find("queue mars")] == ["restart_queue_mars"]
    assert len(search.find("restart a queue on venus")) > 1


def test_names_of_tools_find_these_alone():
    found = ToolSearch(TOOLS).find("mcp_github_list_issues, deploy")
    assert {tool.name for tool in found} == {"mcp_github_list_issues", "deploy"}


@given(st.text(max_size=60))
def test_any_question_has_an_answer(query):
    found = ToolSearch(TOOLS).find(query)
    assert len({tool.name for tool in found}) == len(found)
