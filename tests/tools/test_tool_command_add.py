"""Each option of `opta tool add`, by what it writes; and what is refused, with nothing written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.tool_command import editor
from tools.commands.tool.document import UnwritableError, edited, to_yaml, with_name
from tools.yamltext import parse

BASE = "tool add t --description D "
STEP = BASE + '--step a "echo a" --step s "echo s" '
PARAMETER = BASE + '--bash "echo {P}" --parameter P "What" '
TEST = BASE + '--bash "echo {P}" --parameter P "What" type=number --test t1 "First" '


def step(**keys):
    return {"steps": [{"name": "a", "bash": "echo a"}, {"name": "s", "bash": "echo s", **keys}]}


def parameter(type_="string", **keys):
    return {"parameters": {"P": {"type": type_, "description": "What", **keys}}}


def test_of(**keys):
    return {"tests": [{"name": "t1", "description": "First", **keys}]}


test_of.__test__ = False

ROWS = [
    ("C151", BASE + '--bash "echo a"', {"bash": "echo a"}),
    ("C152", BASE + '--cmd "dir"', {"cmd": "dir"}),
    ("C153", BASE + '--pwsh "Get-Date"', {"pwsh": "Get-Date"}),
    ("C154", BASE + '--run "git status"', {"run": "git status"}),
    ("C155", BASE + "--script 'a\nb\n'", {"script": "a\nb\n"}),
    ("C156", BASE + "--script 'print(1)' --shell python3",
     {"script": "print(1)", "shell": "python3"}),
    ("C159", BASE + "--command-default a", {"commands": {"default": "a"}}),
    ("C160", BASE + "--command-windows a --command-default b",
     {"commands": {"default": "b", "platforms": {"windows": "a"}}}),
    ("C161", BASE + "--command-linux a", {"commands": {"platforms": {"linux": "a"}}}),
    ("C162", BASE + "--command-macos a --command-default b",
     {"commands": {"default": "b", "platforms": {"macos": "a"}}}),
    ("C163", STEP, step()),
    ("C164", STEP + "--continue-on-error", step(**{"continue-on-error": True})),
    ("C165", STEP + "--run-condition '{a.exit-code} == 0'",
     step(**{"run-condition": "{a.exit-code} == 0"})),
    ("C166", STEP + "--parallel", step(parallel=True)),
    ("C167", STEP + "--wait-for a", step(**{"wait-for": ["a"]})),
    ("C167", BASE + '--step a 1 --step b 2 --step c 3 --wait-for "a, b"',
     {"steps": [{"name": "a", "bash": "1"}, {"name": "b", "bash": "2"},
                {"name": "c", "bash": "3", "wait-for": ["a", "b"]}]}),
    ("C168", STEP + "--retry-attempts 3", step(**{"error-handling": {"retry": {"attempts": 3}}})),
    ("C169", STEP + "--retry-attempts 3 --retry-delay 50",
     step(**{"error-handling": {"retry": {"attempts": 3, "delay": 50}}})),
    ("C170", STEP + "--fallback 'echo f'", step(**{"error-handling": {"fallback": "echo f"}})),
    ("C171", STEP + "--output-mode stream", step(output={"mode": "stream"})),
    ("C172", STEP + "--output-buffer-limit 5MB", step(output={"buffer-limit": "5MB"})),
    ("C173", BASE + "--step-command-default s a",
     {"steps": [{"name": "s", "commands": {"default": "a"}}]}),
    ("C174", BASE + "--step s a --step-command-windows s b",
     {"steps": [{"name": "s", "commands": {"default": "a", "platforms": {"windows": "b"}}}]}),
    ("C175", BASE + "--step-command-linux s a --parallel",
     {"steps": [{"name": "s", "commands": {"platforms": {"linux": "a"}}, "parallel": True}]}),
    ("C176", BASE + "--step s a --step-command-macos s b",
     {"steps": [{"name": "s", "commands": {"default": "a", "platforms": {"macos": "b"}}}]}),
    ("C177", PARAMETER + '--parameter Q "Other" required=true',
     {"parameters": {"P": {"type": "string", "description": "What"},
                     "Q": {"type": "string", "description": "Other", "required": True}}}),
    *[("C178", PARAMETER + f"type={name}", parameter(name))
      for name in ("string", "number", "boolean", "array", "object")],
    ("C179", PARAMETER + "required=true", parameter(required=True)),
    ("C179", PARAMETER + "required=false", parameter(required=False)),
    ("C180", PARAMETER + "default=3", parameter(default="3")),
    ("C180", PARAMETER + "default=3 type=number", parameter("number", default=3)),
    ("C180", PARAMETER + "default=false type=boolean", parameter("boolean", default=False)),
    ("C180", PARAMETER + "default='[]' type=array", parameter("array", default=[])),
    ("C180", PARAMETER + "default=", parameter(default="")),
    ("C181", PARAMETER + "min-length=2", parameter(validation={"minLength": 2})),
    ("C182", PARAMETER + "max-length=9", parameter(validation={"maxLength": 9})),
    ("C183", PARAMETER + "pattern='^a=b$'", parameter(validation={"pattern": "^a=b$"})),
    ("C184", PARAMETER + "min=0.5 type=number", parameter("number", validation={"minimum": 0.5})),
    ("C185", PARAMETER + "max=7 type=number", parameter("number", validation={"maximum": 7})),
    ("C186", PARAMETER + "enum=a,b", parameter(validation={"enum": ["a", "b"]})),
    ("C186", PARAMETER + "enum=1,2 type=number", parameter("number", validation={"enum": [1, 2]})),
    ("C187", PARAMETER + "transform=lowercase", parameter(transform="lowercase")),
    ("C188", PARAMETER + "format='--p={value}'", parameter(format="--p={value}")),
    ("C189", PARAMETER + "example=a example=b", parameter(examples=["a", "b"])),
    ("C190", PARAMETER + "escape-shell=true", parameter(security={"escape-shell": True})),
    ("C190", PARAMETER + "escape-shell=false", parameter(security={"escape-shell": False})),
    ("C191", BASE + "--bash a --platform linux --platform macos",
     {"platforms": ["linux", "macos"]}),
    ("C192", BASE + "--bash a --tag x --tag read", {"tags": ["x", "read"]}),
    ("C193", BASE + "--bash a --timeout 10000", {"timeout": 10000}),
    ("C194", BASE + "--bash a --working-directory ~/x", {"working-directory": "~/x"}),
    ("C195", BASE + "--bash cat --input 'a: b'", {"input": "a: b"}),
    ("C197", BASE + "--bash a --security-privilege reduced",
     {"security": {"execution-privilege": "reduced"}}),
    ("C198", BASE + "--bash a --security-isolation process",
     {"security": {"isolation": "process"}}),
    ("C199", BASE + "--bash a --security-permission network:x --security-permission y",
     {"security": {"required-permissions": ["network:x", "y"]}}),
    ("C200", BASE + "--bash a --env-var A=b=c --env-var N=1",
     {"environment": {"variables": {"A": "b=c", "N": "1"}}}),
    ("C201", BASE + "--bash a --inherit-env false", {"environment": {"inherit": False}}),
    ("C202", TEST + '--test t2 "Second"',
     {"tests": [{"name": "t1", "description": "First"}, {"name": "t2", "description": "Second"}]}),
    ("C203", TEST + "--test-param P=-1", test_of(parameters={"P": -1})),
    ("C204", TEST + "--expect-exit-code 2", test_of(expected={"exit-code": 2})),
    ("C205", TEST + "--expect-output 'a b'", test_of(expected={"output-contains": "a b"})),
    ("C206", TEST + "--expect-file-exists f", test_of(expected={"file-exists": "f"})),
    ("C206", TEST + "--expect-directory-exists d", test_of(expected={"directory-exists": "d"})),
    ("C207", TEST + "--cleanup 'rm f' --cleanup 'rm g'", test_of(cleanup=["rm f", "rm g"])),
    ("C240", BASE + "--bash a --category development", {"metadata": {"category": "development"}}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("line", "expected"),
    [pytest.param(line, data, marks=pytest.mark.row(row), id=f"{row}-{n}")
     for n, (row, line, data) in enumerate(ROWS)],
)  # fmt: skip
def test_an_option_writes_its_key(opta, line, expected):
    ran = opta(line)
    assert (ran.code, ran.out) == (0, "Added t to the local scope: .opta/tools/t.yaml\n")
    written = opta.written("t")
    assert (written["name"], written["description"]) == ("t", "D")
    assert {key: written[key] for key in expected} == expected


@pytest.mark.row("C149")
@pytest.mark.parametrize(
    ("words", "place"),
    [("", "local"), ("--scope local", "local"), ("-l", "local"), ("--local", "local"),
     ("--scope user", "user"), ("-u", "user"), ("--user", "user"), ("--scope=user", "user"),
     ("--scope global", "shared"), ("-g", "shared"), ("--global", "shared")],
)  # fmt: skip
@pytest.mark.row("C196", "C334", "C335", "C336")
def test_a_tool_goes_to_the_scope_that_is_named(opta, words, place):
    assert opta(f"tool add t --description D --bash a {words}").code == 0
    written = [d for d in (opta.local, opta.user, opta.shared) if (d / "t.yaml").exists()]
    assert written == [getattr(opta, place)]


@pytest.mark.row("C208", "C339")
def test_the_documented_weather_tool_is_written_as_a_careful_person_would(opta):
    ran = opta(
        'tool add weather-lookup --description "Get weather for a location" '
        "--bash \"curl -s 'wttr.in/{LOCATION}?format={FORMAT}'\" "
        '--parameter LOCATION "City or airport code" required=true example=London '
        '--parameter FORMAT "Output format" default=3 '
        "--tag weather --tag api --tag read --timeout 10000"
    )
    assert (ran.code, ran.err) == (0, "")
    assert (
        (opta.local / "weather-lookup.yaml").read_text()
        == """\
name: weather-lookup
description: Get weather for a location
bash: curl -s 'wttr.in/{LOCATION}?format={FORMAT}'
parameters:
  LOCATION:
    type: string
    description: City or airport code
    required: true
    examples: [London]
  FORMAT:
    type: string
    description: Output format
    default: "3"
timeout: 10000
tags: [weather, api, read]
"""
    )
    assert opta("tool validate weather-lookup").code == 0


@pytest.mark.row("C340")
def test_the_documented_three_steps_load(opta):
    ran = opta(
        'tool add process-data --description "Process data from a file" '
        "--step fetch \"curl -s '{URL}' > data.json\" --step process \"jq '.items' data.json\" "
        '--step cleanup "rm data.json" --parameter URL "URL to fetch data from" required=true '
        "--tag api --tag read"
    )
    assert ran.code == 0
    assert [step["name"] for step in opta.written("process-data")["steps"]] == [
        "fetch", "process", "cleanup",
    ]  # fmt: skip
    assert opta("tool validate process-data").code == 0


REFUSED = [
    ("C150", "tool add t --bash a", "--description"),
    ("C150", "tool add", "NAME"),
    ("C151", BASE + "--bash a --cmd b", "bash"),
    ("C151", BASE, "bash"),
    ("C164", BASE + "--bash a --parallel", "--parallel belongs to the --step before it"),
    ("C168", STEP + "--retry-attempts x", "--retry-attempts must be a whole number"),
    ("C171", STEP + "--output-mode loud", "buffer, stream"),
    ("C178", PARAMETER + "type=text", "type can be string, number"),
    ("C180", PARAMETER + "default=x type=number", "must be of type number"),
    ("C177", PARAMETER + "reqired=true", "did you mean required?"),
    ("C177", PARAMETER + '--parameter P "Again"', "defined twice"),
    ("C191", BASE + "--bash a --platform beos", "windows, linux, macos"),
    ("C193", BASE + "--bash a --timeout soon", "--timeout must be a whole number"),
    ("C196", BASE + "--bash a --scope any", "local, user or global"),
    ("C196", BASE + "--bash a -a", "local, user or global"),
    ("C196", BASE + "--bash a -u --scope local", "contradicts"),
    ("C197", BASE + "--bash a --security-privilege root", "same-as-user, reduced, elevated"),
    ("C200", BASE + "--bash a --env-var A", "NAME=VALUE"),
    ("C203", BASE + "--bash a --test-param P=1", "belongs to the --test before it"),
    ("C203", TEST + "--test-param P=x", "must be of type number"),
    ("C151", BASE + "--bash", "--bash needs COMMAND"),
    ("C151", BASE + "--bash --tag x", "--bash needs COMMAND, found --tag"),
    ("C149", BASE + "--bash a extra", "'extra' is too much"),
    ("C149", "tool add ../t --description D --bash a", "cannot be the name"),
    ("C149", BASE + "--bash a --bsh b", "did you mean --bash?"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("line", "message"),
    [pytest.param(line, text, marks=pytest.mark.row(row), id=f"{row}-{n}")
     for n, (row, line, text) in enumerate(REFUSED)],
)  # fmt: skip
def test_what_makes_no_tool_is_refused_and_nothing_is_written(opta, line, message):
    ran = opta(line)
    assert ran.code in (1, 2)
    assert ran.code == 2 or "cannot be the name" in ran.err
    assert message in ran.err
    assert ran.out == ""
    assert not (opta.root / ".opta").exists()


@pytest.mark.row("C209")
def test_a_tool_that_is_there_is_not_overwritten(opta):
    opta(BASE + "--bash first")
    ran = opta(BASE + "--bash second")
    assert (ran.code, opta.written("t")["bash"]) == (1, "first")
    assert ".opta/tools/t.yaml" in ran.err
    assert "--override" in ran.err
    assert opta(BASE + "--bash second --override").code == 0
    assert opta.written("t")["bash"] == "second"


@pytest.mark.row("C157", "C282", "C341")
def test_a_definition_comes_from_a_file_with_its_comments(opta):
    source = opta.put("my-tool-definition.yaml", "# mine\nname: n\ndescription: D # d\nbash: a\n",
                      opta.root)  # fmt: skip
    assert opta("tool add --from-file my-tool-definition.yaml").code == 0
    assert (opta.local / "n.yaml").read_text() == source.read_text()


@pytest.mark.row("C157")
def test_the_name_on_the_command_line_wins_and_options_are_added(opta):
    opta.put("f.yaml", "name: n\ndescription: D\nbash: a\n", opta.root)
    assert opta("tool add other --from-file f.yaml --tag read").code == 0
    assert opta.written("other") == {
        "name": "other", "description": "D", "bash": "a", "tags": ["read"],
    }  # fmt: skip
    opta.put("nameless.yaml", "description: D\nbash: a\n", opta.root)
    assert opta("tool add --from-file nameless.yaml").code == 0
    assert opta.written("nameless")["name"] == "nameless"


@pytest.mark.row("C158", "C284", "C342")
def test_a_tool_written_in_the_editor_is_added_when_it_is_saved(opta, tmp_path):
    editor(tmp_path, 'sed -i \'s/^description: .*/description: Mine/\' "$1"; cp "$1" seen.yaml')
    assert opta("tool add my-new-tool --editor").code == 0
    assert opta.written("my-new-tool")["description"] == "Mine"
    assert "opta help tools" in (opta.root / "seen.yaml").read_text()


@pytest.mark.row("C284")
@pytest.mark.parametrize("script", ["true", ': > "$1"'])
def test_an_unchanged_or_empty_text_adds_nothing(opta, tmp_path, script):
    editor(tmp_path, script)
    ran = opta("tool add my-new-tool --editor")
    assert (ran.code, ran.out) == (1, "")
    assert "Nothing was added" in ran.err
    assert not (opta.root / ".opta").exists()


def test_a_text_that_makes_no_tool_is_kept_for_the_person(opta, tmp_path):
    editor(tmp_path, 'echo "name: [" > "$1"')
    ran = opta("tool add my-new-tool --editor")
    assert ran.code in (1, 2)
    assert "Nothing was added" in ran.err
    assert not (opta.root / ".opta").exists()


def test_adding_to_an_untouched_project_keeps_it_trusted(opta):
    opta(BASE + '--bash "echo ran"')
    assert opta("tool run t").out == "ran\n"


def test_a_link_in_the_place_of_the_directory_is_not_followed(opta, tmp_path):
    (opta.root / ".opta").symlink_to(tmp_path)
    ran = opta(BASE + "--bash a")
    assert (ran.code, list(tmp_path.iterdir())) == (1, [])
    assert "link" in ran.err


texts = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=40)
keys = st.text("abcxyzN-_: #'\"", min_size=1, max_size=8)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(keys, values, max_size=5))
def test_whatever_is_written_reads_back_equal(data):
    try:
        text = to_yaml(data)
    except UnwritableError:
        return
    from pathlib import Path

    assert parse(text, Path("t.yaml")).data == data


def test_texts_have_the_form_a_careful_person_gives_them():
    assert to_yaml({
        "a": "plain text", "b": "two\nlines\n", "c": "yes", "d": "1.0", "e": "x: 'y'", "f": "a: b",
        "tags": ["p", "q"], "list": ["x"], "g": "",
    }) == """\
a: plain text
b: |
  two
  lines
c: "yes"
d: "1.0"
e: |-
  x: 'y'
f: 'a: b'
tags: [p, q]
list:
  - x
g: ""
"""  # fmt: skip


def test_an_edit_keeps_comments_order_and_quotes():
    text = "# top\nb: 'x' # why\na: [1, 2]\n"
    assert with_name(text, "n") == "# top\nname: n\nb: 'x' # why\na: [1, 2]\n"
    with pytest.raises(UnwritableError):
        edited("a: [", lambda data: None)


@pytest.mark.parametrize("verb", ["add", "import"])
def test_a_tool_of_another_program_is_hidden_by_the_new_one_and_stays(opta, verb):
    theirs = "name: t\ndescription: D\nbash: echo theirs\n"
    kept = opta.put("t.yaml", theirs, opta.root / ".cycod" / "tools")
    mine = opta.put("mine.yaml", theirs.replace("theirs", "mine"), opta.root)
    line = f"add --from-file {mine}" if verb == "add" else f"import {mine}"
    ran = opta(f"tool {line} --override")
    assert (ran.code, kept.read_text()) == (0, theirs)
    told = ".cycod/tools/t.yaml:1 defines t too and stays as it is; the new one hides it.\n"
    assert ran.err == told
    assert opta("tool run t --trust").out == "mine\n"
