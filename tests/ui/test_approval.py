from __future__ import annotations

import re
import time
from collections.abc import Callable

import pytest

from agent.ui.menu import GRACE_S
from tests.support.terminal import Terminal, needs_tmux

pytestmark = needs_tmux
Start = Callable[..., Terminal]

OPEN = "[y] yes, once"


def ask(terminal: Terminal, what: str = "ask") -> str:
    """Ask, and wait as long as a person who reads the question."""
    terminal.type(what)
    terminal.send("Enter")
    screen = terminal.wait(OPEN)
    time.sleep(GRACE_S + 0.1)
    return screen


def test_the_question_shows_reason_warnings_command_and_rules(chat: Start):
    screen = ask(chat(rows=30))
    for line in [
        "  $ npm test && \\u202erm -rf build\\x1b[2K",
        "    in /work/app",
        "Run this command?",
        "asked because no rule allows it",
        "! it also deletes files",
        "  [s] yes, for this session: run_command(npm test:*)",
        "  [a] always in this project (in your own config): run_command(npm test:*)",
        "↑↓ Enter · y s a n r · Esc: no · none selected yet",
    ]:
        assert f"{line}\n" in screen, line
    assert screen.count("npm test &&") == 1


@pytest.mark.parametrize(
    ("keys", "answer"),
    [
        (["y"], "once"),
        (["s"], "session"),
        (["a"], "always"),
        (["n"], "no"),
        (["Escape"], "no"),
        (["C-c"], "no"),
        (["Down", "Down", "Enter"], "session"),
        (["r", "use pnpm", "Enter"], "no use pnpm"),
        (["r", "Enter", "y"], "once"),
        (["r", "words", "Escape"], "no"),
    ],
)
def test_answers(chat: Start, keys: list[str], answer: str):
    terminal = chat()
    ask(terminal)
    terminal.send(*keys[:1])
    if keys[0] == "r":
        terminal.wait("Why not?")
    for key in keys[1:]:
        terminal.send(key)
        if key == "Enter" and "y" in keys:
            terminal.wait(OPEN)
            time.sleep(GRACE_S + 0.1)
    terminal.wait(f"· answer: {answer}\n")


@pytest.mark.parametrize("key", ["Enter", "x", "Space", "Tab"])
def test_other_keys_choose_nothing(chat: Start, key: str):
    terminal = chat()
    ask(terminal)
    terminal.send(key)
    terminal.send("y")
    terminal.wait("· answer: once\n")
    assert terminal.screen().count("answer:") == 1


def test_keys_on_their_way_do_not_answer_and_the_input_stays(chat: Start):
    terminal = chat()
    terminal.type("ask 0.5")
    terminal.send("Enter")
    terminal.wait("waiting for the model")
    terminal.type("some text ")
    # Keys go on and on, over the moment when the question appears.
    while OPEN not in terminal.screen():
        terminal.type("y")
    for _ in range(10):
        terminal.type("y")
        time.sleep(0.1)
    screen = terminal.screen()
    assert OPEN in screen
    assert "answer:" not in screen
    assert re.search(r"^> some text y*$", screen, re.MULTILINE)
    time.sleep(GRACE_S + 0.1)
    terminal.type("n")
    screen = terminal.wait("· answer: no\n")
    assert re.search(r"^> some text y*$", screen, re.MULTILINE)


def test_a_paste_does_not_answer(chat: Start):
    terminal = chat()
    ask(terminal)
    terminal.paste("y\ny\n")
    terminal.send("n")
    terminal.wait("· answer: no\n")


def test_words_typed_right_behind_the_key_are_the_reason(chat: Start):
    terminal = chat()
    ask(terminal)
    terminal.type("ruse pnpm")
    screen = terminal.wait("Why not? use pnpm")
    assert "waiting for your reason" in screen
    terminal.send("Enter")
    terminal.wait("· answer: no use pnpm\n")


def test_a_refused_call_shows_the_reason(chat: Start):
    terminal = chat()
    ask(terminal, "refuse")
    terminal.type("rnot this one")
    terminal.wait("Why not? not this one")
    terminal.send("Enter")
    terminal.wait("⊘ run_command npm test  denied\n  you: not this one\n")


def added(terminal: Terminal) -> list[int]:
    return [int(number) for number in re.findall(r"  \+line (\d+)\n", terminal.scrollback())]


def test_a_long_diff_is_shortened_and_one_key_shows_all_of_it(chat: Start):
    terminal = chat(rows=30)
    screen = ask(terminal, "diff 200")
    assert "162 lines left out: v shows the whole diff\n" in terminal.scrollback()
    assert added(terminal) == [*range(18), *range(180, 200)]
    assert "Edit src/a.py (+200 −1)?\n" in screen
    terminal.send("v")
    terminal.wait(lambda s: OPEN in s and "[v]" not in s)
    assert added(terminal)[38:] == list(range(200))
    time.sleep(GRACE_S + 0.1)
    terminal.send("y")
    terminal.wait("· answer: once\n")


def test_a_diff_of_some_lines_is_whole(chat: Start):
    terminal = chat(rows=30)
    assert "[v]" not in ask(terminal, "diff 40")
    assert added(terminal) == list(range(40))


def test_shift_tab_allows_an_edit_and_those_that_follow(chat: Start):
    terminal = chat(rows=30)
    screen = ask(terminal, "diff 3")
    assert "[shift-tab] yes, and accept further edits here (mode accept-edits)\n" in screen
    terminal.send("BTab")
    terminal.wait(lambda s: "· answer: once\n" in s and "accept-edits ·" in s)


def test_rules_name_files_relative_to_the_workspace(chat: Start):
    terminal = chat(rows=30)
    screen = ask(terminal, "diff 3")
    assert "[s] yes, for this session: write_file(src/a.py)\n" in screen


@pytest.mark.parametrize("columns", [30, 80])
def test_hostile_output_cannot_touch_the_question(chat: Start, columns: int):
    terminal = chat(columns=columns, rows=40)
    screen = ask(terminal, "hostile")
    assert OPEN in screen
    assert "Run this command?" in screen
    shown = terminal.scrollback(joined=True).replace("\n", "").replace(" ", "")
    assert "$echostart" in shown
    assert "\\x1b[2J" in shown
    assert "\\x1b]52;c;aGk=\\x07" in shown
    assert "[10000spaces]" in shown
    assert "end" in shown
    written = terminal.output()
    for sequence in (b"\x1b[2J", b"\x1b]52", b"\x1b]0;", b"\x1bc", b"\x9b"):
        assert sequence not in written
    terminal.send("n")
    terminal.wait("· answer: no\n")
