"""Completion, history, menus, the status lines and the editor, without a terminal."""

from __future__ import annotations

import stat
from collections.abc import Sequence
from pathlib import Path

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.utils import get_cwidth

from agent.context import mentions
from agent.ui.activity import toolbar
from agent.ui.completion import InputCompleter, best
from agent.ui.editor import EditorError, edit
from agent.ui.file_index import FileIndex, walk
from agent.ui.history import KEPT_BYTES, InputHistory
from agent.ui.menu import Menu, Option
from agent.ui.paste import pasted
from agent.ui.port import StatusLine
from tests.support.soon import SOON_S

PATHS = ["src/app.py", "src/parser.py", "tests/test_parser.py", "docs/a_p_p.md", "README.md"]


def test_the_best_match_is_in_the_name_then_in_the_path_then_scattered():
    assert best("app", PATHS) == ["src/app.py", "docs/a_p_p.md"]
    assert best("parser", PATHS) == ["src/parser.py", "tests/test_parser.py"]
    assert best("src", PATHS)[:2] == ["src/app.py", "src/parser.py"]
    assert best("RDM", PATHS) == ["README.md"]
    assert best("zzz", PATHS) == []
    assert best("", PATHS)[0] == "README.md"


def following(name: str, before: Sequence[str]) -> Sequence[tuple[str, str]]:
    return [("enable", "e"), ("tokens", "t"), *((word, "again") for word in before)]


def completions(text: str, root: Path) -> list[str]:
    completer = InputCompleter(
        lambda: [("help", "h"), ("tools", "t")], following, FileIndex(root),
        lambda: [("notes:memo://one", "A memo"), ("notes:memo://two", "Another")],
    )  # fmt: skip
    return [c.text for c in completer.get_completions(Document(text), CompleteEvent())]


def test_commands_are_completed_only_at_the_start(tmp_path: Path):
    assert completions("/", tmp_path) == ["/help", "/tools"]
    assert completions("/t", tmp_path) == ["/tools"]
    assert completions("x /t", tmp_path) == []


def test_words_after_a_command_are_completed_one_by_one(tmp_path: Path):
    assert completions("/tools ", tmp_path) == ["enable", "tokens"]
    assert completions("/tools to", tmp_path) == ["tokens"]
    assert completions("/tools enable  x ", tmp_path) == ["enable", "tokens", "enable", "x"]
    assert completions("x /tools ", tmp_path) == []
    assert completions("/tools a\n", tmp_path) == []


def test_a_file_may_follow_a_command(tmp_path: Path):
    (tmp_path / "one.txt").touch()
    assert completions("/tools @o", tmp_path) == ["one.txt"]


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("shot.png", "{}"),
        ("my shot.PNG", "'{}'"),
        ("my shot.jpeg", None),
    ],
)
def test_an_image_that_is_dropped_becomes_a_mention_of_it(tmp_path: Path, name: str, form: str):
    path = tmp_path / name
    path.touch()
    text = form.format(path) if form else str(path).replace(" ", "\\ ") + " "
    assert mentions(pasted(text)) == [str(path)]
    assert mentions(f"what is{pasted(text, 'what is')}") == [str(path)]
    assert pasted(text, "what is ") == pasted(text)


def test_other_pastes_stay_as_they_are(tmp_path: Path):
    (tmp_path / "notes.txt").touch()
    (tmp_path / "shot.png").touch()
    there = tmp_path / "shot.png"
    for text in [
        "shot.png", f"{tmp_path}/none.png", f"{tmp_path}/notes.txt", f"{there} {there}",
        f"see {there}", "it's", "'", "", "\0.png", f"/{'x' * 5000}.png", f"{there}\n{there}",
    ]:  # fmt: skip
        assert pasted(text) == text
    assert pasted("a\r\nb\rc") == "a\nb\nc"


def test_files_are_completed_after_an_at_sign(tmp_path: Path):
    (tmp_path / "one.txt").touch()
    assert completions("see @on", tmp_path) == ["one.txt"]
    assert completions("@", tmp_path) == ["one.txt"]
    assert completions("mail me@on", tmp_path) == []


def test_resources_of_servers_are_completed_once_one_is_begun(tmp_path: Path):
    (tmp_path / "notes.txt").touch()
    assert completions("see @no", tmp_path) == ["notes:memo://one", "notes:memo://two", "notes.txt"]
    assert completions("see @notes:memo://t", tmp_path) == ["notes:memo://two"]
    assert completions("@", tmp_path) == ["notes.txt"]


def test_names_with_blanks_are_completed_in_quotes_as_a_message_takes_them(tmp_path: Path):
    (tmp_path / "a b").mkdir()
    (tmp_path / "a b" / "c d.txt").touch()
    quoted = '"a b/c d.txt"'
    assert completions("see @c", tmp_path) == [quoted]
    assert completions('see @"c d', tmp_path) == [quoted]
    assert mentions(f"see @{quoted}") == ["a b/c d.txt"]
    # A directory stays open: its files are typed next.
    assert completions("@a", tmp_path)[0] == '"a b/'


def test_a_project_of_twenty_thousand_files_is_offered_whole(tmp_path: Path):
    for number in range(20):
        (tmp_path / f"package{number}").mkdir()
        for file in range(1000):
            (tmp_path / f"package{number}" / f"m{file}.py").touch()
    index = FileIndex(tmp_path)
    assert len(index.paths(SOON_S)) == 20_020


def test_the_walk_respects_nested_gitignore_files_and_follows_no_links(tmp_path: Path):
    for name in ["keep.py", "drop.log", "sub/important.log", "sub/deep/x.tmp", ".git/config"]:
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    (tmp_path / "bad\x1bname").touch()
    (tmp_path / ".gitignore").write_text("*.log\n")
    (tmp_path / "sub" / ".gitignore").write_text("!important.log\n*.tmp\n")
    (tmp_path / "loop").symlink_to(tmp_path)
    assert set(walk(tmp_path)) == {
        ".gitignore", "keep.py", "loop", "sub/", "sub/.gitignore", "sub/important.log", "sub/deep/",
    }  # fmt: skip


def test_history_keeps_every_kind_of_text_newest_first(tmp_path: Path):
    history = InputHistory(tmp_path / "state" / "history")
    texts = ["plain", "two\nlines", "ünï\u2028\x1b[2J", ""]
    for text in texts:
        history.store_string(text)
    again = InputHistory(history.path)
    assert list(again.load_history_strings()) == ["ünï\u2028\x1b[2J", "two\nlines", "plain"]
    assert stat.S_IMODE(history.path.stat().st_mode) == 0o600
    assert again.problem == ""


def test_damaged_lines_cost_only_themselves(tmp_path: Path):
    file = tmp_path / "history"
    file.write_bytes(b'"one"\n{"x"\n\xff\xfe\n42\n"two"\n')
    assert list(InputHistory(file).load_history_strings()) == ["two", "one"]


def test_a_long_history_forgets_its_beginning(tmp_path: Path):
    file = tmp_path / "history"
    file.write_bytes(b'"old"\n' + b'"' + b"x" * 98 + b'"\n' + b'"new line"\n' * (KEPT_BYTES // 5))
    entries = list(InputHistory(file).load_history_strings())
    assert "old" not in entries
    assert set(entries) == {"new line"}
    assert file.stat().st_size <= KEPT_BYTES


def test_a_history_that_cannot_be_used_says_so_and_raises_nothing(tmp_path: Path):
    (tmp_path / "target").touch()
    (tmp_path / "history").symlink_to(tmp_path / "target")
    history = InputHistory(tmp_path / "history")
    assert list(history.load_history_strings()) == []
    history.store_string("text")
    assert "link" in history.problem
    assert (tmp_path / "target").read_bytes() == b""


@pytest.mark.parametrize("columns", [1, 5, 10, 20, 40, 80])
def test_the_bottom_line_always_fits(columns: int):
    status = StatusLine("vendor/a-model-with-a-long-name", "accept-edits", 123_456, 200_000, 1.5)
    shown = "".join(part[1] for part in toolbar(status, columns))
    assert get_cwidth(shown) <= columns


def test_the_bottom_line_says_mode_model_context_and_cost():
    shown = "".join(part[1] for part in toolbar(StatusLine("m", "ask", 950, 8000, 0.5), 80))
    assert shown == "ask · m · 950/8.0k tokens (11%) · $0.50"
    assert "".join(part[1] for part in toolbar(StatusLine("m", "ask"), 80)) == "ask · m"


@pytest.mark.parametrize(
    ("columns", "shown"),
    [(20, "ask · vendor/m… · 9%"), (30, "ask · vendor/model · 9%"),
     (40, "ask · vendor/model · 11.5k/128k (9%)")],
)  # fmt: skip
def test_a_narrow_bottom_line_still_says_how_full_the_context_is(columns: int, shown: str):
    status = StatusLine("vendor/model", "ask", 11_520, 128_000)
    assert "".join(part[1] for part in toolbar(status, columns)) == shown


async def test_a_menu_moves_around_its_ends_and_shows_what_fits():
    menu = Menu([("", "Which?")], [Option(n, f"option {n}") for n in range(50)], cancelled=None)
    menu.press("up")
    assert menu.selected == 49
    menu.press("down")
    menu.press("pagedown")
    shown = [part[1].rstrip() for part in menu.fragments(40, 8)]
    assert len(shown) == 8
    assert shown[0] == "Which?"
    assert "> option 10" in shown
    menu.press("enter")
    assert await menu.result == 10


async def test_an_empty_menu_can_only_be_left():
    menu: Menu[str | None] = Menu([("", "Which?")], [], cancelled=None)
    menu.press("enter")
    assert not menu.result.done()
    menu.press("cancel")
    assert await menu.result is None


async def test_r5_the_editor_is_an_argument_list_and_its_file_is_private_and_removed(
    tmp_path: Path,
):
    seen = tmp_path / "seen"
    script = tmp_path / "ed it"
    script.write_text(f'#!/bin/sh\nstat -c "%a $2" "$2" > {seen}\nprintf "$1 done" >> "$2"\n')
    script.chmod(0o755)
    assert await edit("text", {"VISUAL": f"'{script}' '; rm'"}) == "text; rm done"
    mode, name = seen.read_text().split()
    assert mode == "600"
    assert not Path(name).exists()


@pytest.mark.parametrize("command", ["/no/such/editor", "false", "'unclosed"])
async def test_an_editor_that_does_not_work_is_named(command: str):
    with pytest.raises(EditorError, match=command.strip("'").split("/")[-1]):
        await edit("text", {"EDITOR": command})
