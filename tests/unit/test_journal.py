"""The journal gives back what was recorded, whatever happened to the file."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.conversation import Conversation
from agent.event_json import EventJsonError, from_json, to_json
from agent.events import (
    AssistantFinished,
    ContextCompacted,
    Event,
    ImagesDropped,
    Level,
    MessageAdded,
    Notice,
    RequestStarted,
    RetryScheduled,
    Rewound,
    TurnEnd,
    TurnFinished,
    TurnStarted,
)
from agent.journal import (
    OUTPUT_CHARS,
    Journal,
    SessionBusy,
    SessionInfo,
    parse_journal,
    read_journal,
)
from agent.messages import AssistantMessage, Image, Message, ToolMessage, UserMessage
from agent.model.base import ReasoningDelta, TextDelta, UsageDelta
from agent.redaction import REDACTED, Redactor
from agent.replay import STOPPED_BEFORE, STOPPED_DURING, replay
from tools.definition import CommandDisplay, DiffDisplay, Outcome, TextDisplay, ToolCall, ToolResult
from tools.events import CallDecided, CallFinished, CallOutput, CallProposed, CallStarted

ROOT = Path(__file__).resolve().parent.parent.parent
INFO = SessionInfo("261121-031344-abcd", "/project", "gpt-x", 1795231739.72, "0.1.0")

TEXT = st.text(max_size=12)
COUNT = st.integers(0, 10**6)
CALL = st.builds(ToolCall, id=TEXT, name=TEXT, arguments_json=TEXT)
DISPLAY = st.one_of(
    st.builds(TextDisplay, TEXT),
    st.builds(DiffDisplay, TEXT, TEXT, st.booleans()),
    st.builds(CommandDisplay, TEXT, TEXT, TEXT),
)
RESULT = st.builds(
    ToolResult,
    text=TEXT,
    outcome=st.sampled_from(Outcome),
    display=st.none() | DISPLAY,
    exit_code=st.none() | st.integers(-255, 255),
    duration_ms=COUNT,
    full_output=st.none() | st.just(Path("/state/output/x.txt")),
    stop_turn=st.booleans(),
)
EXTRAS = st.dictionaries(TEXT, st.none() | TEXT | COUNT | st.lists(TEXT, max_size=2), max_size=2)
ASSISTANT = st.builds(
    AssistantMessage,
    text=TEXT,
    calls=st.lists(CALL, max_size=3).map(tuple),
    reasoning=TEXT,
    extras=EXTRAS,
    interrupted=st.booleans(),
)
IMAGE = st.builds(
    Image, st.sampled_from(["image/png", "image/jpeg"]), st.sampled_from(["", "aGk="])
)
EVENT: st.SearchStrategy[Event] = st.one_of(
    st.builds(
        TurnStarted, st.builds(UserMessage, TEXT, TEXT, st.lists(IMAGE, max_size=2).map(tuple))
    ),
    st.just(ImagesDropped()),
    st.builds(MessageAdded, st.builds(UserMessage, TEXT, TEXT, at=st.none() | st.floats(0, 2e9))),
    st.builds(Rewound, st.integers(0, 5)),
    st.builds(RequestStarted, COUNT),
    st.builds(TextDelta, TEXT),
    st.builds(ReasoningDelta, TEXT),
    st.builds(UsageDelta, COUNT, COUNT, COUNT),
    st.builds(RetryScheduled, TEXT, st.floats(0, 60), COUNT),
    st.builds(AssistantFinished, ASSISTANT),
    st.builds(CallProposed, CALL),
    st.builds(CallDecided, CALL, TEXT, DISPLAY, st.booleans(), TEXT),
    st.builds(CallStarted, CALL, TEXT),
    st.builds(CallOutput, TEXT, TEXT.filter(bool)),
    st.builds(CallFinished, CALL, TEXT, RESULT),
    st.builds(ContextCompacted, TEXT, st.integers(0, 5), COUNT, COUNT),
    st.builds(Notice, TEXT, st.sampled_from(Level)),
    st.builds(TurnFinished, st.sampled_from(TurnEnd), TEXT, TEXT, COUNT),
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "sessions" / f"{INFO.id}.jsonl"


def write(path: Path, events: Sequence[Event], secrets: Sequence[str] = ()) -> Journal:
    told: list[Notice] = []
    journal = Journal(path, INFO, tell=told.append, redact=Redactor(secrets))
    for event in events:
        journal.record(event)
    journal.close()
    assert told == []
    return journal


def form(message: Message) -> object:
    """A message as a value that compares: messages themselves compare by identity."""
    match message:
        case UserMessage(text, context, images, at):
            return text, context, *([at] if at is not None else []), *images
        case ToolMessage(call, result):
            return call, result
        case _:
            return message.text, message.calls, message.reasoning, message.interrupted


def check_valid(messages: Sequence[Message], events: Sequence[Event]) -> None:
    recorded = [event.result for event in events if isinstance(event, CallFinished)]
    expected: list[ToolCall] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            assert message.call == expected.pop(0)
            # What was recorded is given back as it is, also where it is empty.
            assert message.result.text or message.result in recorded
            continue
        assert expected == []
        if isinstance(message, AssistantMessage):
            expected = list(message.calls)
    assert expected == []


@settings(max_examples=300, deadline=None)
@given(EVENT)
def test_every_event_survives_its_json_form(event: Event) -> None:
    value = json.loads(json.dumps(to_json(event)))
    assert value["v"] == 1
    assert to_json(from_json(value)) == to_json(event)
    assert type(from_json(value)) is type(event)


@pytest.mark.parametrize(
    "value",
    [
        None, [], {}, {"v": 1}, {"v": 2, "type": "text", "text": ""}, {"v": 1, "type": "nothing"},
        {"v": 1, "type": "text", "text": 5}, {"v": 1, "type": [], "text": ""},
        {"v": 1, "type": "request", "number": True}, {"v": 1, "type": "end", "end": "maybe"},
        {"v": 1, "type": "started", "call": {"id": "1", "name": None}, "title": ""},
    ],
)  # fmt: skip
def test_what_is_no_event_is_refused(value: object) -> None:
    with pytest.raises(EventJsonError):
        from_json(value)


def test_a_file_gives_back_its_head_and_its_events_in_order(path: Path) -> None:
    events: list[Event] = [
        TurnStarted(UserMessage("do it", "context")),
        RequestStarted(1),
        TextDelta("pie"),
        TextDelta("ce \u2028 \ud800 \"'\\ \x00"),
        UsageDelta(10, 5, 2),
        AssistantFinished(AssistantMessage("piece")),
        TurnFinished(TurnEnd.DONE, duration_ms=5),
    ]
    write(path, events)
    recording = read_journal(path)
    assert recording.info == INFO
    assert [to_json(event) for event in recording.events] == [to_json(event) for event in events]
    assert (recording.turns, recording.tokens, recording.damaged) == (1, 15, [])
    last = json.loads(path.read_text().splitlines()[-1])
    assert (last["type"], last["turns"], last["tokens"]) == ("end", 1, 15)


def test_r47_each_event_is_on_disk_when_record_returns(path: Path) -> None:
    journal = Journal(path, INFO, tell=lambda notice: None)
    for number in range(1, 20):
        journal.record(TextDelta(f"{number}"))
        assert path.read_bytes().endswith(f'"text":"{number}"}}\n'.encode())
        assert path.read_bytes().count(b"\n") == number + 1
    journal.close()


def test_notices_alone_leave_no_file_and_are_kept_when_more_follows(path: Path) -> None:
    journal = write(path, [Notice("hello")])
    assert not path.exists()
    assert not journal.recorded
    journal = write(path, [Notice("hello"), TurnStarted(UserMessage("x"))])
    assert journal.recorded
    assert next(read_journal(path).events) == Notice("hello")


def test_live_output_is_recorded_up_to_its_limit(path: Path) -> None:
    pieces = [CallOutput("1", "x" * 1000) for _ in range(100)]
    write(path, [*pieces, CallOutput("2", "other")])
    texts = [event.text for event in read_journal(path).events if isinstance(event, CallOutput)]
    assert len("".join(texts[:-1])) == OUTPUT_CHARS
    assert texts[-1] == "other"


@settings(max_examples=150, deadline=None)
@given(st.lists(EVENT, max_size=12), st.data())
def test_damage_never_raises_and_leaves_a_valid_history(
    events: list[Event], data: st.DataObject
) -> None:
    lines = [json.dumps(to_json(event)).encode() for event in events]
    whole = b"\n".join(lines) + b"\n"
    start = data.draw(st.integers(0, len(whole)))
    end = data.draw(st.integers(start, len(whole)))
    garbage = data.draw(st.binary(max_size=20))
    left = parse_journal(whole[:start] + garbage + whole[end:]).events
    check_valid(replay(left), left)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes_can_be_read(data: bytes) -> None:
    recording = parse_journal(data)
    assert len(recording.entries) + len(recording.damaged) <= data.count(b"\n") + 1


@settings(max_examples=150, deadline=None)
@given(st.lists(EVENT, max_size=12), st.integers(0, 5000))
def test_a_cut_loses_only_the_event_it_falls_into(events: list[Event], cut: int) -> None:
    lines = [json.dumps(to_json(event)).encode() + b"\n" for event in events]
    whole = b"".join(lines)
    cut = min(cut, len(whole))
    kept = whole[:cut].count(b"\n")
    recording = parse_journal(whole[:cut])
    assert [to_json(event) for event in recording.events][:kept] == [
        to_json(event) for event in events[:kept]
    ]
    # Without its newline the last event may still be whole.
    assert len(recording.entries) in (kept, kept + 1)


@pytest.mark.parametrize(
    "damage", [b"garbage", b"\x00" * 40, b'{"v":1,"type":"text"', b'{"v":1}', b"[" * 100_000]
)
def test_a_damaged_line_is_skipped_and_told(path: Path, damage: bytes) -> None:
    write(path, [TurnStarted(UserMessage("one")), AssistantFinished(AssistantMessage("two"))])
    lines = path.read_bytes().split(b"\n")
    lines.insert(2, damage)
    path.write_bytes(b"\n".join(lines))
    recording = read_journal(path)
    assert recording.damaged == [3]
    assert recording.notice(path) == f"skipped 1 damaged line of {path} (3)"
    assert [form(message) for message in replay(recording.events)] == [
        ("one", ""),
        ("two", (), "", False),
    ]


def test_events_of_a_newer_opta_are_skipped_and_told(path: Path) -> None:
    recording = parse_journal(b'{"v":2,"type":"hologram"}\n{"v":1,"type":"text","text":"x"}\n')
    assert (recording.newer, recording.damaged) == (1, [])
    assert list(recording.events) == [TextDelta("x")]
    assert "newer opta" in recording.notice(path)


ONE, TWO = ToolCall("1", "run_command", "{}"), ToolCall("2", "read_file", "{}")
ASKED = AssistantFinished(AssistantMessage("", calls=(ONE, TWO)))


def test_results_come_back_in_call_order_whatever_the_finishing_order() -> None:
    events = [
        TurnStarted(UserMessage("x")),
        ASKED,
        CallFinished(TWO, "", ToolResult("second")),
        CallFinished(ONE, "", ToolResult("first")),
        AssistantFinished(AssistantMessage("done")),
    ]
    messages = replay(events)
    check_valid(messages, events)
    assert [m.result.text for m in messages if isinstance(m, ToolMessage)] == ["first", "second"]


def test_calls_that_share_an_id_get_their_own_results() -> None:
    same = ToolCall("1", "read_file", "{}")
    asked = AssistantFinished(AssistantMessage("", calls=(ONE, same)))
    finished = [CallFinished(call, "", ToolResult(call.name)) for call in (ONE, same)]
    messages = replay([TurnStarted(UserMessage("x")), asked, *finished])
    assert [m.result.text for m in messages if isinstance(m, ToolMessage)] == [
        "run_command",
        "read_file",
    ]


def test_a_call_cut_by_a_kill_says_whether_it_had_started() -> None:
    events = [
        TurnStarted(UserMessage("x")),
        ASKED,
        CallStarted(ONE, ""),
        CallOutput("1", "half of\n"),
        CallOutput("1", "it\n"),
    ]
    started, not_started = (m.result for m in replay(events) if isinstance(m, ToolMessage))
    assert started.text == f"{STOPPED_DURING} Its output until then:\nhalf of\nit"
    assert not_started.text == STOPPED_BEFORE
    assert started.outcome is not_started.outcome is Outcome.CANCELLED


def test_an_answer_cut_by_a_kill_keeps_its_text_as_interrupted() -> None:
    events = [TurnStarted(UserMessage("x")), RequestStarted(1), TextDelta("ha"), TextDelta("lf")]
    assert form(replay(events)[-1]) == ("half", (), "", True)
    assert form(replay(events[:1])[-1]) == ("", (), "", True)


def test_the_text_of_a_failed_attempt_does_not_come_back() -> None:
    events = [
        TurnStarted(UserMessage("x")),
        RequestStarted(1),
        TextDelta("lost"),
        RetryScheduled("cut", 1.0, 1),
        RequestStarted(1),
        TextDelta("kept"),
    ]
    assert form(replay(events)[-1]) == ("kept", (), "", True)


def test_what_the_person_ran_by_hand_is_not_part_of_the_history() -> None:
    by_hand = ToolCall("you-1", "run_command", "{}")
    events = [CallProposed(by_hand), CallFinished(by_hand, "", ToolResult("x"))]
    assert replay(events) == []


def test_a_compaction_is_replayed_as_it_happened() -> None:
    live = Conversation("")
    events: list[Event] = []
    for number in range(6):
        user, answer = UserMessage(f"question {number}"), AssistantMessage(f"answer {number}")
        live.add_user(user)
        live.commit(answer)
        events += [TurnStarted(user), AssistantFinished(answer)]
    for kept in (4, 3):
        live.compact("summary", kept)
        events.append(ContextCompacted("summary", kept, 100, 50))
    assert [form(m) for m in replay(events)] == [form(m) for m in live.messages]
    assert len(live.messages) == 4


def test_a_summary_is_no_unanswered_message() -> None:
    events = [
        TurnStarted(UserMessage("x")),
        AssistantFinished(AssistantMessage("y")),
        TurnFinished(TurnEnd.DONE),
        ContextCompacted("summary", 0, 100, 50),
    ]
    assert [form(message) for message in replay(events)] == [("", "summary")]


def test_recording_goes_on_behind_a_cut_line(path: Path) -> None:
    write(path, [TurnStarted(UserMessage("one")), UsageDelta(3, 4)])
    path.write_bytes(path.read_bytes() + b'{"v":1,"type":"te')
    earlier = read_journal(path)
    journal = Journal(path, INFO, tell=lambda notice: None, earlier=earlier)
    journal.record(TurnStarted(UserMessage("two")))
    journal.record(TurnFinished(TurnEnd.DONE))
    journal.close()
    recording = read_journal(path)
    assert len(recording.damaged) == 1
    assert [e.message.text for e in recording.events if isinstance(e, TurnStarted)] == [
        "one",
        "two",
    ]
    last = json.loads(path.read_text().splitlines()[-1])
    assert (last["turns"], last["tokens"]) == (2, 7)


def test_a_session_has_one_writer(path: Path) -> None:
    first = Journal(path, INFO, tell=lambda notice: None)
    first.record(TurnStarted(UserMessage("x")))
    with pytest.raises(SessionBusy, match=INFO.id):
        Journal(path, INFO, tell=lambda notice: None, earlier=read_journal(path))
    first.close()
    Journal(path, INFO, tell=lambda notice: None, earlier=read_journal(path)).close()


def test_secrets_never_reach_the_file(path: Path) -> None:
    secret = 'sk-test "quoted" \u00e9 0123456789'
    call = ToolCall("1", "run_command", json.dumps({"command": f"echo {secret}"}))
    events: list[Event] = [
        TurnStarted(UserMessage(f"my key is {secret}", secret)),
        TextDelta(secret),
        ReasoningDelta(f"{secret}{secret}"),
        AssistantFinished(AssistantMessage(secret, extras={"deep": [{"er": secret}]})),
        CallDecided(call, secret, CommandDisplay(secret, "/"), True, "you"),
        CallOutput("1", secret),
        CallFinished(call, secret, ToolResult(f"<{secret}>", display=TextDisplay(secret))),
        Notice(secret),
    ]
    # In the arguments the secret stands as JSON writes it, which is a text of its own.
    write(path, events, [secret, json.dumps(secret)[1:-1]])
    text = path.read_text()
    assert "0123456789" not in text
    assert "sk-test" not in text
    finished = [e for e in read_journal(path).events if isinstance(e, CallFinished)]
    assert finished[0].result.text == f"<{REDACTED}>"


@pytest.mark.parametrize("size", [1, 3, 7])
def test_r39_a_secret_that_comes_in_pieces_is_nowhere_put_together(path: Path, size: int) -> None:
    secret = "sk-canary-0123456789"
    said = f"so {secret}{secret} it is s"
    pieces = [said[at : at + size] for at in range(0, len(said), size)]
    call = ToolCall("1", "run_command", "{}")
    events: list[Event] = [
        TurnStarted(UserMessage("x")),
        *(ReasoningDelta(piece) for piece in pieces),
        *(TextDelta(piece) for piece in pieces),
        *(CallOutput("1", piece) for piece in pieces),
        CallFinished(call, "title", ToolResult("done")),
    ]
    write(path, events, [secret])
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for event in (ReasoningDelta(""), TextDelta(""), CallOutput("1", "")):
        kind = to_json(event)["type"]
        text = "".join(line["text"] for line in lines if line["type"] == kind)
        assert text == f"so {REDACTED}{REDACTED} it is s"


def test_r39_what_a_cut_left_of_a_secret_is_redacted_too() -> None:
    redact = Redactor(["canary-0123456789"])
    assert redact("echo canary-0123…") == f"echo {REDACTED}…"
    assert redact("…3456789 and more…") == f"…{REDACTED} and more…"
    assert redact("echo can… and 89") == "echo can… and 89"


def test_short_placeholders_of_keys_are_words_and_stay() -> None:
    assert Redactor(["ollama", ""])("use ollama") == "use ollama"


def run_program(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def test_a_full_disk_is_told_once_and_nothing_recorded_is_lost(path: Path) -> None:
    code = """
import resource, signal, sys
from pathlib import Path
from agent.events import TurnStarted
from agent.journal import Journal, SessionInfo
from agent.messages import UserMessage
from agent.model.base import TextDelta

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
told = []
journal = Journal(Path(sys.argv[1]), SessionInfo("x", "/", "m", 0.0, "0"), tell=told.append)
journal.record(TurnStarted(UserMessage("hello")))
for number in range(1000):
    journal.record(TextDelta(f"delta {number}"))
journal.close()
print(len(told), told[0].text)
"""
    finished = run_program(code, str(path))
    assert finished.stderr == ""
    count, _, message = finished.stdout.partition(" ")
    assert count == "1"
    assert "file too large" in message
    assert "goes on without being recorded" in message
    recording = read_journal(path)
    assert recording.damaged == []
    texts = [event.text for event in recording.events if isinstance(event, TextDelta)]
    assert texts == [f"delta {number}" for number in range(len(texts))]
    assert len(texts) > 50


def test_a_place_that_cannot_be_written_is_told_once(tmp_path: Path) -> None:
    (tmp_path / "sessions").write_text("in the way")
    told: list[Notice] = []
    journal = Journal(tmp_path / "sessions" / "x.jsonl", INFO, tell=told.append)
    for _ in range(3):
        journal.record(TurnStarted(UserMessage("x")))
    journal.close()
    assert [notice.level for notice in told] == [Level.WARNING]
    assert "goes on without being recorded" in told[0].text
    assert not journal.recorded
