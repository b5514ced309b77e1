"""Messages over HTTP (streamable HTTP), with the person's login where there is one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tools.connecting import NOT_COMPRESSED, bound, http_client
from tools.sources.mcp.authorization import refusal, stored_login
from tools.sources.mcp.config import ServerConfig
from tools.sources.mcp.login_store import Learn, ignore
from tools.sources.mcp.renewal import LoginNeeded
from tools.sources.mcp.sdk import innermost

CONNECT_S = 30.0
MAX_EVENT_BYTES = 8 << 20
"""The longest answer, or event of a stream, that is read, in bytes."""


class AddressError(Exception):
    """What is at an address answered with an error of HTTP."""


@asynccontextmanager
async def open_address(
    config: ServerConfig, learn: Learn = ignore
) -> AsyncIterator[tuple[Any, Any]]:
    """Connect to the address of a server; `learn` hears of the secrets of a login (R39).

    Raises LoginNeeded when it wants a login, AddressError when it answers with an HTTP error.
    """
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    timeout = httpx2.Timeout(CONNECT_S, read=None)
    error = ""

    async def note(response: httpx2.Response) -> None:
        if not response.headers.get("Content-Type", "").startswith("text/event-stream"):
            bound(response, MAX_EVENT_BYTES)
        # A server need not answer other requests than those that carry messages.
        nonlocal error
        if response.request.method == "POST":
            told = f"it answered with HTTP {response.status_code} ({response.reason_phrase})"
            error = told if response.is_error else ""

    async with (
        stored_login(config, learn) as auth,
        http_client(
            config.url,
            headers={**NOT_COMPRESSED, **config.headers},
            timeout=timeout,
            auth=auth,
            event_hooks={"response": [note]},
        ) as client,
        streamable_http_client(
            config.url, http_client=client, max_sse_event_size=MAX_EVENT_BYTES
        ) as streams,
    ):
        try:
            yield streams
        except Exception as problem:
            plain = innermost(problem)
            if not error or isinstance(plain, LoginNeeded) or refusal(plain):
                raise
            raise AddressError(error) from problem
