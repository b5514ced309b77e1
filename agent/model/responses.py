"""The Responses API."""

from __future__ import annotations

from collections.abc import Mapping

from agent.model.base import ModelRequest
from agent.model.endpoint import Endpoint
from agent.model.options import ModelOptions
from agent.model.responses_request import ResponsesRequestWriter
from agent.model.responses_stream import ResponsesAssembler
from agent.model.traits import ServerTraits
from agent.model.wire_ids import used_call_ids


class Responses:
    """Writes requests and reads answers of `/responses`."""

    path = "/responses"

    def __init__(self, endpoint: Endpoint, options: ModelOptions, traits: ServerTraits) -> None:
        self._endpoint = endpoint
        self._writer = ResponsesRequestWriter(endpoint.model, endpoint.origin, options, traits)

    def body(self, request: ModelRequest) -> tuple[bytes, frozenset[str]]:
        """Return the request's bytes and the names of its top-level keys."""
        return self._writer.body(request)

    def assembler(self, request: ModelRequest, headers: Mapping[str, str]) -> ResponsesAssembler:
        """Return what reads the answer to `request`."""
        used = used_call_ids(request.messages)
        return ResponsesAssembler(used, self._endpoint.origin, self._endpoint.target, headers)
