"""Rules of no use are named: hidden by another, or matching nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.permissions.rule_review import review
from tools.permissions.rules import Verdict, parse_rule

ROOT = Path("/nowhere/project")


def problems(*texts, names=None):
    rules = [
        parse_rule(Verdict(kind), text, f"f:{line}")
        for line, (kind, text) in enumerate((text.split(":", 1) for text in texts), 1)
    ]
    return [(p.rule.text, p.message) for p in review(rules, ROOT, names)]


@pytest.mark.parametrize(
    ("rules", "hidden", "words"),
    [
        (["deny:run_command(npm:*)", "allow:run_command(npm test:*)"], "run_command(npm test:*)",
         "is never reached: deny run_command(npm:*) (f:1) comes first"),
        (["allow:run_command(npm test:*)", "deny:run_command"], "run_command(npm test:*)", "f:2"),
        (["deny:run_command(*)", "ask:run_command(make)"], "run_command(make)", "never reached"),
        (["ask:run_command(git:*)", "allow:run_command(git status)"], "run_command(git status)",
         "never reached"),
        (["allow:run_command(npm:*)", "allow:run_command(npm test:*)"], "run_command(npm test:*)",
         "adds nothing"),
        (["allow:deploy", "allow:deploy"], "deploy", "adds nothing"),
        (["deny:write_file", "allow:write_file(src/**)"], "write_file(src/**)", "never reached"),
        (["deny:read_file(src/**)", "allow:read_file(src/a.py)"], "read_file(src/a.py)", "never"),
        (["deny:read_file(Src)", "allow:read_file(src/a.py)"], "read_file(src/a.py)", "never"),
        (["deny:tool:run", "allow:tool:run"], "tool:run", "never reached"),
        (["deny:network:a.example", "allow:network:a.example"], "network:a.example", "never"),
    ],
)  # fmt: skip
def test_a_rule_that_another_hides_is_named_with_the_other(rules, hidden, words):
    ((text, message),) = problems(*rules)
    assert text == hidden
    assert words in message


@pytest.mark.parametrize(
    "rules",
    [
        ["allow:run_command(npm:*)", "deny:run_command(npm publish:*)"],
        ["allow:run_command(npm test:*)", "ask:run_command(npm:*)"][:1],
        ["deny:run_command(rm:*)", "allow:run_command(rmdir:*)"],
        ["allow:read_file(src/**)", "allow:write_file(src/**)"],
        ["allow:read_file(src/*)", "deny:read_file(src/a/b)"],
        ["allow:tool:read", "deny:tool:run"],
        ["deny:mcp:a/*", "allow:mcp:b/*"],
        [],
    ],
)
def test_rules_that_all_do_something_are_not_named(rules):
    assert problems(*rules) == []


def test_a_rule_that_can_never_match_is_named():
    ((_, message),) = problems("allow:run_command(npm test *)")
    assert "write run_command(npm test:*)" in message
    assert problems("allow:deploy", names={"deploy"}) == []
    ((_, message),) = problems("allow:deploy", names={"other"})
    assert message == "never matches: there is no tool of this name here"
    assert problems("allow:run_command", names=set()) == []
