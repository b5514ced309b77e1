"""Plans of several steps, run for real: order, values, failures, retries, limits, cleanup."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import tempfile
import time
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from tests.support.plans import Plans, bash, marked_seconds, processes_with, tool
from tests.support.soon import SOON_S, soon
from tools.actions import (
    AliasAction,
    Argv,
    BuiltinAction,
    Interaction,
    OutputOptions,
    Parameter,
    PlanAction,
    PlanEnvironment,
    PlatformCommands,
    Retry,
    Shell,
    Step,
    UseTool,
)
from tools.definition import EffectKind, Outcome, Security
from tools.engine.plan import order_steps
from tools.permissions.grant import mint


@pytest.fixture
def plans(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "w").mkdir()
    return Plans(tmp_path / "w")


# Order


@pytest.mark.row("C23", "C25", "C131", "C259")
async def test_steps_run_in_order_and_the_next_gets_the_output_of_the_last(plans):
    result = await plans.run(bash("a", "echo one; echo x > f"), bash("b", "cat f; echo {a.output}"))
    assert result.text == "--- Step 1: a ---\none\n--- Step 2: b ---\nx\none"
    assert (result.outcome, result.exit_code) == (Outcome.OK, 0)


@pytest.mark.row("C29", "C132", "C391")
async def test_twenty_parallel_steps_run_at_the_same_time(plans):
    everyone = "until [ $(ls here | wc -l) = 20 ]; do sleep 0.02; done"
    (plans.root / "here").mkdir()
    result = await plans.run(
        *(bash(f"s{n}", f"touch here/{n}; {everyone}", parallel=True) for n in range(20)),
        timeout_ms=30_000,
    )
    assert result.success


@pytest.mark.row("C30", "C133", "C312")
async def test_a_step_waits_for_the_steps_it_names(plans):
    result = await plans.run(
        bash("a", "sleep 0.3; echo 1 > a", parallel=True),
        bash("b", "sleep 0.3; echo 2 > b", parallel=True),
        bash("c", "cat a b", wait_for=("a", "b")),
    )
    assert result.text.endswith("--- Step 3: c ---\n1\n2")


@pytest.mark.row("C112", "C28", "C392", "C393")
async def test_a_condition_decides_whether_a_step_runs(plans):
    result = await plans.run(
        bash("a", "exit 3", continue_on_error=True),
        bash("yes", "echo ran", condition="{a.exit-code} == 3"),
        bash("no", "echo ran", condition="{a.exit-code} == 0"),
        bash("after", "echo {no.output}[{no.exit-code}]", condition="{no.exit-code} != 0"),
    )
    assert plans.states() == {"a": "ignored", "yes": "ok", "no": "skipped", "after": "ok"}
    assert "[skipped: {no.exit-code}" not in result.text
    assert "--- Step 3: no ---\n[skipped: {a.exit-code} == 0 is false]" in result.text
    assert result.text.endswith("[]")


async def test_output_inside_a_condition_is_data(plans):
    await plans.run(
        bash("a", "echo \"' || true || '\""), bash("b", condition="'{a.output}' == 'x'")
    )
    assert plans.states() == {"a": "ok", "b": "skipped"}


@st.composite
def random_plans(draw):
    steps = []
    for number in range(draw(st.integers(2, 7))):
        names = [each.name for each in steps]
        some = st.lists(st.sampled_from(names), max_size=2, unique=True) if names else st.just([])
        code = draw(st.sampled_from([0, 0, 0, 5]))
        name = f"s{number}"
        steps.append(bash(
            name, f"echo start {name} >> log; echo end {name} >> log; exit {code}",
            wait_for=draw(st.none() | some.map(tuple)), parallel=draw(st.booleans()),
            condition=draw(st.sampled_from(["", "", "1 == 2"])),
            continue_on_error=draw(st.booleans()), retry=Retry(draw(st.sampled_from([0, 0, 1]))),
        ))  # fmt: skip
    return steps


@settings(max_examples=25, deadline=None)
@given(random_plans())
def test_every_step_of_a_random_plan_has_one_end_and_waits_for_what_it_needs(steps):
    with tempfile.TemporaryDirectory() as directory:
        plans = Plans(Path(directory))
        result = asyncio.run(plans.run(*steps))
        log = Path(directory, "log")
        lines = log.read_text().splitlines() if log.exists() else []
    planned = {each.step.name: each for each in order_steps(steps)}
    assert [step.name for step in plans.steps] == [step.name for step in steps]
    for step, ended in zip(steps, plans.steps, strict=True):
        runs = lines.count(f"start {step.name}")
        assert runs == lines.count(f"end {step.name}")
        assert ended.executed == (runs > 0)
        assert str(ended.state) in (
            ("ok", "failed", "ignored") if runs else ("skipped", "cancelled")
        )
        for other in planned[step.name].waits_for if runs else ():
            if f"end {other}" in lines:
                first = lines.index(f"start {step.name}")
                assert f"end {other}" not in lines[first:]
    failed = [ended for ended in plans.steps if ended.state == "failed"]
    assert result.success == (not failed)
    assert result.exit_code == (5 if failed else 0)


# Values


@pytest.mark.row("C260", "C261", "C262", "C263", "C264", "C265")
async def test_everything_about_a_step_can_be_asked(plans):
    result = await plans.run(
        bash("a", "echo out; echo err >&2; sleep 0.05; exit 4", continue_on_error=True),
        bash("b", "printf '%s|' {a.output} {a.error} {a.exit-code} {a.duration} "
             "{a.start-time} {a.end-time}"),
    )  # fmt: skip
    out, err, code, duration, start, end, _ = result.text.splitlines()[-1].split("|")
    assert (out, err, code) == ("out", "err", "4")
    assert 50 <= int(duration) < 10_000
    assert datetime.fromisoformat(start) < datetime.fromisoformat(end)


@pytest.mark.parametrize("value", ["; touch hit", "$(touch hit)", "'\"`touch hit`", "-n a\nb"])
async def test_outputs_and_arguments_are_data_in_the_next_step(plans, value):
    result = await plans.run(
        bash("a", 'printf %s "{V}"'), bash("b", 'printf %s "{a.output}" > got; echo done'),
        arguments={"V": value},
    )  # fmt: skip
    assert result.success
    assert (plans.root / "got").read_text() == value
    assert not (plans.root / "hit").exists()


async def test_five_megabytes_go_through_a_template_and_are_in_no_command_line(plans):
    value = "secret-value " + "x'$(id)\"\n" * 600_000
    result = await plans.run(
        bash("a", 'printf %s "{V}" > got; cat /proc/$$/cmdline; env; ls -l /proc/self/fd'),
        arguments={"V": value}, environment=PlanEnvironment(arguments_as_variables=False),
    )  # fmt: skip
    assert (plans.root / "got").read_text() == value
    assert "secret-value" not in result.text
    assert "memfd" not in result.text


@pytest.mark.parametrize("shell", ["bash", "sh"])
@pytest.mark.parametrize("first", ["echo {V}", "echo '{V}' \"$(printf '%s' {V})\"", "echo as it is",
                                   "echo {RAW}", "echo " + "long " * 40_000])  # fmt: skip
async def test_a_message_of_the_shell_names_the_tool_and_the_line_of_the_file(plans, shell, first):
    text = f"{first}\n\nno_such_program\n"
    result = await plans.run(
        Step("build", Shell(shell, text, placeholders=True)), bash("after"), name="deploy",
        parameters=[Parameter("V"), Parameter("RAW", escape_shell=False)],
        arguments={"V": "many\nlines\n\n'of' text", "RAW": "raw"},
    )  # fmt: skip
    (message,) = [line for line in result.text.splitlines() if "no_such_program" in line]
    assert re.match(r"\[stderr\] deploy/build: (line )?3: (eval: )?no_such_program: ", message)
    assert "/dev/fd" not in result.text


async def test_a_message_of_a_tool_of_one_command_names_the_tool(plans):
    result = await plans.run(bash("t", "no_such_program {V}"), arguments={"V": "x"})
    assert result.text.startswith("[stderr] t: line 1: no_such_program: ")


async def test_a_script_of_one_shell_gets_no_arguments(plans):
    result = await plans.run(bash("t", 'echo $# {V} "$@"'), arguments={"V": "x"})
    assert result.text == "0 x"


async def test_bytes_that_are_no_text_reach_the_next_step(plans):
    await plans.run(
        bash("a", "printf 'a\\377\\000b\\n\\n'"), bash("b", "printf %s '{a.output}' > got")
    )
    assert (plans.root / "got").read_bytes() == b"a\xffb"


@pytest.mark.row("C16")
async def test_a_value_stays_one_argument_without_a_shell(plans):
    step = Step("a", Argv(("printf", "<%s>", "{V}", "x{V}")))
    assert (await plans.run(step, arguments={"V": "a b; $(id)"})).text == (
        "<a b; $(id)><xa b; $(id)>"
    )


async def test_scripts_for_other_programs_run_as_written(plans):
    step = Step("a", Shell("python3", "import os\nprint('{x}', os.environ['OPTA_TOOL_ARG_V'])"))
    assert (await plans.run(step, arguments={"V": "é"})).text == "{x} é"


@pytest.mark.row("C15")
async def test_powershell_gets_a_file_with_the_values_as_literals(plans, monkeypatch, tmp_path):
    (tmp_path / "bin").mkdir()
    stub = tmp_path / "bin" / "pwsh"
    stub.write_text('#!/bin/sh\nprintf "%s " "$1" "$2" "$3"; case $4 in *.ps1) cat "$4";; esac\n')
    stub.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    step = Step("a", Shell("pwsh", "Write-Output {V}", placeholders=True))
    result = await plans.run(step, arguments={"V": "it's"})
    assert result.text == "-NoProfile -NonInteractive -File \ufeffWrite-Output 'it''s'"


async def test_a_script_for_another_program_cannot_take_values(plans):
    step = Step("a", Shell("python3", "print('{V}')", placeholders=True))
    assert "Read them from the environment" in (await plans.run(step, arguments={"V": "x"})).text


@pytest.mark.row("C20", "C21", "C26", "C381")
async def test_the_command_of_this_platform_is_taken_else_the_default(plans):
    other = Shell("bash", "echo other", True)
    here = Shell("bash", "echo here", True)
    both = PlatformCommands(other, {"linux": here, "macos": here})
    assert (await plans.run(Step("a", both))).text == "here"
    assert (await plans.run(Step("a", PlatformCommands(here, {"windows": other})))).text == "here"
    result = await plans.run(Step("a", PlatformCommands(None, {"windows": other})))
    assert "only for windows" in result.text


# Failures


@pytest.mark.row("C27")
async def test_a_failed_step_ends_the_plan_with_its_exit_code(plans):
    result = await plans.run(bash("a", "echo why; exit 7"), bash("b", "touch ran"))
    assert (result.outcome, result.exit_code) == (Outcome.ERROR, 7)
    assert result.text == (
        "--- Step 1: a ---\nwhy\n[exit code: 7]\n--- Step 2: b ---\n[not started: a failed]"
    )
    assert not (plans.root / "ran").exists()


@pytest.mark.row("C125")
async def test_continue_on_error_lets_the_next_step_run(plans):
    result = await plans.run(bash("a", "exit 7", continue_on_error=True), bash("b", "echo ran"))
    assert (result.outcome, result.exit_code) == (Outcome.OK, 0)
    assert "[exit code: 7; ignored]" in result.text
    assert result.text.endswith("ran")


@pytest.mark.row("C124")
async def test_ignore_errors_reports_success_and_says_so(plans):
    step = bash("a", "echo x; exit 3", continue_on_error=True)
    result = await plans.run(step, ignore_errors=True)
    assert (result.outcome, result.exit_code) == (Outcome.OK, 0)
    assert "ignored error: step 1, a: exit code: 3" in result.text


@pytest.mark.row("C32", "C33", "C126", "C300")
async def test_retries_wait_twice_as_long_each_time(plans):
    step = bash(
        "a", "date +%s%N >> runs; [ $(wc -l < runs) -ge 4 ] && echo good",
        retry=Retry(attempts=3, delay_ms=100),
    )  # fmt: skip
    result = await plans.run(step)
    times = [int(line) / 1e6 for line in (plans.root / "runs").read_text().split()]
    pauses = [after - before for before, after in pairwise(times)]
    assert len(times) == 4
    for pause, wanted in zip(pauses, (100, 200, 400), strict=True):
        assert wanted <= pause < wanted + 1000
    assert result.text == "good\n[4 tries]"


async def test_fixed_retries_and_no_more_than_asked_for(plans):
    result = await plans.run(
        bash("a", "echo x >> runs; exit 1", retry=Retry(2, 20, fixed=True))
    )  # fmt: skip
    assert (plans.root / "runs").read_text() == "x\n" * 3
    assert result.text == "[exit code: 1; 3 tries]"


@pytest.mark.row("C34", "C127")
async def test_the_fallback_runs_once_when_all_tries_failed_and_is_the_result(plans):
    step = bash("a", "echo try >> runs; exit 1", retry=Retry(1, 10), fallback="echo {V} instead")
    result = await plans.run(step, bash("b", "echo got {a.output}"), arguments={"V": "v"})
    assert (plans.root / "runs").read_text() == "try\n" * 2
    assert result.text.endswith("got v instead")
    assert "this is the fallback's result" in result.text
    (plans.root / "runs").unlink()
    await plans.run(bash("a", "echo ok", fallback="touch runs"))
    assert not (plans.root / "runs").exists()


@pytest.mark.row("C301")
async def test_the_second_method_runs_only_when_the_first_failed(plans):
    def steps(code):
        return (
            bash("first", f"exit {code}", continue_on_error=True),
            bash("second", "echo 2", condition="{first.exit-code} != 0"),
        )

    assert (await plans.run(*steps(1))).text.endswith("--- Step 2: second ---\n2")
    await plans.run(*steps(0))
    assert plans.states()["second"] == "skipped"


async def test_a_missing_program_or_shell_fails_the_step_with_a_reason(plans):
    result = await plans.run(Step("a", Argv(("no-such-program-x",))))
    assert "no such program on PATH" in result.text
    assert result.exit_code == 1


# Time


async def test_a_step_is_ended_at_its_own_deadline_with_its_children(plans):
    mark = marked_seconds(61)
    started = time.monotonic()
    result = await plans.run(
        bash("a", f"sleep {mark} & sleep {mark}", timeout_ms=300), bash("b"), timeout_ms=30_000
    )
    assert time.monotonic() - started < SOON_S
    assert plans.states() == {"a": "timed out", "b": "cancelled"}
    assert result.outcome is Outcome.TIMED_OUT
    assert result.exit_code == 124
    assert "timed out after 300 ms" in result.text
    await soon(lambda: not processes_with(mark))


async def test_the_deadline_of_the_tool_is_over_all_steps_and_delays(plans):
    started = time.monotonic()
    result = await plans.run(
        bash("a", "sleep 0.2"),
        bash("b", "exit 1", retry=Retry(50, 200, fixed=True), continue_on_error=True),
        bash("c"),
        timeout_ms=700,
    )
    assert time.monotonic() - started < SOON_S
    assert plans.states()["c"] == "cancelled"
    assert result.outcome is Outcome.TIMED_OUT
    assert "timed out after 700 ms" in result.text


@pytest.mark.parametrize("after_ms", [0, 1, 3, 10, 30, 100, 250])
async def test_a_plan_that_is_cancelled_at_any_instant_leaves_no_process(plans, after_ms):
    mark = marked_seconds(f"6{after_ms}")
    steps = [bash(f"s{n}", f"sleep {mark} & sleep {mark}", parallel=True) for n in range(6)]
    call, invocation = plans.prepare(*steps)
    task = asyncio.ensure_future(invocation.run(mint(call, "test"), plans.show))
    await asyncio.sleep(after_ms / 1000)
    started = time.monotonic()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert time.monotonic() - started < SOON_S
    await soon(lambda: not processes_with(mark))


# Cleanup


CLEANUP = (Shell("bash", "echo {a.exit-code}{V} >> cleaned", True),)


@pytest.mark.row("C389", "C94")
@pytest.mark.parametrize(
    ("text", "cleaned"), [("true", "0v\n"), ("exit 3", "3v\n"), ("sleep 30", "124v\n")]
)
async def test_cleanup_runs_after_success_failure_and_timeout(plans, text, cleaned):
    await plans.run(
        bash("a", text, timeout_ms=500), cleanup=CLEANUP, arguments={"V": "v"}
    )  # fmt: skip
    assert (plans.root / "cleaned").read_text() == cleaned


@pytest.mark.row("C389")
async def test_cleanup_runs_after_an_interruption_without_keeping_anyone_waiting(plans):
    call, invocation = plans.prepare(
        bash("a", "touch begun; sleep 60"), arguments={"V": "v"}, delete_temp=True,
        cleanup=(Shell("bash", "until [ -e back ]; do sleep 0.02; done; touch cleaned", True),),
    )  # fmt: skip
    task = asyncio.ensure_future(invocation.run(mint(call, "test"), plans.show))
    await soon((plans.root / "begun").exists)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    (plans.root / "back").touch()
    await soon((plans.root / "cleaned").exists)


INTERRUPTED = """
import asyncio, pathlib, sys
from tests.support.plans import Plans, bash
from tools.actions import Shell
from tools.engine.plan import order_steps
from tools.permissions.grant import mint

async def main():
    root, mark = pathlib.Path(sys.argv[1]), sys.argv[2]
    call, invocation = Plans(root).prepare(
        bash("a", f"touch begun; trap '' TERM; sleep {mark} & wait; sleep {mark}"),
        cleanup=(Shell("bash", "sleep 0.3; touch cleaned", True),),
    )
    task = asyncio.ensure_future(invocation.run(mint(call, "test"), print))
    while not (root / "begun").exists():
        await asyncio.sleep(0.01)
    task.cancel()

asyncio.run(main())
"""


@pytest.mark.row("C389")
def test_cleanup_is_done_before_the_program_ends(plans):
    repository = Path(__file__).resolve().parents[2]
    mark = marked_seconds(60)
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, str(plans.root), mark], cwd=repository,
        capture_output=True, text=True, check=False, timeout=30,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert (plans.root / "cleaned").exists()
    assert not processes_with(mark)


@pytest.mark.row("C389", "C303")
async def test_a_failed_cleanup_is_a_warning_and_the_next_one_still_runs(plans):
    result = await plans.run(
        bash("a", "echo ok"),
        cleanup=(
            Shell("bash", "exit 9", True),
            Shell("bash", "rm -rf {TEMP_DIR}/x", True),
            Shell("bash", "touch cleaned", True),
        ),
    )
    assert result.success
    assert "Cleanup command failed: exit 9: [exit code: 9]" in result.text
    assert "Cleanup command failed: rm -rf {TEMP_DIR}/x: " in result.text
    assert "is neither a parameter nor a predefined name" in result.text
    assert (plans.root / "cleaned").exists()


@pytest.mark.row("C67", "C93", "C136")
@pytest.mark.parametrize("delete", [True, False])
async def test_each_run_has_a_temporary_directory_of_its_own(plans, tmp_path, delete):
    environment = PlanEnvironment(temp_directory=str(tmp_path / "temp" / "{TOOL_NAME}"))
    step = bash("a", 'cd "$TMPDIR" && touch f && pwd -P && stat -c %a .')
    first, second = [
        (await plans.run(step, environment=environment, delete_temp=delete)).text.split()
        for _ in range(2)
    ]
    assert first[1] == "700"
    assert first[0] != second[0]
    assert Path(first[0]).parent == (tmp_path / "temp" / "t").resolve()
    assert Path(first[0]).exists() is not delete


# Output


@pytest.mark.row("C37", "C128", "C385")
async def test_output_over_the_limit_is_cut_with_a_notice(plans):
    options = OutputOptions(limit_bytes=1001)
    result = await plans.run(
        bash("a", "printf 'é%.0s' {1..5000}", output=options),
        bash("b", "printf %s {a.output} | wc -c"),
    )
    assert "Output truncated to 1001 bytes" in result.text
    assert result.text.split("\n")[1] == "é" * 500
    assert result.text.endswith("1000")


@pytest.mark.row("C386")
async def test_output_over_the_limit_is_an_error_at_once_where_the_file_says_so(plans):
    options = OutputOptions(limit_bytes=10_000, truncate=False)
    started = time.monotonic()
    result = await plans.run(bash("a", "yes", output=options))
    assert result.text == "[Output exceeds buffer limit of 10000 bytes]"
    assert result.outcome is Outcome.ERROR
    assert time.monotonic() - started < SOON_S


@pytest.mark.row("C35", "C313", "C384")
async def test_a_streaming_step_shows_whole_lines_while_others_run(plans):
    options = OutputOptions(stream=True)
    await plans.run(
        bash("a", "echo 1; sleep 0.4; printf 2", output=options, parallel=True),
        bash("b", "echo e >&2; echo 3", output=options, parallel=True),
        bash("quiet", "echo hidden", parallel=True),
    )
    lines = "".join(plans.progress).splitlines()
    assert sorted(line for line in lines if "|" in line) == ["a | 1", "a | 2", "b | 3", "b | e"]
    times = dict(zip(plans.progress, plans.times, strict=True))
    assert times["a | 2\n"] - times["a | 1\n"] > 0.3
    assert not any("hidden" in line for line in lines)


@pytest.mark.row("C38")
async def test_a_step_can_stream_into_a_file(plans, tmp_path):
    options = OutputOptions(stream=True, callback="file")
    environment = PlanEnvironment(temp_directory=str(tmp_path / "temp"))
    await plans.run(bash("a", "echo one; echo two", output=options), environment=environment)
    told = "".join(plans.progress)
    assert Path(told.strip().rpartition(" ")[2]).read_text() == "one\ntwo\n"


@pytest.mark.row("C383", "C384")
async def test_a_megabyte_to_both_streams_is_no_deadlock(plans):
    await plans.run(
        bash("a", "head -c 1000000 /dev/zero | tee /dev/stderr | tr '\\0' x"), timeout_ms=10_000
    )
    (step,) = plans.steps
    assert (len(step.output), len(step.error)) == (1_000_000, 1_000_000)


async def test_of_much_output_the_head_and_the_tail_are_right_and_little_is_kept(plans):
    text = "echo begin; head -c 300000000 /dev/zero | tr '\\0' x; echo; echo end"
    result = await plans.run(bash("a", text), timeout_ms=60_000)
    assert result.text.startswith("begin\nxxx")
    assert result.text.endswith("xxx\nend\n[Output truncated to 10485760 bytes]")
    assert len(result.text) < 20_000
    assert len(plans.steps[0].output) == 10 * 1024**2


# Surroundings


@pytest.mark.row("C63", "C129", "C399")
async def test_variables_are_set_from_arguments_and_the_process(plans, monkeypatch):
    monkeypatch.setenv("OUTER", "outer")
    monkeypatch.delenv("NOT_SET", raising=False)
    environment = PlanEnvironment(variables={
        "FIXED": "1", "FROM": "x-{V}", "PASSED": "{OUTER}", "GONE": "{NOT_SET}",
    })  # fmt: skip
    result = await plans.run(
        bash("a", 'echo "$FIXED|$FROM|$PASSED|${GONE-unset}"'), arguments={"V": "$v"},
        environment=environment,
    )  # fmt: skip
    assert result.text == "1|x-$v|outer|unset"


@pytest.mark.row("C64", "C130")
async def test_without_inheritance_only_the_minimum_is_there(plans, monkeypatch):
    monkeypatch.setenv("OUTER", "outer")
    environment = PlanEnvironment(variables={"A": "1"}, inherit=False, arguments_as_variables=False)
    result = await plans.run(bash("a", "env | cut -d= -f1"), environment=environment)
    names = set(result.text.split())
    assert "OUTER" not in names
    assert {"PATH", "A"} <= names


@pytest.mark.row("C66", "C83", "C135")
async def test_the_working_directory_is_taken_from_values_and_must_exist(plans, monkeypatch):
    (plans.root / "sub dir").mkdir()
    monkeypatch.setenv("HOME", str(plans.root))
    for asked in ("{V}", "{WORKSPACE}/{V}", "~/sub dir"):
        environment = PlanEnvironment(working_directory=asked)
        result = await plans.run(
            bash("a", "pwd"), arguments={"V": "sub dir"}, environment=environment
        )
        assert result.text == str(plans.root / "sub dir")
    result = await plans.run(bash("a"), environment=PlanEnvironment(working_directory="nowhere"))
    assert "does not exist" in result.text
    _, invocation = plans.prepare(bash("a"), environment=PlanEnvironment(working_directory="/"))
    assert [(e.kind, e.value, e.inside) for e in invocation.effects[1:]] == [
        (EffectKind.READ, "/", False)
    ]
    confined = PlanEnvironment(working_directory="..", confined=True)
    assert "outside the workspace" in (await plans.run(bash("a"), environment=confined)).text


@pytest.mark.row("C87")
async def test_input_goes_to_stdin_with_values(plans):
    result = await plans.run(
        bash("a", "cat"), bash("b", "cat; echo .", wait_for=()), bash("c", "cat"),
        interaction=Interaction("got {V}"), arguments={"V": "$x\n"},
    )  # fmt: skip
    assert result.text == (
        "--- Step 1: a ---\ngot $x\n--- Step 2: b ---\ngot $x\n.\n--- Step 3: c ---\ngot $x"
    )


@pytest.mark.row("C88", "C89", "C90")
async def test_a_question_is_answered_by_itself_after_a_while_or_not_at_all(plans):
    ask = bash("a", 'read -r x || x=nothing; echo "got $x"')
    answer = Interaction(interactive=True, answer_after_ms=300, default_response="y")
    started = time.monotonic()
    assert (await plans.run(ask, interaction=answer)).text == "got y"
    assert time.monotonic() - started >= 0.3
    assert (await plans.run(ask, interaction=Interaction(interactive=True))).text == "got nothing"
    _, invocation = plans.prepare(ask, interaction=answer)
    assert any("'y'" in warning for warning in invocation.warnings)


@pytest.mark.row("C92", "C388")
async def test_a_process_over_the_memory_limit_fails(plans):
    step = bash("a", "python3 -c 'print(len(bytearray({MB} * 1024 * 1024)))'")
    more = {"max_memory_bytes": 256 * 1024**2, "timeout_ms": 20_000}
    assert (await plans.run(step, arguments={"MB": "50"}, **more)).text == str(50 * 1024**2)
    result = await plans.run(step, arguments={"MB": "600"}, **more)
    assert not result.success
    assert str(600 * 1024**2) not in result.text
    _, invocation = plans.prepare(step, arguments={"MB": "1"}, **more)
    assert "memory: 256 MB for " in invocation.preview.note


# Secrets


@pytest.mark.row("C310", "C291", "C403", "C404")
async def test_secrets_show_nowhere_but_reach_the_programs(plans, monkeypatch, tmp_path):
    monkeypatch.setenv("API_KEY", "s3cr3t-value")
    environment = PlanEnvironment(variables={"API_KEY": "{API_KEY}"}, secrets=("API_KEY",))
    options = OutputOptions(masked=("{TOKEN}",), stream=True)
    text = (
        'printf s3cr; sleep 0.1; printf "3t-value %s\\n" "{TOKEN}"; echo "$API_KEY" >&2; '
        'printf %s "$API_KEY{TOKEN}" > got; yes "$API_KEY" | head -c 300000; exit 3'
    )
    steps = (
        bash("a", text, output=options, continue_on_error=True),
        bash("b", "printf %s {a.output} | head -c 12 > first"),
    )
    more = {"environment": environment, "arguments": {"TOKEN": "t0ken"}}
    call, invocation = plans.prepare(*steps, **more)
    result = await invocation.run(mint(call, "test"), plans.show)
    assert (plans.root / "got").read_text() == "s3cr3t-valuet0ken"
    assert (plans.root / "first").read_text() == "s3cr3t-value"
    shown = [
        result.text, "".join(plans.progress), invocation.title, *invocation.warnings,
        invocation.preview.command, invocation.preview.note,
        *(step.text + step.note + step.output.decode() for step in plans.steps),
        *(path.read_text() for path in (tmp_path / "state").rglob("*") if path.is_file()),
    ]  # fmt: skip
    assert len(shown) > 7
    for each in shown:
        assert "s3cr3t-value" not in each
        assert "t0ken" not in each
    assert "****" in result.text


# The question


async def test_the_whole_plan_is_shown_and_each_command_is_known_to_the_rules(plans):
    _, invocation = plans.prepare(
        bash("get", 'git clone "{URL}"', retry=Retry(2)),
        bash("same", "make all", parallel=True, fallback="make less"),
        bash("again", "make all", wait_for=("get",), condition="{get.exit-code} == 0"),
        cleanup=(Shell("bash", "rm -r x", True),),
        arguments={"URL": "http://x;id"},
    )
    executed = [e for e in invocation.effects if e.kind is EffectKind.EXECUTE]
    assert [e.value for e in executed] == [
        'git clone "http://x;id"', "make all", "make less", "rm -r x",
    ]  # fmt: skip
    assert {e.subject for e in executed} == {"run_command"}
    assert invocation.preview.command == (
        '# Step 1: get (up to 3 tries)\ngit clone "http://x;id"\n'
        "# Step 2: same (in parallel)\nmake all\n"
        "# Step 2, if it fails\nmake less\n"
        "# Step 3: again (only if {get.exit-code} == 0; after get)\nmake all\n"
        "# Step cleanup\nrm -r x"
    )


@pytest.mark.row("C61", "C62", "C311")
async def test_declared_permissions_are_effects_and_said_with_their_reason(plans):
    security = Security(
        permissions=("filesystem:write:{V}", "network:external:api.github.com", "docker"),
        justification="to clone",
    )
    _, invocation = plans.prepare(bash("a"), security=security, arguments={"V": "out"})
    assert [(e.kind, e.value, e.inside) for e in invocation.effects[1:]] == [
        (EffectKind.WRITE, str(plans.root / "out"), True),
        (EffectKind.NETWORK, "api.github.com", False),
    ]
    assert "declares that it needs docker (not enforced)" in invocation.warnings
    assert "its reason: to clone" in invocation.warnings


@pytest.mark.row("C325")
async def test_elevated_must_be_answered(plans):
    _, invocation = plans.prepare(bash("a"), security=Security("elevated", justification="root"))
    assert invocation.effects[0].protected.endswith("needs elevated rights: root")


async def test_values_that_may_be_options_or_code_are_said(plans):
    _, invocation = plans.prepare(
        bash("a", 'grep {P} f; python3 -c "print({P})"'), arguments={"P": "-f"}
    )
    assert invocation.hazards == (
        "{P} is read as code by python: -f",
        "{P} begins with a dash and may be taken for an option: -f",
    )


async def test_a_value_in_a_variable_that_programs_run_is_said(plans):
    _, invocation = plans.prepare(
        Step("a", Argv(("make", "SHELL={P}"))), arguments={"P": "evil"},
        environment=PlanEnvironment(variables={"LD_PRELOAD": "{P}", "NAME": "{P}"}),
    )  # fmt: skip
    assert invocation.hazards == (
        "{P} is run or loaded by programs, as $SHELL: evil",
        "{P} is run or loaded by programs, as $LD_PRELOAD: evil",
    )


async def test_a_plan_in_a_ring_is_refused_before_anybody_is_asked(plans):
    result = await plans.run(bash("a", wait_for=("b",)), bash("b", wait_for=("a",)))
    assert "a -> b -> a" in result.text
    assert result.outcome is Outcome.ERROR


# Tools of tools


def cloner():
    action = PlanAction(
        (bash("one", "echo cloned {REPO} to {DIR}"), bash("two", "[ {REPO} = good ]")),
        {"REPO": Parameter("REPO"), "DIR": Parameter("DIR", default="./{REPO}", has_default=True)},
    )
    return tool("clone", action, ("REPO", "DIR"))


@pytest.mark.row("C39", "C40", "C143", "C144")
async def test_a_step_can_be_another_tool(plans):
    plans.tools["clone"] = cloner()
    result = await plans.run(
        bash("name", "echo good"),
        Step("get", UseTool("clone", {"REPO": "{name.output}", "DIR": "{WORKSPACE}"})),
        bash("after", "echo after {get.exit-code}: '{get.output}'"),
        arguments={},
    )
    assert result.text.endswith(f"after 0: cloned good to {plans.root}")
    call, invocation = plans.prepare(
        Step("get", UseTool("clone", {"REPO": "bad"})), bash("after", "touch ran")
    )
    assert [e.value for e in invocation.effects][:2] == [
        "echo cloned bad to ./bad", "[ bad = good ]",
    ]  # fmt: skip
    result = await invocation.run(mint(call, "test"), plans.show)
    assert plans.states() == {"get": "failed", "after": "cancelled"}
    assert result.exit_code == 1


@pytest.mark.row("C145")
async def test_steps_that_are_tools_run_at_the_same_time_and_under_conditions(plans):
    both = "until [ -e here-1 ] && [ -e here-2 ]; do sleep 0.02; done"
    action = PlanAction(
        (bash("x", f"touch here-{{N}}; {both}; echo {{N}}"),), {"N": Parameter("N")}
    )
    plans.tools["slow"] = tool("slow", action, ("N",))
    await plans.run(
        Step("a", UseTool("slow", {"N": "1"}), parallel=True),
        Step("b", UseTool("slow", {"N": "2"}), parallel=True),
        Step("c", UseTool("slow", {"N": "3"}), condition="{a.exit-code} != 0"),
        bash("d", "echo {a.output}{b.output}{c.output}"),
    )
    assert plans.states() == {"a": "ok", "b": "ok", "c": "skipped", "d": "ok"}
    assert plans.steps[3].output == b"12\n"


async def test_tools_that_use_each_other_or_what_is_not_there_are_refused(plans):
    plans.tools["a"] = tool("a", PlanAction((Step("x", UseTool("b")),)))
    plans.tools["b"] = tool("b", PlanAction((Step("x", UseTool("a")),)))
    plans.tools["read_file"] = tool("read_file", BuiltinAction("read_file"))
    assert "a -> b -> a" in (await plans.run(definition=plans.tools["a"])).text
    assert "'nope', which was not found" in (await plans.run(Step("x", UseTool("nope")))).text
    assert "is built in" in (await plans.run(Step("x", UseTool("read_file")))).text
    for number in range(12):
        plans.tools[f"t{number}"] = tool(
            f"t{number}", PlanAction((Step("x", UseTool(f"t{number + 1}")),))
        )
    assert "More than 10 tools" in (await plans.run(definition=plans.tools["t0"])).text


@pytest.mark.row("C95", "C96", "C97", "C138", "C139", "C140")
async def test_an_alias_is_its_base_with_other_defaults(plans):
    plans.tools["clone"] = cloner()
    alias = tool("mine", AliasAction("clone", {"REPO": "good", "DIR": "./projects/{REPO}"}))
    again = tool("again", AliasAction("mine", {"REPO": "good"}))
    plans.tools["mine"] = alias
    assert "cloned good to ./projects/good" in (await plans.run(definition=alias)).text
    assert "cloned good to ./projects/good" in (await plans.run(definition=again)).text
    result = await plans.run(definition=alias, arguments={"REPO": "other"})
    assert "cloned other to ./projects/other" in result.text
    gone = tool("gone", AliasAction("git-clone"))
    assert "'git-clone', which was not found" in (await plans.run(definition=gone)).text
    plans.tools["ring"] = tool("ring", AliasAction("ring"))
    assert "ring -> ring" in (await plans.run(definition=plans.tools["ring"])).text


async def test_what_was_asked_for_runs_even_when_the_inner_tool_changes_meanwhile(plans):
    plans.tools["clone"] = cloner()
    call, invocation = plans.prepare(Step("get", UseTool("clone", {"REPO": "good"})))
    plans.tools["clone"] = tool("clone", PlanAction((bash("x", "touch hit"),)), ("REPO",))
    assert (await invocation.run(mint(call, "test"), plans.show)).success
    assert not (plans.root / "hit").exists()
