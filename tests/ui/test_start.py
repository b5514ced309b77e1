"""What the real command says at the start of a chat and of what goes along with a message."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.cli import OPTA, connected, opta
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


@pytest.mark.parametrize("ours", [False, True])
def test_instructions_for_another_program_are_told_of_where_there_are_none_for_opta(ours):
    Path("CLAUDE.md").write_text("Use tabs.")
    if ours:
        Path("AGENTS.md").write_text("Use tabs.")
    with ModelServer([]) as server:
        argv = [*OPTA, *connected(server), *(["--trust"] if ours else [])]
        with Terminal(argv, columns=200) as terminal:
            terminal.wait("ask ·")
            screen = terminal.wait(KEYS)
    said = "CLAUDE.md is not read here: /init writes an AGENTS.md that takes it over"
    assert (said in screen) != ours


def test_a_mentioned_directory_goes_along_as_the_names_in_it():
    Path("src/deep").mkdir(parents=True)
    for name in ("src/a.py", "src/deep/b.py", "src/node.log"):
        Path(name).touch()
    Path(".gitignore").write_text("*.log\n")
    with ModelServer([say("Read.")]) as server, Terminal([*OPTA, *connected(server)]) as terminal:
        terminal.wait(KEYS)
        terminal.type("see @src/ please")
        terminal.send("Enter")
        terminal.wait("Read.")
        assert "· attached src/ (what is in it)\n" in terminal.screen()
        sent = server.sent_messages[-1]["content"]
        listing = sent.split('<directory path="src/">\n')[1].split("\n</directory>")[0]
        assert "src/a.py" in listing
        assert "src/deep/" in listing
        assert "b.py" not in listing
        assert "node.log" not in listing


def test_a_list_of_sessions_has_one_line_for_each_and_the_newest_needs_no_id():
    with ModelServer([say("First."), say("Second.")]) as server:
        opta("-p", "older question", server=server)
        opta("-p", "a question that goes on and on " * 4, server=server)
        with Terminal([*OPTA, "sessions", "list"], columns=80) as terminal:
            terminal.wait_exit()
            head, *rows = terminal.screen().strip().split("\n")
        assert head.startswith("ID ")
        assert [row[-1] for row in rows] == ["…", "n"]
        shown = opta("sessions", "show")
        assert (shown.returncode, "Second." in shown.stdout) == (0, True)
        exported = opta("sessions", "export", "--format", "json")
        assert "goes on" in exported.stdout
        whole = opta("sessions", "list").stdout
        assert "goes on and on" in whole
        assert "…" not in whole.splitlines()[2]


def test_a_mentioned_file_is_named_with_its_size():
    Path("notes.txt").write_text("a\nb\nc\n")
    with ModelServer([say("Read.")]) as server, Terminal([*OPTA, *connected(server)]) as terminal:
        terminal.wait(KEYS)
        terminal.type("see @notes.txt please")
        terminal.send("Enter")
        terminal.wait("Read.")
        assert "· attached notes.txt (3 lines)\n" in terminal.screen()
