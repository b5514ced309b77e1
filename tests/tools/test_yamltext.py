"""Reading YAML and JSON from people: positions, limits, one clear error for each kind of damage."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tools.yamltext import MAX_BYTES, MAX_DEPTH, Document, DocumentError, json_path, parse

YAML = Path("config.yml")
JSON = Path("tool.json")


def refused(text: str | bytes, path: Path) -> DocumentError:
    with pytest.raises(DocumentError) as caught:
        parse(text, path)
    return caught.value


def read_or_error(text: str | bytes, path: Path) -> Document | DocumentError:
    try:
        return parse(text, path)
    except DocumentError as error:
        return error


def test_yaml_gives_plain_values_of_the_core_schema() -> None:
    document = parse(
        "a: 1\nb: [x, yes, 2024-01-01, 1:30, 1.5, 0x1f, 0o17, ~, true, '1', !!str 2]\n3: {}\n", YAML
    )
    assert document.data == {
        "a": 1,
        "b": ["x", "yes", "2024-01-01", "1:30", 1.5, 31, 15, None, True, "1", "2"],
        "3": {},
    }


@pytest.mark.parametrize("path", [YAML, JSON])
def test_positions_name_the_place_of_keys_and_items(path: Path) -> None:
    document = parse('{\n  "a": {"b": 1,\n    "c": [10,\n  20]}}', path)
    assert document.position(("a",)) == (2, 3)
    assert document.position(("a", "b")) == (2, 9)
    assert document.position(("a", "c", 1)) == (4, 3)
    assert document.position(("a", "c", 7, "deep")) == (3, 5), "the nearest key above"


def test_an_error_made_for_a_key_carries_its_place() -> None:
    error = parse("a:\n  b: x\n", YAML).error(("a", "b"), "must be a number", "write 3")
    assert (error.line, error.column, error.key) == (2, 3, "$.a.b")
    assert str(error) == "config.yml:2:3: must be a number ($.a.b). Write 3"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('a: 1\nbash: "df -h\ntags: [read]\n', "2:7: this is not YAML: the quoted text that begins"
         " here has no end. Close the quote"),
        ("a: 1\ntags: [read\nb: 2\n", "2:7: this is not YAML: the value that begins here is not"
         " closed with ]"),
        ("p: {X: {type: string}\nb: 2\n", "1:4: this is not YAML: the value that begins here is not"
         " closed with }"),
        ("a: do this: and that\n", "1:11: this is not YAML: a `:` cannot make a key here. Write the"
         " text in quotes"),
        ("a: 1\nb: @x\n", "2:4: this is not YAML: a text may not begin with @. Write it in quotes"),
        ('a: "\\d"\n', "1:5: this is not YAML: the backslash begins no escape that double quotes"
         " know. Write two backslashes, or use single quotes"),
        ("steps:\n- a: b\n c: d\n", "3:2: this is not YAML: no key can begin here. Begin all keys"
         " in one column"),
        ("- a\nb: c\n", "2:1: this is not YAML: did not find expected '-' indicator"),
    ],
)  # fmt: skip
def test_what_is_not_yaml_is_told_as_a_mistake_where_it_begins(text: str, told: str) -> None:
    assert str(refused(text, YAML)).startswith(f"config.yml:{told}")


def test_json_paths_quote_odd_keys() -> None:
    assert json_path(("a", 0, "b-c", "d e")) == '$.a[0].b-c["d e"]'


@pytest.mark.parametrize("path", [YAML, JSON])
def test_a_byte_order_mark_and_windows_line_ends_are_read(path: Path) -> None:
    document = parse(b'\xef\xbb\xbf{"a": 1,\r\n"b": 2}\r\n', path)
    assert document.data == {"a": 1, "b": 2}
    assert document.position(("b",)) == (2, 1)


@pytest.mark.parametrize(
    ("text", "path", "place", "words"),
    [
        (b"a: 1\nb: \xe9", YAML, (2, 4), "0xe9 is not UTF-8"),
        (b'{"a": "\xe9"}', JSON, (1, 8), "0xe9 is not UTF-8"),
        (b"\xff\xfea\0", YAML, (None, None), "UTF-16"),
        ("a: \0", YAML, (1, 4), "control character U+0000"),
        ("a: 1\nb: \x1b[31m", YAML, (2, 4), "control character U+001B"),
        ("a:\n\t- b\n", YAML, (2, 1), "a tab is used for indentation"),
        ("a: 1\nb: 2\na: 3\n", YAML, (3, 1), "'a' is there twice (first in line 1)"),
        ('{"a": 1,\n "a": 2}', JSON, (2, 2), "'a' is there twice (first in line 1)"),
        ("a: b: c", YAML, (1, 5), "a `:` cannot make a key here"),
        ("a: [1\n", YAML, (1, 4), "not YAML"),
        ("---\na\n---\nb\n", YAML, (3, 1), "second document"),
        ("[a]: 1", YAML, (1, 1), "key must be a plain word"),
        ("<<: {a: 1}", YAML, (1, 1), "merge keys"),
        ("a: *b", YAML, (1, 4), "refers to no finished value"),
        ("a: &a [*a]", YAML, (1, 8), "refers to no finished value"),
        ("a: .inf", YAML, (1, 4), "not finite"),
        ("a: " + "9" * 5000, YAML, (1, 4), "too large"),
        ("", JSON, (1, 1), "empty"),
        ('{"a": [1, 2,]}', JSON, (1, 13), "comma is not allowed after the last"),
        ('{"a": 1 "b": 2}', JSON, (1, 9), "a comma or '}' is missing"),
        ('{"a" 1}', JSON, (1, 6), "colon is missing"),
        ("{a: 1}", JSON, (1, 2), "double quotes"),
        ("{'a': 1}", JSON, (1, 2), "double quotes"),
        ('{"a": 1 // no\n}', JSON, (1, 9), "JSON has no comments"),
        ('{"a": tru}', JSON, (1, 7), "'tru' is not a JSON value"),
        ('{"a": NaN}', JSON, (1, 7), "'NaN' is not a JSON value"),
        ('{"a": }', JSON, (1, 7), "a value is missing before '}'"),
        ('{"a": ', JSON, (1, 7), "ends where a value is missing"),
        ('{"a": 1', JSON, (1, 8), "ends before the '}'"),
        ('{"a": "x\n"}', JSON, (1, 9), "string is wrong"),
        ('{"a": "\\ud800"}', JSON, (1, 15), "surrogate"),
        ('{"a": 1e999}', JSON, (1, 7), "too large"),
        ("[1] 2", JSON, (1, 5), "after the end"),
        ("01", JSON, (1, 2), "after the end"),
    ],
)
def test_damage_is_one_error_with_its_place(
    text: str | bytes, path: Path, place: tuple[int | None, int | None], words: str
) -> None:
    error = refused(text, path)
    assert (error.line, error.column) == place
    assert words.lower() in str(error).lower()
    assert "\n" not in str(error)


@pytest.mark.parametrize(
    "text",
    [
        "!!python/object/apply:os.system [id]",
        "a: !foo b",
        "!!set {a}",
        "!!binary aGk=",
        "!x {a: 1}",
    ],
)
def test_r41_tags_create_no_objects(text: str) -> None:
    assert "tag" in refused(text, YAML).message


def test_r41_aliases_are_read_and_counted() -> None:
    assert parse("a: &x [1, 2]\nb: *x\n", YAML).data == {"a": [1, 2], "b": [1, 2]}
    names = "abcdefghij"
    bomb = "a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"{name}: &{name} [{','.join([f'*{before}'] * 10)}]\n" for before, name in pairwise(names)
    )
    assert "more than 100,000 values" in refused(bomb, YAML).message


@pytest.mark.parametrize("path", [YAML, JSON])
def test_r41_depth_and_size_are_bounded(path: Path) -> None:
    deepest = "[" * MAX_DEPTH + "]" * MAX_DEPTH
    assert parse(deepest, path).data is not None
    assert "nested deeper" in refused("[" * 100_000, path).message
    assert "more than the allowed" in refused(b" " * (MAX_BYTES + 1), path).message


def test_an_empty_yaml_file_is_no_value() -> None:
    assert parse("# only a comment\n", YAML).data is None
    assert parse("", YAML) == Document(YAML, None, {})


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=10),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=6), inner)
    ),
    max_leaves=20,
)


@given(json_values, st.sampled_from([None, 1, "\t"]))
@settings(max_examples=150, deadline=None)
def test_json_is_read_as_the_standard_library_reads_it(value: object, indent: str | None) -> None:
    text = json.dumps(value, indent=indent)
    assert parse(text, JSON).data == json.loads(text)


@given(
    st.text(alphabet='{}[]:,"\\ \n\t-&*!?|>#%@`ab01.eE+', max_size=40),
    st.sampled_from([YAML, JSON]),
)
@settings(max_examples=400, deadline=None)
def test_any_text_is_read_or_refused_with_a_place(text: str, path: Path) -> None:
    result = read_or_error(text, path)
    if isinstance(result, DocumentError):
        assert result.message
        assert result.line is None or 1 <= result.line <= text.count("\n") + 2
    else:
        assert json.dumps(result.data, allow_nan=False)


@given(st.binary(max_size=40), st.sampled_from([YAML, JSON]))
@settings(max_examples=200, deadline=None)
def test_any_bytes_are_read_or_refused(data: bytes, path: Path) -> None:
    result = read_or_error(data, path)
    assert isinstance(result, DocumentError) or json.dumps(result.data, allow_nan=False)
