"""Keeps secret values out of everything that is shown, kept or sent (X105, R39).

Values of fewer than four characters are not masked: that would shred every output and hide
nothing. What is longer than `MAX_CHARACTERS` is data and no secret. A value that is split over
pieces of a stream is found all the same.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable
from urllib.parse import quote

MASK = "****"
"""What stands for a secret, whatever its length."""

MIN_CHARACTERS, MAX_CHARACTERS = 4, 64 * 1024


class Masker:
    """Replaces secret values, the longest first, also in the spellings that programs print."""

    def __init__(self, secrets: Iterable[str] = (), mask: str = MASK) -> None:
        self.secrets = tuple(secrets)
        self._mask = mask
        values = {form for secret in self.secrets for form in _spellings(secret)}
        ordered = sorted(values, key=lambda value: (-len(value), value))
        self._values = [value.encode("utf-8", "surrogateescape") for value in ordered]
        self._text = re.compile("|".join(map(re.escape, ordered))) if ordered else None
        self._bytes = re.compile(b"|".join(map(re.escape, self._values))) if ordered else None

    def __bool__(self) -> bool:
        """True when there is anything to mask."""
        return self._text is not None

    def text(self, text: str) -> str:
        """Return `text` with every secret replaced."""
        return text if self._text is None else self._text.sub(self._mask, text)

    def data(self, data: bytes) -> bytes:
        """Return `data` with every secret replaced."""
        return data if self._bytes is None else self._bytes.sub(self._mask.encode(), data)

    def streams(self) -> tuple[MaskedStream, MaskedStream]:
        """Return maskers for what a process prints on stdout and stderr."""
        return self.stream(), self.stream()

    def stream(self) -> MaskedStream:
        """Return a masker for one stream of bytes that arrives in pieces."""
        return MaskedStream(self._bytes, self._values, self._mask.encode())


class MaskedStream:
    """Masks bytes that come in pieces: what may be the beginning of a secret is held back."""

    def __init__(self, pattern: re.Pattern[bytes] | None, values: list[bytes], mask: bytes) -> None:
        self._mask = mask
        self._pattern = pattern
        self._values = values
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        """Return what may be shown of all that came so far."""
        if self._pattern is None:
            return data
        data = self._held + data
        sure = self._beginning_of_a_secret(data)
        parts: list[bytes] = []
        position = 0
        for found in self._pattern.finditer(data):
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
        return held if self._pattern is None else self._pattern.sub(self._mask, held)

    def _beginning_of_a_secret(self, data: bytes) -> int:
        """Return where the last bytes begin that more bytes could make a secret of."""
        first = len(data)
        for value in self._values:
            start = max(0, len(data) - len(value) + 1)
            while (start := data.find(value[:1], start, first)) >= 0:
                if value.startswith(data[start:]):
                    first = start
                    break
                start += 1
        return first


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
