"""Which walls a call gets: settings, definitions, fallbacks, and what is refused."""

from __future__ import annotations

import dataclasses
import os
import shlex
import sys
from pathlib import Path

import pytest

from tests.isolation.images import containers
from tests.support.bench import Bench
from tests.support.plans import Plans, bash
from tools.confinement import IsolationSettings, Sandboxing
from tools.definition import EffectKind, Outcome, Security, ToolError
from tools.engine.isolation import memory
from tools.engine.isolation.choice import Isolation
from tools.files.walls import survey

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the backends tried are Linux's")


def isolation(root, sandbox="required", *, path=None, **settings):
    """What chooses walls; `path` hides programs."""
    environ = {"PATH": os.environ["PATH"] if path is None else path}
    return Isolation(root, survey, IsolationSettings(Sandboxing(sandbox), **settings), environ)


@pytest.fixture
def bench(workspace):
    """Built-in tools in a workspace, with settings to choose."""
    made = Bench(workspace)

    def configure(*args, **settings):
        made.services = dataclasses.replace(
            made.services, isolation=isolation(workspace, *args, **settings)
        )
        return made

    return configure


@pytest.fixture
def plans(workspace):
    """Custom tools in a workspace, with settings to choose."""
    made = Plans(workspace)

    def configure(**settings):
        made.isolation = isolation(workspace, "off", **settings)
        return made

    return configure


# Commands of the model


@pytest.mark.parametrize("backend", ["bubblewrap", "landlock"])
@pytest.mark.parametrize("tool", ["run_command", "bash_execution"])
async def test_a_command_runs_behind_the_backend_of_the_settings(bench, needs, backend, tool):
    needs(backend)
    made = bench(backend=backend)
    invocation, _ = made.prepare(tool, command="true")
    assert f"in a sandbox ({backend}): no network" in invocation.preview.note
    inside = await made.text(tool, command="echo fine > file && cat file")
    assert inside == "fine"
    outside = await made.call(tool, command=f"echo x > {made.root.parent}/evil")
    assert outside.outcome is Outcome.ERROR
    assert not (made.root.parent / "evil").exists()
    assert "[ran in a sandbox" in outside.text


async def test_off_runs_as_the_user_and_auto_sandboxes_where_it_can(bench, needs):
    needs("bubblewrap")
    evil = bench("off").root.parent / "evil"
    command = f"echo x > {evil}"
    assert bench("off").prepare("run_command", command=command)[0].confinement is None
    assert (await bench("auto").call("run_command", command=command)).outcome is Outcome.ERROR
    assert not evil.exists()
    assert (await bench("off").call("run_command", command=command)).success
    assert evil.exists()


async def test_without_bubblewrap_on_path_landlock_is_used(bench, needs):
    needs("landlock")
    made = bench(path="/nonexistent")
    assert "(landlock)" in made.prepare("run_command", command="true")[0].preview.note
    assert (await made.call("run_command", command="echo x > /etc/opta-attack")).exit_code == 1


def test_required_refuses_where_nothing_works_and_says_what_to_do(bench):
    made = bench(backend="bubblewrap", path="/nonexistent")
    with pytest.raises(
        ToolError, match="required cannot be met: bubblewrap: there is no bwrap"
    ) as e:
        made.prepare("run_command", command="true")
    assert "install the package bubblewrap" in str(e.value)
    assert "Nothing was done" in str(e.value)


def test_a_program_of_the_project_does_not_pose_as_the_sandbox(workspace):
    (workspace / "bin").mkdir()
    (workspace / "bin" / "bwrap").write_text('#!/bin/sh\ntouch "$HOME/posed"\n')
    (workspace / "bin" / "bwrap").chmod(0o755)
    for path in (str(workspace / "bin"), "bin", ""):
        chooser = isolation(workspace, backend="bubblewrap", path=path)
        with pytest.raises(ToolError, match="there is no bwrap on PATH"):
            chooser.for_command()
    assert not (workspace.parent / "posed").exists()


async def test_a_tool_s_own_path_does_not_choose_the_sandbox(plans, needs):
    from tools.actions import PlanEnvironment

    needs("bubblewrap")
    made = plans(backend="bubblewrap")
    fake = made.root / "bwrap"
    fake.write_text("#!/bin/sh\necho posed\n")
    fake.chmod(0o755)
    environment = PlanEnvironment(variables={"PATH": f"{made.root}:/usr/bin:/bin"})
    result = await made.run(
        bash("a", "echo fine"), security=Security(isolation="sandbox"), environment=environment
    )
    assert result.text == "fine"


def test_auto_goes_on_without_and_says_so_once(workspace):
    chooser = isolation(workspace, "auto", backend="bubblewrap", path="/nonexistent")
    assert chooser.for_command() is None
    assert chooser.for_command() is None
    (line,) = chooser.news()
    assert "Commands run without a sandbox: bubblewrap: there is no bwrap on PATH" in line
    assert chooser.news() == []


def test_a_command_leaves_the_sandbox_only_where_the_settings_let_it(workspace, needs):
    needs("bubblewrap")
    assert isolation(workspace, "auto").for_command(unsandboxed=True) is None
    assert isolation(workspace, "required").for_command(unsandboxed=True) is not None


async def test_the_settings_open_paths_and_the_network(bench, needs):
    needs("bubblewrap")
    home = bench("off").root.parent
    (home / "cache").mkdir()
    (home / ".netrc").write_text("login")
    made = bench(write=(home / "cache",), read=(home / ".netrc",), network=True)
    text = await made.text("run_command", command=f"echo x > {home}/cache/x && cat {home}/.netrc")
    assert text == "login"
    invocation, _ = made.prepare("run_command", command="true")
    assert "with the network" in invocation.preview.note
    interfaces = await made.text("run_command", command="readlink /proc/self/ns/net")
    assert interfaces == str(Path("/proc/self/ns/net").readlink())


async def test_a_time_out_ends_a_sandboxed_command_and_what_it_left(bench, needs):
    needs("bubblewrap")
    made = bench()
    result = await made.call("run_command", command="setsid sleep 60 & sleep 60", timeout=0.5)
    assert result.outcome is Outcome.TIMED_OUT
    missing = await made.call("run_command", command="no-such-program")
    assert missing.exit_code == 127


async def test_a_missing_program_is_told_as_without_a_sandbox(bench, needs):
    needs("bubblewrap")
    result = await bench().call("bash_execution", command="no-such-program", args=["x"])
    assert result.text.startswith(
        "Cannot start 'no-such-program': there is no such program on PATH"
    )


async def test_what_a_command_made_against_the_rules_is_taken_back_and_told_to_the_model(
    bench, needs
):
    needs("bubblewrap")
    made = bench()
    result = await made.call("run_command", command="mkdir .opta && echo x > .opta/config.yml")
    assert "The command made" in result.text
    assert not (made.root / ".opta").exists()
    (aside,) = made.root.glob(".opta.refused-*")
    assert (aside / "config.yml").read_text() == "x\n"


@pytest.mark.parametrize("backend", ["bubblewrap", "landlock"])
async def test_r27_what_is_obeyed_is_taken_back_in_any_directory(bench, needs, backend):
    needs(backend)
    made = bench(backend=backend)
    (made.root / "sub").mkdir()
    result = await made.call(
        "run_command",
        command="mkdir -p new/.vscode new/plain sub/.git/hooks; echo x > sub/.envrc; "
        "echo x > new/.vscode/tasks.json; echo x > new/a.code-workspace; touch new/plain/file",
    )
    for gone in ("sub/.envrc", "new/.vscode", "new/a.code-workspace"):
        assert not (made.root / gone).exists(), result.text
        assert list((made.root / gone).parent.glob(f"{(made.root / gone).name}.refused-*"))
        assert f"The command made {made.root / gone}" in result.text
    assert (made.root / "new/plain/file").exists()
    assert (made.root / "sub/.git/hooks").exists()


async def test_r27_what_stands_in_any_directory_is_kept(bench, needs):
    needs("bubblewrap")
    made = bench()
    (made.root / "sub").mkdir()
    (made.root / "sub/.envrc").write_text("as it was")
    result = await made.call("run_command", command="echo x > sub/.envrc")
    assert "Permission denied" in result.text
    assert "The command made" not in result.text
    assert (made.root / "sub/.envrc").read_text() == "as it was"


async def test_r27_a_workspace_file_of_an_editor_is_kept(bench, needs):
    needs("bubblewrap")
    made = bench()
    file = made.root / "all.code-workspace"
    file.write_text("as it was")
    result = await made.call("run_command", command="echo x > all.code-workspace")
    assert "Read-only file system" in result.text
    assert file.read_text() == "as it was"


# What definitions ask for


@pytest.mark.parametrize("backend", ["bubblewrap", "landlock"])
@pytest.mark.row("C324")
async def test_reduced_rights_leave_the_workspace_read_only(plans, needs, backend):
    needs(backend)
    made = plans(backend=backend)
    result = await made.run(bash("a", "id -u; echo x > file"), security=Security("reduced"))
    assert not result.success
    assert result.text.startswith(str(os.geteuid()))
    assert not (made.root / "file").exists()
    (made.root / "out").mkdir()
    declared = Security("reduced", permissions=("filesystem:write:out",))
    assert (await made.run(bash("a", "echo x > out/file"), security=declared)).success
    assert (made.root / "out" / "file").exists()


@pytest.mark.row("C324", "C328")
async def test_a_level_that_cannot_be_had_is_refused_and_nothing_runs(plans):
    made = plans(backend="bubblewrap", engine="docker", path="/nonexistent")
    for security, words in (
        (Security("reduced"), "is to run with reduced rights, which this machine cannot do"),
        (Security(isolation="sandbox"), "in a sandbox, which this machine cannot do"),
        (Security(isolation="container"), "in a container, which this machine cannot do: docker"),
    ):
        result = await made.run(bash("a", "touch ran"), security=security)
        assert words in result.text
        assert "Nothing was done" in result.text
    assert not (made.root / "ran").exists()


@pytest.mark.row("C61", "C311")
async def test_declared_permissions_are_held_to_in_a_sandbox(plans, needs):
    needs("bubblewrap")
    made = plans()
    there = made.root.parent / "there"
    there.mkdir()
    security = Security(
        isolation="sandbox",
        permissions=(f"filesystem:write:{there}", "network:external:api.github.com", "docker"),
    )
    _, invocation = made.prepare(bash("a"), security=security)
    assert invocation.confinement.network
    assert [
        warning.rpartition("(")[2] for warning in invocation.warnings if "declares" in warning
    ] == ["held to by the sandbox)", "the sandbox lets it reach any host)", "not enforced)"]
    step = bash("a", f"echo x > {there}/file; echo x > {there.parent}/evil")
    await made.run(step, security=security)
    assert (there / "file").exists()
    assert not (there.parent / "evil").exists()
    offline = bash("a", "readlink /proc/self/ns/net")
    result = await made.run(offline, security=Security(isolation="sandbox"))
    assert result.text != str(Path("/proc/self/ns/net").readlink())


async def test_a_tool_that_uses_a_stricter_one_is_as_strict(plans, needs):
    from tests.support.plans import tool
    from tools.actions import PlanAction, Step, UseTool

    needs("bubblewrap")
    made = plans()
    inner = tool(
        "inner", PlanAction((bash("a", f"echo x > {made.root.parent}/evil"),)),
        security=Security(isolation="sandbox"),
    )  # fmt: skip
    made.tools["inner"] = inner
    _, invocation = made.prepare(Step("a", UseTool("inner")))
    assert invocation.confinement is not None
    await made.run(Step("a", UseTool("inner")))
    assert not (made.root.parent / "evil").exists()


async def test_templates_arguments_and_temporary_files_work_in_a_sandbox(plans, needs):
    needs("bubblewrap")
    value = 'it\'s $(id) "x"\n' * 3
    step = bash("a", 'printf %s "{V}"; echo y > "$TMPDIR/f"')
    for backend in ("bubblewrap", "landlock"):
        needs(backend)
        made = plans(backend=backend)
        result = await made.run(
            step, arguments={"V": value}, security=Security(isolation="sandbox")
        )
        assert result.success, result.text
        assert result.text == value.strip()
    big = "x" * 200_000
    counted = bash("a", 'printf %s "{V}" | wc -c')
    result = await made.run(counted, arguments={"V": big}, security=Security(isolation="sandbox"))
    assert result.text.strip() == "200000"


# Containers


@pytest.mark.row("C328", "E146", "E150")
@pytest.mark.parametrize("engine", ["podman", "docker"], indirect=True)
async def test_a_container_holds_files_network_and_memory(plans, engine, image):
    made = plans(engine=engine, image=image)
    (made.root / ".git" / "hooks").mkdir(parents=True)
    contained = Security(isolation="container")

    async def run(text, **more):
        step = bash("a", text)
        step = dataclasses.replace(step, command=dataclasses.replace(step.command, kind="sh"))
        return await made.run(step, security=contained, timeout_ms=60_000, **more)

    result = await run("echo fine > file; cat file; cat /proc/net/dev | wc -l; ls /")
    assert result.text.split()[0] == "fine"
    assert (made.root / "file").read_text() == "fine\n"
    for attack in ("echo x > /evil", "echo x > .git/hooks/pre-commit", "cat /etc/shadow"):
        assert not (await run(attack)).success
    assert (await run('printf %s "{V}"', arguments={"V": "it's $(id)"})).text == "it's $(id)"
    too_much = "head -c 200000000 /dev/zero | tail -n 1 | wc -c"
    small = await run(too_much, max_memory_bytes=32 * 1024**2)
    assert "200000000" not in small.text
    assert containers(engine, image) == []


@pytest.mark.parametrize("engine", ["podman", "docker"], indirect=True)
async def test_a_command_in_a_container_can_be_interrupted(plans, needs, engine, images):
    image = images(engine, "/bin/sh", "/usr/bin/env")
    needs(engine, image)
    made = plans(engine=engine, image=image)
    text = "trap 'echo caught' INT; kill -s INT $$; trap 'exit 7' QUIT; kill -s QUIT $$"
    step = bash("a", text)
    step = dataclasses.replace(step, command=dataclasses.replace(step.command, kind="sh"))
    result = await made.run(step, security=Security(isolation="container"), timeout_ms=60_000)
    assert result.text.startswith("caught\n")
    assert "7" in result.text


# Memory


def test_the_reach_of_a_memory_limit_is_what_was_seen(monkeypatch):
    found = memory.means(os.environ["PATH"])
    assert found.reach in (memory.Reach.TREE, memory.Reach.PROCESS)
    alone = memory.MemoryMeans(memory.Reach.PROCESS, "RLIMIT_DATA")
    assert "each process, not of all" in memory.about(2**28, alone)


FAMILY = """
import os, signal, sys
pids = []
for _ in range(int(sys.argv[1])):
    ready, done = os.pipe()
    pids.append(os.fork())
    if pids[-1] == 0:
        held = bytearray(30_000_000)
        os.write(done, b"x")
        signal.pause()
    os.close(done)
    os.read(ready, 1)
running = [pid for pid in pids if os.waitpid(pid, os.WNOHANG)[0] == 0]
print(len(pids) - len(running), "ended")
for pid in running:
    os.kill(pid, 9)
"""
"""Children that each hold 30 MB at the same time; it tells how many of them were ended."""


@pytest.mark.row("C92")
async def test_a_memory_limit_holds_for_all_processes_together(plans):
    if memory.means(os.environ["PATH"]).reach is not memory.Reach.TREE:
        pytest.skip("no control group can be made here: a limit holds per process")
    made = plans()
    step = bash("a", f"python3 -c {shlex.quote(FAMILY)} {{COUNT}}")
    more = {"max_memory_bytes": 64 * 1024**2, "timeout_ms": 30_000}
    assert (await made.run(step, arguments={"COUNT": "1"}, **more)).text == "0 ended"
    assert (await made.run(step, arguments={"COUNT": "4"}, **more)).text != "0 ended"
    _, invocation = made.prepare(step, arguments={"COUNT": "1"}, **more)
    assert "64 MB for all its processes together" in invocation.preview.note


def test_the_effects_are_what_rules_see(plans, needs):
    needs("bubblewrap")
    made = plans()
    security = Security(isolation="sandbox", permissions=("filesystem:write:out",))
    _, invocation = made.prepare(bash("a"), security=security)
    assert [e.kind for e in invocation.effects] == [EffectKind.EXECUTE, EffectKind.WRITE]


@pytest.mark.row("C326", "C330")
async def test_same_as_user_and_none_are_plain_processes_and_none_is_said(plans):
    made = plans()
    for security in (Security(), Security(isolation="none"), Security("same-as-user")):
        _, invocation = made.prepare(bash("a"), security=security)
        assert invocation.confinement is None
        said = any("isolation: none is the same as process" in w for w in invocation.warnings)
        assert said == (security.isolation == "none")
        result = await made.run(bash("a", "id -u"), security=security)
        assert result.text == str(os.geteuid())


@pytest.mark.parametrize("engine", ["podman", "docker"], indirect=True)
async def test_a_container_that_runs_out_of_time_is_removed(plans, engine, image):
    made = plans(engine=engine, image=image)
    step = bash("a", "echo begun; sleep 300")
    step = dataclasses.replace(step, command=dataclasses.replace(step.command, kind="sh"))
    contained = Security(isolation="container")
    result = await made.run(step, security=contained, timeout_ms=3000)
    assert result.outcome is Outcome.TIMED_OUT
    assert containers(engine, image) == []
