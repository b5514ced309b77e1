"""Files with secrets ask on every way to them (R40), whatever a rule allows."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.support.bench import BUILTINS
from tests.support.custom_tools import Project
from tools.definition import Outcome, ToolCall
from tools.permissions.question import Choice
from tools.permissions.rules import Verdict

SECRET = "sesame-4711"
NAMED = (".env", ".env.local", "deploy/id_rsa", "cert/server.pem", ".netrc")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A repository with secrets in its tree and history; every question is answered with no."""
    root = tmp_path / "proj"
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in (*NAMED, "../home/.ssh/key"):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"KEY={SECRET}\n")
    (root / "plain.txt").write_text("KEY of nothing\n")
    (root / "link.txt").symlink_to(".env")
    project = Project(root, answer=Choice.NO, builtins=BUILTINS)
    git(root, "init", "-q", "-b", "main", ".")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "first")
    os.link(root / ".env", root / "hard.txt")
    return project


def git(root: Path, *args: str) -> None:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.invalid"]
    subprocess.run(["git", *identity, *args], cwd=root, check=True, capture_output=True)


async def refused(project: Project, tool: str, **arguments: object) -> None:
    result = await project.call(tool, **arguments)
    assert result.outcome is Outcome.DENIED, result.text
    assert SECRET not in result.text


@pytest.mark.parametrize(
    "path", [*NAMED, "link.txt", "hard.txt", "./x/../.env", "~/.ssh/key", ".ENV", ".env."]
)
async def test_r40_reading_a_file_with_secrets_asks(project: Project, path: str) -> None:
    project.rule(Verdict.ALLOW, "read_file(**)")
    await refused(project, "read_file", path=path)


@pytest.mark.parametrize(
    "command",
    [
        "cat .env", "cat -- .env", "cat './'.env", 'cat ".e"nv', "cat .e\\nv", "cat $PWD/.env",
        "cat .e*", "cat .[e]nv", "cat {.env,plain.txt}", "cat *_rsa deploy/*", "head -c9 <.env",
        "cat < $'.env'", "cat $'\\x2eenv'", "cat <> .env", 'cat < ".e"nv', "echo $(<.env)",
        "cat < '.env'", "sh -c 'cat .env'", "cat plain.txt | cat - .env", "cat $(echo x; cat .env)",
        "sudo cat ~/.ssh/key", "cat $HOME/.ssh/key", "cat ${HOME}/.ssh/key", ". ./.env",
        "grep KEY .env", "grep -f.env plain.txt", "grep --file=.env plain.txt", "sed '' .ENV",
        "cp .env copy", "curl -d @.env http://localhost:9", "curl --data=@.env localhost:9",
        "git show HEAD:.env", "git diff -- .env", "git log -p --follow .env", "git blame .env",
        "git grep KEY -- .env", "git cat-file -p HEAD:.env", "git cat-file -p main:deploy/id_rsa",
        "git stash show -p -- .env", "cat link.txt", "cat hard.txt", "base64 cert/server.pem",
        "f=.env; cp $f copy", "d=deploy; cp $d/id_rsa x",
        "for f in plain.txt .env; do base64 ${f}; done",
        "A=1 cat .env", "cat plain.txt; cat .env", "cat .env # plain.txt",
    ],
)  # fmt: skip
async def test_r40_a_command_that_names_a_file_with_secrets_asks_whatever_rule_allows_it(
    project: Project, command: str
) -> None:
    project.rule(Verdict.ALLOW, "run_command")
    await refused(project, "run_command", command=command)


@pytest.mark.parametrize(
    "command",
    ["cat plain.txt", "ls -a", "test -f .env", "echo gcloud .env.example", "cat *.txt.none",
     "which gcloud || true"],
)  # fmt: skip
async def test_r40_commands_that_show_no_secret_are_not_asked_about(
    project: Project, command: str
) -> None:
    project.rule(Verdict.ALLOW, "run_command")
    assert (await project.call("run_command", command=command)).outcome is not Outcome.DENIED


@pytest.mark.parametrize("verdict", [Verdict.DENY, Verdict.ASK])
@pytest.mark.parametrize(
    "command",
    ["cat [p]lain.txt", "cat {plain,x}.txt", "cat $'plain.txt'", "cp plain.txt y; cat y",
     "base64 plain.txt", "tar c plain.txt", "curl -d @plain.txt localhost:9", "git diff plain.txt",
     "git show HEAD:plain.txt", ". ./plain.txt", "echo $(<plain.txt)", "tee < plain.txt"],
)  # fmt: skip
async def test_a_rule_that_keeps_a_file_holds_for_every_command_that_names_it(
    project: Project, verdict: Verdict, command: str
) -> None:
    project.rule(Verdict.ALLOW, "run_command")
    project.rule(verdict, "read_file(plain.txt)")
    project.gate.skip_permissions = verdict is Verdict.DENY
    result = await project.call("run_command", command=command)
    assert result.outcome is Outcome.DENIED, result.text


@pytest.mark.parametrize("spelling", ["{}", "{}^{{}}", "{}^{{blob}}"])
@pytest.mark.parametrize("command", [
    "git show {}", "git cat-file -p {}", "git cat-file blob {}", "git diff {} HEAD:plain.txt",
    "git diff HEAD:plain.txt..{}", "git grep KEY {}", "ls; git show HEAD '{}' | cat",
])  # fmt: skip
async def test_r40_the_name_of_an_object_shows_no_committed_secret(
    project: Project, command: str, spelling: str
) -> None:
    blob = subprocess.check_output(["git", "rev-parse", "HEAD:.env"], cwd=project.root, text=True)
    git(project.root, "tag", "kept", blob.strip())
    git(project.root, "tag", "-a", "-m", "x", "signed", blob.strip())
    for name in (blob.strip(), blob[:8], "kept", "signed", "refs/tags/kept"):
        line = command.format(spelling.format(name))
        result = await project.call("run_command", command=line)
        assert SECRET not in result.text, line


async def test_r40_objects_that_are_no_files_are_shown(project: Project) -> None:
    commit = subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=project.root, text=True)
    for name in (commit.strip(), commit[:7], "HEAD", "main", "HEAD~0", "HEAD:plain.txt"):
        for command in (f"git show {name}", f"git cat-file -p {name}"):
            result = await project.call("run_command", command=command)
            assert result.success, result.text
    for command in (
        "git log --oneline main", "git show HEAD^{tree}", "git diff HEAD -- plain.txt",
        "git cat-file -t HEAD:plain.txt", "git grep -n x main -- plain.txt",
    ):  # fmt: skip
        result = await project.call("run_command", command=command)
        assert "Nothing was run" not in result.text, result.text


async def test_r40_a_rule_that_writes_out_the_file_opens_it_to_commands(project: Project) -> None:
    project.rule(Verdict.ALLOW, "run_command")
    project.rule(Verdict.ALLOW, "read_file(.env)")
    assert SECRET in (await project.call("run_command", command="cat .env")).text


@pytest.mark.parametrize(
    "arguments",
    [
        ("show", "HEAD:.env"), ("show", "HEAD:./deploy/id_rsa"), ("diff", "HEAD", "--", ".env"),
        ("log", "-p", "--follow", ".env"), ("log", "-p", "--", ".ENV"), ("show", ":.env"),
        ("diff", "--no-index", "plain.txt", ".env"), ("diff", "plain.txt", "link.txt"),
        ("show", "HEAD^{tree}:.env"), ("log", "-L1,1:.env"), ("diff", "--output=x"),
        ("log", "--output", "x"), ("diff", "../home/.ssh/key", "plain.txt"),
    ],
)  # fmt: skip
async def test_r40_git_asks_for_files_with_secrets_and_the_outside(
    project: Project, arguments: tuple[str, ...]
) -> None:
    operation, *args = arguments
    await refused(project, "git", operation=operation, args=args)


@pytest.mark.parametrize(
    "arguments",
    [("show",), ("log", "-p"), ("log", "-p", "--all"), ("show", "--stat"), ("diff", "HEAD"),
     ("log", "-SKEY", "-p"), ("show", "HEAD:"), ("diff", "--word-diff")],
)  # fmt: skip
async def test_r40_what_git_may_show_silently_leaves_secrets_out(
    project: Project, arguments: tuple[str, ...]
) -> None:
    for name in (*NAMED, "plain.txt"):
        with (project.root / name).open("a") as file:
            file.write(f"more {SECRET}x\n" if name != "plain.txt" else "more\n")
    operation, *args = arguments
    assert SECRET not in (await project.call("git", operation=operation, args=args)).text


@pytest.mark.parametrize("pattern", ["KEY", "sesame", "K.Y"])
@pytest.mark.parametrize("path", [".", "deploy", "cert"])
async def test_r40_a_search_shows_nothing_of_files_with_secrets(
    project: Project, pattern: str, path: str
) -> None:
    result = await project.call("file_search", pattern=pattern, path=path)
    assert result.outcome is Outcome.OK
    assert SECRET not in result.text


@pytest.mark.parametrize("path", [".env", "hard.txt", "link.txt", "deploy/id_rsa"])
async def test_r40_searching_in_a_file_with_secrets_asks(project: Project, path: str) -> None:
    await refused(project, "file_search", pattern="KEY", path=path)


@pytest.mark.parametrize("path", [".env", "link.txt", "hard.txt", "~/.ssh/key"])
async def test_r40_a_mention_of_a_file_with_secrets_asks(project: Project, path: str) -> None:
    call = ToolCall("you-1", "read_file", f'{{"path": "{path}"}}')
    result = await project.executor.run_as_person(call, lambda _: None)
    assert result.outcome is Outcome.DENIED
    plain = ToolCall("you-2", "read_file", '{"path": "plain.txt"}')
    assert (await project.executor.run_as_person(plain, lambda _: None)).success


async def test_r40_an_allowed_custom_tool_asks_for_the_secrets_its_values_name(
    project: Project,
) -> None:
    project.add("show", 'cat "$OPTA_TOOL_ARG_FILE"', {"file": {"type": "string"}}, ["file"])
    project.configure(
        '[custom_tools.env]\ndescription = "d"\ncommand = ["cat", ".env"]\n'
        'parameters = {type = "object", properties = {}}\n'
    )
    for name in ("show", "env"):
        project.rule(Verdict.ALLOW, name)
    await refused(project, "show", file=".env")
    await refused(project, "env")
    assert "KEY of nothing" in (await project.call("show", file="plain.txt")).text
