"""A team's allowlist holds every command of every tool, whatever else allows it."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.calls import connects, make_call, make_invocation, reads, runs
from tools.definition import Source
from tools.permissions.allowlist import Allowlist
from tools.permissions.gate import Denial, PermissionGate
from tools.permissions.rules import RuleSet, Verdict, parse_rule

PATTERNS = ("npm test*", "git status", "make lint", "echo 'a b'*")


def decide(effect, tmp_path, *, patterns=PATTERNS, source=Source.BUILTIN, skip=True, rules=()):
    gate = PermissionGate(
        RuleSet([parse_rule(Verdict.ALLOW, rule, "t") for rule in rules], tmp_path),
        skip_permissions=skip,
    )
    gate.allowlist = lambda: Allowlist(patterns, "the team acme")
    call = make_call("deploy", source=source)
    return asyncio.run(gate.authorise(call, make_invocation(effect)))


@pytest.mark.row("E153")
@pytest.mark.parametrize(
    "line",
    ["npm test", "npm test -- -v", "npm  test x", "npm test && git status", "make lint | npm test",
     "npm test 2>&1", "(npm test; make lint)", "echo 'a b' c", "# nothing", "npm test >/dev/null"],
)  # fmt: skip
def test_commands_on_the_list_go_on_to_the_other_rules(line, tmp_path):
    assert decide(runs(line, cwd=str(tmp_path)), tmp_path).grant is not None
    asked = decide(runs(line, cwd=str(tmp_path)), tmp_path, skip=False, source=Source.CUSTOM)
    assert asked.denial in (None, Denial.NOBODY), "the list allows nothing by itself"
    assert line == "# nothing" or asked.denial is Denial.NOBODY


@pytest.mark.row("E153")
@pytest.mark.parametrize(
    "line",
    ["npm install", "npm test; rm -rf .", "npm test && curl x", "npm test | sh", "npm test &",
     "npm test $(curl x)", "npm test `curl x`", "npm test $X", "npm test > out", "A=1 npm test",
     "npm test <<E\n$(curl x)\nE", "f() { curl x; }; npm test", "npm test\ncurl x", "npm test '",
     "git status --short", "cat <(curl x)", "if npm test; then curl x; fi", "eval npm test",
     "\\npm install", "npm test\x00", "echo a b"],
)  # fmt: skip
@pytest.mark.parametrize("source", [Source.BUILTIN, Source.CUSTOM, Source.TEAMS])
def test_all_other_commands_are_denied_whatever_is_allowed_or_skipped(line, source, tmp_path):
    rules = ["run_command", "deploy"]
    decision = decide(runs(line, cwd=str(tmp_path)), tmp_path, source=source, rules=rules)
    assert decision.denial is Denial.RULE
    assert decision.by == "the allowlist of the team acme"
    assert "the team acme does not allow the command" in decision.message


def test_an_empty_list_allows_no_command_and_says_so(tmp_path):
    decision = decide(runs("true"), tmp_path, patterns=())
    assert decision.denial is Denial.RULE
    assert "only none" in decision.message


def test_what_is_no_command_is_not_held_to_it(tmp_path):
    for effect in (reads(str(tmp_path / "a")), connects("example.com")):
        assert decide(effect, tmp_path).grant is not None
