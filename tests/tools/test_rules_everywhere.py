"""What a rule about a path says holds for every tool that comes across the file."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.bench import BUILTINS
from tests.support.custom_tools import Project
from tools.definition import Outcome
from tools.permissions.paths import PathPattern
from tools.permissions.question import Choice
from tools.permissions.rules import Verdict

SECRET = "hunter2"


@pytest.fixture
def project(tmp_path):
    """A repository in which `secrets/` is denied, with changes that are not committed."""
    root = tmp_path / "proj"
    for name, text in {
        "a.py": f"password = read()  # not {SECRET}\n",
        "secrets/db.txt": f"user: x\npassword: {SECRET}1\nport: 1\n",
        "secrets/deep/[x].txt": f"password: {SECRET}2\n",
        "open/Notes.md": f"password: {SECRET}3\n",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    project = Project(root, answer=Choice.NO, builtins=BUILTINS)
    git(project, "init", "-q", "-b", "main", ".")
    git(project, "add", "-A")
    git(project, "commit", "-q", "-m", "first")
    for file in root.rglob("*.*t*"):
        if ".git" not in file.parts:
            file.write_text(f"{file.read_text()}more: {SECRET}1\n")
    return project


def git(project, *args):
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.invalid"]
    return subprocess.run(
        ["git", *identity, *args], cwd=project.root, check=True, capture_output=True, text=True
    ).stdout


@pytest.mark.parametrize("verdict", [Verdict.DENY, Verdict.ASK])
@pytest.mark.parametrize("arguments", [
    {"pattern": "password"}, {"pattern": "pass.*", "mode": "regex"},
    {"pattern": "*.txt", "mode": "glob"},
])  # fmt: skip
async def test_a_search_leaves_out_what_rules_keep_and_says_so(project, verdict, arguments):
    project.rule(verdict, "read_file(secrets/**)")
    result = await project.call("file_search", **arguments)
    assert f"{SECRET}1" not in result.text
    assert "db.txt" not in result.text
    assert (
        f"[2 files not searched because of the rule {verdict} read_file(secrets/**) "
        "(config.yml:1)]" in result.text
    )
    assert not project.person.asked


async def test_the_answer_of_a_search_does_not_depend_on_what_kept_files_hold(project):
    project.rule(Verdict.DENY, "read_file(secrets/**)")
    found = await project.call("file_search", pattern=f"{SECRET}1")
    missing = await project.call("file_search", pattern="nothing-at-all")
    assert found.text == missing.text.replace("nothing-at-all", f"{SECRET}1")


async def test_a_search_of_the_place_a_rule_asks_about_finds_it_once_allowed(project):
    project.rule(Verdict.ASK, "read_file(secrets/**)")
    project.person.answer = type(project.person.answer)(Choice.ONCE)
    result = await project.call("file_search", pattern="password", path="secrets")
    assert f"{SECRET}1" in result.text
    assert f"{SECRET}2" in result.text
    assert len(project.person.asked) == 1


@pytest.mark.parametrize("args", [
    ("diff", []), ("diff", ["HEAD"]), ("show", ["HEAD"]), ("log", ["-p"]), ("log", ["-U5"]),
    ("diff", ["HEAD", "--", "."]), ("log", ["-S", f"{SECRET}1"]), ("log", ["-G", f"{SECRET}2"]),
])  # fmt: skip
@pytest.mark.parametrize("rule", [
    "read_file(secrets/**)", "read_file(secrets)", "read_file(**/SECRETS/**)",
    "read_file({root}/s?crets/*)",
])  # fmt: skip
async def test_git_shows_no_part_of_what_a_rule_keeps(project, args, rule):
    project.rule(Verdict.DENY, rule.format(root=project.root))
    operation, words = args
    result = await project.call("git", operation=operation, args=words)
    assert result.success, result.text
    for part in ("1", "2"):
        assert f"{SECRET}{part}" not in result.text
    assert "db.txt" not in result.text


async def test_git_shows_the_rest_and_brackets_in_rules_are_plain(project):
    project.rule(Verdict.DENY, "read_file(secrets/deep/[x].txt)")
    text = (await project.call("git", operation="show", args=["HEAD"])).text
    assert f"{SECRET}2" not in text
    assert f"{SECRET}1" in text
    assert f"{SECRET}3" in text


@pytest.mark.parametrize("words", [
    ("show", "HEAD:secrets/db.txt"), ("diff", "secrets/db.txt"), ("diff", "HEAD", "--", "secrets"),
    ("show", "HEAD:secrets/deep/[x].txt"), ("add", "secrets/db.txt"), ("show", "HEAD:./secrets"),
])  # fmt: skip
async def test_git_is_denied_a_path_that_a_rule_denies_in_every_mode(project, words):
    project.rule(Verdict.DENY, "read_file(secrets/**)")
    project.rule(Verdict.ALLOW, "git")
    project.gate.skip_permissions = True
    result = await project.call("git", operation=words[0], args=list(words[1:]))
    assert result.outcome is Outcome.DENIED
    assert SECRET not in result.text


async def test_below_the_top_of_a_repository_a_path_counts_from_the_top(project):
    inner = Project(project.root / "secrets", builtins=BUILTINS, answer=Choice.NO)
    inner.rule(Verdict.DENY, "read_file(db.txt)")
    result = await inner.call("git", operation="show", args=["HEAD:secrets/db.txt"])
    assert result.outcome is Outcome.DENIED
    shown = await inner.call("git", operation="show", args=["HEAD"])
    assert f"{SECRET}1" not in shown.text
    assert f"{SECRET}2" in shown.text


@pytest.mark.parametrize("spelling", ["{}", "{}^{{}}", "{}^{{blob}}", "HEAD..{}"])
async def test_the_name_of_an_object_shows_no_file(project, spelling):
    project.rule(Verdict.DENY, "read_file(secrets/**)")
    blob = git(project, "rev-parse", "HEAD:secrets/db.txt").strip()
    for operation in ("show", "diff", "log"):
        for name in (blob, blob[:8]):
            words = [spelling.format(name), *(["HEAD:a.py"] if operation == "diff" else [])]
            result = await project.call("git", operation=operation, args=words)
            assert SECRET + "1" not in result.text, (operation, words)


async def test_revisions_by_name_still_work(project):
    commit = git(project, "rev-parse", "HEAD").strip()
    for words in (["show", commit], ["log", "-n", "1000", commit[:7]], ["diff", f"{commit}..main"]):
        result = await project.call("git", operation=words[0], args=words[1:])
        assert result.success, result.text


async def test_an_edit_shows_no_lines_that_a_rule_keeps(project):
    project.rule(Verdict.DENY, "read_file(secrets/**)")
    project.rule(Verdict.ALLOW, "write_file(secrets/**)")
    result = await project.call(
        "edit_file", path="secrets/db.txt", old_string="user: x", new_string="user: y"
    )
    assert result.outcome is Outcome.DENIED
    assert SECRET not in result.text


async def test_r48_a_file_the_person_mentions_is_not_read_against_a_deny_rule(project):
    from tools.definition import ToolCall

    project.rule(Verdict.DENY, "read_file(secrets/**)")
    project.rule(Verdict.ASK, "read_file(open/**)")
    project.rule(Verdict.DENY, "run_command(echo:*)")
    for arguments, outcome in (
        ('{"path": "secrets/db.txt"}', Outcome.DENIED), ('{"path": "open/Notes.md"}', Outcome.OK),
    ):  # fmt: skip
        call = ToolCall("you-1", "read_file", arguments)
        assert (await project.executor.run_as_person(call, lambda _: None)).outcome is outcome
    call = ToolCall("you-2", "run_command", '{"command": "echo hi"}')
    assert (await project.executor.run_as_person(call, lambda _: None)).text == "hi"


names = st.sampled_from(["a", "b", "ab", "*", "?", "**", "a*"])
paths = st.lists(st.sampled_from(["a", "b", "ab", "c"]), min_size=1, max_size=5)


@given(st.lists(names, min_size=1, max_size=5), paths, st.integers(0, 4))
def test_what_is_left_of_a_pattern_below_a_directory_means_the_same_files(parts, path, depth):
    pattern = PathPattern("/" + "/".join(parts), Path("/"), generous=True)
    base, rest = Path("/", *path[:depth]), path[depth:]
    left = [
        PathPattern("/" + "/".join(some), Path("/"), generous=True) for some in pattern.below(base)
    ]
    below = str(Path("/", *rest))
    assert pattern.matches(str(base / Path(*rest))) is any(one.matches(below) for one in left)
