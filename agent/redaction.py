"""Keeps configured secrets out of what opta writes down: sessions, logs, history, errors (R39)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from tools.engine.environment import is_secret
from tools.engine.masking import MaskedStream, Masker
from tools.secret_values import SHORTEST, address_secrets, header_secrets, named_secrets

if TYPE_CHECKING:
    from agent.settings_values import Settings

REDACTED = "[redacted]"
_SHORTEST_PART = 6
_CUT = "…"
_LOGIN = re.compile(r"//[^/@\s]+@")
_PROXIES = ("http_proxy", "https_proxy", "all_proxy")


class Redactor:
    """Replaces each secret in a text, also as JSON, URLs and Base64 spell it.

    Values shorter than `SHORTEST` characters are left. `masker` knows the same secrets.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self.masker = Masker((), REDACTED)
        self.learn(secrets)

    def learn(self, secrets: Iterable[str]) -> None:
        """Replace these too, from now on, also in streams that have begun."""
        stripped = map(str.strip, secrets)
        self.masker.learn(secret for secret in stripped if len(secret) >= SHORTEST)

    def __call__(self, text: str) -> str:
        """Return `text` without secrets, and without what a cut (`…`) left of one."""
        text = self.masker.text(text)
        if self.masker.secrets and _CUT in text:
            before, *rest = text.split(_CUT)
            for part in rest:
                before = f"{self._without_end(before)}{_CUT}{self._without_start(part)}"
            return before
        return text

    def _without_end(self, text: str) -> str:
        for secret in self.masker.secrets:
            for length in range(len(secret) - 1, _SHORTEST_PART - 1, -1):
                if text.endswith(secret[:length]):
                    return text[:-length] + REDACTED
        return text

    def _without_start(self, text: str) -> str:
        for secret in self.masker.secrets:
            for length in range(len(secret) - 1, _SHORTEST_PART - 1, -1):
                if text.startswith(secret[-length:]):
                    return REDACTED + text[length:]
        return text

    def tree(self, value: Any) -> Any:
        """Return a JSON value without secrets in any of its texts."""
        if isinstance(value, str):
            return self(value)
        if isinstance(value, dict):
            return {key: self.tree(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.tree(item) for item in value]
        return value

    def stream(self) -> RedactedStream:
        """Return what does the same to a text that comes in pieces."""
        return RedactedStream(self.masker.stream())


class RedactedStream:
    """Redacts text in pieces: what may be the beginning of a secret waits for the next piece."""

    def __init__(self, masked: MaskedStream) -> None:
        self._masked = masked

    def feed(self, text: str) -> str:
        """Return what may be written of all that came so far."""
        return _text(self._masked.feed(text.encode("utf-8", "surrogatepass")))

    def finish(self) -> str:
        """Return what was held back."""
        return _text(self._masked.finish())


def configured_secrets(settings: Settings, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the secrets that opta itself was given: keys, headers, passwords in addresses.

    Those too that do not count, because another place says something else.
    """
    named = (settings.api_key_env, settings.teams.token_env)
    found = [settings.api_key, *environment_secrets(environ)]
    found += [environ.get(name, "") for name in named]
    for layer in settings.layers:
        said = {name: value.value for name, value in layer.values.items()}
        found += [said.get("api_key", ""), *address_secrets(said.get("base_url", ""))]
        found += header_secrets(said.get("headers", {}))
        found += named_secrets(said.get("request", {}))
    stripped = dict.fromkeys(secret.strip() for secret in found)
    return tuple(secret for secret in stripped if len(secret) >= SHORTEST)


def environment_secrets(environ: Mapping[str, str] = os.environ) -> list[str]:
    """Return keys of model providers, opta's own, and passwords of proxies in an environment."""
    found = [environ[name] for name in sorted(environ) if is_secret(name)]
    for name in _PROXIES:
        for spelling in (name, name.upper()):
            found += address_secrets(environ.get(spelling, ""))
    return found


def without_logins(text: str) -> str:
    """Return `text` with the user and password of every address in it replaced."""
    return _LOGIN.sub(f"//{REDACTED}@", text)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")
