"""A model that plays a script: for `opta demo`, for tests, and for showing a bug without a server.

`--model script:PATH` plays a YAML or JSON file. It is a list of turns; each request to the model
takes the next one:

    - say: I'll run the tests first.         # text of the answer
      call: run_command                      # one call, with its arguments
      arguments: {command: pytest -q}

    - expect: 1 failed                       # must stand in what came since the last answer
      reasoning: The test tells where.       # shown as reasoning
      calls:                                 # several calls at once
        - tool: read_file
          arguments: {path: slugs.py}
        - tool: read_file
          arguments_json: '{"path": "x.py"'  # raw text instead, here malformed on purpose

    - say: Done.
      chunk: 8                               # characters in a delta (default 4)
      delay_ms: 20                           # wait before each delta (default 0)

A turn needs `say`, `call` or `calls`. `expect` may also be a list of texts. Where a conversation
drifts from its script, or outlives it, the request fails and says so.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from agent.messages import AssistantMessage, Message, ToolMessage, UserMessage
from agent.model.base import (
    CallDelta,
    Delta,
    FailureKind,
    Finished,
    FinishReason,
    ModelError,
    ModelRequest,
    ReasoningDelta,
    TextDelta,
    UsageDelta,
)
from agent.model.wire_ids import unused_id, used_call_ids
from tools.record import record
from tools.yamltext import Document, DocumentError, KeyPath, parse

_TURN_KEYS = frozenset(
    {"say", "reasoning", "expect", "call", "calls", "arguments", "arguments_json", "chunk"}
    | {"delay_ms"}
)
_CALL_KEYS = frozenset({"tool", "arguments", "arguments_json"})


@record
class ScriptedCall:
    """A call of a turn: the tool's name and the arguments' JSON text."""

    name: str
    arguments_json: str = "{}"


@record
class ScriptedTurn:
    """One answer. `error` is raised after the text, where a failure is to be played."""

    text: str = ""
    calls: tuple[ScriptedCall, ...] = ()
    reasoning: str = ""
    expect: tuple[str, ...] = ()
    chunk: int = 4
    delay_ms: int = 0
    error: ModelError | None = None


def say(text: str, *calls: ScriptedTurn, **settings: Any) -> ScriptedTurn:
    """Return a turn of text, followed by the calls of other turns. `settings`: its fields."""
    made = tuple(one for turn in calls for one in turn.calls)
    return ScriptedTurn(text=text, calls=made, **settings)


def call(name: str, **arguments: Any) -> ScriptedTurn:
    """Return a turn with one call."""
    return ScriptedTurn(calls=(ScriptedCall(name, json.dumps(arguments)),))


class ScriptedModel:
    """Plays turns in order. `requests` are the requests it was asked, oldest first."""

    def __init__(self, turns: Iterable[ScriptedTurn], *, name: str = "script") -> None:
        self.requests: list[ModelRequest] = []
        self._turns = list(turns)
        self._name = name

    @classmethod
    def from_file(cls, path: Path) -> ScriptedModel:
        """Read a script. Raises ModelError where it cannot be read, naming line and column."""
        try:
            turns = _Reader(parse(path.read_bytes(), path)).turns()
        except (OSError, DocumentError) as error:
            reason = error.strerror if isinstance(error, OSError) else None
            raise ModelError(
                FailureKind.REJECTED,
                f"The script of the model cannot be read: {reason or error}"
                + (f" ({path})" if reason else ""),
                next_step="Correct the file, or name another one after `script:`.",
            ) from None
        return cls(turns, name=path.name)

    async def stream(self, request: ModelRequest) -> AsyncIterator[Delta]:
        """Play the next turn; see `ModelClient.stream`."""
        self.requests.append(replace(request, messages=tuple(request.messages)))
        number = len(self.requests)
        if number > len(self._turns):
            raise ModelError(
                FailureKind.REJECTED,
                f"{self._name} has {len(self._turns)} turns and was asked for turn {number}.",
                next_step="Add a turn to the script, or ask for less.",
            )
        turn = self._turns[number - 1]
        self._check(turn, number, request.messages)
        for delta in _deltas(turn):
            if turn.delay_ms:
                await asyncio.sleep(turn.delay_ms / 1000)
            yield delta
        if turn.error is not None:
            raise turn.error
        calls = _with_ids(turn.calls, request.messages)
        for made in calls:
            yield made
        yield UsageDelta(_tokens(request), _output_tokens(turn))
        yield Finished(FinishReason.CALLS if calls else FinishReason.STOP)

    async def aclose(self) -> None:
        """There is nothing to close."""

    def _check(self, turn: ScriptedTurn, number: int, messages: Sequence[Message]) -> None:
        seen = "\n".join(map(_text, _since_last_answer(messages)))
        for wanted in turn.expect:
            if wanted not in seen:
                raise ModelError(
                    FailureKind.REJECTED,
                    f"{self._name}, turn {number}, expects {wanted!r}, but this came: "
                    f"{seen[-300:]!r}",
                    next_step="The conversation went another way than its script: correct either.",
                )


class _Reader:
    """Reads the turns of a script file, naming the place of what is wrong."""

    def __init__(self, document: Document) -> None:
        self._document = document

    def turns(self) -> list[ScriptedTurn]:
        data = self._document.data
        if not isinstance(data, list) or not data:
            raise self._document.error((), "a script is a list of turns")
        return [self._turn(item, (index,)) for index, item in enumerate(data)]

    def _turn(self, item: Any, at: KeyPath) -> ScriptedTurn:
        self._check_keys(item, at, _TURN_KEYS)
        turn = ScriptedTurn(
            text=self._typed(item, at, "say", str, ""),
            calls=tuple(self._calls(item, at)),
            reasoning=self._typed(item, at, "reasoning", str, ""),
            expect=self._expectations(item, at),
            chunk=self._typed(item, at, "chunk", int, 4),
            delay_ms=self._typed(item, at, "delay_ms", int, 0),
        )
        if turn.chunk < 1 or turn.delay_ms < 0:
            raise self._document.error(at, "`chunk` is at least 1, `delay_ms` at least 0")
        if not (turn.text or turn.calls):
            raise self._document.error(at, "a turn needs `say`, `call` or `calls`")
        return turn

    def _calls(self, item: dict[str, Any], at: KeyPath) -> Iterator[ScriptedCall]:
        if "call" in item:
            yield self._call({**item, "tool": item["call"]}, at)
        for index, one in enumerate(self._typed(item, at, "calls", list, [])):
            place = (*at, "calls", index)
            self._check_keys(one, place, _CALL_KEYS)
            yield self._call(one, place)

    def _call(self, item: dict[str, Any], at: KeyPath) -> ScriptedCall:
        name = self._typed(item, at, "tool", str, None)
        if name is None:
            raise self._document.error(at, "a call needs `tool`")
        raw = self._typed(item, at, "arguments_json", str, None)
        arguments = self._typed(item, at, "arguments", dict, {})
        return ScriptedCall(name, json.dumps(arguments) if raw is None else raw)

    def _expectations(self, item: dict[str, Any], at: KeyPath) -> tuple[str, ...]:
        wanted = item.get("expect", ())
        texts = [wanted] if isinstance(wanted, str) else wanted
        if not isinstance(texts, list | tuple) or not all(isinstance(t, str) for t in texts):
            raise self._document.error((*at, "expect"), "`expect` is a text or a list of texts")
        return tuple(texts)

    def _check_keys(self, item: Any, at: KeyPath, known: frozenset[str]) -> None:
        if not isinstance(item, dict):
            raise self._document.error(at, "a mapping was expected here")
        for key in item:
            if key not in known:
                hint = f"known here: {', '.join(sorted(known))}"
                raise self._document.error((*at, key), f"unknown key `{key}`", hint)

    def _typed(self, item: dict[str, Any], at: KeyPath, key: str, kind: type, default: Any) -> Any:
        value = item.get(key, default)
        if value is not default and (not isinstance(value, kind) or isinstance(value, bool)):
            names = {str: "text", int: "a whole number", list: "a list", dict: "a mapping"}
            raise self._document.error((*at, key), f"`{key}` is {names[kind]}")
        return value


def _deltas(turn: ScriptedTurn) -> Iterator[Delta]:
    for start in range(0, len(turn.reasoning), turn.chunk):
        yield ReasoningDelta(turn.reasoning[start : start + turn.chunk])
    for start in range(0, len(turn.text), turn.chunk):
        yield TextDelta(turn.text[start : start + turn.chunk])


def _with_ids(calls: Sequence[ScriptedCall], messages: Sequence[Message]) -> list[CallDelta]:
    used = used_call_ids(messages)
    first = len(used) + 1
    return [
        CallDelta(unused_id(f"call{first + index:05}", used), made.name, made.arguments_json)
        for index, made in enumerate(calls)
    ]


def _since_last_answer(messages: Sequence[Message]) -> list[Message]:
    newest: list[Message] = []
    for message in reversed(messages):
        if isinstance(message, AssistantMessage):
            break
        newest.insert(0, message)
    return newest


def _text(message: Message) -> str:
    match message:
        case UserMessage():
            return f"{message.context}\n{message.text}"
        case ToolMessage():
            return message.result.text
        case AssistantMessage():
            return message.text


def _tokens(request: ModelRequest) -> int:
    """About what a tokenizer would count: four characters a token."""
    texts = [request.system, json.dumps(list(request.tools)), *map(_text, request.messages)]
    return sum(map(len, texts)) // 4


def _output_tokens(turn: ScriptedTurn) -> int:
    calls = sum(len(made.name) + len(made.arguments_json) for made in turn.calls)
    return (len(turn.text) + len(turn.reasoning) + calls) // 4 + 1
