"""The client for the model that the settings name, and whether it could be asked at all."""

from __future__ import annotations

from agent.model.base import ModelClient, ModelError
from agent.model.factory import SCRIPT, make_client
from agent.model.options import ModelOptions
from agent.settings_values import Settings


def make_model(settings: Settings, name: str) -> ModelClient:
    """Return the client for the model `name`; nothing is sent yet. Raises ModelError."""
    options = ModelOptions(
        max_output_tokens=settings.max_output_tokens,
        body=settings.request,
        headers=settings.headers,
        server=settings.server,
        idle_timeout_s=settings.idle_timeout_s,
    )
    return make_client(
        model=name,
        base_url=settings.base_url,
        api_key=settings.api_key,
        api="responses" if settings.api == "responses" else "chat",
        options=options,
    )


def unusable(settings: Settings) -> str:
    """Say why no request could even be sent (no model, no key, no such script), or nothing."""
    from agent.model.endpoint import Endpoint

    try:
        make_model(settings, settings.model)
        if not settings.model.startswith(SCRIPT):
            options = ModelOptions(headers=settings.headers)
            key = settings.api_key
            Endpoint(settings.base_url.strip(), settings.model, key, options).request_headers()
    except ModelError as error:
        return f"{error} {error.next_step}".strip()
    return ""
