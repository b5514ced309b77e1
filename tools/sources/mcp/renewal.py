"""Renews a login that ran out, for all runs of opta that have it: a token for that is good once."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any
from urllib.parse import urljoin

from tools.connecting import AS_JSON, explained, http_client
from tools.sources.mcp.config import ServerConfig
from tools.sources.mcp.login_store import Login, LoginBusy, LoginStore

RENEW_S = 20.0
"""How long the server that gives tokens may take, in seconds."""

MAX_ANSWER_BYTES = 1 << 20
"""The longest answer that is read of a server that gives tokens, in bytes."""

_OTHER_S = 1.0
"""How long is waited for what another run was given, where the disk knows no locks, in seconds."""

_LATER = (408, 425, 429)


class LoginNeeded(Exception):
    """The server wants the person to log in first."""


class NotRenewed(Exception):
    """The login may be good, but cannot be renewed now. The message says why."""


async def renewed(config: ServerConfig, store: LoginStore, used: str) -> Login:
    """Return the login with another token than the one that was `used`.

    It may be one that another run of opta was given meanwhile. Raises LoginNeeded, NotRenewed and
    StorageError.
    """
    try:
        async with store.alone():
            login = await store.load()
            if login.token != used and not login.ran_out:
                return login
            if not login.is_renewable:
                raise LoginNeeded
            tokens = await _tokens(config, login)
            if tokens is None:
                return await _of_another(store, login.token)
            login = login.with_tokens(tokens)
            await store.save(login)
            return login
    except LoginBusy as error:
        raise NotRenewed(str(error)) from None


async def _of_another(store: LoginStore, refused: str) -> Login:
    deadline = time.monotonic() + _OTHER_S
    while True:
        login = await store.load()
        if login.token != refused and not login.ran_out:
            return login
        if time.monotonic() > deadline:
            raise LoginNeeded
        await asyncio.sleep(0.1)


async def _tokens(config: ServerConfig, login: Login) -> Any:
    """Return new tokens, or None where the old ones are refused. Raises NotRenewed."""
    from mcp.shared.auth import OAuthToken

    status, answer = await _ask(token_address(config, login.server), *_request(config, login))
    if status in _LATER or not 200 <= status < 500:
        raise NotRenewed(f"the login cannot be renewed now: HTTP {status}")
    if status >= 400 or _is_error(answer):
        return None
    try:
        tokens = OAuthToken.model_validate_json(answer)
    except ValueError:
        raise NotRenewed("the login cannot be renewed: the answer holds no token") from None
    old = login.tokens
    # What an answer leaves out has not changed (RFC 6749, 5.1 and 6).
    kept = {"scope": tokens.scope or old.scope,
            "refresh_token": tokens.refresh_token or old.refresh_token}  # fmt: skip
    return tokens.model_copy(update=kept)


def _is_error(answer: bytes) -> bool:
    """Tell whether an answer is an error (RFC 6749, 5.2), which GitHub sends with HTTP 200."""
    try:
        found = json.loads(answer)
    except (ValueError, RecursionError):
        return False
    return isinstance(found, dict) and "error" in found


def token_address(config: ServerConfig, server: Any) -> str:
    """Return where tokens are given, by what that `server` says of itself (or None)."""
    return str(server.token_endpoint) if server is not None else urljoin(config.url, "/token")


def _request(config: ServerConfig, login: Login) -> tuple[dict[str, str], dict[str, str]]:
    """Return the fields and headers that ask for new tokens (RFC 6749, 6; RFC 8707, 2.2)."""
    from mcp.client.auth.oauth2 import OAuthContext
    from mcp.shared.auth import OAuthClientMetadata

    given: Any = None
    metadata = OAuthClientMetadata(redirect_uris=None)
    context = OAuthContext(config.url, metadata, given, None, None, client_info=login.client)
    fields = {
        "grant_type": "refresh_token",
        "refresh_token": login.tokens.refresh_token,
        "client_id": login.client.client_id,
    }
    if login.resource:
        fields["resource"] = login.resource
    return context.prepare_token_auth(fields, dict(AS_JSON))


async def _ask(address: str, fields: dict[str, str], headers: dict[str, str]) -> tuple[int, bytes]:
    import httpx2

    answer = b""
    try:
        async with (
            asyncio.timeout(RENEW_S),
            http_client(address, timeout=RENEW_S) as client,
            client.stream("POST", address, data=fields, headers=headers) as response,
        ):
            async for part in response.aiter_bytes():
                answer += part
                if len(answer) > MAX_ANSWER_BYTES:
                    raise NotRenewed("the login cannot be renewed: the answer has no end")
    except TimeoutError:
        raise NotRenewed(f"the login cannot be renewed: no answer in {RENEW_S:.0f} s") from None
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise NotRenewed(f"the login cannot be renewed: {explained(error)}") from None
    return response.status_code, answer
