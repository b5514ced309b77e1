"""Logins that programs print, and in git's settings: in addresses and in headers (R39, R40)."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest

from tests.support.bench import BUILTINS
from tests.support.custom_tools import Project
from tools.definition import Outcome
from tools.logins import LoginStream, without_logins
from tools.permissions.question import Answer, Choice
from tools.permissions.rules import Verdict

TOKEN = "ghp_9f8a7b6c5d4e3f2a1b0c9d8e7f6a5b4c3d2e"
BASIC = "eC1hY2Nlc3MtdG9rZW46Z2hwXzlmOGE3YjZjNWQ0"
REMOTE = f"https://x-access-token:{TOKEN}@example.invalid/o/r.git"
SHOWN = "https://x-access-token:****@example.invalid/o/r.git"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A repository whose settings hold a token; the person says no to every question."""
    root = tmp_path / "proj"
    root.mkdir()
    project = Project(root, answer=Choice.NO, builtins=BUILTINS)
    git(root, "init", "-q", "-b", "main", ".")
    git(root, "remote", "add", "origin", REMOTE)
    git(
        root, "config", "http.https://example.invalid/.extraheader", f"AUTHORIZATION: basic {BASIC}"
    )
    return project


def git(root: Path, *args: str) -> None:
    subprocess.run(["git", *args], cwd=root, check=True, capture_output=True)


@pytest.mark.parametrize("command", [
    "git remote -v", "git config -l", "git config --get remote.origin.url",
    "git remote get-url origin",
    "git config --get-regexp 'url|extraheader'", "git ls-remote --get-url origin",
])  # fmt: skip
async def test_a_command_shows_no_login_of_gits_settings(project: Project, command: str) -> None:
    project.rule(Verdict.ALLOW, "run_command")
    result = await project.call("run_command", command=command)
    assert SHOWN in result.text
    assert TOKEN not in result.text
    assert BASIC not in result.text
    live = "".join(getattr(event, "text", "") for event in project.events)
    assert TOKEN not in live


@pytest.mark.parametrize("path", [".git/config", "./.git/../.git/config", ".GIT/config", "link"])
async def test_r40_reading_settings_of_git_with_a_login_asks(project: Project, path: str) -> None:
    (project.root / "link").symlink_to(".git/config")
    (project.root / ".GIT").exists() or (project.root / ".GIT").symlink_to(".git")
    project.rule(Verdict.ALLOW, "read_file(**)")
    project.rule(Verdict.ALLOW, "run_command")
    for name, arguments in (
        ("read_file", {"path": path}),
        ("run_command", {"command": f"cat {path}"}),
        ("file_search", {"pattern": "url", "path": path}),
    ):
        result = await project.call(name, **arguments)
        assert result.outcome is Outcome.DENIED, result.text
        assert TOKEN not in result.text
    assert "holds a login" in str(project.person.asked[0].invocation.effects)


async def test_settings_of_git_are_read_exactly_once_the_person_agrees(project: Project) -> None:
    project.person.answer = Answer(Choice.ONCE)
    assert REMOTE in (await project.call("read_file", path=".git/config")).text
    assert SHOWN in (await project.call("run_command", command="cat .git/config")).text


async def test_settings_of_git_without_a_login_are_read_without_a_question(tmp_path: Path) -> None:
    project = Project(tmp_path, answer=Choice.NO, builtins=BUILTINS)
    git(tmp_path, "init", "-q", ".")
    git(tmp_path, "remote", "add", "origin", "https://git@example.invalid/o/r.git")
    for call in (
        ("read_file", {"path": ".git/config"}),
        ("run_command", {"command": "cat .git/config"}),
    ):
        assert "https://git@example.invalid" in (await project.call(call[0], **call[1])).text
    assert project.person.asked == []


async def test_searching_the_whole_repository_is_not_asked_about(project: Project) -> None:
    (project.root / "a.txt").write_text("needle\n")
    for command in ("grep -rn needle .", "grep -rn url .", "rg needle", "git grep needle"):
        result = await project.call("run_command", command=command)
        assert result.outcome is not Outcome.DENIED, result.text
        assert TOKEN not in result.text


async def test_what_read_file_shows_of_other_files_can_be_edited(project: Project) -> None:
    line = "DATABASE_URL: postgres://app:s3cr3t-of-dev@db/app"
    (project.root / "compose.yml").write_text(f"{line}\nport: 1\n")
    project.person.answer = Answer(Choice.ONCE)
    assert line in (await project.call("read_file", path="compose.yml")).text
    found = await project.call("file_search", pattern="DATABASE", path=".")
    assert line in found.text
    edited = await project.call(
        "edit_file", path="compose.yml", old_text=line, new_text=line.replace("db/app", "db/two")
    )
    assert edited.success, edited.text
    assert "s3cr3t-of-dev@db/two" in (project.root / "compose.yml").read_text()


async def test_a_custom_tool_shows_no_login_and_its_steps_get_it_whole(project: Project) -> None:
    project.person.answer = Answer(Choice.ONCE)
    project.configure(
        '[custom_tools.remote]\ndescription = "d"\ncommand = ["git", "remote", "-v"]\n'
        'parameters = {type = "object", properties = {}}\n'
    )
    assert SHOWN in (await project.call("remote")).text
    (project.tools).mkdir(exist_ok=True)
    (project.tools / "steps.yml").write_text(
        "name: steps\ndescription: d\nsteps:\n"
        f"  - name: one\n    bash: echo {REMOTE}\n"
        "  - name: two\n    bash: printf %s {one.output} | wc -c\n"
    )
    project.registry.refresh()
    text = (await project.call("steps")).text
    assert TOKEN not in text
    assert str(len(REMOTE)) in text


@pytest.mark.parametrize("text", [
    "postgres://postgres:postgres@localhost/db", "amqp://guest:guest@host", "redis://:password@host",
    "https://user:$PASSWORD@host", "https://user:${TOKEN}@host", "https://<user>:<password>@host",
    "https://{user}:{password}@host", "ssh://git@github.com/o/r", "https://host:8080/a@b:c@d",
    "docker://alpine:3.19@sha256:abc", "https://user@host/x", "git@github.com:o/r.git",
    "Authorization: Bearer YOUR_API_KEY", "Authorization: Bearer $TOKEN", "a://b",
    "user:pa55word@host",
    "https://example.com/?q=a:b1234567@c",
])  # fmt: skip
def test_what_is_no_login_stays(text: str) -> None:
    assert without_logins(text.encode(), b"****") == text.encode()


@pytest.mark.parametrize(("text", "shown"), [
    (REMOTE, SHOWN), (f"https://{TOKEN}@host/x", "https://****@host/x"),
    (f"https://{TOKEN}:x-oauth-basic@host", "https://****:****@host"),
    ("postgres://app:p4ss%40word@[::1]:5432/db", "postgres://app:****@[::1]:5432/db"),
    ("redis://:p@ss-w0rd@host", "redis://:****@host"),
    ('{"url":"https://u:pass-1@h","x":"a@b"}', '{"url":"https://u:****@h","x":"a@b"}'),
    (f"authorization: Bearer {TOKEN}", "authorization: Bearer ****"),
    (f'{{"Authorization": "token {TOKEN}"}}', '{"Authorization": "token ****"}'),
    (f"> Authorization: Basic {BASIC}\r\n", "> Authorization: Basic ****\r\n"),
])  # fmt: skip
def test_a_login_is_hidden_wherever_the_stream_is_cut(text: str, shown: str) -> None:
    data = f"before {text} after a http".encode()
    wanted = f"before {shown} after a http".encode()
    assert without_logins(data, b"****") == wanted
    for cut in range(len(data)):
        stream = LoginStream(b"****")
        assert stream.feed(data[:cut]) + stream.feed(data[cut:]) + stream.finish() == wanted
    stream = LoginStream(b"****")
    assert b"".join([*(stream.feed(bytes([b])) for b in data), stream.finish()]) == wanted


async def test_hostile_settings_of_git_do_not_hide_what_git_would_run(project: Project) -> None:
    """R12: the names of drivers are read as they are, also where they look like a login."""
    marker = project.root / "ran"
    driver = "x://user:pass-1word@host"
    (project.root / "a.txt").write_text("one\n")
    git(project.root, "add", "-A")
    (project.root / ".gitattributes").write_text(f"*.txt filter={driver}\n")
    git(project.root, "config", f"filter.{driver}.clean", f"touch {shlex.quote(str(marker))}; cat")
    (project.root / "a.txt").write_text("two\n")
    for call in (("git", {"operation": "diff"}), ("run_command", {"command": "git diff"})):
        await project.call(call[0], **call[1])
    assert not marker.exists()


async def test_a_flood_of_output_costs_little(project: Project) -> None:
    project.rule(Verdict.ALLOW, "run_command")
    lines = "yes 'see https://example.com/a authorization' | head -c 100M"
    result = await project.call("run_command", command=lines)
    assert result.success, result.text
