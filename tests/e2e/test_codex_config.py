"""Tools of a Codex config.toml, chosen on the command line."""

from __future__ import annotations

import os

import pytest

from tests.support.cli import opta
from tests.support.tool_files import EXAMPLES


def tools_of(tmp_path, *flags):
    env = {**os.environ, "HOME": str(tmp_path / "home")}
    env.pop("CODEX_HOME", None)
    done = opta("tools", "list", "--format", "json", *flags, cwd=tmp_path, env=env)
    return done, {name for name in ("count_files", "custom.echo", "echo_demo", "other")
                  if f'"{name}"' in done.stdout}  # fmt: skip


@pytest.mark.row("B4", "B32", "B33")
def test_the_file_is_the_users_own_or_the_one_the_flags_choose(tmp_path):
    example = (EXAMPLES / "001" / "config.toml").read_text()
    default, second = tmp_path / "home" / ".codex", tmp_path / "second"
    for directory, text in [
        (default, "[custom_tools.other]\ncommand = 'x'\n"), (second, example),
    ]:  # fmt: skip
        directory.mkdir(parents=True)
        (directory / "config.toml").write_text(text)
    three = {"count_files", "custom.echo", "echo_demo"}
    assert tools_of(tmp_path)[1] == {"other"}
    assert tools_of(tmp_path, "--config-home", str(second))[1] == three
    both = ("--config-home", str(default), "--config-file", "second/config.toml")
    assert tools_of(tmp_path, *both)[1] == three


def test_a_chosen_file_that_is_not_there_is_a_usage_error(tmp_path):
    done, _ = tools_of(tmp_path, "--config-file", "missing.toml")
    assert done.returncode == 2
    assert f"{tmp_path}/missing.toml does not exist" in done.stderr
    assert "Traceback" not in done.stderr
