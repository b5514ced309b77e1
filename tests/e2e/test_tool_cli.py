"""Every command line of the published description, typed as it stands there, in one home."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pexpect
import pytest

from tests.support.cli import OPTA, connected
from tests.support.model_server import ModelServer, call, say
from tests.support.terminal import Terminal, needs_tmux
from tests.support.tool_command import Shell

DOCUMENT = Path(__file__).parents[1] / "examples" / "002"
TESTS = """\
metadata: {category: development}
tests:
  - name: basic-test
    parameters: {LOCATION: London}
    expected: {exit-code: 0, output-contains: "curl -s wttr.in/London?format=3"}
  - name: other-test
    parameters: {LOCATION: SFO}
    expected: {exit-code: 0}
"""
PROGRAMS = {
    "cycod": f'exec {shlex.join(OPTA)} "$@"',
    "curl": 'echo "curl $*"',
    "jq": 'echo "jq $*"; cat "$2"',
    "code": "sed -i 's/Get weather/Tell the weather/' \"$1\"",
    "write": 'cat "$HOME/text" >> "$1"',
    "describe": "sed -i 's/^description: .*/description: Mine/' \"$1\"",
}


def lines():
    """Yield the place of each command line and the line, as often as it stands there."""
    place = ""
    for line in (DOCUMENT / "cli-examples.sh.txt").read_text().replace("\\\n", " ").splitlines():
        if line.startswith("#"):
            place = line.removeprefix("# 002:")
        elif line:
            yield place, re.sub(r" +", " ", line.partition("  #")[0]).strip()


LINES = list(lines())
CHATS = [line for _, line in LINES if " tool " not in line]


@dataclass
class World:
    """A home in which lines are typed; `left` are those of the document still to come."""

    user: Path
    left: list[tuple[str, str]]
    opta: Shell

    def published(self, line, answer="", place=""):
        """Type a line of the document; where it asks, give the answer."""
        found = next(one for one in self.left if line == one[1] and place in ("", one[0]))
        self.left.remove(found)
        return self.typed(line, answer)

    def typed(self, line, answer=""):
        """Type a line into a shell and return what it printed, which must go well."""
        if answer:
            child = pexpect.spawn(
                "sh", ["-c", line], timeout=60, encoding="utf-8", dimensions=(50, 200)
            )
            child.expect_exact("[y/N] ")
            asked = child.before
            child.sendline(answer)
            child.expect(pexpect.EOF)
            child.close()
            assert child.exitstatus == 0, asked + child.before
            return asked + child.before.replace("\r\n", "\n")
        ran = subprocess.run(
            ["sh", "-c", line], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60
        )
        assert ran.returncode == 0, ran.stderr
        assert "opta: " not in ran.stderr
        return ran.stdout

    def here(self, line):
        """Run a line of the test's own in this process; return its output.

        Only for what is published it matters that it is typed into a shell.
        """
        ran = self.opta(line)
        assert ran.code == 0, ran.err
        return ran.out


@pytest.fixture
def world(tmp_path, capfd):
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, script in PROGRAMS.items():
        (programs / name).write_text(f"#!/bin/sh\n{script}\n")
        (programs / name).chmod(0o755)
    os.environ["PATH"] = f"{programs}{os.pathsep}{os.environ['PATH']}"
    return World(
        Path(os.environ["XDG_CONFIG_HOME"]) / "opta" / "tools",
        [one for one in LINES if one[1] not in CHATS],
        Shell(capfd),
    )


LOCAL = Path(".opta/tools/weather-lookup.yaml")


@pytest.mark.row("C147", "C208", "C213", "C219", "C223", "C229", "C230", "C235", "C242", "C246")
@pytest.mark.row("C282", "C284", "C285", "C286", "C339", "C340", "C341", "C342")
def test_every_published_line_does_what_the_document_says(world):
    _add_and_run(world)
    _edit_and_test(world)
    _validate_and_exchange(world)
    _look(world)
    _remove(world)
    _add_again(world)
    _other_tools(world)
    assert world.left == []


def add_line(number):
    return [line for _, line in LINES if line.startswith("cycod tool add weather-lookup")][number]


def _add_and_run(world):
    world.published(add_line(0))
    assert "timeout: 10000" in LOCAL.read_text()
    ran = world.here('tool run weather-lookup --param LOCATION="London\';id;#"')
    assert ran == "curl -s wttr.in/London';id;#?format=3\n"


def _edit_and_test(world):
    os.environ["EDITOR"] = "write"
    (Path.home() / "text").write_text(TESTS)
    world.published("cycod tool edit weather-lookup")
    assert LOCAL.read_text().endswith(TESTS)
    shown = world.published("cycod tool test weather-lookup", "y")
    assert "weather-lookup: 2 passed, 0 failed, 0 skipped" in shown
    shown = world.published("cycod tool test weather-lookup --test basic-test --verbose", "y")
    assert "weather-lookup: 1 passed" in shown
    assert "$ curl -s 'wttr.in/London?format=3'" in shown
    assert "| curl -s wttr.in/London?format=3" in shown


def _validate_and_exchange(world):
    for line in ("cycod tool validate weather-lookup", "cycod tool validate weather-lookup --fix"):
        before = LOCAL.read_text()
        assert world.published(line).startswith("weather-lookup: valid")
        assert LOCAL.read_text() == before
    world.published("cycod tool export weather-lookup --format json > weather-lookup.json")
    exported = json.loads(Path("weather-lookup.json").read_text())
    assert exported["tags"] == ["weather", "api", "read"]
    world.typed("cycod tool export weather-lookup > weather-lookup.yaml")
    world.published("cycod tool import weather-lookup.yaml --scope user")
    assert (world.user / "weather-lookup.yaml").read_text() == LOCAL.read_text()
    world.published("cycod tool edit weather-lookup --scope user --editor code")
    assert "Tell the weather" in (world.user / "weather-lookup.yaml").read_text()
    assert "Get weather" in LOCAL.read_text()


def _look(world):
    assert world.published("cycod tool get weather-lookup") == LOCAL.read_text()
    theirs = json.loads(world.published("cycod tool get weather-lookup --scope user --format json"))
    assert theirs["description"] == "Tell the weather for a location"
    detail = world.published("cycod tool get weather-lookup --detail")
    assert all(text in detail for text in ("LOCATION", "basic-test", "risk: low", str(LOCAL)))
    listed = world.published("cycod tool list")
    assert re.findall(r"^weather-lookup +(\w+)", listed, re.MULTILINE) == ["local", "user"]
    (row,) = json.loads(world.published("cycod tool list --scope user --format json"))
    assert (row["name"], row["scope"]) == ("weather-lookup", "user")
    line = "cycod tool list --tag git --category development"
    assert "weather-lookup" not in world.published(line)
    assert "weather-lookup" in world.here(line.replace("git", "api").removeprefix("cycod "))
    assert "weather-lookup" in world.published('cycod tool list --search "weather"')


def _remove(world):
    assert "Delete weather-lookup (local: " in world.published(
        "cycod tool remove weather-lookup", "y"
    )
    assert (LOCAL.exists(), (world.user / "weather-lookup.yaml").exists()) == (False, True)
    world.published("cycod tool remove weather-lookup --scope user --force")
    assert not (world.user / "weather-lookup.yaml").exists()


def _add_again(world):
    world.published(add_line(1))
    assert "timeout" not in LOCAL.read_text()
    ran = world.here("tool run weather-lookup --param LOCATION=SFO --param FORMAT=4")
    assert ran == "curl -s wttr.in/SFO?format=4\n"


def _other_tools(world):
    (process,) = [line for _, line in LINES if "process-data" in line]
    world.published(process)
    ran = world.here("tool run process-data --param URL=http://h/x")
    assert ran == "jq .items data.json\ncurl -s http://h/x\n"
    assert not Path("data.json").exists()

    world.here("tool add my-tool --description 'Says it' --bash 'echo {IT}' "
                "--parameter IT 'What to say' default=hello")  # fmt: skip
    world.published("cycod tool export my-tool > my-tool-definition.yaml")
    world.published("cycod tool import my-tool-definition.yaml --scope user")
    assert world.here("tool run my-tool --user") == "hello\n"
    for place in ("847-847", "1488-1488"):
        world.here("tool remove my-tool --local --force")
        world.published("cycod tool add --from-file my-tool-definition.yaml", place=place)
        assert world.here("tool run my-tool --local --param IT='a b'") == "a b\n"

    os.environ["EDITOR"] = "describe"
    for place in ("879-879", "1492-1492"):
        world.published("cycod tool add my-new-tool --editor", place=place)
        assert "description: Mine" in world.here("tool get my-new-tool")
        world.here("tool remove my-new-tool --force")


PAGES = sorted((DOCUMENT / "help").iterdir())


def test_every_published_page_is_printed_as_it_is_asked_for(world):
    assert len(PAGES) == 10
    for page in PAGES:
        documented = page.read_text().replace("cycod", "opta").replace("CYCOD", "OPTA")
        printed = world.typed(f"cycod help {page.stem.replace('-', ' ')}")
        assert printed.rstrip("\n") == documented.rstrip("\n")


@needs_tmux
@pytest.mark.row("C316", "C317")
@pytest.mark.parametrize("line", CHATS)
def test_tools_with_the_tag_that_was_named_run_unasked_and_others_ask(world, line):
    world.user.mkdir(parents=True)
    for name, tag in (("forecast", "weather, read"), ("delete", "write")):
        (world.user / f"{name}.yaml").write_text(
            f"name: {name}\ndescription: d\nbash: echo ran-$((40+2))-{name}\ntags: [{tag}]\n"
        )
    turns = [call("forecast"), call("delete"), say("The end.")]
    with ModelServer(turns) as server:
        _, url, _, model = connected(server)
        environment = {"OPTA_BASE_URL": url, "OPTA_MODEL": model, "PATH": os.environ["PATH"]}
        with Terminal(["sh", "-c", line], env=environment, rows=40) as terminal:
            terminal.wait("ask ·")
            terminal.type("go")
            terminal.send("Enter")
            screen = terminal.wait("[y] yes, once")
            assert "ran-42-forecast" in screen
            assert "echo ran-$((40+2))-delete" in screen
            assert "ran-42-delete" not in screen
        (result,) = [m for m in server.sent_messages if m["role"] == "tool"]
        assert result["content"] == "ran-42-forecast"


def test_there_are_as_many_command_lines_as_published():
    assert len(LINES) == (DOCUMENT / "cli-examples.sh.txt").read_text().count("cycod ")
    assert len(CHATS) == 2
