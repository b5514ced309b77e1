"""Logins in what programs print: in addresses (`https://user:password@host`) and in headers
(`Authorization: Basic …`), as git, curl and package managers show them (R39).

What stands there is decided as elsewhere (`secret_values`): a placeholder (`$TOKEN`, `<password>`)
and one plain word (`postgres:postgres@`) are left, and so is a user without a password, unless it
looks like a token.
"""

from __future__ import annotations

import re

from tools.secret_values import is_plain, looks_generated

_MOST = 512
_USER = rf"""[^\s/?#"'`<>()\\|{{}}$]{{1,{_MOST}}}"""
_ADDRESS = re.compile(rf"://({_USER})@(?!sha256:)(?=[\w\[])".encode())
_UNDECIDED = re.compile(rf"(?:{_USER})?".encode())
_HEADER = re.compile(
    rb"(authorization[\"']?\s{0,4}[:=]\s{0,4}[\"']?(?:basic|bearer|token)\s{1,4})([\w.~+/=-]+)",
    re.IGNORECASE,
)
_HEADER_NAMES = (b"Authorization", b"authorization", b"AUTHORIZATION")
_SHORTEST = 4


def without_logins(data: bytes, mask: bytes) -> bytes:
    """Return `data` with passwords and tokens of logins replaced."""
    if b"://" in data:
        data = _ADDRESS.sub(lambda found: b"://%s@" % _user(found[1], mask), data)
    if any(name in data for name in _HEADER_NAMES):
        data = _HEADER.sub(lambda found: found[1] + _token(found[2], mask), data)
    return data


def holds_login(data: bytes) -> bool:
    """Tell whether there is a login in `data`."""
    return without_logins(data, b"") != data


class LoginStream:
    """Does `without_logins` for bytes that come in pieces: the beginning of a login waits."""

    def __init__(self, mask: bytes) -> None:
        self._mask = mask
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        """Return what may be shown of all that came so far."""
        data = self._held + data
        if not data:
            return data
        sure = min(_address_begins(data), _header_begins(data))
        self._held = data[sure:]
        return without_logins(data[:sure], self._mask)

    def finish(self) -> bytes:
        """Return what was held back at the end of the stream."""
        held, self._held = self._held, b""
        return without_logins(held, self._mask)


def _user(info: bytes, mask: bytes) -> bytes:
    user, colon, password = info.partition(b":")
    text = password.decode("utf-8", "replace")
    if len(text) >= _SHORTEST and not is_plain(text):
        password = mask
    return _token(user, mask) + colon + password


def _token(token: bytes, mask: bytes) -> bytes:
    return mask if looks_generated(token.decode("utf-8", "replace")) else token


def _address_begins(data: bytes) -> int:
    """Return where the end of `data` may be the beginning of an address with a login."""
    begins = data.rfind(b"://", max(0, len(data) - _MOST - 4))
    if begins >= 0 and _UNDECIDED.fullmatch(data, begins + 3):
        return begins
    return len(data) - _begun(data, b"://")


def _header_begins(data: bytes) -> int:
    """Return where the end of `data` may be the beginning of a header with a login."""
    start = max(0, len(data) - 2 * _MOST)
    begins = max(data.rfind(name, start) for name in _HEADER_NAMES)
    if begins >= 0 and b"\n" not in data[begins:]:
        return begins
    return len(data) - max(_begun(data, name) for name in _HEADER_NAMES)


def _begun(data: bytes, word: bytes) -> int:
    """Return how many bytes at the end of `data` are the beginning of `word`."""
    lengths = range(len(word) - 1, 0, -1)
    return next((length for length in lengths if data.endswith(word[:length])), 0)
