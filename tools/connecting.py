"""How opta asks servers over HTTP, and why one cannot be reached, in the system's words."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tools.hosts import is_loopback

if TYPE_CHECKING:
    import ssl

    import httpx2

NOT_COMPRESSED = MappingProxyType({"Accept-Encoding": "identity"})
AS_JSON = MappingProxyType({"Accept": "application/json"})
"""GitHub gives tokens as a form to who does not ask for this."""


def http_client(url: str, **options: Any) -> httpx2.AsyncClient:
    """Return a client for the server at `url`; one on this machine is asked through no proxy.

    It believes the authorities that the system knows, or those in the file SSL_CERT_FILE names.
    """
    import httpx2

    address = httpx2.URL(url)
    local = is_loopback(address.host)
    plain = local and address.scheme == "http"
    authorities = _no_authorities() if plain else httpx2.create_ssl_context()
    return httpx2.AsyncClient(trust_env=not local, verify=authorities, **options)


def bound(response: httpx2.Response, most: int) -> None:
    """Let the reading of an answer fail where it has more than `most` bytes (R43).

    It must not be compressed, for then its bytes say nothing about its size: `NOT_COMPRESSED` asks
    for that. What fails raises StreamError.
    """
    import httpx2

    whole: Any = response.stream
    compressed = response.headers.get("Content-Encoding", "identity").lower() != "identity"

    class Bounded(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            if compressed:
                raise httpx2.StreamError("it sent a compressed answer, which was not asked for")
            read = 0
            async for part in whole:
                read += len(part)
                if read > most:
                    raise httpx2.StreamError(f"it sent more than {most >> 20} MiB")
                yield part

        async def aclose(self) -> None:
            await whole.aclose()

    response.stream = Bounded()


def why_unreachable(error: BaseException | None) -> str:
    """Return why there is no connection; empty where neither TLS nor the system says so."""
    import ssl

    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            return f"its certificate is not accepted: {error.verify_message}"
        if isinstance(error, ssl.SSLError):
            return str(error)
        if isinstance(error, OSError) and error.errno:
            # asyncio words a refused connection itself; name look-ups have codes of their own.
            return os.strerror(error.errno) if error.errno > 0 else error.strerror or ""
        if isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        else:
            error = error.__cause__ or error.__context__
    return ""


def what_helps(reason: str) -> str:
    """Return what to do about a reason of `why_unreachable` that lies in TLS, as a sentence."""
    if "WRONG_VERSION_NUMBER" in reason:
        return "The server seems to speak plain HTTP: write http:// in its address."
    if "certificate" in reason.lower():
        return "If your network has its own certificate authority, name its file in SSL_CERT_FILE."
    return ""


def explained(error: BaseException) -> str:
    """Return the words of an error; of one of the transport, why it failed and what may help.

    There is no full stop at the end.
    """
    import httpx2

    reason = why_unreachable(error) if isinstance(error, httpx2.TransportError) else ""
    told = reason[:1].lower() + reason[1:] or " ".join(str(error).split()) or type(error).__name__
    return ". ".join(filter(None, (told, what_helps(reason).rstrip("."))))


def _no_authorities() -> ssl.SSLContext:
    """A context that trusts nobody: loading authorities takes 30 ms, and plain HTTP needs none."""
    import ssl

    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
