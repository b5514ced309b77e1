"""Asks a real client once, against a scripted server, and keeps all that came of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from agent.messages import UserMessage
from agent.model.base import (
    CallDelta,
    Delta,
    Finished,
    ModelClient,
    ModelError,
    ModelRequest,
    ReasoningDelta,
    TextDelta,
    UsageDelta,
)
from agent.model.factory import make_client
from tests.support.model_server import ModelServer, RecordedRequest, Scripted

HELLO = ModelRequest("You are opta.", [UserMessage("hello")])


@dataclass
class Asked:
    """The deltas of one answer, the error that ended it, and the requests it took."""

    deltas: list[Delta] = field(default_factory=list)
    error: ModelError | None = None
    requests: list[RecordedRequest] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(d.text for d in self.deltas if isinstance(d, TextDelta))

    @property
    def reasoning(self) -> str:
        return "".join(d.text for d in self.deltas if isinstance(d, ReasoningDelta))

    @property
    def calls(self) -> list[tuple[str, str]]:
        """Name and arguments of every call."""
        return [(d.name, d.arguments_json) for d in self.call_deltas]

    @property
    def call_deltas(self) -> list[CallDelta]:
        return [d for d in self.deltas if isinstance(d, CallDelta)]

    @property
    def usage(self) -> list[UsageDelta]:
        return [d for d in self.deltas if isinstance(d, UsageDelta)]

    @property
    def end(self) -> Finished:
        """The last delta, which must be the end of the answer. Raises what ended it otherwise."""
        if self.error is not None:
            raise self.error
        last = self.deltas[-1]
        assert isinstance(last, Finished)
        assert sum(isinstance(d, Finished) for d in self.deltas) == 1
        return last

    @property
    def failure(self) -> ModelError:
        """The error, which must be there."""
        assert self.error is not None, f"no error, but {self.deltas}"
        return self.error


async def collect(client: ModelClient, request: ModelRequest = HELLO) -> Asked:
    """Ask `client` and keep the deltas up to the end or the error."""
    asked = Asked()
    try:
        async for delta in client.stream(request):
            asked.deltas.append(delta)
    except ModelError as error:
        asked.error = error
    return asked


async def ask(*script: Scripted, request: ModelRequest = HELLO, **client: Any) -> Asked:
    """Ask a client of `make_client(**client)` once. The script answers its requests."""
    with ModelServer(script) as server:
        settings = {"model": "m", "base_url": server.base_url, "api_key": "", **client}
        model = make_client(**settings)
        try:
            asked = await collect(model, request)
        finally:
            await model.aclose()
        asked.requests = server.requests
        return asked


async def ask_often(
    script: Iterable[Scripted], requests: Iterable[ModelRequest], **client: Any
) -> list[Asked]:
    """Send several requests through one client."""
    with ModelServer(script) as server:
        settings = {"model": "m", "base_url": server.base_url, "api_key": "", **client}
        model = make_client(**settings)
        try:
            asked = [await collect(model, request) for request in requests]
        finally:
            await model.aclose()
        asked[-1].requests = server.requests
        return asked
