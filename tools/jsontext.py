"""Reads strict JSON, and tells where every key stands and what is wrong with a text."""

from __future__ import annotations

import json
import json.decoder
import math
import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from tools.yamltext import Builder, KeyPath, Position

_SPACE = re.compile(r"[ \t\r\n]*")
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?", re.ASCII)
_WORD = re.compile(r"\w+")
_LITERALS = {"true": True, "false": False, "null": None}


class JsonReader:
    """Strict JSON (RFC 8259): no comments, no trailing commas, no NaN."""

    def __init__(self, text: str, builder: Builder) -> None:
        self.text = text
        self.at = 0
        self.builder = builder
        self.line_starts = [0, *(match.end() for match in re.finditer("\n", text))]

    def read(self) -> Any:
        """Return the data; the builder gets the places. Raises DocumentError."""
        self._skip_space()
        if self.at == len(self.text):
            self._fail("the file is empty")
        self.builder.positions[()] = self._here()
        data = self._value(())
        self._skip_space()
        if self.at < len(self.text):
            self._fail("there is text after the end of the JSON value")
        return data

    def _here(self) -> Position:
        line = bisect_right(self.line_starts, self.at)
        return line, self.at - self.line_starts[line - 1] + 1

    def _fail(self, message: str, key_path: KeyPath = (), hint: str = "") -> NoReturn:
        hint = "JSON has no comments" if self._next() in ("#", "/") else hint
        self.builder.fail(message, self._here(), key_path, hint)

    def _skip_space(self) -> None:
        match = _SPACE.match(self.text, self.at)
        self.at = match.end() if match else self.at

    def _next(self) -> str:
        return self.text[self.at : self.at + 1]

    def _value(self, key_path: KeyPath) -> Any:
        self.builder.count(1, self._here)
        match self._next():
            case "{":
                return self._object(key_path)
            case "[":
                return self._array(key_path)
            case '"':
                return self._string(key_path)
            case _:
                return self._scalar(key_path)

    def _object(self, key_path: KeyPath) -> dict[str, Any]:
        self.builder.enter(key_path, self._here)
        found: dict[str, Any] = {}
        for _ in self._members("}", key_path):
            if self._next() != '"':
                self._fail("a key in double quotes is missing", key_path)
            position = self._here()
            key = self._string(key_path)
            path = (*key_path, key)
            self.builder.add_key(found, path, position)
            self._skip_space()
            if self._next() != ":":
                self._fail(f"a colon is missing after the key {key!r}", path)
            self.at += 1
            self._skip_space()
            found[key] = self._value(path)
        return found

    def _array(self, key_path: KeyPath) -> list[Any]:
        self.builder.enter(key_path, self._here)
        found: list[Any] = []
        for _ in self._members("]", key_path):
            path = (*key_path, len(found))
            self.builder.positions[path] = self._here()
            found.append(self._value(path))
        return found

    def _members(self, close: str, key_path: KeyPath) -> Iterator[None]:
        opened = self._here()[0]
        self.at += 1
        self._skip_space()
        while self._next() != close:
            yield
            self._skip_space()
            if self._next() == ",":
                self.at += 1
                self._skip_space()
                if self._next() == close:
                    self._fail("a comma is not allowed after the last entry", key_path)
            elif not self._next():
                self._fail(f"the file ends before the {close!r} for line {opened}", key_path)
            elif self._next() != close:
                self._fail(f"a comma or {close!r} is missing", key_path)
        self.at += 1

    def _string(self, key_path: KeyPath) -> str:
        value: str
        try:
            value, self.at = json.decoder.scanstring(self.text, self.at + 1, True)  # type: ignore[attr-defined]
        except json.JSONDecodeError as error:
            self.at = error.pos
            problem = error.msg.removesuffix(" at").lower()
            self._fail(f"a string is wrong: {problem}", key_path)
        if not value.isprintable() and any("\ud800" <= c <= "\udfff" for c in value):
            self._fail("a string holds half of a surrogate pair", key_path)
        return value

    def _scalar(self, key_path: KeyPath) -> Any:
        number = _NUMBER.match(self.text, self.at)
        if number:
            value = self._number(number, key_path)
            self.at = number.end()
            return value
        word = _WORD.match(self.text, self.at)
        if word and word[0] in _LITERALS:
            self.at = word.end()
            return _LITERALS[word[0]]
        return self._not_a_value(word[0] if word else self._next(), key_path)

    def _not_a_value(self, found: str, key_path: KeyPath) -> NoReturn:
        if not found:
            self._fail("the file ends where a value is missing", key_path)
        if found in "}],:":
            self._fail(f"a value is missing before {found!r}", key_path)
        hint = "" if found in "#/" else "write text in double quotes"
        self._fail(f"{found!r} is not a JSON value", key_path, hint)

    def _number(self, number: re.Match[str], key_path: KeyPath) -> int | float:
        try:
            value = float(number[0]) if number[1] or number[2] else int(number[0])
        except ValueError:
            value = math.inf
        if value in (math.inf, -math.inf):
            self._fail("the number is too large", key_path)
        return value
