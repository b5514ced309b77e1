"""Keeps secret values out of everything that is shown, kept or sent (X105, R39).

Values of fewer than four characters are not masked: that would shred every output and hide
nothing. What is longer than `MAX_CHARACTERS` is data and no secret. A value that is split over
pieces of a stream is found all the same.
"""

from __future__ import annotations

import base64
import json
import re
import threading
from collections.abc import Iterable, Sequence
from urllib.parse import quote

from tools.logins import LoginStream
from tools.record import record

MASK = "****"
"""What stands for a secret, whatever its length."""

MIN_CHARACTERS, MAX_CHARACTERS = 4, 64 * 1024


class Masker:
    """Replaces secret values, the longest first, also in the spellings that programs print.

    `secrets` are those it knows. It may be used while another thread lets it learn more.
    """

    def __init__(self, secrets: Iterable[str] = (), mask: str = MASK) -> None:
        self.secrets: tuple[str, ...] = ()
        self.mask = mask
        self.forms = _Forms()
        self._learning = threading.Lock()
        self.learn(secrets)

    def learn(self, secrets: Iterable[str]) -> None:
        """Replace these too, from now on, also in streams that have begun."""
        with self._learning:
            known = tuple(dict.fromkeys((*self.secrets, *secrets)))
            if len(known) > len(self.secrets):
                self.secrets = known
                self.forms = _Forms.of(known)

    def __bool__(self) -> bool:
        """True when there is anything to mask."""
        return self.forms.text is not None

    def text(self, text: str) -> str:
        """Return `text` with every secret replaced."""
        pattern = self.forms.text
        return text if pattern is None else pattern.sub(self.mask, text)

    def data(self, data: bytes) -> bytes:
        """Return `data` with every secret replaced."""
        pattern = self.forms.data
        return data if pattern is None else pattern.sub(self.mask.encode(), data)

    def streams(self) -> tuple[OutputStream, OutputStream]:
        """Return maskers for what a process prints on stdout and stderr."""
        return OutputStream(self), OutputStream(self)

    def stream(self) -> MaskedStream:
        """Return a masker for one stream of bytes that arrives in pieces."""
        return MaskedStream(self)


class MaskedStream:
    """Masks bytes that come in pieces: what may be the beginning of a secret is held back."""

    def __init__(self, masker: Masker) -> None:
        self._masker = masker
        self._mask = masker.mask.encode()
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        """Return what may be shown of all that came so far."""
        forms = self._masker.forms
        if forms.data is None:
            return data
        data = self._held + data
        sure = _beginning_of_a_secret(data, forms.values)
        parts: list[bytes] = []
        position = 0
        for found in forms.data.finditer(data):
            if found.start() >= sure:
                break
            parts += (data[position : found.start()], self._mask)
            position = found.end()
        sure = max(sure, position)
        self._held = data[sure:]
        return b"".join((*parts, data[position:sure]))

    def finish(self) -> bytes:
        """Return what was held back at the end of the stream."""
        held, self._held = self._held, b""
        return self._masker.data(held)


class OutputStream:
    """Masks what a program prints: the secrets that are known, and logins that it shows."""

    def __init__(self, masker: Masker) -> None:
        self._masked = masker.stream()
        self._logins = LoginStream(masker.mask.encode())

    def feed(self, data: bytes) -> bytes:
        """Return what may be shown of all that came so far."""
        return self._logins.feed(self._masked.feed(data))

    def finish(self) -> bytes:
        """Return what was held back at the end of the stream."""
        return self._logins.feed(self._masked.finish()) + self._logins.finish()


def _beginning_of_a_secret(data: bytes, values: Sequence[bytes]) -> int:
    """Return where the last bytes begin that more bytes could make a secret of."""
    first = len(data)
    for value in values:
        start = max(0, len(data) - len(value) + 1)
        while (start := data.find(value[:1], start, first)) >= 0:
            if value.startswith(data[start:]):
                first = start
                break
            start += 1
    return first


@record
class _Forms:
    """What is looked for: all spellings, the longest first, as patterns of texts and of bytes."""

    values: tuple[bytes, ...] = ()
    text: re.Pattern[str] | None = None
    data: re.Pattern[bytes] | None = None

    @classmethod
    def of(cls, secrets: Iterable[str]) -> _Forms:
        spelled = {form for secret in secrets for form in _spellings(secret)}
        if not spelled:
            return cls()
        ordered = sorted(spelled, key=lambda value: (-len(value), value))
        values = tuple(value.encode("utf-8", "surrogateescape") for value in ordered)
        text = re.compile("|".join(map(re.escape, ordered)))
        return cls(values, text, re.compile(b"|".join(map(re.escape, values))))


def _spellings(secret: str) -> set[str]:
    """Return the value as it is, stripped, and as JSON, a URL and Base64 write it."""
    secret = secret.strip()
    if not MIN_CHARACTERS <= len(secret) <= MAX_CHARACTERS:
        return set()
    encoded = base64.b64encode(secret.encode("utf-8", "surrogateescape")).decode()
    return {
        secret,
        json.dumps(secret)[1:-1],
        json.dumps(secret, ensure_ascii=False)[1:-1],
        quote(secret, safe="", errors="surrogateescape"),
        encoded,
    }
