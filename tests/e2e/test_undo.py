"""Undo as a person meets it: in the chat, and by hand after a batch run."""

from __future__ import annotations

from pathlib import Path

from tests.support.cli import OPTA, connected, opta
from tests.support.model_server import ModelServer, call, say
from tests.support.terminal import Terminal, needs_tmux

SKIP = "--dangerously-skip-permissions"


@needs_tmux
def test_a_turn_is_taken_back_and_put_again_in_the_chat_and_the_model_is_told():
    kept = Path("notes.txt")
    kept.write_text("before\n")
    script = [
        call("run_command", command="echo after > notes.txt; mkdir d; echo new > d/made"),
        say("All changed."), say("I know."),
    ]  # fmt: skip
    with ModelServer(script) as server, Terminal([*OPTA, *connected(server), SKIP]) as terminal:
        terminal.wait("skip permissions")
        terminal.type("change my notes")
        terminal.send("Enter")
        terminal.wait(lambda s: "All changed." in s and "to stop)" not in s)
        terminal.type("/undo")
        terminal.send("Enter")
        screen = terminal.wait("To reverse it: /redo")
        assert "notes.txt (changed)" in screen
        assert "Took back what “change my notes” changed: 2 files." in screen
        assert "d/made (deleted)" in screen
        assert kept.read_text() == "before\n"
        assert not Path("d").exists()
        terminal.type("/redo")
        terminal.send("Enter")
        assert "d/made (made again)" in terminal.wait("To reverse it: /undo")
        assert kept.read_text() == "after\n"
        terminal.type("what now?")
        terminal.send("Enter")
        terminal.wait("I know.")
        said = server.sent_messages[-1]["content"]
        assert "Took back what “change my notes” changed" in said
        assert "To reverse it" not in said
        assert said.index("Took back") < said.index("Put again") < said.index("what now?")


def test_a_batch_run_is_taken_back_by_hand():
    Path("f").write_text("before\n")
    with ModelServer([call("run_command", command="echo after > f; rm g"), say("done")]) as server:
        Path("g").write_text("there\n")
        assert opta("-p", "go", SKIP, server=server).returncode == 0
    assert Path("f").read_text() == "after\n"
    done = opta("sessions", "undo")
    assert (done.returncode, done.stderr) == (0, "")
    assert "f (changed)" in done.stdout
    way_back = done.stdout.splitlines()[-1].removeprefix("To reverse it: opta ")
    assert (Path("f").read_text(), Path("g").read_text()) == ("before\n", "there\n")
    assert opta("sessions", "undo").returncode == 1
    assert opta(*way_back.split()).returncode == 0
    assert not Path("g").exists()
