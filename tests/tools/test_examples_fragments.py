"""The fragments of the CYCOD document as parts of tools: time, order, platforms, tests, limits."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from tests.support.cli import OPTA
from tests.support.examples import FRAGMENTS, Examples, parameters
from tests.support.plans import marked_seconds, processes_with
from tests.support.tool_files import EXAMPLES, load


@pytest.fixture
def examples(opta, tmp_path):
    return Examples(opta, tmp_path)


def loaded(name, before):
    text = (EXAMPLES / FRAGMENTS / name).read_text()
    return load(f"name: part\ndescription: d\n{before}\n{text}")[0]


def await_file(name):
    """Shell text that waits until a file is there, and fails when it does not come."""
    return f"i=0; until [ -e {name} ]; do i=$((i+1)); [ $i -gt 400 ] && exit 9; sleep 0.05; done"


# Order and time


def test_two_steps_in_parallel_meet_and_the_third_waits_for_both(examples):
    examples.put(FRAGMENTS + "parallel-steps.yaml")
    for mine, other in (("1", "2"), ("2", "1")):
        examples.stub(
            f"command{mine}", f"touch at{mine}; {await_file(f'at{other}')}; touch end{mine}"
        )
    examples.stub("command3", "[ -e end1 ] && [ -e end2 ]")
    ran = examples.run("part")
    assert (ran.code, ran.out) == (0, "command1\ncommand2\ncommand3\n"), ran.err


def test_two_fetches_meet_and_what_reads_both_waits(examples):
    examples.put(FRAGMENTS + "parallel-fetch.yaml", parameters("API_URL_1", "API_URL_2"))
    wait = await_file('"at$((3 - $2))"')
    examples.stub("curl", f'touch "at$2"; {wait}; echo "{{\\"from\\": $2}}"', shown=False)
    examples.stub("jq", "cat data1.json data2.json", shown=False)
    ran = examples.run("part", API_URL_1="1", API_URL_2="2")
    assert (ran.code, ran.out) == (0, '{"from": 1}\n{"from": 2}\n'), ran.err
    assert examples.calls[-1] == "jq <-s> <.[0] * .[1]> <data1.json> <data2.json>"


@pytest.mark.row("C300")
def test_a_failing_request_is_made_four_times_after_one_two_and_four_seconds(examples):
    examples.put(FRAGMENTS + "retry-exponential.yaml", parameters("API_URL"))
    examples.stub("curl", "date +%s%N >> times; exit 7")
    ran = examples.run("part", API_URL="u")
    assert (ran.code, examples.calls) == (7, ["curl <-s> <u>"] * 4)
    times = [int(line) / 1e9 for line in Path("times").read_text().split()]
    pauses = [later - earlier for earlier, later in pairwise(times)]
    assert [pause >= least for pause, least in zip(pauses, (1, 2, 4), strict=True)] == [True] * 3
    assert pauses[0] < pauses[1] < pauses[2]


def test_three_tries_fail_and_the_fallback_gives_the_result(examples, opta):
    examples.put(FRAGMENTS + "error-handling.yaml", parameters("PARAM"))
    path = opta.user / "part.yaml"
    path.write_text(path.read_text().replace("delay: 1000", "delay: 10"))
    examples.stub("command", "exit 3")
    examples.stub("alternative-command")
    ran = examples.run("part", PARAM="a b")
    assert (ran.code, ran.out) == (0, "alternative-command <a> <b>\n")
    assert examples.calls == ["command"] * 4 + ["alternative-command <a> <b>"]


@pytest.mark.row("C314")
def test_a_step_is_ended_after_its_own_five_seconds(examples):
    examples.put(FRAGMENTS + "step-timeouts.yaml")
    mark = marked_seconds(62)
    examples.stub("quick-command", f"exec sleep {mark}")
    examples.stub("long-command")
    ran = examples.run("part")
    assert (ran.code, examples.calls) == (124, ["quick-command"])
    assert "quick-operation: Command timed out after 5000ms" in ran.err
    assert "long-operation: not started: quick-operation failed" in ran.err
    assert processes_with(mark) == []
    tool = loaded("step-timeouts.yaml", "")
    assert [step.timeout_ms for step in tool.action.steps] == [5000, 25000]
    assert tool.limits.timeout_ms == 30000


def test_lines_of_a_stream_are_seen_while_it_runs(examples):
    examples.put(FRAGMENTS + "output-stream.yaml")
    examples.stub(
        "generate-large-data", f"echo first; {await_file('seen')}; echo last", shown=False
    )
    parent, child = os.openpty()
    with subprocess.Popen([*OPTA, "tool", "run", "part"], stdout=child, stdin=child) as running:
        os.close(child)
        shown = b""
        while b"first" not in shown:
            shown += os.read(parent, 1024)
        assert b"last" not in shown
        Path("seen").touch()
        while b"last" not in shown:
            shown += os.read(parent, 1024)
        os.close(parent)
        assert running.wait(timeout=60) == 0


@pytest.mark.row("C128")
def test_output_over_its_limit_is_cut_and_said_to_be(examples, opta):
    examples.put(FRAGMENTS + "output-management.yaml")
    path = opta.user / "part.yaml"
    path.write_text(path.read_text().replace("10MB", "1KB"))
    examples.stub("large-output-command", "seq 900", shown=False)
    ran = examples.run("part")
    assert (ran.code, len(ran.out)) == (0, 1024)
    assert ran.out.startswith("1\n2\n3\n")
    assert ran.err == "generate-large-output: Output truncated to 1024 bytes\n"


# Platforms and paths


@pytest.mark.row("C304")
@pytest.mark.parametrize(
    ("system", "words"), [("linux", "<.> <-type> <f> <-name> <x>"), ("darwin", "<.> <-name> <x>")]
)
def test_a_system_without_a_command_of_its_own_takes_the_default(
    examples, monkeypatch, system, words
):
    examples.put(FRAGMENTS + "commands-two-platforms.yaml", parameters("DIRECTORY", "PATTERN"))
    examples.stub("find")
    monkeypatch.setattr("tools.engine.commands.current_platform", lambda: {
        "linux": "linux", "darwin": "macos"}[system])  # fmt: skip
    assert examples.run("part", DIRECTORY=".", PATTERN="x").out == f"find {words}\n"


@pytest.mark.row("C305")
def test_a_partial_block_of_paths_leaves_the_rest_as_without_it(examples):
    shown = 'bash: show {FILE_PATH} {TEMP} "$PWD" "${TMPDIR-no}"\n' + parameters("FILE_PATH")
    examples.put(FRAGMENTS + "file-paths-normalize.yaml", shown)
    with_block = examples.run("part", FILE_PATH=r"a\b").out
    examples.put(FRAGMENTS + "metadata.yaml", shown)
    without = examples.run("part", FILE_PATH=r"a\b").out
    assert with_block == without.replace(r"<a\b>", "<a/b>")
    assert with_block != without


def test_the_whole_block_of_paths_gives_a_temporary_directory_of_its_own(examples):
    examples.put(FRAGMENTS + "file-paths.yaml", 'bash: echo "$TMPDIR"; ls -d "$TMPDIR"')
    one, same = examples.run("part").out.split()
    other, _ = examples.run("part").out.split()
    assert one == same != other
    assert "/cycod-tools/part/" in one


# Parameters


@pytest.mark.row("C114")
def test_lowercase_is_applied_to_what_was_accepted(examples, opta):
    examples.put(FRAGMENTS + "parameter-definition.yaml", "bash: show {NAME}")
    told = opta("tool validate part")
    assert (told.code, "$.parameters.NAME.default" in told.out) == (1, True)
    assert "warning" in next(line for line in told.out.splitlines() if "examples[0]" in line)
    path = opta.user / "part.yaml"
    path.write_text(path.read_text().replace("^[a-z]+$", "^[a-zA-Z]+$"))
    assert examples.run("part", NAME="AbCdE").out == "show <abcde>\n"


def test_the_model_sees_what_the_fragment_maps_and_asks_for():
    given = "bash: show {N}\nparameters: {N: {type: number, description: n, examples: [4]}}"
    properties = loaded("function-calling.yaml", given).parameters["properties"]
    assert properties == {"N": {"type": "number", "description": "n", "examples": [4]}}


@pytest.mark.row("C303")
def test_a_cleanup_with_a_name_nobody_knows_is_not_run(examples):
    examples.put(FRAGMENTS + "cleanup.yaml", "bash: show")
    examples.stub("rm")
    ran = examples.run("part")
    assert examples.calls == ["show"]
    assert "Cleanup command failed: rm -rf {TEMP_DIR}" in ran.err


def test_a_version_that_is_too_new_is_refused_with_both_versions(examples, opta):
    examples.put(FRAGMENTS + "versioning.yaml", "bash: show")
    assert examples.run("part").out == "show\n"
    path = opta.user / "part.yaml"
    path.write_text(path.read_text().replace('"1.2.0"', '"99.0.0"'))
    refused = examples.run("part")
    assert (refused.code, refused.out, "99.0.0" in refused.err) == (1, "", True)


def test_categories_and_tags_find_a_tool(examples, opta):
    examples.put(FRAGMENTS + "metadata.yaml", "bash: show")
    found = ("--category development", "--tag clone", "--search checkout")
    for words in found:
        assert opta(f"tool list {words} --format simple").out == "part\n"
    assert opta("tool list --category other --format simple").out == ""
    examples.put(FRAGMENTS + "platforms-tags.yaml", "bash: show")
    (row,) = json.loads(opta("tool list --format json").out)
    assert row["platforms"] == ["windows", "linux", "macos"]
    assert row["tags"] == ["category1", "category2", "read"]
    assert row["risk"] == "low"


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not bound memory")
def test_memory_over_the_limit_ends_what_takes_it(examples):
    examples.put(FRAGMENTS + "resources.yaml", "bash: python -c 'bytearray(600 << 20); print(1)'")
    ran = examples.run("part")
    assert (ran.code != 0, ran.out) == (True, "")
    examples.put(FRAGMENTS + "resources.yaml", "bash: python -c 'bytearray(20 << 20); print(1)'")
    assert examples.run("part").out == "1\n"


# Tests in tool files


@pytest.mark.row("C307")
def test_tests_for_other_systems_are_skipped_and_said_to_be(examples, opta):
    before = "bash: show {PATH}\n" + parameters("PATH")
    examples.put(FRAGMENTS + "tests-platforms.yaml", before)
    ran = opta("tool test part --yes")
    if sys.platform == "linux":
        assert (ran.code, examples.calls) == (0, ["show </tmp>"])
    assert "skipped: test-windows: it is for windows, not for " in ran.out
    assert "C:" not in "".join(examples.calls)


@pytest.mark.row("C146")
def test_the_test_of_a_clone_passes_with_a_real_repository_and_leaves_nothing(
    examples, opta, tmp_path
):
    source = tmp_path / "repo.git"
    subprocess.run(["git", "init", "--quiet", "--bare", str(source)], check=True)
    config = ["git", "config", "--global", f"url.file://{source}.insteadOf"]
    subprocess.run([*config, "https://example.com/repo.git"], check=True)
    before = "bash: git clone {URL} {DIRECTORY}\n" + parameters("URL", "DIRECTORY")
    examples.put(FRAGMENTS + "tests-basic.yaml", before)
    ran = opta("tool test part --yes --verbose")
    assert (ran.code, "passed: basic-test" in ran.out) == (0, True), ran.out
    assert "  $ git clone https://example.com/repo.git test-dir" in ran.out
    assert "Cloning into 'test-dir'..." in ran.out
    assert list(opta.root.iterdir()) == []
    for wrong in ("exit-code: 1", 'output-contains: "x y z"', "file-exists: test-dir/none"):
        key = wrong.partition(":")[0]
        path = opta.user / "part.yaml"
        lines = path.read_text().splitlines()
        path.write_text("\n".join(
            f"      {wrong}" if line.strip().startswith(key) else line for line in lines
        ))  # fmt: skip
        assert opta("tool test part --yes").code == 1
        assert list(opta.root.iterdir()) == []
        path.write_text("\n".join(lines))
