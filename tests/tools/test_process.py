"""Processes end with all they started, cost bounded memory, and never outlive opta."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from tests.support.processes import has_ended
from tests.support.soon import SOON_S, soon
from tools.actions import BuiltinAction
from tools.definition import Origin, ResolvedCall, Source, ToolDefinition
from tools.engine import capture
from tools.engine.process import (
    ProcessResult,
    ProcessSpec,
    ProcessStartError,
    kill_all,
    run_process,
    settle,
)
from tools.permissions.grant import GrantError, mint

TOOL = ToolDefinition(
    "probe",
    "A probe.",
    {"type": "object"},
    BuiltinAction("probe"),
    Origin(Source.BUILTIN, "python"),
)
CALL = ResolvedCall("call-1", TOOL, {})
ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


def spec(
    *argv: str,
    timeout_ms: int = 20_000,
    stdin: bytes | None = None,
    merge_stderr: bool = False,
    cwd: Path = ROOT,
) -> ProcessSpec:
    return ProcessSpec(argv, cwd, dict(os.environ), timeout_ms, stdin, merge_stderr)


def shell(text: str, **options: object) -> ProcessSpec:
    return spec("/bin/sh", "-c", text, **options)  # type: ignore[arg-type]


async def run(what: ProcessSpec, on_output: Callable[[bytes], None] | None = None) -> ProcessResult:
    return await run_process(mint(CALL, "test"), CALL, what, on_output)


def running() -> set[psutil.Process]:
    """What runs below this process; the one that evaluates expressions stays between tests."""
    return set(psutil.Process().children(recursive=True))


async def pids_in(path: Path, count: int) -> list[int]:
    await soon(lambda: path.exists() and path.read_text().count("\n") >= count)
    return [int(line) for line in path.read_text().split()]


async def test_gives_exit_code_and_both_streams() -> None:
    result = await run(shell("echo out; echo err >&2; exit 3"))
    assert (result.exit_code, result.signal, result.timed_out) == (3, None, False)
    assert (result.stdout.head, result.stderr.head) == (b"out\n", b"err\n")
    assert result.stdout.total_bytes == 4
    assert result.stdout.spool is None


async def test_merged_stderr_keeps_the_order_written() -> None:
    result = await run(shell("echo 1; echo 2 >&2; echo 3", merge_stderr=True))
    assert result.stdout.head == b"1\n2\n3\n"
    assert result.stderr.total_bytes == 0


async def test_stdin_is_closed_unless_fed() -> None:
    result = await run(spec("cat"))
    assert result.exit_code == 0
    assert result.stdout.total_bytes == 0


async def test_more_input_and_output_than_pipes_hold_passes_through() -> None:
    data = os.urandom(50_000) * 20
    result = await run(spec("cat", stdin=data))
    assert result.stdout.spool is not None
    assert result.stdout.spool.read_bytes() == data


async def test_a_program_that_does_not_read_its_input_ends_well() -> None:
    result = await run(spec("true", stdin=b"x" * 1_000_000))
    assert (result.exit_code, result.timed_out) == (0, False)


async def test_death_by_signal_is_told_apart_from_an_exit_code() -> None:
    result = await run(shell("kill -SEGV $$"))
    assert (result.exit_code, result.signal) == (None, signal.SIGSEGV)


async def test_the_deadline_ends_the_whole_group_and_keeps_the_output(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    command = f"echo before; (echo $$; sh -c 'echo $$; exec sleep 60' & wait) >> {pids}; sleep 60"
    result = await run(shell(command, timeout_ms=300))
    assert result.timed_out
    assert result.stdout.head == b"before\n"
    assert 300 <= result.duration_ms < 1500
    started = await pids_in(pids, 2)
    await settle()
    assert all(has_ended(pid) for pid in started)


async def test_r44_what_ignores_sigterm_is_killed_within_two_seconds_of_it(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    command = f"trap '' TERM; echo $$ > {pids}; (sh -c 'echo $$; sleep 60' >> {pids}) & sleep 60"
    result = await run(shell(command, timeout_ms=200))
    assert (result.timed_out, result.signal) == (True, signal.SIGKILL)
    assert result.duration_ms < 200 + 2000 + 300
    await settle()
    assert all(has_ended(pid) for pid in await pids_in(pids, 2))


async def test_a_stopped_process_is_ended_too() -> None:
    result = await run(shell("kill -STOP $$; echo never", timeout_ms=200))
    assert (result.timed_out, result.signal) == (True, signal.SIGTERM)
    assert result.duration_ms < 1500


async def test_the_call_returns_although_a_background_job_holds_stdout(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    result = await run(shell(f"sleep 60 & echo $! > {pids}; echo started"))
    assert (result.exit_code, result.stdout.head) == (0, b"started\n")
    assert result.duration_ms < 1500
    (job,) = await pids_in(pids, 1)
    await soon(lambda: has_ended(job), 2.5)


async def test_a_late_writer_of_a_pipe_is_waited_for_briefly() -> None:
    result = await run(shell("(sleep 0.01; echo late) & echo early"))
    assert result.stdout.head == b"early\nlate\n"


async def test_cancelling_returns_at_once_and_ends_the_group(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    command = f"trap '' TERM; echo $$ > {pids}; sh -c 'echo $$; sleep 60' >> {pids}; sleep 60"
    task = asyncio.create_task(run(shell(command)))
    started = await pids_in(pids, 2)
    before = time.monotonic()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert time.monotonic() - before < SOON_S
    await soon(lambda: all(has_ended(pid) for pid in started), 2.3)
    await settle()


async def test_a_cancelled_process_may_clean_up(tmp_path: Path) -> None:
    done = tmp_path / "cleaned"
    ready = tmp_path / "ready"
    clean_up = f"echo bye; sleep 0.1; echo bye; touch {done}; exit"
    command = f"trap '{clean_up}' TERM; touch {ready}; sleep 60 & wait"
    task = asyncio.create_task(run(shell(command)))
    await soon(ready.exists)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await settle()
    assert done.exists()


async def test_a_cancel_at_any_instant_leaves_nothing_behind() -> None:
    marker = f"61.{os.getpid()}"
    for step in range(40):
        task = asyncio.create_task(run(shell(f"sleep {marker} & sleep {marker}")))
        for _ in range(step % 4):
            await asyncio.sleep(0)
        if step >= 4:
            await asyncio.sleep(step * 0.0002)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    await settle()
    left = [p for p in psutil.process_iter(["cmdline"]) if marker in (p.info["cmdline"] or [])]
    assert not left


async def test_kill_all_ends_what_runs_at_once() -> None:
    others = running()
    task = asyncio.create_task(run(shell("trap '' TERM; echo ready; sleep 60 & wait; sleep 60")))
    await soon(lambda: running() > others)
    children = running() - others
    kill_all()
    result = await task
    assert result.signal == signal.SIGKILL
    assert all(has_ended(child.pid) for child in children)


PROGRAM = """
    import asyncio, os, sys
    from pathlib import Path
    from tools.actions import BuiltinAction
    from tools.definition import (Origin, ResolvedCall, Source, ToolDefinition)
    from tools.engine.process import ProcessSpec, run_process
    from tools.permissions.grant import mint

    tool = ToolDefinition("t", "d", {}, BuiltinAction("t"), Origin(Source.BUILTIN, "python"))
    call = ResolvedCall("1", tool, {})

    def run(command, on_output=None):
        spec = ProcessSpec(("/bin/sh", "-c", command), Path("/"), dict(os.environ), 60000)
        return run_process(mint(call, "test"), call, spec, on_output)
"""


def program(body: str) -> str:
    return textwrap.dedent(PROGRAM) + textwrap.dedent(body)


def run_program(body: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", program(body), *arguments],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def test_nothing_outlives_the_program() -> None:
    finished = run_program(
        """
        async def main():
            found = []
            task = asyncio.create_task(
                run("trap '' TERM; echo $$; sleep 60 & echo $!; wait; sleep 60", found.append)
            )
            while b"".join(found).count(b"\\n") < 2:
                await asyncio.sleep(0.01)
            print(b"".join(found).decode())

        asyncio.run(main())
        """
    )
    assert finished.stderr == ""
    pids = [int(word) for word in finished.stdout.split()]
    assert len(pids) == 2
    assert all(has_ended(pid) for pid in pids)


def test_r43_output_of_hundreds_of_megabytes_costs_little_memory() -> None:
    finished = run_program(
        """
        import resource

        async def main():
            await run("echo warm")
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            result = (await run("yes 0123456 | head -c 300000000")).stdout
            grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
            print(grown, result.total_bytes, result.spooled_bytes, result.spool.stat().st_size)
            print(len(result.head), len(result.tail), result.tail[-8:] == b"0123456\\n")
            result.spool.unlink()

        asyncio.run(main())
        """
    )
    assert finished.stderr == ""
    grown_kib, total, spooled, size, head, tail, ends = finished.stdout.split()
    assert int(grown_kib) < 15 * 1024
    assert int(total) == 300_000_000
    assert int(spooled) == int(size) == capture.SPOOL_BYTES
    assert (int(head), int(tail), ends) == (capture.HEAD_BYTES, capture.TAIL_BYTES, "True")


async def test_r43_long_output_is_spooled_whole_to_a_private_file() -> None:
    result = await run(spec("seq", "1", "60000"))
    expected = "".join(f"{n}\n" for n in range(1, 60001)).encode()
    captured = result.stdout
    assert captured.spool is not None
    assert captured.spool.read_bytes() == expected
    assert captured.total_bytes == captured.spooled_bytes == len(expected)
    assert captured.head == expected[: capture.HEAD_BYTES]
    assert captured.tail == expected[-capture.TAIL_BYTES :]
    assert stat.S_IMODE(captured.spool.stat().st_mode) == 0o600
    assert stat.S_IMODE(captured.spool.parent.stat().st_mode) == 0o700


async def test_output_survives_a_place_where_nothing_can_be_spooled(state: Path) -> None:
    state.write_text("in the way")
    result = await run(spec("seq", "1", "60000"))
    assert (result.exit_code, result.stdout.spool) == (0, None)
    assert result.stdout.total_bytes > len(result.stdout.head) + len(result.stdout.tail)


async def test_output_is_told_while_the_process_runs(tmp_path: Path) -> None:
    go_on = tmp_path / "go-on"
    pieces: list[bytes] = []

    def take(data: bytes) -> None:
        pieces.append(data)
        go_on.touch()

    result = await run(
        shell(f"echo one; until [ -e {go_on} ]; do sleep 0.01; done; echo two"), take
    )
    assert result.exit_code == 0
    assert pieces == [b"one\n", b"two\n"]


async def test_a_listener_that_fails_at_the_last_piece_is_told_too() -> None:
    def fail(data: bytes) -> None:
        raise ValueError("no room")

    with pytest.raises(ValueError, match="no room"):
        await run(shell("echo x"), fail)


async def test_a_failing_listener_ends_the_process_and_is_told() -> None:
    def fail(data: bytes) -> None:
        raise ValueError("no room")

    others, started = running(), time.monotonic()
    with pytest.raises(ValueError, match="no room"):
        await run(shell("trap '' TERM; echo x; sleep 60"), fail)
    assert time.monotonic() - started < SOON_S
    await settle()
    assert running() <= others


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (("no-such-program",), "no such program on PATH"),
        (("./no/such",), "there is no file"),
        (("./plain",), "not executable"),
        (("./binary",), "not a program for this machine"),
        (("./lost",), "interpreter named in its first line"),
        (("echo", "x" * 3_000_000), "longer than the system allows"),
        (("echo", "a\0b"), "not valid"),
        (("echo", "\ud800"), "not valid"),
        ((), "the command is empty"),
    ],
)
async def test_a_program_that_cannot_start_says_why(
    tmp_path: Path, argv: tuple[str, ...], message: str
) -> None:
    (tmp_path / "plain").write_text("text")
    for name, text in (("binary", "\x00\x01\x02"), ("lost", "#!/no/such/interpreter\n")):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    with pytest.raises(ProcessStartError, match=message):
        await run(spec(*argv, cwd=tmp_path))


async def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(ProcessStartError, match=r"the directory .*gone does not exist"):
        await run(spec("true", cwd=tmp_path / "gone"))


async def test_a_grant_for_another_call_starts_nothing(tmp_path: Path) -> None:
    other = ResolvedCall("call-2", TOOL, {})
    with pytest.raises(GrantError):
        await run_process(mint(other, "test"), CALL, shell(f"touch {tmp_path}/ran"))
    assert not (tmp_path / "ran").exists()


async def test_descriptors_are_given_back() -> None:
    await run(spec("true"))
    before = psutil.Process().num_fds()
    for _ in range(10):
        await run(spec("cat", stdin=b"x" * 100_000))
        await run(shell("sleep 0 & sleep 9", timeout_ms=10))
    await settle()
    assert psutil.Process().num_fds() == before


class LoopWithoutReaders(asyncio.SelectorEventLoop):
    """A loop that cannot watch descriptors, as on Windows."""

    def add_reader(self, *arguments: object) -> None:
        raise NotImplementedError

    def add_writer(self, *arguments: object) -> None:
        raise NotImplementedError


def test_a_loop_that_cannot_watch_descriptors_runs_processes_as_well() -> None:
    async def main() -> None:
        data = os.urandom(1000) * 500
        echoed = await run(spec("cat", stdin=data))
        assert echoed.stdout.spool is not None
        assert echoed.stdout.spool.read_bytes() == data
        late = await run(shell("echo out; echo err >&2; sleep 60", timeout_ms=200))
        assert (late.timed_out, late.signal) == (True, signal.SIGTERM)
        assert (late.stdout.head, late.stderr.head) == (b"out\n", b"err\n")
        task = asyncio.create_task(run(shell("sleep 60")))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await settle()

    with asyncio.Runner(loop_factory=LoopWithoutReaders) as runner:
        runner.run(main())
