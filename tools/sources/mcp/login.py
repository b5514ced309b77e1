"""How a person logs in to an MCP server by OAuth, with the browser.

A chat never opens a browser by itself: only `opta mcp login` does.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tools.connecting import AS_JSON, NOT_COMPRESSED, bound, http_client
from tools.engine.masking import Masker
from tools.sources.mcp.authorization import as_auth, scopes_wanted, united, without
from tools.sources.mcp.callback import Callback
from tools.sources.mcp.config import ServerConfig
from tools.sources.mcp.login_address import address_problem
from tools.sources.mcp.login_store import Learn, Login, LoginStore, ignore, registered_by_hand
from tools.sources.mcp.renewal import MAX_ANSWER_BYTES, token_address

LOGIN_S = 300.0
"""How long a person may take to log in, in seconds."""

MAX_STEPS = 3
"""How often one login may show the person a page, for scopes that a server wants one by one."""


class LoginFailed(Exception):
    """There is no login. The message says why."""


async def log_in(
    config: ServerConfig, open_browser: Callable[[str], None], learn: Learn = ignore
) -> Login:
    """Log the person in: `open_browser` shows them the server's page, which comes back here.

    What the login could do before, and what the server asked for since, is asked for too. The old
    login stays until there is a new one. `learn` hears of the secrets of both. Returns the login
    there is then. Raises LoginFailed and StorageError.
    """
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    from tools.sources.mcp import sdk

    callback, store = Callback(), LoginStore(config, learn)
    attempt = _Attempt(config, store, await store.load(), callback, open_browser)
    try:
        auth = as_auth(attempt.flow(await _listen(callback, config)))
        async with asyncio.timeout(LOGIN_S):
            headers = {**NOT_COMPRESSED, **config.headers}
            async with http_client(config.url, auth=auth, headers=headers) as client:
                transport = streamable_http_client(config.url, http_client=client)
                async with Client(transport, cache=None):
                    pass
    except Exception as error:
        plain = sdk.innermost(error)
        if isinstance(plain, TimeoutError):
            raise LoginFailed(f"nobody logged in within {LOGIN_S:.0f} s") from None
        raise LoginFailed(attempt.why_not(sdk.reason(plain))) from None
    finally:
        callback.close()
    return attempt.login


async def _listen(callback: Callback, config: ServerConfig) -> str:
    port = config.login.callback_port
    try:
        return await callback.listen(port)
    except OSError as error:
        raise LoginFailed(
            f"port {port}, where the browser is to come back to (callbackPort), cannot be used: "
            f"{error.strerror}"
        ) from None


class _Attempt:
    """One login: what the SDK keeps its findings in, and what it shows the person with."""

    def __init__(
        self,
        config: ServerConfig,
        store: LoginStore,
        before: Login,
        callback: Callback,
        open_browser: Callable[[str], None],
    ) -> None:
        self.login = Login()
        self._config = config
        self._store = store
        self._before = before
        self._had = united(before.scopes, before.wanted)
        self._callback = callback
        self._open_browser = open_browser
        self._steps = 0
        self._missing = ""
        self._client: Any = None
        self._provider: Any = None

    def flow(self, redirect: str) -> Callable[[Any], AsyncGenerator[Any, Any]]:
        """Return how requests are authenticated, with the browser coming back to `redirect`."""
        from mcp.client.auth import OAuthClientProvider

        # Registered anew each time: the address to come back to has another port.
        metadata = _asking(self._scopes, redirect)
        self._provider = OAuthClientProvider(
            self._config.url, metadata, self, self._show, self._take
        )

        async def signed(request: Any) -> AsyncGenerator[Any, Any]:
            while True:
                flow = self._provider.async_auth_flow(request)
                response = None
                try:
                    outgoing = await anext(flow)
                    while True:
                        if outgoing is not request:
                            self._check(str(outgoing.url))
                            outgoing.headers.update(NOT_COMPRESSED | AS_JSON)
                        response = yield outgoing
                        bound(response, MAX_ANSWER_BYTES)
                        outgoing = await flow.asend(response)
                except StopAsyncIteration:
                    pass
                finally:
                    await flow.aclose()
                # The SDK asks for more once, and takes no for an answer.
                self._missing = scopes_wanted(response) or ""
                if not without(self._missing, metadata.scope or ""):
                    return
                await self._register_again()

        return signed

    def why_not(self, reason: str) -> str:
        """Return why there is no login; the page that a server sent with a refusal says nothing."""
        config = self._config
        reason = Masker(filter(None, [config.login.client_secret])).text(reason)
        if reason.startswith("Invalid token response"):
            return "the server answered with no token"
        refused = re.match(r"Registration failed: (\d+)", reason)
        if refused is None:
            return f"the server wants more scopes: {self._missing}" if self._missing else reason
        return (
            f"the server knows no opta and registers no new programs (HTTP {refused[1]}). Register "
            f"one on its site: opta mcp add {config.name} {config.url} --client-id ID "
            "--client-secret-env NAME; or make a token there: --header 'Authorization: Bearer "
            "${TOKEN}'"
        )

    async def get_tokens(self) -> Any:
        """Return none: the person wants a new login."""
        return None

    async def set_tokens(self, tokens: Any) -> None:
        """Keep the new login instead of the old one, with all that it takes to renew it."""
        context = self._provider.context
        named = context.should_include_resource_param(context.protocol_version)
        resource = context.get_resource_url() if named else ""
        login = Login(None, context.client_info, context.oauth_metadata, resource=resource)
        self.login = login.with_tokens(tokens)
        async with self._store.alone():
            await self._store.save(self.login)

    async def get_client_info(self) -> Any:
        """Return what opta is registered as at the server, by hand or by this login, or None."""
        return registered_by_hand(self._config.login, None) or self._client

    async def set_client_info(self, client_info: Any) -> None:
        """Note what this login registered opta as."""
        self._client = client_info

    def _scopes(self, named: str | None) -> str | None:
        """Return what to ask for where the server names these; the person's word goes first."""
        return self._config.login.scopes or united(self._had, named or "") or None

    async def _register_again(self) -> None:
        """A program may ask for those scopes alone that it was registered with."""
        self._missing, self._client = "", None
        self._provider.context.client_info = await self.get_client_info()

    async def _show(self, url: str) -> None:
        self._steps += 1
        if self._steps > MAX_STEPS:
            raise LoginFailed(f"the server wants more scopes after each of {MAX_STEPS} logins")
        context = self._provider.context
        if self._config.login.client_id:
            context.client_info = registered_by_hand(self._config.login, context.oauth_metadata)
        url = _with_own_query(url, context.oauth_metadata)
        self._check(url)
        self._check_server(context.oauth_metadata)
        self._callback.expect(url)
        self._open_browser(checked_url(url))

    def _check(self, address: str) -> None:
        problem = address_problem(self._config.url, address)
        if problem:
            raise LoginFailed(problem)

    def _check_server(self, server: Any) -> None:
        """Give a person's code and the program's secret to no server that is not meant."""
        methods = server.code_challenge_methods_supported if server is not None else None
        if methods is not None and "S256" not in methods:
            raise LoginFailed("the server cannot protect the login (PKCE with S256)")
        self._check(token_address(self._config, server))
        known = self._before.server
        if not self._config.login.client_id or known is None or server is None:
            return
        if known.issuer != server.issuer:
            raise LoginFailed(
                f"the login was at {known.issuer}, and the server names {server.issuer} now, which "
                f"would get your client's secret. If that is right: opta mcp login "
                f"{self._config.name} --forget, and log in again"
            )

    async def _take(self) -> Any:
        from mcp.client.auth import AuthorizationCodeResult

        given = await self._callback.answer()
        if "error" in given:
            raise LoginFailed(given.get("error_description") or given["error"])
        return AuthorizationCodeResult(
            code=given.get("code", ""), state=given.get("state"), iss=given.get("iss")
        )


def _asking(scopes: Callable[[str | None], str | None], redirect: str) -> Any:
    """Return what opta says of itself; the `scopes` it asks for go where the SDK puts its own."""
    from mcp.shared.auth import OAuthClientMetadata

    class Metadata(OAuthClientMetadata):
        def __setattr__(self, name: str, value: Any) -> None:
            super().__setattr__(name, scopes(value) if name == "scope" else value)

    return Metadata.model_validate({
        "client_name": "opta",
        "redirect_uris": [redirect],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
    })  # fmt: skip


def _with_own_query(url: str, server: Any) -> str:
    """Return an address to log in at as the SDK makes it, where that of the server has a query
    already (RFC 6749, 3.1)."""
    page = str(server.authorization_endpoint) if server is not None else ""
    return url.replace(f"{page}?", f"{page}&", 1) if "?" in page else url


def scopes_in(url: str) -> str:
    """Return the scopes that an address to log in at asks for, parted by spaces."""
    return " ".join(parse_qs(urlsplit(url).query).get("scope", ()))


def checked_url(url: str) -> str:
    """Return an address that a browser may be opened with (R5). Raises LoginFailed."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or not url.isprintable():
        raise LoginFailed(f"the server names no http address to log in at: {url!r}")
    return url
