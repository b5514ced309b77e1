"""What the real command says at the start of a chat and of what goes along with a message."""

from __future__ import annotations

from pathlib import Path

from tests.support.cli import OPTA, connected
from tests.support.model_server import ModelServer, say
from tests.support.terminal import Terminal, needs_tmux

pytestmark = needs_tmux
KEYS = "/help for commands and keys"


def test_a_chat_begins_with_version_model_and_place():
    with ModelServer([say("Hello.")]) as server:
        with Terminal([*OPTA, *connected(server)], columns=200) as terminal:
            screen = terminal.wait(KEYS)
            assert screen.startswith("· opta ")
            first, second = screen.split("\n")[:2]
            model = connected(server)[connected(server).index("--model") + 1]
            assert first.split(" · ")[1] == model
            assert first.endswith(str(Path.cwd().name))
            assert second == f"  {KEYS}"
            terminal.type("hello")
            terminal.send("Enter")
            terminal.wait("Hello.")
            terminal.send("C-d")
            terminal.wait_exit()
        with Terminal([*OPTA, *connected(server), "--continue"]) as again:
            again.wait("Hello.")
            assert KEYS not in again.scrollback()


def test_a_mentioned_file_is_named_with_its_size():
    Path("notes.txt").write_text("a\nb\nc\n")
    with ModelServer([say("Read.")]) as server, Terminal([*OPTA, *connected(server)]) as terminal:
        terminal.wait(KEYS)
        terminal.type("see @notes.txt please")
        terminal.send("Enter")
        terminal.wait("Read.")
        assert "· attached notes.txt (3 lines)\n" in terminal.screen()
