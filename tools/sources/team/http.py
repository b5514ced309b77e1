"""Asks a team server for the team's tools: one GET, under one deadline, followed nowhere."""

from __future__ import annotations

import asyncio
from dataclasses import field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from tools.connecting import explained, http_client
from tools.engine.output import visible
from tools.record import record
from tools.sources.team.answer import MAX_BYTES, TeamError
from tools.sources.team.config import TeamConfig

if TYPE_CHECKING:
    import httpx2

_REASON_CHARS = 240
_NO_TOKEN = "it wants a token: {} is not set, and `opta team login` was not used"
_WRONG_TOKEN = "it does not accept the token"
_STATUS = {403: "the token may not read these tools", 404: "it knows no such organisation"}


@record
class Fetched:
    """A whole answer, and the tag under which the server knows it."""

    body: bytes = field(repr=False)
    etag: str = ""


async def fetch(config: TeamConfig, token: str, etag: str) -> Fetched | None:
    """Return the answer of the server, or None when it is still the one tagged `etag`.

    The token goes to the configured host alone: redirects are not followed. Raises TeamError.
    """
    import httpx2

    headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
    if token:
        headers["Authorization"] = f"Bearer {checked_token(token)}"
    if etag:
        headers["If-None-Match"] = etag
    try:
        async with (
            asyncio.timeout(config.timeout_s),
            http_client(config.url, timeout=config.timeout_s, follow_redirects=False) as client,
            client.stream("GET", config.address, headers=headers) as response,
        ):
            if response.status_code == httpx2.codes.NOT_MODIFIED and etag:
                return None
            _check(response, config, token)
            return Fetched(await _body(response), _tag(response.headers.get("etag", "")))
    except (TimeoutError, httpx2.TimeoutException):
        raise TeamError(f"it did not answer within {config.timeout_s} s") from None
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        told = visible(explained(error))[:_REASON_CHARS]
        raise TeamError(f"it cannot be reached: {told}") from None


def checked_token(token: str) -> str:
    """Return a token that can stand in a header. Raises TeamError."""
    if not (token.isascii() and token.isprintable()) or " " in token:
        raise TeamError("the token holds characters that no token has: copy it again")
    return token


def _check(response: httpx2.Response, config: TeamConfig, token: str) -> None:
    """Raise TeamError for an answer that cannot hold tools."""
    status = response.status_code
    if 300 <= status < 400:
        target = _host(response.headers.get("location", ""))
        where = f" to {visible(target)[:_REASON_CHARS]}" if target else ""
        raise TeamError(f"it redirects{where}, where no token is sent: set teams.url to the place")
    if status == 401:
        raise TeamError(_WRONG_TOKEN if token else _NO_TOKEN.format(config.token_env))
    if status != 200:
        raise TeamError(_STATUS.get(status, f"it answered with status {status}"))
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        told = visible(kind)[:_REASON_CHARS] or "no type"
        raise TeamError(f"it answered with {told} instead of application/json")
    if response.headers.get("content-encoding", "identity").strip().lower() != "identity":
        raise TeamError("it answered compressed, which was not asked for")


def _host(address: str) -> str:
    try:
        return urlsplit(address).hostname or ""
    except ValueError:
        return ""


async def _body(response: httpx2.Response) -> bytes:
    length = response.headers.get("content-length", "")
    if length.isascii() and length.isdigit() and int(length) > MAX_BYTES:
        raise _too_big()
    body = bytearray()
    async for chunk in response.aiter_raw():
        body += chunk
        if len(body) > MAX_BYTES:
            raise _too_big()
    return bytes(body)


def _too_big() -> TeamError:
    return TeamError(f"its answer has more than {MAX_BYTES >> 20} MiB")


def _tag(etag: str) -> str:
    """Return a tag that can be sent back."""
    return etag if etag.isascii() and etag.isprintable() and len(etag) <= 200 else ""
