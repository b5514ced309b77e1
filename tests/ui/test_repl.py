from __future__ import annotations

import os
import re
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.terminal import Terminal, needs_tmux

pytestmark = needs_tmux
Start = Callable[..., Terminal]

HARNESS = Path(__file__).with_name("harness.py")


def say(terminal: Terminal, text: str) -> None:
    terminal.type(text)
    terminal.send("Enter")


def is_idle(screen: str) -> bool:
    busy = "to stop)" in screen or "[y]" in screen
    return not busy and re.search(r"^>$", screen, re.MULTILINE) is not None


def seconds_until(terminal: Terminal, seen: str | Callable[[str], bool], *keys: str) -> float:
    started = time.monotonic()
    terminal.send(*keys)
    terminal.wait(seen, 5)
    return time.monotonic() - started


def test_an_answer_streams_and_every_line_of_it_is_once_in_the_scrollback(chat: Start):
    terminal = chat(rows=10)
    for count in (1, 2):
        say(terminal, "say")
        history = terminal.wait(
            lambda s, count=count: s.count("Done, ok.") == count and is_idle(s), everything=True
        )
    for line in ["> say", "Plan", "First I read the file, then I change it. [red]not markup[/red]",
                 " • one", "  def f():", "      return 1", "Done, ok."]:  # fmt: skip
        assert history.count(f"{line}\n") == 2, line
    assert history.count("gpt-x") == 1


def test_a_long_answer_leaves_no_trace_of_what_was_redrawn(chat: Start):
    terminal = chat(rows=8, columns=50)
    say(terminal, "say " + " ".join(f"w{number}" for number in range(120)))
    history = terminal.wait(lambda s: "w119" in s and is_idle(s), everything=True)
    answer = history[history.rindex("w119", 0, history.rindex("w119")) :]
    assert re.findall(r"w\d+", answer)[1:] == [f"w{number}" for number in range(120)]
    assert history.count("answering") == 0


def test_a_running_call_shows_its_output_and_ends_as_one_line(chat: Start):
    terminal = chat()
    say(terminal, "tool 10")
    terminal.wait(lambda s: "output line 3" in s and "run_command make" in s and "to stop" in s)
    screen = terminal.wait(is_idle)
    assert "● run_command make  1.2 s\n  first\n  [bold]second[/bold]\n  third\n" in screen
    assert "output line" not in terminal.scrollback()


def test_what_is_typed_while_the_model_works_waits_and_is_sent_next(chat: Start):
    terminal = chat()
    say(terminal, "tool 12")
    terminal.wait("output line 0")
    say(terminal, "say next one")
    assert "run_command make" in terminal.wait("queued: say next one")
    screen = terminal.wait(lambda s: "next one\n" in s and "queued" not in s and is_idle(s))
    assert screen.index("● run_command make") < screen.index("> say next one")


def test_stopping_gives_the_queue_back_into_the_input(chat: Start):
    terminal = chat()
    say(terminal, "wait")
    terminal.wait("waiting for the model")
    say(terminal, "queued text")
    terminal.type("being typed")
    terminal.wait("> being typed")
    terminal.send("Escape")
    terminal.wait("> queued text\n  being typed")


@pytest.mark.parametrize("key", ["C-c", "Escape"])
@pytest.mark.parametrize(
    ("typed", "state"),
    [
        ("wait", "waiting for the model"),
        ("slow", "word word"),
        ("retry", "Trying again in 30 s"),
        ("hold", "run_command sleep"),
        ("ask", "[y] yes, once"),
    ],
)
def test_r45_interrupting_returns_the_prompt_at_once(chat: Start, key: str, typed: str, state: str):
    terminal = chat()
    say(terminal, typed)
    terminal.wait(state)
    terminal.send(key)
    terminal.wait(is_idle)
    say(terminal, "say works again")
    terminal.wait("\nworks again")


def test_a_turn_that_takes_long_to_stop_keeps_no_one_from_typing(chat: Start):
    terminal = chat()
    say(terminal, "stubborn")
    terminal.wait("waiting for the model")
    terminal.send("C-c")
    terminal.wait("stopping")
    say(terminal, "say later")
    terminal.wait("queued: say later")
    terminal.wait(lambda s: "\nlater" in s and is_idle(s))


def test_ctrl_c_clears_the_line_then_says_how_to_leave_then_leaves(chat: Start):
    terminal = chat()
    terminal.type("half a thought")
    terminal.wait("> half a thought")
    terminal.send("C-c")
    terminal.wait(is_idle)
    terminal.send("C-c")
    terminal.wait("Press Ctrl-C again to leave, or Ctrl-D")
    terminal.type("x")
    terminal.wait(lambda s: "> x" in s and "Press Ctrl-C" not in s and "ask ·" in s)
    terminal.send("BSpace", "C-c")
    terminal.send("C-c")
    assert terminal.wait_exit() == 130
    assert "Resume with: opta --resume 42" in terminal.scrollback()


@pytest.mark.parametrize("leave", [["C-d"], ["/exit", "Enter"]])
def test_leaving_prints_the_way_back_and_clears_the_prompt(chat: Start, leave: list[str]):
    terminal = chat()
    terminal.send(*leave)
    assert terminal.wait_exit() == 0
    history = terminal.scrollback()
    assert history.rstrip().endswith("Resume with: opta --resume 42")
    assert "gpt-x" not in history


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_chat_and_restores_the_terminal(chat: Start, number: signal.Signals):
    terminal = chat()
    say(terminal, "wait")
    terminal.wait("waiting for the model")
    os.kill(terminal.pid(), number)
    assert terminal.wait_exit() == 128 + number
    # Bracketed paste was the one mode that had been turned on.
    output = terminal.output()
    assert output.rindex(b"\x1b[?2004l") > output.rindex(b"\x1b[?2004h")


def test_an_interrupt_signal_is_taken_as_the_key(chat: Start):
    terminal = chat()
    say(terminal, "wait")
    terminal.wait("waiting for the model")
    os.kill(terminal.pid(), signal.SIGINT)
    terminal.wait("Stopped.")
    assert terminal.exit_status() is None


def test_a_failing_conversation_is_told_and_does_not_end_the_chat(chat: Start):
    terminal = chat()
    say(terminal, "fail")
    assert "Traceback" not in terminal.wait("✗ RuntimeError: it broke")
    say(terminal, "say still here")
    terminal.wait("\nstill here")


def test_a_message_may_have_several_lines(chat: Start):
    terminal = chat()
    terminal.type("say one")
    terminal.send("M-Enter")
    terminal.type("two")
    terminal.send("C-j")
    terminal.type("three\\")
    terminal.send("Enter")
    terminal.type("four")
    terminal.wait("> say one\n  two\n  three\n  four")
    terminal.send("Enter")
    terminal.wait("\none two three four")


def test_a_paste_of_several_lines_is_not_sent_before_enter(chat: Start):
    terminal = chat()
    terminal.paste("say alpha\nbeta\n\tgamma")
    screen = terminal.wait("gamma")
    assert "to stop" not in screen
    assert "> say alpha\n  beta\n" in screen
    terminal.send("Enter")
    terminal.wait(lambda s: "alpha beta" in s and is_idle(s))


def test_a_long_paste_is_sent_whole_and_shown_shortened(chat: Start):
    terminal = chat()
    terminal.paste("say " + "\n".join(f"w{number}" for number in range(200)))
    terminal.wait("w199")
    terminal.send("Enter")
    history = terminal.wait(lambda s: s.count("w199") == 1 and is_idle(s), everything=True)
    assert "> say w0\n  w1\n  w2\n  … 197 more lines, sent as well\n" in history
    assert re.findall(r"w\d+", history)[3:] == [f"w{number}" for number in range(200)]


def test_reasoning_is_shown_while_it_lasts_and_not_kept(chat: Start):
    terminal = chat()
    say(terminal, "think 1")
    terminal.wait("\nI wonder about it\n")
    terminal.wait(lambda s: "\nAn answer.\n" in s and is_idle(s))
    assert "wonder" not in terminal.scrollback()


def test_shift_tab_goes_through_the_modes(chat: Start):
    terminal = chat()
    for mode in ["accept-edits", "plan", "ask"]:
        terminal.send("BTab")
        terminal.wait(f"{mode} ·")


def test_slash_commands_are_offered_with_their_help_and_completed(chat: Start):
    terminal = chat()
    terminal.type("/")
    # The last of ten: there is room for all.
    terminal.wait(lambda s: "list the commands" in s and "show the tools" in s and "/exit" in s)
    terminal.type("to")
    terminal.wait(lambda s: "list the commands" not in s and "show the tools" in s)
    terminal.send("Tab")
    terminal.wait("> /tools")
    terminal.send("Enter")
    terminal.wait("tool19  19")
    terminal.type("/he")
    terminal.wait("list the commands")
    terminal.send("Enter")
    terminal.wait("> /help")
    terminal.send("Enter")
    terminal.wait("There is no command /help.")


def test_files_are_completed_by_parts_of_their_path_and_gitignore_is_respected(chat: Start):
    root = Path.cwd()
    (root / "src" / "deep").mkdir(parents=True)
    (root / "src" / "deep" / "parser.py").touch()
    (root / "parsed.log").touch()
    (root / ".gitignore").write_text("*.log\n")
    terminal = chat()
    terminal.type("look at @pars")
    assert "parsed.log" not in terminal.wait("src/deep/parser.py")
    terminal.send("Tab")
    terminal.wait("> look at @src/deep/parser.py")


def test_history_is_private_and_searched_in_the_next_chat(chat: Start):
    terminal = chat()
    say(terminal, "say needle one")
    terminal.wait(lambda s: "\nneedle one" in s and is_idle(s))
    say(terminal, "say other")
    terminal.wait(lambda s: "\nother" in s and is_idle(s))
    terminal.send("C-d")
    terminal.wait_exit()
    file = Path(os.environ["XDG_STATE_HOME"]) / "opta" / "history"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600

    again = chat()
    again.send("Up")
    again.wait("> say other")
    again.send("C-c")
    again.wait(is_idle)
    again.send("C-r")
    again.type("needle")
    again.wait("> say needle one")


def test_the_editor_gets_the_text_and_gives_it_back(chat: Start, tmp_path: Path):
    editor = tmp_path / "my editor"
    editor.write_text("#!/bin/sh\nsed -i 's/draft/final/' \"$1\"\n")
    editor.chmod(0o755)
    terminal = chat(env={"EDITOR": f"'{editor}'"})
    terminal.type("say draft")
    terminal.wait("> say draft")
    terminal.send("C-g")
    terminal.wait("> say final")
    terminal.send("Enter")
    terminal.wait("\nfinal")


def test_an_editor_that_is_missing_is_told_and_costs_nothing(chat: Start):
    terminal = chat(env={"VISUAL": "/no/such/editor"})
    terminal.type("keep me")
    terminal.wait("> keep me")
    terminal.send("C-g")
    terminal.wait(lambda s: "Cannot start the editor /no/such/editor" in s and "> keep me" in s)


def test_a_list_is_picked_from_with_arrows(chat: Start):
    terminal = chat()
    say(terminal, "/pick")
    terminal.wait("> session 0")
    terminal.send("Down", "Down", "Enter")
    terminal.wait("picked 2")
    say(terminal, "/pick")
    terminal.wait("> session 0")
    terminal.send("Escape")
    terminal.wait("picked None")


def test_an_earlier_session_is_shown_again(chat: Start):
    terminal = chat()
    say(terminal, "/resume")
    terminal.wait("> /resume\n\n> an earlier question\n\nAn earlier answer.\n")


def test_the_first_message_may_come_with_the_start(chat: Start):
    terminal = chat("say", "hello")
    terminal.wait("\nhello")


@pytest.mark.parametrize(
    ("columns", "drawn"), [(20, "ask · gpt-x · 9%"), (37, "(9%)\n"), (120, "tokens (9%) · $0.12")]
)
def test_resizing_leaves_one_prompt_and_no_trace_of_the_old_one(
    chat: Start, columns: int, drawn: str
):
    terminal = chat(columns=60)
    say(terminal, "/tools")
    terminal.wait(lambda s: "tool19  19" in s and is_idle(s))
    terminal.type("typing a line that is nearly as wide as the screen")
    terminal.wait("as the screen")
    terminal.resize(columns, 24)
    # tmux tells the program about its new size only after a while.
    terminal.wait(drawn)
    terminal.type("X")
    terminal.wait(lambda s: "screenX" in s.replace("\n", "").replace(" ", ""))
    history = terminal.scrollback()
    assert history.count("> typing") == 1
    assert history.count("ask ·") == 1
    assert history.count("tool19  19") == 1


def test_twenty_columns_lose_nothing(chat: Start):
    terminal = chat(columns=20, rows=40)
    say(terminal, "say")
    terminal.wait("Done, ok.")
    say(terminal, "ask")
    screen = terminal.wait("[r] no, and tell\n      the model why")
    for words in ["Run this command?", "[y] yes, once", "[n] no, and stop", "rm -rf build"]:
        assert words in " ".join(screen.split())
    assert "Traceback" not in terminal.scrollback()
    assert max(map(len, terminal.scrollback().split("\n"))) <= 20


def colours(text: str) -> list[str]:
    codes = [code for run in re.findall(r"\x1b\[([0-9;]*)m", text) for code in run.split(";")]
    return [code for code in codes if re.fullmatch(r"[349][0-7]|10[0-7]|[34]8", code)]


def test_no_color_means_no_colour(chat: Start):
    terminal = chat(env={"NO_COLOR": "1"})
    say(terminal, "say")
    terminal.wait("Done, ok.")
    say(terminal, "diff")
    terminal.wait("[y] yes")
    assert colours(terminal.output().decode()) == []


def test_colours_are_there_where_they_may_be(chat: Start):
    terminal = chat()
    say(terminal, "say")
    terminal.wait("Done, ok.")
    assert colours(terminal.output().decode()) != []


def test_a_terminal_that_cannot_move_its_cursor_is_refused_with_a_way_out():
    with Terminal(["env", "TERM=dumb", sys.executable, HARNESS]) as terminal:
        assert terminal.wait_exit() == 2
        assert "opta -p" in terminal.scrollback()
        assert b"\x1b" not in terminal.output()


def test_the_prompt_comes_with_only_prompt_toolkit_imported():
    program = "import sys, agent.ui.repl; print([m for m in sys.modules if m in {heavy}])"
    heavy = ("rich", "pygments", "markdown_it", "httpx2", "tiktoken", "ruamel", "jsonschema_rs")
    done = subprocess.run(
        [sys.executable, "-c", program.format(heavy=heavy)],
        capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    assert done.stdout.strip() == "[]"
