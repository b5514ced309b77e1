"""Messages over HTTP: on loopback only, for those who know the token (R35).

A web page must not be able to use what listens on a person's machine. So a request needs the token
in its `Authorization` header, names this address as its `Host`, and comes from no web page at all:
one with an `Origin` is refused, whatever it is.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import logging
import secrets
import socket
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

HOST = "127.0.0.1"
PATH = "/mcp"
Listening: TypeAlias = socket.socket
MIN_TOKEN = 20
"""The shortest token of the person's own, in characters."""

_TOKEN_BYTES = 32
_NO_TOKEN = b"This needs the token that opta printed: Authorization: Bearer TOKEN\n"
_LEAVE_S = 1


def new_token() -> str:
    """Return a token that nobody can guess."""
    return secrets.token_urlsafe(_TOKEN_BYTES)


def listen(port: int) -> Listening:
    """Return a socket that listens on loopback; 0 takes a free port. Raises OSError."""
    return socket.create_server((HOST, port))


async def serve_http(
    server: Any, listening: Listening, token: str, ready: Callable[[str], None]
) -> None:
    """Serve until cancelled. `ready` gets the address once requests are answered."""
    import uvicorn
    from mcp.server.transport_security import TransportSecuritySettings

    port = listening.getsockname()[1]
    own = TransportSecuritySettings(
        allowed_hosts=[f"{HOST}:{port}", f"localhost:{port}"], allowed_origins=[]
    )
    app = server.streamable_http_app(
        streamable_http_path=PATH, host=HOST, transport_security=own, session_idle_timeout=None
    )
    _quieten()
    config = uvicorn.Config(
        _Guarded(app, token), log_config=None, access_log=False, server_header=False,
        timeout_graceful_shutdown=_LEAVE_S, lifespan="on",
    )  # fmt: skip
    running = _uvicorn(config)
    serving = asyncio.create_task(running.serve(sockets=[listening]))
    try:
        while not (running.started or serving.done()):
            await asyncio.sleep(0.01)
        ready(f"http://{HOST}:{port}{PATH}")
        await asyncio.shield(serving)
    finally:
        running.should_exit = True
        await asyncio.wait([serving])


class _Guarded:
    """Lets through what has the token, and looks at nothing else of the rest."""

    def __init__(self, app: Any, token: str) -> None:
        self._app = app
        self._expected = f"Bearer {token}".encode()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan" or self._allowed(scope):
            await self._app(scope, receive, send)
            return
        headers = [(b"content-type", b"text/plain"), (b"www-authenticate", b"Bearer")]
        await send({"type": "http.response.start", "status": 401, "headers": headers})
        await send({"type": "http.response.body", "body": _NO_TOKEN})

    def _allowed(self, scope: Any) -> bool:
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        return (
            scope["type"] == "http"
            and len(given) == 1
            and hmac.compare_digest(given[0], self._expected)
        )


def _quieten() -> None:
    """Keep the server's own log out of the terminal."""
    for name in ("uvicorn", "sse_starlette"):
        logger = logging.getLogger(name)
        logger.addHandler(logging.NullHandler())
        logger.propagate = False


def _uvicorn(config: Any) -> Any:
    import uvicorn

    class Server(uvicorn.Server):
        @contextlib.contextmanager
        def capture_signals(self) -> Iterator[None]:
            """Leave signals to opta."""
            yield

    return Server(config)
