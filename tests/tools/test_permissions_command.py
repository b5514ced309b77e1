"""`opta permissions`: the rules by hand, and what they say of a command."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest

from agent import cli
from tests.support.cli import opta
from tools import storage

RULES = """\
permissions:
  # what nobody may do
  deny:
    - run_command(rm:*)
    - run_command(git push:*)
  ask:
    - run_command(npm publish:*)
  allow:
    - run_command(npm test:*)
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    root = tmp_path / "project"
    root.mkdir()
    (root / "rules.yml").write_text(RULES)
    monkeypatch.chdir(root)
    return root


def permissions(capsys, *words):
    """Return exit code, standard output and standard error."""
    code = cli.main(["permissions", *words], "0")
    return code, *capsys.readouterr()


def check(capsys, line, *words):
    code, out, _ = permissions(
        capsys, "check", "--rules", "rules.yml", "--format", "json", *words, "--", line
    )
    return code, json.loads(out)


@pytest.mark.parametrize(
    ("line", "verdict", "code", "rule", "at"),
    [
        ("ls | head", "allow", 0, "commands that only read", None),
        ("npm test 2>&1 | tail -5", "allow", 0, "run_command(npm test:*)", 9),
        ("npm test; rm x", "deny", 5, "run_command(rm:*)", 4),
        ("X=rm; $X -rf y", "deny", 5, "run_command(rm:*)", 4),
        ("sudo 'r'm x", "deny", 5, "run_command(rm:*)", 4),
        ("git -C . push", "deny", 5, "run_command(git push:*)", 5),
        ("npm publish", "ask", 3, "run_command(npm publish:*)", 7),
        ("$x", "ask", 3, "run_command(rm:*)", 4),
        ("npm test > f", "ask", 3, None, None),
        ("cat .env", "ask", 3, None, None),
        ('eval "$x"', "ask", 3, "run_command(rm:*)", 4),
    ],
)
def test_check_says_verdict_rule_and_place(project, capsys, line, verdict, code, rule, at):
    done, found = check(capsys, line)
    assert (done, found["verdict"]) == (code, verdict)
    assert found["command"] == line
    assert (found["rule"] or {}).get("rule") == rule
    assert (found["rule"] or {}).get("line") == at
    if at:
        assert found["rule"]["file"] == "rules.yml"


def test_check_says_why_for_every_part(project, capsys):
    _, found = check(capsys, "ls; npm test | tee f && cat .env || git push")
    told = [(part["command"], part["verdict"]) for part in found["commands"]]
    assert told == [
        ("ls", "allow"), ("npm test", "allow"), ("tee f", "ask"), ("cat .env", "ask"),
        ("git push", "deny"),
    ]  # fmt: skip
    reasons = [part["reason"] for part in found["commands"]]
    assert reasons[0] == "it only reads"
    assert "rules.yml:9" in reasons[1]
    assert "not a command that is known to only read" in reasons[2]
    assert "environment files hold secrets" in reasons[3]
    assert "rules.yml:5" in reasons[4]


def test_check_as_text_names_rule_and_place(project, capsys):
    code, out, _ = permissions(capsys, "check", "--rules", "rules.yml", "--", "ls; rm x")
    assert code == 5
    assert out.splitlines()[0] == "deny: rule run_command(rm:*) (rules.yml:4)"
    assert "  allow  ls: it only reads" in out


@pytest.mark.parametrize(
    ("default", "line", "verdict"),
    [("deny", "npm x", "deny"), ("allow", "npm x", "allow"), ("ask", "npm x", "ask"),
     ("allow", "rm x", "deny"), ("allow", "cat .env", "ask"), ("allow", "eval $x", "ask"),
     ("deny", "ls", "allow"), ("allow", "find . -delete", "ask"), ("deny", "npm test", "allow")],
)  # fmt: skip
def test_the_default_holds_where_no_rule_speaks(project, capsys, default, line, verdict):
    (project / "rules.yml").write_text(f"{RULES}  default: {default}\n")
    assert check(capsys, line)[1]["verdict"] == verdict


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("deny: run_command(rm)", "rules.yml:1:"), ("deny: [x y]", "is not a rule"),
        ("denny: []", "is none of deny, ask, allow and default"),
        ("default: maybe", "must be allow"),
        ("permissions: 3", "must hold deny, ask and allow lists"), ("[", "rules.yml:2"),
        ("permissions:\n  allow:\n    - ls\n    - 'run_command('", "rules.yml:4:"),
    ],
)  # fmt: skip
def test_a_rules_file_that_cannot_be_read_is_one_clear_error(project, capsys, text, said):
    (project / "rules.yml").write_text(text)
    code, out, err = permissions(capsys, "check", "--rules", "rules.yml", "--", "ls")
    assert (code, out) == (2, "")
    assert said in err
    assert "Traceback" not in err


def test_wrong_usage_is_told_apart(project, capsys):
    assert permissions(capsys, "check", "--rules", "none.yml", "--", "ls")[0] == 2
    assert permissions(capsys, "check", "--", " ")[0] == 2
    with pytest.raises(SystemExit) as ended:
        permissions(capsys, "check")
    assert ended.value.code == 2


def test_rules_are_added_listed_and_removed(project, capsys):
    assert permissions(capsys, "check", "--", "npm test")[0] == 3
    code, out, _ = permissions(capsys, "add", "allow", "run_command(npm test:*)")
    assert code == 0
    assert "run_command(npm test:*)" in out
    assert permissions(capsys, "check", "--", "npm test")[0] == 0
    assert permissions(capsys, "check", "-C", "..", "--", "npm test")[0] == 3, "here alone"

    permissions(capsys, "add", "deny", "run_command(npm:*)", "--everywhere")
    assert permissions(capsys, "check", "-C", "..", "--", "npm test")[0] == 5
    _, out, _ = permissions(capsys, "list")
    assert "deny   run_command(npm:*)" in out
    assert "config.yml:" in out
    assert "is never reached: deny run_command(npm:*)" in out
    _, out, _ = permissions(capsys, "list", "--format", "json")
    listed = json.loads(out)
    assert {rule["verdict"] for rule in listed["rules"]} == {"allow", "deny"}
    assert all(rule["line"] for rule in listed["rules"])
    assert len(listed["problems"]) == 1

    for rule in ("run_command(npm:*)", "run_command(npm test:*)"):
        assert permissions(capsys, "remove", rule)[0] == 0
    assert "There are no rules" in permissions(capsys, "list")[1]
    code, _, err = permissions(capsys, "remove", "run_command(npm:*)")
    assert code == 1
    assert "opta permissions list" in err


def test_a_rule_is_removed_in_the_words_that_added_it(project, capsys):
    for verdict in ("deny", "allow"):
        code, out, _ = permissions(capsys, "add", verdict, "run_command(npm:*)")
        assert code == 0
        assert "config.yml)" in out
    assert permissions(capsys, "remove", "deny", "run_command(npm:*)")[0] == 0
    listed = permissions(capsys, "list")[1]
    assert listed.startswith("allow  run_command(npm:*)")
    assert "deny" not in listed
    assert permissions(capsys, "remove", "deny", "run_command(npm:*)")[0] == 1


def test_a_rule_that_is_none_is_not_stored(project, capsys):
    code, _, err = permissions(capsys, "add", "allow", "run_command(")
    assert code == 2
    assert "closing parenthesis" in err
    assert not (storage.config_dir() / "config.yml").exists()


def test_paths_of_the_project_are_stored_relative_to_it(project, capsys):
    permissions(capsys, "add", "allow", f"write_file({project}/src/a.py)")
    assert "write_file(src/a.py)" in (storage.config_dir() / "config.yml").read_text()


def test_why_without_a_session_says_so(project, capsys):
    code, _, err = permissions(capsys, "why")
    assert code == 1
    assert "no sessions" in err


def test_help_pages_and_exit_codes_are_there(project):
    helped = opta("help", "permissions", "check")
    assert helped.returncode == 0
    assert "5    denied" in helped.stdout
    assert "exit codes of check" in opta("permissions", "--help").stdout
    assert "permissions" in opta("--help").stdout


def test_a_process_ends_with_the_exit_code(project):
    done = opta("permissions", "check", "--rules", "rules.yml", "--", "ls && git push", cwd=project)
    assert done.returncode == 5
    assert done.stderr == ""


@pytest.fixture
def worktrees(tmp_path, monkeypatch):
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    main, other = tmp_path / "main", tmp_path / "other"
    person = ["-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (
        ["init", "-q", str(main)],
        ["-C", str(main), *person, "commit", "-q", "--allow-empty", "-m", "x"],
        ["-C", str(main), "worktree", "add", "-q", str(other)],
    ):
        subprocess.run(["git", *words], check=True, capture_output=True)
    for root in (main, other):
        (root / "sub").mkdir()
    return main, other


def test_a_rule_holds_in_every_worktree_of_the_repository(worktrees, capsys):
    main, other = worktrees
    for here, there in ((main, other), (other, main)):
        permissions(capsys, "add", "allow", "run_command(npm test:*)", "-C", str(here))
        assert permissions(capsys, "check", "-C", str(there), "--", "npm test")[0] == 0
        assert permissions(capsys, "check", "-C", str(there / "sub"), "--", "npm test")[0] == 3
        permissions(capsys, "remove", "run_command(npm test:*)", "-C", str(there))
        assert permissions(capsys, "check", "-C", str(here), "--", "npm test")[0] == 3
    permissions(capsys, "add", "allow", "run_command(npm test:*)", "-C", str(other / "sub"))
    assert permissions(capsys, "check", "-C", str(main / "sub"), "--", "npm test")[0] == 0


def test_a_directory_cannot_claim_to_be_a_worktree_of_another_repository(
    worktrees, tmp_path, capsys
):
    main, other = worktrees
    permissions(capsys, "add", "allow", "run_command(npm test:*)", "-C", str(main))
    thief = tmp_path / "thief"
    thief.mkdir()
    (thief / ".git").write_text((other / ".git").read_text())
    assert permissions(capsys, "check", "-C", str(thief), "--", "npm test")[0] == 3
    own = thief / "own"
    own.mkdir()
    (own / "commondir").write_text(str(main / ".git"))
    (own / "gitdir").write_text(str(thief / ".git"))
    (thief / ".git").write_text(f"gitdir: {own}\n")
    assert permissions(capsys, "check", "-C", str(thief), "--", "npm test")[0] == 3
