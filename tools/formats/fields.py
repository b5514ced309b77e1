"""The keys of a format as data: what each may hold, and the one function that checks them.

A format is a table of `Key`s. Reading with it gives back only what is right; everything else is
noted, with its place, in one pass.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import field
from difflib import get_close_matches
from enum import StrEnum
from functools import cached_property
from typing import Any, TypeAlias

from tools.formats.findings import Findings, kind_of
from tools.record import record
from tools.yamltext import KeyPath

MAX_DEADLINE_MS = 24 * 3600 * 1000
SHORT_DEADLINE_MS = 100
_FEW = 12

SEMANTIC_VERSION = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?", re.ASCII
)

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(?:([KMG])(?:i?B)?|B)?", re.ASCII | re.IGNORECASE)
_UNITS = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3}


class Kind(StrEnum):
    """What a key may hold; the value is what people and the reference call it."""

    TEXT = "text"
    NAME = "a name"
    COMMAND = "a command"
    COMMAND_LINE = "a list of texts, or text"
    EXPRESSION = "an expression"
    FLAG = "true or false"
    DEPRECATION = "true, or text"
    NUMBER = "a number"
    INTEGER = "a whole number"
    COUNT = "a whole number from 0"
    DEADLINE = "milliseconds from 1"
    DELAY = "milliseconds from 0"
    SIZE = "a size such as 10MB"
    VERSION = "a version such as 1.0.0"
    TEXTS = "a list of texts"
    VALUE = "any value"
    VALUE_LIST = "a list of values"
    VALUES = "a map of values"
    VARIABLES = "a map of texts"
    MAP = "a map"
    NAMED = "a map of maps"
    LIST = "a list of maps"


@record
class Key:
    """One key of a format.

    `choices` are the texts it allows (empty: any), `keys` what the map, or each map of the list,
    may hold. `default` tells people what holds without it, None where nothing does. What is wrong
    with a key that is not `fatal` does not stop the tool from loading.
    """

    name: str
    kind: Kind
    meaning: str
    required: bool = False
    fatal: bool = True
    choices: tuple[str, ...] = ()
    default: str | int | bool | None = None
    keys: Keys = field(default_factory=lambda: table())


class Keys(dict[str, Key]):
    """Keys by name."""

    @cached_property
    def required(self) -> tuple[Key, ...]:
        """Those that must be there."""
        return tuple(key for key in self.values() if key.required)


def table(*keys: Key) -> Keys:
    """Return keys by name."""
    return Keys((key.name, key) for key in keys)


def read_fields(findings: Findings, data: object, keys: Keys, where: KeyPath = ()) -> Fields:
    """Return what in `data` is as `keys` say; note everything else in `findings`.

    Lists become tuples, sizes bytes, and the maps and lists of maps inside are read likewise.
    """
    found: Fields = {}
    if not isinstance(data, dict):
        findings.error(where, f"must be a map: found {kind_of(data)}")
        return found
    for name, value in data.items():
        key = keys.get(name)
        if key is None:
            _unknown(findings, name, keys, where)
            continue
        try:
            found[name] = _value(findings, value, key, (*where, name))
        except _Wrong as wrong:
            _note(findings, key, (*where, name), wrong.message, wrong.hint)
    for key in keys.required:
        if key.name not in data:
            _note(findings, key, (*where, key.name), f"{key.name!r} is missing", key.meaning)
    return found


Fields: TypeAlias = dict[str, Any]


class _Wrong(Exception):
    """A value is not what its key may hold."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


def _note(findings: Findings, key: Key, where: KeyPath, message: str, hint: str) -> None:
    note = findings.error if key.fatal else findings.tolerate
    note(where, message, hint)


def _unknown(findings: Findings, name: str, keys: Keys, where: KeyPath) -> None:
    if name.startswith("x-"):
        return
    near = get_close_matches(name.lower(), keys, 1, 0.6)
    hint = f"did you mean {near[0]}?" if near else ""
    if not near and len(keys) <= _FEW:
        hint = f"the keys are {', '.join(keys)}"
    findings.warn((*where, name), "unknown key, ignored", hint)


def _value(findings: Findings, value: Any, key: Key, where: KeyPath) -> Any:
    convert = _CONVERT.get(key.kind)
    if convert is None:
        return _nested(findings, value, key, where)
    converted = convert(value, key)
    if isinstance(converted, str):
        findings.invisible(where, converted)
    if key.kind is Kind.DEADLINE and converted < SHORT_DEADLINE_MS:
        findings.warn(where, f"only {value} ms", "times are in milliseconds")
    return converted


def _nested(findings: Findings, value: Any, key: Key, where: KeyPath) -> Any:
    if key.kind is Kind.MAP:
        return {} if value is None else read_fields(findings, value, key.keys, where)
    if key.kind is Kind.NAMED:
        return {
            name: read_fields(findings, item, key.keys, (*where, name))
            for name, item in _map(value).items()
        }
    return tuple(
        read_fields(findings, item, key.keys, (*where, position))
        for position, item in enumerate(_list(value))
    )


def _text(value: Any, key: Key) -> str:
    if not isinstance(value, str):
        hint = "write it in quotes" if isinstance(value, bool | int | float) else key.meaning
        raise _Wrong(f"must be text: found {kind_of(value)}", hint)
    if (key.required or key.kind is not Kind.TEXT) and not value.strip():
        raise _Wrong("is empty", key.meaning)
    if "\0" in value:
        raise _Wrong("holds a control character")
    return _chosen(value, key)


def _name(value: Any, key: Key) -> str:
    text = _text(value, key)
    if not text.isprintable():
        raise _Wrong("holds a control character")
    return text


def _command(value: Any, key: Key) -> str:
    # YAML reads the commands `true` and `false` as truth values.
    return _text(str(value).lower() if isinstance(value, bool) else value, key)


def _command_line(value: Any, _: Key) -> Any:
    if not isinstance(value, str | list):
        raise _Wrong(f"must be text or a list of texts: found {kind_of(value)}")
    return value


def _flag(value: Any, _: Key) -> bool:
    if not isinstance(value, bool):
        raise _Wrong(f"must be true or false: found {kind_of(value)}")
    return value


def _deprecation(value: Any, key: Key) -> str:
    if isinstance(value, bool):
        return "it is deprecated" if value else ""
    return _text(value, key)


def _number(value: Any, _: Key) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _Wrong(f"must be a number: found {kind_of(value)}")
    return value


def _integer(value: Any, key: Key) -> int:
    number = _number(value, key)
    if number != math.floor(number):
        raise _Wrong(f"must be a whole number: found {number}")
    return int(number)


def _count(value: Any, key: Key) -> int:
    number = _integer(value, key)
    if number < 0:
        raise _Wrong(f"must be 0 or more: found {number}")
    return number


def _milliseconds(value: Any, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _Wrong(f"must be a number of milliseconds: found {kind_of(value)}")
    if value < least:
        raise _Wrong(f"must be at least {least} ms: found {value}")
    if value > MAX_DEADLINE_MS:
        raise _Wrong(f"must be at most {MAX_DEADLINE_MS} ms (a day): found {value}")
    return int(value)


def _size(value: Any, _: Key) -> int:
    text = str(value) if isinstance(value, int | str) and not isinstance(value, bool) else ""
    found = _SIZE.fullmatch(text.strip()) if len(text) < 40 else None
    size = int(float(found[1]) * _UNITS[(found[2] or "").upper()]) if found else 0
    if size < 1:
        raise _Wrong(f"must be a size such as 10MB, 512KB or 4096: found {kind_of(value)}")
    return size


def _version(value: Any, key: Key) -> str:
    if isinstance(value, str) and SEMANTIC_VERSION.fullmatch(value):
        return value
    raise _Wrong(
        f"must be a semantic version: found {kind_of(value)}", "three numbers such as 1.0.0"
    )


def _texts(value: Any, key: Key) -> tuple[str, ...]:
    texts = [value] if isinstance(value, str) else _list(value)
    for text in texts:
        if not isinstance(text, str):
            raise _Wrong(f"must be a list of texts: found {kind_of(text)} in it")
        if "\0" in text:
            raise _Wrong("holds a control character")
        _chosen(text, key)
    return tuple(texts)


def _variables(value: Any, _: Key) -> dict[str, str]:
    return {name: _variable(name, text) for name, text in _map(value).items()}


def _variable(name: str, value: Any) -> str:
    text = value
    if isinstance(value, bool):
        text = str(value).lower()
    elif isinstance(value, int):
        text = str(value)
    if not isinstance(text, str):
        raise _Wrong(f"{name} must be text: found {kind_of(value)}", "write it in quotes")
    if not name or "=" in name or "\0" in name + text:
        raise _Wrong(f"{name!r} cannot be an environment variable")
    return text


def _chosen(text: str, key: Key) -> str:
    if key.choices and text not in key.choices:
        raise _Wrong(f"is {text[:40]!r}", f"it can be {', '.join(key.choices)}")
    return text


def _map(value: Any) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _Wrong(f"must be a map: found {kind_of(value)}")
    return value


def _list(value: Any) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise _Wrong(f"must be a list: found {kind_of(value)}")
    return value


_CONVERT: Mapping[Kind, Callable[[Any, Key], Any]] = {
    Kind.TEXT: _text,
    Kind.NAME: _name,
    Kind.COMMAND: _command,
    Kind.COMMAND_LINE: _command_line,
    Kind.EXPRESSION: _command,
    Kind.FLAG: _flag,
    Kind.DEPRECATION: _deprecation,
    Kind.NUMBER: _number,
    Kind.INTEGER: _integer,
    Kind.COUNT: _count,
    Kind.DEADLINE: lambda value, _: _milliseconds(value, 1),
    Kind.DELAY: lambda value, _: _milliseconds(value, 0),
    Kind.SIZE: _size,
    Kind.VERSION: _version,
    Kind.TEXTS: _texts,
    Kind.VALUE: lambda value, _: value,
    Kind.VALUE_LIST: lambda value, _: tuple(_list(value)),
    Kind.VALUES: lambda value, _: dict(_map(value)),
    Kind.VARIABLES: _variables,
}
