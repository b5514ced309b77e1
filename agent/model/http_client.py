"""The HTTP side of every model API: connection, key, errors, and the stream of events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress

import httpx2

from agent.model.answer import Assembler
from agent.model.base import Delta, FailureKind, ModelError, ModelRequest
from agent.model.endpoint import Endpoint
from agent.model.failures import Problem, cut, error_for, no_connection
from agent.model.sse import SseDecoder, SseEvent
from agent.model.traits import ServerTraits
from agent.model.wire_ids import used_call_ids
from tools.connecting import http_client, why_unreachable
from tools.record import record

MAX_ERROR_BYTES = 256 * 1024
"""How much of an error response is read."""

MAX_ADAPTATIONS = 3
"""How many refused keys or rules are learned from within one request."""

AFTER_FINISH_S = 5.0
"""How long usage and the end mark are waited for once the model has said that it is done."""

MAX_AHEAD_BYTES = 8 * 1024 * 1024
"""How much is read before the reader of the answer has taken it."""

REUSE_S = 0.1
"""How long the end of a finished response is waited for, so that its connection can be reused."""


@record
class WireApi:
    """One of the APIs that OpenAI-compatible servers speak.

    `write` returns a request's bytes and the names of its top-level keys, `reader` makes what reads
    the answer.
    """

    path: str
    write: Callable[[ModelRequest], tuple[bytes, frozenset[str]]]
    reader: type[Assembler]


class WholeBody:
    """Reads the answer of a server that does not stream: all of it is one event."""

    def __init__(self) -> None:
        self._body = b""

    def feed(self, data: bytes) -> list[SseEvent]:
        """Take the next bytes."""
        self._body += data
        return []

    def close(self) -> list[SseEvent]:
        """Return the answer."""
        return [SseEvent("", self._body.decode("utf-8", "replace"))]


class ReadAhead:
    """Reads a response in a task of its own, so that what arrived together is handled together.

    Servers send every token as a chunk of its own. Where they come faster than they are handled,
    taking one chunk at a time makes every later stage pay per token.
    """

    def __init__(self, chunks: AsyncIterator[bytes]) -> None:
        self._blocks: list[bytes] = []
        self._size = 0
        self._error: Exception | None = None
        self._news = asyncio.Event()
        self._room = asyncio.Event()
        self._task = asyncio.create_task(self._read(chunks))

    async def next(self) -> bytes | None:
        """Return all that has arrived, waiting for something; None at the end.

        Raises what reading raised, once everything before it was taken.
        """
        await self._news.wait()
        if not self._blocks:
            if self._error is not None:
                raise self._error
            return None
        block = b"".join(self._blocks)
        self._blocks.clear()
        self._size = 0
        self._room.set()
        if not self._task.done():
            self._news.clear()
        return block

    async def wait_for_end(self, timeout_s: float) -> None:
        """Wait until the response is read to its end."""
        await asyncio.wait({self._task}, timeout=timeout_s)

    async def close(self) -> None:
        """Stop reading."""
        self._task.cancel()
        await asyncio.wait({self._task})

    async def _read(self, chunks: AsyncIterator[bytes]) -> None:
        try:
            async for chunk in chunks:
                self._blocks.append(chunk)
                self._size += len(chunk)
                self._news.set()
                if self._size > MAX_AHEAD_BYTES:
                    self._room.clear()
                    await self._room.wait()
        except (httpx2.HTTPError, httpx2.StreamError) as error:
            self._error = error
        finally:
            self._news.set()


class HttpModelClient:
    """A model behind an HTTP API that streams its answer as events."""

    def __init__(self, endpoint: Endpoint, api: WireApi, traits: ServerTraits) -> None:
        self._endpoint = endpoint
        self._api = api
        self._traits = traits
        self._http: httpx2.AsyncClient | None = None

    def __repr__(self) -> str:
        target = self._endpoint.target
        return f"{type(self).__name__}({target.url!r}, {target.model!r})"

    async def stream(self, request: ModelRequest) -> AsyncIterator[Delta]:
        """Send one request and yield its deltas; see `ModelClient.stream`."""
        response = await self._open(request)
        ahead: ReadAhead | None = None
        try:
            endpoint, used = self._endpoint, used_call_ids(request.messages)
            assembler = self._api.reader(used, endpoint.origin, endpoint.target, response.headers)
            decoder = self._decoder(response)
            ahead = ReadAhead(response.aiter_bytes())
            ended = False
            while not (ended or assembler.complete):
                block = await self._next(ahead, assembler)
                ended = block is None
                failure = _feed(assembler, decoder, block)
                for delta in assembler.drain():
                    yield delta
                if failure is not None:
                    raise failure
            for delta in assembler.end():
                yield delta
            await ahead.wait_for_end(REUSE_S)
        finally:
            if ahead is not None:
                await ahead.close()
            await response.aclose()

    async def aclose(self) -> None:
        """Close connections."""
        if self._http is not None:
            await self._http.aclose()
            self._http = None

    async def _open(self, request: ModelRequest) -> httpx2.Response:
        for _ in range(MAX_ADAPTATIONS):
            body, keys = self._api.write(request)
            response = await self._post(body)
            if response.status_code < 300:
                return response
            problem = await self._problem(response)
            refused = problem.status in {400, 422}
            if not (refused and self._traits.learn(problem.details, keys)):
                break
        raise error_for(problem, self._endpoint.target) from None

    async def _post(self, body: bytes) -> httpx2.Response:
        headers = self._endpoint.request_headers()
        try:
            client = self._client()
            sent = client.build_request(
                "POST", self._endpoint.url(self._api.path), content=body, headers=headers
            )
            return await client.send(sent, stream=True)
        except (httpx2.TransportError, httpx2.InvalidURL) as error:
            raise self._transport_error(error) from None

    async def _problem(self, response: httpx2.Response) -> Problem:
        body = b""
        with suppress(httpx2.HTTPError):
            async for chunk in response.aiter_bytes():
                body += chunk
                if len(body) > MAX_ERROR_BYTES:
                    break
        await response.aclose()
        if 300 <= response.status_code < 400:
            place = response.headers.get("location", "another address")
            body = f"it redirects to {place}; set --base-url to where the API really is".encode()
        return Problem.in_response(response.status_code, response.headers, body)

    async def _next(self, ahead: ReadAhead, assembler: Assembler) -> bytes | None:
        """Return the next bytes, or None at the end of the stream."""
        try:
            async with asyncio.timeout(AFTER_FINISH_S if assembler.finished else None):
                return await ahead.next()
        except (httpx2.HTTPError, httpx2.StreamError, TimeoutError) as error:
            if assembler.finished:
                return None
            raise self._transport_error(error) from None

    def _decoder(self, response: httpx2.Response) -> SseDecoder | WholeBody:
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind == "text/html":
            raise ModelError(
                FailureKind.REJECTED,
                f"{self._endpoint.target.url} answered with a web page instead of an answer.",
                next_step="Check --base-url: it usually ends in /v1.",
            )
        return WholeBody() if kind == "application/json" else SseDecoder()

    def _transport_error(self, error: Exception) -> ModelError:
        target = self._endpoint.target
        options = self._endpoint.options
        match error:
            case httpx2.ReadTimeout() | TimeoutError():
                return cut(f"the server sent nothing for {options.idle_timeout_s:g} s")
            case httpx2.ConnectTimeout():
                return no_connection(f"no answer within {options.connect_timeout_s:g} s", target)
            case httpx2.ConnectError() | httpx2.ProxyError() | httpx2.InvalidURL():
                return no_connection(why_unreachable(error) or str(error), target)
            case httpx2.RemoteProtocolError() | httpx2.ReadError() | httpx2.WriteError():
                return cut("the server closed the connection")
            case _:
                return cut(target.quote(str(error) or type(error).__name__))

    def _client(self) -> httpx2.AsyncClient:
        if self._http is None:
            timeout = httpx2.Timeout(
                self._endpoint.options.idle_timeout_s,
                connect=self._endpoint.options.connect_timeout_s,
            )
            self._http = http_client(self._endpoint.base_url, timeout=timeout)
        return self._http


def _feed(
    assembler: Assembler, decoder: SseDecoder | WholeBody, block: bytes | None
) -> ModelError | None:
    """Give the events in `block` to the assembler; return the error that one of them reports."""
    try:
        for event in decoder.close() if block is None else decoder.feed(block):
            assembler.feed(event)
    except ModelError as error:
        return error
    except ValueError as error:
        return cut(str(error))
    except (AttributeError, TypeError, KeyError):
        # Valid JSON in which lists, objects and texts have changed places.
        return cut("the server sent an event that is no part of an answer")
    return None
