"""What tools cost: the published figures, sums that are exact, counts that are remembered."""

from __future__ import annotations

import json

import hypothesis.strategies as st
import pytest
from hypothesis import example, given, settings

from agent.tokens import count_messages, count_text
from tools.cost import CostMeter, Form, form_of, tool_tokens, tools_cost

MESSAGES = [
    {"role": "system", "content": "You are a helpful assistant that can answer to questions about "
     "the weather."},
    {"role": "user", "content": "What's the weather like in San Francisco?"},
]  # fmt: skip
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_current_weather",
        "description": "Get the current weather in a given location",
        "parameters": {
            "type": "object",
            "properties": {
                "location": {
                    "type": "string",
                    "description": "The city and state, e.g. San Francisco, CA",
                },
                "unit": {
                    "type": "string",
                    "description": "The unit of temperature to return",
                    "enum": ["celsius", "fahrenheit"],
                },
            },
            "required": ["location"],
        },
    },
}


def function(name, description="d", /, **properties):
    parameters = {"type": "object", "properties": properties}
    return {
        "type": "function",
        "function": {"name": name, "description": description, "parameters": parameters},
    }


@pytest.mark.parametrize(
    ("model", "total"),
    [("gpt-4o", 101), ("gpt-4o-mini", 101), ("gpt-3.5-turbo", 105), ("gpt-4", 105)],
)
def test_the_figures_published_for_the_cookbook_example(model, total):
    form = form_of(model)
    tools = tools_cost([WEATHER], form, count_text)
    assert count_messages(MESSAGES, form.encoding) + tools.total == total


@pytest.mark.parametrize(
    ("model", "form"),
    [
        ("gpt-4o", Form.OPENAI_O200K),
        ("gpt-4.1-nano", Form.OPENAI_O200K),
        ("gpt-5.2-codex", Form.OPENAI_O200K),
        ("openai/gpt-5", Form.OPENAI_O200K),
        ("openrouter/openai/o3-mini", Form.OPENAI_O200K),
        ("o1", Form.OPENAI_O200K),
        ("chatgpt-4o-latest", Form.OPENAI_O200K),
        ("codex-mini-latest", Form.OPENAI_O200K),
        ("ft:gpt-4o-mini:org::id", Form.OPENAI_O200K),
        ("gpt-4", Form.OPENAI_CL100K),
        ("gpt-4-turbo-2024-04-09", Form.OPENAI_CL100K),
        ("openai/gpt-3.5-turbo", Form.OPENAI_CL100K),
        ("qwen3-coder", Form.JSON_LINES),
        ("anthropic/claude-sonnet-5", Form.JSON_LINES),
        ("gpt4all-j", Form.JSON_LINES),
        ("nomic/gpt-4", Form.JSON_LINES),
        ("o200", Form.JSON_LINES),
        ("", Form.JSON_LINES),
    ],
)
def test_the_form_follows_from_the_name_of_the_model(model, form):
    assert form_of(model) is form


@pytest.mark.row("E46")
def test_rows_and_list_add_up_and_the_list_counts_once():
    tools = [WEATHER, function("b", x={"type": "string"}), function("c")]
    for form in (Form.OPENAI_O200K, Form.OPENAI_CL100K):
        cost = tools_cost(tools, form, count_text)
        assert cost.list_tokens == 12
        assert cost.total == sum(cost.per_tool.values()) + 12
    assert tools_cost([], Form.OPENAI_O200K, count_text).total == 0
    assert tools_cost(tools, Form.JSON_LINES, count_text).list_tokens == 0


def test_one_final_full_stop_is_not_counted():
    plain = function("a", "Say it", x={"type": "string", "description": "What"})
    dotted = function("a", "Say it.", x={"type": "string", "description": "What."})
    count = [tool_tokens(tool, Form.OPENAI_O200K, count_text) for tool in (plain, dotted)]
    assert count[0] == count[1]
    twice = function("a", "Say it..", x={"type": "string", "description": "What"})
    assert tool_tokens(twice, Form.OPENAI_O200K, count_text) > count[0]


def test_what_is_nested_is_counted_too():
    flat = function("a", x={"type": "array"})
    nested = function("a", x={"type": "array", "items": {"type": "string", "enum": ["one", "two"]}})
    extra = count_text(
        json.dumps({"items": nested["function"]["parameters"]["properties"]["x"]["items"]})
    )
    form = Form.OPENAI_O200K
    assert tool_tokens(nested, form, count_text) == tool_tokens(flat, form, count_text) + extra


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9999, 9999) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner),
    max_leaves=6,
)  # fmt: skip
SCHEMAS = (
    st.dictionaries(
        st.sampled_from(["type", "description", "enum", "items", "anyOf", "properties", "default"]),
        JSON,
    )
    | st.booleans()
)
TOOLS = st.lists(
    st.builds(
        lambda name, description, properties: function(name, description, **properties),
        st.text("abcdefghij_-", min_size=1, max_size=12),
        st.text(max_size=40),
        st.dictionaries(st.text(max_size=6), SCHEMAS, max_size=3),
    ),
    max_size=5,
    unique_by=lambda tool: tool["function"]["name"],
)  # fmt: skip


@settings(max_examples=150)
@given(TOOLS, st.sampled_from(Form))
def test_any_schema_can_be_counted(tools, form):
    cost = tools_cost(tools, form, count_text)
    assert len(cost.per_tool) == len(tools)
    assert cost.total >= len(tools)


@settings(max_examples=150)
@given(TOOLS)
@example([function("a", "}\n\n"), function("b", "\n}"), function("c", "/")])
def test_lines_of_json_cost_as_much_alone_as_together(tools):
    together = count_text("".join(f"{json.dumps(tool, ensure_ascii=False)}\n" for tool in tools))
    assert tools_cost(tools, Form.JSON_LINES, count_text).total == together


class Counter:
    def __init__(self):
        self.calls = 0

    def __call__(self, text, encoding):
        self.calls += 1
        return count_text(text, encoding)


def test_counts_are_remembered_across_runs_by_schema_and_form(tmp_path):
    path = tmp_path / "state" / "costs.json"
    first = CostMeter(Counter(), path).measure([WEATHER, function("b")], Form.OPENAI_O200K)
    warm = Counter()
    meter = CostMeter(warm, path)
    assert meter.measure([function("b"), WEATHER], Form.OPENAI_O200K).per_tool == first.per_tool
    assert warm.calls == 0
    assert meter.measure([WEATHER], Form.OPENAI_CL100K).total == 71
    assert warm.calls > 0
    changed = function("b", "another description")
    assert meter.measure([changed], Form.OPENAI_O200K).per_tool != first.per_tool


@pytest.mark.parametrize("content", [b"{", b"[1]", b'{"a": "x"}', b"\xff"])
def test_a_damaged_memory_is_forgotten(tmp_path, content):
    path = tmp_path / "costs.json"
    path.write_bytes(content)
    assert CostMeter(count_text, path).measure([WEATHER], Form.OPENAI_O200K).total == 68
    assert json.loads(path.read_bytes())


def test_a_memory_that_cannot_be_written_is_no_error(tmp_path):
    (tmp_path / "file").write_text("")
    meter = CostMeter(count_text, tmp_path / "file" / "costs.json")
    assert meter.measure([WEATHER], Form.OPENAI_O200K).total == 68
