"""run_command, bash_execution and git with real processes."""

from __future__ import annotations

import os
import stat
import subprocess
import time
from pathlib import Path

import pytest

from tests.support.bench import BUILTINS, Bench
from tests.support.processes import has_ended
from tests.support.soon import SOON_S, soon
from tools.builtin.git import only_reads
from tools.builtin.git_settings import neutralised
from tools.builtin.kit import Services
from tools.definition import CommandDisplay, EffectKind, Outcome, ToolError
from tools.permissions.grant import GrantError, mint


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "proj")


async def test_a_command_is_shown_whole_and_run_in_the_project(bench):
    prepared = bench.prepare("run_command", command="pwd; echo out; echo err >&2")
    invocation = prepared[0]
    assert [(e.kind, e.value) for e in invocation.effects] == [
        (EffectKind.EXECUTE, "pwd; echo out; echo err >&2")
    ]
    assert isinstance(invocation.preview, CommandDisplay)
    assert invocation.preview.cwd == str(bench.root)
    result = await bench.finish(prepared)
    assert result.text == f"{bench.root}\nout\nerr"
    assert "".join(bench.progress) == result.text + "\n"


@pytest.mark.parametrize(
    ("command", "text", "outcome"),
    [
        ("true", "(no output)", Outcome.OK),
        ("exit 3", "[exit code: 3]", Outcome.ERROR),
        ("echo a; exit 1", "a\n[exit code: 1]", Outcome.ERROR),
        ("kill -9 $$", "[ended by signal SIGKILL]", Outcome.ERROR),
        ("cat", "(no output)", Outcome.OK),
        ("printf '\\033[31mred\\033[0m'", "red", Outcome.OK),
        ("shopt -q extglob; [[ a == a ]] && echo bash", "bash", Outcome.OK),
    ],
)
async def test_the_result_ends_with_how_the_command_ended(bench, command, text, outcome):
    result = await bench.call("run_command", command=command)
    assert (result.text, result.outcome) == (text, outcome)


async def test_a_time_out_ends_the_whole_group_and_keeps_the_output(bench):
    started = time.monotonic()
    result = await bench.call(
        "run_command", command="echo begun; sleep 60 & echo $! > pid; sleep 60", timeout=0.5
    )
    assert time.monotonic() - started < SOON_S
    assert result.outcome is Outcome.TIMED_OUT
    assert result.text.startswith("begun\n[timed out after 0.5 s")
    pid = int((bench.root / "pid").read_text())
    await soon(lambda: has_ended(pid))


@pytest.mark.parametrize("timeout", [0, -1, 601, 30000])
def test_a_time_out_in_the_wrong_unit_is_an_error_naming_the_unit(bench, timeout):
    with pytest.raises(ToolError, match="in seconds, more than 0 and at most 600"):
        bench.prepare("run_command", command="true", timeout=timeout)


async def test_long_output_is_cut_in_the_middle_and_kept_in_a_file(bench):
    result = await bench.call("run_command", command="seq 1 100000")
    assert len(result.text) < 20_000
    assert result.text.startswith("1\n2\n")
    assert result.text.endswith("\n99999\n100000")
    assert result.full_output is not None
    assert str(result.full_output) in result.text
    assert stat.S_IMODE(result.full_output.stat().st_mode) == 0o600
    assert len(result.full_output.read_text().splitlines()) == 100_000


async def test_another_directory_is_used_and_asked_for_when_it_is_not_the_project(bench):
    (bench.root / "sub").mkdir()
    assert await bench.text("run_command", command="pwd", workdir="sub") == f"{bench.root}/sub"
    invocation, _ = bench.prepare("run_command", command="make test", workdir="/usr")
    assert any(e.value == "/usr" and not e.inside for e in invocation.effects)
    assert "does not exist" in await bench.text("run_command", command="pwd", workdir="nope")


async def test_no_process_starts_without_the_grant_for_this_call(bench):
    invocation, _ = bench.prepare("run_command", command="touch made")
    other = mint(bench.resolved("run_command", {"command": "touch other"}), "test")
    with pytest.raises(GrantError):
        await invocation.run(other, lambda text: None)
    for tool, arguments in (
        ("git", {"operation": "status"}),
        ("file_search", {"pattern": "x"}),
        ("read_file", {"path": "x"}),
    ):
        invocation, _ = bench.prepare(tool, **arguments)
        with pytest.raises(GrantError):
            await invocation.run(other, lambda text: None)
    assert list(bench.root.iterdir()) == []


def test_provider_keys_do_not_reach_commands(bench, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary")
    services = Bench(bench.root).services
    assert "sk-canary" not in services.child_env.values()


@pytest.mark.row("E131", "E133", "E134")
async def test_bash_execution_works_as_documented(bench):
    parameters = BUILTINS["bash_execution"].definition.parameters["properties"]
    assert list(parameters) == ["command", "args", "timeout"]
    assert parameters["timeout"]["default"] == 30000
    ok = await bench.call("bash_execution", command="echo out; echo err >&2")
    assert (ok.text, ok.success) == ("out", True)
    failed = await bench.call("bash_execution", command="echo out; echo err >&2; exit 2")
    assert (failed.text, failed.success) == ("out\n[stderr] err\n[exit code: 2]", False)
    prepared = bench.prepare("bash_execution", command="printf", args=["%s|", "a b", "$(id)"])
    assert prepared[0].effects[0].value == "printf '%s|' 'a b' '$(id)'"
    assert (await bench.finish(prepared)).text == "a b|$(id)|"
    missing = await bench.call("bash_execution", command="no-such-program", args=["x"])
    assert not missing.success
    assert "no-such-program" in missing.text
    slow = await bench.call("bash_execution", command="sleep 9", timeout=200)
    assert slow.outcome is Outcome.TIMED_OUT


def git(root: Path, *args: str) -> str:
    identity = ("-c", "user.name=T", "-c", "user.email=t@example.invalid")
    done = subprocess.run(
        ["git", "-C", str(root), *identity, *args], capture_output=True, text=True, check=True
    )
    return done.stdout


@pytest.mark.row("E82")
@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("run_command", {"command": "echo begun; sleep 30"}),
        ("run_command", {"command": "echo begun; sleep 30", "timeout": 500}),
        ("bash_execution", {"command": "echo begun; sleep 30", "timeout": 60_000}),
        ("git", {"operation": "commit", "args": ["-m", "x"]}),
        ("git", {"operation": "status"}),
    ],
)
async def test_the_setting_caps_every_command_and_says_so(bench, tool, arguments, tmp_path):
    slow = tmp_path / "bin/git"
    slow.parent.mkdir()
    slow.write_text("#!/bin/sh\necho begun\nexec sleep 30\n")
    slow.chmod(0o755)
    env = {**bench.services.child_env, "PATH": f"{slow.parent}:{os.environ['PATH']}"}
    bench.services = Services(bench.workspace, env, max_execution_ms=300)
    started = time.monotonic()
    invocation, grant = bench.prepare(tool, **arguments)
    result = await bench.finish((invocation, grant))
    assert time.monotonic() - started < SOON_S
    assert "to 0.3 s by the setting maxExecutionTime" in invocation.preview.note
    if arguments != {"operation": "status"}:
        assert result.outcome is Outcome.TIMED_OUT
        assert result.text.startswith("begun\n[timed out after 0.3 s")
        assert result.text.endswith(f"[{invocation.preview.note}]")
    else:
        assert not result.success, "its settings could not be checked in time"


async def test_a_timeout_below_the_cap_is_kept(bench):
    bench.services = Services(bench.workspace, bench.services.child_env, max_execution_ms=5000)
    invocation, grant = bench.prepare("run_command", command="sleep 9", timeout=0.2)
    assert invocation.preview.note == ""
    assert "maxExecutionTime" not in (await bench.finish((invocation, grant))).text


@pytest.fixture
def repository(bench: Bench) -> Bench:
    git(bench.root, "init", "-q", "-b", "main", ".")
    bench.file("a.py", "one\n")
    bench.file("s/.env", "SECRET=1\n")
    git(bench.root, "add", "-A")
    git(bench.root, "commit", "-q", "-m", "first")
    return bench


@pytest.mark.row("E136")
async def test_git_shows_status_diff_log_and_files(repository):
    operations = BUILTINS["git"].definition.parameters["properties"]["operation"]["enum"]
    assert {"status", "diff", "log", "commit", "branch", "checkout"} <= set(operations)
    repository.file("a.py", "two\n")
    assert await repository.text("git", operation="status", args=["-s"]) == " M a.py"
    assert "-one\n+two" in await repository.text("git", operation="diff")
    assert "-one\n+two" in await repository.text("git", operation="diff", args=["HEAD", "a.py"])
    assert "+two" in await repository.text("git", operation="diff", args=["--", "a.py"])
    assert "first" in await repository.text("git", operation="log", args=["--oneline", "-n", "3"])
    assert await repository.text("git", operation="show", args=["HEAD:a.py"]) == "one"
    assert await repository.text("git", operation="branch") == "* main"


@pytest.mark.row("E136")
async def test_git_commits_makes_branches_and_changes_to_them(repository):
    git(repository.root, "config", "user.name", "T")
    git(repository.root, "config", "user.email", "t@example.invalid")
    repository.file("a.py", "two\n")
    message = 'it\'s "two" $(touch made)'
    for operation, args in (
        ("branch", ["dev"]), ("checkout", ["dev"]), ("commit", ["-a", "-m", message]),
    ):  # fmt: skip
        result = await repository.call("git", operation=operation, args=args)
        assert result.success, result.text
    assert git(repository.root, "log", "-1", "--format=%D %s") == f"HEAD -> dev {message}\n"
    assert git(repository.root, "show", "main:a.py") == "one\n"
    assert not (repository.root / "made").exists()


@pytest.mark.row("E137")
@pytest.mark.parametrize(
    ("operation", "args", "reads"),
    [
        ("status", [], True), ("status", ["--porcelain"], True), ("diff", ["--stat"], True),
        ("diff", ["main..dev", "--", "src"], True), ("log", ["-5", "--format=%h %s"], True),
        ("log", ["--since=2 weeks", "--author", "me"], True), ("show", ["HEAD~1"], True),
        ("branch", ["-a"], True), ("branch", [], True),
        ("branch", ["-D", "main"], False), ("branch", ["new"], False), ("checkout", ["."], False),
        ("commit", ["-m", "x"], False), ("add", ["."], False),
        ("diff", ["--output=/tmp/x"], False), ("diff", ["--ext-diff"], False),
        ("diff", ["--textconv"], False), ("diff", ["--no-index", "a", "b"], False),
        ("diff", ["/etc/passwd", "/dev/null"], False), ("diff", ["../x"], False),
        ("diff", ["--", "~/.ssh/id_rsa"], False), ("log", ["--format=%G?"], False),
        ("log", ["--show-signature"], False), ("log", ["--outp=x"], False),
        ("log", ["-Oorder"], False), ("diff", ["out/passwd"], False),
        ("show", ["HEAD:s/.env"], False), ("diff", ["--", "s/.env"], False),
        ("diff", [":(top)s"], False), ("log", ["-n", "1", "--exec-path=x"], False),
    ],
)  # fmt: skip
def test_only_plain_reading_needs_no_command_line_permission(repository, operation, args, reads):
    (repository.root / "out").symlink_to("/etc")
    assert only_reads(operation, tuple(args), repository.services) is reads
    effect, *_ = repository.prepare("git", operation=operation, args=args)[0].effects
    assert effect.kind is (EffectKind.READ if reads else EffectKind.EXECUTE)
    if not reads:
        assert effect.value.startswith(f"git {operation}")


async def test_a_hostile_repository_runs_nothing_while_it_is_read(repository):
    root = repository.root
    marks = root.parent / "marks"
    marks.mkdir()
    evil = root / "evil.sh"
    evil.write_text(f"#!/bin/sh\ntouch {marks}/$1.$$\ncat 2>/dev/null\n")
    evil.chmod(0o755)
    for name, value in {
        "core.fsmonitor": f"{evil} fsmonitor", "core.pager": f"{evil} pager",
        "pager.log": f"{evil} pagerlog", "pager.diff": f"{evil} pagerdiff",
        "diff.external": f"{evil} external", "diff.x.command": f"{evil} command",
        "diff.x.textconv": f"{evil} textconv", "filter.x.clean": f"{evil} clean",
        "filter.x.smudge": f"{evil} smudge", "filter.x.process": f"{evil} process",
        "filter.x.required": "true", "core.hooksPath": str(root / "hooks"),
        "gpg.program": f"{evil}", "log.showSignature": "true", "format.pretty": "%h %G? %s",
        "core.editor": f"{evil} editor", "core.sshCommand": f"{evil} ssh",
        "credential.helper": f"{evil} credential", "interactive.diffFilter": f"{evil} filter",
        "core.alternateRefsCommand": f"{evil} alternate", "alias.status": f"!{evil} alias",
        "diff.submodule": "diff", "status.submoduleSummary": "true",
    }.items():  # fmt: skip
        git(root, "config", name, value)
    (root / "hooks").mkdir()
    for hook in ("post-index-change", "pre-commit", "post-checkout", "fsmonitor-watchman"):
        (root / "hooks" / hook).write_text(f"#!/bin/sh\ntouch {marks}/{hook}\n")
        (root / "hooks" / hook).chmod(0o755)
    (root / ".gitattributes").write_text("* diff=x filter=x\n")
    repository.file("a.py", "changed\n")
    plain = subprocess.run(["git", "-C", str(root), "diff"], capture_output=True, check=False)
    assert list(marks.iterdir()), f"the traps do not work: {plain}"
    for mark in marks.iterdir():
        mark.unlink()
    os.utime(root / "s/.env")
    for operation, args in (
        ("status", []), ("status", ["-uall", "--ignored"]), ("diff", []), ("diff", ["HEAD"]),
        ("diff", ["--cached"]), ("log", ["-p"]), ("log", ["--stat"]), ("show", ["HEAD"]),
        ("show", ["HEAD:a.py"]), ("branch", ["-vv"]),
    ):  # fmt: skip
        result = await repository.call("git", operation=operation, args=args)
        assert result.success, (operation, args, result.text)
    assert sorted(mark.name for mark in marks.iterdir()) == []


async def test_a_repository_that_points_elsewhere_is_not_read_unasked(repository):
    git(repository.root, "config", "core.worktree", "/etc")
    result = await repository.call("git", operation="status")
    assert not result.success
    assert "core.worktree" in result.text


async def test_settings_too_long_to_check_stop_the_reading(repository):
    config = repository.root / ".git/config"
    padding = "".join(f'[x "{number}"]\n\ty = 1\n' for number in range(12_000))
    config.write_text(config.read_text() + padding + '[filter "e"]\n\tclean = touch evil\n')
    result = await repository.call("git", operation="status")
    assert not result.success
    assert "cannot be checked" in result.text


def test_only_programs_of_the_repositorys_own_settings_are_switched_off():
    lines = [
        "global\tfilter.lfs.clean", "local\tfilter.x.process", "local\tuser.name",
        "worktree\tdiff.y.textconv", "command\tdiff.z.command",
    ]  # fmt: skip
    assert neutralised(lines) == [
        "diff.y.textconv=", "filter.x.process=", "filter.x.required=false",
    ]  # fmt: skip
    with pytest.raises(ToolError):
        neutralised(["local\tfilter.a=b.clean"])


async def test_secrets_of_the_history_are_left_out_of_diffs(repository):
    repository.file("s/.env", "SECRET=2\n")
    repository.file("a.py", "two\n")
    for operation, args in (("diff", []), ("log", ["-p"]), ("show", []), ("log", ["-U5"])):
        text = await repository.text("git", operation=operation, args=args)
        assert "a.py" in text
        assert "SECRET" not in text, (operation, args)


async def test_a_git_or_shell_that_the_project_brings_along_is_not_used(repository):
    fake = repository.root / "bin"
    fake.mkdir()
    for name in ("git", "bash"):
        (fake / name).write_text("#!/bin/sh\ntouch ran\n")
        (fake / name).chmod(0o755)
    env = {**repository.services.child_env, "PATH": str(fake)}
    services = Services(repository.workspace, env)
    with pytest.raises(ToolError, match="not installed"):
        BUILTINS["git"].prepare(repository.resolved("git", {"operation": "status"}), services)
    call = repository.resolved("run_command", {"command": "echo x"})
    invocation = BUILTINS["run_command"].prepare(call, services)
    assert (await invocation.run(mint(call, "test"), lambda text: None)).text == "x"
    assert not (repository.root / "ran").exists()


async def test_commits_run_as_a_command_after_permission(repository):
    repository.file("a.py", "two\n")
    git(repository.root, "config", "user.name", "T")
    git(repository.root, "config", "user.email", "t@example.invalid")
    result = await repository.call("git", operation="commit", args=["-a", "-m", "it's done"])
    assert result.success, result.text
    assert git(repository.root, "log", "-1", "--format=%s") == "it's done\n"
