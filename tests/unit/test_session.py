"""Sessions are found again, from anywhere, fast, and one opta at a time writes them."""

from __future__ import annotations

import argparse
import io
import json
import os
import stat
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from agent import session, sessions_command
from agent.events import (
    AssistantFinished,
    ContextCompacted,
    Event,
    Notice,
    TurnEnd,
    TurnFinished,
    TurnStarted,
)
from agent.messages import AssistantMessage, UserMessage
from agent.model.base import TextDelta, UsageDelta
from agent.session import Session, SessionError
from agent.session_summary import TITLE_CHARS
from tools.definition import Outcome, ToolCall, ToolResult
from tools.events import CallFinished

CALL = ToolCall("1", "run_command", '{"command": "ls"}')


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "opta"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "my project").mkdir()
    monkeypatch.chdir(tmp_path / "my project")
    return tmp_path / "my project"


def fail(notice: Notice) -> None:
    raise AssertionError(notice.text)


def turn(text: str, answer: str = "done") -> list[Event]:
    return [
        TurnStarted(UserMessage(text)),
        UsageDelta(100, 10),
        AssistantFinished(AssistantMessage(answer)),
        TurnFinished(TurnEnd.DONE),
    ]


def record(cwd: Path, events: Sequence[Event], age_s: float = 0) -> Session:
    made = session.start(cwd, "gpt-x", "0.1.0", tell=fail)
    for event in events:
        made.journal.record(event)
    made.journal.close()
    if made.journal.path.exists():
        when = time.time() - age_s
        os.utime(made.journal.path, (when, when))
    return made


def run(*arguments: str) -> str:
    parser = argparse.ArgumentParser()
    sessions_command.configure(parser)
    out = io.StringIO()
    assert sessions_command.run(parser.parse_args(arguments), out) == 0
    return out.getvalue()


def run_json(*arguments: str) -> Any:
    return json.loads(run(*arguments, "--format", "json"))


def test_ids_sort_by_age_and_need_no_quotes() -> None:
    ids = [session.new_id(when) for when in range(10**9, 10**9 + 1000, 7)]
    assert ids == sorted(set(ids))
    assert all(identity.replace("-", "").isalnum() for identity in ids)


def test_a_session_lies_private_below_a_readable_name_of_its_project(
    project: Path, state: Path
) -> None:
    path = record(project, turn("x")).journal.path
    assert path.parent.parent == state / "sessions"
    assert path.parent.name.startswith("my-project-")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_project_is_known_by_its_real_path(project: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(project)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "my project").mkdir()
    assert session.project_dir(tmp_path / "link") == session.project_dir(project)
    assert session.project_dir(tmp_path / "other" / "my project") != session.project_dir(project)


def test_the_newest_session_of_the_directory_goes_on(project: Path, tmp_path: Path) -> None:
    record(project, turn("old"), age_s=100)
    wanted = record(project, turn("new"), age_s=50)
    record(tmp_path, turn("elsewhere"))
    record(project, [Notice("only looked around")])
    assert session.newest(project) == wanted.journal.path
    resumed = session.resume(session.newest(project), project, tell=fail)
    assert resumed.id == wanted.id
    assert resumed.notices == ()
    assert [type(message) for message in resumed.messages] == [UserMessage, AssistantMessage]
    for event in turn("and more"):
        resumed.journal.record(event)
    resumed.journal.close()
    (summary,) = [s for s in session.summaries(project) if s.id == wanted.id]
    assert (summary.title, summary.turns, summary.tokens) == ("new", 2, 220)


def test_without_a_session_there_is_nothing_to_continue(project: Path) -> None:
    with pytest.raises(SessionError, match=r"no earlier session in .*my project"):
        session.newest(project)


def test_a_session_is_found_from_anywhere_by_its_id_or_a_unique_beginning(
    project: Path, tmp_path: Path
) -> None:
    made = record(project, turn("x"))
    assert session.find(made.id) == session.find(made.id[:-2]) == made.journal.path
    resumed = session.resume(session.find(made.id), tmp_path, tell=fail)
    resumed.journal.close()
    assert resumed.notices == (f"This session began in {project}; it goes on in {tmp_path}.",)


@pytest.mark.parametrize("identity", ["zzz", "", "../x", "a*", "a/b"])
def test_an_id_that_fits_nothing_is_an_error(project: Path, identity: str) -> None:
    record(project, turn("x"))
    with pytest.raises(SessionError, match=r"sessions list"):
        session.find(identity)


def test_a_beginning_that_fits_several_names_them(project: Path) -> None:
    made = [record(project, turn("x")) for _ in range(2)]
    with pytest.raises(SessionError) as caught:
        session.find(made[0].id[:2])
    assert all(one.id in str(caught.value) for one in made)


def test_a_session_that_is_open_cannot_be_resumed_or_removed(project: Path) -> None:
    made = session.start(project, "m", "0", tell=fail)
    made.journal.record(TurnStarted(UserMessage("x")))
    with pytest.raises(SessionError, match="already open"):
        session.resume(made.journal.path, project, tell=fail)
    with pytest.raises(SessionError, match="open in another"):
        session.delete(made.journal.path)
    made.journal.close()
    session.delete(made.journal.path)
    assert not made.journal.path.exists()


def test_a_session_with_a_damaged_head_goes_on(project: Path) -> None:
    made = record(project, turn("x"))
    lines = made.journal.path.read_bytes().split(b"\n")
    made.journal.path.write_bytes(b"\n".join([b"\x00garbage", *lines[1:]]))
    resumed = session.resume(made.journal.path, project, tell=fail)
    resumed.journal.close()
    assert len(resumed.messages) == 2
    assert "1 damaged line" in resumed.notices[0]


def test_without_a_home_a_session_begins_unrecorded_and_says_so(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", "")
    told: list[str] = []
    made = session.start(project, "m", "0", tell=lambda notice: told.append(notice.text))
    for event in turn("x"):
        made.journal.record(event)
    assert len(told) == 1
    assert "HOME" in told[0]
    assert list(project.iterdir()) == []
    with pytest.raises(SessionError, match="HOME"):
        session.newest(project)


def test_a_list_counts_a_turn_that_was_killed(project: Path) -> None:
    killed = [TurnStarted(UserMessage("again")), UsageDelta(5, 5), TextDelta("hal")]
    record(project, [*turn("first\nsecond line \x1b[31m" + "x" * 200), *killed])
    (summary,) = session.summaries(project)
    assert (summary.turns, summary.tokens) == (2, 120)
    assert summary.title.startswith("first second line xxx")
    assert len(summary.title) == TITLE_CHARS


def test_a_large_session_is_summarised_right(project: Path) -> None:
    deltas = [TextDelta("x" * 1000) for _ in range(300)]
    record(project, [*turn("one"), *deltas, *turn("two")])
    record(project, [TurnStarted(UserMessage("y" * 100_000)), UsageDelta(1, 1), *deltas])
    assert [(s.turns, s.tokens) for s in session.summaries(project)] == [(1, 2), (2, 220)]


def test_list_shows_this_directory_or_all(project: Path, tmp_path: Path) -> None:
    assert "no sessions" in run("list")
    old = record(project, turn("old one"), age_s=100)
    new = record(project, turn("new one"))
    other = record(tmp_path, turn("other one"))
    lines = run("list").splitlines()
    assert [line.split()[0] for line in lines] == ["ID", new.id, old.id]
    assert lines[1].endswith("110  new one")
    assert run() == run("list")
    assert {item["id"] for item in run_json("list", "--all")} == {old.id, new.id, other.id}
    (item,) = run_json("list", "--limit", "1")
    assert (item["id"], item["turns"], item["tokens"], item["cwd"]) == (
        new.id, 1, 110, str(project),
    )  # fmt: skip


@pytest.mark.parametrize("value", ["-1", "many"])
def test_a_limit_that_is_no_number_is_wrong_usage(
    project: Path, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        run("list", f"--limit={value}")
    assert caught.value.code == 2
    assert "not a number of 0 or more" in capsys.readouterr().err


def test_a_directory_that_is_gone_is_told(project: Path) -> None:
    project.rmdir()
    with pytest.raises(SessionError, match="use --all"):
        run("list")


def conversation() -> list[Event]:
    result = ToolResult("\n".join(f"file{n}" for n in range(50)), Outcome.OK, duration_ms=7)
    return [
        TurnStarted(UserMessage("what is here?", "secret context")),
        AssistantFinished(AssistantMessage("I look.", calls=(CALL,))),
        CallFinished(CALL, "ls", result),
        ContextCompacted("summary", 0, 9, 1),
        AssistantFinished(AssistantMessage("Fifty\x1b[2J files.\n```\ncode\n```")),
        TurnFinished(TurnEnd.DONE),
    ]


def test_export_holds_everything_said_and_done(project: Path) -> None:
    made = record(project, conversation())
    text = run("export", made.id)
    for part in ("what is here?", "I look.", "run_command: ok, 7 ms", "file49", "Fifty files."):
        assert part in text
    assert "\x1b" not in text
    whole = run_json("export", made.id)
    assert [m["role"] for m in whole["messages"]] == ["user", "assistant", "tool", "assistant"]
    assert whole["messages"][1]["calls"] == [
        {"id": "1", "name": "run_command", "arguments": CALL.arguments_json}
    ]
    assert whole["messages"][2]["text"].endswith("file49")


def test_show_shortens_long_results(project: Path) -> None:
    made = record(project, conversation())
    text = run("show", made.id[:-1])
    assert "file11\n[… 38 more lines …]" in text
    assert "file12" not in text
    assert run_json("show", made.id)["turns"] == 1


def test_rm_removes_all_or_nothing(project: Path) -> None:
    first, second = record(project, turn("x")), record(project, turn("y"))
    with pytest.raises(SessionError):
        run("rm", first.id, "nonsense")
    assert first.journal.path.exists()
    assert run("rm", first.id) == f"Removed {first.id}.\n"
    assert run_json("rm", second.id) == {"removed": [second.id]}
    assert list(session.summaries(project)) == []
