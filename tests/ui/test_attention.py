"""How a person who looks elsewhere learns that they are waited for."""

from __future__ import annotations

import io
import re
import time

from prompt_toolkit.data_structures import Size
from prompt_toolkit.output.vt100 import Vt100_Output

from agent.ui.attention import TITLE_CHARS, Attention, State
from agent.ui.port import Signals
from tests.support.cli import OPTA, connected
from tests.support.model_server import End, ModelServer, Reply, call, chat_chunk, say, sse
from tests.support.terminal import Terminal, needs_tmux

TITLE = re.compile(r"\x1b\]2;(.*?)\x07")


class Watched:
    """An Attention with a clock that is set by hand, and what it wrote."""

    def __init__(self, signals: Signals, name: str = "shop", term: str = "xterm") -> None:
        self.now = 100.0
        self._written = io.StringIO()
        output = Vt100_Output(self._written, lambda: Size(24, 80), term=term)
        self.attention = Attention(name, output, lambda: signals, clock=lambda: self.now)

    def after(self, seconds: float, state: State) -> None:
        self.now += seconds
        self.attention.update(state)

    @property
    def rings(self) -> int:
        return TITLE.sub("", self._written.getvalue()).count("\a")

    @property
    def titles(self) -> list[str]:
        return TITLE.findall(self._written.getvalue())


def test_a_question_rings_once_when_no_key_was_pressed_for_a_while():
    watched = Watched(Signals(bell_s=10))
    watched.after(1, State.WORKING)
    watched.after(2, State.ASKING)
    assert watched.rings == 0
    watched.after(6.9, State.ASKING)
    assert watched.rings == 0
    watched.after(0.2, State.ASKING)
    watched.after(30, State.ASKING)
    assert watched.rings == 1
    watched.after(1, State.WORKING)
    watched.after(1, State.ASKING)
    assert watched.rings == 2


def test_a_person_who_types_hears_nothing():
    watched = Watched(Signals(bell_s=10))
    watched.after(60, State.WORKING)
    watched.attention.key_pressed()
    watched.after(1, State.ASKING)
    watched.after(8, State.ASKING)
    watched.after(0.5, State.IDLE)
    assert watched.rings == 0


def test_the_end_of_a_long_turn_rings_and_that_of_a_short_one_never():
    watched = Watched(Signals(bell_s=10))
    watched.after(0, State.WORKING)
    watched.after(3, State.IDLE)
    watched.after(60, State.IDLE)
    assert watched.rings == 0
    watched.attention.key_pressed()
    watched.after(0, State.WORKING)
    watched.after(11, State.IDLE)
    watched.after(60, State.IDLE)
    assert watched.rings == 1


def test_nobody_is_told_who_does_not_want_to_be():
    watched = Watched(Signals())
    for state in (State.WORKING, State.ASKING, State.IDLE):
        watched.after(60, state)
    watched.attention.close()
    assert (watched.rings, watched.titles) == (0, [])


def test_the_title_says_where_and_what_and_is_one_harmless_line():
    watched = Watched(Signals(title=True), "a\x1b]0;b\x07\nc\x9dd" + "e" * 100)
    for state in (State.IDLE, State.WORKING, State.WORKING, State.ASKING):
        watched.after(1, state)
    assert [title[0] for title in watched.titles] == ["a", "…", "?"]
    assert all(len(title) <= TITLE_CHARS for title in watched.titles)
    assert not re.search(r"[\x00-\x1f\x7f-\x9f]", "".join(watched.titles))


def test_the_linux_console_which_would_print_a_title_gets_none():
    watched = Watched(Signals(title=True), term="linux")
    watched.after(1, State.IDLE)
    assert watched.titles == []


def title_of(terminal: Terminal) -> str:
    return terminal.tmux("display-message", "-p", "#{pane_title}").rstrip("\n")


@needs_tmux
def test_the_terminal_rings_for_a_question_and_has_its_title_back_afterwards(tmp_path):
    turns = [
        Reply(sse(chat_chunk("Hm")), end=End.HANG),
        call("run_command", command="touch made"),
        say("Made."),
    ]
    place = tmp_path / "shop"
    place.mkdir()
    with ModelServer(turns) as server:
        argv = [*OPTA, *connected(server), "--config", "bell=1.5"]
        with Terminal(argv, cwd=place) as terminal:
            before = title_of(terminal)
            terminal.wait("ask ·")
            terminal.wait(lambda _: title_of(terminal) == "shop · opta")
            terminal.type("wait")
            terminal.send("Enter")
            terminal.wait("Hm")
            terminal.wait(lambda _: title_of(terminal) == "… shop · opta")
            terminal.send("Escape")
            terminal.wait("Stopped.")
            terminal.type("make it")
            terminal.send("Enter")
            typed = time.monotonic()
            terminal.wait("[y] yes, once")
            terminal.wait(lambda _: title_of(terminal) == "? shop · opta")
            terminal.wait(lambda _: TITLE.sub("", terminal.output().decode()).count("\a") == 1)
            assert time.monotonic() - typed >= 1.4
            terminal.send("y")
            terminal.wait("Made.")
            terminal.send("C-d")
            assert terminal.wait_exit() == 0
            assert title_of(terminal) == before
