"""Arguments as models write them: what is accepted, what is mended, what is said of the rest."""

from __future__ import annotations

import json
import time

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from tests.support.soon import SOON_S
from tools.actions import BuiltinAction
from tools.definition import Origin, Source, ToolDefinition, ToolError
from tools.schema import check_arguments, parse_arguments


def definition(properties, required=(), **more):
    schema = {"type": "object", "properties": properties, "required": list(required), **more}
    return ToolDefinition(
        "t", "d", schema, BuiltinAction("t"), Origin(Source.BUILTIN, "python")
    )  # fmt: skip


def check(arguments, properties, required=(), aliases=(), **more):
    return check_arguments(definition(properties, required, **more), arguments, dict(aliases))


def refusal(text):
    with pytest.raises(ToolError) as caught:
        parse_arguments(text)
    return str(caught.value)


def complaints(arguments, properties, required=(), **more):
    with pytest.raises(ToolError) as caught:
        check(arguments, properties, required, **more)
    first, *lines = str(caught.value).splitlines()
    assert first == "The arguments of t are wrong; nothing was done:"
    return [line.removeprefix("- ") for line in lines]


@pytest.mark.parametrize("text", ["", "  \n", "null", "{}", '"{}"'])
def test_nothing_means_no_arguments(text):
    assert parse_arguments(text) == {}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": "x\ny\tz"}', {"a": "x\ny\tz"}),
        ('{"a": [1, 2,], }', {"a": [1, 2]}),
        ('{"a": ",}", "b": ",]",}', {"a": ",}", "b": ",]"}),
        ('"{\\"a\\": 1}"', {"a": 1}),
        ('{"a": "\\ud83d\\ude00"}', {"a": "\N{GRINNING FACE}"}),
        ('{"a": "\\ud83d"}', {"a": "\ufffd"}),
    ],
)
def test_small_slips_are_read_as_meant(text, value):
    assert parse_arguments(text) == value


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"a" 1}', "line 1 column 6"),
        ('{\n "a": tru\n}', "line 2 column 7"),
        ("echo hi", "line 1 column 1"),
        ('{"a": 1} {"b": 2}', "line 1 column 10"),
        ("[1]", "not a list"),
        ("7", "not a number"),
        ('{"a": NaN}', "NaN is no JSON value"),
    ],
)
def test_what_is_not_one_json_object_is_refused_with_the_place(text, said):
    assert said in refusal(text)
    assert "{} for no arguments" in refusal(text)


@pytest.mark.parametrize("text", ['{"path": "a', '{"a": [1, 2', '{"a": {"b": 1}', '{"a": "x\\'])
def test_text_that_was_cut_off_is_never_completed(text):
    assert "cut off" in refusal(text)
    assert "smaller call" in refusal(text)


def test_absurd_nesting_is_refused():
    assert "nested" in refusal('{"a":' * 101 + "1" + "}" * 101)
    assert "nested" in refusal("[" * 100_000)


@pytest.mark.parametrize(
    ("schema", "value", "mended"),
    [
        ({"type": "integer"}, "10", 10),
        ({"type": "integer"}, " -3 ", -3),
        ({"type": "integer"}, 4.0, 4),
        ({"type": "number"}, "1.5", 1.5),
        ({"type": "number"}, "1e3", 1000.0),
        ({"type": "boolean"}, "true", True),
        ({"type": "boolean"}, "False", False),
        ({"type": "array"}, '["a", 1]', ["a", 1]),
        ({"type": "array", "items": {"type": "integer"}}, ["1", 2], [1, 2]),
        ({"type": "object", "properties": {"n": {"type": "integer"}}}, '{"n": "1"}', {"n": 1}),
        ({"type": ["integer", "null"]}, "null", None),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "7", 7),
        ({"type": "string"}, "10", "10"),
        ({"type": ["string", "integer"]}, "10", "10"),
        ({}, "10", "10"),
    ],
)
def test_values_are_mended_only_where_the_schema_wants_another_type(schema, value, mended):
    result = check({"a": value}, {"a": schema})["a"]
    assert (result, type(result)) == (mended, type(mended))


def test_null_for_an_optional_argument_means_that_it_is_not_given():
    assert check({"a": None, "b": None}, {"a": {"type": "string"}, "b": {"enum": [1]}}) == {}
    assert check({"a": None}, {"a": {"type": ["string", "null"]}}) == {"a": None}
    assert "$.a" in complaints({"a": None}, {"a": {"type": "string"}}, ["a"])[0]


def test_defaults_are_filled_in_also_inside_objects():
    inner = {"type": "object", "properties": {"x": {"default": 3}}}
    properties = {"a": {"type": "string", "default": "x"}, "o": inner}
    assert check({"o": {}}, properties) == {"a": "x", "o": {"x": 3}}
    assert check({"a": None}, properties) == {"a": "x"}


def test_other_spellings_of_a_name_are_accepted_unless_both_are_given():
    properties = {"path": {"type": "string"}, "file": {"type": "string"}}
    aliases = {"file_path": "path", "file": "path"}
    assert check({"file_path": "a"}, properties, aliases=aliases) == {"path": "a"}
    assert check({"file": "a"}, properties, aliases=aliases) == {"file": "a"}
    both = {"file_path": "a", "path": "b"}
    assert check(both, properties, aliases=aliases) == both


def test_two_names_for_one_argument_are_told_and_neither_is_dropped():
    aliases = {"file_path": "path", "filename": "path"}
    with pytest.raises(ToolError, match=r"\$\.filename: unknown argument"):
        check({"file_path": "a", "filename": "b"}, {"path": {"type": "string"}},
              aliases=aliases, additionalProperties=False)  # fmt: skip


def test_the_given_arguments_are_left_as_they_were():
    arguments = {"n": "1"}
    check(arguments, {"n": {"type": "integer"}, "d": {"default": 1}})
    assert arguments == {"n": "1"}


@pytest.mark.row("E47")
@pytest.mark.parametrize(
    ("schema", "value", "line"),
    [
        ({"type": "integer"}, "ten", '$.a: got "ten", wanted integer'),
        ({"type": "number"}, "1,5", '$.a: got "1,5", wanted number'),
        ({"type": "string"}, 5, "$.a: got 5, wanted string"),
        ({"type": "boolean"}, "yes", '$.a: got "yes", wanted boolean'),
        ({"type": "array"}, "[1", '$.a: got "[1", wanted array'),
        ({"enum": ["x", "y"]}, "z", '$.a: Unknown a "z", wanted one of "x", "y"'),
        ({"items": {"enum": [1, 2]}}, [1, 3], "$.a[1]: got 3, wanted one of 1, 2"),
        ({"minimum": 2}, 1, "$.a: got 1, wanted at least 2"),
        ({"type": "string", "maxLength": 2}, "abc", '$.a: got "abc", wanted at most 2 characters'),
        ({"type": "string", "pattern": "^x"}, "y", '$.a: got "y", wanted text matching ^x'),
        ({"type": "array", "items": {"type": "integer"}}, [1, "b"],
         '$.a[1]: got "b", wanted integer'),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "x",
         '$.a: got "x", wanted integer or null'),
        ({"const": 1}, 2, "$.a: got 2, wanted 1"),
        ({"type": "object", "properties": {"b-c": {"type": "integer"}}}, {"b-c": "x"},
         '$.a.b-c: got "x", wanted integer'),
    ],
)  # fmt: skip
def test_a_wrong_value_is_told_with_its_path_what_came_and_what_is_wanted(schema, value, line):
    assert complaints({"a": value}, {"a": schema}) == [line]


@pytest.mark.row("A17")
def test_a_missing_argument_is_told_with_its_type_and_meaning():
    properties = {"environment": {"type": "string", "description": "staging or production"}}
    assert complaints({"env": "x"}, properties, ["environment"]) == [
        "$.environment: missing, wanted string (staging or production); sent: env"
    ]
    assert complaints({}, properties, ["environment"])[0].endswith("sent: nothing")


def test_an_unknown_argument_is_an_error_only_where_the_schema_forbids_it():
    properties = {"pattern": {"type": "string"}}
    assert check({"x": 1}, properties) == {"x": 1}
    assert complaints({"patern": "a"}, properties, additionalProperties=False) == [
        "$.patern: unknown argument (did you mean pattern?), allowed: pattern"
    ]


def test_everything_wrong_is_told_at_once_and_long_values_are_cut():
    properties = {f"a{n}": {"type": "integer"} for n in range(30)}
    lines = complaints({name: "x" * 10_000 for name in properties}, properties)
    assert len(lines) == 21
    assert lines[-1] == "and 10 more"
    assert all(len(line) < 200 for line in lines)


def test_a_pattern_that_backtracks_for_ever_ends_quickly():
    started = time.monotonic()
    with pytest.raises(ToolError):
        check({"a": "a" * 5000 + "b"}, {"a": {"type": "string", "pattern": r"^(?=(a+)+$)a*$"}})
    assert time.monotonic() - started < SOON_S


def test_a_schema_that_refers_elsewhere_is_an_error_and_nothing_is_fetched():
    with pytest.raises(ToolError, match="cannot be called"):
        check({}, {"a": {"$ref": "http://127.0.0.1:1/schema.json"}})


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8"), max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=10,
)  # fmt: skip


@settings(max_examples=150)
@given(st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=5), VALUES, max_size=4))
def test_every_json_object_is_read_as_it_was_written(value):
    assert parse_arguments(json.dumps(value)) == value
    assert parse_arguments(json.dumps(value, ensure_ascii=False)) == value
    assert check(parse_arguments(json.dumps(value)), {}) == value


@settings(max_examples=200)
@given(st.text(alphabet='{}[]",:\\ \n\ta1e-.tru\ud83d', max_size=40))
def test_any_text_gives_an_object_or_a_reason(text):
    result, reason = {}, "x"
    try:
        result = parse_arguments(text)
    except ToolError as error:
        reason = str(error)
    assert isinstance(result, dict)
    assert reason.encode()


@settings(max_examples=150)
@given(st.sampled_from(["string", "integer", "number", "boolean", "array", "object"]), VALUES)
def test_a_value_that_already_fits_is_not_touched(wanted, value):
    fits = {
        "string": isinstance(value, str),
        "integer": isinstance(value, int) and not isinstance(value, bool),
        "number": isinstance(value, int | float) and not isinstance(value, bool),
        "boolean": isinstance(value, bool),
        "array": isinstance(value, list),
        "object": isinstance(value, dict),
    }
    if fits[wanted]:
        assert check({"a": value}, {"a": {"type": wanted}})["a"] == value
        return
    try:
        result = check({"a": value}, {"a": {"type": wanted}})
    except ToolError:
        return
    assert "a" not in result or type(result["a"]) is not type(value)
