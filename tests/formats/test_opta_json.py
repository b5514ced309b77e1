"""What an Opta JSON tool file may hold, and what is said when it holds something else."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from tools.actions import PlanAction, Shell
from tools.definition import Origin, Scope, Source
from tools.formats import read
from tools.formats.opta_json import argument_variable
from tools.formats.problems import ToolFileError

ORIGIN = Origin(Source.CUSTOM, "opta-json", Scope.LOCAL, Path("/project/.opta/tools/t.json"))

DEPLOY = b"""{
  "name": "deploy",
  "description": "Deploy the current project to production",
  "parameters": {
    "type": "object",
    "properties": {
      "environment": { "type": "string", "description": "Target environment (staging/production)" }
    },
    "required": ["environment"]
  },
  "command": "bash scripts/deploy.sh $OPTA_TOOL_ARG_ENVIRONMENT",
  "timeout": 60000
}
"""


def tool(**changes):
    data = {**json.loads(DEPLOY), "timeout": 30000, **changes}
    return {key: value for key, value in data.items() if value is not ...}


def load(data):
    (definition,), warnings = read(_bytes(data), ORIGIN)
    return definition, warnings


def refused(data):
    with pytest.raises(ToolFileError) as caught:
        read(_bytes(data), ORIGIN)
    return list(caught.value.problems)


def _bytes(data):
    return data if isinstance(data, bytes) else json.dumps(data, indent=2).encode()


@pytest.mark.row("A7", "A13", "A16")
def test_the_published_example_loads_as_written():
    definition, warnings = load(DEPLOY)
    written = json.loads(DEPLOY)
    assert definition.wire == {
        "type": "function",
        "function": {key: written[key] for key in ("name", "description", "parameters")},
    }
    assert definition.limits.timeout_ms == 60000
    assert definition.action == PlanAction(definition.action.steps)
    assert definition.action.steps[0].command == Shell("sh", written["command"])
    assert definition.origin.line == 2
    assert [w.warning for w in warnings] == [True]


@pytest.mark.row("A1")
@pytest.mark.parametrize("key", ["name", "description", "parameters", "command"])
def test_a_required_field_that_is_missing_is_named(key):
    (problem,) = refused(tool(**{key: ...}))
    assert problem.key == f"$.{key}"
    assert "missing" in problem.message
    assert str(problem).startswith(f"{ORIGIN.path}:1:1: $.{key}: ")


@pytest.mark.row("A1")
def test_the_timeout_may_be_left_out():
    assert load(tool(timeout=...))[1] == []


@pytest.mark.row("A2", "A3")
@pytest.mark.parametrize("key", ["name", "description", "command"])
@pytest.mark.parametrize("value", ["", "  \n", 3, None, [], True])
def test_texts_must_be_texts_with_something_in_them(key, value):
    (problem,) = refused(tool(**{key: value}))
    assert problem.key == f"$.{key}"
    assert str(ORIGIN.path) in str(problem)


@pytest.mark.row("A3", "A4")
def test_description_and_parameters_reach_the_model_unchanged():
    parameters = {
        "type": "object",
        "properties": {
            "z": {"type": "array", "items": {"type": "integer", "minimum": 1}, "x-own": [1, None]},
            "a": {"enum": ["é", "b"], "default": "b"},
        },
        "required": ["z"],
        "additionalProperties": False,
    }
    description = 'Line one\nline "two"\t{not} $substituted 日本'
    function = load(tool(description=description, parameters=parameters))[0].wire["function"]
    assert function["description"] == description
    assert function["parameters"] == parameters


@pytest.mark.row("A6")
def test_without_a_timeout_it_is_thirty_seconds():
    assert load(tool(timeout=...))[0].limits.timeout_ms == 30000


@pytest.mark.row("A15")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"[" + DEPLOY + b"]", "one file defines one tool"),
        (DEPLOY + DEPLOY, "text after the end"),
        (b'"deploy"', "one file defines one tool"),
    ],
)
def test_one_file_is_one_tool(text, said):
    (problem,) = refused(text)
    assert said in problem.message


@pytest.mark.row("A28", "A38")
@pytest.mark.parametrize(
    ("parameters", "key"),
    [
        ([], "$.parameters"),
        ("x", "$.parameters"),
        ({"properties": {}}, "$.parameters"),
        ({"type": "array", "properties": {}}, "$.parameters.type"),
        ({"type": "object"}, "$.parameters.properties"),
        ({"type": "object", "properties": []}, "$.parameters.properties"),
        ({"type": "object", "properties": {"a": 5}}, "$.parameters.properties.a"),
        ({"type": "object", "properties": {"a": {"type": "text"}}},
         "$.parameters.properties.a.type"),
        ({"type": "object", "properties": {"a": {"pattern": "(("}}},
         "$.parameters.properties.a.pattern"),
        ({"type": "object", "properties": {"a": {"minimum": "1"}}},
         "$.parameters.properties.a.minimum"),
        ({"type": "object", "properties": {}, "required": "a"}, "$.parameters.required"),
        ({"type": "object", "properties": {"a": {}}, "required": ["a", "b"]},
         "$.parameters.required[1]"),
        ({"type": "object", "properties": {"a": {}}, "required": [1]}, "$.parameters.required[0]"),
        ({"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}}}, "$.parameters"),
    ],
)  # fmt: skip
def test_parameters_that_are_no_schema_are_refused_with_their_json_path(parameters, key):
    assert refused(tool(parameters=parameters))[0].key == key


def test_a_reference_to_another_place_is_refused_and_never_fetched(listening_port):
    port, accepted = listening_port
    schema = {"type": "object", "properties": {"a": {"$ref": f"http://127.0.0.1:{port}/a.json"}}}
    (problem,) = refused(tool(parameters=schema))
    assert "cannot fetch" in problem.message
    assert accepted() == 0


@pytest.mark.row("A29")
def test_malformed_json_is_placed_by_line_and_column():
    (problem,) = refused(b'{\n  "name": "x",\n  "description" "y"\n}')
    assert (problem.line, problem.column) == (3, 17)


@pytest.mark.row("A30")
@pytest.mark.parametrize(("timeout", "warned"), [(30000, False), (30001, True), (60000, True)])
def test_a_timeout_over_thirty_seconds_is_warned_about_by_name_and_value(timeout, warned):
    definition, warnings = load(tool(timeout=timeout))
    assert definition.limits.timeout_ms == timeout
    assert [("deploy" in w.message, str(timeout) in w.message) for w in warnings] == [
        (True, True)
    ] * warned


@pytest.mark.row("A31")
@pytest.mark.parametrize("timeout", [0, -1, 0.5, "30000", True, None, [], 10**12])
def test_a_timeout_that_is_no_sensible_number_is_refused(timeout):
    (problem,) = refused(tool(timeout=timeout))
    assert problem.key == "$.timeout"


def test_a_timeout_that_looks_like_seconds_is_warned_about():
    assert "milliseconds" in load(tool(timeout=30))[1][0].hint


@pytest.mark.row("A40")
@pytest.mark.parametrize("key", ["code", "script", "steps", "bash", "schema"])
def test_a_file_with_a_command_runs_only_the_command(key):
    definition, (warning,) = load(tool(**{key: "import os"}))
    assert definition.action == load(tool())[0].action
    assert warning.warning
    assert warning.key == f"$.{key}"


def test_all_problems_of_a_file_come_at_once():
    broken = tool(name=1, command="", timeout=-1, parameters={"type": "object", "properties": 0})
    assert {p.key for p in refused(broken)} == {
        "$.name", "$.command", "$.timeout", "$.parameters.properties",
    }  # fmt: skip


@pytest.mark.row("A22")
@pytest.mark.parametrize(
    ("name", "variable"),
    [
        ("environment", "OPTA_TOOL_ARG_ENVIRONMENT"),
        ("my_value", "OPTA_TOOL_ARG_MY_VALUE"),
        ("dry-run", "OPTA_TOOL_ARG_DRY_RUN"),
        ("größe", "OPTA_TOOL_ARG_GR_SSE"),
    ],
)
def test_the_variable_of_an_argument(name, variable):
    assert argument_variable(name) == variable


@pytest.mark.parametrize("names", [("env", "ENV"), ("dry-run", "dry_run"), ("a.b", "a b")])
def test_two_properties_with_one_variable_are_refused(names):
    (problem,) = refused(
        tool(parameters={"type": "object", "properties": {name: {} for name in names}})
    )
    assert all(repr(name) in problem.message for name in names)


def test_the_same_keys_are_read_from_yaml():
    path = ORIGIN.path.with_suffix(".yaml")
    text = (
        b"name: hi\ndescription: Greets\nparameters: {type: object, properties: {}}\n"
        b"command: echo hi\n"
    )
    (definition,), _ = read(text, Origin(Source.CUSTOM, "opta-json", Scope.USER, path))
    assert definition.name == "hi"


def test_characters_nobody_can_see_are_warned_about_and_shown():
    _, (warning,) = load(tool(description="Deploys\u202e things"))
    assert "U+202E" in warning.message
    (problem,) = refused(tool(name="a\x1b[31mb"))
    assert "\x1b" not in str(problem)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-99999, 99999) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)


@settings(max_examples=150)
@given(
    st.sampled_from(["name", "description", "command", "timeout", "parameters"]),
    JSON,
    st.sampled_from([(), ("type",), ("properties",), ("properties", "environment"), ("required",)]),
)
def test_any_value_anywhere_loads_or_is_refused_with_a_place(key, value, inner):
    data = copy.deepcopy(tool())
    if key == "parameters" and inner:
        target = data["parameters"]
        for part in inner[:-1]:
            target = target[part]
        target[inner[-1]] = value
    else:
        data[key] = value
    problems = ()
    try:
        read(_bytes(data), ORIGIN)
    except ToolFileError as error:
        problems = error.problems
    assert all(p.key.startswith("$") and p.line and p.column for p in problems)
