"""Tools of a config.toml from the file to the result, through the real gate and real processes."""

from __future__ import annotations

import json
import os
import sys

import pytest

from tests.support.custom_tools import Project
from tests.support.plans import processes_with
from tests.support.soon import soon
from tools.builtin import all_builtins
from tools.definition import Outcome
from tools.formats.codex import INJECTED
from tools.permissions.mode import Mode
from tools.permissions.question import Choice
from tools.permissions.rules import Verdict

DEADLINE_S = 30
ANY = "parameters = {type = 'object'}"

SHOW = """\
import json, os, sys
names = [name for name in os.environ if name.startswith(("CODEX_TOOL", "OPTA_TOOL", "MY_"))]
print(json.dumps({"cwd": os.getcwd()} | {name: os.environ[name] for name in names}))
"""


@pytest.fixture
def project(tmp_path):
    return Project(tmp_path)


def table(name, command, more=""):
    """The text of one table; `command` is a list, or shell text."""
    return f"[custom_tools.{name}]\ncommand = {json.dumps(command)}\n{more}\n"


async def shown(project, more="", **arguments):
    """Call a tool with these keys, and return what its program was given."""
    project.configure(table("t", [sys.executable, "-c", SHOW], f"{ANY}\n{more}"))
    result = await project.call("t", **arguments)
    assert result.outcome is Outcome.OK, result.text
    return json.loads(result.text)


@pytest.mark.row("B3", "B21", "B22")
async def test_the_arguments_and_the_name_reach_the_program(project):
    arguments = {"text": "a 'b' $(c) é\n", "count": 3, "list": [1, None], "on": True}
    given = await shown(project, **arguments)
    assert json.loads(given["CODEX_TOOL_ARGS_JSON"]) == arguments
    assert given["CODEX_TOOL_NAME"] == "t"
    project.configure(table('"custom.echo"', "echo $CODEX_TOOL_NAME"))
    assert (await project.call("custom_echo")).text == "custom.echo"


@pytest.mark.row("B23", "B25")
async def test_every_call_has_the_id_the_model_gave_it_and_its_result_goes_there(project):
    project.configure(table("t", "echo $CODEX_TOOL_CALL_ID; echo err >&2"))
    results = await project.calls(("t", {}), ("t", {}))
    assert [r.text for r in results] == ["call_1\n[stderr] err", "call_2\n[stderr] err"]


@pytest.mark.row("B24")
@pytest.mark.parametrize("size", [1, 200_000], ids=["short", "too long for a variable"])
async def test_what_opta_tells_of_the_call_cannot_be_set_by_the_file(tmp_path, monkeypatch, size):
    for name in (*INJECTED, "OPTA_TOOL_ARGS"):
        monkeypatch.setenv(name, "outer")
    project = Project(tmp_path)
    env = ", ".join(f"{name} = 'forged'" for name in (*INJECTED, "OPTA_TOOL_ARGS"))
    given = await shown(project, f"env = {{ {env}, MY_OWN = 'kept' }}", text="x" * size)
    assert "forged" not in given.values()
    assert "outer" not in given.values()
    assert (given["CODEX_TOOL_NAME"], given["CODEX_TOOL_CALL_ID"]) == ("t", "call_1")
    assert given["MY_OWN"] == "kept"
    assert ("CODEX_TOOL_ARGS_JSON" in given) is (size == 1)
    question = project.person.asked[0].invocation.preview
    assert not any(f"{name}=forged" in question.note for name in INJECTED)


@pytest.mark.row("B12")
@pytest.mark.parametrize(
    "keys",
    ["env = { MY_ONE = 'a b', MY_TWO = '{text}' }",
     "[custom_tools.t.env]\nMY_ONE = 'a b'\nMY_TWO = '{text}'"],
    ids=["inline", "table"],
)  # fmt: skip
async def test_env_is_added_as_it_is_written_and_wins_over_what_is_inherited(
    tmp_path, monkeypatch, keys
):
    monkeypatch.setenv("MY_ONE", "inherited")
    monkeypatch.setenv("MY_THREE", "inherited")
    given = await shown(Project(tmp_path), keys, text="x")
    mine = {name: value for name, value in given.items() if name.startswith("MY_")}
    assert mine == {"MY_ONE": "a b", "MY_TWO": "{text}", "MY_THREE": "inherited"}


@pytest.mark.row("B25", "B26")
async def test_what_it_prints_and_how_it_ends_are_one_text(project):
    project.configure(table("t", "echo out; echo err >&2; exit 3"))
    result = await project.call("t")
    assert result.text == "out\n[stderr] err\n[exit code: 3]"
    assert (result.outcome, result.exit_code) == (Outcome.ERROR, 3)


@pytest.mark.row("B26")
async def test_a_program_that_is_not_there_is_an_error_for_the_model(project):
    project.configure(table("t", ["no-such-program-anywhere"]))
    result = await project.call("t")
    assert result.outcome is Outcome.ERROR
    assert "no-such-program-anywhere" in result.text


@pytest.mark.row("B6", "B11")
@pytest.mark.parametrize(
    ("cwd", "place"),
    [("", "tools/custom_tools"), ("cwd = '.'", "tools/custom_tools"),
     ("cwd = 'sub'", "sub/tools/custom_tools"), ("cwd = 'a/../sub'", "sub/tools/custom_tools")],
)  # fmt: skip
async def test_relative_paths_count_from_where_the_tool_runs(project, cwd, place):
    directory = project.root / place
    directory.mkdir(parents=True)
    (project.root / "a").mkdir()
    (directory / "tool.py").write_text("import os\nprint(os.getcwd())")
    program = directory / "tool"
    program.write_text("#!/bin/sh\npwd -P\n")
    program.chmod(0o755)
    project.configure(
        table("script", [sys.executable, "tools/custom_tools/tool.py"], cwd)
        + table("program", ["tools/custom_tools/tool"], cwd)
        + table("shell", "tools/custom_tools/tool", cwd)
    )
    results = await project.calls(("script", {}), ("program", {}), ("shell", {}))
    assert [r.text for r in results] == [os.path.realpath(directory.parents[1])] * 3


@pytest.mark.row("B11")
@pytest.mark.parametrize(
    ("cwd", "said"),
    [("nowhere", "does not exist"), ("file", "does not exist"), ("link", "outside the workspace"),
     ("/", "outside the workspace")],
)  # fmt: skip
async def test_a_directory_that_is_not_in_the_workspace_is_an_error(project, cwd, said):
    (project.root / "file").touch()
    (project.root / "link").symlink_to("/")
    project.configure(table("t", "touch ran", f"cwd = {cwd!r}"))
    result = await project.call("t")
    assert result.outcome is Outcome.ERROR
    assert said in result.text
    assert project.person.asked == []


@pytest.mark.row("B13")
async def test_at_its_timeout_a_tool_ends_with_all_it_started(project):
    marker = f"300.{os.getpid()}"
    command = f"sleep {marker} & wait"
    project.configure(
        table("one", command, "timeout = 2000\nparallel = true")
        + table("two", command, "timeout_ms = 2000\nparallel = true")
    )
    for result in await project.calls(("one", {}), ("two", {})):
        assert result.outcome is Outcome.TIMED_OUT
        assert "[timed out after 2000 ms" in result.text
    await soon(lambda: not processes_with(marker))


MEET = """\
import os, pathlib, time
me, deadline = os.environ["CODEX_TOOL_CALL_ID"], time.monotonic() + float(os.environ["WAIT_S"])
def note(what):
    with open("log", "a") as log:
        log.write(f"{what} {me}\\n")
note("start")
pathlib.Path("here", me).touch()
while len(os.listdir("here")) < 2 and time.monotonic() < deadline:
    time.sleep(0.02)
note("end")
"""


async def meet(project, wait_s, more):
    """Let two calls of one message wait for each other; return what they noted."""
    (project.root / "here").mkdir()
    env = f"env = {{ WAIT_S = '{wait_s}' }}"
    project.configure(table("t", [sys.executable, "-c", MEET], f"{env}\n{more}"))
    await project.calls(("t", {}), ("t", {}))
    return (project.root / "log").read_text().splitlines()


@pytest.mark.row("B15")
async def test_parallel_calls_of_one_message_overlap(project):
    log = await meet(project, DEADLINE_S, "parallel = true")
    assert {line.split()[0] for line in log[:2]} == {"start"}
    assert sorted(log) == ["end call_1", "end call_2", "start call_1", "start call_2"]


@pytest.mark.row("B15")
@pytest.mark.parametrize("more", ["parallel = false", ""], ids=["false", "absent"])
async def test_other_calls_run_one_after_another_in_order(project, more):
    log = await meet(project, 1, more)
    assert log == ["start call_1", "end call_1", "start call_2", "end call_2"]


POLICIES = {
    "asked, yes": (lambda p: None, Outcome.OK, 1),
    "deny rule": (lambda p: p.rule(Verdict.DENY, "run_command(touch:*)"), Outcome.DENIED, 0),
    "allow rule": (lambda p: p.rule(Verdict.ALLOW, "run_command(touch:*)"), Outcome.OK, 0),
    "ask rule": (lambda p: p.rule(Verdict.ASK, "run_command(touch:*)"), Outcome.OK, 1),
    "skip": (lambda p: setattr(p.gate, "skip_permissions", True), Outcome.OK, 0),
    "plan mode": (lambda p: setattr(p.gate, "mode", Mode.PLAN), Outcome.DENIED, 0),
    "nobody there": (lambda p: setattr(p.gate, "approver", None), Outcome.DENIED, 0),
}


@pytest.mark.row("B2")
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", ["t", "text", "run_command"])
async def test_it_is_allowed_asked_and_denied_as_the_shell_tool_is(tmp_path, policy, name):
    project = Project(tmp_path, builtins={tool.definition.name: tool for tool in all_builtins()})
    project.configure(table("t", ["touch", "ran"]) + table("text", "touch ran"))
    prepare, outcome, questions = POLICIES[policy]
    prepare(project)
    arguments = {"command": "touch ran"} if name == "run_command" else {}
    result = await project.call(name, **arguments)
    assert (result.outcome, len(project.person.asked)) == (outcome, questions)
    assert (tmp_path / "ran").exists() is (outcome is Outcome.OK)
    for question in project.person.asked:
        assert question.invocation.preview.command == "touch ran"


@pytest.mark.row("B2")
async def test_a_no_of_the_person_is_obeyed(tmp_path):
    project = Project(tmp_path, answer=Choice.NO)
    project.configure(table("t", ["touch", "ran"]))
    assert (await project.call("t")).outcome is Outcome.DENIED
    assert not (tmp_path / "ran").exists()


@pytest.mark.row("B14")
@pytest.mark.parametrize(
    "policy", ["asked, yes", "allow rule", "skip", "deny rule", "plan mode", "nobody there"]
)
async def test_an_escalated_tool_asks_every_time_and_says_so(project, policy):
    prepare, outcome, questions = POLICIES[policy]
    prepare(project)
    project.configure(table("t", ["touch", "ran"], "with_escalated_permissions = true"))
    project.rule(Verdict.ALLOW, "t")
    for _ in range(2):
        assert (await project.call("t")).outcome is outcome
    always = 2 if outcome is Outcome.OK else questions
    assert len(project.person.asked) == always
    for question in project.person.asked:
        assert "asks for escalated permissions" in question.reason
        assert question.suggested == ()


@pytest.mark.row("B14")
async def test_a_yes_for_the_session_does_not_hold_for_an_escalated_tool(tmp_path):
    project = Project(tmp_path, answer=Choice.SESSION)
    project.configure(table("t", "true", "with_escalated_permissions = true"))
    await project.call("t")
    await project.call("t")
    assert len(project.person.asked) == 2
