"""Signs the requests to a server with the person's login. Nothing here asks the person.

A login that ran out is renewed. What the login has too few rights for fails alone, with words that
say which ones are missing: the login, and the connection, stay as they are.
"""

from __future__ import annotations

import asyncio
import json
import re
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

from tools.sources.mcp.config import ServerConfig
from tools.sources.mcp.login_store import Learn, Login, LoginBusy, LoginStore, ignore
from tools.sources.mcp.renewal import LoginNeeded, NotRenewed, renewed
from tools.storage import StorageError

MAX_SCOPES = 100
"""How many scopes a server may want at a time."""

_SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]{1,200}")
_NOTE_S, _FINISH_S = 2.0, 3.0
_OURS = secrets.token_hex(16)
"""Marks the errors that opta makes: no server can."""

_LACKS_SCOPES, _NOT_RENEWED = 40301, 40302


@asynccontextmanager
async def stored_login(config: ServerConfig, learn: Learn = ignore) -> AsyncIterator[Any]:
    """Give how requests to a server are authenticated: by its login, if it has one.

    A header that the person configured is the login. A server that wants another raises
    LoginNeeded. `learn` hears of the secrets of the login (R39). At the end a login that is being
    renewed is waited for, for what is answered then is good only if it is kept.
    """
    if any(name.lower() == "authorization" for name in config.headers):
        yield as_auth(_HeaderLogin().flow)
        return
    login = _StoredLogin(config, learn)
    try:
        yield as_auth(login.flow)
    finally:
        await login.finish()


def as_auth(flow: Callable[[Any], AsyncGenerator[Any, Any]]) -> Any:
    """Return a flow (requests out, responses in) as the transport takes it."""
    import httpx2

    class Auth(httpx2.Auth):
        def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[Any, Any]:
            return flow(request)

    return Auth()


def refusal(error: BaseException) -> str:
    """Return why a request was refused for its login; empty for any other error."""
    refused = getattr(error, "data", None) == _OURS
    return str(error) if refused else ""


def lacks_scopes(error: BaseException) -> bool:
    """Tell whether a refused request needs a login with more rights."""
    return bool(refusal(error)) and getattr(error, "code", None) == _LACKS_SCOPES


def scopes_wanted(response: Any) -> str | None:
    """Return which scopes a server says are missing (RFC 6750, 3.1); None where it says no such.

    They may be none: it need not say which.
    """
    from mcp.client.auth.utils import extract_field_from_www_auth, extract_scope_from_www_auth

    if response.status_code != 403:
        return None
    if extract_field_from_www_auth(response, "error") != "insufficient_scope":
        return None
    return united(extract_scope_from_www_auth(response) or "")


def united(*scopes: str) -> str:
    """Return scopes of several lists as one: in order, each once, what cannot be one left out."""
    found = dict.fromkeys(word for text in scopes for word in text.split())
    return " ".join([word for word in found if _SCOPE.fullmatch(word)][:MAX_SCOPES])


def without(scopes: str, others: str) -> str:
    """Return the scopes that are none of the others."""
    known = others.split()
    return " ".join(word for word in scopes.split() if word not in known)


class _HeaderLogin:
    """The token of a header that the person wrote."""

    async def flow(self, request: Any) -> AsyncGenerator[Any, Any]:
        response = yield request
        wanted = scopes_wanted(response)
        if wanted is not None:
            named = f": {wanted}" if wanted else ""
            told = f"the token of its header Authorization lacks scopes{named}; make one with them"
            await _fail(response, _LACKS_SCOPES, told)


class _StoredLogin:
    """The login that `opta mcp login` keeps."""

    def __init__(self, config: ServerConfig, learn: Learn) -> None:
        self._config = config
        self._store = LoginStore(config, learn)
        self._login: Login | None = None
        self._renewal: asyncio.Task[Login] | None = None

    async def flow(self, request: Any) -> AsyncGenerator[Any, Any]:
        """Send the request; once more where there is another token by then."""
        login, problem = await self._current()
        response = yield _signed(request, login)
        if response.status_code == 401 and problem is None:
            newer, problem = await self._with_another_token(login)
        elif scopes_wanted(response) is not None:
            self._login = await self._kept(login)
            newer, problem = await self._current()
        else:
            newer = login
        if newer.token not in ("", login.token):
            self._login = login = newer
            await _replace_body(response, b"")
            response = yield _signed(request, login)
        if response.status_code == 401:
            if problem is None or isinstance(problem, LoginNeeded):
                raise LoginNeeded
            await _fail(response, _NOT_RENEWED, str(problem))
        wanted = scopes_wanted(response)
        if wanted is not None and request.method == "POST":
            await _fail(response, _LACKS_SCOPES, await self._refused(login, wanted))

    async def finish(self) -> None:
        """Wait for a login that is being renewed, for a moment."""
        if self._renewal is not None:
            await asyncio.wait({self._renewal}, timeout=_FINISH_S)

    async def _current(self) -> tuple[Login, Exception | None]:
        """Return the login, and why it could not be renewed although it ran out.

        Whether the token is still good after all the server says.
        """
        login = self._login = self._login or await self._store.load()
        if login.ran_out and login.is_renewable:
            return await self._with_another_token(login)
        return login, None

    async def _kept(self, login: Login) -> Login:
        with suppress(StorageError):
            return await self._store.load()
        return login

    async def _with_another_token(self, login: Login) -> tuple[Login, Exception | None]:
        """Return the login with another token; or as it is, and why there is no other."""
        try:
            self._login = await self._renew(login.token)
        except (LoginNeeded, NotRenewed, StorageError) as error:
            return login, error
        return self._login, None

    async def _renew(self, used: str) -> Login:
        """Renew once for all requests that wait, to the end even if they are given up."""
        if self._renewal is None or self._renewal.done():
            self._renewal = asyncio.create_task(renewed(self._config, self._store, used))
            self._renewal.add_done_callback(_looked_at)
        return await asyncio.shield(self._renewal)

    async def _refused(self, login: Login, wanted: str) -> str:
        """Note what the server wants, for the next login; return what the person has to know."""
        config, named = self._config, f": {wanted}" if wanted else ", and does not say which"
        missing = without(wanted, login.scopes)
        if login.token and wanted and not missing:
            return f"it names scopes as missing that the login has{named}; a new login is no help"
        unasked = without(missing, config.login.scopes) if config.login.scopes else ""
        with suppress(StorageError, LoginBusy):
            await self._note(wanted)
        more = f"add {unasked} to oauth.scopes ({config.place}), then " if unasked else ""
        return f"it wants more scopes{named}; to allow that: {more}opta mcp login {config.name}"

    async def _note(self, wanted: str) -> None:
        async with self._store.alone(_NOTE_S):
            kept = await self._store.load()
            noted = united(kept.wanted, wanted)
            if noted != kept.wanted:
                await self._store.save(replace(kept, wanted=noted))


def _signed(request: Any, login: Login) -> Any:
    if login.token:
        request.headers["Authorization"] = f"Bearer {login.token}"
    return request


def _token_of(request: Any) -> str:
    return str(request.headers.get("Authorization", "")).removeprefix("Bearer ")


def _looked_at(renewal: asyncio.Task[Login]) -> None:
    # Who waited may have left.
    if not renewal.cancelled():
        renewal.exception()


async def _fail(response: Any, code: int, reason: str) -> None:
    """Let a response say an error of JSON-RPC, which the SDK gives to the one who asked."""
    error = {"code": code, "message": reason, "data": _OURS}
    body = {"jsonrpc": "2.0", "id": None, "error": error}
    await _replace_body(response, json.dumps(body).encode())


async def _replace_body(response: Any, body: bytes) -> None:
    import httpx2

    await response.stream.aclose()
    response.stream = httpx2.ByteStream(body)
    response.headers = httpx2.Headers({"Content-Type": "application/json"})
