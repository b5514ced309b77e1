"""Tools that ask the person, run by hand in a real terminal (X125)."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pexpect
import psutil
import pytest

from tests.support.cli import OPTA
from tests.support.cli import opta as program

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no pseudo-terminal")


def put(opta, script, more="", name="t"):
    body = "".join(f"  {line}\n" for line in script.splitlines())
    text = f"name: {name}\ndescription: d\ninteractive: true\nbash: |\n{body}{more}"
    opta.put(f"{name}.yaml", text, opta.user)


def spawn(*words):
    return pexpect.spawn(OPTA[0], [*OPTA[1:], "tool", "run", *words], timeout=30, encoding="utf-8")


def ended(child):
    child.expect(pexpect.EOF)
    child.close()
    return child.exitstatus


@pytest.mark.row("C88")
def test_a_question_reaches_the_person_and_the_exit_code_is_that_of_the_tool(opta):
    put(opta, '[ -t 0 ] && [ -t 1 ] && [ -t 2 ] && read -p "name? " n\necho "hi $n"\nexit 3')
    child = spawn("t")
    child.expect_exact("name? ")
    child.sendline("Ada")
    child.expect_exact("hi Ada")
    assert ended(child) == 3


def test_a_program_may_put_the_terminal_into_a_mode_of_its_own(opta):
    put(opta, "read -rsn1 -p 'key? ' k\necho \"<$k>\"; stty -echo")
    child = spawn("t")
    child.expect_exact("key? ")
    child.send("x")
    child.expect_exact("<x>")
    assert ended(child) == 0


def test_ctrl_c_reaches_the_tool_and_not_opta(opta):
    put(opta, "trap 'echo caught; exit 7' INT\necho ready\nwhile :; do read -r line; done")
    child = spawn("t")
    child.expect_exact("ready")
    child.sendintr()
    child.expect_exact("caught")
    assert ended(child) == 7


def test_a_tool_that_does_not_catch_ctrl_c_ends_as_in_a_shell(opta):
    put(opta, "echo ready\nexec sleep 1000")
    child = spawn("t")
    child.expect_exact("ready")
    child.sendintr()
    assert ended(child) == 130


def test_ctrl_z_stops_the_tool_and_opta_and_both_go_on(opta):
    put(opta, "read -p 'one? ' a\nread -p 'two? ' b\necho \"got $a $b\"")
    shell = pexpect.spawn("bash", ["--norc", "-i"], timeout=30, encoding="utf-8")
    shell.sendline(f"PS1='ready> '; {shlex.join(OPTA)} tool run t; echo code $?")
    shell.expect_exact("one? ")
    shell.sendcontrol("z")
    shell.expect("Stopped|suspended")
    shell.sendline("fg")
    shell.expect_exact("tool run t")
    shell.sendline("1")
    shell.expect_exact("two? ")
    shell.sendline("2")
    shell.expect_exact("got 1 2")
    shell.sendline("echo $((6 * 7)); exit")
    shell.expect_exact("42")
    shell.close()


def test_what_another_step_refers_to_is_shown_and_kept(opta):
    opta.put(
        "t.yaml",
        """\
name: t
description: d
interactive: true
steps:
  - {name: ask, bash: 'read -p "name? " n; echo "$n"'}
  - {name: greet, bash: 'echo "hello {ask.output}"'}
""",
        opta.user,
    )
    child = spawn("t")
    child.expect_exact("name? ")
    child.sendline("Ada")
    child.expect_exact("hello Ada")
    assert ended(child) == 0


def test_secrets_are_hidden_in_a_terminal_too(opta, monkeypatch):
    monkeypatch.setenv("API_KEY", "hunter2hunter2")
    put(opta, 'read -p "go? "; echo "key $API_KEY"', "environment: {secrets: [API_KEY]}\n")
    child = spawn("t")
    child.expect_exact("go? ")
    child.sendline("y")
    child.expect_exact("key ****")
    assert ended(child) == 0


def test_pagers_and_editors_are_those_of_the_person(opta, monkeypatch):
    monkeypatch.setenv("GIT_EDITOR", "my-editor")
    monkeypatch.delenv("PAGER", raising=False)
    put(opta, 'echo "<$GIT_EDITOR|$PAGER>"')
    child = spawn("t")
    child.expect_exact("<my-editor|>")
    assert ended(child) == 0


def test_output_may_go_elsewhere(opta):
    put(opta, 'read -p "name? " n; echo "hi $n"')
    command = f"{shlex.join(OPTA)} tool run t | tr a-z A-Z"
    child = pexpect.spawn("bash", ["-c", command], timeout=30, encoding="utf-8")
    child.expect_exact("name? ")
    child.sendline("Ada")
    child.expect_exact("HI ADA")
    assert ended(child) == 0


def test_what_it_leaves_running_is_ended(opta):
    put(opta, "sleep 1000 & echo pid $! .")
    child = spawn("t")
    child.expect(r"pid (\d+) \.")
    pid = int(child.match[1])
    assert ended(child) == 0
    assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_without_a_terminal_nothing_runs(opta):
    put(opta, "touch ran")
    ran = program("tool", "run", "t", stdin="")
    assert (ran.returncode, ran.stdout) == (1, "")
    assert "t is interactive: it asks the person and needs a terminal" in ran.stderr
    assert not Path("ran").exists()
    assert opta("tool run t --dry-run").code == 0


def test_without_a_terminal_the_default_answer_is_given(opta):
    options = "interactive-options: {timeout: 1, default-response: yes please}\n"
    put(opta, 'read -r answer; echo "answer: $answer"', options)
    ran = program("tool", "run", "t", stdin="")
    assert (ran.returncode, ran.stdout) == (0, "answer: yes please\n")
