"""Every command line of the published description, typed as it stands there."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.support.cli import OPTA

EXAMPLES = Path(__file__).parents[1] / "examples" / "002" / "cli-examples.sh.txt"
WEATHER = """\
name: weather-lookup
description: Get weather for a location
bash: curl -s 'wttr.in/{LOCATION}'
parameters:
  LOCATION: {type: string, description: City, required: true}
tags: [weather, git]
metadata: {category: development}
tests:
  - name: basic-test
    parameters: {LOCATION: London}
    expected: {exit-code: 0, output-contains: sunny}
"""


def lines():
    """Yield place and text of each command line, with the lines that continue it."""
    place = ""
    joined = EXAMPLES.read_text().replace("\\\n", " ")
    for line in joined.splitlines():
        if line.startswith("#"):
            place = line.removeprefix("# 002:")
        elif " tool " in line:
            yield place, re.sub(r" +", " ", line)


LINES = list(lines())


@pytest.fixture
def world(tmp_path):
    """A directory with the programs, tools and files that the command lines speak of."""
    programs = tmp_path / "bin"
    programs.mkdir()
    scripts = {
        "cycod": f'exec {OPTA[0]} {OPTA[1]} "$@"',
        "curl": "echo sunny",
        "code": "sed -i 's/Get weather/Tell the weather/' \"$1\"",
    }
    for name, script in scripts.items():
        (programs / name).write_text(f"#!/bin/sh\n{script}\n")
        (programs / name).chmod(0o755)
    os.environ["PATH"] = f"{programs}{os.pathsep}{os.environ['PATH']}"
    os.environ["EDITOR"] = str(programs / "code")
    user = Path(os.environ["XDG_CONFIG_HOME"]) / "opta" / "tools"
    user.mkdir(parents=True)
    return user


def prepared(user, line):
    """Put there what a command line needs to be there."""
    if " add " in line:
        named = line.endswith("--from-file my-tool-definition.yaml")
        if named:
            Path("my-tool-definition.yaml").write_text(WEATHER)
        if line.endswith("--editor"):
            os.environ["EDITOR"] = "sed -i s/What.it.does/Mine/"
    elif " import " in line:
        Path("weather-lookup.yaml").write_text(WEATHER)
        Path("my-tool-definition.yaml").write_text(WEATHER)
    else:
        (user / "weather-lookup.yaml").write_text(WEATHER)
        (user / "my-tool.yaml").write_text(WEATHER.replace("weather-lookup", "my-tool"))


def typed(line):
    return subprocess.run(
        ["sh", "-c", line], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60
    )


ASKS = re.compile(r"tool (test|remove)(?!.*--force)")


@pytest.mark.row("C147", "C213", "C219", "C223", "C235", "C242", "C246", "C282", "C285", "C286")
@pytest.mark.parametrize(
    ("place", "line"), LINES, ids=[f"{p}-{n}" for n, (p, _) in enumerate(LINES)]
)
def test_a_published_command_line_is_accepted(world, place, line):
    prepared(world, line)
    ran = typed(line)
    if ASKS.search(line):
        assert ran.returncode == 1
        assert "nobody can be asked" in ran.stderr
        option = "--yes" if " test " in line else "--force"
        ran = typed(f"{line} {option}")
    assert (ran.returncode, "opta: " in ran.stderr) == (0, False), ran.stderr


def test_there_are_as_many_command_lines_as_published():
    assert len(LINES) == EXAMPLES.read_text().count("cycod tool ")


@pytest.mark.row("C213")
def test_the_published_test_commands_run_the_test(world):
    prepared(world, " test ")
    ran = typed("cycod tool test weather-lookup --test basic-test --verbose --yes")
    assert (ran.returncode, "passed: basic-test" in ran.stdout) == (0, True)
    assert "| sunny" in ran.stdout


@pytest.mark.row("C229")
def test_a_redirected_export_is_only_the_tool(world):
    prepared(world, " export ")
    typed("cycod tool export weather-lookup --format json > weather-lookup.json")
    assert json.loads(Path("weather-lookup.json").read_text())["name"] == "weather-lookup"
