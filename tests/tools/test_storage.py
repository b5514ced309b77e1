"""opta's own files are private, never half written, and never reached through a link."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tools import storage
from tools.storage import AppendFile, StorageError

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "OPTA_GLOBAL_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_directories_follow_the_xdg_specification(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert storage.config_dir() == home / ".config/opta"
    assert storage.state_dir() == home / ".local/state/opta"
    assert storage.global_dir() == Path("/etc/opta")
    monkeypatch.setenv("XDG_CONFIG_HOME", "/c")
    monkeypatch.setenv("XDG_STATE_HOME", "relative/is/ignored")
    monkeypatch.setenv("OPTA_GLOBAL_DIR", "/g")
    assert storage.config_dir() == Path("/c/opta")
    assert storage.state_dir() == home / ".local/state/opta"
    assert storage.global_dir() == Path("/g")


@pytest.mark.parametrize("value", ["", "not/absolute"])
def test_without_a_home_directory_the_message_says_what_to_set(
    monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("HOME", value)
    with pytest.raises(StorageError, match="Set HOME or XDG_STATE_HOME"):
        storage.state_dir()


def test_files_and_directories_are_private_whatever_the_umask() -> None:
    old = os.umask(0)
    try:
        storage.write_private(storage.config_dir() / "tools" / "x.json", b"{}")
        AppendFile(storage.state_dir() / "log").close()
    finally:
        os.umask(old)
    assert mode(storage.config_dir() / "tools" / "x.json") == 0o600
    assert mode(storage.state_dir() / "log") == 0o600
    for directory in (storage.config_dir(), storage.config_dir() / "tools", storage.state_dir()):
        assert mode(directory) == 0o700


def test_a_directory_left_open_is_closed() -> None:
    storage.state_dir().mkdir(parents=True)
    storage.state_dir().chmod(0o777)
    storage.private_dir(storage.state_dir())
    assert mode(storage.state_dir()) == 0o700


def test_writing_replaces_the_whole_file_and_leaves_nothing_else() -> None:
    path = storage.config_dir() / "config.yml"
    storage.write_private(path, b"first, and longer")
    storage.write_private(path, b"second")
    assert storage.read_private(path) == b"second"
    assert os.listdir(path.parent) == ["config.yml"]  # noqa: PTH208


def test_a_file_that_is_not_there_is_none() -> None:
    assert storage.read_private(storage.config_dir() / "config.yml") is None


@pytest.mark.parametrize("linked", ["file", "directory", "opta directory"])
def test_nothing_is_written_through_a_link(home: Path, linked: str) -> None:
    elsewhere = home / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "x").write_bytes(b"theirs")
    path = storage.state_dir() / "sub" / "x"
    link, target = {
        "file": (path, elsewhere / "x"),
        "directory": (path.parent, elsewhere),
        "opta directory": (storage.state_dir(), elsewhere),
    }[linked]
    link.parent.mkdir(parents=True)
    link.symlink_to(target)
    with pytest.raises(StorageError, match="link"):
        storage.write_private(path, b"ours")
    with pytest.raises(StorageError, match="link"):
        AppendFile(path)
    assert (elsewhere / "x").read_bytes() == b"theirs"
    assert [entry.name for entry in elsewhere.iterdir()] == ["x"]


def test_a_link_above_the_opta_directory_is_the_users_own_business(home: Path) -> None:
    (home / "dotfiles").mkdir()
    (home / ".config").symlink_to(home / "dotfiles")
    storage.write_private(storage.config_dir() / "config.yml", b"x")
    assert (home / "dotfiles/opta/config.yml").read_bytes() == b"x"


def test_no_link_inside_a_project_is_followed(home: Path) -> None:
    project = home / "project"
    project.mkdir()
    (home / "elsewhere").mkdir()
    (project / ".opta").symlink_to(home / "elsewhere")
    with pytest.raises(StorageError, match="link"):
        storage.write_private(project / ".opta" / "sub" / "x", b"x", below=project)
    assert list((home / "elsewhere").iterdir()) == []


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="needs root to give files away")
def test_what_belongs_to_another_user_is_refused() -> None:
    path = storage.state_dir() / "x"
    storage.write_private(path, b"x")
    os.chown(path, 12345, -1)
    with pytest.raises(StorageError, match="belongs to another user \\(uid 12345\\)"):
        AppendFile(path)
    with pytest.raises(StorageError, match="belongs to another user"):
        storage.read_private(path)
    os.chown(storage.state_dir(), 12345, -1)
    with pytest.raises(StorageError, match="belongs to another user"):
        storage.write_private(path, b"y")


def test_a_fifo_in_place_of_a_file_is_refused_at_once() -> None:
    path = storage.private_dir(storage.state_dir()) / "x"
    os.mkfifo(path)
    with pytest.raises(StorageError, match="not a regular file"):
        storage.read_private(path)
    with pytest.raises(StorageError, match="not a regular file"):
        AppendFile(path)


def test_a_file_in_the_way_of_a_directory_is_named(home: Path) -> None:
    (home / ".config").write_text("in the way")
    with pytest.raises(StorageError, match=r"Cannot .*\.config"):
        storage.write_private(storage.config_dir() / "x", b"x")


def test_scratch_files_are_private_unpredictable_and_deleted_when_old() -> None:
    first, second = (storage.write_scratch(b"output") for _ in range(2))
    assert first != second
    assert first.read_bytes() == b"output"
    assert mode(first) == 0o600
    old = time.time() - storage.SCRATCH_KEPT_S - 60
    os.utime(first, (old, old))
    storage.write_scratch(b"next")
    assert not first.exists()
    assert second.exists()


def test_of_kept_files_the_ones_used_last_stay() -> None:
    for number in range(storage.KEPT_FILES):
        made = storage.kept_file(f"code/{number}", "text")
        long_ago = time.time() - 100 * 24 * 3600 + number
        os.utime(made, (long_ago, long_ago))
    used = storage.kept_file("code/0", "text")
    new = storage.kept_file("code/new", "text")
    other = storage.kept_file("other", "text")
    assert {path.name for path in new.parent.iterdir()} == {
        "new", "0", *(str(number) for number in range(2, storage.KEPT_FILES))
    }  # fmt: skip
    assert all(path.read_text() == "text" for path in (used, new, other))


def test_appending_keeps_what_is_there_and_ends_a_cut_line() -> None:
    path = storage.state_dir() / "log"
    for text in (b"one\n", b"two, cu"):
        file = AppendFile(path)
        file.write(text)
        file.close()
    file = AppendFile(path, create=False)
    file.end_line()
    file.end_line()
    file.write(b"three\n")
    file.close()
    assert path.read_bytes() == b"one\ntwo, cu\nthree\n"


def test_a_file_has_one_writer_at_a_time() -> None:
    path = storage.state_dir() / "log"
    first, second = AppendFile(path), AppendFile(path)
    assert first.lock()
    assert not second.lock()
    first.close()
    assert second.lock()
    second.close()


def test_what_does_not_fit_on_the_disk_is_taken_back_whole() -> None:
    code = """
import os, resource, signal
from tools import storage
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
file = storage.AppendFile(storage.state_dir() / "log")
file.write(b"a" * 99 + b"\\n")
resource.setrlimit(resource.RLIMIT_FSIZE, (150, 150))
try:
    file.write(b"b" * 99 + b"\\n")
except storage.StorageError as error:
    print(error)
print(file.path.stat().st_size)
"""
    finished = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert finished.stderr == ""
    message, size = finished.stdout.splitlines()
    assert "log: file too large" in message
    assert size == "100"
