"""What is allowed without a question, run in real shells: it starts and writes nothing else."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.bench import Bench
from tests.support.commands import verdict
from tools.definition import Outcome
from tools.permissions.rules import RuleSet, Verdict, parse_rule

BASH = shutil.which("bash")
LISTED = ["cat", "ls", "grep", "head", "sort", "uniq", "wc", "find", "sed", "cut", "tr", "diff"]
FORBIDDEN = ["rm", "touch", "tee", "id", "sh", "env", "xargs", "cp", "mv", "python3", "nc", "curl"]

if BASH is None:
    pytest.skip("there is no bash on this machine", allow_module_level=True)


class Canary:
    """A directory with stubs for programs, of which the forbidden ones leave a trace."""

    def __init__(self, place: Path) -> None:
        self.root = place / "project"
        self.trace = place / "trace"
        stubs = place / "stubs"
        (self.root / "src").mkdir(parents=True)
        stubs.mkdir()
        for name in ("a.py", "b.txt", "src/c.py", "-rf", "x y"):
            (self.root / name).write_text("one\ntwo\n")
        for name in FORBIDDEN:
            stub = stubs / name
            stub.write_text(f"#!/bin/sh\necho {name} >> {self.trace}\n")
            stub.chmod(0o755)
        for name in LISTED:
            real = shutil.which(name)
            if real is not None:
                (stubs / name).symlink_to(real)
        self.env = {"PATH": str(stubs), "HOME": str(self.root), "LC_ALL": "C.UTF-8"}
        self.before = self.snapshot()

    def snapshot(self) -> dict[str, tuple[int, bytes]]:
        """Return all that is in the project."""
        return {
            str(path.relative_to(self.root)): (
                path.lstat().st_mode, path.read_bytes() if path.is_file() else b""
            )
            for path in sorted(self.root.rglob("*"))
        }  # fmt: skip

    def run(self, line: str) -> None:
        """Run an allowed line; fail when it did anything but read."""
        subprocess.run(
            [BASH, "-c", line], cwd=self.root, env=self.env, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=60, check=False,
        )  # fmt: skip
        assert not self.trace.exists(), f"{line!r} started {self.trace.read_text()!r}"
        assert self.snapshot() == self.before, f"{line!r} wrote"


@pytest.fixture(scope="module")
def canary(tmp_path_factory):
    return Canary(tmp_path_factory.mktemp("canary"))


WORDS = st.sampled_from([
    *LISTED, *FORBIDDEN, "a.py", "b.txt", "src", "./a.py", "-n", "-o", "-i", "-r", "-1", "-c", "--",
    "-exec", "-delete", "-name", "{}", ";", "\\;", "out", "'one'", '"two"', "$x", '"$x"', "${x}",
    "$HOME", "*", "*.py", "src/*", "~", "x=a.py", "x=-o", "x='touch out'", "s/one/two/", "'w out'",
    "'1,2p'", "for", "in", "do", "done", "if", "then", "fi", "while", "true", "echo", "printf",
    "eval",
    "cd", "[", "]", "[[", "]]", "-f", "!", "{", "}", "(", ")", "time", "exec", "command", "\\rm",
    "r''m", "\\", "\\\n", "#", "case", "esac", "function", "f()", "read", "set", "-e", "export",
    "$'rm'",
])  # fmt: skip
JOINTS = st.sampled_from([
    " ", " ", " ", " ", " ", "", "; ", "\n", " && ", " || ", " | ", " |& ", " & ", " > ", " >> ",
    " < ", " 2>&1 ", " >/dev/null ", " <<< ", " $(", ") ", " `", "` ", " <(", " >(", " \"", "\" ",
    " '", "' ", " <<E\n", "\nE\n", "\t", "\r", "=", ",", " ${", "}", " $((", "))", " \\ ",
])  # fmt: skip
LINES = st.lists(st.tuples(WORDS, JOINTS), min_size=1, max_size=9).map(
    lambda pairs: "".join(word + joint for word, joint in pairs)
)
HARMLESS = st.lists(
    st.tuples(
        st.sampled_from(LISTED[:8]),
        st.lists(
            st.sampled_from(
                [
                    "a.py",
                    "b.txt",
                    "-n",
                    "-c",
                    "-1",
                    "'one'",
                    '"two"',
                    "src",
                    "*.py",
                    "$x",
                    "-o",
                    "out",
                    "-u",
                    "-l",
                    "./*",
                    "*",
                    "-name",
                    "-delete",
                    "-r",
                    "-k1",
                    "--",
                ]
            ),
            max_size=3,
        ),
        st.sampled_from(
            [" | ", "; ", " && ", " || ", "\n", " 2>&1 | ", " > out; ", " >/dev/null; "]
        ),
    ),
    min_size=1,
    max_size=4,
).map(lambda parts: "".join(f"{p} {' '.join(words)}{joint}" for p, words, joint in parts) + "ls")


@given(line=st.one_of(LINES, HARMLESS))
@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_r06_what_is_allowed_starts_and_writes_nothing_else(canary, line):
    if verdict(line, canary.root) is Verdict.ALLOW:
        canary.run(line)


def test_r06_the_canary_sees_what_it_is_there_for(tmp_path):
    """Without this the property above could hold because nothing is ever noticed."""
    for number, line in enumerate(("touch x", "ls > out", "sort -o out a.py", "$(echo rm) x")):
        seen = Canary(tmp_path / str(number))
        assert verdict(line, seen.root) is Verdict.ASK
        with pytest.raises(AssertionError, match=r"started|wrote"):
            seen.run(line)


def test_r06_common_commands_really_run(canary):
    for line in (
        "cat a.py | sort -u | head -1",
        'for f in *.py; do wc -l "$f"; done',
        "ls -- -rf",
        "find . -name '*.py' | sort",
        "cd src && grep -n one c.py && sed -n 1p ../a.py",
    ):
        assert verdict(line, canary.root) is Verdict.ALLOW
        canary.run(line)


GIT = shutil.which("git")


def git(*words: str, cwd: Path) -> str:
    env = {
        "PATH": os.environ["PATH"], "HOME": str(cwd.parent), "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a",
        "GIT_COMMITTER_EMAIL": "a@b", "GIT_ALLOW_PROTOCOL": "file",
    }  # fmt: skip
    done = subprocess.run(
        [GIT or "git", *words], cwd=cwd, env=env, check=True, capture_output=True, text=True
    )
    return done.stdout


CONVERTERS = ("diff.external", "diff.evil.textconv", "diff.evil.command")
"""What git would run to show a file: with these the command is refused."""

PROGRAMS = (
    "core.fsmonitor", "core.pager", "pager.log", "pager.diff", "pager.status", "core.editor",
    "filter.evil.clean", "filter.evil.smudge", "filter.evil.process", "gpg.program",
    "core.sshCommand", "core.askPass", "credential.helper", "core.hooksPath",
)  # fmt: skip


@pytest.fixture
def repository(tmp_path):
    """A repository whose every setting that runs something leaves a trace."""
    return hostile(tmp_path, PROGRAMS)


def hostile(tmp_path, programs):
    if GIT is None:
        pytest.skip("git is not installed")
    root = tmp_path / "hostile"
    root.mkdir()
    git("init", "-q", ".", cwd=root)
    for name in ("a.py", "b.bin", ".env"):
        (root / name).write_text(f"first of {name}\n")
    inner = root / "inner"
    inner.mkdir()
    git("init", "-q", ".", cwd=inner)
    (inner / "c").write_text("c\n")
    git("add", "-A", cwd=inner)
    git("commit", "-qm", "inner", cwd=inner)
    (root / ".gitattributes").write_text("*.bin diff=evil filter=evil\n*.py diff=evil\n")
    (root / ".gitmodules").write_text(
        '[submodule "inner"]\n\tpath = inner\n\turl = ./inner\n\tignore = none\n'
    )
    git("add", "-A", cwd=root)
    git("commit", "-qm", "first", cwd=root)
    sign_last_commit(root)
    trace = tmp_path / "trace"
    program = tmp_path / "evil.sh"
    program.write_text(f'#!/bin/sh\necho "$0 $*" >> {trace}\ncat\n')
    program.chmod(0o755)
    for place in (root, inner):
        for key in programs:
            git("config", key, str(program), cwd=place)
        git("config", "log.showSignature", "true", cwd=place)
        git("config", "diff.submodule", "diff", cwd=place)
        git("config", "diff.ignoreSubmodules", "none", cwd=place)
        git("config", "status.submoduleSummary", "true", cwd=place)
    for name in ("a.py", "b.bin", ".env", "inner/c"):
        (root / name).write_text(f"second of {name}\n")
    return Bench(root), trace


def sign_last_commit(root):
    """Make the last commit one with a signature, which git would have a program check."""
    commit = git("cat-file", "commit", "HEAD", cwd=root)
    head, _, message = commit.partition("\n\n")
    mark = "-----{} PGP SIGNATURE-----"
    signed = f"{head}\ngpgsig {mark.format('BEGIN')}\n x\n {mark.format('END')}\n\n{message}"
    (root / "signed").write_text(signed)
    made = git("hash-object", "-t", "commit", "-w", "signed", cwd=root)
    git("update-ref", "HEAD", made.strip(), cwd=root)
    (root / "signed").unlink()


READS = [
    "git status", "git status --short && git diff", "git diff HEAD", "git diff --stat", "git show",
    "git log -p --stat", "git log --oneline -5 | head -3", "git blame a.py", "git branch -a",
    "git ls-files -m", "git grep -n of", "git describe --always --dirty", "cd inner; ls",
    "git show HEAD:a.py", "git tag -l", "git stash list", "git rev-parse HEAD",
]  # fmt: skip


@pytest.mark.parametrize("line", READS)
async def test_r12_git_in_a_hostile_repository_runs_nothing(repository, line):
    bench, trace = repository
    index = (bench.root / ".git" / "index").read_bytes()
    assert verdict(line, bench.root) is Verdict.ALLOW
    result = await bench.call("run_command", command=line)
    assert not trace.exists(), trace.read_text()
    assert result.outcome is Outcome.OK, result.text
    assert (bench.root / ".git" / "index").read_bytes() == index


@pytest.mark.parametrize(
    "line", ["git diff", "git log -p", "git show", "git blame a.py", "git status"]
)
@pytest.mark.parametrize("converter", CONVERTERS)
async def test_r12_what_would_show_files_by_a_program_is_refused(tmp_path, line, converter):
    bench, trace = hostile(tmp_path, (*PROGRAMS, converter))
    result = await bench.call("run_command", command=line)
    assert not trace.exists(), trace.read_text()
    assert result.outcome is Outcome.ERROR
    assert converter in result.text
    assert "Use the tool `git`" in result.text


async def test_r12_the_repository_is_hostile(repository):
    bench, trace = repository
    subprocess.run(["git", "status"], cwd=bench.root, capture_output=True, check=False)
    assert trace.exists()


def trap(root, trace, name="fetched"):
    """Write a program that leaves a trace."""
    program = root / name
    program.write_text(f"#!/bin/sh\necho {name} >> {trace}\n")
    program.chmod(0o755)
    return str(program)


async def test_r12_what_a_partial_clone_lacks_is_not_fetched(tmp_path):
    """Reading an object that is not there starts what the repository names as its remote's side."""
    bench, trace = hostile(tmp_path, ())
    blob = git("rev-parse", "HEAD:a.py", cwd=bench.root).strip()
    (bench.root / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    for key, value in {
        "core.repositoryformatversion": "1", "extensions.partialClone": "origin",
        "remote.origin.promisor": "true", "remote.origin.url": str(bench.root),
        "remote.origin.uploadpack": trap(tmp_path, trace),
    }.items():  # fmt: skip
        git("config", key, value, cwd=bench.root)
    for line in ("git show HEAD:a.py", "git diff", "git blame a.py", "git grep x HEAD"):
        await bench.call("run_command", command=line)
    await bench.call("git", operation="show", args=["HEAD:a.py"])
    await bench.call("git", operation="diff")
    assert not trace.exists(), trace.read_text()
    subprocess.run(["git", "show", "HEAD:a.py"], cwd=bench.root, capture_output=True, check=False)
    assert trace.exists(), "the trap works"


@pytest.mark.parametrize("listed", [True, False], ids=["in .gitmodules", "unlisted"])
async def test_r12_programs_of_a_repository_inside_do_not_run(tmp_path, listed):
    bench, trace = hostile(tmp_path, ())
    inner = bench.root / "inner"
    if not listed:
        (bench.root / ".gitmodules").unlink()
    (inner / ".gitattributes").write_text("* filter=other diff=other\n")
    for key in (
        "filter.other.clean",
        "diff.other.textconv",
        "diff.other.command",
        "core.fsmonitor",
    ):
        git("config", key, trap(tmp_path, trace), cwd=inner)
    for operation, args in (
        ("status", []), ("diff", []), ("diff", ["HEAD"]), ("show", []), ("log", ["-p"]),
    ):  # fmt: skip
        await bench.call("git", operation=operation, args=args)
        await bench.call("run_command", command=" ".join(["git", operation, *args]))
    assert not trace.exists(), trace.read_text()
    subprocess.run(["git", "diff"], cwd=bench.root, capture_output=True, check=False)
    assert trace.exists(), "the trap works"


async def test_r12_a_directory_that_looks_like_a_repository_is_none(tmp_path):
    """Files of a clone can be all that a bare repository is, with settings of its own."""
    bench, trace = hostile(tmp_path, ())
    inside = bench.root / "docs"
    git("init", "-q", "--bare", str(inside), cwd=bench.root)
    git("config", "--file", str(inside / "config"), "core.bare", "false", cwd=bench.root)
    git("config", "--file", str(inside / "config"), "core.fsmonitor", trap(tmp_path, trace),
        cwd=bench.root)  # fmt: skip
    git("config", "--file", str(inside / "config"), "alias.x", "y", cwd=bench.root)
    line = "cd docs && git config --get alias.x"
    shown = await bench.call("run_command", command=line)
    assert "y" not in shown.text.splitlines()
    plain = subprocess.run(line, shell=True, cwd=bench.root, capture_output=True, check=False)
    assert plain.stdout == b"y\n", "the trap works"


async def test_r12_a_repository_elsewhere_is_asked_about(repository):
    bench, _ = repository
    assert verdict("cd inner && git status", bench.root) is Verdict.ASK
    assert verdict("git -C inner status", bench.root) is Verdict.ASK


async def test_r40_git_shows_no_lines_of_tracked_secrets(repository):
    bench, _ = repository
    shown = await bench.text("run_command", command="git diff && git log -p && git grep -n of")
    assert "second of a.py" in shown
    assert "of .env" not in shown


@pytest.mark.parametrize("name", ["KEY.PEM", "sub/.ssh/config", "sub/.ENV"])
async def test_r40_git_shows_no_secrets_in_other_places_and_cases(tmp_path, name):
    bench = Bench(tmp_path / "project")
    git("init", "-q", ".", cwd=bench.root)
    for place in (name, "a.py"):
        bench.file(place, "needle\n")
    git("add", "-A", cwd=bench.root)
    git("commit", "-qm", "first", cwd=bench.root)
    shown = await bench.text("run_command", command="git show; git grep needle")
    assert "a.py:needle" in shown
    assert f"{name}:needle" not in shown
    assert shown.count("+needle") == 1


@pytest.mark.parametrize(
    ("place", "line"),
    [(".gitattributes", ".env diff"), (".gitattributes", "* diff"),
     ("sub/.gitattributes", "* diff"),
     (".git/info/attributes", "*.env !diff")],
)  # fmt: skip
async def test_r40_attributes_of_the_repository_show_no_secrets(tmp_path, place, line):
    bench = Bench(tmp_path / "project")
    git("init", "-q", ".", cwd=bench.root)
    bench.file("sub/.env", "needle\n")
    bench.file(place, f"{line}\n")
    git("add", "-A", cwd=bench.root)
    git("commit", "-qm", "first", cwd=bench.root)
    for command in ("git show", "git log -p", "git grep needle", "cd sub && git grep needle"):
        result = await bench.call("run_command", command=command)
        assert result.outcome is Outcome.ERROR
        assert "hold secrets" in result.text
        assert "+needle" not in result.text
        assert ":needle" not in result.text


async def test_r40_rg_finds_no_lines_of_secrets(tmp_path):
    if shutil.which("rg") is None:
        pytest.skip("rg is not installed")
    bench = Bench(tmp_path)
    for name in (".env", "src/id_rsa", "KEY.PEM", "src/a.py"):
        bench.file(name, "needle\n")
    for line in (
        "rg needle",
        "rg -uuu needle .",
        "rg --hidden --no-ignore needle src .",
        "rg -uu needle -g '!x'",
    ):
        assert verdict(line, bench.root) is Verdict.ALLOW
        shown = await bench.text("run_command", command=line)
        assert "a.py" in shown
        assert not any(name in shown for name in (".env", "id_rsa", "KEY.PEM")), line


async def test_a_commit_beside_other_commands_keeps_its_hooks(tmp_path):
    if GIT is None:
        pytest.skip("git is not installed")
    bench = Bench(tmp_path / "p")
    git("init", "-q", ".", cwd=bench.root)
    hook = bench.file(".git/hooks/pre-commit", "#!/bin/sh\necho the hook ran\n")
    hook.chmod(0o755)
    bench.file("a", "x")
    person = {
        f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
    }
    rule = parse_rule(Verdict.ALLOW, "run_command(git commit:*)", "t")
    bench.services = type(bench.services)(
        bench.workspace, {**bench.services.child_env, **person}, RuleSet([rule], bench.root)
    )
    shown = await bench.text("run_command", command="git add a && git commit -m x && git status")
    assert "the hook ran" in shown
