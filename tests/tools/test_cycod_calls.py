"""CYCOD files from the file to the result: offered, asked about and run as their keys say."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from pathlib import Path

import pytest

from tests.support.custom_tools import Project
from tests.support.plans import processes_with
from tools.definition import Outcome, Risk
from tools.permissions.question import Choice
from tools.permissions.rules import Verdict


class CycodProject(Project):
    """A trusted project whose tools are written as CYCOD files."""

    def put(self, name, text):
        """Write a tool file and load it; return its definition."""
        self.tools.mkdir(parents=True, exist_ok=True)
        (self.tools / f"{name}.yaml").write_text(f"name: {name}\ndescription: d\n{text}")
        self.registry.refresh()
        entry = self.registry.find(name)
        assert entry, self.registry.problems
        return entry.definition


@pytest.fixture
def project(tmp_path):
    return CycodProject(tmp_path)


@pytest.mark.row("C1", "C2", "C107", "C108")
async def test_a_file_becomes_a_function_that_the_model_calls_by_name(project):
    project.put(
        "greet",
        """\
parameters:
  NAME: {type: string, description: Who., required: true}
  TIMES: {type: number, description: How often., default: 2}
metadata: {category: fun}
steps:
  - {name: make, bash: 'for i in $(seq {TIMES}); do echo "hi {NAME}"; done'}
  - {name: count, bash: 'echo "{make.output}" | wc -l | tr -d " "'}
""",
    )
    (function,) = [wire["function"] for wire in project.registry.wire()]
    assert function == {
        "name": "greet",
        "description": "d",
        "parameters": {
            "type": "object",
            "properties": {
                "NAME": {"type": "string", "description": "Who."},
                "TIMES": {"type": "number", "description": "How often.", "default": 2},
            },
            "required": ["NAME"],
        },
    }
    result = await project.call("greet", NAME="a 'b'; exit 9")
    assert result.text == (
        "--- Step 1: make ---\nhi a 'b'; exit 9\nhi a 'b'; exit 9\n--- Step 2: count ---\n2"
    )
    assert (result.outcome, result.exit_code) == (Outcome.OK, 0)


@pytest.mark.row("E25")
async def test_a_file_that_cannot_be_read_is_told_and_the_others_work(project):
    project.put("good", "bash: echo fine\n")
    (project.tools / "bad.yml").write_text("name: bad\ndescription: [\n")
    (line,) = project.registry.refresh()
    assert re.fullmatch(r"Failed to load tool from \S*bad\.yml:3:\d+: .+", line)
    assert (await project.call("good")).text == "fine"


@pytest.mark.row("C121")
async def test_the_tags_of_a_tool_say_how_much_it_can_do_and_which_rules_hold(project):
    assert project.put("look", "bash: echo seen\ntags: [read, weather]\n").risk is Risk.LOW
    assert project.put("change", "bash: echo done\ntags: [write]\n").risk is Risk.MEDIUM
    project.rule(Verdict.ALLOW, "tool:weather")
    assert (await project.call("look")).text == "seen"
    assert project.person.asked == []
    assert (await project.call("change")).text == "done"
    assert [asked.call.tool.name for asked in project.person.asked] == ["change"]


@pytest.mark.row("C288")
async def test_a_value_is_transformed_and_then_formatted(project):
    project.put(
        "t",
        """\
bash: printf '<%s>' "{V}" "{LOUD}"
parameters:
  V: {description: v, transform: uppercase, format: "--v={value}"}
  LOUD: {description: l, transform: "value.trim() + '!'", format: "[{value}]", default: " hm "}
""",
    )
    assert (await project.call("t", V="a b")).text == "<--v=A B><[hm!]>"


@pytest.mark.row("C134", "C382")
@pytest.mark.skipif(sys.platform == "win32", reason="separators are turned the other way there")
@pytest.mark.parametrize(
    ("paths", "seen"),
    [("{normalize: true, cross-platform: {auto-convert: true}}", "a/b/c x\\y"),
     ("{normalize: true}", "a\\b\\c x\\y"),
     ("{normalize: true, cross-platform: {auto-convert: false}}", "a\\b\\c x\\y")],
)  # fmt: skip
async def test_separators_become_those_of_the_platform_when_that_is_asked_for(project, paths, seen):
    project.put(
        "t",
        f"""\
bash: printf '%s %s' "{{OUT_DIR}}" "{{TEXT}}"
file-paths: {paths}
parameters:
  OUT_DIR: {{description: o}}
  TEXT: {{description: t}}
""",
    )
    assert (await project.call("t", OUT_DIR="a\\b\\c", TEXT="x\\y")).text == seen


@pytest.mark.row("C315")
@pytest.mark.skipif(sys.platform != "linux", reason="memory is limited on Linux only")
async def test_the_example_of_limits_holds_memory_and_cleans_up(project):
    project.put(
        "t",
        """\
bash: |
  echo "dir $TMPDIR"; touch "$TMPDIR/left"
  python3 -c 'x = b"x" * 100_000_000; print("small")'
  python3 -c 'x = b"x" * 400_000_000; print("big")' 2>/dev/null || echo refused
resources:
  max-memory: 256MB
  cleanup:
    - delete-temp-files: true
""",
    )
    lines = (await project.call("t")).text.splitlines()
    # Where the whole tree has a limit the program is killed, and bash says so.
    assert [line for line in lines[1:] if "Killed" not in line] == ["small", "refused"]
    assert not Path(lines[0].removeprefix("dir ")).exists()


@pytest.mark.row("C326", "C330")
@pytest.mark.parametrize(
    "security", ["isolation: none", "execution-privilege: same-as-user", "isolation: process"]
)
async def test_without_special_rights_it_runs_as_the_user_does(project, security):
    project.put("t", f"bash: id -u; ps -o ppid= -p $$\nsecurity: {{{security}}}\n")
    user, parent = (await project.call("t")).text.split()
    assert (int(user), int(parent)) == (os.getuid(), os.getpid())


@pytest.mark.row("C332")
@pytest.mark.parametrize("refuse", ["person", "rule", "nobody"])
async def test_a_permission_that_is_not_granted_stops_the_run_and_is_named(tmp_path, refuse):
    project = CycodProject(tmp_path, Choice.NO)
    if refuse == "rule":
        project.rule(Verdict.DENY, "network:api.example.com")
    if refuse == "nobody":
        project.gate.approver = None
    project.put(
        "t",
        """\
bash: touch ran
parameters: {DIR: {description: d, default: out}}
security: {required-permissions: ["filesystem:write:{DIR}", "network:api.example.com"]}
""",
    )
    result = await project.call("t")
    assert result.outcome is Outcome.DENIED
    assert result.text.splitlines()[:2] == [
        "Permission not granted: filesystem:write:out",
        "Permission not granted: network:api.example.com",
    ]
    assert not (tmp_path / "ran").exists()


@pytest.mark.row("C387")
@pytest.mark.parametrize(
    "command",
    ["bash: sleep 73.25 & sleep 73.25\n",
     "steps:\n  - {name: a, bash: 'true'}\n  - {name: b, bash: 'sleep 73.25 & sleep 73.25'}\n"],
)  # fmt: skip
async def test_at_the_deadline_the_whole_tree_is_ended_and_the_result_says_so(project, command):
    project.put("t", f"{command}timeout: 400\n")
    result = await project.call("t")
    assert result.outcome is Outcome.TIMED_OUT
    assert "Command timed out after 400ms" in result.text
    async with asyncio.timeout(10):
        while processes_with("73.25"):
            await asyncio.sleep(0.02)


@pytest.mark.row("C398")
async def test_a_deprecated_parameter_is_answered_with_its_alternative(project):
    project.put(
        "t",
        """\
bash: echo {OLD_PARAM}{NEW_PARAM}
parameters:
  OLD_PARAM: {description: o, default: "", deprecated: true, deprecated-alternative: NEW_PARAM}
  NEW_PARAM: {description: n, default: "", deprecated: false}
""",
    )
    assert (await project.call("t", OLD_PARAM="x")).text == (
        "x\nThe parameter OLD_PARAM is deprecated: use NEW_PARAM instead."
    )
    assert (await project.call("t", NEW_PARAM="y")).text == "y"


@pytest.mark.row("C400")
async def test_variables_of_the_environment_are_the_shells(project):
    project.put("t", "bash: echo $HOME\n")
    assert (await project.call("t")).text == os.environ["HOME"]


async def test_a_default_with_placeholders_is_filled_in_wherever_it_shows(project):
    project.put(
        "clone",
        """\
bash: echo "{DIR}" "$OPTA_TOOL_ARG_DIR"
parameters:
  REPO: {description: r}
  DIR: {description: d, default: "./projects/{REPO}"}
""",
    )
    assert (await project.call("clone", REPO="x y")).text == "./projects/x y ./projects/x y"
    (asked,) = project.person.asked
    assert asked.invocation.title == "clone REPO=x y DIR=./projects/x y"


async def test_an_empty_temporary_directory_does_not_stay(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    project = CycodProject(tmp_path)
    project.put(
        "t",
        """\
bash: echo "$TMPDIR"; [ -z {KEEP} ] || touch "$TMPDIR/kept"
file-paths: {temp-directory: "{TEMP}/cycod-tools/{TOOL_NAME}"}
parameters: {KEEP: {description: k, default: ""}}
""",
    )
    assert not Path((await project.call("t")).text).exists()
    assert (Path((await project.call("t", KEEP="yes")).text) / "kept").exists()


@pytest.mark.skipif(os.name != "posix", reason="directories have no owner to compare there")
async def test_a_temporary_directory_is_not_made_in_what_another_user_holds(tmp_path, monkeypatch):
    held = tmp_path / "elsewhere"
    held.mkdir(mode=0o777)
    (tmp_path / "temp").mkdir()
    (tmp_path / "temp" / "tools").symlink_to(held)
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temp"))
    project = CycodProject(tmp_path)
    project.put("t", 'bash: echo "$TMPDIR"\nfile-paths: {temp-directory: "{TEMP}/tools/t"}\n')
    made = Path((await project.call("t")).text)
    assert made.parent == tmp_path / "temp"
    assert list(held.iterdir()) == []
