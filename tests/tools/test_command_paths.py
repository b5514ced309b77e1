"""Commands that name protected files ask in every mode, as far as their words tell (R27)."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.bench import BUILTINS
from tests.support.custom_tools import Project
from tools.builtin.command_paths import protected_by_name
from tools.definition import Outcome, Scope
from tools.permissions.mode import Mode
from tools.permissions.rules import Verdict

WRITING = [
    "cp x .git/hooks/pre-commit", "echo x > .git/config", "echo x>>.opta/config.yml",
    "echo x 2>.git/config", "echo x >| .git/config", "git diff --output=.git/hooks/x",
    "git diff --output .git/x", "tee .mcp.json", "dd of=.github/workflows/a.yml",
    "sed -i s/a/b/ .mcp.json", "bash -c 'rm -r .git'", "cd .git && rm config",
    "true && (echo hi; mv a .vscode/tasks.json)", "cp a ./.GIT/x", "x=1 rm -f .opta/*",
    "sudo nice cat .git/config", "rm sub/../.git/config", "touch '.git'/config",
    'touch ".g"it/config', "touch .gi\\t/config", "cat <<E > .git/config\nx\nE",
    "sort -o.git/config x", "find . -exec rm .git/config ;", "touch out/pre-commit",
    "if true; then rm .envrc; fi", "echo $(rm .git/config)", "git checkout -- .ci/run",
    "cp x .g*/config", "rm .[a-z]pta/config.yml", "tee .mc?.json", "rm -rf .*",
    "tee $'.git/config'", "echo x > $'\\x2egit/hooks/x'", "echo x >> $'\\056git'/config",
    "echo x >> $HOME/.bashrc", 'tee -a "${HOME}"/.profile', "cp .bashrc ~", "mv x/.zshrc $HOME/",
    "cp -t ~ .profile", "touch {.git,x}/hooks/y", "a=.git; touch $a/hooks/x", "touch .git$x/config",
    "for d in .git src; do touch $d/x; done", "git init --template=t .", "cp x $PWD/.mcp.json",
    "python3 -c \"open('.git/config', 'w')\"", "sed -n 'w .git/hooks/x' f", "sed w.mcp.json f",
    "awk '{print > \".git/hooks/x\"}' f", "python3 - <<E\nopen('.git/config', 'w')\nE",
    "opta permissions add allow run_command", "opta config set permissions.mode accept-edits",
    "/usr/bin/opta team accept -y", "opta tool add x --bash id --description --help", "opta -p x",
    "opta mcp add x -- sh", "opta tools enable git", "opta --trust tool list", "opta tool run x",
    "sudo opta permissions remove x", "uv run opta permissions add allow x", "cycod tool remove x",
    "git config core.pager x", "git config --unset core.pager", "git config set core.pager x",
    "git -C . config --global alias.x '!y'", "git config --edit", "git config user.name --add x",
]  # fmt: skip
READING = [
    "cat .git/config", "ls -la .opta", "grep -r x .github/workflows", "git add .github/workflows/x",
    "git diff -- .ci/run", "cat < .git/config", "head -5 .git/HEAD > out.txt", "make test",
    "echo 'see .git/config'", "test -f .git/config && echo yes", "rm src/git/config", "",
    "pytest tests/x.py::y -q",
    "rm *.tmp", "cp .cache* x", "touch src/*", "ls .g*", "rm [abc].txt",
    "cp a.py b.py src", "mv x ~", "touch $f/x", "git init", "python3 -c 'import a.b; print(1/2)'",
    "cat <<E > notes.md\nsee .git/config\nE", "sed -n 's/a/b/p' f", "awk '{print $1/2}' f",
    "opta --version", "opta tool add --help", "opta permissions list", "opta tools", "opta doctor",
    "opta permissions check -- 'rm x'", "opta help tool add", "vim opta.py", "pytest opta",
    "git config user.name", "git config --get core.pager", "git config list", "git config -l",
    "git log -- config", "git commit -m 'change .git'", "python -m x --out=build/y",
]  # fmt: skip


@pytest.fixture
def project(tmp_path):
    (tmp_path / ".git/hooks").mkdir(parents=True)
    (tmp_path / "out").symlink_to(".git/hooks")
    return Project(tmp_path, builtins=BUILTINS)


@pytest.mark.parametrize("line", WRITING)
async def test_r27_a_command_that_names_a_protected_file_needs_a_person_in_every_mode(
    project, line
):
    project.gate.skip_permissions = True
    project.gate.approver = None
    project.rule(Verdict.ALLOW, "run_command")
    result = await project.call("run_command", command=line)
    assert result.outcome is Outcome.DENIED
    assert project.gate.unanswered == 1


@pytest.mark.parametrize("line", READING)
def test_other_commands_are_as_before(project, line):
    assert protected_by_name(line, project.root) == ""


async def test_the_question_says_why_and_offers_no_rule(project):
    await project.call("run_command", command="touch .git/x")
    (request,) = project.person.asked
    assert request.reason == "x: git runs or obeys what stands here"
    assert request.suggested == ()


async def test_the_directory_of_the_command_counts(project):
    project.gate.skip_permissions = True
    await project.call("run_command", command="touch config", workdir=".git")
    assert len(project.person.asked) == 1


def test_start_files_and_settings_of_the_person_are_seen_outside_the_project(project):
    home = os.path.expanduser("~")  # noqa: PTH111
    assert protected_by_name("tee ~/.bashrc", project.root)
    assert protected_by_name(f"cp x {home}/.zshrc", project.root)


@given(st.text(max_size=60))
def test_no_text_makes_it_fail(text):
    from pathlib import Path

    protected_by_name(text, Path("/"))


DECLARED = """\
name: t
description: d
bash: 'true'
parameters: {{WHERE: {{type: string, description: d}}}}
security: {{required-permissions: ['filesystem:write:{where}']}}
"""


def cycod(project, text):
    directory = project.root / ".cycod/tools"
    directory.mkdir(parents=True)
    (directory / "t.yaml").write_text(text)
    project.files.places.append((Scope.LOCAL, directory))
    project.registry.refresh()
    assert project.registry.find("t"), project.registry.problems


@pytest.mark.parametrize(
    ("command", "where"),
    [("rm -rf {WHERE}", "."), ("git reset --hard", ""), ("git clean -fdx", "")],
)
async def test_r14_r48_a_custom_tool_that_destroys_asks_in_every_mode(project, command, where):
    project.gate.skip_permissions = True
    project.gate.approver = None
    project.rule(Verdict.ALLOW, "t")
    text = "name: t\ndescription: d\nparameters: {WHERE: {type: string, description: d}}\n"
    cycod(project, f"{text}bash: |\n  true; {command}\n")
    # Where the gate let it through, it would do no harm all the same.
    (project.root / ".git/HEAD").write_text("ref: refs/heads/none")
    result = await project.call("t", WHERE=where)
    assert result.outcome is Outcome.DENIED
    assert "it " in result.text


@pytest.mark.parametrize(
    ("command", "where"),
    [
        ("cat > .git/hooks/x", ""),
        ('cat > "$WHERE"; touch .mcp.json', ""),
        ("git config core.pager x", ""),
        ("tee {WHERE}", ".git/hooks/new"),
        ("echo x > {WHERE}", "out/new"),
        ("sed -i s/a/b/ {WHERE}", ".github/workflows/ci.yml"),
    ],
)
@pytest.mark.parametrize("mode", [Mode.ASK, Mode.ACCEPT_EDITS])
async def test_r27_a_custom_tool_that_names_a_protected_file_asks(project, command, where, mode):
    project.gate.skip_permissions = True
    project.gate.mode = mode
    project.gate.approver = None
    project.rule(Verdict.ALLOW, "t")
    text = "name: t\ndescription: d\nparameters: {WHERE: {type: string, description: d}}\n"
    cycod(project, f"{text}bash: |\n  {command}\n")
    result = await project.call("t", WHERE=where)
    assert result.outcome is Outcome.DENIED
    assert "nobody is there to be asked" in result.text


@pytest.mark.parametrize("where", [".git/hooks/x", "{WHERE}", "out/x", ".opta"])
async def test_r27_a_custom_tool_that_declares_to_write_a_protected_file_asks(project, where):
    project.gate.skip_permissions = True
    cycod(project, DECLARED.format(where=where))
    await project.call("t", WHERE=".vscode/settings.json")
    (request,) = project.person.asked
    assert "obeys" in request.reason or "opta reads" in request.reason
    assert request.suggested == ()
