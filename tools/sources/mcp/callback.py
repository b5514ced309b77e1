"""Where the browser comes back to after a login: an address of this machine, open meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from urllib.parse import parse_qs, urlsplit

_PAGE = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"
    b"You can close this page and go back to opta.\n"
)
_NOT_FOUND = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class Callback:
    """Hears the answer to one login at a time: what names another `state` is none of it."""

    def __init__(self) -> None:
        self._state = ""
        self._answered: asyncio.Future[Mapping[str, str]] | None = None
        self._server: asyncio.Server | None = None

    async def listen(self, port: int) -> str:
        """Listen on a port, any for 0; return the address to come back to. Raises OSError."""
        self._server = await asyncio.start_server(self._handle, "127.0.0.1", port)
        host = "localhost" if port else "127.0.0.1"
        return f"http://{host}:{self._server.sockets[0].getsockname()[1]}/callback"

    def expect(self, login_url: str) -> None:
        """Wait from now on for the answer to the login that begins at an address."""
        (self._state,) = parse_qs(urlsplit(login_url).query)["state"]
        self._answered = asyncio.get_running_loop().create_future()

    async def answer(self) -> Mapping[str, str]:
        """Return the parameters that the browser came back with."""
        assert self._answered is not None, "nothing is expected"
        return await self._answered

    def close(self) -> None:
        """Listen no longer."""
        if self._server is not None:
            self._server.close()

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ValueError, IndexError, ConnectionError):
            target = (await reader.readline()).decode("ascii").split()[1]
            parts = urlsplit(target)
            given = {key: values[0] for key, values in parse_qs(parts.query).items()}
            wanted = parts.path == "/callback" and self._is_answer(given)
            writer.write(_PAGE if wanted else _NOT_FOUND)
            await writer.drain()
            if wanted and self._answered is not None and not self._answered.done():
                self._answered.set_result(given)
        writer.close()

    def _is_answer(self, given: Mapping[str, str]) -> bool:
        # Any page of the browser, and any program here, can ask for this address.
        mine = bool(self._state) and given.get("state") == self._state
        return mine and bool({"code", "error"} & given.keys())
