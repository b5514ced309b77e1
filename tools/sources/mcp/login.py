"""Logins to MCP servers by OAuth: where tokens are kept, and how a person logs in.

A chat never opens a browser by itself: only `opta mcp login` does.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Generator, Iterable
from contextlib import suppress
from typing import Any, TypeAlias
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

from tools import storage
from tools.connecting import http_client
from tools.definition import digest_of
from tools.engine.masking import Masker
from tools.sources.credentials import Credentials
from tools.sources.mcp.config import ServerConfig

LOGIN_S = 300.0
"""How long a person may take to log in, in seconds."""

_SERVICE = "opta-mcp"
_ANY_PORT = "http://127.0.0.1/callback"
_SECRET_KEYS = (
    "access_token", "refresh_token", "id_token", "client_secret", "registration_access_token",
)  # fmt: skip
_PAGE = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"
    b"You can close this page and go back to opta.\n"
)
_NOT_FOUND = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class LoginNeeded(Exception):
    """The server wants the person to log in first."""


class LoginFailed(Exception):
    """There is no login. The message says why."""


Learn: TypeAlias = Callable[[Iterable[str]], None]
"""Hears of secrets, so that they are kept out of what opta writes and shows (R39)."""


def ignore(secrets: Iterable[str]) -> None:
    """Do nothing about secrets."""


class TokenStore:
    """Keeps what belongs to the login at one server; the form the SDK asks for.

    `learn` hears of every token and secret that is read or stored here.
    """

    def __init__(self, config: ServerConfig, learn: Learn = ignore) -> None:
        self._learn = learn
        self._login = config.login
        # What one program was given is of no use to another.
        program = self._login.client_id
        identity = (digest_of([config.identity, program]) if program else config.identity)[:32]
        path = storage.state_dir() / "mcp" / "logins" / f"{identity}.json"
        self._credentials = Credentials(_SERVICE, identity, path)

    async def get_tokens(self) -> Any:
        """Return the stored tokens, or None."""
        from mcp.shared.auth import OAuthToken

        return self._read("tokens", OAuthToken)

    async def set_tokens(self, tokens: Any) -> None:
        """Store tokens."""
        lasts = tokens.expires_in
        self._write("tokens", tokens)
        self._keep("expires_at", None if lasts is None else time.time() + lasts)

    @property
    def expires_at(self) -> float | None:
        """When the tokens run out, in seconds since 1970; None when the server did not say."""
        found = self._load().get("expires_at")
        return found if isinstance(found, int | float) else None

    @property
    def server(self) -> Any:
        """What the server that gives the tokens says of itself (RFC 8414), or None."""
        from mcp.shared.auth import OAuthMetadata

        return self._read("server", OAuthMetadata)

    def set_server(self, metadata: Any) -> None:
        """Store what the server that gives the tokens says of itself."""
        if metadata is not None:
            self._write("server", metadata)

    async def get_client_info(self) -> Any:
        """Return what opta is registered as at the server, by hand or by itself, or None."""
        from mcp.shared.auth import OAuthClientInformationFull

        if self._login.client_id:
            return OAuthClientInformationFull(
                client_id=self._login.client_id,
                client_secret=self._login.client_secret or None,
                token_endpoint_auth_method=self._how_secret_is_sent(),
            )
        return self._read("client", OAuthClientInformationFull)

    async def set_client_info(self, client_info: Any) -> None:
        """Store what opta is registered as."""
        self._write("client", client_info)

    def exists(self) -> bool:
        """Tell whether there is a login."""
        return "tokens" in self._load()

    def forget(self) -> bool:
        """Delete the login; False when there was none."""
        existed = bool(self._credentials.load())
        self._credentials.save({})
        return existed

    @property
    def place(self) -> str:
        """Where the tokens are, for people."""
        return self._credentials.place

    def _how_secret_is_sent(self) -> str | None:
        """Return it as RFC 8414, 2 names it: HTTP Basic, unless the server wants it otherwise."""
        if not self._login.client_secret:
            return None
        server = self.server
        methods = (server and server.token_endpoint_auth_methods_supported) or ()
        only_post = "client_secret_post" in methods and "client_secret_basic" not in methods
        return "client_secret_post" if only_post else "client_secret_basic"

    def _read(self, key: str, kind: Any) -> Any:
        stored = self._load().get(key)
        # What another version wrote counts as no login.
        with suppress(ValueError):
            return None if stored is None else kind.model_validate(stored)
        return None

    def _write(self, key: str, value: Any) -> None:
        self._keep(key, value.model_dump(mode="json", exclude_none=True))

    def _keep(self, key: str, data: Any) -> None:
        self._learn(_secrets_in({key: data}))
        self._credentials.save(self._load() | {key: data})

    def _load(self) -> dict[str, Any]:
        stored = self._credentials.load()
        self._learn(_secrets_in(stored))
        return stored


def _secrets_in(stored: dict[str, Any]) -> list[str]:
    """Return the tokens and secrets among what is kept of a login (RFC 6749, RFC 7591)."""
    kept = [value for value in stored.values() if isinstance(value, dict)]
    found = [value.get(key) for value in kept for key in _SECRET_KEYS]
    return [text for text in found if isinstance(text, str)]


def stored_login(config: ServerConfig, learn: Learn = ignore) -> Any:
    """Return how requests to a server are authenticated: by its login, if it wants one.

    A header that the person configured is the login. Nothing here asks the person: a server that
    wants more raises LoginNeeded.
    """
    if any(name.lower() == "authorization" for name in config.headers):
        return None
    if not TokenStore(config).exists():
        return _no_login()

    async def refuse(_: str = "") -> Any:
        raise LoginNeeded

    return _provider(config, TokenStore(config, learn), _ANY_PORT, refuse, refuse)


def _no_login() -> Any:
    """Return what takes a server that wants a login at its word, and registers opta nowhere."""
    import httpx2

    class NoLogin(httpx2.Auth):
        def auth_flow(
            self, request: httpx2.Request
        ) -> Generator[httpx2.Request, httpx2.Response, None]:
            response = yield request
            if response.status_code == httpx2.codes.UNAUTHORIZED:
                raise LoginNeeded

    return NoLogin()


async def log_in(
    config: ServerConfig, open_browser: Callable[[str], None], learn: Learn = ignore
) -> None:
    """Log the person in: `open_browser` shows them the server's page, which comes back here.

    `learn` hears of the secrets of the login.

    Raises LoginFailed.
    """
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    from tools.sources.mcp import sdk

    answered: asyncio.Future[dict[str, str]] = asyncio.get_running_loop().create_future()
    server = await _listen(config.login.callback_port, answered)
    port = server.sockets[0].getsockname()[1]
    host = "localhost" if config.login.callback_port else "127.0.0.1"

    async def show(url: str) -> None:
        store.set_server(provider.context.oauth_metadata)
        if config.login.client_id:
            provider.context.client_info = await store.get_client_info()
        open_browser(with_scopes(checked_url(url), config.login.scopes))

    async def take() -> Any:
        from mcp.client.auth import AuthorizationCodeResult

        given = await answered
        if "error" in given:
            raise LoginFailed(given.get("error_description") or given["error"])
        return AuthorizationCodeResult(
            code=given.get("code", ""), state=given.get("state"), iss=given.get("iss")
        )

    # Registered anew: the address to come back to has another port each time.
    store = TokenStore(config, learn)
    store.forget()
    provider = _provider(config, store, f"http://{host}:{port}/callback", show, take)
    try:
        async with asyncio.timeout(LOGIN_S):
            headers = dict(config.headers)
            async with http_client(config.url, auth=provider, headers=headers) as client:
                transport = streamable_http_client(config.url, http_client=client)
                async with Client(transport, cache=None):
                    pass
    except Exception as error:
        plain = sdk.innermost(error)
        if isinstance(plain, TimeoutError):
            raise LoginFailed(f"nobody logged in within {LOGIN_S:.0f} s") from None
        raise LoginFailed(_why_not(config, sdk.reason(plain))) from None
    finally:
        server.close()


async def _listen(port: int, answered: asyncio.Future[dict[str, str]]) -> asyncio.Server:
    try:
        return await asyncio.start_server(_answer_into(answered), "127.0.0.1", port)
    except OSError as error:
        raise LoginFailed(
            f"port {port}, where the browser is to come back to (callbackPort), cannot be used: "
            f"{error.strerror}"
        ) from None


def with_scopes(url: str, scopes: str) -> str:
    """Return the address to log in at, asking for `scopes` (parted by spaces) if there are any."""
    if not scopes:
        return url
    parts = urlsplit(url)
    asked = dict(parse_qsl(parts.query)) | {"scope": scopes}
    return parts._replace(query=urlencode(asked)).geturl()


def _why_not(config: ServerConfig, reason: str) -> str:
    """Return why there is no login; the page that a server sent with its refusal says nothing."""
    reason = Masker(filter(None, [config.login.client_secret])).text(reason)
    refused = re.match(r"Registration failed: (\d+)", reason)
    if refused is None:
        return reason
    return (
        f"the server knows no opta and registers no new programs (HTTP {refused[1]}). Register one "
        f"on its site: opta mcp add {config.name} {config.url} --client-id ID --client-secret-env "
        "NAME; or make a token there: --header 'Authorization: Bearer ${TOKEN}'"
    )


def checked_url(url: str) -> str:
    """Return an address that a browser may be opened with (R5). Raises LoginFailed."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or not url.isprintable():
        raise LoginFailed(f"the server names no http address to log in at: {url!r}")
    return url


def _provider(
    config: ServerConfig,
    store: TokenStore,
    redirect: str,
    show: Callable[[str], Awaitable[Any]],
    take: Callable[[], Awaitable[Any]],
) -> Any:
    from mcp.client.auth import OAuthClientProvider
    from mcp.shared.auth import OAuthClientMetadata

    metadata = OAuthClientMetadata.model_validate({
        "client_name": "opta",
        "redirect_uris": [redirect],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
    })  # fmt: skip
    provider = OAuthClientProvider(config.url, metadata, store, show, take)
    # Without them it would not know where to renew tokens, nor that it is time.
    provider.context.oauth_metadata = store.server
    provider.context.token_expiry_time = store.expires_at
    return provider


def _answer_into(
    answered: asyncio.Future[dict[str, str]],
) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ValueError, IndexError, ConnectionError):
            target = (await reader.readline()).decode("ascii").split()[1]
            parts = urlsplit(target)
            given = {key: values[0] for key, values in parse_qs(parts.query).items()}
            wanted = parts.path == "/callback" and bool({"code", "error"} & given.keys())
            writer.write(_PAGE if wanted else _NOT_FOUND)
            await writer.drain()
            if wanted and not answered.done():
                answered.set_result(given)
        writer.close()

    return handle
