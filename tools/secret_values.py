"""Which values of a configuration are secrets, and must not be written down or shown (R39).

Nobody says so of each value, so it is decided by name, by length and by look:

* A name says it: it ends in `key`, `token`, `secret`, `password`, `auth`, `cookie` or the like,
  also before a number (`API_KEY_2`). One that tells about a secret (`KEY_FILE`, `AUTH_MODE`) does
  not.
* The value of such a name counts from `SHORTEST` characters on, unless it is one plain word, a
  number of fewer than `PLAIN` characters, or a path: masking `postgres` or `disabled` wherever it
  stands would shred every output.
* Whatever its name, a value that looks made by a generator counts: `OPAQUE` letters and digits
  without a break, mixed.
* Of an address count the login, what its query gives to names such as `key`, and the parts of its
  path that look made by a generator.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

SHORTEST = 8
"""What is shorter is never masked: placeholders such as `ollama` are words of talk too."""

PLAIN = 16
OPAQUE = 20

# These are compiled when they are first needed: the first prompt is there sooner.
_SECRET_NAME = (
    r"(?i)(?:KEY|TOKEN|SECRET|PASSW(?:OR)?D|PASSPHRASE|CREDENTIAL|COOKIE|AUTHORI[SZ]ATION|JWT"
    r"|(?:^|[_-])(?:PASS|AUTH|SIG|SIGNATURE)|[_-](?:PAT|PWD))S?(?=[_-]|\d|$)"
)
_ABOUT = (
    r"(?:[_-]|(?<=[a-z])(?=[A-Z]))(?i:"
    r"FILE|PATH|DIR|URL|URI|SOCK|ID|NAME|TYPE|MODE|HOST|PORT|DOMAIN|REGION|ENV|METHOD|SCOPES?"
    r"|PROVIDER|LENGTH|ALGORITHM|AUDIENCE|ISSUER|TTL|COUNT|LIMIT|BUDGET|FORMAT|VERSION|ENABLED"
    r"|REQUIRED)$"
)
_PLAIN = re.compile(r"[^\W\d_]+|\d+")
_PATH = re.compile(r"(?:~|\.{1,2})?/[\w.-]+(?:/[\w.@-]+)*/?|[A-Za-z]:\\.*")
_DIGEST = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_RUN = re.compile(rf"[A-Za-z0-9]{{{OPAQUE},}}")
_BETWEEN = re.compile(r"[\s/?&=;:,@|#\"'{}()<>]+")
_ASSIGNMENT = (
    r"""(?i)(?<![\w-])([\w-]+)["']?\s*[:=]\s*["']?(?:(?:Bearer|Basic|Token)\s+)?([^\s"'&;|]+)"""
)
_INERT = re.compile(r"[\w.~+/=@%:-]+")
_ADDRESS = re.compile(r"(?<![\w+.-])[A-Za-z][A-Za-z0-9+.-]{0,30}://\S+")


def names_secret(name: str) -> bool:
    """Tell whether a variable, a header or a key of such a name may hold a secret."""
    return re.search(_SECRET_NAME, name) is not None


def is_worth_masking(value: str) -> bool:
    """Tell whether a value can be a secret: long enough, no plain word, no path."""
    return len(value) >= SHORTEST and not is_plain(value) and not _PATH.fullmatch(value)


def is_plain(value: str) -> bool:
    """Tell whether a value is one word, or a number, of fewer than `PLAIN` characters."""
    return len(value) < PLAIN and _PLAIN.fullmatch(value) is not None


def looks_generated(value: str) -> bool:
    """Tell whether a value looks made by a generator."""
    return any(map(_is_mixed, _RUN.findall(value))) and not _DIGEST.fullmatch(value)


def header_secrets(headers: Mapping[str, str]) -> list[str]:
    """Return the secrets among headers, whole and without their scheme (`Bearer`, `Token`)."""
    return list(_unique(_of_headers(headers)))


def variable_secrets(variables: Mapping[str, str]) -> list[str]:
    """Return the secrets among the variables of an environment."""
    return list(_unique(_of_variables(variables)))


def argument_secrets(arguments: Sequence[str]) -> list[str]:
    """Return the secrets among the arguments of a program: of options, variables and headers."""
    return list(_unique(_of_arguments(arguments)))


def address_secrets(url: str) -> list[str]:
    """Return what an address holds beside the place: user, password, key in the query."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return []
    user_info, at, _ = parts.netloc.rpartition("@")
    found = [user_info, *_both(parts.password or "")] if at else []
    if at and parts.password is None:
        found += _both(parts.username or "")
    found += [value for name, value in parse_qsl(parts.query) if names_secret(name)]
    return [*filter(None, (unquote(text) for text in found[:1])), *filter(None, found)]


def named_secrets(values: Mapping[str, Any]) -> list[str]:
    """Return the secrets among the values of a mapping, and of mappings in it."""
    return list(_unique(_of_mapping(values)))


def line_secrets(line: str) -> list[str]:
    """Return what a line for a shell gives to names such as `TOKEN=`, `Authorization: Bearer`.

    Only what can run nothing: a person is to see the rest.
    """
    return [value for value in _unique(_assigned(line)) if _INERT.fullmatch(value)]


def used_variables(texts: Iterable[str], environ: Mapping[str, str]) -> list[str]:
    """Return the values of secret variables that stand in texts: what `${NAME}` became."""
    texts = list(texts)
    known = [value for name, value in environ.items() if _is_secret(name, value)]
    return [value for value in known if any(value in text for text in texts)]


def _of_headers(headers: Mapping[str, str]) -> Iterator[str]:
    for name, text in headers.items():
        value = text.strip()
        if _is_secret(name, value):
            yield value
            _, _, behind_scheme = value.partition(" ")
            yield behind_scheme.strip()
        if name.lower() == "cookie":
            yield from (part.partition("=")[2] for part in value.split(";"))
        yield from _opaque(value)


def _of_variables(variables: Mapping[str, str]) -> Iterator[str]:
    for name, value in variables.items():
        if _is_secret(name, value):
            yield value
        yield from _of_text(value)


def _of_arguments(arguments: Sequence[str]) -> Iterator[str]:
    before = ""
    for argument in arguments:
        if before.startswith("-") and _is_secret(before, argument):
            yield argument
        name, mark, value = argument.partition("=")
        if mark and "://" not in name and _is_secret(name, value):
            yield value
        name, mark, value = argument.partition(":")
        if mark and not value.startswith("//"):
            yield from _of_headers({name: value})
        yield from _of_text(argument)
        before = argument
        words = argument.split()
        if len(words) > 1:
            # A line for a shell, or a command that was written as one word.
            yield from _assigned(argument)
            yield from _of_arguments([word.strip("\"'") for word in words])


def _of_mapping(values: Mapping[str, Any]) -> Iterator[str]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _of_mapping(value)
        elif isinstance(value, str) and _is_secret(name, value):
            yield value


def _assigned(line: str) -> Iterator[str]:
    for name, value in re.findall(_ASSIGNMENT, line):
        if _is_secret(name, value):
            yield value


def _of_text(text: str) -> Iterator[str]:
    for address in _ADDRESS.findall(text):
        yield from address_secrets(address)
    yield from _opaque(text)


def _opaque(text: str) -> Iterator[str]:
    """Yield the parts of a text that look made by a generator."""
    for part in _BETWEEN.split(text):
        if looks_generated(part):
            yield part


def _is_mixed(run: str) -> bool:
    digits = sum(map(str.isdigit, run))
    return 2 < digits < len(run) - 2


def _is_secret(name: str, value: str) -> bool:
    if not names_secret(name) or re.search(_ABOUT, name) or _ADDRESS.match(value):
        return False
    return is_worth_masking(value.strip())


def _unique(values: Iterable[str]) -> Iterator[str]:
    """Yield each value once that is worth it; of one with lines (a key) each line as well."""
    for value in dict.fromkeys(values):
        if is_worth_masking(value):
            yield value
            yield from filter(looks_generated, value.splitlines()[:-1] and value.split())


def _both(text: str) -> Iterator[str]:
    yield text
    yield unquote(text)
