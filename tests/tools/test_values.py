"""Values of placeholders: defaults, transforms, formats, and what becomes words (X94-X104)."""

from __future__ import annotations

import json
import shlex
import time
from datetime import datetime
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from tests.support.tool_files import EXAMPLES, load
from tools.actions import Parameter, PlanAction
from tools.definition import Origin, Source, ToolDefinition, ToolError
from tools.engine.conversions import (
    TRANSFORMS,
    ConversionError,
    as_picture,
    picture_problem,
    transform,
    transform_problem,
)
from tools.engine.expressions import check
from tools.engine.predefined import FIXED_TIME, predefined_values
from tools.engine.template import Names, as_text, parse
from tools.engine.template_shell import split_words
from tools.engine.values import Values, parameter_problems, placeholder_problems
from tools.formats.references import PREDEFINED
from tools.formats.schema_generation import schema_of
from tools.schema import check_arguments

NOW = {FIXED_TIME: "2026-03-04T05:06:07+02:00", "HOME": "/home/ann"}
SYSTEM = predefined_values("demo", Path("/work"), Path("/tmp"), NOW)


def declare(*parameters):
    return {parameter.name: parameter for parameter in parameters}


def default(name, value, **more):
    return Parameter(name, default=value, has_default=True, **more)


def value(source, *parameters, steps=None, **arguments):
    """Return the value of the one placeholder that is all of `source`."""
    declared = declare(*parameters)
    names = Names(frozenset(declared), PREDEFINED, frozenset({"step1"}))
    (place,) = parse(source, names).placeholders
    assert placeholder_problems(place, names) == []
    return Values(declared, arguments, SYSTEM, steps).of([place], names)[place.key]


@pytest.mark.parametrize(
    ("kind", "given_value", "expected"),
    [
        pytest.param("string", "a b", "a b", marks=pytest.mark.row("C293", "C115")),
        pytest.param("number", 5, "5", marks=pytest.mark.row("C294")),
        pytest.param("number", 2.5, "2.5", marks=pytest.mark.row("C294")),
        pytest.param("number", 5.0, "5", marks=pytest.mark.row("C294")),
        ("number", -0.25, "-0.25"),
        ("number", 1e21, "1e+21"),
        ("number", 10**20, "1" + "0" * 20),
        ("boolean", True, "true"),
        ("boolean", False, "false"),
        pytest.param("array", ["a b", 2, True], ("a b", "2", "true"),
                     marks=pytest.mark.row("C296", "C118")),
        ("array", [], ()),
        pytest.param("object", {"k": [1, "é"]}, '{"k":[1,"é"]}',
                     marks=pytest.mark.row("C297", "C119")),
    ],
)  # fmt: skip
def test_text_of_a_value(kind, given_value, expected):
    assert value("{P}", Parameter("P", kind), P=given_value) == expected


@pytest.mark.row("C296")
def test_the_elements_of_an_array_are_words_or_joined_by_the_delimiter():
    assert as_text(value("{P}", Parameter("P", "array"), P=["a b", "c"])) == "a b c"
    joined = value("{P}", Parameter("P", "array", delimiter=", "), P=["a b", "c"])
    assert joined == ("a b, c",)
    assert value("{P}", Parameter("P", "array", delimiter=","), P=[]) == ()


def test_a_parameter_without_a_value_is_empty():
    assert value("{P}", Parameter("P")) == ""
    assert value("{P}", Parameter("P", format="--p={value}")) == ""
    assert value("{P}", Parameter("P", transform="value.toUpperCase()")) == ""
    assert value("{P:uppercase}", Parameter("P")) == ""


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        pytest.param("lowercase", "Äb", "äb", marks=pytest.mark.row("C270", "C268")),
        pytest.param("uppercase", "ab", "AB", marks=pytest.mark.row("C271")),
        pytest.param("trim", " a \n", "a", marks=pytest.mark.row("C272")),
        pytest.param("base64encode", "hi", "aGk=", marks=pytest.mark.row("C273")),
        pytest.param("base64decode", "aGk=", "hi", marks=pytest.mark.row("C274")),
        pytest.param("urlencode", "a b&c", "a%20b%26c", marks=pytest.mark.row("C275")),
        pytest.param("urldecode", "a%20b%26c", "a b&c", marks=pytest.mark.row("C276")),
        pytest.param("jsonescaped", 'a"b\n', 'a\\"b\\n', marks=pytest.mark.row("C277")),
        pytest.param("value.toUpperCase().replace(/\\s+/g, '-')", "a b", "A-B",
                     marks=pytest.mark.row("C269")),
        ("lowercase", ["A", "B"], ("a", "b")),
        ("value.concat('z')", ["A"], ("A", "z")),
    ],
)  # fmt: skip
def test_the_transform_of_a_parameter(name, before, after):
    assert transform_problem(name) == ""
    assert value("{P}", Parameter("P", transform=name), P=before) == after


@pytest.mark.row("C249")
def test_a_transform_in_the_placeholder_comes_after_that_of_the_parameter():
    assert value("{P:lowercase}", Parameter("P"), P="ABC") == "abc"
    assert value("{P:base64decode}", Parameter("P", transform="trim"), P=" aGk= ") == "hi"
    assert value("{P:uppercase}", Parameter("P", format="-x {value}"), P="a") == "-x A"


@pytest.mark.row("C277")
@given(st.text())
def test_jsonescaped_stands_within_a_json_text(text):
    assert json.loads(f'"{TRANSFORMS["jsonescaped"](text)}"') == text


@pytest.mark.row("C278")
@given(st.text().map(lambda text: text.replace("\0", "")))
def test_shellescaped_is_one_shell_word(text):
    escaped = transform("shellescaped", text)
    assert shlex.split(escaped) == [text]
    assert split_words(escaped) == [text]


def test_bytes_that_are_no_text_are_encoded_as_they_were():
    text = b"\xff a".decode("utf-8", "surrogateescape")
    assert transform("base64encode", text) == "/yBh"
    assert transform("urlencode", text) == "%FF%20a"
    assert transform("value", text) == text


@given(st.text().map(lambda text: text.encode("utf-8", "replace").decode()))
def test_encoding_and_decoding_are_inverse(text):
    assert transform("base64decode", transform("base64encode", text)) == text
    assert transform("urldecode", transform("urlencode", text)) == text


@pytest.mark.parametrize(
    ("name", "text"),
    [
        pytest.param("base64decode", "a!", marks=pytest.mark.row("C274")),
        pytest.param("base64decode", "/w==", marks=pytest.mark.row("C274")),
        ("urldecode", "%ff"),
        ("value.nope()", "a"),
        ("(() => { while (true); })()", "a"),
    ],
)
def test_a_transform_that_fails_names_the_parameter(name, text):
    with pytest.raises(ToolError, match=r"transform of P failed.*Nothing was done"):
        Values(declare(Parameter("P", transform=name)), {"P": text}, SYSTEM)


@pytest.mark.row("C279")
@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("lowercas", "Did you mean lowercase?"),
        ("rot13", "There are: lowercase"),
        ("value.(", "column"),
        ("value; value", "line 1, column 6"),
    ],
)
def test_an_unknown_transform_that_is_no_expression_is_a_problem(name, part):
    (problem,) = parameter_problems(declare(Parameter("P", transform=name)))
    assert (problem.parameter, problem.key) == ("P", "transform")
    assert part in problem.message


def test_a_placeholder_takes_named_transforms_only():
    names = Names(frozenset({"P"}))
    for source, part in [
        ("{P:lowercas}", "Did you mean lowercase?"),
        ("{P:format(0x)}", "no picture"),
        ("{P ? : 'b'}", "column"),
    ]:
        (place,) = parse(source, names).placeholders
        (message,) = placeholder_problems(place, names)
        assert part in message


@pytest.mark.parametrize(
    ("number", "picture", "text"),
    [
        pytest.param(5, "0000", "0005", marks=pytest.mark.row("C250")),
        (12345, "0000", "12345"),
        (-5, "000", "-005"),
        (2.5, "0", "3"),
        (-2.5, "0", "-3"),
        (1.005, "0.00", "1.01"),
        (2.5, "0.0#", "2.5"),
        (2, "0.##", "2"),
        (0, "#.##", ""),
        (0.5, "#.#", ".5"),
        (12, "#0#", "12"),
        (1e21, "0", "1" + "0" * 21),
        ("7", "00", "07"),
        (-0.001, "0.0", "0.0"),
    ],
)
def test_number_pictures(number, picture, text):
    assert picture_problem(picture) == ""
    assert as_picture(number, picture) == text


@settings(max_examples=200)
@given(st.integers(-(10**30), 10**30), st.integers(1, 40))
def test_a_picture_of_zeros_pads_and_loses_nothing(number, width):
    text = as_picture(number, "0" * width)
    assert int(text) == number
    assert len(text.lstrip("-")) == max(width, len(str(abs(number))))


def test_what_is_no_number_or_no_picture():
    for picture in ("", ".", "0x", "0.0.0", "C2", "0" * 101):
        assert "no picture" in picture_problem(picture)
    for bad in ("five", True, None, [1], "nan", "inf"):
        with pytest.raises(ConversionError, match="shows numbers"):
            as_picture(bad, "0")
    with pytest.raises(ToolError, match=r"\{P:format\(00\)\}.*'five' is none"):
        value("{P:format(00)}", Parameter("P"), P="five")


@pytest.mark.row("C250")
def test_a_picture_in_a_placeholder():
    assert value("{COUNT:format(0000)}", Parameter("COUNT", "number"), COUNT=5) == "0005"


@pytest.mark.row("C280")
def test_a_format_puts_the_value_into_text():
    assert value("{COUNT}", default("COUNT", 5, type="number", format="--count={value}")) == (
        "--count=5"
    )


@pytest.mark.row("C281", "C295")
@pytest.mark.parametrize(("debug", "text"), [(False, ""), (True, "--debug")])
def test_a_format_with_a_condition(debug, text):
    parameter = default("DEBUG", False, type="boolean", format="{value ? '--debug' : ''}")
    assert value("{DEBUG}", parameter, DEBUG=debug) == text
    assert parameter_problems(declare(parameter)) == []


@pytest.mark.parametrize("escape", [None, True])
def test_nothing_is_left_of_an_empty_format(escape):
    parameter = Parameter(
        "P", "boolean", format="{value ? '' : '-i'}", escape_shell=escape
    )  # fmt: skip
    assert not value("{P}", parameter, P=True)
    assert as_text(value("{P}", parameter, P=False)) == "-i"


HOSTILE = "a b'; $(id) \"x"


@pytest.mark.parametrize(
    ("format_text", "escape", "words"),
    [
        ("--name {value}", True, ("--name", HOSTILE)),
        ("--name={value}", True, (f"--name={HOSTILE}",)),
        ("--name='{value}'", None, (f"--name={HOSTILE}",)),
        ("--name='x y {value}' z", None, (f"--name=x y {HOSTILE}", "z")),
        ("it's {value}", True, (f"it's {HOSTILE}",)),
        ("{value ? '--flag on' : ''}", True, ("--flag", "on")),
        ("{value ? value + '!' : ''}", True, (f"{HOSTILE}!",)),
        ("{value:uppercase}{{value}}", True, (f"{HOSTILE.upper()}{{value}}",)),
        ("--name={value}", False, f"--name={HOSTILE}"),
        ("--name={value}", None, f"--name={HOSTILE}"),
    ],
)
def test_only_the_value_in_a_format_is_data(format_text, escape, words):
    parameter = Parameter("P", format=format_text, escape_shell=escape)
    assert value("{P}", parameter, P=HOSTILE) == words


@given(st.text())
def test_a_value_in_a_format_stays_whole(text):
    parameter = Parameter("P", format="--a '{value}' {value}", escape_shell=True)
    assert value("{P}", parameter, P=text) == ("--a", text, text)


@pytest.mark.row("C267")
def test_a_default_is_used_when_nothing_is_given():
    assert value("{FORMAT}", default("FORMAT", "3")) == "3"
    assert value("{FORMAT}", default("FORMAT", "3"), FORMAT="4") == "4"


REPO, DIR = Parameter("REPO"), default("DIR", "./checkout/{REPO}")


@pytest.mark.row("C266")
def test_a_default_may_refer_to_other_parameters():
    assert value("{DIR}", REPO, DIR, REPO="x") == ("./checkout/x",)
    assert value("{DIR}", DIR, REPO, REPO="x") == ("./checkout/x",)
    assert value("{DIR}", REPO, DIR, REPO="$(id) {OS}") == ("./checkout/$(id) {OS}",)
    assert value("{DIR}", REPO, DIR, REPO="x", DIR="./{REPO}") == "./{REPO}"
    filled_in_by_the_schema = {"REPO": "x", "DIR": DIR.default}
    assert value("{DIR}", REPO, DIR, **filled_in_by_the_schema) == ("./checkout/x",)


def test_defaults_refer_to_defaults_transforms_predefined_names_and_conditions():
    chain = [
        default("C", "{B}/{OS}{{B}}", transform="uppercase"),
        default("B", "{A:uppercase}-{N:format(00)}"),
        default("A", "x", transform="value + 'y'"),
        default("N", 3, type="number"),
        default("D", "{N > 2 ? 'many' : 'few'}"),
    ]
    assert value("{C}", *chain) == (f"XY-03/{SYSTEM['OS'].upper()}{{B}}",)
    assert value("{D}", *chain) == ("many",)
    assert parameter_problems(declare(*chain)) == []


def test_defaults_in_a_ring_are_a_problem_that_shows_it():
    ring = declare(
        default("A", "{B}"), default("B", "{C}x"), default("C", "{A}"), default("D", "{A}")
    )
    (problem,) = parameter_problems(ring)
    assert problem.key == "default"
    assert "A -> B -> C -> A" in problem.message
    with pytest.raises(ToolError, match="A -> B -> C -> A"):
        Values(ring, {}, SYSTEM)
    assert Values(ring, {"B": "b"}, SYSTEM).json == dict.fromkeys("ABCD", "b")
    (alone,) = parameter_problems(declare(default("A", "{A}")))
    assert "A -> A" in alone.message


def test_a_broken_default_is_a_problem():
    (problem,) = parameter_problems(declare(REPO, default("DIR", "{REPO:nope}")))
    assert (problem.parameter, problem.key) == ("DIR", "default")
    (problem,) = parameter_problems(declare(Parameter("P", format="{value ? : 1}")))
    assert (problem.parameter, problem.key) == ("P", "format")


def test_a_conditional_placeholder():
    flag, text = Parameter("A", "boolean"), Parameter("T")
    assert value("{A ? '--all' : ''}", flag, A=True) == "--all"
    assert value("{A ? '--all' : ''}", flag, A=False) == ""
    assert value("{T == 'x' ? T : OS}", text, T="x") == "x"
    one_word = Parameter("T", escape_shell=True)
    assert value("{T ? T : ''}", one_word, T="a b") == ("a b",)


def test_a_step_has_values_too():
    results = {("step1", "exit-code"): 0, ("step1", "output"): "{A} b"}
    steps = lambda name, wanted: results[name, wanted]  # noqa: E731
    assert value("{step1.exit-code}", steps=steps) == "0"
    assert value("{step1.output:uppercase}", steps=steps) == "{A} B"
    assert value("{step1.exit-code == 0 ? 'ok' : 'bad'}", steps=steps) == "ok"
    assert value("{step1.output}") == ""


@pytest.mark.parametrize(
    ("name", "text"),
    [
        pytest.param("TOOL_NAME", "demo", marks=pytest.mark.row("C251")),
        pytest.param("WORKSPACE", "/work", marks=pytest.mark.row("C252")),
        pytest.param("TEMP", "/tmp", marks=pytest.mark.row("C253")),
        pytest.param("HOME", "/home/ann", marks=pytest.mark.row("C254")),
        pytest.param("DATE", "2026-03-04", marks=pytest.mark.row("C256")),
        pytest.param("TIME", "05:06:07", marks=pytest.mark.row("C257")),
        pytest.param("TIMESTAMP", "2026-03-04T03:06:07Z", marks=pytest.mark.row("C258")),
    ],
)
def test_predefined_names(name, text):
    assert value(f"{{{name}}}") == text


@pytest.mark.row("C255")
def test_the_operating_system_is_one_of_three_names():
    assert value("{OS}") in {"windows", "linux", "macos"}


def test_the_times_are_those_of_now():
    before = datetime.now().astimezone().replace(microsecond=0)
    found = predefined_values("t", Path("/w"), Path("/tmp"), {})
    assert set(found) == PREDEFINED
    local = datetime.fromisoformat(f"{found['DATE']}T{found['TIME']}").astimezone()
    assert before <= local <= datetime.now().astimezone()
    assert datetime.fromisoformat(found["TIMESTAMP"]) == local
    with pytest.raises(ToolError, match="'noon', which is no time"):
        predefined_values("t", Path("/w"), Path("/tmp"), {FIXED_TIME: "noon"})


def test_a_declared_parameter_hides_a_predefined_name():
    assert value("{OS}", Parameter("OS"), OS="plan9") == "plan9"
    assert value("{OS}", Parameter("OS")) == ""


def test_a_deprecated_parameter_warns_when_it_is_given():
    old = default("OLD", "x", deprecated="use NEW instead")
    assert Values(declare(old), {"OLD": "y"}, SYSTEM).warnings == (
        "The parameter OLD is deprecated: use NEW instead.",
    )
    assert Values(declare(old), {}, SYSTEM).warnings == ()
    assert Values(declare(old), {"OLD": "x"}, SYSTEM).warnings == ()


# Values that a call gives


def called(given_value, kind="string", **validation):
    """Return what `{P}` stands for after a call with one argument was checked."""
    schema = schema_of({"P": {"type": kind, "validation": validation}})
    origin = Origin(Source.CUSTOM, "cycod")
    parameter = Parameter("P", kind)
    tool = ToolDefinition("demo", "d", schema, PlanAction((), declare(parameter)), origin)
    return value("{P}", parameter, **check_arguments(tool, {"P": given_value}, {}))


@pytest.mark.row("C116")
def test_numbers_are_accepted_and_words_are_not():
    assert called(5, "number") == "5"
    assert called(2.5, "number") == "2.5"
    with pytest.raises(ToolError, match=r"P: got \"x\", wanted number"):
        called("x", "number")


@pytest.mark.row("C117")
def test_booleans_are_accepted_as_values_and_as_words():
    assert [called(given, "boolean") for given in (True, False, "true", "false")] == [
        "true", "false", "true", "false",
    ]  # fmt: skip
    with pytest.raises(ToolError, match="wanted boolean"):
        called("perhaps", "boolean")


def test_a_pattern_ends_where_the_text_ends():
    assert called("abc", pattern="^[a-z]+$") == "abc"
    assert called("1 abc", pattern="[a-z]$") == "1 abc"
    assert called("a$", pattern="[$]$") == "a$"
    with pytest.raises(ToolError, match="wanted text matching"):
        called("abc\n", pattern="^[a-z]+$")


@pytest.mark.parametrize("pattern", ["^(a+)+$", "^(a|aa)+$", r"^(?=(a+))\1*b$", r"^(a*)*\1$"])
def test_r42_a_pattern_that_explodes_costs_bounded_time(pattern):
    start = time.process_time()
    with pytest.raises(ToolError, match=r"P: got .*(text matching|a shorter text)"):
        called("a" * 40 + "!", pattern=pattern)
    assert time.process_time() - start < 2


def test_the_published_tools_have_no_problems():
    seen = 0
    for path in sorted((EXAMPLES / "002" / "tools").glob("*.yaml")):
        if path.name == "schema-reference.yaml":  # wrong on purpose
            continue
        action = load(path.read_bytes(), path.name)[0].action
        if isinstance(action, PlanAction):
            steps = frozenset(step.name for step in action.steps)
            names = Names(frozenset(action.parameters), PREDEFINED, steps)
            assert parameter_problems(action.parameters) == []
            for step in action.steps:
                assert not step.condition or check(step.condition, names) == []
                seen += bool(step.condition)
    assert seen == 7
