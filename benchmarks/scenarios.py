"""What the scripted model says, as the bytes of whole HTTP responses."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n"
)
FOUR_KIB = "echo {}; head -c 4096 /dev/zero | tr '\\0' x"
FIFTY_MIB = "head -c 52428800 /dev/zero | tr '\\0' x"


def hello() -> Iterator[bytes]:
    """One short answer."""
    yield say("Hello.")


def loop50() -> Iterator[bytes]:
    """50 turns with one `echo` each, then an answer."""
    yield from (run(turn, f"echo {turn}") for turn in range(50))
    yield say("Done.")


def stream() -> Iterator[bytes]:
    """One answer in 20,000 pieces of 4 characters."""
    yield say(*(["abc "] * 19_999 + ["abc\n"]))


def par8() -> Iterator[bytes]:
    """8 calls of `sleep 1` in one message, then an answer."""
    yield run(0, *["sleep 1"] * 8)
    yield say("Done.")


def bigout() -> Iterator[bytes]:
    """One command that prints 50 MiB, then an answer."""
    yield run(0, FIFTY_MIB)
    yield say("Done.")


def long300() -> Iterator[bytes]:
    """300 turns whose results are 4 KiB each, then an answer."""
    yield from (run(turn, FOUR_KIB.format(turn)) for turn in range(300))
    yield say("Done.")


def specloop() -> Iterator[bytes]:
    """30 iterations of `opta loop` with an answer each; the last one completes the session."""
    yield from (say("Done.") for _ in range(29))
    yield calls(0, ("session_complete", {}))
    yield say("Done.")


SCENARIOS: dict[str, Callable[[], Iterator[bytes]]] = {
    function.__name__: function
    for function in (hello, loop50, stream, par8, bigout, long300, specloop)
}


def say(*pieces: str) -> bytes:
    """Return a response that says `pieces`, one event each."""
    return _response([{"content": piece} for piece in pieces], "stop")


def run(turn: int, *commands: str) -> bytes:
    """Return a response that calls `run_command` with each of `commands`."""
    return calls(turn, *(("run_command", {"command": command}) for command in commands))


def calls(turn: int, *named: tuple[str, dict[str, str]]) -> bytes:
    """Return a response that calls tools by name, with arguments."""
    made = [
        {
            "index": index,
            "id": f"call_{turn}_{index}",
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(arguments)},
        }
        for index, (name, arguments) in enumerate(named)
    ]
    return _response([{"tool_calls": [call]} for call in made], "tool_calls")


def _response(deltas: list[dict[str, object]], finish: str) -> bytes:
    events = [_event(delta, None) for delta in deltas]
    usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
    events.append(_event({}, finish))
    events.append(_data({"choices": [], "usage": usage}))
    events.append(b"data: [DONE]\n\n")
    return HEAD + b"".join(b"%x\r\n%s\r\n" % (len(event), event) for event in events) + b"0\r\n\r\n"


def _event(delta: dict[str, object], finish: str | None) -> bytes:
    return _data({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})


def _data(fields: dict[str, object]) -> bytes:
    common = {"id": "x", "object": "chat.completion.chunk", "created": 0, "model": "scripted"}
    return b"data: %s\n\n" % json.dumps({**common, **fields}, separators=(",", ":")).encode()
