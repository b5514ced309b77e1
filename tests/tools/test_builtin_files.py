"""read_file, write_file, edit_file and file_operations on real files."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import pytest

from agent import tokens
from tests.support.bench import BUILTINS, Bench
from tests.support.soon import SOON_S
from tools.builtin import NAMES, all_builtins
from tools.cost import Form, tools_cost
from tools.definition import DiffDisplay, EffectKind, Outcome
from tools.files.workspace import FileProblem


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "proj")


@pytest.mark.row("E19", "E116", "E127", "E130", "E135")
def test_the_documented_set_is_there_with_its_costs_and_states():
    facts = {
        name: (builtin.definition.declared_token_cost, builtin.definition.enabled)
        for name, builtin in BUILTINS.items()
    }
    assert facts == {
        "background_job": (None, False),
        "bash_execution": (350, False),
        "edit_file": (None, True),
        "file_operations": (320, False),
        "file_search": (280, True),
        "git": (420, True),
        "read_file": (None, True),
        "run_command": (None, True),
        "write_file": (None, True),
    }
    names = [builtin.definition.name for builtin in all_builtins()]
    assert names == list(NAMES)
    assert names == sorted(names)
    said = {name: BUILTINS[name].definition.description for name in BUILTINS}
    assert said["file_operations"].startswith("Read, write, edit, list, and delete files")
    assert said["bash_execution"].startswith("Execute shell commands with permission checks")
    for tool, named in (
        ("file_search", ("Search files", "grep", "glob", "regex")),
        ("git", ("git operation", "status", "diff", "log", "commit", "branch", "checkout")),
    ):
        assert [word for word in named if word not in said[tool]] == []


def test_the_tools_that_are_on_cost_few_tokens():
    wire = [b.definition.wire for b in all_builtins() if b.definition.enabled]
    assert tools_cost(wire, Form.OPENAI_O200K, tokens.count_text).total <= 950


def test_schemas_stay_in_the_subset_every_server_takes():
    for builtin in all_builtins():
        for name, schema in builtin.definition.parameters["properties"].items():
            assert set(schema) <= {"type", "description", "enum", "items", "default"}, name
            assert schema["type"] in ("string", "integer", "number", "boolean", "array"), name
        assert set(builtin.aliases.values()) <= set(builtin.definition.parameters["properties"])


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("read_file", {"file_path": "a.py"}),
        ("read_file", {"filePath": "a.py", "offset": "1", "limit": None}),
        ("edit_file", {"file_path": "a.py", "oldString": "1", "newString": "2"}),
        ("edit_file", {"filePath": "a.py", "old_text": "1", "new_text": "2", "replaceAll": "true"}),
        ("write_file", {"filePath": "b.py", "contents": "x"}),
        ("file_search", {"query": "x", "directory": "."}),
        ("file_search", {"pattern": "x", "include": "*.py"}),
        ("run_command", {"cmd": "true", "cwd": "."}),
        ("git", {"subcommand": "status"}),
    ],
)
async def test_other_spellings_of_arguments_are_understood(bench, tool, arguments):
    bench.file("a.py", "x = 1\n")
    if tool == "git":
        await bench.call("run_command", command="git init -q .")
    result = await bench.call(tool, **arguments)
    assert result.outcome is Outcome.OK, result.text


async def test_reading_numbers_lines_and_tells_the_state(bench):
    bench.file("a.txt", "".join(f"line {n}\n" for n in range(1, 31)))
    text = await bench.text("read_file", path="a.txt", offset=3, limit=2)
    assert text == "3\tline 3\n4\tline 4\n[lines 3-4 of 30; next offset 5]"
    text = await bench.text("read_file", path="a.txt", offset=30)
    assert text == "30\tline 30\n[lines 30-30 of 30; end of file]"
    assert "behind the end" in await bench.text("read_file", path="a.txt", offset=31)
    assert "at least 1" in await bench.text("read_file", path="a.txt", limit=0)


async def test_reading_stops_at_lines_bytes_and_long_lines(bench):
    bench.file("many.txt", "x\n" * 5000)
    assert "lines 1-2000 of 5,000; next offset 2001" in await bench.text(
        "read_file", path="many.txt"
    )
    bench.file("wide.txt", "y" * 1000 + "\n" + "z" * 5000 + "\n" + ("w" * 999 + "\n") * 500)
    text = await bench.text("read_file", path="wide.txt")
    assert len(text) < 52_000
    assert "z" * 2000 + "… [line cut: 5,000 characters" in text
    assert "next offset" in text


async def test_an_empty_file_a_directory_and_a_missing_file_are_said(bench):
    bench.file("empty.txt", "")
    bench.file("src/config.py", "x")
    assert await bench.text("read_file", path="empty.txt") == "empty.txt is empty (0 lines)."
    assert "file_search" in await bench.text("read_file", path="src")
    missing = await bench.call("read_file", path="src/confg.py")
    assert missing.outcome is Outcome.ERROR
    assert "Similar: src/config.py" in missing.text
    assert "src/x does not exist either" in await bench.text("read_file", path="src/x/y.py")


async def test_images_are_refused_with_a_reason_and_binaries_described(bench):
    bench.file("a.png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(100))
    bench.file("a.bin", b"\x7fELF\x02\x01" + bytes(200))
    image = await bench.call("read_file", path="a.png")
    assert image.outcome is Outcome.ERROR
    assert "PNG image" in image.text
    text = await bench.text("read_file", path="a.bin")
    assert "ELF program, 206 bytes" in text
    assert "7f 45 4c 46" in text


@pytest.mark.parametrize("codec", ["utf-16", "utf-8-sig", "latin-1", "utf-16-le"])
async def test_other_encodings_are_read(bench, codec):
    bench.file("a.txt", "gr\u00fc\u00df dich\r\nzeile zwei\r\n".encode(codec))
    text = await bench.text("read_file", path="a.txt")
    assert text.startswith("1\tgr\u00fc\u00df dich\n2\tzeile zwei\n[lines 1-2 of 2; end of file")


async def test_control_sequences_of_a_file_do_not_reach_the_model(bench):
    bench.file("a.txt", "a\x1b]0;title\x07b\x1b[31mc\n")
    assert (await bench.text("read_file", path="a.txt")).startswith("1\tabc\n")


async def test_of_a_huge_file_only_what_is_needed_is_read(bench):
    path = bench.file("huge.txt", "first\nsecond\n" + "long " * 2000 + "\nfourth\n")
    with path.open("r+b") as file:
        file.truncate(8 * 1024**3)
    started = time.monotonic()
    text = await bench.text("read_file", path="huge.txt", offset=2, limit=3)
    assert time.monotonic() - started < SOON_S
    assert text.startswith("2\tsecond\n3\tlong long")
    assert "4\tfourth" in text
    assert "8,589,934,592 bytes in all, lines not counted; next offset 5" in text


async def test_the_end_of_a_large_file_is_told(bench):
    bench.file("large.txt", ("n" * 99 + "\n") * 200_000)
    text = await bench.text("read_file", path="large.txt", offset=199_999)
    assert "lines 199999-200000 of 200,000; end of file" in text
    bench.file("wide16.txt", ("n" * 99 + "\n").encode("utf-16-le") * 100_000)
    text = await bench.text("read_file", path="wide16.txt", offset=99_999)
    assert "lines 99999-100000 of 100,000; end of file; utf-16-le" in text


async def test_writing_makes_a_file_and_shows_it_as_a_diff(bench):
    prepared = bench.prepare("write_file", path="new/a.py", content="x = 1\n")
    preview = prepared[0].preview
    assert isinstance(preview, DiffDisplay)
    assert preview.created
    assert "+x = 1" in preview.diff
    assert not (bench.root / "new").exists()
    result = await bench.finish(prepared)
    assert result.text == "Created new/a.py (1 line, 6 bytes)."
    assert (bench.root / "new/a.py").read_text() == "x = 1\n"


async def test_replacing_keeps_line_ends_mark_and_encoding(bench):
    path = bench.file("a.txt", "\ufeffone\r\ntwo\r\n".encode("utf-16-le"))
    refused = await bench.call("write_file", path="a.txt", content="three\n")
    assert "Read it first" in refused.text
    await bench.call("read_file", path="a.txt")
    result = await bench.call("write_file", path="a.txt", content="three\nfour\n")
    assert result.text.startswith("Replaced a.txt (2 lines")
    assert path.read_bytes() == "\ufeffthree\r\nfour\r\n".encode("utf-16-le")


async def test_text_that_the_old_encoding_cannot_hold_makes_it_utf8_and_says_so(bench):
    path = bench.file("a.txt", "gr\u00fc\u00df\n".encode("latin-1"))
    await bench.call("read_file", path="a.txt")
    assert "UTF-8 now" in await bench.text("write_file", path="a.txt", content="\u20ac\n")
    assert path.read_text(encoding="utf-8") == "\u20ac\n"


async def test_an_edit_changes_only_its_place_and_returns_the_diff(bench):
    path = bench.file("a.py", b"x = 1\r\n\ty = '\xe9'\r\nz = 3")
    result = await bench.call("edit_file", path="a.py", old_string="x = 1", new_string="x = 2\nw")
    assert path.read_bytes() == b"x = 2\r\nw\r\n\ty = '\xe9'\r\nz = 3"
    assert "-x = 1\n+x = 2\n+w" in result.text
    assert isinstance(result.display, DiffDisplay)


async def test_an_edit_says_how_it_matched_when_not_exactly(bench):
    bench.file("a.py", "if a:\n        b()\n")
    await bench.call("read_file", path="a.py")
    text = await bench.text(
        "edit_file",
        path="a.py",
        old_string="  if a:\n          b()",
        new_string="  if c:\n          d()",
    )
    assert "indentation shifted, check the diff" in text
    assert (bench.root / "a.py").read_text() == "if c:\n        d()\n"


async def test_a_loose_match_in_a_file_never_read_is_refused(bench):
    path = bench.file("a.py", "say(\u2018x\u2019)\n")
    text = await bench.text("edit_file", path="a.py", old_string="say('x')", new_string="q")
    assert "Read it first" in text
    assert path.read_text() == "say(\u2018x\u2019)\n"


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("retrun 1", "q", "The closest lines are:\n2\t    return 1"),
        ("nothing alike at all <xyz>", "q", "Nothing in the file is similar"),
        ("gone = 1", "return 1", "already there (line 2)"),
        ("", "q", "old_string is empty"),
        ("return 1", "return 1", "are the same"),
        ("e", "q", "times in a.py, at lines 1, 2"),
    ],
)
async def test_a_failed_edit_changes_nothing_and_tells_the_next_step(bench, old, new, expected):
    path = bench.file("a.py", "def f():\n    return 1\n")
    result = await bench.call("edit_file", path="a.py", old_string=old, new_string=new)
    assert result.outcome is Outcome.ERROR
    assert expected in result.text
    assert path.read_text() == "def f():\n    return 1\n"


async def test_replace_all_takes_every_exact_place(bench):
    path = bench.file("a.py", "a a\na\n")
    text = await bench.text(
        "edit_file", path="a.py", old_string="a", new_string="b", replace_all=True
    )
    assert "3 places" in text
    assert path.read_text() == "b b\nb\n"


async def test_only_new_syntax_errors_are_told(bench):
    bench.file("a.py", "x = 1\n")
    bench.file("b.json", '{"a": 1}\n')
    bench.file("broken.py", "x = (\ny = 1\n")
    assert "Syntax error after this change: line 1" in await bench.text(
        "edit_file", path="a.py", old_string="x = 1", new_string="x = ("
    )
    assert "Syntax error after this change: line 1 column" in await bench.text(
        "edit_file", path="b.json", old_string='"a"', new_string="a"
    )
    assert "Syntax" not in await bench.text(
        "edit_file", path="broken.py", old_string="y = 1", new_string="y = 2"
    )
    assert "Syntax" not in await bench.text(
        "write_file", path="c.py", content='import re\nre.compile("\\d")\n'
    )


@pytest.mark.parametrize("tool", ["edit_file", "write_file"])
async def test_what_changed_between_question_and_run_is_not_overwritten(bench, tool):
    path = bench.file("a.py", "one\n")
    await bench.call("read_file", path="a.py")
    arguments = (
        {"content": "2"} if tool == "write_file" else {"old_string": "one", "new_string": "2"}
    )
    prepared = bench.prepare(tool, path="a.py", **arguments)
    path.write_text("one\nsomebody else's line\n")
    # Reading it meanwhile must not make the approved diff valid again.
    await bench.call("read_file", path="a.py")
    result = await bench.finish(prepared)
    assert "changed after this call was made" in result.text
    assert path.read_text() == "one\nsomebody else's line\n"


async def test_a_link_swapped_in_before_an_edit_runs_makes_it_fail(bench):
    path = bench.file("a.py", "one\n")
    theirs = bench.root.parent / "theirs"
    theirs.write_text("one\n")
    prepared = bench.prepare("edit_file", path="a.py", old_string="one", new_string="two")
    path.unlink()
    path.symlink_to(theirs)
    result = await bench.finish(prepared)
    assert "link" in result.text
    assert theirs.read_text() == "one\n"


def test_a_failing_edit_outside_asks_before_it_tells_what_is_in_the_file(bench):
    secret = bench.root.parent / "secret.txt"
    secret.write_text("password = hunter2\n")
    invocation, _ = bench.prepare(
        "edit_file", path=str(secret), old_string="password = hunter1", new_string="x"
    )
    (effect,) = invocation.effects
    assert (effect.kind, effect.inside) == (EffectKind.READ, False)
    assert "hunter" not in str(invocation)


def test_effects_carry_the_real_path_and_what_is_special_about_it(bench):
    (bench.root / "out").symlink_to("/usr/lib")
    (effect,) = bench.prepare("write_file", path="out/x", content="y")[0].effects
    assert (effect.value, effect.inside) == ("/usr/lib/x", False)
    (effect,) = bench.prepare("write_file", path=".git/hooks/post-commit", content="y")[0].effects
    assert effect.protected
    (effect,) = bench.prepare("read_file", path=".env")[0].effects
    assert effect.sensitive


@pytest.mark.parametrize("name", ["new\nline.txt", "caf\udce9.txt", "tab\there", "back\\slash"])
async def test_hostile_names_are_shown_safely_and_found_as_shown(bench, name):
    (bench.root / name).write_bytes(b"content\n")
    listing = await bench.text("file_search", pattern="*", mode="glob")
    shown = listing.splitlines()[0]
    assert shown.isprintable()
    assert "1\tcontent" in await bench.text("read_file", path=shown)


async def test_a_read_only_file_is_not_replaced(bench):
    if os.geteuid() == 0:
        pytest.skip("root may write read-only files")
    path = bench.file("a.txt", "x")
    path.chmod(0o444)
    text = await bench.text("edit_file", path="a.txt", old_string="x", new_string="y")
    assert "read-only" in text


@pytest.mark.row("E117", "E118", "E119", "E120", "E123", "E125")
async def test_file_operations_look_as_documented(bench):
    bench.file("d/a.txt", "hello\n")
    bench.file("d/sub/x", "")
    parameters = BUILTINS["file_operations"].definition.parameters["properties"]
    assert parameters["operation"]["enum"] == ["read", "write", "edit", "list", "delete", "exists"]
    assert list(parameters) == ["operation", "path", "content", "pattern", "replacement", "backup"]
    assert parameters["backup"]["default"] is True

    async def look(operation: str, path: str) -> tuple[str, bool]:
        result = await bench.call("file_operations", operation=operation, path=path)
        return result.text, result.success

    assert await look("read", "d/a.txt") == ("Content of d/a.txt:\n\nhello\n", True)
    text, success = await look("read", "d/b.txt")
    assert (text, success) == ("Failed to read d/b.txt: There is no file d/b.txt.", False)
    assert await look("list", "d") == ("Contents of d:\n\na.txt\nsub/", True)
    assert await look("exists", "d/a.txt") == ("d/a.txt exists (file)", True)
    assert await look("exists", "nope") == ("nope does not exist", True)


@pytest.mark.row("E121", "E122", "E124")
async def test_file_operations_change_with_a_backup_unless_told(bench):
    path = bench.file("a.txt", "one one\n")

    async def do(operation: str, **arguments: object) -> str:
        return await bench.text("file_operations", operation=operation, path="a.txt", **arguments)

    assert "2 places" in await do("edit", pattern="one", replacement="two")
    assert (path.read_text(), (bench.root / "a.txt.bak").read_text()) == ("two two\n", "one one\n")
    assert "does not stand" in await do("edit", pattern="zzz", replacement="two")
    await do("write", content="three\n")
    assert (bench.root / "a.txt.bak1").read_text() == "two two\n"
    await do("write", content="four\n", backup=False)
    assert not (bench.root / "a.txt.bak2").exists()
    await do("delete")
    assert not path.exists()
    assert (bench.root / "a.txt.bak2").read_text() == "four\n"


@pytest.mark.row("E126")
@pytest.mark.parametrize("tool", ["file_operations", "git"])
async def test_an_unknown_operation_is_refused_with_those_that_there_are(bench, tool):
    result = await bench.call(tool, operation="chmod", path="x")
    assert not result.success
    known = ", ".join(
        f'"{name}"'
        for name in BUILTINS[tool].definition.parameters["properties"]["operation"]["enum"]
    )
    assert f'- $.operation: Unknown operation "chmod", wanted one of {known}' in result.text


@pytest.mark.parametrize("tool", ["read_file", "write_file", "edit_file", "file_search"])
def test_paths_that_are_no_paths_are_refused_before_anything_happens(bench, tool):
    arguments = {
        "path": "a\0b",
        "content": "",
        "old_string": "a",
        "new_string": "b",
        "pattern": "x",
    }
    with pytest.raises(FileProblem, match="NUL"):
        bench.prepare(tool, **arguments)


async def test_many_reads_at_once_do_not_disturb_each_other(bench):
    for number in range(20):
        bench.file(f"f{number}.txt", f"content {number}\n")
    texts = await asyncio.gather(
        *(bench.text("read_file", path=f"f{number}.txt") for number in range(20))
    )
    assert [f"content {number}\n" in text for number, text in enumerate(texts)] == [True] * 20
