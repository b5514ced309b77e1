"""The grammar of permission rules and how calls are judged by them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.calls import connects, make_call, make_invocation, reads, runs, writes
from tools.definition import Source
from tools.permissions.rules import (
    Rule,
    RuleError,
    RuleSet,
    Verdict,
    parse_rule,
    parse_tag_rule,
)

ROOT = Path("/work/project")


def judged(rules, call, *effects):
    """Judge a call by rules written as `deny:text`; return verdict and text of the rule."""
    parsed = [parse_rule(Verdict(v), text, "here:1") for v, text in rules]
    judgement = RuleSet(parsed, ROOT).judge(call, make_invocation(*effects))
    return None if judgement is None else (judgement.verdict.value, judgement.rule.text)


def allows(rule, call, *effects):
    return judged([("allow", rule)], call, *effects) == ("allow", rule)


def denies(rule, call, *effects):
    return judged([("deny", rule)], call, *effects) == ("deny", rule)


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "run_command(", "run_command(git", "run_command()", "deploy(staging)", "git(x)",
        "edit_file(src)", "run_command('a':*)", "run_command($x:*)", "run_command(a*:*)", "tool:",
        "tool:a b", "mcp:x", "mcp:/x", "mcp:a/b/c", "network:", "network:a b", "network:a\0b",
        "network:http://x", "network:*", "foo:bar", "a b", "*", "write_file(../x)", "Bash(git:*)",
        "read_file(a\0b)", "network:-a-",
    ],
)  # fmt: skip
def test_r08_an_invalid_rule_is_an_error_that_names_it(text: str) -> None:
    with pytest.raises(RuleError) as caught:
        parse_rule(Verdict.ALLOW, text, "here")
    assert repr(text.strip()) in str(caught.value)


def test_r08_deny_beats_ask_beats_allow_whatever_the_order() -> None:
    call, effect = make_call(), runs("git push")
    rules = [
        ("allow", "run_command"),
        ("ask", "run_command(git:*)"),
        ("deny", "run_command(git push:*)"),
    ]
    for order in (rules, rules[::-1]):
        assert judged(order, call, effect) == ("deny", "run_command(git push:*)")
        assert judged([r for r in order if r[0] != "deny"], call, effect)[0] == "ask"


def test_no_rule_says_nothing() -> None:
    assert judged([], make_call(), runs("ls")) is None
    assert judged([("allow", "deploy"), ("deny", "other")], make_call(), runs("ls")) is None


def test_a_name_matches_calls_of_that_tool_only() -> None:
    deploy = make_call("deploy", source=Source.CUSTOM)
    assert allows("deploy", deploy, runs("bash scripts/deploy.sh"))
    assert allows("custom.deploy", deploy, runs("x"))
    assert not allows("deplo", deploy, runs("x"))
    assert not allows("custom.run_command", make_call(), runs("x"))


@pytest.mark.row("A43")
@pytest.mark.parametrize("rule", ["run_command", "run_command(bash:*)", "run_command(bash x.sh)"])
def test_rules_for_run_command_apply_to_custom_tools(rule: str) -> None:
    deploy = make_call("deploy", source=Source.CUSTOM)
    assert denies(rule, deploy, runs("bash x.sh"))
    assert allows(rule, deploy, runs("bash x.sh"))


@pytest.mark.row("C316", "C317")
def test_tags_match_tools_that_carry_them_and_never_untagged_ones() -> None:
    weather = make_call("weather", tags=["read", "weather"])
    assert allows("tool:read", weather, runs("curl x"))
    assert allows("tool:weather", weather, runs("curl x"))
    assert not allows("tool:write", weather, runs("curl x"))
    for tags in (None, [], "read", [["read"]]):
        assert not allows("tool:read", make_call("x", tags=tags), runs("x"))


@pytest.mark.row("C318")
def test_auto_deny_beats_auto_approve() -> None:
    call = make_call("weather", tags=["read", "weather"])
    rules = [
        parse_tag_rule(Verdict.ALLOW, "tool:read", "flag --auto-approve"),
        parse_tag_rule(Verdict.DENY, "tool:weather", "flag --auto-deny"),
    ]
    judgement = RuleSet(rules, ROOT).judge(call, make_invocation(runs("x")))
    assert judgement is not None
    assert judgement.rule == Rule(Verdict.DENY, "tool:weather", "flag --auto-deny")


@pytest.mark.parametrize("text", ["read", "tool:", "run_command(ls)", "network:a.b"])
def test_auto_flags_take_tags_only(text: str) -> None:
    with pytest.raises(RuleError):
        parse_tag_rule(Verdict.ALLOW, text, "flag")


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("src/**", "/work/project/src/a.py", True),
        ("src/**", "/work/project/src/a/b/c.py", True),
        ("src/**", "/work/project-evil/src/a.py", False),
        ("src/**", "/work/project/srcs/a.py", False),
        ("src/*.py", "/work/project/src/a.py", True),
        ("src/*.py", "/work/project/src/x/a.py", False),
        ("**/*.py", "/work/project/a.py", True),
        ("**/test_?.py", "/work/project/x/y/test_1.py", True),
        ("*", "/work/project/a", True),
        ("*", "/work/project/a/b", False),
        ("/etc/hosts", "/etc/hosts", True),
        ("/etc/hosts", "/work/project/etc/hosts", False),
        ("a.py", "/work/project/a.py", True),
        ("a.py", "/work/project/A.py", False),
    ],
)
def test_paths_match_by_component(pattern: str, path: str, matches: bool) -> None:
    assert allows(f"write_file({pattern})", make_call("edit_file"), writes(path)) is matches


def test_a_home_path_is_expanded() -> None:
    path = str(Path.home() / "notes" / "a.md")
    assert allows("read_file(~/notes/*.md)", make_call("read_file"), reads(path, inside=False))


def test_deny_paths_cover_what_is_below_and_any_spelling() -> None:
    call = make_call("write_file")
    assert denies("write_file(secrets)", call, writes("/work/project/secrets/a/b"))
    assert denies("write_file(secrets/)", call, writes("/work/project/Secrets/a"))
    assert denies("write_file(caf\u00e9)", call, writes("/work/project/cafe\u0301"))
    assert not allows("write_file(secrets)", call, writes("/work/project/secrets/a"))
    assert not denies("write_file(secrets)", call, reads("/work/project/secrets/a"))


def test_a_link_widens_deny_rules_and_never_allow_rules(tmp_path: Path) -> None:
    root, outside = tmp_path / "project", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (root / "src").symlink_to(outside)
    call, effect = (
        make_call("write_file"),
        make_invocation(writes(str(outside / "a"), inside=False)),
    )
    for verdict, expected in ((Verdict.DENY, Verdict.DENY), (Verdict.ALLOW, None)):
        judgement = RuleSet([parse_rule(verdict, "write_file(src/**)", "h")], root).judge(
            call, effect
        )
        assert (judgement.verdict if judgement else None) is expected


def test_every_effect_needs_an_allow_rule_but_reads_in_the_workspace() -> None:
    call = make_call("file_operations")
    inside, outside = reads("/work/project/a"), reads("/etc/hosts", inside=False)
    write = writes("/work/project/src/b")
    assert allows("write_file(src/**)", call, inside, write)
    assert not allows("write_file(src/**)", call, outside, write)
    assert not allows("write_file(src/**)", call, write, writes("/work/project/c"))
    assert not allows("write_file(src/**)", call, write, runs("ls"))


def test_a_deny_rule_needs_one_effect() -> None:
    assert denies("run_command(rm:*)", make_call("x"), reads("/work/project/a"), runs("rm a"))


def test_a_sensitive_file_is_allowed_only_by_its_own_path() -> None:
    call = make_call("read_file")
    secret = reads("/work/project/.env", sensitive="it holds secrets")
    for rule in ("read_file", "read_file(**)", "read_file(.e?v)"):
        assert not allows(rule, call, secret)
    assert allows("read_file(.env)", call, secret)
    assert denies("read_file(**)", call, secret)


@pytest.mark.parametrize(
    ("rule", "host", "matches"),
    [
        ("network:api.github.com", "api.github.com", True),
        ("network:api.github.com", "API.GitHub.com.", True),
        ("network:github.com", "api.github.com", False),
        ("network:github.com", "github.com.evil.org", False),
        ("network:*.github.com", "api.github.com", True),
        ("network:*.github.com", "a.b.github.com", True),
        ("network:*.github.com", "github.com", False),
        ("network:*.github.com", "evilgithub.com", False),
        ("network:b\u00fccher.example", "xn--bcher-kva.example", True),
        ("network:github.com", "github.com\0.evil.org", False),
        ("network:github.com", "user@github.com", False),
    ],
)
def test_r31_hosts_match_by_label(rule: str, host: str, matches: bool) -> None:
    assert allows(rule, make_call("fetch"), connects(host)) is matches


def test_a_command_that_may_be_denied_is_asked_about() -> None:
    verdict = judged(
        [("deny", "run_command(rm:*)"), ("allow", "run_command")], make_call(), runs("$x y")
    )
    assert verdict == ("ask", "run_command(rm:*)")


@pytest.mark.parametrize(
    ("call", "effects", "texts"),
    [
        (make_call(), [runs("npm test")], ["run_command(npm test:*)"]),
        (make_call("git"), [runs("git log -p")], ["run_command(git log -p)"]),
        (make_call("edit_file"), [reads("/p/a"), writes("/p/a")], ["write_file(/p/a)"]),
        (make_call("read_file"), [reads("/etc/x", False)], ["read_file(/etc/x)"]),
        (make_call("deploy", source=Source.CUSTOM), [runs("bash d.sh")], ["deploy"]),
        (make_call("fetch"), [connects("a.example")], ["network:a.example"]),
        (make_call("write_file"), [writes("/p/*.py")], []),
        (make_call(), [runs("ls :*")], []),
    ],
)
def test_suggestions_are_the_narrowest_rules(call, effects, texts) -> None:
    assert [rule.text for rule in RuleSet().suggest(call, make_invocation(*effects))] == texts
