"""Commands that would destroy the system or the whole project ask in every mode (R14)."""

from __future__ import annotations

import os

import pytest

from tests.support.bench import BUILTINS
from tests.support.custom_tools import Project
from tools.builtin.kit import Services
from tools.definition import ResolvedCall
from tools.engine.environment import child_environment
from tools.files.workspace import Workspace
from tools.permissions.destruction import destruction
from tools.permissions.gate import Denial
from tools.permissions.question import Answer, Choice
from tools.permissions.rules import Verdict

DESTROYS = [
    "rm -rf /", "rm -rf /*", "rm -rf //", "rm -rf /./", "rm -rf ~", "rm -rf ~/", "rm -rf ~/*",
    'rm -rf "$HOME"', "rm -rf ${HOME}/*", "rm -rf $HOME/.", "rm -rf .", "rm -rf *", "rm -rf ./*",
    "rm -rf ..", "rm -rf ../project", 'rm -rf "$PWD"', "rm -rf $UNSET/", 'rm -rf "$UNSET"/*',
    "X=/; rm -rf $X", "for d in / b; do rm -rf $d; done", "sudo rm -rf /usr", "rm -rf /etc",
    "cd / && rm -rf *", "cd .. && rm -rf project", "cd src && rm -rf ..", "mv . /tmp/x",
    "mv * /tmp",
    "mv ../project ../x", "chmod -R 777 /", "chmod -R 777 .", "chown -R a:b ~", "chmod a+w -R ..",
    "git clean -fdx", "git clean -f", "git -C . clean -xdf .", "find . -delete", "find / -delete",
    "find . -type f -exec rm {} +", "find -delete", "rsync -a --delete empty/ .", "shred -u *",
    "dd if=x of=/dev/sda", "echo x > /dev/sda", "mkfs.ext4 /dev/sda1", "wipefs -a /dev/sda",
    'bash -c "rm -rf /"', "echo x | xargs rm -rf /", "nohup nice rm -rf / &", "(rm -rf /)",
    "$(rm -rf /)", "true && { rm -rf ~; }", "\\rm -rf /", "'rm' -rf /", "r''m -rf /", "RM -rf /",
    "/bin/rm -rf /", "command rm -rf /", "env A=1 rm -rf /", "eval 'rm -rf /'", "rm -r -f -- /",
    "rm -rf src/..", "rm -rf up", "rm -rf here/", "rm -rf .[!.]*", "rm -rf {*,.*}", "unlink up",
    "rm -rf `pwd`/..", "cat <<E\n$(rm -rf /)\nE", "git clean -dffx", "rmdir ~", "find ~ -delete",
]  # fmt: skip
THROWS_AWAY = [
    "git reset --hard", "git reset --hard HEAD~1", "git reset -q --har", "git checkout .",
    "git checkout -- .", "git checkout HEAD -- .", "git checkout HEAD .", "git checkout -f main",
    "git checkout -- *", "git checkout :/", "git checkout ':(top)'", "git -C src checkout ..",
    "git checkout-index -fa", "git restore .", "git restore -SW .", "git restore --source=HEAD~1 .",
    "git restore -- ':/'", "git switch -f main", "git switch --discard-changes main",
    "git rm -rf .", "git rm -r -f '*'", "git rm -r src/..", "git stash clear", "git stash drop",
    "git branch -D topic", "git branch --delete --force topic", "git branch -df topic",
    "git push --force", "git push -f origin main", "git push origin +main", "git push --mirror",
    "git push --delete origin topic", "git push origin :topic", "git worktree remove -f ../x",
    "git filter-branch --all", "git filter-repo --path x", "git reflog expire --expire=now --all",
    "git gc --prune=now", "git read-tree --reset -u HEAD", "git clean -dx -f :/",
    "git clean -e x -f",
    "git -c clean.requireForce=false clean -d", "git -c alias.x='reset --hard' x",
    "git -c alias.x='!git reset --hard' x", "sudo git reset --hard", "cd src && git checkout .",
    "git fetch && git reset --hard origin/main", "bash -c 'git stash clear'",
]  # fmt: skip
LISTED = [
    "echo / | xargs rm -rf", "printf '%s\\n' ~ | xargs -n1 rm -r", "echo . | sudo xargs rm -rf",
    "ls | xargs rm -rf", "ls -A | xargs -I{} rm -rf {}", "find . | xargs rm", "rm -rf $(ls)",
    "find . -type f -print0 | xargs -0 rm -f", "git ls-files | xargs rm", "rm -rf `ls -A`",
    'for f in $(ls); do rm -rf "$f"; done', 'ls | while read f; do rm -rf "$f"; done',
    "ls ~ | xargs rm -rf", "printf '%s\n' * | xargs rm -r", "echo * | xargs rm -rf",
    "cd src/.. && ls | xargs rm -rf", "find . -name '*' -delete", "find . ! -name x -delete",
    "find . -not -name x -exec rm {} +", "find . -name a -prune -o -type f -delete",
    "find . -exec sh -c 'rm -rf \"$1\"' _ {} ';'", "find . -maxdepth 1 -delete",
    "truncate -s 0 *", "truncate --size=0 ./*", "rm -rf .git", "mv .git /tmp/x",
    "find .git -delete", "rm -rf ./.git/", "ls | parallel rm -rf",
]  # fmt: skip
HARMLESS = [
    "rm -rf build", "rm x", "rm -rf node_modules/*", "rm -rf ./src/x", "rm -rf /tmp/opta-x/y",
    "mv a b",
    "mv a .", "mv src/* .", "mv a ..", "cp -r . /tmp/x", "chmod -R u+w src", "chmod 777 .", "ls /",
    "chmod +x a.sh", "git clean -n", "git clean -fdn", "git clean -fd build",
    "find . -name x -delete",
    "find src -delete", "rsync -a . /tmp/x", "dd if=a of=b", "echo 'rm -rf /'",
    "grep -r 'rm -rf /' .",
    "git commit -m 'rm -rf /'", "echo x > /dev/null", "rm -rf .git/x", "find . -name '*.pyc'",
    "git reset", "git reset HEAD~1", "git reset --soft HEAD~1", "git checkout main",
    "git checkout -b topic", "git checkout -- src/a.py", "git checkout HEAD -- src/a.py",
    "git checkout main -- src", "git restore src/a.py", "git restore --staged .",
    "git restore -S .",
    "git rm src/a.py", "git rm -r --cached .", "git rm -r src", "git rm -rn .", "git stash",
    "git stash pop", "git stash list", "git stash push -m 'drop it'", "git branch -d topic",
    "git branch topic", "git branch -M main", "git push", "git push -u origin topic",
    "git push --force-with-lease", "git push origin HEAD:refs/heads/x", "git switch main",
    "git switch -c topic", "git worktree remove ../x", "git gc", "git reflog", "git clean -nfdx",
    "git commit -m 'git reset --hard'", "git log --grep='reset --hard'", "git rebase -f main",
    "git add .", "git diff .", "git grep -- --hard", "git fetch -f", "git tag -f x",
    "git clean -fd -- build", "git clean --dry-run -fd",
    "ls *.tmp | xargs rm", "find . -name '*.pyc' | xargs rm", "ls | xargs wc -l", "rm $(cat list)",
    "find . -name '*.o' -o -name '*.d' -delete", "git ls-files '*.orig' | xargs rm",
    "find . '(' -name a -o -name b ')' -exec rm -rf {} +", "truncate -s 0 log.txt", "ls; rm -f x",
    "ls -la && rm -rf \"$TMP\"", "ls | grep tmp | xargs rm", "ls src | xargs rm",
    "find . -empty -delete", "find . -mtime +30 -delete", "for f in a b; do rm -rf $f; done",
    "rm -rf src/.git", "truncate -r . x", "find . -exec grep -n trash {} +",
    "rm -rf src", "rm -f *.o", "rm -rf build/*", "mv x $HOME", "cat / | head", "echo ~ > x", "rm",
]  # fmt: skip


@pytest.fixture
def project(tmp_path, monkeypatch):
    home = tmp_path / "home"
    root = home / "project"
    (root / "src").mkdir(parents=True)
    (root / ".git").mkdir()
    (root / "up").symlink_to("..")
    (root / "here").symlink_to(root)
    monkeypatch.setenv("HOME", str(home))
    return Project(root, builtins=BUILTINS)


@pytest.mark.parametrize("line", DESTROYS)
def test_r14_destruction_is_seen_through_every_spelling(project, line):
    assert destruction(line, project.root, project.root)


@pytest.mark.parametrize("line", THROWS_AWAY)
def test_r14_work_that_git_would_throw_away_asks(project, line):
    assert destruction(line, project.root, project.root)


@pytest.mark.parametrize("line", LISTED)
def test_r14_what_another_command_lists_is_known_to_be_everything(project, line):
    assert destruction(line, project.root, project.root)


@pytest.mark.parametrize("line", HARMLESS)
def test_r14_other_commands_are_left_alone(project, line):
    assert destruction(line, project.root, project.root) == ""


async def decide(project, line):
    """Ask the gate about a command that is never run: a mistake here must cost nobody a disk."""
    services = Services(Workspace(project.root), child_environment(os.environ), project.rules)
    call = ResolvedCall("call", BUILTINS["run_command"].definition, {"command": line})
    return await project.gate.authorise(call, BUILTINS["run_command"].prepare(call, services))


@pytest.mark.parametrize("line", [
    "rm -rf /", "rm -rf ~", "rm -rf *", "git clean -fdx", "mv . x", "git reset --hard",
    "git stash clear", "ls | xargs rm -rf",
])  # fmt: skip
async def test_r14_no_mode_and_no_rule_spares_the_question(project, line):
    project.gate.skip_permissions = True
    project.gate.default = Verdict.ALLOW
    for rule in ("run_command", "run_command(*)", f"run_command({line})"):
        project.rule(Verdict.ALLOW, rule)
    project.person.answer = Answer(Choice.NO)
    decision = await decide(project, line)
    assert decision.grant is None
    (request,) = project.person.asked
    assert request.reason.startswith("it ")
    assert request.suggested == ()


async def test_r14_where_nobody_can_answer_it_is_refused_with_the_reason(project):
    project.gate.approver = None
    project.gate.skip_permissions = True
    decision = await decide(project, "rm -rf ../project")
    assert decision.denial is Denial.NOBODY
    assert "it removes the whole project: ../project" in decision.message
    assert (await decide(project, "rm -rf src")).grant is not None


def test_r14_the_directory_of_the_command_counts(project):
    assert destruction("rm -rf ..", project.root / "src", project.root)
    assert not destruction("rm -rf *", project.root / "src", project.root)
