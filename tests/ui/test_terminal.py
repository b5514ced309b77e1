from __future__ import annotations

import sys

from tests.support.terminal import Terminal, needs_tmux

pytestmark = needs_tmux


def test_keys_output_size_and_exit_status_of_a_command():
    program = (
        "import os; print(tuple(os.get_terminal_size())); name = input('name? ');"
        "print('\\x1b[31mhello', name, '\\x1b[0m'); raise SystemExit(7)"
    )
    with Terminal([sys.executable, "-c", program], columns=50, rows=10) as terminal:
        terminal.wait("name?")
        assert terminal.exit_status() is None
        terminal.type("a b; $x")
        terminal.send("Enter")
        assert terminal.wait_exit() == 7
        assert "(50, 10)" in terminal.scrollback()
        assert "hello a b; $x" in terminal.scrollback()
        assert "\x1b[31mhello" in terminal.escapes()
        assert b"\x1b[31mhello" in terminal.output()


def test_scrollback_holds_what_left_the_screen():
    with Terminal(["seq", "1", "100"], columns=40, rows=5) as terminal:
        terminal.wait_exit()
        assert "\n50\n" not in terminal.screen()
        assert "\n50\n" in terminal.scrollback()
