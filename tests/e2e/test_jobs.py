"""Calls in the background: started, read later, stopped, and none that outlives opta."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

from tests.support.cli import OPTA, connected, opta
from tests.support.code_tools import code_tool
from tests.support.model_server import End, ModelServer, Reply, call, chat_chunk, say, sse
from tests.support.processes import has_ended
from tests.support.soon import until
from tests.support.terminal import Terminal, needs_tmux

SKIP = "--dangerously-skip-permissions"
SERVER = "echo $$ > pid; echo ready; sleep 300 & echo $! > child; while sleep 0.1; do :; done"


def results(server):
    return [m["content"] for m in server.sent_messages if m["role"] == "tool"]


def gone(name):
    """Tell whether the process whose number is in a file has ended."""
    return has_ended(int(Path(name).read_text()))


def own_tools():
    """Make a tool `serve` of the person's own; return the directory of such tools."""
    tools = Path(os.environ["XDG_CONFIG_HOME"], "opta", "tools")
    tools.mkdir(parents=True)
    (tools / "serve.yaml").write_text(
        "name: serve\ndescription: Serve\nbash: echo on {PORT}; echo $$ > pid; sleep 300\n"
        "parameters: {PORT: {type: number, description: p, required: true}}\n"
    )
    return tools


def names(request):
    return {tool["function"]["name"] for tool in request.json["tools"]}


def test_a_command_goes_on_in_the_background_is_read_and_stopped_with_all_it_started():
    def stopped(request):
        assert gone("pid")
        return say("done")

    script = [
        call("run_command", command=SERVER, background=True),
        call("background_job", id="1", wait=10),
        call("background_job", id="1"),
        call("background_job", id="1", stop=True),
        stopped,
    ]
    with ModelServer(script) as server:
        done = opta("-p", "go", SKIP, server=server)
        started, first, second, last = results(server)
        offered = ["background_job" in names(request) for request in server.requests]
    assert done.returncode == 0
    assert started.startswith("Started as job 1")
    assert "ready" in started + first
    assert "ready" not in second
    assert second.startswith("[job 1: running for")
    assert "Stopped, with everything it started" in last + first or "cancelled after" in last
    assert gone("child")
    assert offered == [False, True, True, True, True]


def test_nothing_outlives_a_job_that_ends_while_it_runs():
    with ModelServer([call("run_command", command=SERVER, background=True), say("ok")]) as server:
        done = opta("-p", "go", SKIP, server=server)
    assert done.returncode == 0
    assert "1 job in the background stopped" in done.stderr
    assert gone("pid")
    assert gone("child")


def test_an_interrupted_turn_ends_its_jobs_with_opta():
    script = [
        call("run_command", command=SERVER, background=True),
        Reply(sse(chat_chunk("never ends")), end=End.HANG),
    ]
    with ModelServer(script) as server:
        process = subprocess.Popen(
            [*OPTA, "-p", "go", SKIP, *connected(server)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        server.wait_for_requests(2)
        until(lambda: Path("child").exists() and Path("child").read_text().strip())
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)
    assert process.returncode == 130
    assert gone("pid")
    assert gone("child")


def test_a_command_that_fails_at_once_says_so_at_once():
    script = [call("run_command", command="echo broken; exit 3", background=True), say("ok")]
    with ModelServer(script) as server:
        opta("-p", "go", SKIP, server=server)
        (told,) = results(server)
    assert told.startswith("Job 1 has ended already.\nbroken\n[exit code: 3]\n[job 1: error after")


def test_a_custom_tool_goes_on_in_the_background_too():
    own_tools()
    script = [
        call("serve", PORT=80, background=True),
        call("background_job", id="1", wait=10),
        call("background_job", id="7"),
        say("ok"),
    ]
    with ModelServer(script) as server:
        opta("-p", "go", SKIP, server=server)
        started, read, unknown = results(server)
    assert "Started as job 1" in started
    assert "on 80" in started + read
    assert unknown == "There is no job '7'; there are: 1."


def test_the_background_asks_like_the_foreground():
    script = [call("run_command", command="touch made", background=True), say("no")]
    with ModelServer(script * 2) as server:
        asked = opta("-p", "go", server=server)
        opta("-p", "go", SKIP, "--deny", "run_command(touch:*)", server=server)
    assert asked.returncode == 3
    assert not Path("made").exists()


def test_much_output_is_bounded_and_the_rest_is_in_a_file():
    flood = "seq 1 200000; echo end"
    script = [
        call("run_command", command=flood, background=True),
        call("background_job", id="1", wait=30),
        say("ok"),
    ]
    with ModelServer(script) as server:
        opta("-p", "go", SKIP, server=server)
        told = "\n".join(results(server))
    assert "\nend\n" in told
    assert len(told) < 60_000


def test_an_iteration_of_the_loop_leaves_no_job_to_the_next():
    Path("SPEC.md").write_text("x")

    def look(request):
        assert gone("pid")
        return say("b")

    script = [call("run_command", command=SERVER, background=True), say("a"), look]
    with ModelServer(script) as server:
        opta("loop", "SPEC.md", SKIP, "--max-iterations", "2", server=server)
        assert len(server.requests) == 3


@needs_tmux
def test_the_person_starts_lists_shows_and_stops_jobs():
    with ModelServer([say("Noted.")]) as server:
        with Terminal([*OPTA, *connected(server)]) as terminal:
            terminal.wait("ask ·")
            for text, shown in (
                ("/jobs", "Nothing was started."),
                (f"/jobs start {SERVER}", "Job 1: running for"),
                ("/jobs", "1  echo $$"),
                ("/jobs show 1", "[job 1: running for"),
                ("/jobs start echo over; exit 4", "error after 0 s, exit code 4"),
                ("/jobs stop 3", "There is no job '3'; there are: 1, 2."),
                ("/jobs show", "/jobs show needs the number of a job."),
                ("/jobs start", "/jobs start needs a command."),
                ("/jobs frob 1", "There is no job 'frob'; there are: 1, 2."),
                ("/jobs stop 1", "[job 1: cancelled after"),
            ):
                terminal.type(text)
                terminal.send("Enter")
                terminal.wait(shown)
            assert gone("child")
            terminal.type("/jobs start sleep 300 & echo $! > left; wait")
            terminal.send("Enter")
            terminal.wait("Job 3: running for")
            terminal.type("hello")
            terminal.send("Enter")
            terminal.wait("Noted.")
            until(lambda: Path("left").exists() and Path("left").read_text().strip())
            terminal.send("C-d")
            assert terminal.wait_exit() == 0
        sent = server.sent_messages[-1]["content"]
    assert "Started as job 1" in sent
    assert gone("left")


@needs_tmux
def test_the_person_starts_a_tool_in_the_background():
    tools = own_tools()
    (tools / "program.yaml").write_text(code_tool("program"))
    with ModelServer([say("Noted.")]) as server:
        with Terminal([*OPTA, *connected(server)]) as terminal:
            terminal.wait("ask ·")
            for text, shown in (
                ("/jobs tool", "/jobs tool needs the name of a tool."),
                ("/jobs tool srve", "There is no tool 'srve'. Nearest names: serve."),
                ("/jobs tool serve PORT", "/jobs tool needs NAME=VALUE, not 'PORT'"),
                ("/jobs tool serve PORT=x", "PORT must be of type number"),
                ("/jobs tool serve HOST=x", "serve has no parameter 'HOST'. It has PORT."),
                ("/jobs tool program", "program does not run in the background"),
                ("/jobs tool serve PORT=80", "Job 1: running for"),
                ("/jobs show 1", "on 80"),
            ):
                terminal.type(text)
                terminal.send("Enter")
                terminal.wait(shown)
            terminal.type("hello")
            terminal.send("Enter")
            terminal.wait("Noted.")
            terminal.type("/jobs stop 1")
            terminal.send("Enter")
            terminal.wait("[job 1: cancelled after")
            assert gone("pid")
        sent = server.sent_messages[-1]["content"]
    assert 'serve {"PORT": 80}\nStarted as job 1' in sent


def test_what_the_background_costs_in_tokens_is_small_and_not_paid_without_a_job():
    with ModelServer([say("a")]) as server:
        opta("-p", "go", server=server)
        tools = server.requests[0].json["tools"]
    assert "background_job" not in json.dumps(tools)
