"""`opta tool get, list, edit, remove, export, import`: what they show, and what they change."""

from __future__ import annotations

import json
import os
from pathlib import Path
from textwrap import dedent

import pexpect
import pytest

from agent.help_command import page
from tests.support.cli import OPTA
from tests.support.tool_command import editor
from tools.formats.file_schema import file_schema
from tools.yamltext import parse

WEATHER = """\
# Asks wttr.in
name: weather-lookup
description: Get weather for a location  # short
bash: curl -s 'wttr.in/{LOCATION}'
parameters:
  LOCATION:
    type: string
    description: City
    required: true
    detailed-help: A city, or the code of an airport.
tags: [weather, api, read]
metadata:
  category: web
  search-keywords: [forecast]
"""
GIT = """\
name: git-status
description: Show the status
bash: git status
tags: [git]
platforms: [linux, macos]
metadata: {category: development}
"""
HELP = Path(__file__).parents[1] / "examples" / "002" / "help"
PAGES = ("", "-add", "-edit", "-export", "-get", "-import", "-list", "-remove", "-test",
         "-validate")  # fmt: skip
PAGE_ROWS = ("C333", "C338", "C354", "C355", "C346", "C357", "C348", "C352", "C343", "C360")


@pytest.fixture
def stocked(opta):
    """A shell where there are tools in two scopes."""
    opta.put("weather-lookup.yaml", WEATHER)
    opta.put("git-status.yaml", GIT, opta.user)
    return opta


@pytest.mark.parametrize(
    "name",
    [pytest.param(f"tool{name}", marks=pytest.mark.row(row), id=f"tool{name}")
     for name, row in zip(PAGES, PAGE_ROWS, strict=True)],
)  # fmt: skip
def test_a_page_is_the_documented_text_with_optas_name(opta, name):
    documented = (
        (HELP / f"{name}.txt").read_text().replace("cycod", "opta").replace("CYCOD", "OPTA")
    )
    assert opta(f"help {name.replace('-', ' ')}").out.rstrip("\n") == documented.rstrip("\n")
    words = name.replace("-", " ")
    assert opta(f"{words} --help").out == opta(f"{words} -h").out == page(name)


def test_the_first_tool_of_the_help_is_written_as_shown_and_runs_without_a_warning(opta):
    shown = page("tools").split("A FIRST TOOL\n")[1].split("WHERE TOOLS ARE")[0]
    typed, written = shown.replace("\\\n", "").split("This writes .opta/tools/count-lines.yaml:")
    added = opta(typed.strip().removeprefix("opta "))
    assert (added.code, added.err) == (0, "")
    text, *commands = written.split("\n\n  opta ")
    assert (opta.local / "count-lines.yaml").read_text() == dedent(text).strip() + "\n"
    (opta.root / "README.md").write_text("one\n")
    for line in commands[0].split("\n  opta "):
        ran = opta(line.strip())
        assert (ran.code, ran.err) == (0, ""), line


def test_no_command_and_an_unknown_one_say_where_all_are(opta):
    assert "`opta help tools` has all of them" in opta("tool").err
    assert "no command `opta tool frob`; `opta help tools` has" in opta("tool frob").err


@pytest.mark.row("C362", "C363")
def test_every_page_that_a_page_names_is_there(opta):
    pages = [page(f"tool{name}") for name in PAGES] + [page("tools"), page("tool-run")]
    named = {line.strip() for text in pages for line in text.split("SEE ALSO")[1].splitlines()}
    for line in filter(None, named):
        ran = opta(line.removeprefix("opta "))
        assert (ran.code, bool(ran.out)) == (0, True), line


def test_the_schema_of_tool_files_is_printed(opta):
    assert json.loads(opta("tool schema").out) == file_schema()
    assert opta("tool schema --help").out == page("tool-schema")


def test_help_names_its_topics_and_the_nearest_one(opta):
    assert "opta help tool add" in opta("help").out
    ran = opta("help tool ad")
    assert (ran.code, ran.out) == (2, "")
    assert "Did you mean tool add" in ran.err


@pytest.mark.row("C148")
@pytest.mark.parametrize("line", ["tool", "tool frobnicate"])
def test_an_unknown_command_shows_the_usage(opta, line):
    ran = opta(line)
    assert (ran.code, ran.out) == (2, "")
    assert "USAGE: opta tool list" in ran.err


@pytest.mark.row("C147")
@pytest.mark.parametrize(
    "name", ["add", "get", "list", "remove", "test", "validate", "edit", "export", "import"]
)
def test_every_command_is_there_and_refuses_options_it_does_not_have(opta, name):
    ran = opta(f"tool {name} --no-such-option")
    assert ran.code == 2
    assert "unknown option --no-such-option" in ran.err
    assert f"opta help tool {name}" in ran.err


def test_without_the_name_it_says_so(opta):
    ran = opta("tool get")
    assert (ran.code, "get needs NAME" in ran.err) == (2, True)


@pytest.mark.row("C233", "C235")
def test_get_shows_the_file_with_its_comments(stocked):
    assert stocked("tool get weather-lookup").out == WEATHER
    assert stocked("tool get weather-lookup --format yaml").out == WEATHER
    shown = json.loads(stocked("tool get git-status --scope user --format json").out)
    assert shown == parse(GIT, Path("x.yaml")).data


@pytest.mark.row("C232", "C337", "C347")
@pytest.mark.parametrize(
    ("scope", "found"),
    [("", "local"), ("-a", "local"), ("--scope any", "local"), ("--any", "local"),
     ("--scope local", "local"), ("-l", "local"), ("--scope user", "user"), ("--user", "user"),
     ("-g", "global"), ("--scope global", "global")],
)  # fmt: skip
def test_get_looks_in_the_scope_that_is_named(opta, scope, found):
    for name, directory in (("local", opta.local), ("user", opta.user), ("global", opta.shared)):
        opta.put("t.yaml", f"name: t\ndescription: from {name}\nbash: a\n", directory)
    assert f"from {found}" in opta(f"tool get t {scope}").out


@pytest.mark.row("C236")
def test_an_unknown_name_is_said_with_what_is_near(stocked):
    ran = stocked("tool get wether-lookup")
    assert (ran.code, ran.out) == (1, "")
    assert "'wether-lookup'" in ran.err
    assert "weather-lookup?" in ran.err
    assert "user scope" in stocked("tool get git-status -l").err


@pytest.mark.row("C234", "C235")
def test_detail_tells_where_a_tool_is_what_it_risks_and_costs(stocked):
    shown = json.loads(stocked("tool get weather-lookup --detail --format json").out)
    assert shown["scope"] == "local"
    assert shown["path"] == str(stocked.local / "weather-lookup.yaml")
    assert shown["risk"] == "low"
    assert shown["token-cost"] > 10
    assert shown["detailed-help"] == {"LOCATION": "A city, or the code of an airport."}
    assert shown["definition"]["name"] == "weather-lookup"
    as_yaml = stocked("tool get weather-lookup --detail").out
    assert parse(as_yaml, Path("x.yaml")).data == shown


@pytest.mark.row("C396")
@pytest.mark.parametrize("changes", ["Initial release", "[Initial release, New icons]"])
def test_detail_shows_what_changed_in_each_version(opta, changes):
    opta.put("t.yaml", f"""\
name: t
description: d
version: 1.1.0
bash: echo
changelog:
  - version: 1.1.0
    changes: {changes}
""")  # fmt: skip
    (entry,) = json.loads(opta("tool get t --detail --format json").out)["definition"]["changelog"]
    assert entry["version"] == "1.1.0"
    assert "Initial release" in entry["changes"]
    assert "Initial release" in opta("tool get t --detail").out


@pytest.mark.row("C238", "C242")
def test_the_forms_of_the_list(stocked):
    assert stocked("tool list").out == (
        "NAME            SCOPE  CATEGORY     DESCRIPTION\n"
        "git-status      user   development  Show the status\n"
        "weather-lookup  local  web          Get weather for a location\n"
    )
    assert stocked("tool list --format table").out == stocked("tool list").out
    assert stocked("tool list --format simple").out == "git-status\nweather-lookup\n"
    rows = json.loads(stocked("tool list --format json").out)
    assert [row["name"] for row in rows] == ["git-status", "weather-lookup"]
    assert rows[1]["tags"] == ["weather", "api", "read"]
    assert parse(stocked("tool list --format yaml").out, Path("x.yaml")).data == rows


FILTERS = [
    (("C237", "C242"), "--scope user", ["git-status"]),
    (("C237",), "--scope local", ["weather-lookup"]),
    (("C237",), "-g", []),
    (("C349",), "", ["git-status", "weather-lookup"]),
    (("C349",), "--any", ["git-status", "weather-lookup"]),
    (("C239",), "--tag git", ["git-status"]),
    (("C240", "C123"), "--category web", ["weather-lookup"]),
    (("C242", "C243"), "--tag git --category development", ["git-status"]),
    (("C243",), "--tag git --category web", []),
    (("C241",), "--search WEATHER", ["weather-lookup"]),
    (("C241", "C123"), "--search forecast", ["weather-lookup"]),
    (("C241",), "--search 'the status'", ["git-status"]),
    (("C350",), "--platform windows", ["weather-lookup"]),
    (("C350",), "--platform macos", ["git-status", "weather-lookup"]),
    (("C351",), "--sort name", ["git-status", "weather-lookup"]),
    (("C351",), "--sort scope", ["weather-lookup", "git-status"]),
    (("C351",), "--sort category", ["git-status", "weather-lookup"]),
]


@pytest.mark.parametrize(
    ("words", "names"),
    [pytest.param(words, names, marks=pytest.mark.row(*rows), id=words or "all")
     for rows, words, names in FILTERS],
)  # fmt: skip
def test_the_list_is_filtered_and_sorted(stocked, words, names):
    assert stocked(f"tool list --format simple {words}").out.split() == names


def test_a_file_that_is_no_tool_is_told_below_the_list(stocked):
    stocked.put("bad.yaml", "name: bad\nbash: 3\n")
    ran = stocked("tool list")
    assert ran.code == 0
    assert "bad.yaml:2:1: $.bash" in ran.err
    assert "bad" not in ran.out


def test_a_hidden_tool_is_marked(stocked):
    stocked.put("weather-lookup.yaml", WEATHER, stocked.user)
    assert "(hidden by a nearer weather-lookup)" in stocked("tool list").out


@pytest.mark.row("C244", "C245", "C246", "C353")
def test_remove_deletes_the_nearest_and_says_which(stocked):
    stocked.put("weather-lookup.yaml", WEATHER, stocked.user)
    ran = stocked("tool remove weather-lookup --force")
    assert ran.out == (
        "Deleted weather-lookup from the local scope: .opta/tools/weather-lookup.yaml\n"
    )
    assert stocked("tool list --format simple").out.split() == ["git-status", "weather-lookup"]
    assert stocked("tool remove weather-lookup --scope user --force").code == 0
    assert stocked("tool remove weather-lookup --scope user --force").code == 1


@pytest.mark.row("C247", "C246")
def test_without_a_terminal_nothing_is_deleted_unasked(stocked):
    ran = stocked("tool remove weather-lookup")
    assert (ran.code, ran.out) == (1, "")
    assert "--force" in ran.err
    assert (stocked.local / "weather-lookup.yaml").exists()


@pytest.mark.row("C247")
@pytest.mark.parametrize(("answer", "stays"), [("n", True), ("", True), ("y", False)])
def test_the_answer_of_the_person_decides(stocked, answer, stays):
    child = pexpect.spawn(
        OPTA[0], [*OPTA[1:], "tool", "remove", "weather-lookup"], timeout=20, env=dict(os.environ)
    )
    child.expect_exact("weather-lookup.yaml)? [y/N] ")
    child.sendline(answer)
    child.expect(pexpect.EOF)
    child.close()
    assert (stocked.local / "weather-lookup.yaml").exists() is stays
    assert child.exitstatus == int(stays)


@pytest.mark.row("C217", "C219")
def test_edit_saves_what_the_editor_made(stocked, tmp_path):
    editor(tmp_path, "sed -i 's/: Get weather/: Tell the weather/' \"$1\"")
    assert stocked("tool edit weather-lookup").code == 0
    text = (stocked.local / "weather-lookup.yaml").read_text()
    assert text == WEATHER.replace("Get weather", "Tell the weather")
    assert "Nothing was changed" in stocked("tool edit weather-lookup").out


@pytest.mark.row("C218", "C219")
def test_edit_uses_the_editor_that_is_named(stocked, tmp_path):
    editor(tmp_path, "exit 9")
    (tmp_path / "code").write_text("#!/bin/sh\nsed -i 's/: Show/: Tell/' \"$1\"\n")
    (tmp_path / "code").chmod(0o755)
    ran = stocked(f"tool edit git-status --scope user --editor {tmp_path}/code")
    assert ran.code == 0
    assert "Tell the status" in (stocked.user / "git-status.yaml").read_text()
    ran = stocked("tool edit git-status")
    assert (ran.code, "ended with 9" in ran.err) == (1, True)


@pytest.mark.row("C220")
@pytest.mark.parametrize("text", ["name: [", "name: weather-lookup\\nbash: 3\\n"])
def test_what_would_not_work_is_not_saved_and_not_lost(stocked, tmp_path, text):
    editor(tmp_path, f"printf '{text}' > \"$1\"")
    ran = stocked("tool edit weather-lookup")
    assert ran.code == 1
    assert "Not saved" in ran.err
    assert (stocked.local / "weather-lookup.yaml").read_text() == WEATHER
    kept = Path(ran.err.rpartition("kept in ")[2].strip().removesuffix("."))
    assert kept.read_text().startswith("name:")


@pytest.mark.row("C225", "C227", "C228", "C285")
def test_export_prints_yaml_or_json_and_nothing_else(stocked):
    assert stocked("tool export weather-lookup").out == WEATHER
    assert stocked("tool export weather-lookup -l --format yaml").out == WEATHER
    assert stocked("tool export weather-lookup -u").code == 1


@pytest.mark.row("C229")
def test_json_on_standard_output_has_no_notices_in_it(stocked):
    ran = stocked("tool export weather-lookup --format json")
    assert json.loads(ran.out) == parse(WEATHER, Path("x.yaml")).data
    assert "Comments" in ran.err


@pytest.mark.row("C356")
def test_export_writes_a_file_and_then_prints_nothing(stocked):
    ran = stocked("tool export weather-lookup --format json --output w.json")
    assert (ran.code, ran.out) == (0, "")
    assert json.loads(Path("w.json").read_text())["name"] == "weather-lookup"
    assert stocked("tool export weather-lookup --output new/one/w.yaml").code == 0
    assert Path("new/one/w.yaml").read_text() == WEATHER
    ran = stocked("tool export weather-lookup --output w.json/w.yaml")
    assert (ran.code, "w.json/w.yaml" in ran.err) == (1, True)


@pytest.mark.row("C226", "C230", "C286")
def test_import_stores_in_the_local_scope_or_the_one_named(opta):
    opta.put("my-tool-definition.yaml", GIT, opta.root)
    ran = opta("tool import my-tool-definition.yaml")
    assert ran.out == "Imported git-status to the local scope: .opta/tools/git-status.yaml\n"
    assert (opta.local / "git-status.yaml").read_text() == GIT
    assert opta("tool import my-tool-definition.yaml --scope user").code == 0
    assert (opta.user / "git-status.yaml").read_text() == GIT
    assert opta("tool import my-tool-definition.yaml --scope any").code == 2
    assert "does not exist" in opta("tool import nothing.yaml").err


EXAMPLES = sorted((HELP.parent / "tools").glob("*.yaml"))


@pytest.mark.row("C231")
@pytest.mark.parametrize("form", ["yaml", "json"])
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_export_and_import_give_an_equal_definition(opta, path, form):
    assert opta(f"tool import {path}").code == 0
    (stored,) = opta.local.iterdir()
    name = opta.written(stored.stem)["name"]
    first = opta(f"tool export {name} --format {form}").out
    Path(f"out.{form}").write_text(first)
    assert opta(f"tool import out.{form} --user").code == 0
    assert opta.written(stored.stem, opta.user) == json.loads(
        opta(f"tool export {name} --format json").out
    )
    assert opta(f"tool export {name} --user --format {form}").out == first


@pytest.mark.row("C358")
def test_import_replaces_only_with_override(stocked):
    stocked.put("w.yaml", WEATHER.replace("City", "Town"), stocked.root)
    ran = stocked("tool import w.yaml")
    assert (ran.code, "--override" in ran.err) == (1, True)
    assert (stocked.local / "weather-lookup.yaml").read_text() == WEATHER
    assert stocked("tool import w.yaml --override").code == 0
    assert "Town" in (stocked.local / "weather-lookup.yaml").read_text()


@pytest.mark.row("C359")
def test_import_can_refuse_what_would_not_work(opta):
    opta.put("bad.yaml", "name: bad\ndescription: D\nbash: a\nrun: b\n", opta.root)
    ran = opta("tool import bad.yaml --validate")
    assert (ran.code, ran.out) == (1, "")
    assert "bad.yaml:" in ran.err
    assert not opta.local.exists()
    ran = opta("tool import bad.yaml")
    assert ran.code == 0
    assert "does not work yet" in ran.err


def test_files_of_other_programs_are_read_and_left_alone(opta):
    theirs = opta.put("t.yaml", GIT.replace("git-status", "t"), opta.root / ".cycod" / "tools")
    assert opta("tool get t").code == 0
    ran = opta("tool remove t --force")
    assert (ran.code, theirs.exists()) == (1, True)
    assert "another program" in ran.err


def test_nothing_a_tool_says_reaches_the_terminal_as_a_control(opta):
    opta.put("t.yaml", 'name: t\ndescription: "a\\e[2Jb"\nbash: a\n')
    assert "\x1b" not in opta("tool list").out
    assert "\x1b" not in opta("tool list --format simple").out


def test_a_chosen_directory_is_the_project(opta, tmp_path):
    opta.put("t.yaml", GIT.replace("git-status", "t"), tmp_path / ".opta" / "tools")
    assert opta(f"tool list -C {tmp_path} --format simple").out == "t\n"


def test_a_test_that_could_not_run_says_why(opta):
    opta.put(
        "t.yaml",
        "name: t\ndescription: D\nbash: echo {P}\ntags: [read]\n"
        "parameters: {P: {description: What, required: true}}\n"
        "tests:\n  - {name: a, parameters: {}, expected: {exit-code: 0}}\n"
        "  - {name: b, parameters: {}}\n",
    )
    told = opta("tool test t --trust --yes").out
    assert "exit code: expected 0, got error: 'The arguments of t are wrong" in told
    assert "expected success, got error ('The arguments of t are wrong" in told
    assert told.count("$.P: missing") == 2
