"""Which session `--continue` takes, how lists tell sessions apart, what a resumed one brings."""

from __future__ import annotations

import os

import pytest

from agent import session
from agent.events import AssistantFinished, RequestStarted, TurnEnd, TurnFinished, TurnStarted
from agent.journal import BATCH, CHAT
from agent.messages import BY_PERSON, AssistantMessage, ToolMessage, UserMessage
from agent.session_summary import labels
from tools.definition import ToolCall, ToolResult
from tools.events import CallFinished


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


def fail(notice):
    raise AssertionError(notice.text)


def made(project, *texts, kind=CHAT, age=0, answered=True, close=True):
    """A session with these messages, `age` seconds old."""
    new = session.start(project, "m", "0", tell=fail, kind=kind)
    for text in texts:
        new.journal.record(TurnStarted(UserMessage(text)))
        if answered:
            new.journal.record(AssistantFinished(AssistantMessage("yes")))
        new.journal.record(TurnFinished(TurnEnd.DONE if answered else TurnEnd.FAILED))
    if close:
        new.journal.close()
    then = new.info.created - age
    os.utime(new.journal.path, (then, then))
    return new


def test_a_chat_continues_the_newest_chat_a_job_the_newest_of_any(project):
    chat = made(project, "talk", age=60)
    job = made(project, "job", kind=BATCH)
    assert session.newest(project, CHAT) == chat.journal.path
    assert session.newest(project, BATCH) == job.journal.path


def test_a_chat_continues_a_job_where_there_is_no_chat(project):
    job = made(project, "job", kind=BATCH)
    assert session.newest(project, CHAT) == job.journal.path


def test_a_session_that_is_open_elsewhere_names_an_older_one(project):
    older = made(project, "older", age=60)
    busy = made(project, "newest", close=False)
    with pytest.raises(session.SessionInUse) as told:
        session.resume_newest(project, CHAT, tell=fail)
    busy.journal.close()
    assert busy.id in str(told.value)
    assert f"opta --resume {older.id} (older)" in str(told.value)
    assert str(told.value).endswith("To start a new one: opta")


def test_lists_mark_jobs_and_tell_repeated_titles_apart(project):
    made(project, "hi", "about birds", age=3)
    made(project, "hi", age=2)
    made(project, "count", kind=BATCH, age=1)
    made(project, "nobody heard this", answered=False)
    found = list(session.summaries(project))
    assert [summary.answered for summary in found] == [False, True, True, True]
    assert labels(found)[1:] == ["-p: count", "hi", "hi … about birds"]


def test_a_resumed_session_keeps_titles_and_commands_not_yet_sent(project):
    call = ToolCall("1", "run_command", '{"command": "echo hi"}')
    typed = ToolCall(f"{BY_PERSON}2", "run_command", '{"command": "id -u"}')
    new = session.start(project, "m", "0", tell=fail)
    for event in (
        CallFinished(ToolCall(f"{BY_PERSON}0", "run_command", "{}"), "sent", ToolResult("")),
        TurnStarted(UserMessage("go")),
        RequestStarted(1),
        AssistantFinished(AssistantMessage("", (call,))),
        CallFinished(call, "echo hi", ToolResult("hi")),
        TurnFinished(TurnEnd.DONE),
        CallFinished(typed, "id -u", ToolResult("0")),
    ):
        new.journal.record(event)
    new.journal.close()
    resumed = session.resume(new.journal.path, project, tell=fail)
    resumed.journal.close()
    (title,) = [m.title for m in resumed.messages if isinstance(m, ToolMessage)]
    assert title == "echo hi"
    assert [finished.call for finished in resumed.unsent] == [typed]
