"""What a turn changed in files is taken back and put again: by content, without git."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import stat
import time
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.undo import FileHistory, left, told, told_all
from tests.support.calls import make_invocation, reads, runs, writes
from tools import storage
from tools.files import snapshot, versions
from tools.files.workspace import Workspace
from tools.permissions.gate import PermissionGate
from tools.permissions.rules import RuleSet

COMMAND = make_invocation(runs("make"))


class Project:
    """A directory, and turns that change it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.told: list[str] = []
        self.clock = time.time()
        self.open()

    def open(self) -> None:
        workspace = Workspace(self.root)
        self.files = FileHistory(workspace, PermissionGate(RuleSet((), self.root), None))
        self.files.tell = self.told.append

    async def turn(self, change, title="change it", session="s", invocation=COMMAND):
        self.clock += 1
        self.files.begin(session, title, self.clock)
        await self.files.before_change(invocation)
        change()
        self.files.end()
        await self.files.settle()

    async def undo(self, session="s"):
        return await self.files.undo(session)

    async def redo(self, session="s"):
        return await self.files.redo(session)

    def write(self, name: str, text: str | bytes, mode: int | None = None) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        if mode is not None:
            path.chmod(mode)
        return path

    def state(self) -> dict[str, object]:
        """Everything below the directory: content and mode of files, directories."""
        found: dict[str, object] = {}
        for path in sorted(self.root.rglob("*")):
            name = path.relative_to(self.root).as_posix()
            if path.is_symlink():
                found[name] = path.readlink()
            elif path.is_dir():
                found[name] = None
            else:
                found[name] = (path.read_bytes(), stat.S_IMODE(path.stat().st_mode))
        return found


@pytest.fixture
async def project(tmp_path):
    root = tmp_path.resolve() / "project"
    root.mkdir()
    made = Project(root)
    yield made
    await made.files.aclose()


async def test_what_a_turn_changed_made_and_deleted_is_taken_back_and_put_again(project):
    project.write("a.py", "one\n")
    project.write("run.sh", "#!/bin/sh\n", 0o644)
    project.write("old/deep/gone.txt", "bytes \xff\x00".encode("latin-1"))
    before = project.state()

    def change():
        project.write("a.py", "two\n")
        (project.root / "run.sh").chmod(0o755)
        shutil.rmtree(project.root / "old")
        project.write("new/dir/b.py", "made\n")
        (project.root / "empty").mkdir()

    await project.turn(change)
    after = project.state()
    assert before != after
    restored = await project.undo()
    assert project.state() == before
    assert restored.done == (
        "a.py (changed)", "new/dir/b.py (deleted)", "old/deep/gone.txt (made again)",
        "run.sh (changed)",
    )  # fmt: skip
    assert not restored.kept
    assert (await project.redo()).title == "change it"
    assert project.state() == after
    await project.undo()
    assert project.state() == before


async def test_turns_are_taken_back_one_by_one_and_a_new_turn_ends_the_way_forward(project):
    path = project.write("f", "0")
    for number in "123":
        await project.turn(lambda number=number: path.write_text(number), title=f"turn {number}")
    assert (await project.undo()).title == "turn 3"
    assert (await project.undo()).title == "turn 2"
    assert path.read_text() == "1"
    assert (await project.redo()).title == "turn 2"
    await project.turn(lambda: path.write_text("4"), title="turn 4")
    assert await project.redo() is None
    assert [(await project.undo()).title for _ in range(3)] == ["turn 4", "turn 2", "turn 1"]
    assert path.read_text() == "0"
    assert await project.undo() is None
    assert "nothing to take back" in told(None, undoing=True)


async def test_all_since_a_moment_is_taken_back_and_put_again_turn_by_turn(project):
    path = project.write("f", "0")
    moments = []
    for number in "1234":
        moments.append(project.clock + 1)

        def change(number=number):
            path.write_text(number)
            project.write(f"new/{number}", "made")

        await project.turn(change, title=f"turn {number}")
        await project.turn(lambda: None, title="changes nothing")
    await project.turn(lambda: project.write("g", "1"), session="other")
    await project.undo()
    assert await project.files.changed_since("s", moments[1]) == ["f", "new/2", "new/3"]
    restored = await project.files.undo_since("s", moments[1])
    assert [one.title for one in restored] == ["turn 3", "turn 2"]
    assert path.read_text() == "1"
    assert [found.name for found in (project.root / "new").iterdir()] == ["1"]
    assert (project.root / "g").exists(), "another session made it"
    assert told_all(restored).endswith("\nTo reverse it: /redo, 2 times")
    assert await project.files.changed_since("s", moments[1]) == []
    assert [(await project.redo()).title for _ in range(2)] == ["turn 2", "turn 3"]
    assert path.read_text() == "3"
    assert await project.files.changed_since("s", project.clock + 1) == []


async def test_a_turn_that_began_after_one_whose_clock_was_set_back_is_taken_back_too(project):
    path = project.write("f", "0")
    moment = project.clock + 1
    await project.turn(lambda: path.write_text("1"), title="turn 1")
    project.clock -= 3600
    await project.turn(lambda: path.write_text("2"), title="turn 2")
    assert len(await project.files.undo_since("s", moment)) == 2
    assert path.read_text() == "0"


async def test_what_cannot_be_taken_back_of_one_turn_keeps_no_other(project):
    mine, theirs = project.write("mine", "0"), project.write("theirs", "0")
    moment = project.clock + 1
    await project.turn(lambda: (mine.write_text("1"), theirs.write_text("1")), title="turn 1")
    await project.turn(lambda: mine.write_text("2"), title="turn 2")
    mine.write_text("by hand")
    restored = await project.files.undo_since("s", moment)
    assert (mine.read_text(), theirs.read_text()) == ("by hand", "0")
    assert [one.kept for one in restored] == [(("mine", "was changed since"),)] * 2
    assert left(restored).splitlines() == ["Left as they are:", "  mine: was changed since"]


async def test_what_the_person_did_in_between_is_left_and_named(project):
    mine, yours = project.write("mine", "0"), project.write("yours", "0")

    def change():
        mine.write_text("1")
        yours.write_text("1")
        project.write("made", "1")

    await project.turn(change)
    mine.write_text("by hand")
    (project.root / "made").unlink()
    restored = await project.undo()
    assert (mine.read_text(), yours.read_text()) == ("by hand", "0")
    assert restored.kept == (("made", "was changed since"), ("mine", "was changed since"))
    assert "Left as they are:\n  made: was changed since" in told(restored, undoing=True)


async def test_it_works_after_a_restart_and_sessions_are_apart(project):
    path = project.write("f", "0")
    await project.turn(lambda: path.write_text("1"), session="one")
    await project.turn(lambda: project.write("g", "1"), session="two")
    await project.files.aclose()
    project.open()
    assert (await project.undo("one")).done == ("f (changed)",)
    assert (await project.undo("two")).done == ("g (deleted)",)
    assert project.state() == {"f": (b"0", 0o644)}


async def test_a_turn_that_only_reads_or_changes_nothing_is_none_to_take_back(project):
    path = project.write("f", "0")
    await project.turn(lambda: None)
    await project.turn(lambda: path.write_text("1"), invocation=make_invocation(reads("f")))
    assert await project.undo() is None


async def test_what_the_person_wrote_between_turns_belongs_to_no_turn(project):
    path = project.write("f", "0")
    await project.turn(lambda: project.write("g", "1"))
    path.write_text("by hand")
    await project.turn(lambda: project.write("h", "1"))
    assert (await project.undo()).done == ("h (deleted)",)
    assert (await project.undo()).done == ("g (deleted)",)
    assert path.read_text() == "by hand"


# What is not followed, and not kept (R21, R39)


async def test_r21_links_are_neither_followed_nor_written_through(project, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("0")
    project.write("real/f", "0")
    (project.root / "link").symlink_to(outside)

    def change():
        (outside / "secret").write_text("1")
        (project.root / "real/f").write_text("1")
        (project.root / "link").unlink()
        (project.root / "link").symlink_to(tmp_path)

    await project.turn(change)
    # Now the directory itself becomes a link to a place outside.
    (project.root / "real").rename(outside / "real")
    (project.root / "real").symlink_to(outside / "real")
    restored = await project.undo()
    assert (outside / "secret").read_text() == "1"
    assert (outside / "real/f").read_text() == "1"
    assert dict(restored.kept) == {
        "link": "is a link", "real/f": "Cannot read real/f: it now leads through a link (real).",
    }  # fmt: skip


async def test_r21_hard_links_are_left_as_they_are_and_named(project, tmp_path):
    path = project.write("f", "0")
    other = tmp_path / "other"
    await project.turn(lambda: path.write_text("1"))
    os.link(path, other)
    restored = await project.undo()
    assert other.read_text() == "1"
    assert restored.kept == (("f", "has several names (hard links)"),)
    await project.turn(lambda: path.write_text("2"))
    assert (await project.undo()).kept == (("f", "has several names (hard links)"),)
    assert other.read_text() == "2"


async def test_ignored_files_large_files_and_secrets_are_not_kept(project, monkeypatch):
    monkeypatch.setattr(snapshot, "MAX_FILE_BYTES", 1000)
    project.write(".gitignore", "build/\n*.log\n")
    names = ("build/x", "a.log", ".env", "big.bin", "src/f")
    for name in names:
        project.write(name, "canary" if name != "big.bin" else "x" * 2000)

    def change():
        for name in names:
            project.write(name, "1" if name != "big.bin" else "y" * 2000)

    await project.turn(change)
    restored = await project.undo()
    assert restored.done == ("src/f (changed)",)
    assert restored.kept == ((".env", "may hold secrets"), ("big.bin", "is larger than 0 MB"))
    database = next((storage.state_dir() / "undo").iterdir())
    assert stat.S_IMODE(database.stat().st_mode) == 0o600
    with sqlite3.connect(database) as reading:
        paths = [os.fsdecode(row[0]) for row in reading.execute("SELECT path FROM seen")]
    assert sorted(paths) == [".gitignore", "src/f"]


async def test_r21_what_was_ignored_before_a_turn_is_not_taken_for_new(project):
    project.write(".gitignore", "build/\n*.log\n")
    for name in ("build/deep/x", "a.log", "src/f"):
        project.write(name, "work of hours")
    before = project.state()

    def change():
        project.write(".gitignore", "")
        project.write("src/f", "1")
        project.write("new.log", "1")

    await project.turn(change)
    restored = await project.undo()
    assert project.state() == before
    assert [path for path, _ in restored.kept] == ["a.log", "build"]
    assert (await project.redo()).done == (".gitignore (changed)", "new.log (made again)",
                                           "src/f (changed)")  # fmt: skip
    assert (project.root / "build/deep/x").read_text() == "work of hours"


async def test_r21_what_is_ignored_after_a_turn_is_not_taken_for_deleted(project):
    project.write("a.log", "0")
    await project.turn(lambda: project.write(".gitignore", "*.log\n"))
    restored = await project.undo()
    assert restored.done == (".gitignore (deleted)",)
    assert [path for path, _ in restored.kept] == ["a.log"]
    assert (project.root / "a.log").read_text() == "0"


async def test_r21_what_could_not_be_read_before_a_turn_is_not_taken_for_new(project, monkeypatch):
    project.write("closed/x", "work of hours")
    project.write("f", "0")
    closed = True
    opened = os.open

    def refusing(path, *rest, **named):
        if closed and path == "closed":
            raise PermissionError(13, "Permission denied", path)
        return opened(path, *rest, **named)

    def change():
        nonlocal closed
        closed = False
        project.write("f", "1")

    monkeypatch.setattr(os, "open", refusing)
    await project.turn(change)
    restored = await project.undo()
    assert (project.root / "closed/x").read_text() == "work of hours"
    assert (project.root / "f").read_text() == "0"
    assert [path for path, _ in restored.kept] == ["closed"]


async def test_a_change_within_the_same_tick_of_the_clock_is_seen(project):
    path = project.write("f", "0")
    found = path.stat()

    def change():
        path.write_text("1")
        os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))

    await project.turn(change)
    assert (await project.undo()).done == ("f (changed)",)


async def test_where_there_are_too_many_files_those_that_tools_name_are_kept(project, monkeypatch):
    monkeypatch.setattr(snapshot, "MAX_FILES", 3)
    for number in range(10):
        project.write(f"many/{number}", "0")
    target = project.root / "many/5"

    def change():
        target.write_text("1")
        (project.root / "many/6").write_text("1")

    named = make_invocation(writes(str(target)), writes("/elsewhere", inside=False))
    await project.turn(change, invocation=named)
    assert (await project.undo()).done == ("many/5 (changed)",)
    assert target.read_text() == "0"


async def test_a_store_that_cannot_be_used_costs_a_line_and_no_turn(project):
    path = project.write("f", "0")
    (storage.state_dir()).mkdir(parents=True, exist_ok=True)
    (storage.state_dir() / "undo").write_text("in the way")
    await project.turn(lambda: path.write_text("1"))
    assert len(project.told) == 1
    assert project.told[0].startswith("/undo is not available in this session: ")
    assert path.read_text() == "1"
    with pytest.raises(versions.VersionsError):
        await project.undo()


async def test_names_that_are_no_utf8_are_taken_back(project):
    name = os.fsdecode(b"n\xff.txt")
    await project.turn(lambda: project.write(name, "1"))
    assert (await project.undo()).done == ("n\\xff.txt (deleted)",)
    assert project.state() == {}


async def test_a_damaged_content_is_not_put_back(project):
    path = project.write("f", "0")
    await project.turn(lambda: path.write_text("1"))
    await project.files.aclose()
    database = next((storage.state_dir() / "undo").iterdir())
    with sqlite3.connect(database) as writing:
        writing.execute("UPDATE content SET data = x'00'")
    project.open()
    restored = await project.undo()
    assert not restored.done
    assert [name for name, _ in restored.kept] == ["f"]
    assert path.read_text() == "1"


async def test_old_turns_and_what_only_they_need_are_forgotten(project):
    path = project.write("f", "first")
    await project.turn(lambda: path.write_text("second"))
    await project.turn(lambda: path.write_text("third"))
    await project.files.aclose()
    database = next((storage.state_dir() / "undo").iterdir())
    with sqlite3.connect(database) as writing:
        writing.execute("UPDATE turns SET made = 0 WHERE id = 1")
    project.open()
    assert (await project.undo()).done == ("f (changed)",)
    assert await project.undo() is None
    with sqlite3.connect(database) as reading:
        assert reading.execute("SELECT count(*) FROM content").fetchone() == (2,)


@asynccontextmanager
async def fresh_project(root):
    root.mkdir()
    made = Project(root.resolve())
    try:
        yield made
    finally:
        await made.files.aclose()


_NAME = st.sampled_from(["a", "b", "d/a", "d/b", "d/e/a", "x/y/z"])
_ACTION = st.one_of(
    st.tuples(st.just("write"), _NAME, st.binary(max_size=5)),
    st.tuples(st.just("remove"), _NAME, st.just(b"")),
    st.tuples(st.just("mode"), _NAME, st.just(b"")),
)


def act(project, action):
    kind, name, data = action
    path = project.root / name
    try:
        if kind == "write":
            project.write(name, data)
        elif kind == "mode":
            path.chmod(0o755)
        elif path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    except OSError:
        # A file where a directory is wanted, or nothing to remove: no change.
        pass


@settings(max_examples=25, deadline=None)
@given(turns=st.lists(st.lists(_ACTION, max_size=5), min_size=1, max_size=4))
def test_any_turns_taken_back_give_the_state_before_each(tmp_path_factory, turns):
    async def play():
        async with fresh_project(tmp_path_factory.mktemp("undo") / "p") as project:
            project.write("a", "0")
            project.write("d/e/a", "0")
            states = [project.state()]
            for actions in turns:
                await project.turn(lambda actions=actions: [act(project, a) for a in actions])
                if project.state() != states[-1]:
                    states.append(project.state())
            for state in reversed(states[:-1]):
                assert not (await project.undo()).kept
                assert project.state() == state
            for state in states[1:]:
                assert not (await project.redo()).kept
                assert project.state() == state

    asyncio.run(play())
