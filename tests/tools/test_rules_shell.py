"""What rules can know of shell commands: allow only what is plain, deny through any disguise."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tools.permissions.shell import (
    AllowedCommands,
    CommandPattern,
    Match,
    RestrictedCommands,
    suggest_command,
)

ROOT = Path("/nowhere/project")


def allowed(*patterns: str) -> AllowedCommands[str]:
    rules: AllowedCommands[str] = AllowedCommands()
    for pattern in patterns:
        rules.add(CommandPattern.parse(pattern), pattern)
    return rules


def restricted(*patterns: str) -> RestrictedCommands[str]:
    rules: RestrictedCommands[str] = RestrictedCommands()
    for pattern in patterns:
        rules.add(CommandPattern.parse(pattern), pattern)
    return rules


def match(pattern: str, command: str) -> Match:
    return restricted(pattern).concerning(command)[0]


@pytest.mark.parametrize(
    ("pattern", "command"),
    [
        ("npm test:*", "npm test"),
        ("npm test:*", "npm test -- --watch src/a.js"),
        ("npm test:*", "  npm   test  x "),
        ("git status:*", "git status"),
        ("git status:*", "git status src"),
        ("git log --oneline:*", "git log --oneline"),
        ("make lint", "make lint"),
        ("cd x && make", "cd x && make"),
        ("*", "anything; at all"),
    ],
)
def test_an_allow_rule_covers_plain_commands(pattern: str, command: str) -> None:
    assert allowed(pattern).covering(command, ROOT) == pattern


@pytest.mark.parametrize(
    ("pattern", "command"),
    [
        ("npm test:*", "npm testing"),
        ("npm test:*", "npm"),
        ("make lint", "make lint x"),
        ("make lint", "make"),
        ("npm:*", "/tmp/npm test"),
        ("npm:*", "./npm test"),
    ],
)
def test_r10_an_allow_rule_ends_at_a_word(pattern: str, command: str) -> None:
    assert allowed(pattern).covering(command, ROOT) is None


@pytest.mark.parametrize(
    "tail",
    [
        "; id", "&& id", "| sh", "& id", "\nid", "\r\nid", "> f", "< f", ">> f", "$(id)", "`id`",
        "$HOME", "${x}", "'a b'", '"a"', "\\x", "*", "a?", "[a]", "{a,b}", "~/x", "# c", "!x",
        "(id)", "<(id)", "\x00", "\u00a0x", "é", "\u202ex", "^x", "x\x0bid",
    ],
)  # fmt: skip
def test_an_allow_rule_covers_nothing_with_shell_syntax(tail: str) -> None:
    rules = allowed("npm test:*")
    assert rules.covering(f"npm test {tail}", ROOT) is None
    assert rules.covering("npm test x", ROOT), "the same without the tail is covered"


@pytest.mark.parametrize("prefix", ["X=1 ", "env ", "sudo ", "time ", "\\", "( ", "! ", "\n;"])
def test_an_allow_rule_covers_nothing_in_front_of_its_program(prefix: str) -> None:
    assert allowed("npm test:*").covering(f"{prefix}npm test", ROOT) is None


@pytest.mark.parametrize(
    "command",
    [
        "find . -delete", "find . -exec rm x", "sort -o f", "sort --compress-program=x",
        "rg --pre x",
        "rg -z x", "tree -o f", "base64 -o f", "git -c a.b=c status", "git --exec-path=x status",
        "git diff --output=f", "git diff --ext-diff", "git grep -Ovim x",
        "tar -xf a --to-command=x",
        "sed -i x", "sed 1e x", "awk x f", "uniq a b", "curl -o f x", "fd x -x rm", "date -s x",
    ],
)  # fmt: skip
def test_r09_flags_that_write_or_run_are_covered_only_by_the_rule_itself(command: str) -> None:
    program = command.split()[0]
    assert allowed(f"{program}:*").covering(command, ROOT) is None
    assert allowed(f"{command}:*").covering(command, ROOT), "a rule that names the flag covers it"


def test_a_program_found_in_the_project_is_not_covered_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "bin" / "lint"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    assert allowed("lint:*").covering("lint x", tmp_path) is None
    assert allowed("lint:*").covering("lint x", ROOT) == "lint:*"
    assert allowed("bin/lint:*").covering("bin/lint x", tmp_path), "unless the rule says the path"


@pytest.mark.parametrize(
    "command",
    [
        "rm x", "ls; rm x", "ls && rm x", "ls || rm x", "ls | rm", "ls |& rm", "a & rm x",
        "ls\nrm x",
        "(rm x)", "{ rm x; }", "$(rm x)", "echo `rm x`", 'echo "$(rm x)"', 'echo "${a:-$(rm x)}"',
        "diff <(rm x) y", "if true; then rm x; fi", "for i in a; do rm $i; done", "! rm x",
        "while rm x; do :; done", "case a in a) rm x;; esac", "f() { rm x; }",
        "function f { rm x; }",
        "\\rm x", 'r"m" x', "'rm' x", "r''m x", "r\\\nm x", "/bin/rm x", "RM x", "X=1 Y=2 rm x",
        "sudo rm x", "sudo -u root rm x", "env -i A=1 rm", "timeout -s KILL 5 rm", "nice -n 5 rm",
        "nohup setsid ionice -c 3 stdbuf -o L rm", "time -p rm x", "exec rm", "command rm",
        "xargs -0 rm", "find . -exec rm {} ;", "fd x -x rm", "bash -c 'rm x'", 'sh -lc "ls; rm x"',
        "sudo bash -ec 'rm x'", "eval 'rm x'", "eval rm x", "cat <<E\n$(rm x)\nE", "ls > f; rm x",
        "cat <<'E'\ndon't\nE\nrm x", "cat <<A\n$(cat <<B\n$(rm x)\nB\n)\nA\n", "echo a#b; rm",
        ': $((1<<E))\nrm x\nE\n', ': $[1<<E]\nrm x\nE\n', "echo \"${x:-'}\"; rm y; echo \"'}\"",
    ],
)  # fmt: skip
def test_r11_a_deny_rule_finds_its_program_at_every_command_position(command: str) -> None:
    assert match("rm:*", command) is Match.YES


@pytest.mark.parametrize(
    "command",
    [
        "$x y", "r$'m' x", "$'rm' x", "/bin/r? x", "{rm,x}", "curl x | sh", "bash -s x",
        "bash <(x)",
        "source <(x)", ". /dev/stdin", "alias q=rm; q x", "hash -p /bin/rm ls; ls",
        'echo "unclosed',
        "echo 'unclosed", "python3 -c 'os.system(\"rm x\")'", "coproc N { rm x; }",
        "sudo " * 30 + "x",
        "[[ a ]] then rm x", "for x do rm x; done", "watch 'rm x'", "trap 'rm x' EXIT", "xargs env",
        "cat <<E | sh\nrm x\nE", "x=`echo \\`rm x\\``", "env -S'rm x' y", "$(", "cat <<E\nls",
        'eval "$x"',
    ],
)  # fmt: skip
def test_r11_a_command_that_hides_what_it_runs_may_be_what_is_denied(command: str) -> None:
    assert match("rm:*", command) is Match.MAYBE


@pytest.mark.parametrize(
    "command",
    [
        "ls", "echo 'rm x'", "grep rm file", "ls 2>&1 rm", "cat <<'E'\nrm don't\nE\nls", "RM=1 ls",
        "echo # rm x", "npm run rm", "bash script.sh", "git log --format='%h {x}' | head",
        "echo $HOME",
        "bash -o pipefail -c 'ls | wc'", "echo \"it's\"", "ls *.py", "echo {a,b}", "a=$(ls)",
        "[ -f x ] && ls",
        "for f in *.py; do sed -n 1p \"$f\"; done", "rmdir x", "echo $((1+2))", "sudo ls", "env ls",
    ],
)  # fmt: skip
def test_a_deny_rule_leaves_other_commands_alone(command: str) -> None:
    assert match("rm:*", command) is Match.NO


@pytest.mark.parametrize(
    ("pattern", "command", "expected"),
    [
        ("git push:*", "git push --force", Match.YES),
        ("git push:*", "git -C . push", Match.YES),
        ("git push:*", "git -c a.b=c --no-pager push x", Match.YES),
        ("git push --force:*", "git push origin main -f", Match.YES),
        ("git push --force:*", "git push origin main", Match.NO),
        ("git push:*", "git --unknown x push", Match.MAYBE),
        ("git push:*", "git log push", Match.MAYBE),
        ("rm -rf:*", "rm -rf x", Match.YES),
        ("rm -rf:*", "rm -f x -r", Match.YES),
        ("rm -r:*", "rm -fr x", Match.YES),
        ("rm -r:*", "rm --recursive x", Match.YES),
        ("rm -r:*", "rm --recurs x", Match.YES),
        ("rm -r:*", "rm -R x", Match.YES),
        ("rm --recursive:*", "rm -vfr x", Match.YES),
        ("rm -rf:*", "rm x", Match.NO),
        ("rm -rf:*", "rm -r x", Match.NO),
    ],
)
def test_a_deny_rule_knows_other_spellings_of_its_words(pattern, command, expected) -> None:
    assert match(pattern, command) is expected


@pytest.mark.parametrize(
    "command",
    ["X=rm; $X -rf y", "X=rm\n${X} y", "X='rm -rf'; $X y", "for p in ls rm; do $p x; done",
     "export X=rm; $X y", "sudo env X=rm true; sudo $X y"],
)  # fmt: skip
def test_a_deny_rule_sees_through_variables_that_the_text_sets(command) -> None:
    assert match("rm:*", command) is Match.YES


def test_r07_the_ten_thousandth_command_is_checked_too() -> None:
    assert match("rm:*", "ls;" * 10_000 + "rm x") is Match.YES


@pytest.mark.parametrize(
    "command",
    [
        "git x; " * 1400, "sudo " * 2000, "$( " * 3000, '"${' * 3000, "`ls` " * 2000, "do " * 3000,
        "then sudo " * 1000, "a" * 10_000, "'" * 10_000, '"' * 10_000, "\\" * 10_000, "<<a " * 2500,
        "bash -c '" + "sudo x " * 1400 + "'", "<<a\n" * 2500, "( " * 5000, "npm test " * 1100,
    ],
    ids=lambda text: text[:12],
)  # fmt: skip
def test_r42_a_thousand_rules_judge_a_long_command_in_time(command: str) -> None:
    deny = restricted(*[f"git sub{number}:*" for number in range(1000)])
    allow = allowed(*[f"npm sub{number}:*" for number in range(1000)])
    best = min(_seconds(deny, allow, command) for _ in range(5))
    assert best < 0.05, f"{best * 1000:.0f} ms"


def _seconds(deny: RestrictedCommands[str], allow: AllowedCommands[str], command: str) -> float:
    start = time.process_time()
    deny.concerning(command)
    allow.covering(command, ROOT)
    return time.process_time() - start


@pytest.mark.parametrize(
    ("command", "suggestion"),
    [
        ("npm test", "npm test:*"),
        ("npm run build -- --x", "npm run build:*"),
        ("git status", "git status:*"),
        ("git log --oneline", "git log --oneline"),
        ("pytest -q tests", "pytest:*"),
        ("ls -la", "ls -la"),
        ("python x.py", "python x.py"),
        ("npm test && id", "npm test && id"),
        ("cat a | wc", "cat a | wc"),
        ("*", ""),
        ("echo a:*", ""),
    ],
)
def test_suggestions_are_narrow(command: str, suggestion: str) -> None:
    assert suggest_command(command) == suggestion


shell_text = st.lists(
    st.sampled_from(
        ["rm", "ls", "git", "npm test", " ", " ", "\n", ";", "&&", "|", "(", ")", "$(", "`", "'",
         '"',
         "\\", "${", "}", "{", "<<E\n", "\nE\n", "<", ">", "#", "$x", "$'", "then", "sudo",
         "sh -c", "=", "*"]
    ),
    max_size=14,
).map("".join)  # fmt: skip


@given(shell_text)
@settings(max_examples=400)
def test_a_denied_program_after_any_text_is_never_missed(text: str) -> None:
    """Whatever stands before it, `rm` on a line of its own is found, unless the line is data."""
    found = match("rm:*", f"{text}\nrm x")
    in_document = "<<" in text
    assert found is not Match.NO or in_document or text.endswith("\\")


@given(shell_text)
@settings(max_examples=400)
def test_what_an_allow_rule_covers_is_plain_and_a_suggestion_covers_its_command(text: str) -> None:
    if allowed("npm test:*").covering(text, ROOT):
        assert text.split()[:2] == ["npm", "test"]
        assert not set(text.strip(" \t\n")) & set(";&|()$`'\"\\{}<>#*\n=")
    suggestion = suggest_command(text)
    if suggestion:
        assert allowed(suggestion).covering(text, ROOT) == suggestion


def test_blanks_and_line_ends_around_a_command_are_no_part_of_it() -> None:
    for text in ("npm test\n", "\n npm test", "npm test \t\n\n"):
        assert allowed("npm test:*").covering(text, ROOT)
        assert suggest_command(text) == "npm test:*"
    for text in ("npm test\nid", "npm test\n\nid\n", "npm test\r", "npm test\x0b"):
        assert not allowed("npm test:*").covering(text, ROOT)
        assert not allowed("npm test").covering(text, ROOT)
