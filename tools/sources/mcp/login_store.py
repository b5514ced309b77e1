"""Where the login at an MCP server is kept, and what it consists of.

Several runs of opta may have the same login. What changes it holds a lock of the operating system
meanwhile, which ends with the process that has it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any, TypeAlias

from tools import storage
from tools.definition import digest_of
from tools.record import record
from tools.sources.credentials import Credentials
from tools.sources.mcp.config import LoginSettings, ServerConfig

LOCK_S = 25.0
"""How long one run of opta waits for another that changes the same login, in seconds."""

_LOOK_AGAIN_S = 0.05
_SERVICE = "opta-mcp"
_SECRET_KEYS = (
    "access_token", "refresh_token", "id_token", "client_secret", "registration_access_token",
)  # fmt: skip

Learn: TypeAlias = Callable[[Iterable[str]], None]
"""Hears of secrets, so that they are kept out of what opta writes and shows (R39)."""


def ignore(secrets: Iterable[str]) -> None:
    """Do nothing about secrets."""


class LoginBusy(Exception):
    """Another run of opta changes the login, and does not finish."""


@record
class Login:
    """What belongs to the login at one server, as the SDK models it; none without `tokens`.

    `client` is what opta is registered as, `server` what the one that gives tokens says of itself
    (RFC 8414). `expires_at` is in seconds since 1970, None when nobody said. `resource` names the
    MCP server to the one that gives tokens (RFC 8707). `wanted` are scopes that the server asked
    for since the login.
    """

    tokens: Any = None
    client: Any = None
    server: Any = None
    expires_at: float | None = None
    resource: str = ""
    wanted: str = ""

    @property
    def token(self) -> str:
        """What a request is signed with; empty without a login."""
        return self.tokens.access_token if self.tokens is not None else ""

    @property
    def scopes(self) -> str:
        """The rights that the login has, parted by spaces, as far as they are known."""
        given = (self.tokens.scope if self.tokens is not None else "") or ""
        # GitHub and Slack part them by commas, which OAuth does not.
        return given.replace(",", " ")

    @property
    def ran_out(self) -> bool:
        """True once the token is too old."""
        return bool(self.token) and self.expires_at is not None and time.time() > self.expires_at

    @property
    def is_renewable(self) -> bool:
        """True where there is what a new token can be had for without the person."""
        return self.tokens is not None and bool(self.tokens.refresh_token and self.client)

    def with_tokens(self, tokens: Any) -> Login:
        """Return the login with tokens that were given just now."""
        lasts = tokens.expires_in
        expires_at = None if lasts is None else time.time() + lasts
        return replace(self, tokens=tokens, expires_at=expires_at)


class LoginStore:
    """Keeps the login at one server. What reads or writes may raise StorageError.

    `learn` hears of every token and secret that is read or stored here.
    """

    def __init__(self, config: ServerConfig, learn: Learn = ignore) -> None:
        self._learn = learn
        self._name = config.name
        self._settings = config.login
        # What one program was given is of no use to another.
        program = config.login.client_id
        identity = (digest_of([config.identity, program]) if program else config.identity)[:32]
        path = storage.state_dir() / "mcp" / "logins" / f"{identity}.json"
        self._lock_path = path.with_suffix(".lock")
        self._credentials = Credentials(_SERVICE, identity, path)

    @property
    def place(self) -> str:
        """Where the login is, for people."""
        return self._credentials.place

    async def load(self) -> Login:
        """Return what is kept now. The loop goes on while a keyring takes its time."""
        kept = await asyncio.to_thread(self._credentials.load)
        self._learn(_secrets_in(kept))
        return await asyncio.to_thread(self._login, kept) if kept else Login()

    async def save(self, login: Login) -> None:
        """Keep this instead; for who is `alone`."""
        kept = self._plain(login)
        self._learn(_secrets_in(kept))
        await asyncio.to_thread(self._credentials.save, kept)

    async def forget(self) -> bool:
        """Delete the login; False when there was none. Raises LoginBusy."""
        async with self.alone():
            existed = bool((await self.load()).token)
            await self.save(Login())
            return existed

    @asynccontextmanager
    async def alone(self, wait_s: float = LOCK_S) -> AsyncIterator[None]:
        """Keep every other run of opta from changing the login meanwhile. Raises LoginBusy."""
        lock = storage.AppendFile(self._lock_path)
        deadline = time.monotonic() + wait_s
        try:
            while not lock.lock():
                if time.monotonic() > deadline:
                    raise LoginBusy(
                        f"another opta is renewing the login to {self._name} and does not finish"
                    )
                await asyncio.sleep(_LOOK_AGAIN_S)
            yield
        finally:
            lock.close()

    def _login(self, kept: dict[str, Any]) -> Login:
        from mcp.shared.auth import OAuthClientInformationFull, OAuthMetadata, OAuthToken

        expires_at, server = kept.get("expires_at"), _model(OAuthMetadata, kept.get("server"))
        return Login(
            tokens=_model(OAuthToken, kept.get("tokens")),
            client=registered_by_hand(self._settings, server)
            or _model(OAuthClientInformationFull, kept.get("client")),
            server=server,
            expires_at=expires_at if isinstance(expires_at, int | float) else None,
            resource=_text(kept.get("resource")),
            wanted=_text(kept.get("wanted")),
        )

    def _plain(self, login: Login) -> dict[str, Any]:
        registered = None if self._settings.client_id else login.client
        models = {"tokens": login.tokens, "client": registered, "server": login.server}
        kept = {
            key: model.model_dump(mode="json", exclude_none=True)
            for key, model in models.items() if model is not None
        }  # fmt: skip
        values = {
            "expires_at": login.expires_at, "resource": login.resource, "wanted": login.wanted
        }  # fmt: skip
        return kept | {key: value for key, value in values.items() if value}


class LoginWatch:
    """Tells whether the person logged in since a server refused what login there was."""

    def __init__(self, config: ServerConfig) -> None:
        self._config = config
        self._refused = ""

    async def note_refusal(self) -> None:
        """Remember that the login as it is now does not do."""
        self._refused = await self._token()

    async def is_new(self) -> bool:
        """Tell whether there is another login now."""
        return await self._token() not in ("", self._refused)

    async def _token(self) -> str:
        # What cannot be read is told by who needs it.
        with suppress(storage.StorageError):
            return (await LoginStore(self._config).load()).token
        return ""


def registered_by_hand(settings: LoginSettings, server: Any) -> Any:
    """Return what somebody registered opta as, or None; its secret is kept nowhere.

    The secret is sent by HTTP Basic unless `server` takes it in the form alone (RFC 8414, 2).
    """
    from mcp.shared.auth import OAuthClientInformationFull

    if not settings.client_id:
        return None
    methods = (server and server.token_endpoint_auth_methods_supported) or ()
    only_post = "client_secret_post" in methods and "client_secret_basic" not in methods
    method = "client_secret_post" if only_post else "client_secret_basic"
    return OAuthClientInformationFull(
        client_id=settings.client_id,
        client_secret=settings.client_secret or None,
        token_endpoint_auth_method=method if settings.client_secret else None,
    )


def _secrets_in(kept: dict[str, Any]) -> list[str]:
    """Return the tokens and secrets among what is kept of a login (RFC 6749, RFC 7591)."""
    models = [value for value in kept.values() if isinstance(value, dict)]
    found = [model.get(key) for model in models for key in _SECRET_KEYS]
    return [text for text in found if isinstance(text, str)]


def _model(kind: Any, stored: Any) -> Any:
    # What another version wrote counts as no login.
    with suppress(ValueError):
        return None if stored is None else kind.model_validate(stored)
    return None


def _text(stored: Any) -> str:
    return stored if isinstance(stored, str) else ""
