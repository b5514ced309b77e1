"""The commands of the published tools, with stubs for their programs in real shells."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tools.test_template_shell import Stage
from tools.engine.hazards import HazardKind
from tools.engine.template import Names
from tools.engine.template_shell import compile_shell

NAMES = Names(
    parameters=frozenset(
        {"CASE_SENSITIVE", "WHOLE_WORD", "PATTERN", "DIRECTORY", "FILE_TYPE", "LOCATION", "FORMAT",
         "METHOD", "HEADERS", "URL", "OWNER", "REPO", "OUTPUT_DIR", "TEXT", "SOURCE_LANG",
         "TARGET_LANG", "FILE_PATH", "PARAM", "PARAM1", "PARAM2", "API_KEY", "API_URL", "QUERY"}
    ),
    predefined=frozenset({"WORKSPACE"}),
    steps=frozenset({"step1", "fetch-commits", "count-authors"}),
)  # fmt: skip

SEARCH_CODE = (
    'grep -r {CASE_SENSITIVE} {WHOLE_WORD} "{PATTERN}" {DIRECTORY} --include="*.{FILE_TYPE}"'
)
FIND_FILES = 'find {DIRECTORY} -type f -name "{PATTERN}"'
WEATHER = "curl -s 'wttr.in/{LOCATION}?format={FORMAT}'"
HTTP = 'curl -X {METHOD} {HEADERS} "{URL}"'
CLONE = "git clone https://github.com/{OWNER}/{REPO}.git {OUTPUT_DIR}"
TRANSLATE = (
    'curl -s -X POST "https://translation-api.example.com/translate" '
    '-d "text={TEXT}&source={SOURCE_LANG}&target={TARGET_LANG}"'
)
MEANINGFUL_ERROR = """\
if [ ! -f "{FILE_PATH}" ]; then
  echo "Error: File '{FILE_PATH}' not found. Please check the path and try again."
  exit 1
fi
"""
COUNT_AUTHORS = (
    "echo '{fetch-commits.output}' | jq 'group_by(.commit.author.name) | "
    "map({author: .[0].commit.author.name, count: length}) | sort_by(.count) | reverse'"
)
PYTHON_GLOB = "python -c \"import os, glob; print('\\\\n'.join(glob.glob('{PATTERN}')))\""

SEEDS_ESCAPER_FAILS = [
    "x;touch canary;#",
    "';touch canary;#",
    "';{touch,canary};#",
    "x>(touch canary)",
    "London';touch canary;#",
    '"; touch canary; "',
    "$(touch canary)",
    "-e x",
]
"""What gets through an escaper that only puts backslashes before some characters (X86)."""


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    stage = Stage(tmp_path)
    program = (stage.bin / "show").read_bytes()
    for name in ("grep", "find", "curl", "git", "jq", "another-command"):
        (stage.bin / name).write_bytes(program)
        (stage.bin / name).chmod(0o755)
    return stage


def run(stage: Stage, source: str, **values: str) -> list[str]:
    template = compile_shell(source, NAMES, escape={"PATTERN": True, "QUERY": True})
    (words,) = stage.shown(template.render(values))
    return words


@pytest.mark.parametrize("value", SEEDS_ESCAPER_FAILS)
def test_what_got_through_the_published_escaper_is_data(stage: Stage, value: str) -> None:
    assert run(stage, "curl {QUERY} \"{QUERY}\" '{QUERY}'", QUERY=value) == [value] * 3
    assert run(stage, WEATHER, LOCATION=value, FORMAT="3") == ["-s", f"wttr.in/{value}?format=3"]
    found = run(stage, FIND_FILES, DIRECTORY="x", PATTERN=value)
    assert found == ["x", "-type", "f", "-name", value]


def test_search_code_gives_grep_no_empty_argument(stage: Stage) -> None:
    options = {"CASE_SENSITIVE": "-i", "WHOLE_WORD": "", "FILE_TYPE": "js"}
    words = run(stage, SEARCH_CODE, PATTERN="TODO: x", DIRECTORY="x;id", **options)
    assert words == ["-r", "-i", "TODO: x", "x;id", "--include=*.js"]


def test_find_files_hands_its_pattern_over_unexpanded(stage: Stage) -> None:
    words = run(stage, FIND_FILES, DIRECTORY=".", PATTERN="*.{js,ts}")
    assert words == [".", "-type", "f", "-name", "*.{js,ts}"]


def test_http_request_splits_headers_as_a_shell_does(stage: Stage) -> None:
    url = "http://127.0.0.1/$(touch canary)"
    assert run(stage, HTTP, METHOD="GET", HEADERS="", URL=url) == ["-X", "GET", url]
    headers = "-H 'Content-Type: application/json' ; touch canary"
    words = run(stage, HTTP, METHOD="PUT", HEADERS=headers, URL="u")
    assert words == [
        "-X", "PUT", "-H", "Content-Type: application/json", ";", "touch", "canary", "u",
    ]  # fmt: skip


def test_options_in_headers_are_said_to_be_options() -> None:
    values = {"METHOD": "GET", "HEADERS": "-o /path", "URL": "u"}
    (hazard,) = compile_shell(HTTP, NAMES).render(values).hazards
    assert (hazard.kind, hazard.placeholder.name) == (HazardKind.OPTION, "HEADERS")


def test_clone_glues_values_to_its_url(stage: Stage) -> None:
    words = run(stage, CLONE, OWNER="o", REPO="r", OUTPUT_DIR="--config=core.sshCommand=id")
    assert words == ["clone", "https://github.com/o/r.git", "--config=core.sshCommand=id"]


def test_translate_sends_its_text_in_one_argument(stage: Stage) -> None:
    words = run(stage, TRANSLATE, TEXT='a "b" $(c)', SOURCE_LANG="en", TARGET_LANG="es")
    assert words[-1] == 'text=a "b" $(c)&source=en&target=es'


def test_meaningful_error_takes_apostrophes_within_double_quotes_for_text(stage: Stage) -> None:
    script = compile_shell(MEANINGFUL_ERROR, NAMES).render({"FILE_PATH": "x$(touch canary)'\""})
    result = stage.run(script)
    assert result.returncode == 1
    assert result.stdout.startswith(b"Error: File 'x$(touch canary)'\"' not found. Please")


@pytest.mark.row("C259", "C260")
def test_commit_stats_pass_output_on_that_no_argument_could_hold(stage: Stage) -> None:
    (stage.bin / "jq").write_text("#!/bin/sh\nwc -c\nprintf '%s' \"$1\"\n")
    output = "it's $(touch canary) \\n" * 20_000
    rendered = compile_shell(COUNT_AUTHORS, NAMES).render({"fetch-commits.output": output})
    length, program = stage.run(rendered).stdout.decode().split("\n", 1)
    assert int(length) == len(output) + 1
    assert "map({author: .[0].commit.author.name, count: length})" in program
    assert rendered.hazards == ()


@pytest.mark.row("C306")
def test_the_python_one_liner_is_said_to_read_its_pattern_as_code() -> None:
    (hazard,) = compile_shell(PYTHON_GLOB, NAMES).hazards
    assert hazard.kind is HazardKind.INNER_LANGUAGE
    assert "python" in hazard.message


def test_what_is_shown_is_the_command_with_its_values() -> None:
    values = {"CASE_SENSITIVE": "-i", "WHOLE_WORD": "", "PATTERN": 'a "b" $c', "FILE_TYPE": "js"}
    rendered = compile_shell(SEARCH_CODE, NAMES).render({**values, "DIRECTORY": "./my src"})
    assert rendered.shown == 'grep -r -i  "a \\"b\\" \\$c" ./my src --include="*.js"'
