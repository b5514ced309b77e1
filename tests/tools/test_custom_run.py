"""Custom tools from the file to the result, through the real gate and real processes."""

from __future__ import annotations

import asyncio
import json
import os
import time
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from tests.support.custom_tools import Person, Project
from tests.support.processes import has_ended
from tests.support.soon import SOON_S, soon
from tools import storage
from tools.builtin import all_builtins
from tools.definition import Outcome, ToolError
from tools.engine.arguments import call_variables
from tools.events import CallFinished, CallOutput, CallStarted
from tools.permissions.question import Choice
from tools.permissions.rules import Verdict

TEXT = {"type": "string"}
SHOW_VARIABLES = "env -0 | grep -z '^OPTA_TOOL\\|^CODEX_TOOL' | sort -z"


@pytest.fixture
def project(tmp_path):
    return Project(tmp_path)


async def variables(project, arguments, properties=None):
    """Return the variables that a call's command really gets."""
    out = project.root / "variables"
    project.add("show", f"{SHOW_VARIABLES} > {out}", properties or {name: {} for name in arguments})
    result = await project.call("show", **arguments)
    assert result.outcome is Outcome.OK, result.text
    pairs = (entry.partition(b"=") for entry in out.read_bytes().split(b"\0") if entry)
    return {name.decode(): value.decode() for name, _, value in pairs}


@pytest.mark.row("A5", "A14")
async def test_the_command_is_shell_text_with_all_a_shell_can_do(project):
    project.add(
        "t", 'echo "a $OPTA_TOOL_ARG_X" | tr a-z A-Z > f && cat f && false || echo end', {"x": TEXT}
    )
    assert (await project.call("t", x="b c")).text == "A B C\nend"


@pytest.mark.row("A16", "A19", "A20", "A36")
async def test_the_published_example_runs_after_the_permission(project):
    (project.root / "scripts").mkdir()
    (project.root / "scripts" / "deploy.sh").write_text(
        'echo "deployed to $1"; echo "$OPTA_TOOL_ARGS"\n'
    )
    project.add(
        "deploy", "bash scripts/deploy.sh $OPTA_TOOL_ARG_ENVIRONMENT",
        {"environment": TEXT}, ["environment"], timeout=60000,
    )  # fmt: skip
    result = await project.call("deploy", environment="staging")
    assert result.text == 'deployed to staging\n{"environment":"staging"}'
    (question,) = project.person.asked
    assert (
        question.invocation.preview.command == "bash scripts/deploy.sh $OPTA_TOOL_ARG_ENVIRONMENT"
    )
    assert question.invocation.preview.note == "OPTA_TOOL_ARG_ENVIRONMENT=staging"
    assert question.invocation.preview.cwd == str(project.root)


@pytest.mark.row("A17")
async def test_without_a_required_argument_nothing_runs_and_nobody_is_asked(project):
    project.add("t", "touch ran", {"environment": TEXT}, ["environment"])
    result = await project.call("t")
    assert result.outcome is Outcome.ERROR
    assert "$.environment: missing, wanted string" in result.text
    assert project.person.asked == []
    assert not (project.root / "ran").exists()


@pytest.mark.row("A18", "A20", "A22", "A23")
async def test_each_argument_is_a_variable_and_all_together_are_json(project):
    arguments = {
        "my_value": "x", "dry-run": True, "count": 3, "ratio": 0.5, "whole": 2.0,
        "list": ["a b", 1, None], "nested": {"k": "é"}, "absent": None,
    }  # fmt: skip
    found = await variables(project, arguments, {name: {} for name in [*arguments, "other"]})
    whole = '{"my_value":"x","dry-run":true,"count":3,"ratio":0.5,"whole":2.0,' + (
        '"list":["a b",1,null],"nested":{"k":"é"},"absent":null}'
    )
    assert found == {
        "OPTA_TOOL_ARG_MY_VALUE": "x",
        "OPTA_TOOL_ARG_DRY_RUN": "true",
        "OPTA_TOOL_ARG_COUNT": "3",
        "OPTA_TOOL_ARG_RATIO": "0.5",
        "OPTA_TOOL_ARG_WHOLE": "2",
        "OPTA_TOOL_ARG_LIST": '["a b",1,null]',
        "OPTA_TOOL_ARG_NESTED": '{"k":"é"}',
        "OPTA_TOOL_ARGS": whole,
        "CODEX_TOOL_ARGS_JSON": whole,
        "CODEX_TOOL_NAME": "show",
        "CODEX_TOOL_CALL_ID": "call_1",
    }


@pytest.mark.row("A23")
async def test_variables_of_an_outer_call_do_not_pass_for_arguments(tmp_path, monkeypatch):
    monkeypatch.setenv("OPTA_TOOL_ARG_X", "outer")
    monkeypatch.setenv("OPTA_TOOL_ARGS_FILE", "/outer")
    monkeypatch.setenv("CODEX_TOOL_CALL_ID", "outer")
    found = await variables(Project(tmp_path), {}, {"x": TEXT})
    assert sorted(found) == [
        "CODEX_TOOL_ARGS_JSON", "CODEX_TOOL_CALL_ID", "CODEX_TOOL_NAME", "OPTA_TOOL_ARGS",
    ]  # fmt: skip
    assert found["CODEX_TOOL_CALL_ID"] == "call_1"


HOSTILE = st.text(
    st.characters(codec="utf-8", exclude_characters="\0")
    | st.sampled_from("'\"`$();&|<>*?~#\\\n\r -"),
    max_size=60,
)  # fmt: skip


@pytest.mark.row("A21")
@settings(max_examples=100)
@given(value=HOSTILE)
def test_values_arrive_byte_for_byte_and_nothing_of_them_is_executed(tmp_path_factory, value):
    root = tmp_path_factory.mktemp("p")
    project = Project(root)
    project.add(
        "t", 'printf %s "$OPTA_TOOL_ARG_X" > plain; printf %s "$OPTA_TOOL_ARGS" > json', {"x": TEXT}
    )
    result = asyncio.run(project.call("t", x=value))
    assert result.text == "(no output)"
    assert (root / "plain").read_bytes() == value.encode()
    assert json.loads((root / "json").read_bytes()) == {"x": value}
    assert {entry.name for entry in root.iterdir()} == {".opta", "plain", "json"}


@pytest.mark.row("A21")
@pytest.mark.parametrize(
    "value", ["$(touch hit)", "`touch hit`", "; touch hit", "' ; touch hit ; '", "\n touch hit\n"]
)
async def test_a_value_that_looks_like_shell_is_only_text(project, value):
    project.add("t", 'echo "$OPTA_TOOL_ARG_X"; echo $OPTA_TOOL_ARG_X', {"x": TEXT})
    await project.call("t", x=value)
    assert not (project.root / "hit").exists()


async def test_a_nul_character_is_refused_before_anybody_is_asked(project):
    project.add("t", "touch ran", {"x": TEXT})
    result = await project.call("t", x="a\0b")
    assert "NUL" in result.text
    assert project.person.asked == []


def test_two_undeclared_arguments_with_one_variable_are_refused():
    with pytest.raises(ToolError, match="OPTA_TOOL_ARG_A_B"):
        call_variables({"a-b": 1, "a_b": 2})


@pytest.mark.parametrize("size", [99_000, 131_072, 3_000_000])
async def test_long_values_arrive_in_a_file_that_is_gone_afterwards(project, size):
    project.add(
        "t",
        'if [ -n "$OPTA_TOOL_ARGS_FILE" ]; then stat -c %a "$OPTA_TOOL_ARGS_FILE"; '
        'cat "$OPTA_TOOL_ARGS_FILE" > got; else echo none; printf %s "$OPTA_TOOL_ARGS" > got; fi; '
        'printf "%s" "${OPTA_TOOL_ARG_BIG:-unset}" | wc -c; echo "$OPTA_TOOL_ARG_SMALL"',
        {"big": TEXT, "small": TEXT},
    )
    arguments = {"big": "é" * (size // 2), "small": "s"}
    result = await project.call("t", **arguments)
    assert json.loads((project.root / "got").read_bytes()) == arguments
    in_file = size > 100_000
    shown = ["600", "5", "s"] if in_file else ["none", str(size // 2 * 2), "s"]
    assert result.text.split() == shown
    assert list(storage.output_dir().glob("*")) == []


async def test_many_values_that_together_are_too_long_still_arrive(project):
    arguments = {f"a{n:02}": "x" * 90_000 for n in range(30)}
    project.add("t", 'wc -c < "$OPTA_TOOL_ARGS_FILE"', {name: TEXT for name in arguments})
    result = await project.call("t", **arguments)
    assert int(result.text) > 30 * 90_000


@pytest.mark.row("A44")
async def test_stdout_stderr_and_exit_code_are_all_in_the_result(project):
    project.add("t", "echo out; echo err >&2; exit 42")
    result = await project.call("t")
    assert result.text == "out\n[stderr] err\n[exit code: 42]"
    assert (result.outcome, result.exit_code) == (Outcome.ERROR, 42)


async def test_a_command_that_prints_nothing_says_so(project):
    project.add("t", "true")
    assert (await project.call("t")).text == "(no output)"


async def test_the_end_by_a_signal_is_named(project):
    project.add("t", "echo before; kill -9 $$")
    result = await project.call("t")
    assert result.text == "before\n[ended by signal SIGKILL]"
    assert result.outcome is Outcome.ERROR


async def test_much_output_is_cut_for_the_model_and_kept_in_a_private_file(project):
    project.add("t", "yes 0123456789 | head -c 3000000; echo the end")
    result = await project.call("t")
    assert len(result.text) < 20_000
    assert result.text.endswith("the end")
    assert result.full_output.stat().st_size == 3_000_008
    assert result.full_output.stat().st_mode & 0o777 == 0o600


@pytest.mark.row("A37")
async def test_a_slow_command_is_killed_with_its_children_and_says_after_how_long(project):
    project.add("t", "echo started; sleep 60 & echo $! > child; wait", timeout=400)
    started = time.monotonic()
    result = await project.call("t")
    assert time.monotonic() - started < SOON_S
    assert result.outcome is Outcome.TIMED_OUT
    assert result.text.startswith("started\n[timed out after 400 ms")
    child = int((project.root / "child").read_text())
    await soon(lambda: has_ended(child))


@pytest.mark.row("E13")
async def test_the_duration_of_every_call_is_measured_in_milliseconds(project):
    project.add("t", "sleep 0.2")
    ok, wrong = await project.calls(("t", {}), ("nothing", {}))
    assert 200 <= ok.duration_ms < 10_000
    assert isinstance(wrong.duration_ms, int)


@pytest.mark.row("A26")
async def test_calls_go_to_the_custom_tool_and_an_unknown_name_is_an_error_for_the_model(project):
    project.add("run_tests", "echo ran")
    good, bad, alias = await project.calls(
        ("run_tests", {}), ("run_test", {}), ("custom.run_tests", {})
    )
    assert good.text == alias.text == "ran"
    assert bad.outcome is Outcome.ERROR
    assert "no tool 'run_test'" in bad.text
    assert "run_tests" in bad.text


@pytest.mark.row("A24", "A26", "A27")
async def test_a_call_of_a_built_in_name_never_reaches_a_custom_tool(tmp_path):
    project = Project(tmp_path, builtins={tool.definition.name: tool for tool in all_builtins()})
    (tmp_path / "f").write_text("content\n")
    project.add("own", "echo own")
    data = (project.tools / "own.json").read_text().replace('"own"', '"read_file"')
    (project.tools / "read_file.json").write_text(data.replace("echo own", "touch hit"))
    (line,) = project.registry.refresh()
    assert "conflicts with built-in tool read_file" in line
    assert "content" in (await project.call("read_file", path="f")).text
    assert not (tmp_path / "hit").exists()
    assert project.registry.wire()[-1]["function"]["name"] == "own"


@pytest.mark.row("A41")
async def test_no_means_a_refusal_for_the_model_and_that_nothing_runs(tmp_path):
    project = Project(tmp_path, answer=Choice.NO)
    project.add("t", "touch ran")
    result = await project.call("t")
    assert result.outcome is Outcome.DENIED
    assert "refused" in result.text
    assert len(project.person.asked) == 1
    assert not (tmp_path / "ran").exists()


@pytest.mark.row("A42")
async def test_with_permissions_skipped_nobody_is_asked(project):
    project.gate.skip_permissions = True
    project.add("t", "echo ran")
    assert (await project.call("t")).text == "ran"
    assert project.person.asked == []


@pytest.mark.row("A43")
@pytest.mark.parametrize("rule", ["run_command", "run_command(echo:*)", "t", "custom.t"])
async def test_rules_for_run_command_and_for_the_tool_hold(project, rule):
    project.add("t", "echo ran")
    project.rule(Verdict.ALLOW, rule)
    assert (await project.call("t")).text == "ran"
    assert project.person.asked == []
    project.rule(Verdict.DENY, rule)
    result = await project.call("t")
    assert result.outcome is Outcome.DENIED
    assert rule in result.text


async def test_yes_for_the_session_holds_for_the_tool_and_not_for_others(tmp_path):
    project = Project(tmp_path, answer=Choice.SESSION)
    project.add("one", "echo 1")
    project.add("two", "echo 2")
    await project.call("one")
    await project.call("one")
    assert len(project.person.asked) == 1
    await project.call("two")
    assert len(project.person.asked) == 2


async def test_calls_of_one_message_run_in_order(project):
    project.add("slow", "sleep 0.2; echo slow >> log")
    project.add("quick", "echo quick >> log")
    await project.calls(("slow", {}), ("quick", {}), ("quick", {}))
    assert (project.root / "log").read_text().split() == ["slow", "quick", "quick"]


async def test_output_is_shown_while_the_command_runs(project):
    project.add("t", "printf 'one\\033[31m'; sleep 0.1; echo two")
    await project.call("t")
    kinds = [type(event) for event in project.events]
    assert kinds.index(CallStarted) < kinds.index(CallOutput) < kinds.index(CallFinished)
    shown = "".join(event.text for event in project.events if isinstance(event, CallOutput))
    assert shown == "onetwo\n"


async def test_the_command_gets_no_provider_key(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    project = Project(tmp_path)
    project.add("t", 'echo "key=$OPENAI_API_KEY"')
    assert (await project.call("t")).text == "key="


async def test_what_was_shown_runs_even_when_the_file_changes_while_the_person_thinks(project):
    class Slow(Person):
        async def ask(self, request):
            project.add("t", "echo new")
            return await super().ask(request)

    project.gate.approver = Slow()
    project.add("t", "echo old")
    assert (await project.call("t")).text == "old"
    assert (await project.call("t")).text == "new"


async def test_the_command_runs_in_the_workspace(project):
    project.add("t", "pwd -P")
    assert Path((await project.call("t")).text) == Path(os.path.realpath(project.root))


async def test_a_command_may_delete_the_file_that_its_arguments_came_in(project):
    project.add("t", 'wc -c < "$OPTA_TOOL_ARGS_FILE"; rm "$OPTA_TOOL_ARGS_FILE"', {"x": TEXT})
    result = await project.call("t", x="a" * 200_000)
    assert (result.outcome, result.text.strip()) == (Outcome.OK, "200008")
