"""Undo as a person meets it: in the chat, and by hand after a batch run."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

from tests.support.cli import OPTA, connected, opta
from tests.support.model_server import ModelServer, call, say
from tests.support.plans import processes_with
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


def rewound(terminal, message, *, choose):
    """Type `/rewind`, choose a message of three and what to go back with; return the screen."""
    send(terminal, "/rewind")
    listed = terminal.wait("Go back to before which of your messages?")
    options = [line.strip(" >") for line in listed.split("Go back to")[-1].splitlines()[1:]]
    for _ in range(options.index(message)):
        terminal.send("Down")
    terminal.send("Enter")
    assert "\n↑↓ Enter · Esc: back\n" in listed
    screen = terminal.wait("Go back with what?")
    assert "\n↑↓ Enter · c b f · Esc: back\n" in screen
    terminal.send(choose)
    return screen


def send(terminal, text):
    terminal.wait(lambda screen: "(Esc to stop)" not in screen)
    terminal.type(text)
    terminal.send("Enter")


def three_turns(terminal):
    for name in ("one", "two", "three"):
        send(terminal, f"make {name}")
        terminal.wait(f"made {name}.")


def making(name):
    """A turn that changes one file and makes another."""
    command = f"echo {name} > f; echo {name} > {name}"
    return call("run_command", command=command), say(f"made {name}.")


@needs_tmux
def test_rewind_takes_back_the_files_too_and_redo_puts_them_again():
    script = [*making("one"), *making("two"), *making("three"), say("Anew.")]
    with ModelServer(script) as server, Terminal([*OPTA, *connected(server), SKIP]) as terminal:
        terminal.wait("skip permissions")
        three_turns(terminal)
        screen = rewound(terminal, "make two", choose="b")
        assert "[c] the conversation: files stay as they are" in screen
        assert "[b] the conversation and files: f, three, two" in screen
        screen = terminal.wait("To reverse it: /redo, 2 times")
        assert "Taken back: that message and all that followed it." in screen
        assert "Took back what “make three” changed: 2 files." in screen
        terminal.wait("> make two")
        assert Path("f").read_text() == "one\n"
        assert not Path("two").exists()
        assert not Path("three").exists()
        terminal.type(" anew")
        terminal.send("Enter")
        terminal.wait("Anew.")
        said = [message["content"] or "" for message in server.sent_messages[1:]]
        assert said[-1] == "make two anew", "it knows nothing of what was taken back"
        assert "make three" not in "".join(said)


@needs_tmux
def test_rewind_to_the_conversation_or_to_files_alone():
    script = [*making("one"), *making("two"), *making("three"), say("Noted."), say("Anew.")]
    Path("f").write_text("before\n")
    with ModelServer(script) as server, Terminal([*OPTA, *connected(server), SKIP]) as terminal:
        terminal.wait("skip permissions")
        three_turns(terminal)
        Path("three").write_text("by hand\n")
        rewound(terminal, "make three", choose="f")
        screen = terminal.wait("To reverse it: /redo")
        assert "three: was changed since" in screen
        assert (Path("f").read_text(), Path("three").read_text()) == ("two\n", "by hand\n")
        send(terminal, "and now?")
        terminal.wait("Noted.")
        told = server.sent_messages[-1]["content"]
        assert "Took back what “make three” changed: 1 file." in told
        assert any(message["content"] == "made three." for message in server.sent_messages)
        rewound(terminal, "make one", choose="c")
        terminal.wait("Files are as they are; /undo takes back what was changed in them.")
        assert Path("f").read_text() == "two\n"
        terminal.wait("> make one")
        terminal.send("Enter")
        terminal.wait("Anew.")
        assert len(server.sent_messages) == 2, "a system prompt and the message"


@needs_tmux
def test_rewind_of_a_session_that_goes_on_after_a_restart_knows_its_files():
    with ModelServer([*making("one"), *making("two"), say("Talked.")]) as server:
        assert opta("-p", "make one", SKIP, server=server).returncode == 0
        assert opta("-p", "make two", "--continue", SKIP, server=server).returncode == 0
        with Terminal([*OPTA, *connected(server), SKIP, "--continue"]) as terminal:
            terminal.wait("made two.")
            send(terminal, "let us talk")
            terminal.wait("Talked.")
            rewound(terminal, "make one", choose="b")
            terminal.wait("To reverse it: /redo, 2 times")
    assert not any(Path(name).exists() for name in ("f", "one", "two"))


@needs_tmux
def test_undo_typed_while_a_turn_runs_waits_for_it_and_takes_it_back():
    notes = Path("notes.txt")
    notes.write_text("before\n")
    command = "echo half > notes.txt; until test -e go; do sleep 0.05; done; echo all > notes.txt"
    with (
        ModelServer([call("run_command", command=command), say("All changed.")]) as server,
        Terminal([*OPTA, *connected(server), SKIP]) as terminal,
    ):
        terminal.wait("skip permissions")
        terminal.type("change my notes")
        terminal.send("Enter")
        terminal.wait(lambda s: notes.read_text() == "half\n")
        terminal.type("/undo")
        terminal.send("Enter")
        by_hand = opta("sessions", "undo")
        assert by_hand.returncode == 1
        assert "is open in another opta" in by_hand.stderr
        assert notes.read_text() == "half\n"
        Path("go").touch()
        terminal.wait("To reverse it: /redo")
        assert notes.read_text() == "before\n"


def test_r47_a_kill_while_files_are_kept_leaves_undo_sound():
    """Killed before, in or after the look at the files: each start knows whole turns or none."""
    for number in range(60):
        Path(f"f{number}").write_text(f"before {number}\n" * 2000)
    mark = f"made{os.getpid()}"
    command = f"for f in f*; do echo after > $f; done; rm f1; echo new > {mark}"
    for delay_s in (0.2, 0.35, 0.5, 0.65, 0.8, 0.95):
        before = {path.name: path.read_text() for path in Path.cwd().glob("f*")}
        with ModelServer([call("run_command", command=command), say("done")]) as server:
            started = subprocess.Popen(
                [*OPTA, "-p", "go", SKIP, *connected(server)], stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )  # fmt: skip
            try:
                started.wait(delay_s)
            except subprocess.TimeoutExpired:
                started.kill()
                started.wait()
        # What opta had started ends with it, a moment later.
        while processes_with(mark):
            time.sleep(0.02)
        after = {path.name: path.read_text() for path in Path.cwd().glob("f*")}
        done = opta("sessions", "undo")
        assert "Traceback" not in done.stderr
        now = {path.name: path.read_text() for path in Path.cwd().glob("f*")}
        # All of a turn that was kept is taken back, and nothing of one that was not.
        assert now == (before if done.returncode == 0 else after), (delay_s, done.stdout)
    # What was kept before the kills still works.
    with ModelServer([call("run_command", command="echo last > f2"), say("done")]) as server:
        kept = Path("f2").read_text()
        assert opta("-p", "go", SKIP, server=server).returncode == 0
    assert opta("sessions", "undo").returncode == 0
    assert Path("f2").read_text() == kept


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
