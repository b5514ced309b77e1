"""Where a model is: its address, its key, and what may be said about both."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import field
from urllib.parse import urlsplit, urlunsplit

from agent.model.base import FailureKind, ModelError
from agent.model.failures import Target, no_key
from agent.model.options import ModelOptions
from agent.redaction import environment_secrets
from tools.hosts import is_loopback
from tools.record import record
from tools.secret_values import SHORTEST, address_secrets, header_secrets


@record
class Endpoint:
    """Where the model is and how it is reached.

    Raises ModelError for an address that is none.
    """

    base_url: str = field(repr=False)
    model: str
    api_key: str = field(default="", repr=False)
    options: ModelOptions = field(default_factory=ModelOptions, repr=False)

    def __post_init__(self) -> None:
        if not _is_address(self.base_url):
            shown = re.sub(r"//[^/@]*@", "//", self.base_url)
            raise ModelError(
                FailureKind.NO_CONNECTION,
                f"{shown!r} is not the address of a model server.",
                next_step="Give --base-url as in https://api.openai.com/v1 or "
                "http://localhost:11434/v1.",
            )

    def url(self, path: str) -> str:
        """Return the address of an API; a query in the base URL stays (Azure's `api-version`)."""
        parts = urlsplit(self.base_url)
        base = parts.path.rstrip("/").removesuffix(path)
        return urlunsplit(parts._replace(path=base + path, fragment=""))

    @property
    def local(self) -> bool:
        """True for a server on this machine, which needs no key and is never behind a proxy."""
        return is_loopback(urlsplit(self.base_url).hostname or "")

    @property
    def origin(self) -> str:
        """The server and model, as they mark what may go back to nobody else."""
        return f"{urlsplit(self.target.url).netloc} {self.model}"

    @property
    def target(self) -> Target:
        """What error texts may say about this endpoint."""
        parts = urlsplit(self.base_url)
        shown = parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="")
        secrets = [self.api_key.strip(), *address_secrets(self.base_url)]
        secrets += [*header_secrets(self.options.headers), *environment_secrets()]
        return Target(
            urlunsplit(shown),
            self.model,
            self.local,
            bool(self.api_key.strip()),
            tuple(secret for secret in secrets if len(secret) >= SHORTEST),
        )

    def request_headers(self) -> dict[str, str]:
        """Return the headers of a request.

        Raises ModelError: no key for a server that needs one, or a key no header can carry.
        """
        key = self.api_key.strip()
        headers = {
            "Content-Type": "application/json",
            "Accept": "text/event-stream",
            "Accept-Encoding": "identity",
            "User-Agent": "opta",
        }
        if urlsplit(self.base_url).hostname == "api.openai.com":
            headers |= _organisation()
        if key:
            headers["Authorization"] = f"Bearer {key}"
        headers |= self.options.headers
        if not (key or self.local or _carries_key(self.options.headers)):
            raise no_key(self.target)
        if not all(value.isascii() and value.isprintable() for value in headers.values()):
            raise ModelError(
                FailureKind.UNAUTHORISED,
                "The API key holds characters that no key has (a line break, a quote, an accent).",
                next_step="Copy the key again into OPENAI_API_KEY.",
            )
        return headers


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _organisation() -> dict[str, str]:
    names = {
        "OpenAI-Organization": "OPENAI_ORG_ID",
        "OpenAI-Project": "OPENAI_PROJECT_ID",
    }
    return {header: os.environ[name] for header, name in names.items() if os.environ.get(name)}


def _carries_key(headers: Iterable[str]) -> bool:
    return any(name.lower() in {"authorization", "api-key", "x-api-key"} for name in headers)
