"""A model server on loopback: real HTTP, scripted answers, every request recorded.

    with ModelServer([call("read_file", path="a.py"), say("Done.")]) as server:
        client = make_client(model="m", base_url=server.base_url, api_key="k")
        ...
    assert server.requests[1].json["messages"][-1]["role"] == "tool"

The n-th request gets the n-th reply. A reply is one of

* `say(text)`, `call(name, **arguments)`, `answer(text, calls=[...])`: a well-formed answer, written
  as a Chat Completions or a Responses stream, whichever the request asked for;
* `error(status, message)`: a JSON error body; `Reply(...)`: any status, headers and bytes;
* a function from the recorded request to one of those.

`chat_chunk()`, `chat_call_chunk()`, `chat_finish()`, `response_event()`, `sse()` and `DONE` build
streams by hand, for servers that misbehave: `Reply(sse(chat_chunk("a"), DONE))`. How bytes travel
is set on the reply: `chunk_bytes=1` sends one byte at a time, `delay_s` waits before the head,
`pause_s` between chunks, `end=End.CUT` closes without the end of the message, `End.HANG` keeps the
connection open until the client or the server goes away. `.but(...)` sets them on a ready-made
answer: `say("Hi").but(chunk_bytes=1)`. A request beyond the script gets status 400 naming its
number.
"""

from __future__ import annotations

import json
import select
import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeAlias

DONE = b"data: [DONE]\n\n"


class End(StrEnum):
    """What happens after the last byte of the body."""

    CLEAN = "clean"
    CUT = "cut"
    HANG = "hang"


@dataclass(frozen=True)
class Reply:
    """Bytes to answer with. `body` as a list keeps its parts as separate HTTP chunks."""

    body: bytes | Sequence[bytes] = b""
    status: int = 200
    headers: Mapping[str, str] = field(
        default_factory=lambda: {"Content-Type": "text/event-stream; charset=utf-8"}
    )
    chunk_bytes: int | None = None
    delay_s: float = 0.0
    pause_s: float = 0.0
    end: End = End.CLEAN

    def but(self, **changes: Any) -> Reply:
        """Return this reply with other settings."""
        return replace(self, **changes)

    def chunks(self) -> list[bytes]:
        """The body as the HTTP chunks it travels in."""
        if self.chunk_bytes is None:
            return [self.body] if isinstance(self.body, bytes) else list(self.body)
        whole = self.body if isinstance(self.body, bytes) else b"".join(self.body)
        return [whole[i : i + self.chunk_bytes] for i in range(0, len(whole), self.chunk_bytes)]


@dataclass(frozen=True)
class ScriptedCall:
    """A call in an answer. `arguments` is the JSON text as it is sent."""

    name: str
    arguments: str
    id: str = ""


@dataclass(frozen=True)
class Answer:
    """A well-formed answer of the model. `piece` is the size of a delta in characters."""

    text: str = ""
    calls: tuple[ScriptedCall, ...] = ()
    reasoning: str = ""
    input_tokens: int = 10
    output_tokens: int = 5
    cached_tokens: int = 0
    piece: int = 4
    wire: Reply = field(default_factory=Reply)

    def but(self, **changes: Any) -> Answer:
        """Return this answer with other settings, of its own or of its `Reply`."""
        own = {k: v for k, v in changes.items() if k in self.__dataclass_fields__}
        wire = {k: v for k, v in changes.items() if k not in own}
        return replace(self, wire=replace(self.wire, **wire), **own)


@dataclass(frozen=True)
class RecordedRequest:
    """What the client sent. `json` is None where the body is not JSON, `client` is its address."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    json: Any
    client: tuple[str, int]
    client_gone: threading.Event


Scripted: TypeAlias = "Reply | Answer | Callable[[RecordedRequest], Reply | Answer]"


def say(text: str, **settings: Any) -> Answer:
    """An answer of text only."""
    return Answer(text=text).but(**settings)


def call(name: str, **arguments: Any) -> Answer:
    """An answer with one tool call."""
    return Answer(calls=(scripted_call(name, **arguments),))


def scripted_call(name: str, **arguments: Any) -> ScriptedCall:
    """One call for `answer`."""
    return ScriptedCall(name, json.dumps(arguments))


def answer(text: str = "", calls: Iterable[ScriptedCall] = (), **settings: Any) -> Answer:
    """An answer of text and calls."""
    return Answer(text=text, calls=tuple(calls)).but(**settings)


def error(
    status: int,
    message: str,
    *,
    code: str | int | None = None,
    param: str | None = None,
    kind: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> Reply:
    """An error in the form of OpenAI's API."""
    body = {"error": {"message": message, "type": kind, "param": param, "code": code}}
    return Reply(
        json.dumps(body).encode(),
        status=status,
        headers={"Content-Type": "application/json", **(headers or {})},
    )


def sse(*events: bytes | Mapping[str, Any]) -> list[bytes]:
    """Events as separate chunks; mappings become `data:` lines."""
    return [e if isinstance(e, bytes) else b"data: " + _json(e) + b"\n\n" for e in events]


def chat_chunk(
    content: Any = None, *, finish: str | None = None, usage: Any = None, **delta: Any
) -> dict[str, Any]:
    """A `chat.completion.chunk`; `delta` holds further fields of the delta."""
    if content is not None:
        delta["content"] = content
    chunk: dict[str, Any] = {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
    }
    if usage is not None:
        chunk["usage"] = usage
    return chunk


def chat_call_chunk(**piece: Any) -> dict[str, Any]:
    """A chunk with one piece of a tool call: `index`, `id`, `name`, `arguments`, as given."""
    function = {k: piece.pop(k) for k in ("name", "arguments") if k in piece}
    return chat_chunk(tool_calls=[{**piece, "type": "function", "function": function}])


def chat_finish(reason: str | None = "stop", **usage: int) -> dict[str, Any]:
    """The chunk that ends an answer, with usage if some is given."""
    return chat_chunk(finish=reason, usage=usage or None)


def response_event(kind: str, **fields: Any) -> bytes:
    """An event of the Responses API."""
    return f"event: {kind}\ndata: ".encode() + _json({"type": kind, **fields}) + b"\n\n"


class ModelServer:
    """See the module's documentation. `base_url` ends in `/v1`."""

    def __init__(self, script: Iterable[Scripted] = ()) -> None:
        self.requests: list[RecordedRequest] = []
        self._script = list(script)
        self._arrived = threading.Condition()
        self._closing = threading.Event()
        self._connections: set[socket.socket] = set()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._http.daemon_threads = False
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,))

    @property
    def port(self) -> int:
        """The port it listens on."""
        return self._http.server_address[1]

    @property
    def base_url(self) -> str:
        """What a client is configured with."""
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def sent_messages(self) -> list[dict[str, Any]]:
        """The messages of the newest request."""
        return self.requests[-1].json["messages"]

    @property
    def results(self) -> list[str]:
        """What the newest request says that calls of tools gave, in their order."""
        return [m["content"] for m in self.sent_messages if m["role"] == "tool"]

    @property
    def offered(self) -> list[str]:
        """The names of the tools in the newest request, in their order."""
        return [tool["function"]["name"] for tool in self.requests[-1].json["tools"]]

    def add(self, *replies: Scripted) -> None:
        """Append to the script."""
        with self._arrived:
            self._script.extend(replies)

    def wait_for_requests(self, count: int, timeout_s: float = 10.0) -> None:
        """Return when `count` requests have arrived. Raises TimeoutError."""
        with self._arrived:
            if not self._arrived.wait_for(lambda: len(self.requests) >= count, timeout_s):
                raise TimeoutError(f"{len(self.requests)} of {count} requests in {timeout_s} s")

    def __enter__(self) -> ModelServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._http.shutdown()
        with self._arrived:
            open_connections = list(self._connections)
        for connection in open_connections:
            _shut(connection)
        self._http.server_close()
        self._thread.join()

    def _take(self, request: RecordedRequest) -> Scripted:
        with self._arrived:
            self.requests.append(request)
            number = len(self.requests)
            self._arrived.notify_all()
            if number <= len(self._script):
                return self._script[number - 1]
        return error(400, f"model server: the script has no reply for request {number}")

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def setup(self) -> None:
                super().setup()
                with server._arrived:
                    server._connections.add(self.connection)

            def finish(self) -> None:
                with server._arrived:
                    server._connections.discard(self.connection)
                super().finish()

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                request = RecordedRequest(
                    self.command,
                    self.path,
                    {k.lower(): v for k, v in self.headers.items()},
                    body,
                    _parsed(body),
                    self.client_address,
                    threading.Event(),
                )
                scripted = server._take(request)
                if callable(scripted):
                    scripted = scripted(request)
                reply = render(scripted, request.path) if isinstance(scripted, Answer) else scripted
                try:
                    server._send(self, reply)
                except OSError:
                    request.client_gone.set()
                    self.close_connection = True
                    return
                if reply.end is not End.CLEAN:
                    self.close_connection = True
                if reply.end is End.HANG:
                    server._wait_for_end(self.connection, request)

            do_GET = do_POST

            def log_message(self, *_: object) -> None:
                """Keep the test's output clean."""

        return Handler

    def _send(self, handler: BaseHTTPRequestHandler, reply: Reply) -> None:
        self._closing.wait(reply.delay_s)
        chunks = reply.chunks()
        handler.send_response(reply.status)
        for name, value in reply.headers.items():
            handler.send_header(name, value)
        chunked = "Content-Length" not in reply.headers
        if chunked:
            handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        framed = [b"%x\r\n%b\r\n" % (len(c), c) if chunked else c for c in chunks if c]
        if chunked and reply.end is End.CLEAN:
            framed.append(b"0\r\n\r\n")
        for block in framed if reply.pause_s or reply.chunk_bytes else _joined(framed):
            handler.wfile.write(block)
            if reply.pause_s and self._closing.wait(reply.pause_s):
                return

    def _wait_for_end(self, connection: socket.socket, request: RecordedRequest) -> None:
        deadline = time.monotonic() + 60
        while not self._closing.is_set() and time.monotonic() < deadline:
            if select.select([connection], [], [], 0.02)[0] and not _peek(connection):
                request.client_gone.set()
                return


def render(scripted: Answer, path: str) -> Reply:
    """Write an answer in the form of the API that `path` belongs to."""
    events = _responses_events if "/responses" in path else _chat_events
    return replace(scripted.wire, body=events(scripted))


def _chat_events(scripted: Answer) -> list[bytes]:
    events: list[bytes | Mapping[str, Any]] = [chat_chunk("", role="assistant")]
    events += [chat_chunk(reasoning_content=p) for p in _pieces(scripted.reasoning, scripted.piece)]
    events += [chat_chunk(p) for p in _pieces(scripted.text, scripted.piece)]
    for index, item in enumerate(scripted.calls):
        call_id = item.id or f"call_{index}_{item.name}"[:40]
        events.append(chat_call_chunk(index=index, id=call_id, name=item.name, arguments=""))
        events += [chat_call_chunk(index=index, arguments=p) for p in _pieces(item.arguments, 16)]
    usage = {
        "prompt_tokens": scripted.input_tokens,
        "completion_tokens": scripted.output_tokens,
        "total_tokens": scripted.input_tokens + scripted.output_tokens,
        "prompt_tokens_details": {"cached_tokens": scripted.cached_tokens},
    }
    events.append(chat_chunk(finish="tool_calls" if scripted.calls else "stop"))
    events.append({**chat_chunk(usage=usage), "choices": []})
    return [*sse(*events), DONE]


def _responses_events(scripted: Answer) -> list[bytes]:
    events = [
        response_event("response.created", response={"id": "resp_1", "status": "in_progress"})
    ]
    output: list[dict[str, Any]] = []
    if scripted.text:
        item: dict[str, Any] = {"type": "message", "id": "msg_1", "role": "assistant"}
        place = {"item_id": "msg_1", "output_index": 0}
        events.append(response_event("response.output_item.added", output_index=0, item=item))
        events += [
            response_event("response.output_text.delta", **place, content_index=0, delta=p)
            for p in _pieces(scripted.text, scripted.piece)
        ]
        item = {**item, "content": [{"type": "output_text", "text": scripted.text}]}
        output.append(item)
        events.append(response_event("response.output_item.done", output_index=0, item=item))
    for number, made in enumerate(scripted.calls):
        index = len(output)
        place = {"item_id": f"fc_{number}", "output_index": index}
        item = {
            "type": "function_call",
            "id": f"fc_{number}",
            "call_id": made.id or f"call_{number}_{made.name}"[:40],
            "name": made.name,
            "arguments": "",
        }
        events.append(response_event("response.output_item.added", output_index=index, item=item))
        events += [
            response_event("response.function_call_arguments.delta", **place, delta=p)
            for p in _pieces(made.arguments, 16)
        ]
        item = {**item, "arguments": made.arguments}
        output.append(item)
        events.append(response_event("response.output_item.done", output_index=index, item=item))
    usage = {
        "input_tokens": scripted.input_tokens,
        "input_tokens_details": {"cached_tokens": scripted.cached_tokens},
        "output_tokens": scripted.output_tokens,
    }
    final = {"id": "resp_1", "status": "completed", "output": output, "usage": usage}
    return [*events, response_event("response.completed", response=final)]


def _pieces(text: str, size: int) -> list[str]:
    return [text[i : i + size] for i in range(0, len(text), size)]


def _joined(blocks: list[bytes], size: int = 65536) -> Iterable[bytes]:
    whole = b"".join(blocks)
    return (whole[i : i + size] for i in range(0, len(whole), size))


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return None


def _peek(connection: socket.socket) -> bytes:
    try:
        return connection.recv(1, socket.MSG_PEEK)
    except OSError:
        return b""


def _shut(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        return
