"""What `/tools` and `opta tools` print, to the character, and what they change."""

from __future__ import annotations

import argparse
import io
import json
from pathlib import Path

import pytest

from agent.tokens import count_text
from tools.actions import PlanAction, Shell, Step
from tools.builtin.kit import define
from tools.commands.tools import (
    ToolRow,
    ToolsCommand,
    badge,
    bar,
    configure,
    info_view,
    list_view,
    run,
    tokens_view,
)
from tools.cost import CostMeter, Form, tools_cost
from tools.definition import Origin, Risk, Scope, Source, ToolDefinition
from tools.formats.problems import ToolProblem
from tools.registry import ToolRegistry, ToolSettings

SAMPLE = [
    ToolRow("file_operations", "built-in", 320, True),
    ToolRow("file_search", "built-in", 280, True),
    ToolRow("bash_execution", "built-in", 350, True),
    ToolRow("git", "built-in", 420, True),
    ToolRow("run_tests", "custom", 450, True),
    ToolRow("analyze_dependencies", "custom", 380, False),
    ToolRow("security_scan", "teams", 520, True),
]


@pytest.mark.row("E89", "E90", "E91", "E92", "E93", "E114")
def test_the_documented_listing_with_its_padding():
    assert (
        list_view(SAMPLE)
        == """\
Available Tools:

✓ file_operations           [Built-in]   ~320 tokens
✓ file_search               [Built-in]   ~280 tokens
✓ bash_execution            [Built-in]   ~350 tokens
✓ git                       [Built-in]   ~420 tokens
✓ run_tests                 [Custom]     ~450 tokens
✗ analyze_dependencies      [Custom]     ~380 tokens
✓ security_scan             [Teams]      ~520 tokens

Total system prompt cost: ~2340 tokens

Usage:
  /tools enable <name>  - Enable a tool
  /tools disable <name> - Disable a tool
  /tools info <name>    - Show tool details
  /tools tokens         - Show token breakdown"""
    )


@pytest.mark.row("E94", "E95", "E96", "E97", "E115")
def test_the_documented_breakdown_with_its_bars():
    assert (
        tokens_view(SAMPLE)
        == f"""\
Token Cost Breakdown:

security_scan             {"█" * 26}{"░" * 24} 520
run_tests                 {"█" * 23}{"░" * 27} 450
git                       {"█" * 21}{"░" * 29} 420
bash_execution            {"█" * 18}{"░" * 32} 350
file_operations           {"█" * 16}{"░" * 34} 320
file_search               {"█" * 14}{"░" * 36} 280

Total: 2340 tokens (~$0.0023)"""
    )


@pytest.mark.row("E111")
@pytest.mark.parametrize(
    ("tokens", "full"), [(0, 0), (9, 0), (10, 1), (450, 23), (1000, 50), (5000, 50)]
)
def test_a_bar_is_fifty_wide_and_rounds_halves_up(tokens, full):
    assert bar(tokens) == "█" * full + "░" * (50 - full)


@pytest.mark.row("E112")
@pytest.mark.parametrize(
    ("tokens", "price", "shown"),
    [(2340, 0.001, "$0.0023"), (0, 0.001, "$0.0000"), (1500, 0.01, "$0.0150")],
)
def test_the_price_has_four_decimals(tokens, price, shown):
    text = tokens_view([ToolRow("t", "custom", tokens, True)], price_per_1000=price)
    assert text.endswith(f"Total: {tokens} tokens (~{shown})")


@pytest.mark.row("E110")
def test_badges():
    sources = ["built-in", "custom", "mcp", "teams", "session"]
    assert [badge(source) for source in sources] == [
        "[Built-in]", "[Custom]", "[MCP]", "[Teams]", "[session]",
    ]  # fmt: skip


@pytest.mark.row("E80")
def test_the_cost_column_can_be_hidden():
    text = list_view(SAMPLE, show_costs=False)
    assert "~" not in text
    assert "✓ git                       [Built-in]\n" in text


def test_the_list_itself_is_a_row_of_the_breakdown_so_that_it_adds_up():
    rows = [ToolRow("a", "custom", 5, True), ToolRow("b", "custom", 20, True)]
    assert tokens_view(rows, list_cost=12).splitlines()[2:] == [
        f"b                         █{'░' * 49} 20",
        f"(tool list)               █{'░' * 49} 12",
        f"a                         {'░' * 50} 5",
        "",
        "Total: 37 tokens (~$0.0000)",
    ]
    assert "~37 tokens" in list_view(rows, list_cost=12)


def test_reasons_declared_costs_and_problems_are_told():
    rows = [
        ToolRow("a", "custom", 300, False, "disabled in the settings"),
        ToolRow("b", "custom", 300, True, declared=320),
    ]
    problems = [
        ToolProblem(Path("/p/x.json"), "is empty", 1, 1, "$.name", "a name"),
        ToolProblem(None, "many tools", warning=True),
    ]
    text = list_view(rows, problems=problems)
    assert "[Custom]     ~300 tokens (disabled in the settings)\n" in text
    assert "[Custom]     ~300 tokens (declared 320)\n" in text
    assert "\nProblems:\n  error: /p/x.json:1:1: $.name: is empty (a name)\n" in text
    assert "\n  warning: many tools\n" in text


@pytest.mark.row("E108", "E109")
def test_the_details_of_a_tool():
    parameters = {"type": "object", "properties": {"é": {"type": "string"}}}
    row = ToolRow("run_tests", "custom", 450, False, "disabled in the settings", 460)
    assert (
        info_view(row, "Runs tests", parameters)
        == """\
Tool: run_tests
Description: Runs tests
Source: [Custom]
Enabled: No
Reason: disabled in the settings
Token Cost: ~450 tokens (declared 460)

Parameters:
{
  "type": "object",
  "properties": {
    "é": {
      "type": "string"
    }
  }
}"""
    )
    assert "\nEnabled: Yes\nToken Cost: ~1 tokens\n" in info_view(
        ToolRow("t", "mcp", 1, True), "d", parameters
    )


def test_nothing_a_tool_file_says_reaches_the_terminal_as_a_control():
    row = ToolRow("a\x1b[2J", "custom", 1, True)
    assert "\x1b" not in list_view([row]) + tokens_view([row]) + info_view(row, "\x9b2J\u202e", {})


def custom(name, source=Source.CUSTOM, **options):
    return ToolDefinition(
        name, f"{name} does a thing", {"type": "object", "properties": {"x": {"type": "string"}}},
        PlanAction((Step(name, Shell("sh", "true")),)),
        Origin(
            source, "opta-json", Scope.LOCAL, Path(f"/{name}.json"),
            enforced=source is Source.TEAMS,
        ), **options,
    )  # fmt: skip


class Counting:
    """Counts tokens and how often it was asked to."""

    calls = 0

    def __call__(self, text, encoding):
        self.calls += 1
        return count_text(text, encoding)


@pytest.fixture
def tools():
    """A command on a registry of two built-ins and four custom tools, its model a gpt-4o."""
    saved = {}
    registry = ToolRegistry(
        [define("git", "g", {}, [], risk=Risk.LOW),
         define("file_search", "f", {}, [], risk=Risk.LOW, enabled=False)],
        lambda: ([custom("a"), custom("my.tool"), custom("off", enabled=False),
                  custom("scan", Source.TEAMS)], []),
        ToolSettings({}), saved.__setitem__,
    )  # fmt: skip
    command = ToolsCommand(registry, CostMeter(Counting()), lambda: Form.OPENAI_O200K)
    command.registry, command.saved = registry, saved
    return command


def offered(tools):
    return [schema["function"]["name"] for schema in tools.registry.wire()]


@pytest.mark.row("E83", "E88", "E6", "E7")
@pytest.mark.parametrize("words", [[], ["list"], ["nonsense"], ["list", "x"]])
def test_list_and_whatever_is_unknown_list(tools, words):
    answer = tools.run(words)
    assert answer.done
    lines = answer.text.splitlines()
    assert lines[0] == "Available Tools:"
    assert [line[:2] for line in lines[2:8]] == ["✗ ", "✓ ", "✓ ", "✓ ", "✗ ", "✓ "]
    assert "(off by default)" in lines[2]
    sent = tools.registry.wire()
    costs = tools_cost(sent, Form.OPENAI_O200K, count_text).per_tool
    shown = {line.split()[1]: line for line in lines[2:8] if line.startswith("✓")}
    assert len(shown) == len(costs)
    for name, line in shown.items():
        assert f" ~{costs[name.replace('.', '_')]} tokens" in line


@pytest.mark.row("E39", "E46", "E87")
def test_the_rows_add_up_to_the_tools_part_of_the_request(tools):
    request = tools_cost(tools.registry.wire(), Form.OPENAI_O200K, count_text)
    text = tools.run(["tokens"]).text
    rows = [line.split() for line in text.splitlines()[2:-2]]
    assert sum(int(row[-1]) for row in rows) == request.total
    assert f"Total: {request.total} tokens" in text
    assert f"~{request.total} tokens" in tools.run([]).text


@pytest.mark.row("E84", "E100", "E106")
def test_enable_saves_and_holds_for_the_next_request(tools):
    cost = tools_cost([tools.registry.find("off").definition.wire], Form.OPENAI_O200K, count_text)
    assert "off" not in offered(tools)
    text = tools.run(["enable", "off"]).text
    assert text == f"✓ Enabled tool: off (+{cost.per_tool['off']} tokens)"
    assert tools.saved == {"off": True}
    assert "off" in offered(tools)


@pytest.mark.row("E85", "E104")
def test_disable_saves_and_holds_for_the_next_request(tools):
    text = tools.run(["disable", "custom.my.tool"]).text
    assert text.startswith("✗ Disabled tool: my.tool (-")
    assert tools.saved == {"my.tool": False}
    assert "my_tool" not in offered(tools)
    assert tools.registry.find("my.tool").reason == "disabled in the settings"


@pytest.mark.row("E98", "E101", "E107")
@pytest.mark.parametrize("action", ["enable", "disable", "info"])
def test_a_tool_that_is_not_there(tools, action):
    answer = tools.run([action, "nothing"])
    assert (answer.text, answer.done) == ("Tool not found: nothing", False)
    assert tools.saved == {}


@pytest.mark.row("E99", "E102")
def test_a_switch_that_is_already_so(tools):
    assert tools.run(["enable", "a"]).text == "Tool already enabled: a"
    assert tools.run(["disable", "off"]).text == "Tool already disabled: off"
    assert tools.saved == {}


@pytest.mark.row("E103", "E113")
def test_an_enforced_tool_stays_on(tools):
    answer = tools.run(["disable", "scan"])
    assert answer.text == "Cannot disable tool: scan (enforced by enterprise policy)"
    assert not answer.done
    assert tools.saved == {}
    assert "scan" in offered(tools)


def test_a_tool_over_the_limit_stays_off_and_the_reason_is_told():
    registry = ToolRegistry(
        [], lambda: ([custom("a"), custom("b", enabled=False)], []),
        ToolSettings({}, max_custom=1), lambda name, on: None,
    )  # fmt: skip
    command = ToolsCommand(registry, CostMeter(count_text), lambda: Form.JSON_LINES)
    answer = command.run(["enable", "b"])
    assert answer.text == "Tool stays off: b (over the limit of 1 custom tools)"
    assert not answer.done


def test_a_switch_that_cannot_be_saved_says_why_and_changes_nothing():
    def full(name, on):
        raise OSError("the disk is full")

    registry = ToolRegistry([], lambda: ([custom("a")], []), ToolSettings({}), full)
    command = ToolsCommand(registry, CostMeter(count_text), lambda: Form.JSON_LINES)
    answer = command.run(["disable", "a"])
    assert answer.text == "Cannot save that a is disabled: the disk is full"
    assert not answer.done
    assert registry.find("a").enabled


@pytest.mark.row("E86")
def test_info_shows_what_the_model_sees(tools):
    text = tools.run(["info", "a"]).text
    assert text.startswith("Tool: a\nDescription: a does a thing\nSource: [Custom]\nEnabled: Yes\n")
    assert json.loads(text.partition("Parameters:\n")[2]) == dict(custom("a").parameters)


@pytest.mark.parametrize("action", ["enable", "disable", "info"])
def test_a_missing_name_is_answered_with_the_usage(tools, action):
    assert tools.run([action]).text == f"Usage: /tools {action} <name>"


def test_a_warm_listing_counts_nothing(tools):
    tools.run([])
    cold, warm = Counting(), Counting()
    ToolsCommand(tools.registry, CostMeter(cold), lambda: Form.JSON_LINES).run([])
    ToolsCommand(tools.registry, CostMeter(warm), lambda: Form.OPENAI_O200K).run([])
    assert cold.calls > 0
    assert warm.calls == 0


def opta_tools(tools, *arguments):
    parser = argparse.ArgumentParser(prog="opta tools")
    configure(parser)
    out, err = io.StringIO(), io.StringIO()
    code = run(parser.parse_args(arguments), tools, out, err)
    return code, out.getvalue(), err.getvalue()


@pytest.mark.parametrize("arguments", [(), ("list",), ("tokens",), ("info", "a"), ("enable", "a")])
def test_the_command_prints_what_slash_tools_prints(tools, arguments):
    assert opta_tools(tools, *arguments) == (0, f"{tools.run(list(arguments)).text}\n", "")


@pytest.mark.parametrize(
    ("arguments", "code"), [(("info", "nothing"), 1), (("enable",), 2), (("disable", "scan"), 1)]
)
def test_what_could_not_be_done_goes_to_stderr_with_an_exit_code(tools, arguments, code):
    found, out, err = opta_tools(tools, *arguments)
    assert (found, out) == (code, "")
    assert err


@pytest.mark.row("E8")
@pytest.mark.parametrize("name", ["git", "a"])
def test_every_tool_has_all_its_facts(tools, name):
    facts = json.loads(opta_tools(tools, "info", name, "--format", "json")[1])
    texts = {key: facts[key] for key in ("name", "description", "source")}
    assert all(isinstance(text, str) and text for text in texts.values())
    assert facts["parameters"]["type"] == "object"
    assert facts["enabled"] is True
    assert facts["tokens"] > 0
    assert tools.registry.find(name).definition.action


def test_json_holds_the_same_facts(tools):
    code, out, _ = opta_tools(tools, "--format", "json")
    data = json.loads(out)
    assert code == 0
    assert [tool["name"] for tool in data["tools"]] == [
        "file_search", "git", "a", "my.tool", "off", "scan",
    ]  # fmt: skip
    on = sum(tool["tokens"] for tool in data["tools"] if tool["enabled"])
    assert data["total_tokens"] == on + data["list_tokens"] == on + 12
    assert json.loads(opta_tools(tools, "info", "a", "--format", "json")[1])["path"] == "/a.json"
    assert json.loads(opta_tools(tools, "tokens", "--format", "json")[1])["total_tokens"] == on + 12
    assert json.loads(opta_tools(tools, "disable", "a", "--format", "json")[1])["changed"] is True
    code, out, _ = opta_tools(tools, "info", "x", "--format", "json")
    assert (code, json.loads(out)["error"]) == (1, "not_found")
