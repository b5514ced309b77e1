"""Files that are not what they seem: links swapped in, other names, devices, endless files."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.support.bench import Bench
from tests.support.soon import SOON_S
from tests.tools.test_builtin_search import without_rg
from tools import storage
from tools.builtin.kit import Services
from tools.definition import Outcome
from tools.files.gitignore import Ignores
from tools.files.walk import open_unlinked, walk
from tools.files.workspace import FileProblem, remove_unfinished

OUTSIDE = "OUTSIDE needle\n"
POSIX = pytest.mark.skipif(os.name != "posix", reason="links and pipes of POSIX systems")
pytestmark = POSIX


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """A project with `a/b/c.txt`, beside a directory `out` of the same shape."""
    bench = Bench(tmp_path / "proj")
    bench.file("a/b/c.txt", "inside needle\n")
    (tmp_path / "out/b").mkdir(parents=True)
    (tmp_path / "out/b/c.txt").write_text(OUTSIDE)
    (tmp_path / "out/c.txt").write_text(OUTSIDE)
    return bench


def outside(bench: Bench) -> dict[str, str]:
    place = bench.root.parent / "out"
    return {str(p.relative_to(place)): p.read_text() for p in place.rglob("*") if p.is_file()}


def swap(bench: Bench, place: str) -> None:
    """Put a link to the outside in the place of a file or one of its directories."""
    path = bench.root / place
    path.rename(path.with_name("moved-away"))
    path.symlink_to(bench.root.parent / "out" / Path(place).relative_to("a"))


CALLS: dict[str, dict[str, object]] = {
    "read_file": {"path": "a/b/c.txt"},
    "write_file": {"path": "a/b/c.txt", "content": "new\n"},
    "edit_file": {"path": "a/b/c.txt", "old_text": "inside", "new_text": "new"},
    "file_operations": {"operation": "delete", "path": "a/b/c.txt"},
    "file_search": {"pattern": "needle", "path": "a/b"},
}


@pytest.mark.parametrize("place", ["a", "a/b", "a/b/c.txt"])
@pytest.mark.parametrize("tool", CALLS)
async def test_r16_a_link_swapped_in_between_question_and_run_is_never_followed(
    bench: Bench, tool: str, place: str
) -> None:
    await bench.call("read_file", path="a/b/c.txt")
    before = outside(bench)
    prepared = bench.prepare(tool, **CALLS[tool])

    swap(bench, place)
    result = await bench.finish(prepared)

    assert "OUTSIDE" not in result.text
    assert outside(bench) == before
    if tool != "file_search":
        assert result.outcome is Outcome.ERROR, result.text


@contextmanager
def swapping(bench: Bench) -> Iterator[None]:
    """Let `a` be a directory and a link to the outside by turns, as fast as can be."""
    stop = threading.Event()
    name, link, spare = bench.root / "a", bench.root / ".link", bench.root / ".spare"
    link.symlink_to(bench.root.parent / "out")

    def put(source: Path) -> None:
        while True:
            with suppress(OSError):
                source.rename(name)
                return
            # A write has made the directory anew.
            shutil.rmtree(name, ignore_errors=True)

    def swap_on() -> None:
        while not stop.is_set():
            name.rename(spare)
            put(link)
            name.rename(link)
            put(spare)

    thread = threading.Thread(target=swap_on)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


async def test_r16_directories_replaced_all_the_time_never_lead_outside(bench: Bench) -> None:
    await bench.call("read_file", path="a/b/c.txt")
    before = outside(bench)
    own = Services(bench.workspace, {**bench.services.child_env, "PATH": without_rg()})
    with_rg = bench.services
    with swapping(bench):
        for _ in range(25):
            for services in (with_rg, own):
                bench.services = services
                assert "OUTSIDE" not in await bench.text("file_search", pattern="needle")
            for tool in ("read_file", "write_file", "edit_file"):
                with suppress(OSError, FileProblem):
                    invocation, grant = bench.prepare(tool, **CALLS[tool])
                    if not all(effect.inside for effect in invocation.effects):
                        continue
                    assert "OUTSIDE" not in (await bench.finish((invocation, grant))).text
    assert outside(bench) == before


@pytest.mark.parametrize("place", ["a", "a/b"])
def test_r16_a_walk_begins_in_no_directory_that_became_a_link(bench: Bench, place: str) -> None:
    def found() -> list[str]:
        return [entry.relative for entry in walk(bench.root / "a/b", Ignores(), lambda: True)]

    assert found() == ["c.txt"]
    swap(bench, place)
    assert found() == []
    with pytest.raises(OSError):
        open_unlinked(bench.root / "a/b/c.txt")


async def test_r16_what_rg_read_through_a_link_swapped_in_is_not_shown(
    bench: Bench, tmp_path: Path
) -> None:
    if shutil.which("rg") is None:
        pytest.skip("no rg on PATH")
    bench.file("d.txt", "plain needle\n")
    programs = tmp_path / "bin"
    programs.mkdir()
    real = shutil.which("rg", path=bench.services.child_env["PATH"])
    (programs / "rg").write_text(
        f'#!/bin/sh\n[ -L "{bench.root}/a" ] || {{ mv "{bench.root}/a" "{tmp_path}/moved"; '
        f'ln -s "{tmp_path}/out" "{bench.root}/a"; }}\nexec {real} --follow "$@"\n'
    )
    (programs / "rg").chmod(0o700)
    env = {**bench.services.child_env, "PATH": f"{programs}:{os.environ['PATH']}"}
    bench.services = Services(bench.workspace, env)

    text = await bench.text("file_search", pattern="needle")

    assert (bench.root / "a").is_symlink(), "the program of this test was not used"
    assert "OUTSIDE" not in text
    assert "plain needle" in text


def sensitive(bench: Bench, path: str) -> str:
    return bench.prepare("read_file", path=path)[0].effects[0].sensitive


def test_r40_hard_links_to_secrets_and_to_files_outside_ask(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh/config").write_text("Host x\n")
    monkeypatch.setenv("HOME", str(home))
    bench.file(".env", "KEY=1\n")
    for source, name in (
        (bench.root / ".env", "settings.txt"),
        (tmp_path / "out/c.txt", "notes.txt"),
        (bench.root / "a/b/c.txt", "copy.txt"),
        (home / ".ssh/config", "node_modules/x/config.txt"),
        (tmp_path / "out/b/c.txt", "node_modules/x/index.js"),
    ):
        (bench.root / name).parent.mkdir(parents=True, exist_ok=True)
        os.link(source, bench.root / name)

    assert sensitive(bench, "settings.txt").startswith(
        "settings.txt is another name (hard link) of .env"
    )
    assert sensitive(bench, "notes.txt") == (
        "notes.txt has another name (hard link) outside the workspace"
    )
    assert "store of keys" in sensitive(bench, "node_modules/x/config.txt")
    assert sensitive(bench, "copy.txt") == ""
    # Package managers link whole directories to a cache outside.
    assert sensitive(bench, "node_modules/x/index.js") == ""


@pytest.mark.parametrize("by", ["own", "rg"])
async def test_r40_a_search_leaves_hard_links_to_secrets_and_the_outside_out(
    bench: Bench, tmp_path: Path, by: str
) -> None:
    if by == "rg" and shutil.which("rg") is None:
        pytest.skip("no rg on PATH")
    if by == "own":
        env = {**bench.services.child_env, "PATH": without_rg()}
        bench.services = Services(bench.workspace, env)
    bench.file(".env", "needle=SECRET\n")
    os.link(bench.root / ".env", bench.root / "env.txt")
    os.link(tmp_path / "out/c.txt", bench.root / "notes.txt")

    text = await bench.text("file_search", pattern="needle")

    assert text == (
        "a/b/c.txt\n  1: inside needle\n[1 match in 1 file]\n"
        "[not searched because they hold secrets: .env; read_file asks the user]\n"
        "[not searched because they are hard links to secrets or to files outside: env.txt, "
        "notes.txt; read_file asks the user]"
    )
    # Named itself it was asked about, and is searched.
    assert "SECRET" in await bench.text("file_search", pattern="needle", path="env.txt")


async def test_r17_writing_a_hard_link_leaves_its_other_name_as_it_was(
    bench: Bench, tmp_path: Path
) -> None:
    os.link(tmp_path / "out/c.txt", bench.root / "notes.txt")
    await bench.call("read_file", path="notes.txt")
    result = await bench.call("write_file", path="notes.txt", content="mine\n")
    assert result.success
    assert (bench.root / "notes.txt").read_text() == "mine\n"
    assert (tmp_path / "out/c.txt").read_text() == OUTSIDE


@pytest.mark.parametrize(
    "name",
    [
        ".GIT/hooks/x", ".git./config", ".git /config", ".gi\u200ct/config", "GIT~1/config",
        ".git::$INDEX_ALLOCATION/config", ".OPTA/config.yml", ".bashrc::$DATA",
    ],
)  # fmt: skip
def test_r15_no_spelling_of_a_protected_name_gets_past(
    bench: Bench, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(bench.root))
    effect = bench.prepare("write_file", path=name, content="x")[0].effects[0]
    assert effect.protected


@pytest.mark.parametrize(
    "name", [".ENV", ".Env.", ".env ", ".e\u200bnv", ".env::$DATA", "ID_RSA", "Key.PEM", ".SSH/x"]
)
def test_r15_no_spelling_of_a_secret_name_gets_past(bench: Bench, name: str) -> None:
    assert sensitive(bench, name)


async def test_r15_decomposed_and_composed_names_are_told_apart_or_are_one(bench: Bench) -> None:
    composed, decomposed = "caf\u00e9.txt", "cafe\u0301.txt"
    bench.file(composed, "composed\n")
    text = await bench.text("read_file", path=decomposed)
    one_file = (bench.root / decomposed).exists()
    assert ("composed" in text) is one_file
    if one_file:
        assert bench.workspace.resolve(decomposed) == bench.workspace.resolve(composed)


def special_files(root: Path) -> None:
    os.mkfifo(root / "pipe")
    listener = socket.socket(socket.AF_UNIX)
    here = Path.cwd()
    os.chdir(root)  # The path of a socket may be 107 bytes long.
    try:
        listener.bind("socket")
    finally:
        os.chdir(here)
        listener.close()
    with suppress(PermissionError):
        os.mknod(root / "device", 0o600 | stat.S_IFCHR, os.makedev(1, 5))


@pytest.mark.parametrize(
    "path",
    [
        "pipe", "socket", "device", "/dev/zero", "/dev/stdin", "/dev/fd/0",
        "/proc/self/environ", "/proc/thread-self/environ", "/proc/self/root/proc/self/environ",
        "/proc/self/task/{pid}/environ", "/proc/{pid}/mem", "/proc/kmsg", "/proc/self/fd/{fifo}",
    ],
)  # fmt: skip
@pytest.mark.parametrize("tool", ["read_file", "file_search", "write_file", "edit_file"])
async def test_r20_what_is_no_file_is_refused_at_once(bench: Bench, tool: str, path: str) -> None:
    special_files(bench.root)
    if path == "device" and not (bench.root / "device").exists():
        pytest.skip("only root makes devices")
    fifo = os.open(bench.root / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        path = path.format(pid=os.getpid(), fifo=fifo)
        arguments: dict[str, dict[str, object]] = {
            "file_search": {"pattern": "PATH", "path": path},
            "write_file": {"path": path, "content": "x"},
            "edit_file": {"path": path, "old_text": "PATH", "new_text": "x"},
        }
        call = bench.call(tool, **arguments.get(tool, {"path": path}))
        result = await asyncio.wait_for(call, SOON_S)
    finally:
        os.close(fifo)
    assert result.outcome is Outcome.ERROR, result.text
    assert "PATH=" not in result.text


async def test_r20_a_search_walks_past_pipes_devices_and_the_kernel(bench: Bench) -> None:
    special_files(bench.root)
    own = {**bench.services.child_env, "PATH": without_rg()}
    for env in (bench.services.child_env, own):
        if env is own:
            # rg itself would wait for this one, until its time is over.
            os.mkfifo(bench.root / "a/.gitignore")
        bench.services = Services(bench.workspace, env)
        search = bench.text("file_search", pattern="needle")
        assert "[1 match in 1 file]" in await asyncio.wait_for(search, SOON_S)
        for place in ("/proc", "/proc/self", "/sys"):
            search = bench.text("file_search", pattern="PATH=", path=place)
            assert "is not searched" in await asyncio.wait_for(search, SOON_S)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root enters all")
async def test_a_directory_that_cannot_be_entered_is_left_out_of_a_search(bench: Bench) -> None:
    closed = bench.root / "closed"
    closed.mkdir(mode=0o400)
    try:
        env = {**bench.services.child_env, "PATH": without_rg()}
        bench.services = Services(bench.workspace, env)
        assert "[1 match in 1 file]" in await bench.text("file_search", pattern="needle")
    finally:
        closed.chmod(0o700)


def holes(path: Path, head: bytes) -> None:
    with path.open("wb") as file:
        file.write(head)
        file.truncate(1 << 40)


@pytest.mark.parametrize("tool", ["read_file", "file_search", "edit_file", "write_file"])
async def test_r20_a_sparse_file_of_a_terabyte_costs_no_time(bench: Bench, tool: str) -> None:
    # The first block is text; after it comes one line of a terabyte.
    try:
        holes(bench.root / "huge.txt", b"a line\n" * 9000)
    except OSError as error:
        pytest.skip(f"this file system has no files of that size: {error}")
    arguments: dict[str, dict[str, object]] = {
        "read_file": {"path": "huge.txt", "offset": 8999},
        "file_search": {"pattern": "a line", "path": "huge.txt"},
        "edit_file": {"path": "huge.txt", "old_text": "a", "new_text": "b"},
        "write_file": {"path": "huge.txt", "content": "x"},
    }
    result = await asyncio.wait_for(bench.call(tool, **arguments[tool]), SOON_S)
    assert len(result.text) < 1000
    if tool == "read_file":
        assert "longer than 67,108,864 characters" in result.text
        part = await bench.text("read_file", path="huge.txt", offset=8998, limit=2)
        assert part.startswith("8998\ta line\n8999\ta line\n")
    os.truncate(bench.root / "huge.txt", 0)


WRITER = """
import sys
from pathlib import Path
from tests.support.bench import Bench
bench = Bench(Path(sys.argv[1]))
path = bench.root / "big.txt"
bench.workspace.read(path, 1 << 30)
invocation, grant = bench.prepare("write_file", path="big.txt", content="x")
call = bench.resolved("write_file", {"path": "big.txt", "content": "x"})
print("ready", flush=True)
while True:
    for name in (b"b", b"a"):
        bench.workspace.write(grant, call, path, name * 8_000_000)
"""


def test_r17_a_kill_leaves_old_or_new_and_the_next_start_removes_what_is_left(
    bench: Bench,
) -> None:
    versions = {name * 8_000_000 for name in (b"a", b"b")}
    path = bench.file("big.txt", b"a" * 8_000_000)
    left = 0
    for _ in range(6):
        child = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(bench.root)],
            stdout=subprocess.PIPE, cwd=Path(__file__).parents[2],
        )  # fmt: skip
        with child:
            assert child.stdout is not None
            assert child.stdout.readline() == b"ready\n"
            # The moment is random on purpose: any moment must do.
            time.sleep(random.uniform(0, 0.05))
            assert remove_unfinished() == [], "what is being written was taken for rubbish"
            child.kill()
        assert path.read_bytes() in versions
        rubbish = sorted(bench.root.glob(".opta-*.tmp"))
        left += len(rubbish)
        assert sorted(remove_unfinished()) == rubbish
        assert sorted(entry.name for entry in bench.root.iterdir()) == ["a", "big.txt"]
    assert left, "no kill came in the middle of a write"
    assert not list(storage._unfinished_dir().iterdir())


def test_r17_only_files_of_its_own_making_are_removed(bench: Bench, tmp_path: Path) -> None:
    victim = bench.file("victim.txt", "mine")
    note = storage.note_unfinished(victim)
    assert note is not None
    note.close()
    link = tmp_path / "link"
    link.symlink_to(bench.root)
    (bench.root / ".opta-0123456789abcdef.tmp").write_text("through a link")
    note = storage.note_unfinished(link / ".opta-0123456789abcdef.tmp")
    assert note is not None
    note.close()
    assert remove_unfinished() == []
    assert victim.read_text() == "mine"


async def test_what_is_being_written_is_found_by_no_search(bench: Bench) -> None:
    bench.file(".opta-0123456789abcdef.tmp", "needle of a file half written")
    for env in (bench.services.child_env, {**bench.services.child_env, "PATH": without_rg()}):
        bench.services = Services(bench.workspace, env)
        assert "half written" not in await bench.text("file_search", pattern="needle")
