"""Programs of tools in containers: the same calls behind other walls (E54-E56)."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.isolation.escapes import tried
from tests.isolation.images import containers
from tests.support.cli import OPTA, opta
from tests.support.code_tools import CodeProject
from tests.support.soon import soon, until
from tools.code import runtimes
from tools.confinement import IsolationSettings
from tools.definition import Outcome
from tools.engine.isolation import proof
from tools.permissions.rules import Verdict

ALL = pytest.mark.parametrize("runtime", ["typescript", "node", "python"])
ENGINES = pytest.mark.parametrize("engine", ["podman", "docker"], indirect=True)


@pytest.fixture
def contained(workspace, needs, engine, images):
    """A project whose programs run in containers of an image with deno, node and Python."""
    deno = runtimes.find("typescript", os.environ["PATH"])[0].program
    python = Path(sys.base_prefix, "bin", "python3")
    image = images(engine, str(deno), shutil.which("node"), str(python))
    needs(engine, image)
    project = CodeProject(workspace, IsolationSettings(engine=engine, code_image=image))
    project.rule(Verdict.ALLOW, "t")
    return project


def _left(engine, project):
    return containers(engine, project.executor._services.isolation.settings.code_image)


@pytest.mark.row("E56")
@ALL
@ENGINES
async def test_a_program_runs_in_the_image_of_the_settings(contained, engine, runtime):
    code = "export const execute = ({ n }) => { console.log('seen'); return n + 1; };"
    if runtime == "python":
        code = "def execute(args, context):\n    print('seen')\n    return args['n'] + 1"
    contained.code("t", code, runtime)
    result = await contained.call("t", n=1)
    assert (result.outcome, result.text) == (Outcome.OK, "2"), result.text
    assert "seen" in result.display.text
    assert _left(engine, contained) == []


@pytest.mark.row("E60", "E146")
@ALL
@ENGINES
async def test_nothing_of_this_machine_is_in_reach(contained, runtime, server):
    answers = await tried(contained, runtime, server, mark="x")
    # It may start what the image has: that is in the container, too.
    within = {"program", "fork"} if runtime == "python" else set()
    assert {n for n, answer in answers.items() if answer.startswith("done")} == within, answers


@pytest.mark.row("E60")
@ENGINES
async def test_its_environment_has_nothing_of_opta_s(contained, monkeypatch):
    monkeypatch.setenv("OPTA_TEST_KEY", "canary-key")
    monkeypatch.setenv("https_proxy", "http://me:canary-password@127.0.0.1:9")
    contained.code(
        "t", "import os\ndef execute(args, context):\n    return dict(os.environ)", "python"
    )
    found = await contained.value("t")
    assert "canary" not in str(found)
    assert found["NO_COLOR"] == "1"


@pytest.mark.row("E54", "E55")
@ENGINES
async def test_its_memory_and_processors_are_bounded(contained):
    contained.code(
        "t",
        """
        from pathlib import Path

        def execute(args, context):
            if args["fill"]:
                return len([b"x" * 10_000_000 for _ in range(60)])
            old, new = Path("/sys/fs/cgroup/cpu/cpu.cfs_quota_us"), Path("/sys/fs/cgroup/cpu.max")
            if new.exists():
                quota, period = new.read_text().split()
            else:
                quota, period = old.read_text(), Path(old.parent, "cpu.cfs_period_us").read_text()
            return int(quota) / int(period)
        """,
        "python",
        {"fill": {"type": "boolean"}},
    )
    assert (await contained.call("t", fill=False)).text == "1.0"
    result = await contained.call("t", fill=True)
    assert result.outcome is Outcome.ERROR
    assert "the program ended without a result (code 137: it was killed" in result.text


@pytest.mark.row("E67")
@ALL
@ENGINES
async def test_it_asks_opta_for_files_and_commands(contained, runtime):
    contained.rule(Verdict.ALLOW, "read_file")
    contained.rule(Verdict.ALLOW, "run_command")
    big = "line\n" * 400_000
    (contained.root / "big.txt").write_text(big)
    code = """
        export async function execute({ path }, { platform, logger }) {
          const text = await platform.fs.readFile(path);
          const { stdout } = await platform.executor.execute("wc", ["-c", path]);
          logger.warn("a line");
          return [text.length, stdout.split(" ")[0]];
        }
    """
    if runtime == "python":
        code = """
            def execute(args, context):
                text = context.platform.fs.read_file(args["path"])
                told = context.platform.executor.execute("wc", ["-c", args["path"]]).stdout
                context.logger.warn("a line")
                return [len(text), told.split()[0]]
        """
    contained.code("t", code, runtime)
    assert await contained.value("t", path="big.txt") == [len(big), str(len(big))]


@ALL
async def test_a_large_result_comes_through_what_it_prints(contained, runtime):
    code = """
        export function execute() {
          console.log("a".repeat(3e5)); console.error("b".repeat(3e5));
          process.stdout.write("c");
          return "x".repeat(5000);
        }
    """
    if runtime == "python":
        code = """
            import os, sys
            def execute(args, context):
                print("a" * 300_000)
                print("b" * 300_000, file=sys.stderr)
                os.write(1, b"c")
                return "x" * 5000
        """
    contained.code("t", code, runtime)
    result = await contained.call("t")
    assert result.text == "x" * 5000
    assert "aaa" in result.display.text


async def test_what_disturbs_the_channel_is_a_failure_of_the_program(contained):
    contained.code(
        "t",
        "import { writeSync } from 'node:fs';\n"
        "export function execute() { writeSync(1, 'no frame\\n'); return 1; }",
        "node",
    )
    result = await contained.call("t")
    assert result.outcome is Outcome.ERROR
    assert "it sent what is not a JSON object" in result.text


@ALL
async def test_an_error_names_the_line_of_the_tool_s_file(contained, runtime):
    code = "\nexport function execute() {\n  throw new TypeError('no');\n}"
    if runtime == "python":
        code = "\n\ndef execute(args, context):\n    raise TypeError('no')"
    path = contained.code("t", code, runtime)
    result = await contained.call("t")
    lines = path.read_text().splitlines()
    wanted = next(n for n, line in enumerate(lines, 1) if "TypeError" in line)
    assert f"t.yml:{wanted}: TypeError: no" in result.text


LOOPS = {
    "typescript": "export function execute() { for (;;) {} }",
    "python": "def execute(args, context):\n    while True:\n        pass",
}

BEGINS = "import time\ndef execute(args, context):\n    print('begun')\n    time.sleep(600)"


@pytest.mark.row("E53")
@pytest.mark.parametrize("runtime", ["typescript", "python"])
@ENGINES
async def test_at_its_time_limit_it_is_removed(contained, engine, runtime):
    contained.limit(4000)
    contained.code("t", LOOPS[runtime], runtime)
    result = await contained.call("t")
    assert result.outcome is Outcome.TIMED_OUT
    assert "timed out after 4000 ms" in result.text
    assert _left(engine, contained) == []


@ENGINES
async def test_a_call_that_is_stopped_leaves_no_container(contained, engine):
    contained.code("t", LOOPS["python"], "python")
    call = asyncio.create_task(contained.call("t"))
    await soon(lambda: _left(engine, contained))
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    await soon(lambda: _left(engine, contained) == [])


@ENGINES
async def test_the_engine_keeps_nothing_of_what_it_prints(contained, engine):
    code = """
        import time
        def execute(args, context):
            print("canary-1", flush=True)
            context.platform.fs.exists("canary-2")
            time.sleep(60)
    """
    contained.rule(Verdict.ALLOW, "read_file")
    contained.code("t", code, "python")
    call = asyncio.create_task(contained.call("t"))
    await soon(lambda: "canary-1" in str(contained.events))
    kept = subprocess.run(
        [engine, "logs", *_left(engine, contained)], capture_output=True, text=True, check=False
    )
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    assert "canary" not in kept.stdout + kept.stderr


@ENGINES
async def test_an_engine_that_is_killed_in_the_middle_leaves_no_container(contained, engine):
    contained.code("t", BEGINS, "python")
    call = asyncio.create_task(contained.call("t"))
    await soon(lambda: "begun" in str(contained.events))
    (name,) = _left(engine, contained)
    for found in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            words = found.read_bytes().split(b"\0")
            if words[1:2] == [b"run"] and name.encode() in words:
                os.kill(int(found.parent.name), signal.SIGKILL)
    result = await call
    assert "the program ended without a result (SIGKILL" in result.text
    assert _left(engine, contained) == []


async def test_an_image_without_the_runtime_is_refused(workspace, engine, image):
    contained = CodeProject(workspace, IsolationSettings(engine=engine, code_image=image))
    contained.rule(Verdict.ALLOW, "t")
    contained.code("t", "export const execute = () => 1;", "node")
    result = await contained.call("t")
    assert result.outcome is Outcome.ERROR
    assert result.text == (
        f"The tool t cannot run: in the image {image} there is no runtime for node; name another "
        "with the setting code_image. Nothing was done."
    )


async def test_an_image_that_is_not_there_is_not_fetched(workspace, engine, image):
    settings = IsolationSettings(engine=engine, code_image="localhost/opta-test-none:9")
    contained = CodeProject(workspace, settings)
    contained.rule(Verdict.ALLOW, "t")
    contained.code("t", "export const execute = () => 'it ran';")
    result = await contained.call("t")
    assert result.outcome is Outcome.ERROR
    assert "no container of localhost/opta-test-none:9 can be made: podman: " in result.text
    assert result.text.endswith("Nothing was done.")


def _by_the_environment(contained, engine, monkeypatch):
    settings = contained.executor._services.isolation.settings
    monkeypatch.setenv("OPTA_CODE_IMAGE", settings.code_image)
    monkeypatch.setenv("OPTA_CONTAINER_ENGINE", engine)
    return settings.code_image


@ENGINES
def test_opta_killed_leaves_no_container(contained, engine, monkeypatch):
    _by_the_environment(contained, engine, monkeypatch)
    contained.code("t", BEGINS, "python")
    argv = [*OPTA, "tool", "run", "t", "--trust"]
    with subprocess.Popen(argv, cwd=contained.root, stderr=subprocess.PIPE) as running:
        assert running.stderr.readline() == b"begun\n"
        running.kill()
    until(lambda: _left(engine, contained) == [])


@ENGINES
def test_the_setting_is_shown_and_obeyed(contained, engine, monkeypatch):
    image = _by_the_environment(contained, engine, monkeypatch)
    contained.code("t", "export const execute = ({ n }) => `had ${n}`;", properties={"n": {}})
    shown = opta("tool", "run", "t", "--trust", "--param", "n=3", "--dry-run", cwd=contained.root)
    assert f"with deno, in a container of {image} ({engine}): no network" in shown.stdout
    assert "memory: 256 MB for all its processes together; one processor" in shown.stdout
    done = opta("tool", "run", "t", "--trust", "--param", "n=3", cwd=contained.root)
    assert (done.returncode, done.stdout) == (0, "had 3\n"), done.stderr
    told = json.loads(opta("doctor", "--format", "json", cwd=contained.root).stdout)["programs"]
    assert [(row["language"], row["by"]) for row in told] == [
        ("typescript", "deno"), ("node", "node"), ("python", "python"),
    ]  # fmt: skip
    assert {row["walls"] for row in told} == {f"a container of {image} by {engine}"}


def _engine_of_ours(contained, engine, monkeypatch, script):
    """Put an engine before the real one (`$ENGINE`) on PATH, outside of the project."""
    own = contained.root.parent / "bin"
    own.mkdir()
    program = own / engine
    program.write_text(f"#!/bin/sh\nENGINE={shutil.which(engine)}\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{own}:{os.environ['PATH']}")


@ENGINES
def test_opta_killed_while_a_container_is_made_leaves_none(
    contained, engine, monkeypatch, tmp_path
):
    _by_the_environment(contained, engine, monkeypatch)
    _engine_of_ours(
        contained, engine, monkeypatch,
        f'case "$*" in *bootstrap.py*) shift; "$ENGINE" create "$@" >&2 && touch {tmp_path}/made; '
        'exec sleep 600;; esac; exec "$ENGINE" "$@"',
    )  # fmt: skip
    contained.code("t", "def execute(args, context):\n    pass", "python")
    with subprocess.Popen([*OPTA, "tool", "run", "t", "--trust"], cwd=contained.root) as running:
        until((tmp_path / "made").exists)
        assert len(_left(engine, contained)) == 1
        running.kill()
    until(lambda: _left(engine, contained) == [])


def test_the_image_is_asked_once(contained, engine, monkeypatch, tmp_path):
    _by_the_environment(contained, engine, monkeypatch)
    _engine_of_ours(
        contained, engine, monkeypatch, f'"$ENGINE" "$@" && echo "$1" >> {tmp_path}/ran'
    )
    contained.code("t", "export const execute = () => 'it ran';")
    done = opta("tool", "run", "t", "--trust", cwd=contained.root)
    assert done.stdout == "it ran\n", done.stderr
    assert (tmp_path / "ran").read_text().split() == ["run", "run"]


async def test_what_hangs_when_it_is_asked_is_ended_and_removed(
    workspace, engine, images, monkeypatch, tmp_path
):
    monkeypatch.setattr(proof, "_TIMEOUT_S", 3)
    hanging = tmp_path / "deno"
    hanging.write_text("#!/bin/sh\nsleep 600\n")
    hanging.chmod(0o755)
    contained = CodeProject(
        workspace, IsolationSettings(engine=engine, code_image=images(engine, str(hanging)))
    )
    contained.rule(Verdict.ALLOW, "t")
    contained.code("t", "export const execute = () => 1;")
    result = await contained.call("t")
    assert "podman: it did not end within 3 s" in result.text
    assert _left(engine, contained) == []


async def test_an_image_s_name_is_no_option_of_the_engine(workspace, engine, image):
    contained = CodeProject(workspace, IsolationSettings(engine=engine, code_image="--help"))
    contained.rule(Verdict.ALLOW, "t")
    contained.code("t", "export const execute = () => 1;")
    assert "invalid reference format" in (await contained.call("t")).text


def test_without_an_engine_the_tools_are_unavailable(workspace, monkeypatch):
    monkeypatch.setenv("OPTA_CODE_IMAGE", "node:22")
    monkeypatch.setenv("PATH", "/nowhere")
    CodeProject(workspace).code("t", "export const execute = () => 'it ran';")
    shown = opta("tool", "validate", "t", "--trust", "--detailed", cwd=workspace).stdout
    assert "there is neither podman nor docker to run it in node:22; install one of them" in shown
    told = opta("doctor", cwd=workspace)
    assert told.returncode == 1
    assert "code_image: node:22 is set, and runs no program here" in told.stdout
