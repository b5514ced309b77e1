"""`opta tool run` and `opta tool test`: real commands, through the gate."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import pexpect
import pytest

from tests.support.cli import OPTA
from tests.support.cli import opta as program

ECHO = """\
name: t
description: D
bash: printf '%s|%s' {A} {N}; echo problem >&2; exit {CODE}
parameters:
  A: {type: string, description: a, default: x}
  N: {type: number, description: n, default: 1}
  CODE: {type: number, description: c, default: 0}
"""


def put(opta, text=ECHO, name="t"):
    opta.put(f"{name}.yaml", text, opta.user)


@pytest.mark.parametrize(
    ("words", "out", "code"),
    [("", "x|1", 0), ("--param A=b --param N=2", "b|2", 0), ("--param A=a=b", "a=b|1", 0),
     ("--param CODE=7", "x|1", 7), ("""--args '{"A": "q", "N": 3}'""", "q|3", 0),
     ("--args @args.json", "file|1", 0), ("--args @args.json --param N=9", "file|9", 0),
     ("-u", "x|1", 0)],
)  # fmt: skip
def test_the_tools_output_and_exit_code_are_those_of_the_command(opta, words, out, code):
    put(opta)
    Path("args.json").write_text('{"A": "file"}')
    ran = opta(f"tool run t {words}")
    assert (ran.out, ran.err, ran.code) == (out, "problem\n", code)


def test_arguments_come_from_standard_input():
    tools = Path(os.environ["XDG_CONFIG_HOME"]) / "opta" / "tools"
    tools.mkdir(parents=True)
    (tools / "t.yaml").write_text(ECHO)
    ran = program("tool", "run", "t", "--args", "-", stdin='{"A": "piped"}')
    assert (ran.stdout, ran.stderr, ran.returncode) == ("piped|1", "problem\n", 0)


def test_bytes_that_are_no_text_pass_unchanged(opta):
    put(opta, "name: t\ndescription: D\nbash: printf '\\377\\000\\033[2J'\n")
    ran = subprocess.run([*OPTA, "tool", "run", "t"], capture_output=True, timeout=60)
    assert (ran.returncode, ran.stdout) == (0, b"\xff\x00\x1b[2J")


@pytest.mark.parametrize(
    ("words", "message", "code"),
    [("--param N=x", "must be of type number", 2), ("--param A", "NAME=VALUE", 2),
     ("--args '['", "is not JSON", 2), ("--args '[]'", "must be a JSON object", 2),
     ("--args @none.json", "does not exist", 1), ("--param B=1", "It has A, N, CODE", 2)],
)  # fmt: skip
def test_wrong_arguments_run_nothing(opta, words, message, code):
    put(opta)
    ran = opta(f"tool run t {words}")
    assert (ran.code, ran.out) == (code, "")
    assert message in ran.err
    assert "problem" not in ran.err


@pytest.mark.row("C306")
def test_values_that_may_do_harm_are_announced(opta):
    put(
        opta,
        """\
name: t
description: D
bash: printf '%s\\n' a b | grep {OPTIONS} {P}; python3 -c "print('{P}')"
tags: [read]
parameters:
  P: {type: string, description: p, default: -ea}
  OPTIONS: {type: string, description: o, default: ""}
""",
    )
    harmless = opta("tool run t")
    assert (harmless.out, harmless.err, harmless.code) == ("a\n-ea\n", "", 0)
    said = [
        "high risk: {P} is read as code by python: -eb\n",
        "high risk: {P} begins with a dash and may be taken for an option: -eb\n",
    ]
    ran = opta("tool run t --param P=-eb")
    assert (ran.out, ran.code) == ("b\n-eb\n", 0)
    assert ran.err == "".join(said)
    dry = opta("tool run t --param P=-eb --dry-run")
    assert dry.code == 0
    assert dry.out.endswith("".join(said))


def test_an_alias_may_set_what_begins_with_a_dash(opta):
    put(
        opta,
        """\
name: t
description: D
bash: ls {OPTIONS} {PLACE}
parameters:
  OPTIONS: {type: string, description: o, required: true}
  PLACE: {type: string, description: p, default: .}
""",
    )
    put(
        opta,
        """\
name: long
description: D
type: alias
base-tool: t
default-parameters: {OPTIONS: "-d"}
""",
        "long",
    )
    ran = opta("tool run long")
    assert (ran.out, ran.err, ran.code) == (".\n", "", 0)
    assert "high risk: {OPTIONS} begins" in opta("tool run long --param OPTIONS=-a").err


@pytest.mark.parametrize(
    ("command", "declared", "flagged"),
    [
        ("ls {O ? '-d' : ''} .", "type: boolean", ["", ""]),
        ("printf '%s\\n' {O} | cut {O}", "format: '-c{value}'", ["", ""]),
        ("echo a | cut {O}", "format: '-{value}'", ["-c1", "-d"]),
    ],
)
def test_dashes_that_the_author_wrote_are_no_hazard(opta, command, declared, flagged):
    put(
        opta,
        f"name: t\ndescription: D\nbash: {json.dumps(command)}\n"
        f"parameters: {{O: {{description: o, required: true, {declared}}}}}\n",
    )
    value = "true" if "boolean" in declared else "c1" if "-{" in declared else "1"
    ran = opta(f"tool run t --param O={value} --dry-run")
    assert ("high risk" in ran.out) is bool(flagged[0]), ran.out


def test_a_dry_run_shows_every_step_and_runs_none(opta):
    put(
        opta,
        """\
name: t
description: D
steps:
  - name: one
    bash: touch one {A}
  - name: two
    bash: touch two
    run-condition: "{one.exit-code} == 0"
    wait-for: [one]
environment: {variables: {MODE: fast}}
parameters: {A: {type: string, description: a}}
""",
    )
    ran = opta("tool run t --param A='x y' --dry-run")
    assert ran.code == 0
    for part in ("1: one", "touch one x y", "2: two", "only if {one.exit-code} == 0", "after one",
                 f"in {opta.root}", "MODE=fast"):  # fmt: skip
        assert part in ran.out
    assert "Values are shown in place;" in ran.out
    assert list(opta.root.iterdir()) == []


def test_a_dry_run_says_nothing_of_values_where_there_are_none(opta):
    put(opta, "name: t\ndescription: D\nbash: echo fixed\n")
    assert opta("tool run t --dry-run").out == f"echo fixed\nin {opta.root}\n"


def test_the_command_is_shown_beside_the_output(opta):
    put(opta)
    ran = opta("tool run t --show-command")
    assert ran.out == "x|1"
    assert "printf '%s|%s' x 1" in ran.err


def test_a_projects_tool_needs_trust(opta):
    opta.put("t.yaml", ECHO)
    ran = opta("tool run t")
    assert (ran.code, ran.out) == (1, "")
    assert "--trust" in ran.err
    assert "not trusted" in opta("tool list").err
    assert opta("tool list --trust").err == ""
    assert opta("tool run t --trust").out == "x|1"


def test_r48_deny_rules_hold_by_hand(opta):
    put(opta)
    config = opta.user.parent / "config.yml"
    config.write_text("permissions:\n  deny: [t]\n")
    ran = opta("tool run t")
    assert (ran.code, ran.out) == (1, "")
    assert "denied (rule t" in ran.err


def test_elevated_rights_are_refused_where_nobody_can_be_asked(opta):
    put(
        opta, "name: t\ndescription: D\nbash: echo ran\nsecurity: {execution-privilege: elevated}\n"
    )
    ran = opta("tool run t")
    assert (ran.code, ran.out) == (1, "")
    assert "nobody can be asked here; run it in a terminal" in ran.err


@pytest.mark.parametrize(("answer", "code", "ran"), [("y", 0, True), ("n", 1, False)])
def test_elevated_rights_are_asked_for_in_a_terminal(opta, answer, code, ran):
    rights = "security: {execution-privilege: elevated}"
    put(opta, f"name: t\ndescription: D\nbash: echo live; touch ran\n{rights}\n")
    child = pexpect.spawn(OPTA[0], [*OPTA[1:], "tool", "run", "t"], timeout=30)
    child.expect_exact("elevated rights. Run it? [y/N] ")
    child.sendline(answer)
    child.expect(pexpect.EOF)
    child.close()
    assert (child.exitstatus, Path("ran").exists()) == (code, ran)
    assert (b"live" in child.before) is ran
    assert (b"Not run: you said no. Nothing was done." in child.before) is not ran


def test_secrets_are_masked_and_a_failing_step_is_named(opta, monkeypatch):
    monkeypatch.setenv("API_KEY", "hunter2hunter2")
    put(
        opta,
        """\
name: t
description: D
steps:
  - name: one
    bash: echo key $API_KEY
  - name: two
    bash: exit 3
environment: {secrets: [API_KEY]}
""",
    )
    ran = opta("tool run t")
    assert (ran.code, ran.out) == (3, "key ****\n")
    assert "two: " in ran.err


@pytest.mark.parametrize(
    ("types", "text", "value"),
    [(["string", "null"], "hello", '"hello"'), (["string", "null"], "5", '"5"'),
     (["null", "string"], "null", "null"), (["integer", "string"], "5", "5"),
     (["integer", "string"], "abc", '"abc"'), (["boolean", "string"], "true", "true"),
     (["array", "object"], '["a"]', '["a"]')],
)  # fmt: skip
def test_a_parameter_of_several_types_takes_the_value_as_one_of_them(opta, types, text, value):
    parameters = {"type": "object", "properties": {"X": {"type": types}}}
    tool = {"name": "t", "description": "D", "parameters": parameters}
    opta.put("t.json", json.dumps({**tool, "command": "echo $OPTA_TOOL_ARGS"}), opta.user)
    assert opta("tool run t --param", f"X={text}").out == f'{{"X":{value}}}\n'


INNER = """\
name: inner
description: D
bash: |
  echo "key $API_KEY"
environment: {secrets: [API_KEY]}
"""
OUTER = """\
name: t
description: D
steps:
  - {name: one, use-tool: inner}
  - {name: two, bash: 'echo "passed on {one.output}"'}
"""


def test_what_a_tool_keeps_secret_is_masked_by_the_tool_that_uses_it(opta, monkeypatch):
    monkeypatch.setenv("API_KEY", "hunter2hunter2")
    put(opta, INNER, "inner")
    put(opta, OUTER)
    assert opta("tool run t").out == "key ****\npassed on key ****\n"


TESTED = """\
name: t
description: D
bash: echo hello {A}; touch {A}; exit {CODE}
parameters:
  A: {type: string, description: a, default: made}
  CODE: {type: number, description: c, default: 0}
tests:
  - name: good
    expected: {exit-code: 0, output-contains: hello, file-exists: made}
    cleanup: [rm made]
  - name: code
    parameters: {CODE: 3}
    expected: {exit-code: 3}
    cleanup: [rm made]
"""
FAILING = (
    TESTED
    + """\
  - name: wrong
    parameters: {A: other}
    expected: {exit-code: 1, output-contains: nope, file-exists: none, directory-exists: none}
    cleanup: [rm other]
  - name: elsewhere
    platforms: [windows]
    expected: {exit-code: 9}
"""
)


@pytest.mark.row("C210", "C344")
@pytest.mark.parametrize("scope", ["", "-a", "--scope any", "--scope user", "-u"])
def test_tests_are_found_in_the_scope_that_is_named(opta, scope):
    put(opta, TESTED)
    assert opta(f"tool test t --yes {scope}").code == 0
    assert opta(f"tool test t --yes {scope or '-l'} --local").code in (1, 2)


@pytest.mark.row("C214")
def test_all_tests_pass_with_one_line_each(opta):
    put(opta, TESTED)
    ran = opta("tool test t --yes")
    assert ran.code == 0
    lines = ran.out.splitlines()
    assert [line.partition(" (")[0] for line in lines] == [
        "passed: good", "passed: code", "t: 2 passed, 0 failed, 0 skipped",
    ]  # fmt: skip


@pytest.mark.row("C214", "C215", "C216")
def test_a_failure_says_what_was_expected_and_what_came_and_cleans_up(opta):
    put(opta, FAILING)
    ran = opta("tool test t --yes")
    assert ran.code == 1
    assert "failed: wrong" in ran.out
    assert "exit code: expected 1, got 0" in ran.out
    assert "output: expected it to contain 'nope', got 'hello other'" in ran.out
    assert "file: expected none to exist, there is none" in ran.out
    assert "skipped: elsewhere: it is for windows" in ran.out
    assert list(opta.root.iterdir()) == []


def test_tests_of_one_name_are_told_each_with_its_own_result(opta):
    again = (
        "  - {name: code, parameters: {CODE: 4}, expected: {exit-code: 3}, cleanup: [rm made]}\n"
    )
    put(opta, TESTED + again + again.replace("CODE: 4", "CODE: 3"))
    ran = opta("tool test t --yes --format json")
    told = json.loads(ran.out)["tests"]
    assert [test["status"] for test in told] == ["passed", "passed", "failed", "passed"]
    assert ran.code == 1


@pytest.mark.row("C211")
def test_one_test_is_chosen_by_name(opta):
    put(opta, FAILING)
    ran = opta("tool test t --test good --yes")
    assert (ran.code, ran.out.count("passed: ")) == (0, 1)
    ran = opta("tool test t --test none --yes")
    assert (ran.code, "no test 'none'" in ran.err) == (1, True)


@pytest.mark.row("C212")
def test_verbose_shows_commands_and_output(opta):
    put(opta, TESTED)
    ran = opta("tool test t --test code --yes --verbose")
    assert "  $ echo hello" in ran.out
    assert "  | hello made" in ran.out


@pytest.mark.row("C345")
def test_testing_stops_after_the_first_failure_when_asked(opta):
    put(opta, FAILING.replace("exit-code: 0", "exit-code: 5"))
    ran = opta("tool test t --yes --stop-on-failure --format json")
    assert [test["status"] for test in json.loads(ran.out)["tests"]] == [
        "failed", "skipped", "skipped", "skipped",
    ]  # fmt: skip


def test_the_commands_are_shown_and_nothing_runs_unasked(opta):
    put(opta, TESTED)
    ran = opta("tool test t")
    assert (ran.code, ran.out) == (1, "")
    assert "echo hello" in ran.err
    assert "cleanup: rm made" in ran.err
    assert "--yes" in ran.err
    assert list(opta.root.iterdir()) == []


def test_reports_that_programs_read(opta):
    put(opta, FAILING)
    data = json.loads(opta("tool test t --yes --format json").out)
    assert (data["passed"], data["failed"], data["skipped"]) == (2, 1, 1)
    suite = ElementTree.fromstring(opta("tool test t --yes --format junit").out)
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("4", "1", "1")
    (failure,) = suite.iter("failure")
    assert "exit code: expected 1, got 0" in failure.text


def test_tests_of_different_directories_run_at_the_same_time(opta):
    for name in "ab":
        (opta.root / name).mkdir()
    put(
        opta,
        """\
name: t
description: D
bash: |
  touch here
  for i in $(seq 100); do [ -e ../a/here ] && [ -e ../b/here ] && exit 0; sleep 0.05; done
  exit 1
parameters: {DIR: {type: string, description: d, required: true}}
working-directory: "{DIR}"
tests:
  - {name: one, parameters: {DIR: a}, expected: {exit-code: 0}}
  - {name: two, parameters: {DIR: b}, expected: {exit-code: 0}}
""",
    )
    ran = opta("tool test t --yes")
    assert (ran.code, ran.out.count("passed: ")) == (0, 2), ran.out


def test_a_tool_without_tests_says_so(opta):
    put(opta)
    ran = opta("tool test t")
    assert (ran.code, "has no tests" in ran.err) == (1, True)
