"""`opta tool` with tools that are tables of a config.toml."""

from __future__ import annotations

import json

import pytest

CONFIG = """\
[custom_tools.greet]
command = "echo hello $MY_NAME; cat"
env = { MY_NAME = "Ada" }
timeuot = 5
since = 2020-01-01

[custom_tools.wrong]
description = "cannot work"
command = 5

[custom_tools."custom.echo"]
command = ["echo", "a b"]

[profiles.work.custom_tools.greet]
command = "echo from work; exit 3"

[profiles.work.custom_tools.only_work]
command = "true"
"""


@pytest.fixture
def stocked(opta):
    opta.put("config.toml", CONFIG, opta.root / ".opta")
    return opta


def test_list_shows_them_and_says_what_is_wrong(stocked):
    ran = stocked("tool list --format simple")
    assert (ran.code, ran.out.split()) == (0, ["custom.echo", "greet"])
    assert ".opta/config.toml:9:1: $.custom_tools.wrong.command" in ran.err
    ran = stocked("tool list --format simple --profile work")
    assert ran.out.split() == ["custom.echo", "greet", "only_work"]


def test_a_file_that_is_not_toml_is_said_by_list_and_validate(opta):
    opta.put("config.toml", "[custom_tools.a]\ncommand = \n", opta.root / ".opta")
    for line in ("tool list", "tool validate --all"):
        ran = opta(line)
        assert ".opta/config.toml:2:11: this is not TOML" in ran.out + ran.err
    assert opta("tool validate --all").code == 1


def test_get_shows_the_table_of_the_profile_in_use(stocked):
    assert stocked("tool get wrong").out == (
        "name: wrong\ndescription: cannot work\ncommand: 5\n"
    )  # fmt: skip
    shown = json.loads(stocked("tool get greet --format json").out)
    assert (shown["env"], shown["since"]) == ({"MY_NAME": "Ada"}, "2020-01-01")
    assert stocked("tool get greet --profile work").out == (
        "name: greet\ncommand: echo from work; exit 3\n"
    )
    detail = json.loads(stocked("tool get custom.echo --detail --format json").out)
    assert (detail["format"], detail["risk"], detail["scope"]) == ("codex", "high", "local")


def test_validate_reports_each_table_with_its_own_problems(stocked):
    ran = stocked("tool validate --all --format json")
    reports = {report["name"]: report for report in json.loads(ran.out)}
    assert ran.code == 1
    assert {name: report["valid"] for name, report in reports.items()} == {
        "custom.echo": True, "greet": True, "wrong": False,
    }  # fmt: skip
    assert [p["line"] for p in reports["greet"]["problems"]] == [4, 5]
    assert [p["line"] for p in reports["wrong"]["problems"]] == [9]
    ran = stocked("tool validate greet")
    assert (ran.code, ran.out.splitlines()[0]) == (
        0,
        "greet: valid, 2 warnings (.opta/config.toml)",
    )
    assert stocked("tool validate wrong").code == 1


def test_validate_checks_any_file_of_tables(stocked, tmp_path):
    file = tmp_path / "codex-web.toml"
    file.write_text(CONFIG)
    ran = stocked(f"tool validate {file}")
    assert ran.code == 1
    assert f"{file}:9:1: $.custom_tools.wrong.command" in ran.out
    assert "custom.echo: valid" in ran.out
    file.write_text("model = 'x'\n")
    ran = stocked(f"tool validate {file}")
    assert (ran.code, "no table [custom_tools.NAME]" in ran.err) == (1, True)


def test_a_profile_that_no_file_has_is_an_error_that_names_those_there_are(stocked):
    user = stocked.root / "user.toml"
    user.write_text("[profiles.play.custom_tools.a]\ncommand = 'true'\n")
    ran = stocked(f"tool validate --all --profile nope --config-file {user}")
    assert ran.code == 1
    assert "no config.toml has a profile 'nope' (there are play, work)" in ran.err
    assert "nope" in stocked(f"tool list --profile nope --config-file {user}").err
    for profile in ("play", "work"):
        ran = stocked(f"tool list --profile {profile} --config-file {user}")
        assert "no config.toml has a profile" not in ran.err


@pytest.mark.parametrize("name", ["custom.echo", "custom_echo", "custom.custom.echo"])
def test_run_takes_any_name_of_it(stocked, name):
    ran = stocked(f"tool run {name} --trust")
    assert (ran.code, ran.out) == (0, "a b\n")


def test_run_gives_its_output_and_exit_code_and_asks_for_trust(stocked):
    ran = stocked("tool run greet --trust")
    assert (ran.code, ran.out) == (0, "hello Ada\n")
    ran = stocked("tool run greet --trust --profile work")
    assert (ran.code, ran.out) == (3, "from work\n")
    ran = stocked("tool run greet")
    assert (ran.code, ran.out, "not trusted" in ran.err) == (1, "", True)
    ran = stocked("tool run greet --trust --dry-run")
    assert ran.out == f"echo hello $MY_NAME; cat\nin {stocked.root}\nMY_NAME=Ada\n"
    ran = stocked("tool run wrong --trust")
    assert (ran.code, "config.toml:9:1" in ran.err) == (1, True)


@pytest.mark.row("B14")
def test_an_escalated_one_is_not_run_where_nobody_can_be_asked(opta):
    text = "[custom_tools.t]\ncommand = 'touch ran'\nwith_escalated_permissions = true\n"
    opta.put("config.toml", text, opta.root / ".opta")
    ran = opta("tool run t --trust")
    assert (ran.code, "nobody can be asked here" in ran.err) == (1, True)
    assert not (opta.root / "ran").exists()


@pytest.mark.parametrize("verb", ["edit", "remove", "remove --force", "export", "test"])
def test_what_cannot_be_done_names_file_and_line_and_changes_nothing(stocked, verb):
    ran = stocked(f"tool {verb} greet --trust")
    assert (ran.code, ran.out) == (1, "")
    assert "config.toml" in ran.err
    assert ".opta/config.toml:1" in ran.err
    assert (stocked.root / ".opta/config.toml").read_text() == CONFIG


def test_a_nearer_tool_hides_one_of_the_users(stocked):
    user = stocked.root / "user.toml"
    user.write_text("[custom_tools.greet]\ncommand = 'echo user'\n")
    ran = stocked(f"tool list --config-file {user}")
    assert "hidden by a nearer greet" in ran.out
    ran = stocked(f"tool validate --all --config-file {user}")
    assert "user.toml:1: a nearer tool of this name hides it" in ran.out
