"""What `[custom_tools.<name>]` tables of a Codex config.toml become."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.support.tool_files import EXAMPLES, origin
from tools.actions import Argv, PlanEnvironment, Shell
from tools.definition import Risk
from tools.formats import codex, read
from tools.formats.findings import MOST
from tools.formats.problems import ToolFileError
from tools.formats.toml_positions import key_positions


def load(text, profile=""):
    data = text if isinstance(text, bytes) else text.encode()
    return codex.read(data, origin("config.toml"), profile=profile)


def tool(more="", command='["prog", "arg"]'):
    (definition,), problems = load(f"[custom_tools.t]\ncommand = {command}\n{more}\n")
    assert problems == []
    return definition


def rejected(more):
    """Return the problems of a table, next to which another tool loads."""
    (other,), problems = load(f"[custom_tools.t]\n{more}\n[custom_tools.u]\ncommand = 'x'\n")
    assert other.name == "u"
    return {problem.key: problem for problem in problems}


@pytest.mark.row("B17", "B18", "B20")
def test_the_example_gives_three_tools_sorted_by_name():
    definitions, problems = load((EXAMPLES / "001" / "config.toml").read_bytes())
    assert problems == []
    assert [(d.name, d.wire_name, d.description) for d in definitions] == [
        ("count_files", "count_files", "Count files under the repository"),
        ("custom.echo", "custom_echo", "A name the API refuses"),
        ("echo_demo", "echo_demo", "Echo text"),
    ]
    count, echo, demo = definitions
    assert [d.origin.line for d in definitions] == [12, 16, 2]
    assert demo.origin.format == "codex"
    assert demo.parameters["required"] == ["text"]
    assert demo.action.environment.variables == {"CUSTOM_TOOL_PREFIX": "prefix: "}
    assert (demo.parallel, demo.limits.timeout_ms) == (True, 4000)
    assert (count.parallel, count.limits.timeout_ms) == (False, 60000)
    assert echo.action.steps[0].command == Shell("sh", "echo $CODEX_TOOL_NAME")


@pytest.mark.row("B8")
def test_an_array_is_started_without_a_shell_and_text_with_one():
    argv = tool().action.steps[0].command
    assert argv == Argv(("prog", "arg"), placeholders=False)
    assert tool(command="'a {X} | b'").action.steps[0].command == Shell("sh", "a {X} | b")


@pytest.mark.row("B9")
def test_without_a_description_it_says_what_it_runs():
    assert tool().description == "Run prog"
    assert tool(command="'a b | c'").description == "Run a"
    assert tool("description = 'Does it'").description == "Does it"


@pytest.mark.row("B10")
def test_parameters_are_json_schema():
    assert tool().parameters == {"type": "object", "properties": {}}
    assert tool("parameters = { required = [] }").parameters == {
        "type": "object", "properties": {}, "required": [],
    }  # fmt: skip
    text = "[custom_tools.t.parameters]\ntype = 'object'\nproperties.a = {type = 'integer'}"
    assert tool(text).parameters == {"type": "object", "properties": {"a": {"type": "integer"}}}


def test_environment_and_directory_are_taken_as_written():
    inline = tool("cwd = 'sub'\nenv = { A = '{HOME}', B = 1 }").action.environment
    assert inline == PlanEnvironment(
        variables={"A": "{HOME}", "B": "1"},
        working_directory="sub",
        placeholders=False,
        confined=True,
    )
    table = tool("cwd = 'sub'\n[custom_tools.t.env]\nA = '{HOME}'\nB = '1'").action.environment
    assert table == inline


def test_the_smaller_of_two_timeouts_counts():
    assert tool("timeout = 5000").limits.timeout_ms == 5000
    assert tool("timeout_ms = 4000").limits.timeout_ms == 4000
    assert tool("timeout = 5000\ntimeout_ms = 4000").limits.timeout_ms == 4000
    assert tool().limits.timeout_ms == 60000


def test_escalated_tools_are_elevated_and_critical():
    definition = tool("with_escalated_permissions = true")
    assert (definition.security.privilege, definition.risk) == ("elevated", Risk.CRITICAL)
    plain = tool("with_escalated_permissions = false")
    assert (plain.security.privilege, plain.risk) == ("same-as-user", Risk.HIGH)


@pytest.mark.row("B16")
def test_an_unknown_key_is_a_warning_that_names_it():
    (definition,), (warning,) = load("[custom_tools.t]\ncommand = 'x'\ntimeuot = 5\n")
    assert definition.name == "t"
    assert (warning.key, warning.hint) == ("$.custom_tools.t.timeuot", "did you mean timeout?")
    assert (warning.severity, warning.line, warning.tool) == ("warning", 3, "t")


@pytest.mark.row("B16")
@pytest.mark.parametrize(
    ("more", "key"),
    [
        ("", "command"),
        ("command = []", "command"),
        ("command = ''", "command"),
        ("command = ['']", "command"),
        ("command = ['a', 1]", "command"),
        ("command = 5", "command"),
        ("command = 'a\\u0000'".replace("'", '"'), "command"),
        ("command = 'x'\ndescription = 5", "description"),
        ("command = 'x'\nparameters = 5", "parameters"),
        ("command = 'x'\nparameters = {type = 'array'}", "parameters.type"),
        ("command = 'x'\nparameters = {properties = {a = {minimum = nan}}}",
         "parameters.properties.a.minimum"),
        ("command = 'x'\nenv = {A = ['b']}", "env"),
        ("command = 'x'\ntimeout = 0", "timeout"),
        ("command = 'x'\ntimeout_ms = '5'", "timeout_ms"),
        ("command = 'x'\nparallel = 1", "parallel"),
        ("command = 'x'\nwith_escalated_permissions = 'no'", "with_escalated_permissions"),
    ],
)  # fmt: skip
def test_a_wrong_value_rejects_that_tool_alone(more, key):
    problems = rejected(more)
    assert list(problems) == [f"$.custom_tools.t.{key}"]
    line = len(more.split("\n")) + 1 if more else 1
    assert all((p.warning, p.line, p.tool) == (False, line, "t") for p in problems.values())


@pytest.mark.parametrize("cwd", ["..", "../x", "a/../../b"])
def test_a_directory_outside_of_the_workspace_is_refused(cwd):
    (problem,) = rejected(f"command = 'x'\ncwd = '{cwd}'").values()
    assert "outside of the workspace" in problem.message


def test_variables_that_opta_sets_cannot_be_set():
    (definition,), (warning,) = load(
        "[custom_tools.t]\ncommand = 'x'\nenv = {CODEX_TOOL_NAME = 'y', A = 'b'}"
    )
    assert warning.key == "$.custom_tools.t.env.CODEX_TOOL_NAME"
    assert definition.action.environment.variables == {"A": "b"}


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("[custom_tools.a]\ncommand = \n", (2, 11)),
        ("a = 1\na = 2\n", (2, 6)),
        ("a = [\n1,\n", (2, 3)),
        (b"a = '\xe9'", (1, 6)),
    ],
)
def test_text_that_is_not_toml_is_one_error_with_its_place(text, place):
    with pytest.raises(ToolFileError) as caught:
        load(text)
    (problem,) = caught.value.problems
    assert (problem.line, problem.column) == place


def test_values_nested_too_deep_are_one_error():
    with pytest.raises(ToolFileError) as caught:
        load("a = " + "[" * 10_000)
    assert "nested too deeply" in str(caught.value)
    keys = ".".join(["a"] * 500)
    (problem,) = rejected(f"command = 'x'\n{keys} = 1").values()
    assert "deeper than 64" in problem.message


def test_what_is_codexs_own_is_not_looked_at():
    assert load("model = 'x'\n[mcp_servers.a]\ncommand = 'b'\n") == ([], [])


def test_a_profile_adds_tools_and_wins():
    text = (
        "[custom_tools.a]\ncommand = 'root'\n[custom_tools.b]\ncommand = 'root'\n"
        "[profiles.work.custom_tools.b]\ncommand = 'work'\n"
        "[profiles.work.custom_tools.c]\ncommand = 'work'\n"
    )

    def commands(text, profile=""):
        definitions, problems = load(text, profile)
        assert problems == []
        return {d.name: d.action.steps[0].command.text for d in definitions}

    assert commands(text) == {"a": "root", "b": "root"}
    assert commands(text, "work") == {"a": "root", "b": "work", "c": "work"}
    assert commands(f"profile = 'work'\n{text}") == {"a": "root", "b": "work", "c": "work"}
    assert commands(text, "play") == {"a": "root", "b": "root"}
    assert codex.profile_names(text.encode(), Path("c.toml")) == {"work"}
    table = codex.table_of(text.encode(), Path("c.toml"), "b", profile="work")
    assert table == {"command": "work"}


def test_tables_in_a_tool_file_are_sent_to_config_toml():
    with pytest.raises(ToolFileError) as caught:
        read(b"custom_tools: {a: {command: x}}", origin("t.yaml"))
    assert "config.toml" in str(caught.value)


PLACES = '''\
[custom_tools.a]
description = """
command = 1 \\"""
[custom_tools.b]
"""   # not [custom_tools.c]
  env.X = '[custom_tools.d]'
command = ["a", """b""", \'\'\'
timeout = 3\'\'\',
  "c"]
timeout = 0
[[other]]
parallel = 1
[ custom_tools . "b.c" ] # here
parallel = 1
'''


def test_a_problem_is_placed_at_its_key_whatever_texts_of_several_lines_hold():
    assert key_positions(PLACES) == {
        ("custom_tools", "a"): (1, 1),
        ("custom_tools", "a", "description"): (2, 1),
        ("custom_tools", "a", "env"): (6, 3),
        ("custom_tools", "a", "env", "X"): (6, 3),
        ("custom_tools", "a", "command"): (7, 1),
        ("custom_tools", "a", "timeout"): (10, 1),
        ("other",): (11, 1),
        ("other", "parallel"): (12, 1),
        ("custom_tools", "b.c"): (13, 1),
        ("custom_tools", "b.c", "parallel"): (14, 1),
    }
    _, problems = load(PLACES)
    assert [(p.line, p.tool) for p in problems] == [(10, "a"), (14, "b.c"), (13, "b.c")]


@pytest.mark.parametrize(
    "text",
    [
        "a = '" + '\\"""' * 200_000 + "'\n",
        "#" + "\"\"\"'''" * 150_000,
        "a = " + "1" * 900_000,
        ".".join("a" * 300_000) + " = 1\n",
        "[" + ".".join("a" * 200_000) + "]\n" + "b = 1\n" * 50_000,
    ],
    ids=["quotes", "comment", "number", "name", "table"],
)
def test_places_are_found_in_linear_time(text):
    started = time.process_time()
    key_positions(text)
    assert time.process_time() - started < 10


def test_very_many_warnings_are_cut_short_and_stay_warnings():
    text = "".join(f"[custom_tools.t{n}]\ncommand = 'x'\nwhat = 1\n" for n in range(150))
    definitions, problems = load(text)
    assert len(definitions) == 150
    assert {problem.severity for problem in problems} == {"warning"}
    assert len(problems) == MOST + 1
