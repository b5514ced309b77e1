"""Events as JSON objects: the form of the journal and of `--output-format stream-json`, version 1.

Every object has `v` (1) and `type`; the other keys by type:

    turn          text, context, images, at           the person's message; images where it has
                                                      some; when it was said, seconds since 1970
    added         text, context, images, at           a message that joins the turn
    tools         names                               what the next requests hold, where it changed
    request       number                              a request was sent (counts within the turn)
    text          text                                a piece of the answer
    reasoning     text                                a piece of the model's reasoning
    usage         input, output, cached               tokens, as the server counted
    retry         reason, delay_s, attempt
    assistant     text, calls, reasoning, extras, interrupted
    proposed      call
    decided       call, title, preview, allowed, by, hazards, warnings
    started       call, title
    output        call_id, text                       live output of a call
    finished      call, title, result
    hook          phase, command, call_id, problem, refused, duration_ms
    loaded        names                               deferred tools that requests hold from now on
    compacted     summary, kept, before, after        sizes in tokens
    rewound       kept                                the messages of the history that are left
    images_dropped                                    requests hold none from now on
    notice        text, level                         info, warning or error
    end           end, detail, next_step, duration_ms

    call          id, name, arguments                 arguments: the JSON text as the model wrote it
    result        text, outcome, display, exit_code, duration_ms, full_output, stop_turn
    images        media_type, base64
    display       null, or kind (text, diff, command) and its fields

Readers ignore keys they do not know; new keys and types may appear in version 1.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

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
    ToolsLoaded,
    ToolsSent,
    TurnEnd,
    TurnFinished,
    TurnStarted,
)
from agent.messages import AssistantMessage, Image, UserMessage
from agent.model.base import ReasoningDelta, TextDelta, UsageDelta
from tools.definition import (
    CommandDisplay,
    DiffDisplay,
    Display,
    JsonObject,
    Outcome,
    TextDisplay,
    ToolCall,
    ToolResult,
)
from tools.events import (
    CallDecided,
    CallFinished,
    CallOutput,
    CallProposed,
    CallStarted,
    HookFinished,
)
from tools.record import record

VERSION = 1

_T = TypeVar("_T")


class EventJsonError(ValueError):
    """An object is no event of version 1."""


@record
class _Form:
    """How one type of event is written and read."""

    name: str
    write: Callable[[Any], JsonObject]
    read: Callable[[JsonObject], Event]


def to_json(event: Event) -> JsonObject:
    """Return the event as an object that `json.dumps` takes."""
    form = _FORMS[type(event)]
    return {"v": VERSION, "type": form.name, **form.write(event)}


def from_json(value: object) -> Event:
    """Return the event that an object stands for. Raises EventJsonError."""
    try:
        fields = _as(dict, value)
        if fields["v"] != VERSION:
            raise EventJsonError(f"version {fields['v']!r} is not known")
        return _BY_NAME[_get(fields, "type", str)].read(fields)
    except EventJsonError:
        raise
    except (KeyError, ValueError) as error:
        raise EventJsonError(f"missing or wrong: {error}") from error


def _as(kind: type[_T], value: object) -> _T:
    accepted: tuple[type, ...] = (float, int) if kind is float else (kind,)
    # bool is an int to Python, but not to JSON.
    if not isinstance(value, accepted) or (isinstance(value, bool) and kind is not bool):
        raise EventJsonError(f"expected {kind.__name__}, found {type(value).__name__}")
    return cast(_T, value)


def _get(fields: JsonObject, key: str, kind: type[_T]) -> _T:
    return _as(kind, fields[key])


def _maybe(fields: JsonObject, key: str, kind: type[_T]) -> _T | None:
    value = fields.get(key)
    return None if value is None else _as(kind, value)


def _names(fields: JsonObject) -> tuple[str, ...]:
    return tuple(_as(str, name) for name in _get(fields, "names", list))


def _write_call(call: ToolCall) -> JsonObject:
    return {"id": call.id, "name": call.name, "arguments": call.arguments_json}


def _read_call(value: object) -> ToolCall:
    fields = _as(dict, value)
    return ToolCall(
        _get(fields, "id", str), _get(fields, "name", str), _get(fields, "arguments", str)
    )


def _write_display(display: Display | None) -> JsonObject | None:
    match display:
        case None:
            return None
        case TextDisplay(text):
            return {"kind": "text", "text": text}
        case DiffDisplay(path, diff, created):
            return {"kind": "diff", "path": path, "diff": diff, "created": created}
        case CommandDisplay(command, cwd, note):
            return {"kind": "command", "command": command, "cwd": cwd, "note": note}


def _read_display(value: object) -> Display | None:
    if value is None:
        return None
    fields = _as(dict, value)
    match fields["kind"]:
        case "text":
            return TextDisplay(_get(fields, "text", str))
        case "diff":
            return DiffDisplay(
                _get(fields, "path", str), _get(fields, "diff", str), _get(fields, "created", bool)
            )
        case "command":
            return CommandDisplay(
                _get(fields, "command", str), _get(fields, "cwd", str), _get(fields, "note", str)
            )
        case kind:
            raise EventJsonError(f"unknown display {kind!r}")


def _write_result(result: ToolResult) -> JsonObject:
    return {
        "text": result.text,
        "outcome": result.outcome.value,
        "display": _write_display(result.display),
        "exit_code": result.exit_code,
        "duration_ms": result.duration_ms,
        "full_output": None if result.full_output is None else str(result.full_output),
        "stop_turn": result.stop_turn,
    }


def _read_result(value: object) -> ToolResult:
    fields = _as(dict, value)
    full_output = _maybe(fields, "full_output", str)
    return ToolResult(
        text=_get(fields, "text", str),
        outcome=Outcome(fields["outcome"]),
        display=_read_display(fields.get("display")),
        exit_code=_maybe(fields, "exit_code", int),
        duration_ms=_get(fields, "duration_ms", int),
        full_output=None if full_output is None else Path(full_output),
        stop_turn=_get(fields, "stop_turn", bool),
    )


def _write_assistant(event: AssistantFinished) -> JsonObject:
    message = event.message
    return {
        "text": message.text,
        "calls": [_write_call(call) for call in message.calls],
        "reasoning": message.reasoning,
        "extras": dict(message.extras),
        "interrupted": message.interrupted,
    }


def _read_assistant(fields: JsonObject) -> AssistantFinished:
    return AssistantFinished(
        AssistantMessage(
            text=_get(fields, "text", str),
            calls=tuple(_read_call(call) for call in _get(fields, "calls", list)),
            reasoning=_get(fields, "reasoning", str),
            extras=_get(fields, "extras", dict),
            interrupted=_get(fields, "interrupted", bool),
        )
    )


def _write_decided(event: CallDecided) -> JsonObject:
    return {
        "call": _write_call(event.call),
        "title": event.title,
        "preview": _write_display(event.preview),
        "allowed": event.allowed,
        "by": event.by,
        **({"hazards": list(event.hazards)} if event.hazards else {}),
        **({"warnings": list(event.warnings)} if event.warnings else {}),
    }


def _write_user(message: UserMessage) -> JsonObject:
    images = [{"media_type": image.media_type, "base64": image.base64} for image in message.images]
    return {
        "text": message.text,
        "context": message.context,
        **({"images": images} if images else {}),
        **({"at": message.at} if message.at is not None else {}),
    }


def _read_user(fields: JsonObject) -> UserMessage:
    images = _maybe(fields, "images", list) or []
    return UserMessage(
        _get(fields, "text", str),
        _get(fields, "context", str),
        tuple(Image(_get(one, "media_type", str), _get(one, "base64", str)) for one in images),
        _maybe(fields, "at", float),
    )


def _read_decided(fields: JsonObject) -> CallDecided:
    return CallDecided(
        call=_read_call(fields["call"]),
        title=_get(fields, "title", str),
        preview=_read_display(fields.get("preview")) or TextDisplay(""),
        allowed=_get(fields, "allowed", bool),
        by=_get(fields, "by", str),
        hazards=tuple(_as(str, text) for text in fields.get("hazards", ())),
        warnings=tuple(_as(str, text) for text in fields.get("warnings", ())),
    )


def _plain(name: str, event: Callable[..., Event], **kinds: type) -> _Form:
    """Return the form of an event whose fields are written as they are."""
    return _Form(
        name,
        lambda e: {key: getattr(e, key) for key in kinds},
        lambda f: event(**{key: _get(f, key, kind) for key, kind in kinds.items()}),
    )


_FORMS: dict[type, _Form] = {
    TurnStarted: _Form(
        "turn",
        lambda e: _write_user(e.message),
        lambda f: TurnStarted(_read_user(f)),
    ),
    MessageAdded: _Form(
        "added", lambda e: _write_user(e.message), lambda f: MessageAdded(_read_user(f))
    ),
    RequestStarted: _plain("request", RequestStarted, number=int),
    TextDelta: _plain("text", TextDelta, text=str),
    ReasoningDelta: _plain("reasoning", ReasoningDelta, text=str),
    UsageDelta: _plain("usage", UsageDelta, input=int, output=int, cached=int),
    RetryScheduled: _plain("retry", RetryScheduled, reason=str, delay_s=float, attempt=int),
    AssistantFinished: _Form("assistant", _write_assistant, _read_assistant),
    CallProposed: _Form(
        "proposed",
        lambda e: {"call": _write_call(e.call)},
        lambda f: CallProposed(_read_call(f["call"])),
    ),
    CallDecided: _Form("decided", _write_decided, _read_decided),
    CallStarted: _Form(
        "started",
        lambda e: {"call": _write_call(e.call), "title": e.title},
        lambda f: CallStarted(_read_call(f["call"]), _get(f, "title", str)),
    ),
    CallOutput: _plain("output", CallOutput, call_id=str, text=str),
    CallFinished: _Form(
        "finished",
        lambda e: {
            "call": _write_call(e.call),
            "title": e.title,
            "result": _write_result(e.result),
        },
        lambda f: CallFinished(
            _read_call(f["call"]), _get(f, "title", str), _read_result(f["result"])
        ),
    ),
    HookFinished: _plain(
        "hook", HookFinished,
        phase=str, command=str, call_id=str, problem=str, refused=bool, duration_ms=int,
    ),
    ToolsSent: _Form(
        "tools", lambda e: {"names": list(e.names)}, lambda f: ToolsSent(_names(f))
    ),
    ToolsLoaded: _Form(
        "loaded", lambda e: {"names": list(e.names)}, lambda f: ToolsLoaded(_names(f))
    ),
    ImagesDropped: _Form("images_dropped", lambda e: {}, lambda f: ImagesDropped()),
    Rewound: _plain("rewound", Rewound, kept=int),
    ContextCompacted: _plain(
        "compacted", ContextCompacted, summary=str, kept=int, before=int, after=int
    ),
    Notice: _Form(
        "notice",
        lambda e: {"text": e.text, "level": e.level.value},
        lambda f: Notice(_get(f, "text", str), Level(f["level"])),
    ),
    TurnFinished: _Form(
        "end",
        lambda e: {
            "end": e.end.value,
            "detail": e.detail,
            "next_step": e.next_step,
            "duration_ms": e.duration_ms,
        },
        lambda f: TurnFinished(
            TurnEnd(f["end"]),
            _get(f, "detail", str),
            _get(f, "next_step", str),
            _get(f, "duration_ms", int),
        ),
    ),
}  # fmt: skip
_BY_NAME = {form.name: form for form in _FORMS.values()}
