"""JSON as it goes to and comes from a model server, valid whatever a history holds."""

from __future__ import annotations

import json

from tools.definition import ToolError
from tools.schema import parse_arguments

decode = json.JSONDecoder(strict=False).decode
"""Parses JSON; raw tabs and newlines inside strings are accepted, as some servers send them."""

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


def to_bytes(value: object) -> bytes:
    """Serialise as compact UTF-8. Lone surrogates, which no server reads, become U+FFFD."""
    text = _encode(value)
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


def is_object(text: str) -> bool:
    """Tell whether `text` is a complete JSON object."""
    try:
        return isinstance(decode(text), dict)
    except (ValueError, RecursionError):
        return False


def history_arguments(text: str) -> str:
    """Return a call's arguments as servers take them back: a JSON object, `{}` for anything else.

    What the executor understood is what is sent. A server whose chat template parses arguments
    answers malformed ones with an error, and would do so in every request from then on.
    """
    try:
        return _encode(parse_arguments(text))
    except (ToolError, ValueError):
        return "{}"
