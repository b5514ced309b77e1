"""Makes the client for a model by its name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from agent.model.base import FailureKind, ModelClient, ModelError
from agent.model.options import ModelOptions

if TYPE_CHECKING:
    from agent.model.endpoint import Endpoint
    from agent.model.http_client import WireApi
    from agent.model.traits import ServerTraits

SCRIPT = "script:"
"""A model name that begins so plays the script file that follows."""


def make_client(
    *,
    model: str,
    base_url: str,
    api_key: str,
    api: Literal["chat", "responses"] = "chat",
    options: ModelOptions | None = None,
) -> ModelClient:
    """Return the client for `model`.

    `base_url` is what the OpenAI SDK takes (`https://api.openai.com/v1`), `api` the API that the
    server speaks. `script:PATH` as the model gives the scripted model, which needs neither server
    nor key. Nothing is sent yet: a missing key shows with the first request. Raises ModelError for
    a model, address or script that cannot be used.
    """
    if model.startswith(SCRIPT):
        from agent.model.scripted import ScriptedModel

        return ScriptedModel.from_file(Path(model.removeprefix(SCRIPT)))
    if not model:
        raise ModelError(
            FailureKind.UNKNOWN_MODEL,
            "No model is chosen.",
            next_step="Name one with --model or OPTA_MODEL, in a chat with /model; for always: "
            "opta config set model NAME",
        )
    return _http_client(model, base_url, api_key, api, options or ModelOptions())


def _http_client(
    model: str, base_url: str, api_key: str, api: str, options: ModelOptions
) -> ModelClient:
    from agent.model.endpoint import Endpoint
    from agent.model.http_client import HttpModelClient
    from agent.model.traits import ServerTraits

    endpoint = Endpoint(base_url.strip(), model, api_key, options)
    try:
        traits = ServerTraits.of(base_url, model, options.server)
    except ValueError as error:
        raise ModelError(
            FailureKind.REJECTED,
            f"What is set about the model server is wrong: {error}.",
            next_step="Correct or remove that setting.",
        ) from None
    return HttpModelClient(endpoint, _wire(api, endpoint, options, traits), traits)


def _wire(api: str, endpoint: Endpoint, options: ModelOptions, traits: ServerTraits) -> WireApi:
    """Return the API that the server speaks; only that one is imported."""
    from agent.model.http_client import WireApi

    if api == "responses":
        from agent.model.responses_request import ResponsesRequestWriter
        from agent.model.responses_stream import ResponsesAssembler

        responses = ResponsesRequestWriter(endpoint.model, endpoint.origin, options, traits)
        return WireApi("/responses", responses.body, ResponsesAssembler)
    from agent.model.chat_request import ChatRequestWriter
    from agent.model.chat_stream import ChatAssembler

    chat = ChatRequestWriter(endpoint.model, endpoint.origin, options, traits)
    return WireApi("/chat/completions", chat.body, ChatAssembler)
