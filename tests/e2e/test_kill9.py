"""A kill at any moment costs at most the last event of a session (R47)."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from agent import session
from agent.event_json import to_json
from agent.journal import read_journal
from agent.messages import AssistantMessage, ToolMessage
from agent.replay import replay
from tests.support.cli import opta
from tests.support.model_server import ModelServer, answer, say, scripted_call
from tests.support.plans import processes_with
from tests.support.soon import until
from tools import storage

ROOT = Path(__file__).resolve().parent.parent.parent
ROUNDS = 20
GENERATIONS = 3
OPTA = [sys.executable, str(ROOT / "opta.py"), "-p", "go", "--model", "m"]

WRITER = """
import itertools, os, sys
from pathlib import Path
from agent import session
from agent.events import AssistantFinished, RequestStarted, TurnEnd, TurnFinished, TurnStarted
from agent.messages import AssistantMessage, UserMessage
from agent.model.base import TextDelta, UsageDelta
from tools.definition import (ToolCall, ToolResult)
from tools.events import CallFinished, CallOutput, CallProposed, CallStarted

def turn(number):
    calls = tuple(ToolCall(f"{number}-{n}", "run_command", "{}") for n in range(3))
    yield TurnStarted(UserMessage(f"message {number}"))
    yield RequestStarted(1)
    for piece in range(20):
        yield TextDelta(f"piece {number}.{piece} " + "x" * (piece * 97 % 4000))
    yield UsageDelta(10, 1)
    yield AssistantFinished(AssistantMessage("calls", calls=calls))
    yield from map(CallProposed, calls)
    for call in calls:
        yield CallStarted(call, "title")
        yield CallOutput(call.id, "output " * 50)
    for call in calls:
        yield CallFinished(call, "title", ToolResult("result " * 500))
    yield RequestStarted(2)
    yield AssistantFinished(AssistantMessage("done"))
    yield TurnFinished(TurnEnd.DONE)

if len(sys.argv) > 1:
    opened = session.resume(session.find(sys.argv[1]), Path.cwd(), tell=print)
else:
    opened = session.start(Path.cwd(), "model", "0", tell=print)
print(opened.id, flush=True)
for number in itertools.count():
    for event in turn(number):
        opened.journal.record(event)
        # What follows is "showing": the test counts the lines that arrived.
        os.write(1, b"shown\\n")
"""


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def write_and_kill(after_events: int, *arguments: str) -> tuple[str, int]:
    """Run the writer, kill it once it has shown about so many events; return id and count."""
    command = [sys.executable, "-c", WRITER, *arguments]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        identity = process.stdout.readline().decode().strip()
        for _ in range(after_events):
            process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        shown = after_events + process.stdout.read().count(b"\n")
    assert process.returncode == -signal.SIGKILL
    return identity, shown


def check_history(path: Path) -> None:
    expected: list[str] = []
    messages = replay(read_journal(path).events)
    for message in messages:
        if isinstance(message, ToolMessage):
            assert message.call.id == expected.pop(0)
            continue
        assert expected == []
        if isinstance(message, AssistantMessage):
            expected = [call.id for call in message.calls]
    assert expected == []
    assert not messages or isinstance(messages[-1], AssistantMessage | ToolMessage)


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_r47_a_kill_at_a_random_moment_loses_at_most_the_last_event(seed: int) -> None:
    """Each round kills a session three times: the second and third time while it goes on."""
    moments = random.Random(seed)
    identity, recorded = "", 0
    for generation in range(GENERATIONS):
        arguments = (identity,) if identity else ()
        identity, shown = write_and_kill(moments.randrange(200), *arguments)
        recording = read_journal(session.find(identity))
        # Every event that was shown is there; one more may be, recorded but not yet shown.
        # A line that was cut by the kill is the only one that may be damaged.
        new = len(recording.entries) - recorded
        assert shown <= new <= shown + 1
        assert len(recording.damaged) <= generation + 1
        check_history(session.find(identity))
        recorded += new
    assert recording.info is not None
    assert recording.info.id == identity


def working_model(pause_s: float) -> ModelServer:
    calls = [scripted_call("run_command", command=f"sleep 0.01; echo {n}") for n in range(3)]
    return ModelServer(
        answer(f"Step {step} of the work. " * 4, calls, pause_s=pause_s) for step in range(30)
    )


@pytest.mark.parametrize("seed", range(6))
def test_opta_itself_killed_at_work_comes_back_with_all_it_showed(
    seed: int, tmp_path: Path
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    wanted = random.Random(seed).randrange(1, 120)
    command = [*OPTA, "--dangerously-skip-permissions", "--output-format", "stream-json"]
    with working_model(0.001) as server:
        env = {**os.environ, "OPENAI_BASE_URL": server.base_url, "OPENAI_API_KEY": "k"}
        with subprocess.Popen(command, cwd=project, env=env, stdout=subprocess.PIPE) as opta:
            assert opta.stdout is not None
            lines = [opta.stdout.readline() for _ in range(wanted)]
            opta.send_signal(signal.SIGKILL)
            lines += opta.stdout.readlines()
        assert opta.returncode == -signal.SIGKILL
    shown = [json.loads(line) for line in lines if line.endswith(b"\n")]
    path = session.newest(project)
    recorded = [to_json(event) for event in read_journal(path).events]
    assert recorded[: len(shown)] == shown
    assert len(recorded) <= len(shown) + 1
    check_history(path)

    with ModelServer([say("I am back.")]) as server:
        env |= {"OPENAI_BASE_URL": server.base_url}
        again = subprocess.run(
            [*OPTA, "--continue"], cwd=project, env=env, capture_output=True, text=True, check=False
        )
        assert (again.returncode, again.stdout) == (0, "I am back.\n"), again.stderr
        asked = [c["id"] for m in server.sent_messages for c in m.get("tool_calls", ())]
        given = [m["tool_call_id"] for m in server.sent_messages if m["role"] == "tool"]
        assert asked == given


def kill_while_a_sleep_runs(lines: list[str], marker: str, directory: Path) -> None:
    """Run commands at the same time, and kill opta once only `sleep 61.marker` is left."""
    calls = [scripted_call("run_command", command=line) for line in lines]
    command = [*OPTA, "--dangerously-skip-permissions"]
    with ModelServer([answer("", calls), say("done")]) as server:
        env = {**os.environ, "OPENAI_BASE_URL": server.base_url, "OPENAI_API_KEY": "k"}
        with subprocess.Popen(command, cwd=directory, env=env, stdout=subprocess.DEVNULL) as opta:
            until(lambda: processes_with(f"sleep 61.{marker}"))
            until(lambda: not processes_with(f"sleep 0.{marker}"))
            opta.send_signal(signal.SIGKILL)


@pytest.mark.skipif(os.name != "posix", reason="the watchdog is a POSIX shell")
@pytest.mark.parametrize("lines", [
    ["sleep 61.{} & sleep 61.{}; true"],
    ["trap '' TERM; sleep 61.{}; sleep 61.{}"],
    ["sleep 61.{}; true", *["sleep 0.{}; true"] * 7],
], ids=["children", "deaf", "one of many"])  # fmt: skip
def test_r44_what_a_killed_opta_had_started_is_ended(lines: list[str], tmp_path: Path) -> None:
    marker = str(random.randrange(10**9, 10**10))
    kill_while_a_sleep_runs([line.replace("{}", marker) for line in lines], marker, tmp_path)
    until(lambda: not processes_with(marker))


def test_what_a_killed_opta_left_half_written_is_removed_and_named() -> None:
    rubbish = Path.cwd() / ".opta-0123456789abcdef.tmp"
    rubbish.write_text("half")
    note = storage.note_unfinished(rubbish)
    assert note is not None
    note.close()
    with ModelServer([say("hello"), say("again")]) as server:
        first, second = (opta("-p", "x", server=server).stderr for _ in range(2))
    assert f"removed what a killed opta left half written: {rubbish}" in first
    assert "half written" not in second
    assert not rubbish.exists()
