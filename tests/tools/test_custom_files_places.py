"""Tool files of all designs, in all the places they may be, and who wins."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.support.tool_files import EXAMPLES, cycod
from tools.definition import Limits, Risk, Scope
from tools.permissions.trust import inspect
from tools.registry import ToolRegistry, ToolSettings
from tools.sources.codex_config import user_config
from tools.sources.files import ToolFiles, tool_places
from tools.sources.plan_checks import check_plan


class Machine:
    """Directories of a project, a user and a machine."""

    def __init__(self, root: Path):
        self.project, self.home = root / "project", root / "home"
        self.config, self.shared = root / "home/.config/opta", root / "etc"

    def write(self, place: Path, text: str) -> Path:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
        return place

    def files(self, trusted=True, profile="", **codex):
        return ToolFiles(
            tool_places(
                self.project if trusted else None, self.config, self.shared,
                home=self.home, codex_config=user_config(self.home, {}, **codex),
            ), profile,
        )  # fmt: skip

    def registry(self, trusted=True):
        return ToolRegistry(
            [], self.files(trusted).load, ToolSettings({}), lambda name, on: None
        )  # fmt: skip


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


def tool(name, description="d"):
    return f"name: {name}\ndescription: {description}\nbash: run-it\n"


def table(name, description="d"):
    return f"[custom_tools.{name}]\ncommand = 'run-it'\ndescription = '{description}'\n"


def names(files):
    return [tool.name for tool in files.load()[0]]


@pytest.mark.row("C3", "C4", "C5", "A8", "A9")
def test_tools_are_found_in_every_documented_place(machine):
    local, home = machine.project, machine.home
    places = {
        local / ".opta/tools/a.yaml": Scope.LOCAL,
        local / ".cycod/tools/b.yaml": Scope.LOCAL,
        local / ".mimir/tools/c.yml": Scope.LOCAL,
        machine.config / "tools/d.yaml": Scope.USER,
        home / ".cycod/tools/e.yaml": Scope.USER,
        home / ".mimir/tools/f.yml": Scope.USER,
        machine.shared / "tools/g.yaml": Scope.GLOBAL,
    }
    for place in places:
        machine.write(place, tool(place.stem))
    machine.write(local / ".opta/config.toml", table("h"))
    machine.write(local / ".codex/config.toml", table("i"))
    machine.write(home / ".codex/config.toml", table("j"))
    definitions, problems = machine.files().load()
    assert problems == []
    assert {d.name: d.origin.scope for d in definitions} == {
        **{place.stem: scope for place, scope in places.items()},
        "h": Scope.LOCAL, "i": Scope.LOCAL, "j": Scope.USER,
    }  # fmt: skip
    assert "".join(d.name for d in definitions) == "abchidefjg"


def test_without_trust_nothing_of_the_project_is_opened(machine):
    for directory in (".opta", ".cycod", ".mimir"):
        (machine.project / directory).mkdir(parents=True)
        os.mkfifo(machine.project / directory / "tools")
    machine.write(machine.project / ".codex/config.toml", "= broken")
    machine.write(machine.home / ".cycod/tools/a.yaml", tool("a"))
    definitions, problems = machine.files(trusted=False).load()
    assert ([d.name for d in definitions], problems) == (["a"], [])


def test_the_nearer_place_wins_and_says_so(machine):
    order = [
        machine.project / ".opta/tools/z.yaml", machine.project / ".cycod/tools/y.yaml",
        machine.project / ".mimir/tools/x.yaml", machine.config / "tools/w.yaml",
        machine.home / ".cycod/tools/v.yaml", machine.shared / "tools/u.yaml",
    ]  # fmt: skip
    for place in order:
        machine.write(place, tool("same", str(place)))
    for place in order:
        entry = machine.registry().find("same")
        assert entry.definition.description == str(place)
        place.unlink()
    machine.write(machine.project / ".opta/config.toml", table("same", "toml"))
    machine.write(machine.project / ".mimir/tools/x.yaml", tool("same", "yaml"))
    registry = machine.registry()
    assert registry.find("same").definition.description == "yaml"
    (told,) = [problem for problem in registry.problems if problem.key == "$.name"][-1:]
    assert "already registered" in told.message
    assert str(machine.project / ".mimir/tools/x.yaml") in told.hint


@pytest.mark.row("B19", "B20")
def test_a_tool_of_config_toml_answers_to_all_its_names(machine):
    text = (EXAMPLES / "001/config.toml").read_text()
    machine.write(machine.project / ".opta/config.toml", text)
    registry = machine.registry()
    found = {name: registry.find(name).definition.name for name in
             ("custom.echo", "custom_echo", "custom.echo_demo", "custom_echo_demo")}  # fmt: skip
    assert found == {
        "custom.echo": "custom.echo", "custom_echo": "custom.echo",
        "custom.echo_demo": "echo_demo", "custom_echo_demo": "echo_demo",
    }  # fmt: skip
    sent = [schema["function"]["name"] for schema in registry.wire()]
    assert sent == ["count_files", "custom_echo", "echo_demo"]


@pytest.mark.row("B5")
def test_toml_that_cannot_be_read_is_one_line_and_the_other_tools_load(machine):
    place = machine.write(machine.home / ".codex/config.toml", "[custom_tools.a]\ncommand = \n")
    machine.write(machine.config / "tools/b.yaml", tool("b"))
    definitions, (problem,) = machine.files().load()
    assert [d.name for d in definitions] == ["b"]
    assert str(problem).startswith(f"{place}:2:11: this is not TOML")


@pytest.mark.row("B4")
def test_the_users_file_is_the_default_or_the_chosen_one(tmp_path):
    home, other, file = tmp_path / "home", tmp_path / "other", tmp_path / "f.toml"
    default = home / ".codex/config.toml"
    assert user_config(home, {}) == default
    assert user_config(home, {"CODEX_HOME": ""}) == default
    assert user_config(home, {"CODEX_HOME": str(other)}) == other / "config.toml"
    environ = {"CODEX_HOME": str(home)}
    assert user_config(home, environ, config_home=other) == other / "config.toml"
    assert user_config(home, environ, config_home=other, config_file=file) == file


@pytest.mark.row("B4")
def test_the_same_file_works_from_a_second_home(machine):
    text = (EXAMPLES / "001/config.toml").read_text()
    second = machine.write(machine.home / "second/config.toml", text)
    third = machine.write(machine.home / "third.toml", text)
    wanted = ["count_files", "custom.echo", "echo_demo"]
    assert names(machine.files(config_home=second.parent)) == wanted
    assert names(machine.files(config_file=third)) == wanted
    assert names(machine.files()) == []


def test_a_profile_is_chosen_for_all_files(machine):
    text = f"{table('a')}[profiles.p.custom_tools.b]\ncommand = 'x'\n"
    machine.write(machine.home / ".codex/config.toml", text)
    assert names(machine.files()) == ["a"]
    assert names(machine.files(profile="p")) == ["a", "b"]


def test_an_edit_of_config_toml_shows_at_the_next_load(machine):
    files = machine.files()
    place = machine.write(machine.home / ".codex/config.toml", table("a"))
    assert names(files) == ["a"]
    machine.write(place, table("a") + table("b"))
    assert names(files) == ["a", "b"]
    place.unlink()
    assert names(files) == []


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        ("[{name: a, bash: x, wait-for: [b]}, {name: b, bash: x, wait-for: [a]}]", "a -> b -> a"),
        ("[{name: a, bash: 'x {a.output}'}]", ""),
    ],
)
def test_steps_that_wait_for_each_other_are_one_line(machine, steps, said):
    text = cycod(command=f"steps: {steps}")
    machine.write(machine.config / "tools/t.yaml", text)
    machine.write(machine.config / "tools/u.yaml", tool("u"))
    definitions, problems = machine.files().load()
    assert [d.name for d in definitions] == ["u"]
    (error,) = [p for p in problems if not p.warning]
    assert (error.key, error.line) == ("$.steps", 3)
    assert said in error.message


PLACED = """\
description: d
steps:
  - name: first
    bash: echo {P}
  - name: second
    bash: |
      echo one
      echo $(cat <<< `{P}`
parameters:
  P: {description: p, required: true}
"""


def test_a_placeholder_that_cannot_be_placed_refuses_the_tool_and_says_where(machine):
    place = machine.write(machine.config / "tools/t.yaml", PLACED)
    definitions, (problem,) = machine.files().load()
    assert definitions == []
    assert str(problem).startswith(f"{place}:6:5: $.steps[1].bash: line 2, column ")


@pytest.mark.parametrize(
    ("command", "parameter"),
    [
        ("bash: python3 -c \"print('{P}')\"", ""),
        ("bash: echo {P}", ", security: {escape-shell: false}"),
    ],
)
def test_a_value_that_may_be_read_as_code_makes_the_tool_a_high_risk(machine, command, parameter):
    for name, text in [("plain", "bash: echo {P}"), ("code", command)]:
        more = parameter if name == "code" else ""
        machine.write(
            machine.config / f"tools/{name}.yaml",
            f"description: d\n{text}\ntags: [read]\n"
            f"parameters: {{P: {{description: p, required: true{more}}}}}\n",
        )
    risks = {tool.name: tool.risk for tool in machine.files().load()[0]}
    assert risks == {"code": Risk.HIGH, "plain": Risk.LOW}


@pytest.mark.row("C279")
@pytest.mark.parametrize(
    ("command", "key", "line"),
    [
        ("bash: x\nparameters: {P: {description: p, required: true, transform: no-such}}",
         "$.parameters.P.transform", 3),
        ("steps:\n  - {name: a, bash: x}\n  - {name: b, bash: x, run-condition: '{a.output} =='}",
         "$.steps[1].run-condition", 4),
    ],
)  # fmt: skip
def test_an_expression_that_cannot_work_is_found_by_a_thorough_check(machine, command, key, line):
    text = f"description: d\n{command}\n"
    machine.write(machine.config / "tools/t.yaml", text)
    ((definition,), _) = machine.files().load()
    (problem,) = check_plan(definition, text.encode(), expressions=True).problems
    assert (problem.key, problem.line) == (key, line)


def test_bad_yaml_files_are_one_line_each_and_the_good_one_loads(machine):
    directory = machine.config / "tools"
    machine.write(directory / "good.yaml", tool("good"))
    (directory / "x.yaml").mkdir()
    (directory / "dangling.yml").symlink_to("nowhere")
    (directory / "big.yaml").write_bytes(b"#" * 10_000_000)
    (directory / "latin.yaml").write_bytes(b"name: \xe9\n")
    (directory / "empty.yaml").write_text("")
    (directory / "tabs.yaml").write_text("security:\n\tisolation: none\n")
    definitions, problems = machine.files().load()
    assert [d.name for d in definitions] == ["good"]
    assert sorted(p.path.name for p in problems) == [
        "big.yaml", "dangling.yml", "empty.yaml", "latin.yaml", "tabs.yaml", "x.yaml",
    ]  # fmt: skip
    assert all("\n" not in str(problem) and not problem.warning for problem in problems)


@pytest.mark.skipif(sys.platform != "linux", reason="names the machine it is not for")
@pytest.mark.row("C120", "C14")
def test_a_tool_for_another_machine_is_listed_but_not_offered_and_says_why(machine):
    machine.write(machine.config / "tools/a.yaml", "description: d\ncmd: dir\n")
    machine.write(machine.config / "tools/b.yaml", f"{tool('b')}platforms: [macos]\n")
    machine.write(machine.config / "tools/c.yaml", tool("c"))
    registry = machine.registry()
    found = {entry.definition.name: (entry.enabled, entry.reason) for entry in registry.entries()}
    assert found == {
        "a": (False, "unavailable: cmd is there on Windows only"),
        "b": (False, "unavailable: it is for macos, not for linux"),
        "c": (True, ""),
    }
    assert [schema["function"]["name"] for schema in registry.wire()] == ["c"]
    assert not registry.switch("a", True).enabled


def test_a_cap_on_the_time_leaves_the_other_limits(machine):
    text = f"{tool('a')}timeout: 50000\nresources: {{max-memory: 1MB}}\n"
    machine.write(machine.config / "tools/a.yaml", text)
    settings = ToolSettings({}, max_execution_ms=1000)
    registry = ToolRegistry([], machine.files().load, settings, lambda name, on: None)
    assert registry.find("a").definition.limits == Limits(1000, 1 << 20)


def test_every_file_of_a_project_that_may_define_tools_is_part_of_what_trust_is_about(machine):
    inside = [
        place.relative_to(machine.project)
        for scope, place in tool_places(machine.project, machine.config, machine.shared)
        if scope is Scope.LOCAL
    ]
    for place in inside:
        file = place if place.suffix == ".toml" else place / "t.yaml"
        machine.write(machine.project / file, "")
    seen = {file.path for file in inspect(machine.project).files}
    assert seen == {
        str(place) if place.suffix == ".toml" else f"{place}/t.yaml" for place in inside
    }


@pytest.mark.row("E22", "E23", "E24")
def test_a_tool_of_mimir_is_listed_and_on(machine):
    assert machine.registry().entries() == ()
    text = (EXAMPLES / "004/run_tests.yml").read_text()
    machine.write(machine.project / ".mimir/tools/run_tests.yml", text)
    registry = machine.registry()
    (entry,) = registry.entries()
    assert (entry.definition.name, entry.enabled, entry.reason) == ("run_tests", True, "")
    assert registry.problems == ()
