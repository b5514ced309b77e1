"""Front ends without a person: text, json and stream-json on standard output, progress on stderr.

Standard output holds only the promised format (R46).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol, TextIO

from agent import log
from agent.errors import sentence
from agent.event_json import to_json
from agent.events import Event, Level, Notice, RetryScheduled, TurnEnd, TurnFinished
from tools.definition import Outcome
from tools.engine.output import json_text, sanitize
from tools.events import CallFinished
from tools.record import record

MARKS = {Outcome.OK: "●", Outcome.DENIED: "⊘"}


@record
class Summary:
    """What a batch run came to. Money in US dollars, None where no price is known.

    `way_back` tells a person how to go on with the session.
    """

    text: str
    end: TurnEnd
    exit_code: int
    session_id: str
    model: str
    requests: int
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    cost_usd: float | None
    duration_ms: int
    denied: int
    error: str = ""
    next_step: str = ""
    way_back: str = ""


class BatchFrontEnd(Protocol):
    """Takes the events of a run and, at its end, the summary."""

    def emit(self, event: Event) -> None:
        """Take one event."""
        ...

    def finish(self, summary: Summary) -> None:
        """Write what the format promises at the end."""
        ...


@dataclass(slots=True)
class Progress:
    """One line on stderr for what a person watching wants to know."""

    err: TextIO

    def emit(self, event: Event) -> None:
        """Write a line for finished calls, retries, notices and failures."""
        self.tell(_progress_line(event))

    def tell(self, line: str) -> None:
        """Write a line that is not empty."""
        if line:
            self.err.write(f"{log.redactor()(sanitize(line))}\n")
            self.err.flush()


@dataclass(slots=True)
class TextFrontEnd:
    """The answer alone on standard output."""

    out: TextIO
    progress: Progress

    def emit(self, event: Event) -> None:
        """Pass the event on to the progress lines."""
        self.progress.emit(event)

    def finish(self, summary: Summary) -> None:
        """Write the answer, if there is one."""
        if summary.text:
            self.out.write(f"{log.redactor()(sanitize(summary.text))}\n")
            self.out.flush()
        if summary.end is not TurnEnd.DONE:
            self.progress.tell(summary.way_back)


@dataclass(slots=True)
class JsonFrontEnd:
    """One JSON object on standard output: the summary and the calls made."""

    out: TextIO
    progress: Progress
    calls: list[dict[str, Any]] = field(default_factory=list)

    def emit(self, event: Event) -> None:
        """Collect the calls; pass the event on to the progress lines."""
        self.progress.emit(event)
        if isinstance(event, CallFinished):
            self.calls.append(
                {
                    "tool": event.call.name,
                    "arguments": event.call.arguments_json,
                    "outcome": event.result.outcome.value,
                    "exit_code": event.result.exit_code,
                    "duration_ms": event.result.duration_ms,
                }
            )

    def finish(self, summary: Summary) -> None:
        """Write the object."""
        _write_line(self.out, {**_summary_json(summary), "calls": self.calls})


@dataclass(slots=True)
class StreamJsonFrontEnd:
    """One JSON object per event, in the form of the journal, and the summary as the last line."""

    out: TextIO

    def emit(self, event: Event) -> None:
        """Write the event."""
        _write_line(self.out, to_json(event))

    def finish(self, summary: Summary) -> None:
        """Write the summary."""
        _write_line(self.out, _summary_json(summary))


def _write_line(out: TextIO, value: dict[str, Any]) -> None:
    text = json_text(log.redactor().tree(value))
    out.write(text.encode("utf-8", "replace").decode() + "\n")
    out.flush()


def _summary_json(summary: Summary) -> dict[str, Any]:
    return {
        "v": 1,
        "type": "result",
        "result": summary.text,
        "end": summary.end.value,
        "exit_code": summary.exit_code,
        "session_id": summary.session_id,
        "model": summary.model,
        "requests": summary.requests,
        "usage": {
            "input_tokens": summary.input_tokens,
            "output_tokens": summary.output_tokens,
            "cached_tokens": summary.cached_tokens,
        },
        "cost_usd": summary.cost_usd,
        "duration_ms": summary.duration_ms,
        "denied": summary.denied,
        "error": summary.error,
        "next_step": summary.next_step,
    }


def _beginning(text: str) -> str:
    """Return the first line, and the one that it announces."""
    first, *rest = text.splitlines() or [""]
    return f"{first} {rest[0].strip()}" if first.endswith(":") and rest else first


def _progress_line(event: Event) -> str:
    match event:
        case CallFinished(_, title, result):
            why = "" if result.success else f": {_beginning(result.text)}"
            return f"{MARKS.get(result.outcome, '✗')} {title} ({result.duration_ms} ms){why}"
        case RetryScheduled(reason, delay_s, _):
            return f"{sentence(reason)} Trying again in {delay_s:.0f} s."
        case Notice(text, level):
            return text if level is Level.INFO else f"{level.value}: {text}"
        case TurnFinished(end, detail, next_step, _) if end is not TurnEnd.DONE:
            return " ".join(filter(None, [f"opta: {sentence(detail or end.value)}", next_step]))
        case _:
            return ""
