"""Programs of tools that mean harm: what they try in earnest, in each runtime."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import time
import uuid

import psutil
import pytest

from tests.isolation.escapes import tried
from tests.support.code_tools import CodeProject
from tests.support.soon import soon
from tools.code import runtimes
from tools.confinement import IsolationSettings
from tools.definition import Outcome
from tools.engine.isolation import memory
from tools.permissions.rules import Verdict

ALL = pytest.mark.parametrize("runtime", ["typescript", "node", "python"])
SCRIPTS = pytest.mark.parametrize("runtime", ["typescript", "node"])


@pytest.fixture
def project(workspace, needs, request):
    names = request.fixturenames
    backend = request.getfixturevalue("backend") if "backend" in names else "bubblewrap"
    if "runtime" not in names or request.getfixturevalue("runtime") != "typescript":
        needs(backend)
    project = CodeProject(workspace, IsolationSettings(backend=backend))
    project.rule(Verdict.ALLOW, "t")
    return project


@pytest.mark.row("E60", "E65", "E144", "E146", "E148")
@pytest.mark.parametrize(
    ("runtime", "backend"),
    [
        ("typescript", "bubblewrap"), ("node", "bubblewrap"), ("python", "bubblewrap"),
        ("node", "landlock"), ("python", "landlock"),
    ],
)  # fmt: skip
async def test_nothing_but_the_arguments_is_in_reach(project, runtime, backend, server):
    answers = await tried(project, runtime, server, mark="canary")
    assert {name: answer for name, answer in answers.items() if "canary" in answer} == {}
    assert {name: answer for name, answer in answers.items() if answer.startswith("done")} == {}


FILLS_THE_HEAP = "export function execute() { const a = []; for (;;) a.push({ a: 1, b: [2] }); }"
FILLS_BUFFERS = """
export function execute() {
  const a = [];
  for (let i = 0; i < 20; i++) a.push(new Uint8Array(1e8).fill(1));
  return "has 2 GB";
}
"""


@pytest.mark.row("E54", "E150")
@pytest.mark.parametrize(
    ("runtime", "code"),
    [
        ("typescript", FILLS_THE_HEAP),
        ("node", FILLS_THE_HEAP),
        ("typescript", FILLS_BUFFERS),
        ("node", FILLS_BUFFERS),
        ("python", "def execute(args, context):\n"
         "    return len([b'x' * 100_000_000 for _ in range(20)])"),
    ],
)  # fmt: skip
async def test_memory_beyond_the_limit_ends_the_program(project, runtime, code):
    project.code("t", code, runtime)
    result = await project.call("t")
    assert result.outcome is Outcome.ERROR, result.text
    assert "has 2 GB" not in result.text


HOLDS = {
    "typescript": "export function execute({ mb }) { const a = [];"
    " for (let i = 0; i < mb; i++) a.push(new Uint8Array(1e6).fill(1)); return 'held'; }",
    "python": "def execute(args, context):\n"
    "    a = [bytes([1]) * 1_000_000 for _ in range(args['mb'])]\n    return 'held'",
}  # fmt: skip
HOLDS["node"] = HOLDS["typescript"]


@pytest.mark.row("E54", "E150")
@ALL
async def test_a_program_may_use_256_mb(project, runtime):
    project.code("t", HOLDS[runtime], runtime, {"mb": {"type": "integer"}})
    # Where no limit holds for all it uses, what runtimes only reserve counts as well.
    whole = memory.means(os.environ["PATH"]).reach is memory.Reach.TREE
    limit_mb = 256 if whole else 1024
    assert (await project.call("t", mb=round(limit_mb * 0.6))).text == "held"
    result = await project.call("t", mb=round(limit_mb * 1.5))
    assert result.outcome is Outcome.ERROR
    if whole:
        assert "it was killed, as it is beyond 256 MB of memory" in result.text


async def test_a_program_that_is_killed_is_told_of_its_limit(project):
    project.code("t", "import os\ndef execute(*_):\n    os.kill(os.getpid(), 9)", "python")
    result = await project.call("t")
    assert result.outcome is Outcome.ERROR
    assert "Tool execution failed: the program ended without a result" in result.text
    assert "it was killed, as it is beyond 256 MB of memory" in result.text


@SCRIPTS
@pytest.mark.parametrize("fills", [True, False])
async def test_without_control_groups_each_process_has_a_limit(
    project, runtime, fills, monkeypatch
):
    means = memory.MemoryMeans(memory.Reach.PROCESS, "RLIMIT_DATA")
    monkeypatch.setattr(memory, "means", lambda path: means)
    code = FILLS_BUFFERS if fills else "export const execute = () => 'fits';"
    project.code("t", code, runtime)
    result = await project.call("t")
    assert result.success is not fills, result.text
    assert "has 2 GB" not in result.text


@pytest.mark.row("E55", "E150")
@ALL
async def test_a_program_has_one_processor(project, runtime):
    if not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) < 2:
        pytest.skip("this system has one processor, or none that can be chosen")
    code = "export function execute() { for (;;) {} }"
    if runtime == "python":
        code = "def execute(args, context):\n    while True:\n        pass"
    project.code("t", code, runtime)
    mine, burning = os.sched_getaffinity(0), _burning_from_now()
    call = asyncio.create_task(project.call("t"))
    try:
        found = await soon(burning)
        assert [len(process.cpu_affinity()) for process in found] == [1]
        assert os.sched_getaffinity(0) == mine
    finally:
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
    await soon(lambda: not any(process.is_running() for process in found))


def _burning_from_now():
    """Return what finds the new processes below this one that use a processor."""
    ours = psutil.Process()
    before = set(ours.children(recursive=True))
    return lambda: [p for p in ours.children(recursive=True) if p not in before and _burns(p)]


def _burns(process):
    try:
        return process.cpu_times().user > 0.2
    except psutil.Error:
        return False


@ALL
async def test_threads_are_no_programs(project, runtime):
    code = """
        import { Worker } from "node:worker_threads";
        export async function execute() {
          const run = () => new Worker("postMessage(1)", { eval: true });
          try { run().terminate(); } catch (error) { return error.code ?? error.name; }
          return "ran";
        }
    """
    if runtime == "python":
        code = """
            import threading
            def execute(args, context):
                found = []
                thread = threading.Thread(target=found.append, args=("ran",))
                thread.start()
                thread.join()
                return found[0]
        """
    project.code("t", code, runtime)
    allowed = {"typescript": "ran", "node": "ERR_ACCESS_DENIED", "python": "ran"}
    assert (await project.call("t")).text == allowed[runtime]


def _running(mark):
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if any(mark in word for word in process.cmdline()):
                found.append(process)
    return found


@SCRIPTS
@pytest.mark.parametrize(
    ("sent", "told"),
    [
        ("process.send({ type: 'returned', json: '{bad' })", "its result is not JSON"),
        ("process.send({ type: 'returned', json: '['.repeat(1e5) })", "its result is not JSON"),
        ("process.send({ type: 'returned', json: '['.repeat(9e4) + ']'.repeat(9e4) })",
         "its result is not JSON"),
        ("process.send({ type: 'granted' })", "it sent a frame that is not known: 'granted'"),
        ("process.send([1])", "it sent what is not a JSON object"),
        ("process.send({ type: 'threw', message: { a: 1 }, trace: 5 })", "{'a': 1}"),
        ("process.send({ type: 'x'.repeat(17e6) })", "it sent more than 16 MB at once"),
    ],
)  # fmt: skip
async def test_forged_frames_are_failures_of_the_program(project, runtime, sent, told):
    project.code(
        "t", f"export function execute() {{ {sent}; return new Promise(() => 0); }}", runtime
    )
    result = await project.call("t")
    assert result.outcome is Outcome.ERROR
    assert told in result.text
    assert len(result.text) < 20_000


@SCRIPTS
async def test_a_result_of_a_gigabyte_costs_the_call_and_no_more(project, runtime):
    project.code("t", "export const execute = () => 'x'.repeat(5e8) + 'y';", runtime)
    result = await project.call("t")
    assert result.outcome is Outcome.ERROR
    assert len(result.text) < 20_000


async def test_bytes_without_an_end_are_not_kept(project):
    project.code(
        "t",
        """
        import os
        def execute(args, context):
            with open("/dev/zero", "rb") as zero:
                data = zero.read(1 << 20)
            for number in os.listdir("/proc/self/fd"):
                if os.path.exists(f"/proc/self/fd/{number}") and "socket" in os.readlink(
                    f"/proc/self/fd/{number}"
                ):
                    while True:
                        os.write(int(number), data)
        """,
        "python",
    )
    assert "it sent more than 16 MB at once" in (await project.call("t")).text


@SCRIPTS
async def test_a_program_that_stays_after_its_result_is_ended(project, runtime):
    project.code(
        "t",
        """
        export function execute() {
          process.exit = () => {};
          process.removeAllListeners("disconnect");
          setInterval(() => {}, 1000);
          return "result";
        }
        """,
        runtime,
    )
    started = time.monotonic()
    result = await project.call("t")
    assert (result.text, result.success) == ("result", True)
    assert time.monotonic() - started < 20


@SCRIPTS
async def test_a_command_ends_with_the_program_that_asked_for_it(project, runtime):
    mark = uuid.uuid4().hex
    project.rule(Verdict.ALLOW, "run_command")
    project.code(
        "t",
        """
        export async function execute({ mark }, { platform }) {
          platform.executor.execute(`: ${mark}; touch began; sleep 600; :`);
          while (!(await platform.fs.exists("began"))) {}
          process.exit(1);
        }
        """,
        runtime,
    )
    result = await project.call("t", mark=mark)
    assert "the program ended without a result (code 1)" in result.text
    await soon(lambda: _running(mark) == [])


async def test_a_flood_of_wishes_is_taken_a_few_at_a_time(project):
    project.code(
        "t",
        """
        export async function execute(args, { platform }) {
          const wishes = Array.from({ length: 500 }, () => platform.fs.exists("a"));
          return (await Promise.all(wishes)).length;
        }
        """,
    )
    assert await project.value("t") == 500


@ALL
async def test_a_call_that_is_stopped_leaves_nothing(project, runtime):
    mark = uuid.uuid4().hex
    code = f"export function execute() {{ const mark = '{mark}'; for (;;) {{}} }}"
    if runtime == "python":
        code = f"def execute(args, context):\n    mark = '{mark}'\n    while True:\n        pass"
    project.code("t", code, runtime)
    burning = _burning_from_now()
    call = asyncio.create_task(project.call("t"))
    found = await soon(burning)
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    await soon(lambda: not any(process.is_running() for process in found))


async def test_a_comma_in_a_path_opens_no_other(workspace, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", f"{workspace},/etc")
    project = CodeProject(workspace)
    project.rule(Verdict.ALLOW, "t")
    project.code("t", "export const execute = () => 1;")
    assert "would take" in (await project.call("t")).text


@pytest.mark.parametrize("runtime", ["node", "python"])
async def test_where_there_is_no_sandbox_nothing_runs_without_one(workspace, runtime, monkeypatch):
    monkeypatch.setattr("sys.prefix", str(workspace))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    project = CodeProject(workspace, IsolationSettings(backend="seatbelt"))
    project.rule(Verdict.ALLOW, "t")
    project.code("t", "export const execute = () => 1;", runtime)
    result = await project.call("t")
    assert result.outcome is Outcome.ERROR
    assert "which this machine cannot do" in result.text
    assert "Nothing was done" in result.text


@pytest.mark.parametrize("backend", ["bubblewrap", "landlock"])
async def test_a_runtime_in_the_home_shows_nothing_else_of_it(
    workspace, backend, needs, monkeypatch
):
    needs(backend)
    home = workspace.parent
    (home / "bin").mkdir()
    shutil.copy(shutil.which("node"), home / "bin" / "node-real")
    (home / "bin" / "node").symlink_to("node-real")
    (home / "secret.txt").write_text("canary")
    monkeypatch.setenv("PATH", f"{home}/bin:/usr/bin:/bin")
    # As if it had no permissions of its own.
    monkeypatch.setattr(runtimes, "_TRIES_PERMISSIONS", (99, 0))
    project = CodeProject(workspace, IsolationSettings(backend=backend))
    project.rule(Verdict.ALLOW, "t")
    project.code(
        "t",
        """
        const { readFileSync } = require("node:fs");
        exports.execute = ({ path }) => {
          try { return readFileSync(path, "utf8"); } catch { return process.execPath; }
        };
        """,
        "node",
    )
    assert (await project.call("t", path=f"{home}/secret.txt")).text == f"{home}/bin/node-real"
