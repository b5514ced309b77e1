"""Where tool files are found, and what is said of those that cannot be used."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from tests.support.soon import SOON_S
from tools.definition import Scope
from tools.sources.files import ToolFiles, tool_places


@pytest.fixture
def places(tmp_path):
    return {
        Scope.LOCAL: tmp_path / "project" / ".opta" / "tools",
        Scope.USER: tmp_path / "config" / "tools",
        Scope.GLOBAL: tmp_path / "etc" / "tools",
    }


def source(places, trusted=True):
    project = places[Scope.LOCAL].parent.parent if trusted else None
    return ToolFiles(tool_places(project, places[Scope.USER].parent, places[Scope.GLOBAL].parent))


def write(directory: Path, file: str, name: str | None = None, **changes) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    data = {
        "name": name or file.partition(".")[0],
        "description": "d",
        "parameters": {"type": "object", "properties": {}},
        "command": "true",
    }
    path = directory / file
    path.write_text(json.dumps(data | changes, indent=1))
    return path


def names(files):
    return [tool.name for tool in files.load()[0]]


@pytest.mark.row("A8", "A34")
def test_json_files_of_the_project_are_loaded_and_other_files_ignored(places):
    write(places[Scope.LOCAL], "a.json")
    for ignored in ("readme.md", "a.txt", "json", ".hidden.json", "a.json~"):
        write(places[Scope.LOCAL], ignored, "ignored")
    definitions, problems = source(places).load()
    assert [(d.name, d.origin.scope) for d in definitions] == [("a", Scope.LOCAL)]
    assert problems == []


@pytest.mark.row("A39")
def test_code_files_are_neither_loaded_nor_run(places, tmp_path):
    for file in ("evil.js", "evil.ts", "evil.py", "evil.sh"):
        write(places[Scope.LOCAL], file)
    assert source(places).load() == ([], [])


@pytest.mark.row("A9")
def test_files_of_the_user_are_loaded_in_every_project(places):
    write(places[Scope.USER], "b.json")
    assert names(source(places)) == ["b"]
    assert names(source(places, trusted=False)) == ["b"]


@pytest.mark.row("A11")
def test_without_any_directory_there_are_no_tools_and_no_words(places):
    assert source(places).load() == ([], [])


@pytest.mark.row("A12")
def test_tools_come_by_scope_and_then_by_file_name(places):
    for scope, file in [
        (Scope.GLOBAL, "a.json"), (Scope.USER, "z.json"), (Scope.USER, "b.json"),
        (Scope.LOCAL, "y.json"), (Scope.LOCAL, "10.json"), (Scope.LOCAL, "9.json"),
    ]:  # fmt: skip
        write(places[scope], file, f"{scope}-{file[:-5]}")
    assert names(source(places)) == [
        "local-10", "local-9", "local-y", "user-b", "user-z", "global-a",
    ]  # fmt: skip


def test_without_trust_no_file_of_the_project_is_read_good_or_bad(places):
    write(places[Scope.LOCAL], "a.json")
    (places[Scope.LOCAL] / "broken.json").write_text("{")
    assert source(places, trusted=False).load() == ([], [])


@pytest.mark.row("A1", "A29")
def test_a_bad_file_is_one_line_and_the_others_load(places):
    write(places[Scope.LOCAL], "a.json")
    write(places[Scope.LOCAL], "c.json", command="")
    (places[Scope.LOCAL] / "b.json").write_text('{\n  "name": nothing\n}')
    definitions, problems = source(places).load()
    assert [d.name for d in definitions] == ["a"]
    assert [(p.path.name, p.line, p.warning) for p in problems] == [
        ("b.json", 2, False), ("c.json", 8, False),
    ]  # fmt: skip
    assert all("\n" not in str(p) and str(p.path) in str(p) for p in problems)


def test_what_is_no_readable_file_is_one_clear_line(places):
    local = places[Scope.LOCAL]
    write(local, "good.json")
    (local / "dir.json").mkdir()
    (local / "dangling.json").symlink_to("nowhere")
    (local / "loop.json").symlink_to("loop.json")
    os.mkfifo(local / "fifo.json")
    (local / "big.json").write_bytes(b" " * 10_000_000)
    (local / "latin.json").write_bytes(b'{"name": "\xe9"}')
    started = time.monotonic()
    definitions, problems = source(places).load()
    assert time.monotonic() - started < SOON_S
    assert [d.name for d in definitions] == ["good"]
    said = {p.path.name: p.message for p in problems}
    assert "a link to nothing (nowhere)" in said["dangling.json"]
    assert "a link that leads back to itself (loop.json)" in said["loop.json"]
    assert "a directory" in said["dir.json"]
    assert "a FIFO" in said["fifo.json"]
    assert "10,000,000 bytes" in said["big.json"]
    assert "not UTF-8" in said["latin.json"]
    assert len(said) == len(problems) == 6


def test_a_tools_directory_that_is_a_file_is_told(places):
    places[Scope.USER].parent.mkdir(parents=True)
    places[Scope.USER].write_text("")
    (problem,) = source(places).load()[1]
    assert problem.path == places[Scope.USER]


def test_a_name_that_is_not_utf8_can_be_told(places):
    places[Scope.LOCAL].mkdir(parents=True)
    bad = os.fsencode(places[Scope.LOCAL]) + b"/\xff.json"
    with open(bad, "w") as file:
        file.write("{")
    (problem,) = source(places).load()[1]
    assert str(problem).encode()


def test_edits_additions_and_removals_show_at_the_next_load(places):
    files = source(places)
    first = write(places[Scope.LOCAL], "a.json")
    assert names(files) == ["a"]
    write(places[Scope.LOCAL], "b.json")
    write(places[Scope.LOCAL], "a.json", "renamed")
    assert names(files) == ["renamed", "b"]
    first.write_text("{")
    assert names(files) == ["b"]
    assert len(files.load()[1]) == 1
    first.unlink()
    assert files.load()[1] == []


def test_an_edit_that_keeps_time_and_size_is_seen(places):
    files = source(places)
    path = write(places[Scope.LOCAL], "a.json", "one")
    stamp = path.stat()
    assert names(files) == ["one"]
    other = write(places[Scope.LOCAL], "b.txt", "two")
    os.utime(other, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    other.replace(path)
    assert path.stat().st_size == stamp.st_size
    assert names(files) == ["two"]


def test_unchanged_files_are_not_read_again(places):
    files = source(places)
    for number in range(1000):
        write(places[Scope.USER], f"t{number:04}.json")
    first = files.load()[0]
    again = files.load()[0]
    assert all(one is other for one, other in zip(first, again, strict=True))


def test_links_to_what_never_ends_or_never_answers_are_told(places):
    local = places[Scope.LOCAL]
    write(local, "good.json")
    targets = ("/dev/zero", "/dev/tty", "/dev/random", "/proc/kmsg", "/proc/self/mem")
    there = [target for target in targets if os.path.lexists(target)]
    for target in there:
        (local / f"{target.rpartition('/')[2]}.json").symlink_to(target)
    definitions, problems = source(places).load()
    assert [d.name for d in definitions] == ["good"]
    assert {p.path.stem for p in problems} == {target.rpartition("/")[2] for target in there}
