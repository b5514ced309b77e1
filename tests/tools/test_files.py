"""Paths, links, races and atomic writes of the workspace."""

from __future__ import annotations

import os
import random
import signal
import socket
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.bench import Bench
from tests.support.soon import SOON_S
from tools.definition import EffectKind, ResolvedCall
from tools.files.paths import folded_name, real_path, shown_name, windows_problem
from tools.files.workspace import FileMissing, FileProblem, Workspace
from tools.permissions.grant import Grant, GrantError, mint


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "proj")


def call_of(bench: Bench, **arguments: object) -> ResolvedCall:
    return bench.resolved("write_file", {"path": "x", "content": "y", **arguments})


def granted(bench: Bench) -> tuple[Grant, ResolvedCall]:
    call = call_of(bench)
    return mint(call, "test"), call


def write(bench: Bench, path: Path, data: bytes) -> None:
    bench.workspace.write(*granted(bench), path, data)


def inside(workspace: Workspace, text: str) -> bool:
    return workspace.effect(EffectKind.READ, workspace.resolve(text), "read_file").inside


@pytest.mark.row("E148")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a.txt", True), (".", True), ("sub/../a.txt", True), ("new/deep/er.txt", True),
        ("../proj-evil/x", False), ("..", False), ("sub/../../x", False), ("/etc/passwd", False),
        ("~/x", False), ("out/x", False), ("out", False), ("dangling", False),
        ("out/../a.txt", False), ("/", False), ("//etc/passwd", False),
    ],
)  # fmt: skip
def test_only_what_really_lies_in_the_root_counts_as_inside(bench, text, expected):
    (bench.root.parent / "proj-evil").mkdir()
    (bench.root / "sub").mkdir()
    (bench.root / "out").symlink_to("/usr")
    (bench.root / "dangling").symlink_to("/nowhere/at/all")
    assert inside(bench.workspace, text) is expected


@settings(max_examples=200)
@given(parts=st.lists(st.sampled_from(["..", ".", "a", "up", "abs", "in", "x y", "é"]), max_size=8))
def test_no_mixture_of_links_and_dots_gets_outside_unnoticed(parts):
    base = Path(os.environ["HOME"]).parent / "walk"
    root = base / "proj"
    if not root.exists():
        (root / "a" / "a").mkdir(parents=True)
        (root / "up").symlink_to("..")
        (root / "abs").symlink_to("/tmp")
        (root / "in").symlink_to("a")
    workspace = Workspace(root)
    text = "/".join(parts) or "."
    truth = os.path.realpath(root / text)
    outside = os.path.relpath(truth, os.path.realpath(root)).split("/")[0] == ".."
    assert inside(workspace, text) is not outside


@pytest.mark.parametrize(
    "text",
    ["", "a\0b", "\\\\?\\C:\\x", "\\??\\C:\\x", "\\\\srv\\share", "//?/C:/x", "\\\\.\\nul"],
)
def test_texts_that_name_no_plain_file_are_refused(bench, text):
    with pytest.raises(FileProblem):
        bench.workspace.resolve(text)


@pytest.mark.parametrize(
    "text", ["C:\\x\\NUL", "con", "Aux.txt", "com1", "LPT9.log", "a/b.txt:hidden", "x. ", "COM¹"]
)
def test_windows_devices_streams_and_dropped_endings_are_found(text):
    assert windows_problem(text)


@pytest.mark.parametrize("text", ["C:\\x\\y.txt", "console.log", "a/b", "..", ".\\x", "com10.txt"])
def test_plain_windows_paths_pass(text):
    assert not windows_problem(text)


def test_names_are_compared_without_case_form_and_invisible_marks():
    assert folded_name(".GIT") == folded_name(".g\u200cit") == folded_name(".git. ") == ".git"
    assert folded_name("e\u0301") == folded_name("\u00e9")


def test_only_a_tilde_at_the_beginning_stands_for_the_home_directory(bench):
    assert bench.workspace.resolve("~") == Path(os.environ["HOME"]).resolve()
    assert bench.workspace.resolve("./~/x") == bench.root / "~/x"
    assert (
        bench.workspace.resolve("~nobody-of-this-name/x") == bench.root / "~nobody-of-this-name/x"
    )


def test_different_unicode_forms_are_different_files_where_the_system_says_so(bench):
    bench.file("\u00e9.txt", "composed")
    composed = bench.workspace.resolve("\u00e9.txt")
    decomposed = bench.workspace.resolve("e\u0301.txt")
    same = decomposed.exists()
    assert (composed == decomposed) is same


@given(name=st.binary(min_size=1, max_size=12).filter(lambda b: b"/" not in b and b"\0" not in b))
@settings(max_examples=100)
def test_the_shown_form_of_any_name_finds_the_file_again(name):
    base = Path(os.environ["HOME"])
    if name in (b".", b".."):
        return
    path = base / os.fsdecode(name)
    path.write_bytes(b"x")
    try:
        shown = shown_name(path.name)
        assert shown.isprintable()
        assert real_path(f"./{shown}", base.resolve()) == base.resolve() / path.name
    finally:
        path.unlink()


@pytest.mark.parametrize(
    "name",
    [
        ".git/hooks/pre-commit", ".git/config", "sub/.git/config", ".GIT/config", "git~1/config",
        ".opta/config.yml", ".opta/tools/x.json", ".mcp.json", ".github/workflows/ci.yml",
        ".vscode/settings.json", ".idea/x.xml", ".gitlab-ci.yml", ".husky/pre-commit", ".git",
    ],
)  # fmt: skip
def test_writing_what_runs_or_decides_later_is_marked_even_before_it_exists(bench, name):
    path = bench.workspace.resolve(name)
    assert bench.workspace.effect(EffectKind.WRITE, path, "write_file").protected
    assert not bench.workspace.effect(EffectKind.READ, path, "read_file").protected


def test_own_settings_and_shell_start_files_are_marked_also_through_links(bench):
    home = Path(os.environ["HOME"])
    (bench.root / "bashrc").write_text("# mine")
    (home / ".bashrc").symlink_to(bench.root / "bashrc")
    own = Path(os.environ["XDG_CONFIG_HOME"]) / "opta/config.yml"
    for text in ("bashrc", "~/.zshrc", str(own), "~/.gitconfig"):
        path = bench.workspace.resolve(text)
        assert bench.workspace.effect(EffectKind.WRITE, path, "write_file").protected, text


def test_ordinary_files_are_neither_marked_nor_sensitive(bench):
    for name in ("src/a.py", "README.md", ".gitignore", "config", "keys.py", ".env.example"):
        path = bench.workspace.resolve(name)
        effect = bench.workspace.effect(EffectKind.WRITE, path, "write_file", name)
        assert (effect.protected, effect.sensitive) == ("", ""), name


@pytest.mark.parametrize(
    "name",
    [".env", "a/.env.local", "prod.env", ".ENV", "id_rsa", "id_ed25519.old", "tls/server.pem",
     "x.key", "~/.aws/credentials", "~/.ssh/config", "~/.netrc", "~/.kube/config", ".npmrc"],
)  # fmt: skip
def test_secrets_are_marked_for_reading(bench, name):
    path = bench.workspace.resolve(name)
    assert bench.workspace.effect(EffectKind.READ, path, "read_file", name).sensitive


def test_a_link_named_like_a_secret_is_one(bench):
    bench.file("settings/local", "KEY=1")
    (bench.root / ".env").symlink_to("settings/local")
    path = bench.workspace.resolve(".env")
    assert bench.workspace.effect(EffectKind.READ, path, "read_file", ".env").sensitive


def test_other_readable_directories_count_as_inside_for_reading_only(tmp_path):
    spool = tmp_path / "state"
    spool.mkdir()
    (tmp_path / "proj").mkdir()
    workspace = Workspace(tmp_path / "proj", also_readable=(spool,))
    path = workspace.resolve(str(spool / "out.txt"))
    assert workspace.effect(EffectKind.READ, path, "read_file").inside
    assert not workspace.effect(EffectKind.WRITE, path, "write_file").inside


def test_what_is_no_regular_file_is_refused_at_once(bench):
    os.mkfifo(bench.root / "pipe")
    (bench.root / "dir").mkdir()
    os.chdir(bench.root)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("sock")
        started = time.monotonic()
        task = f"/proc/{os.getpid()}/task/{os.getpid()}"
        for text in ("pipe", "dir", "sock", "/dev/zero", "/dev/tty", "/proc/self/environ",
                     f"{task}/environ", "/proc/self/mem"):  # fmt: skip
            with pytest.raises(FileProblem):
                bench.workspace.read(bench.workspace.resolve(text), 1000)
        assert time.monotonic() - started < SOON_S


@pytest.mark.parametrize("place", ["file", "directory"])
def test_a_link_swapped_in_between_resolve_and_read_makes_the_read_fail(bench, place):
    bench.file("d/a.txt", "mine")
    secret = bench.root.parent / "secret"
    secret.mkdir()
    (secret / "a.txt").write_text("theirs")
    path = bench.workspace.resolve("d/a.txt")
    if place == "file":
        path.unlink()
        path.symlink_to(secret / "a.txt")
    else:
        (bench.root / "d").rename(bench.root / "old")
        (bench.root / "d").symlink_to(secret)
    with pytest.raises(FileProblem, match="link"):
        bench.workspace.read(path, 1000)
    with pytest.raises(FileProblem, match="link"):
        write(bench, path, b"overwritten")
    assert (secret / "a.txt").read_text() == "theirs"


def test_nothing_is_written_without_the_grant_for_this_call(bench):
    grant, _ = granted(bench)
    other = call_of(bench, content="something else")
    with pytest.raises(GrantError):
        bench.workspace.write(grant, other, bench.root / "x", b"y")
    with pytest.raises(GrantError):
        bench.workspace.delete(grant, other, bench.root / "x")
    assert not (bench.root / "x").exists()


def test_a_write_makes_directories_and_keeps_mode_owner_and_attributes(bench):
    write(bench, bench.root / "a/b/c.txt", b"new")
    assert (bench.root / "a/b/c.txt").read_bytes() == b"new"
    script = bench.file("run.sh", "old")
    script.chmod(0o751)
    if os.geteuid() == 0:
        os.chown(script, 1234, 4321)
    before = script.stat()
    bench.workspace.read(script, 100)
    write(bench, script, b"new")
    after = script.stat()
    assert stat.S_IMODE(after.st_mode) == 0o751
    assert (after.st_uid, after.st_gid) == (before.st_uid, before.st_gid)
    assert sorted(entry.name for entry in bench.root.iterdir()) == ["a", "run.sh"]


def test_a_new_file_gets_the_mode_that_the_umask_leaves(bench):
    old = os.umask(0o027)
    try:
        write(bench, bench.root / "n.txt", b"x")
    finally:
        os.umask(old)
    assert stat.S_IMODE((bench.root / "n.txt").stat().st_mode) == 0o640


def test_a_file_changed_since_it_was_read_is_not_overwritten(bench):
    path = bench.file("a.txt", "one")
    bench.workspace.read(path, 100)
    status = path.stat()
    path.write_text("two")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    with pytest.raises(FileProblem, match="changed since"):
        write(bench, path, b"three")
    assert path.read_text() == "two"


def test_a_new_time_alone_is_no_change(bench):
    path = bench.file("a.txt", "one")
    bench.workspace.read(path, 100)
    os.utime(path, (1, 1))
    write(bench, path, b"two")
    assert path.read_text() == "two"


def test_a_file_never_read_is_not_overwritten_but_an_empty_one_is(bench):
    path = bench.file("a.txt", "one")
    empty = bench.file("e.txt", "")
    with pytest.raises(FileProblem, match="Read it first"):
        write(bench, path, b"two")
    write(bench, empty, b"two")
    write(bench, empty, b"own writes count as seen")
    assert (path.read_text(), empty.read_text()) == ("one", "own writes count as seen")


def test_a_file_deleted_since_it_was_read_is_told(bench):
    path = bench.file("a.txt", "one")
    bench.workspace.read(path, 100)
    path.unlink()
    with pytest.raises(FileProblem, match="deleted"):
        write(bench, path, b"two")


def test_delete_takes_files_and_empty_directories_only(bench):
    path = bench.file("d/a.txt", "x")
    with pytest.raises(FileProblem, match="not empty"):
        bench.workspace.delete(*granted(bench), path.parent)
    bench.workspace.delete(*granted(bench), path)
    bench.workspace.delete(*granted(bench), path.parent)
    assert list(bench.root.iterdir()) == []
    with pytest.raises(FileMissing):
        bench.workspace.delete(*granted(bench), path)
    with pytest.raises(FileProblem):
        bench.workspace.delete(*granted(bench), bench.root)


def test_a_full_disk_leaves_the_old_file_and_no_rubbish(bench):
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full on this system")
    path = bench.file("a.txt", "old")
    script = (
        "import resource, signal, sys\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        # Modules are imported first: the limit would cut what Python caches of them.
        f"{WRITER_SETUP}\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "try:\n    workspace.write(mint(call, 't'), call, path, b'n' * 5000)\n"
        "except FileProblem as error:\n    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(path)],
        capture_output=True, text=True, cwd=Path(__file__).parents[2], check=True,
    )  # fmt: skip
    assert "Cannot write a.txt" in done.stdout
    assert path.read_text() == "old"
    assert [entry.name for entry in bench.root.iterdir()] == ["a.txt"]


WRITER_SETUP = """
import sys
from pathlib import Path
from tools.builtin.write_file import tool
from tools.definition import (ResolvedCall)
from tools.files.workspace import FileProblem, Workspace
from tools.permissions.grant import mint
path = Path(sys.argv[1]).resolve()
workspace = Workspace(path.parent)
call = ResolvedCall("1", tool().definition, {"path": path.name, "content": ""})
workspace.read(path, 10_000_000)
"""


def test_a_kill_at_any_moment_leaves_the_old_or_the_new_file(bench):
    versions = {name * 400_000 for name in (b"a", b"b")}
    path = bench.file("big.txt", b"a" * 400_000)
    script = (
        f"{WRITER_SETUP}\nprint('ready', flush=True)\n"
        "while True:\n"
        "    for name in (b'b', b'a'):\n"
        "        workspace.write(mint(call, 't'), call, path, name * 400_000)\n"
    )
    for _ in range(8):
        child = subprocess.Popen(
            [sys.executable, "-c", script, str(path)],
            stdout=subprocess.PIPE, cwd=Path(__file__).parents[2],
        )  # fmt: skip
        with child:
            assert child.stdout is not None
            assert child.stdout.readline() == b"ready\n"
            # The moment is random on purpose: any moment must do.
            time.sleep(random.uniform(0, 0.03))
            os.kill(child.pid, signal.SIGKILL)
        assert path.read_bytes() in versions
