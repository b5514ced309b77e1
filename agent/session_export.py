"""A session as it was, for people and programs: also what was summarised for the model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from agent.events import ContextCompacted, Rewound
from agent.journal import Recording
from agent.messages import AssistantMessage, Message, UserMessage
from agent.replay import replay
from agent.session_summary import local_time
from tools.definition import JsonObject


def as_markdown(path: Path, recording: Recording, shown_lines: int | None) -> Iterator[str]:
    """Yield the paragraphs of a session; of a longer result its first `shown_lines`."""
    yield from _heading(path, recording)
    for message in _said(recording):
        yield from _markdown(message, shown_lines)


def as_json(path: Path, recording: Recording) -> JsonObject:
    """Return a session for programs."""
    info = recording.info
    return {
        "id": path.stem,
        "cwd": info.cwd if info else None,
        "model": info.model if info else None,
        "created": info.created if info else None,
        "turns": recording.turns,
        "tokens": recording.tokens,
        "damaged_lines": recording.damaged,
        "messages": [_message_json(message) for message in _said(recording)],
    }


def _message_json(message: Message) -> JsonObject:
    match message:
        case UserMessage(text, context):
            return {"role": "user", "text": text, "context": context}
        case AssistantMessage():
            return {
                "role": "assistant",
                "text": message.text,
                "calls": [
                    {"id": call.id, "name": call.name, "arguments": call.arguments_json}
                    for call in message.calls
                ],
                "interrupted": message.interrupted,
            }
        case _:
            return {
                "role": "tool",
                "call_id": message.call.id,
                "name": message.call.name,
                "outcome": message.result.outcome.value,
                "exit_code": message.result.exit_code,
                "duration_ms": message.result.duration_ms,
                "text": message.result.text,
            }


def _said(recording: Recording) -> list[Message]:
    # The person wants to read what was said, not what was left of it for the model.
    return replay(e for e in recording.events if not isinstance(e, ContextCompacted | Rewound))


def _heading(path: Path, recording: Recording) -> Iterator[str]:
    info = recording.info
    yield f"# Session {path.stem}"
    if info is not None:
        turns = "1 turn" if recording.turns == 1 else f"{recording.turns} turns"
        yield (
            f"{local_time(info.created)} in {info.cwd}, model {info.model}, opta {info.opta}: "
            f"{turns}, {recording.tokens:,} tokens"
        )
    notice = recording.notice(path)
    if notice:
        yield f"> {notice}"


def _markdown(message: Message, shown_lines: int | None) -> Iterator[str]:
    match message:
        case UserMessage():
            yield f"## You\n\n{message.text}"
        case AssistantMessage():
            yield "## opta"
            if message.model_text:
                yield message.model_text
        case _:
            result = message.result
            yield f"### {message.call.name}: {result.outcome.value}, {result.duration_ms} ms"
            yield _fenced(message.call.arguments_json, "json", shown_lines)
            yield _fenced(result.text, "", shown_lines)


def _fenced(text: str, language: str, shown_lines: int | None) -> str:
    lines = text.rstrip("\n").split("\n")
    if shown_lines is not None and len(lines) > shown_lines:
        lines = [*lines[:shown_lines], f"[… {len(lines) - shown_lines} more lines …]"]
    fence = "`" * max(3, 1 + max((_backticks(line) for line in lines), default=0))
    return "\n".join([f"{fence}{language}", *lines, fence])


def _backticks(line: str) -> int:
    text = line.lstrip()
    return len(text) - len(text.lstrip("`"))
