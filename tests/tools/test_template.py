"""Reading templates, and filling in what no shell reads."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.engine.template import (
    Names,
    Placeholder,
    TemplateError,
    parse,
    parse_argv,
)
from tools.engine.template_windows import compile_pwsh, fill_cmd

NAMES = Names(
    parameters=frozenset({"PARAM", "PARAM1", "PARAM2", "COUNT", "DEBUG", "count"}),
    predefined=frozenset({"WORKSPACE", "OS"}),
    steps=frozenset({"step1", "fetch-commits"}),
)


def placeholders(source: str) -> tuple[Placeholder, ...]:
    return parse(source, NAMES).placeholders


@pytest.mark.row("C248")
def test_parameters_are_replaced_by_their_values() -> None:
    template = parse("command {PARAM1} {PARAM2}", NAMES)
    assert template.fill({"PARAM1": "a", "PARAM2": "b"}) == "command a b"


@pytest.mark.row("C287")
def test_the_four_forms_of_a_placeholder_are_known() -> None:
    plain, transform, picture, choice, words = placeholders(
        "{PARAM} {PARAM1:lowercase} {COUNT:format(0000)} {DEBUG ? '--de}bug' : \"\"} {!DEBUG?a:b}"
    )
    assert (plain.name, plain.transform, plain.picture, plain.expression) == ("PARAM", "", None, "")
    assert (transform.key, transform.transform) == ("PARAM1:lowercase", "lowercase")
    assert (picture.name, picture.transform, picture.picture) == ("COUNT", "", "0000")
    assert (choice.name, choice.expression) == ("DEBUG", "DEBUG ? '--de}bug' : \"\"")
    assert (words.name, words.expression) == ("DEBUG", "!DEBUG?a:b")


@pytest.mark.row("C289")
@pytest.mark.parametrize(
    "name", ["output", "error", "exit-code", "duration", "start-time", "end-time"]
)
def test_steps_are_referred_to_by_their_properties(name: str) -> None:
    (place,) = placeholders(f"x {{fetch-commits.{name}}}")
    assert (place.name, place.step_property) == ("fetch-commits", name)


@pytest.mark.parametrize(
    "text",
    [
        "{UNKNOWN} {other.output} {step1.stdout} {step1}",
        "${PARAM} ${PARAM:-x} $${PARAM}",
        "{author: .[0].commit.author.name, count: length} {count: length} {js,ts}",
        "awk '{print}' {PARAM {PARAM, x} { PARAM } {PARAM.output}",
        "{PARAM:format(0} {PARAM:} {PARAM ?} {PARAM : x}",
        "{PARAM:lower(case)}",
        "",
        "}{",
    ],
)
def test_all_other_braces_stay(text: str) -> None:
    template = parse(text, NAMES)
    assert template.placeholders == ()
    assert template.fill({}) == text


def test_doubled_braces_are_literal_for_known_names() -> None:
    template = parse("{{PARAM}} {{UNKNOWN_X}} {{step1.output}} {{ x }}", NAMES)
    assert template.fill({}) == "{PARAM} {{UNKNOWN_X}} {step1.output} {{ x }}"


def test_places_have_line_and_column() -> None:
    first, second = placeholders("a\n  {PARAM}\n\n{{PARAM}}é {PARAM1}")
    assert (first.line, first.column) == (2, 3)
    assert (second.line, second.column) == (4, 12)


def test_unknown_names_in_capitals_are_reported() -> None:
    template = parse("rm {TEMP_DIR}/${HOME}\n{X} {lower} {API_KEY:urlencode}", NAMES)
    assert [(name.name, name.line, name.column) for name in template.unknown] == [
        ("TEMP_DIR", 1, 4),
        ("API_KEY", 2, 13),
    ]


@given(st.text())
def test_a_value_is_never_read_again(value: str) -> None:
    template = parse("<{PARAM}{PARAM1}>", NAMES)
    assert template.fill({"PARAM": value, "PARAM1": "{PARAM}"}) == f"<{value}{{PARAM}}>"


def test_words_are_joined_by_blanks_in_text() -> None:
    assert parse("<{PARAM}>", NAMES).fill({"PARAM": ["a", "b c"]}) == "<a b c>"


@given(st.text(alphabet="{}PARAM1$:.?'\"\\ \nab-step1output(0)!", max_size=80))
def test_any_text_can_be_parsed_and_keeps_its_pieces(source: str) -> None:
    template = parse(source, NAMES)
    values = {place.key: f"{{{place.key}}}" for place in template.placeholders}
    if "{{" not in source:
        assert template.fill(values) == source


@pytest.mark.parametrize(
    "piece", ["{PARAM ? '", "{", "{{PARAM", "{PARAM1}", "{PARAM:format(", "{PARAM'{'", "{A\n"]
)
def test_a_long_template_is_parsed_quickly(piece: str) -> None:
    source = piece * (100_000 // len(piece))
    started = time.process_time()
    parse(source, NAMES)
    assert time.process_time() - started < 2


def test_argument_lists_are_templates_word_by_word() -> None:
    argv = parse_argv(["echo", "{PARAM}", "$(id) {PARAM}"], NAMES)
    assert argv.fill({"PARAM": "; rm"}) == ("echo", "; rm", "$(id) ; rm")


def test_no_program_can_be_given_a_nul() -> None:
    with pytest.raises(TemplateError, match=r"\{PARAM\} holds a NUL"):
        parse_argv(["echo", "{PARAM}"], NAMES).fill({"PARAM": "a\0"})


@pytest.mark.row("C303")
def test_a_place_without_a_value_is_an_error_that_names_it() -> None:
    with pytest.raises(TemplateError, match=r"line 2, column 1: \{PARAM\} has no value"):
        parse("\n{PARAM}", NAMES).fill({})


@pytest.mark.row("C292")
@pytest.mark.parametrize(
    ("source", "value", "expected"),
    [
        ("Get-Item {PARAM}", "it's $(x); `n", "Get-Item 'it''s' '$(x);' '`n'"),
        ("Get-Item {WORKSPACE}", "C:\\a b", "Get-Item 'C:\\a b'"),
        ("Get-Item '{WORKSPACE}'", "it\u2019s'", "Get-Item 'it\u2019\u2019s'''"),
        ('"in {WORKSPACE}!"', '$x "q"', '"in $(\'$x "q"\')!"'),
        ("x {PARAM} y", "", "x  y"),
    ],
)
def test_powershell_gets_literals(source: str, value: str, expected: str) -> None:
    template = compile_pwsh(source, NAMES)
    assert template.render({"PARAM": value, "WORKSPACE": value}) == expected


@pytest.mark.parametrize(
    "source",
    [
        "# {PARAM}",
        "@'\n{PARAM}\n'@",
        '@"\n{PARAM}\n"@',
        "`{PARAM}",
        '"$(x) {PARAM}"',
        "\u2018{PARAM}",
    ],
)
def test_powershell_refuses_other_places(source: str) -> None:
    with pytest.raises(TemplateError):
        compile_pwsh(source, NAMES)


@pytest.mark.row("C292")
def test_cmd_refuses_what_cannot_be_quoted() -> None:
    template = parse('find "{PARAM}" {PARAM1}', NAMES)
    assert fill_cmd(template, {"PARAM": "C:\\a (b)", "PARAM1": "x"}) == 'find "C:\\a (b)" x'
    for character in '"%!^&|<>\n\r\0':
        with pytest.raises(TemplateError, match="cannot be quoted for cmd"):
            fill_cmd(template, {"PARAM": f"a{character}b", "PARAM1": ""})
    with pytest.raises(TemplateError, match="cannot be quoted for cmd"):
        fill_cmd(template, {"PARAM": "", "PARAM1": "a)"})
