"""A tool that is a program, in the chat: its question, what it asks for, its end."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.test_chat import answer, chat, enter
from tests.support.model_server import ModelServer, call, say
from tests.support.terminal import needs_tmux

TOOL = """\
name: work
description: Does things
schema: {type: object, properties: {what: {type: string}}, required: [what]}
code: |
  export async function execute({ what }, { platform, logger }) {
    logger.info(`doing ${what}`);
    if (what === "loop") while (true) {}
    await platform.fs.writeFile("new.txt", "one\\n");
    const { stdout } = await platform.executor.execute("sh", ["-c", what]);
    return `it said ${stdout}`;
  }
"""

pytestmark = needs_tmux


def put_tool():
    directory = Path.home().parent / "config" / "opta" / "tools"
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "work.yml").write_text(TOOL)


def told(server):
    return next(m["content"] for m in reversed(server.sent_messages) if m["role"] == "tool")


def asked(terminal, text, key):
    """Wait for a question about a text, and answer it."""
    terminal.wait(lambda screen: text in screen and "[y] yes, once" in screen)
    answer(terminal, key)


def test_each_thing_it_does_is_asked_and_shown_and_so_is_its_result():
    put_tool()
    with (
        ModelServer([call("work", what="echo there"), say("Done.")]) as server,
        chat(server, rows=50) as terminal,
    ):
        enter(terminal, "go")
        asked(terminal, '"what": "echo there"', "y")
        asked(terminal, "+one", "y")
        asked(terminal, "asked for by work", "y")
        screen = terminal.wait("Done.")
    assert Path("new.txt").read_text() == "one\n"
    assert "● work: Write new.txt" in screen
    assert "● work: sh -c 'echo there'" in screen
    end = screen[screen.index("● work what=echo there") :].splitlines()
    assert [line.strip() for line in end[1:3]] == ["[INFO] doing echo there", "it said there"]
    assert told(server) == "it said there\n"


def test_a_program_and_its_command_are_stopped_with_ctrl_c():
    put_tool()
    turns = [call("work", what="loop"), call("work", what="touch begun; sleep 600"), say("Done.")]
    rules = ("--allow", "work", "--allow", "write_file", "--allow", "run_command")
    with ModelServer(turns) as server, chat(server, *rules, rows=50) as terminal:
        enter(terminal, "one")
        terminal.wait("[INFO] doing loop")
        terminal.send("C-c")
        terminal.wait("Stopped.")
        enter(terminal, "two")
        terminal.wait("work: sh -c")
        terminal.send("C-c")
        terminal.wait(lambda screen: screen.count("Stopped.") == 2)
        enter(terminal, "three")
        terminal.wait("Done.")
    assert "Interrupted by the user" in told(server)
    assert "[INFO] doing touch begun; sleep 600" in told(server)


def test_a_no_to_what_it_asks_for_ends_the_program_and_the_turn():
    put_tool()
    turns = [call("work", what="echo there"), say("Done.")]
    with ModelServer(turns) as server, chat(server, "--allow", "work", rows=50) as terminal:
        enter(terminal, "go")
        asked(terminal, "+one", "n")
        terminal.wait("Stopped: you refused a call")
        assert not Path("new.txt").exists()
        enter(terminal, "and now")
        terminal.wait("Done.")
    assert "refused" in told(server)
