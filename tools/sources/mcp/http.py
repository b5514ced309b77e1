"""Messages over HTTP (streamable HTTP), with the person's login where there is one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tools.connecting import http_client
from tools.sources.mcp.config import ServerConfig
from tools.sources.mcp.login import stored_login

CONNECT_S = 30.0
MAX_EVENT_BYTES = 8 << 20
"""The longest event that is read from a stream, in bytes."""


@asynccontextmanager
async def open_address(config: ServerConfig) -> AsyncIterator[tuple[Any, Any]]:
    """Connect to the address of a server. Raises LoginNeeded when it wants a login."""
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    timeout = httpx2.Timeout(CONNECT_S, read=None)
    async with (
        http_client(
            config.url, headers=dict(config.headers), timeout=timeout, auth=stored_login(config)
        ) as client,
        streamable_http_client(
            config.url, http_client=client, max_sse_event_size=MAX_EVENT_BYTES
        ) as streams,
    ):
        yield streams
