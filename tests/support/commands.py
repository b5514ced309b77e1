"""What the rules say of shell commands, without a tool or a process behind them."""

from __future__ import annotations

from pathlib import Path

from tests.support.calls import make_call, make_invocation, runs
from tools.permissions.rules import RuleSet, Verdict, parse_rule


def rule_set(root: Path, *rules: str) -> RuleSet:
    """Return the rules, each written as `deny:run_command(rm:*)`."""
    parts = (rule.split(":", 1) for rule in rules)
    return RuleSet([parse_rule(Verdict(kind), text, "t:1") for kind, text in parts], root)


def verdict(line: str, root: Path, *rules: str) -> Verdict:
    """Return what rules and the built-in list say of a command started in `root`."""
    judged = rule_set(root, *rules).judge(make_call(), make_invocation(runs(line, cwd=str(root))))
    return Verdict.ASK if judged is None else judged.verdict


def whys(line: str, root: Path, *rules: str) -> list[str]:
    """Return why each part of a command is not allowed."""
    parts = rule_set(root, *rules).parts(runs(line, cwd=str(root)))
    return [part.why for part in parts if not part.allowed]
