"""A first start in a repository that somebody else wrote, watched from outside (R22, R23)."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from agent.cli import COMMANDS
from agent.ui.menu import GRACE_S
from tests.support.cli import OPTA, TIMEOUT_S, connected, opta
from tests.support.hostile import BRANCH, MARK, TOOL, git, hostile_repository
from tests.support.model_server import ModelServer, answer, call, say, scripted_call
from tests.support.strace import Seen, needs_strace, seen, watched
from tests.support.terminal import Terminal, needs_tmux
from tools import storage
from tools.permissions.trust import inspect
from tools.permissions.trust_store import TrustStore

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")

QUESTION = "Trust what this project brings?"

SHOWN = (".opta", ".mimir", ".cycod", ".codex/config.toml", ".mcp.json", "AGENTS.md")
"""What the question of trust is about, and so is read to be shown, and never used."""

ALSO_READ = (".git/HEAD", ".gitignore")
"""The name of the branch, and what the list of files leaves out: data, told as such."""

LINES = {
    "tools": [[]],
    "tool": [
        ["list"], ["get", f"{TOOL}_cycod"], ["run", f"{TOOL}_json"], ["test", f"{TOOL}_mimir"],
        ["validate", f".cycod/tools/{TOOL}.yaml"],
    ],
    "sessions": [["list"]],
    "help": [["tools"]],
    "demo": [["--help"]],
}  # fmt: skip
"""What is run of each command; of one that is not here, the command alone."""

PROBES = frozenset({"doctor"})
"""Commands that try what the machine can do, and so start programs and connections of their own."""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    hostile_repository(tmp_path / "project")
    return tmp_path / "project"


def watch(tmp_path: Path, project: Path, *words: str, program=OPTA) -> Seen:
    """Run opta in the project to its end and return what it did."""
    log = tmp_path / "strace.log"
    subprocess.run(
        watched(log, (*program, *words)), cwd=project, stdin=subprocess.DEVNULL,
        capture_output=True, timeout=TIMEOUT_S, check=False,
    )  # fmt: skip
    return seen(log, project)


def assert_left_alone(
    done: Seen, project: Path, *addresses: str, may_open=SHOWN + ALSO_READ, probes=False
) -> None:
    """Nothing was started or imported, nothing opened but what is shown, nobody else asked."""
    assert not (project / "sprung").exists()
    assert not [path for path in done.started if Path(path).is_relative_to(project)]
    assert probes or len(done.started) == 1, "opta itself, and nothing besides"
    files = {
        os.path.relpath(path, project)
        for path in done.opened
        if Path(path).is_relative_to(project) and not Path(path).is_dir()
    }
    assert {file for file in files if not file.startswith(may_open)} == set()
    inet = {address for address in done.connected if not address.startswith("/")}
    assert probes or inet <= set(addresses)
    assert not [path for path in done.connected if path.startswith(str(project))]


@needs_strace
@pytest.mark.parametrize(
    "line", [[name, *words] for name in COMMANDS for words in LINES.get(name, [[]])]
    + [["--version"], ["--help"]], ids=" ".join,
)  # fmt: skip
def test_r22_no_command_runs_or_obeys_a_project_never_trusted(tmp_path, project, line):
    assert_left_alone(watch(tmp_path, project, *line), project, probes=line[0] in PROBES)


@needs_strace
@pytest.mark.parametrize("flags", [[], ["--dangerously-skip-permissions"]], ids=["", "skip"])
def test_r22_r23_a_batch_job_runs_and_obeys_nothing_of_the_project(tmp_path, project, flags):
    script = [call("read_file", path="src/code.txt"), call("theirs_json"), say("Done.")]
    with ModelServer(script) as server:
        done = watch(tmp_path, project, "-p", "look", *connected(server), *flags)
        requests = server.requests
    address = server.base_url.split("/")[2]
    allowed = (*SHOWN, *ALSO_READ, "src/code.txt")
    assert_left_alone(done, project, address, may_open=allowed)
    assert len(requests) == 3, "reading was not denied by their rule"
    for request in requests:
        assert MARK not in json.dumps(request.json)
        assert TOOL not in [
            tool["function"]["name"].split("_")[0] for tool in request.json["tools"]
        ]
        assert request.json["model"] == "test-model"


@needs_strace
@needs_tmux
def test_r22_r24_the_first_chat_shows_all_of_it_and_without_a_yes_uses_nothing(tmp_path, project):
    log = tmp_path / "strace.log"
    with ModelServer([call("read_file", path="src/code.txt"), say("Done.")]) as server:
        argv = watched(log, (*OPTA, *connected(server)))
        with Terminal(argv, rows=50, columns=150, cwd=project) as terminal:
            terminal.wait(QUESTION, TIMEOUT_S)
            shown = terminal.scrollback(joined=True)
            time.sleep(GRACE_S + 0.1)
            terminal.send("Enter")
            terminal.wait("/help for commands", TIMEOUT_S)
            terminal.type("hello")
            terminal.send("Enter")
            terminal.wait("Done.", TIMEOUT_S)
            terminal.send("C-d")
            terminal.wait_exit()
        requests = server.requests
    for name in ("json", "cycod", "mimir", "own", "codex", "profile"):
        assert f"{TOOL}_{name}" in shown
    for text in ("base_url: http://127.0.0.1:9/theirs", "deny: [read_file]", "pre_tool =", MARK):
        assert text in shown
    assert MARK not in json.dumps([request.json for request in requests])
    allowed = (*SHOWN, *ALSO_READ, "src/code.txt")
    assert_left_alone(seen(log, project), project, server.base_url.split("/")[2], may_open=allowed)


@needs_strace
def test_a_trap_that_does_spring_is_seen(tmp_path, project):
    """The same watch on a run that was allowed everything: what it looks for, it finds."""
    with ModelServer([call("theirs_json"), say("Done.")]) as server:
        flags = ("--trust", "--dangerously-skip-permissions")
        done = watch(tmp_path, project, "-p", "go", *connected(server), *flags)
    assert (project / "sprung").exists()
    assert str(project / "trap") in done.started
    with pytest.raises(AssertionError):
        assert_left_alone(done, project)


@needs_strace
@pytest.mark.parametrize("trust", [[], ["--trust"]], ids=["untrusted", "trusted"])
def test_reading_with_git_runs_nothing_that_the_repository_configures(tmp_path, project, trust):
    (project / ".git/HEAD").write_text(f"ref: refs/heads/{BRANCH}\n")
    for settings in (".opta/config.yml", ".mimir/config.yml", ".mcp.json"):
        (project / settings).unlink()
    lines = [["status"], ["diff"], ["log", "-p"], ["show"], ["branch"], ["diff", "HEAD"]]
    calls = [scripted_call("git", operation=name, args=args) for name, *args in lines]
    script = [answer(calls=calls), say("Done.")]
    with ModelServer(script) as server:
        done = watch(tmp_path, project, "-p", "look", *connected(server), *trust)
        results = server.requests[-1].json["messages"][-len(lines) :]
    assert "nothing of interest" in results[1]["content"], "git did its work"
    assert any(path.endswith("/git") for path in done.started)
    assert not [path for path in done.started if Path(path).is_relative_to(project)]
    assert not (project / "sprung").exists()


def trust(root: Path) -> None:
    """Trust the directory as the person would in a chat."""
    TrustStore(storage.state_dir()).grant(inspect(root))


def uses_its_tools(root: Path) -> bool:
    done = opta("tools", cwd=root)
    assert done.returncode == 0, done.stderr
    return f"{TOOL}_json" in done.stdout


def test_r23_a_batch_job_does_not_use_what_was_trusted_in_a_chat(project: Path) -> None:
    trust(project)
    (project / ".opta/config.yml").write_text("")
    for flags, used in (
        ([], False),
        (["--dangerously-skip-permissions"], False),
        (["--trust"], True),
    ):
        trust(project)
        with ModelServer([say("Done.")]) as server:
            opta("-p", "go", *flags, server=server, cwd=project)
            (request,) = server.requests
        names = [tool["function"]["name"] for tool in request.json["tools"]]
        assert (f"{TOOL}_json" in names) is used
        assert (MARK in json.dumps(request.json["messages"])) is used


def test_r25_only_the_path_that_was_trusted_is_trusted(project: Path, tmp_path: Path) -> None:
    trust(project)
    assert uses_its_tools(project)
    clone = project / "vendor" / "clone"
    shutil.copytree(project, clone)
    worktree = project / "w"
    git(project, "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null",
        "worktree", "add", "-q", "--no-checkout", str(worktree), BRANCH + "~0")  # fmt: skip
    spoofed = tmp_path / "spoofed"
    for other in (worktree, spoofed):
        for part in (".opta", ".mimir", ".cycod", ".codex"):
            shutil.copytree(project / part, other / part)
        shutil.copy(project / ".mcp.json", other)
    (spoofed / ".git").mkdir()
    (spoofed / ".git/HEAD").write_text((project / ".git/HEAD").read_text())
    (spoofed / ".git/commondir").write_text(f"{project}/.git\n")
    for untrusted in (clone, worktree, spoofed):
        assert inspect(untrusted).digest == inspect(project).digest, "the same content"
        assert not uses_its_tools(untrusted)
        assert not (project / "sprung").exists()


def test_r25_a_clone_at_a_path_trusted_before_is_not_trusted(project: Path) -> None:
    shutil.move(project, project.with_name("elsewhere"))
    (project / ".opta/tools").mkdir(parents=True)
    trust(project)
    shutil.rmtree(project)
    shutil.copytree(project.with_name("elsewhere"), project)
    assert not uses_its_tools(project)


def test_r25_trust_reaches_into_no_clone_submodule_or_package(tmp_path: Path) -> None:
    root = tmp_path / "project"
    for place in ("own", "module", "node_modules/p", "linked"):
        (root / place).mkdir(parents=True)
        (root / place / "code.txt").write_text("x\n")
    for place in ("own", "module", "node_modules/p"):
        (root / place / "AGENTS.md").write_text(f"of {place}\n")
    (root / "linked/AGENTS.md").symlink_to("../module/AGENTS.md")
    (root / "module/.git").write_text("gitdir: ../.git/modules/module\n")
    (root / "AGENTS.md").write_text("of the root\n")
    paths = ("own/code.txt", "module/code.txt", "node_modules/p/code.txt", "linked/code.txt")
    calls = [scripted_call("read_file", path=path) for path in paths]
    with ModelServer([answer(calls=calls), say("Done.")]) as server:
        opta("-p", "read", "--trust", server=server, cwd=root)
        last = json.dumps(server.requests[-1].json)
    assert "of the root" in last
    assert "of own" in last
    for other in ("of module", "of node_modules"):
        assert other not in last


def test_r22_instructions_below_a_directory_without_any_at_its_root(tmp_path: Path) -> None:
    """There was no question, so there was no answer: what lies deeper is not obeyed either."""
    (tmp_path / "src").mkdir()
    (tmp_path / "src/AGENTS.md").write_text(f"{MARK}\n")
    (tmp_path / "src/code.txt").write_text("x\n")
    script = [call("read_file", path="src/code.txt"), say("Done.")]
    with ModelServer(script) as server:
        opta("-p", "read", server=server, cwd=tmp_path)
        assert MARK not in json.dumps(server.requests[-1].json)
    if shutil.which("tmux") is None:
        return
    with ModelServer(script) as server, Terminal([*OPTA, *connected(server)], cwd=tmp_path) as chat:
        chat.wait("/help for commands", TIMEOUT_S)
        chat.type("read")
        chat.send("Enter")
        chat.wait("Done.", TIMEOUT_S)
        assert MARK not in json.dumps(server.requests[-1].json)


@needs_tmux
def test_r24_trusted_without_running_anything(project: Path) -> None:
    """Their AGENTS.md and narrowing rules count, no tool is offered, also at the next start."""
    question = [call("run_command", command="ls"), say("Done."), say("Again.")]
    (project / ".opta/config.yml").write_text("permissions:\n  deny: ['run_command(ls:*)']\n")
    with ModelServer(question) as server:
        argv = [*OPTA, *connected(server)]
        for answered, last in ((True, "Done."), (False, "Again.")):
            with Terminal(argv, rows=50, columns=150, cwd=project) as terminal:
                if answered:
                    terminal.wait(QUESTION, TIMEOUT_S)
                    time.sleep(GRACE_S + 0.1)
                    terminal.send("r")
                terminal.wait("/help for commands", TIMEOUT_S)
                terminal.type("hello")
                terminal.send("Enter")
                terminal.wait(last, TIMEOUT_S)
                assert answered or QUESTION not in terminal.scrollback()
                terminal.send("C-d")
                terminal.wait_exit()
        first, denied, again = (request.json for request in server.requests)
    assert MARK in json.dumps(first["messages"])
    assert "Permission denied by the rule" in denied["messages"][-1]["content"]
    for request in (first, again):
        assert not [tool for tool in request["tools"] if TOOL in tool["function"]["name"]]
    assert not (project / "sprung").exists()
