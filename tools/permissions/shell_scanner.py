"""Splits a shell text into commands of words, for deny and ask rules: see `shell_words`."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property

from tools.record import record

MAX_INNER = 5


@record
class Word:
    """A word without its quotes; `dynamic` if running may change it."""

    text: str
    dynamic: bool


class _Kind(Enum):
    COMMAND = "command"
    QUOTED = "quoted"
    PARAMETER = "parameter"


@dataclass
class _Frame:
    """One level of nesting. Only COMMAND frames hold words; others add to the one below them."""

    kind: _Kind
    close: str
    below: _Frame | None = None
    words: list[Word] = field(default_factory=list)
    parts: list[str] | None = None
    dynamic: bool = False
    redirection: str = ""

    @property
    def owner(self) -> _Frame:
        """The frame whose words this one adds to."""
        return self.below or self


_RUN = re.compile(r"[^\s'\"\\$`;&|()<>#]+")
_IN_QUOTES = '$`"\\'
_QUOTED_RUN = re.compile(r'[^"\\$`]+')
_PARAMETER_RUN = re.compile(r"[^}'\"\\$`]+")
_ANSI_QUOTE = re.compile(r"\$'(?:[^'\\]|\\.)*'", re.DOTALL)
_ANSI_ESCAPE = re.compile(
    r"\\(?:x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|([0-7]{1,3})|(.))", re.DOTALL
)
_ANSI_NAMED = {"a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "n": "\n", "r": "\r",
               "t": "\t", "v": "\v"}  # fmt: skip
_VARIABLE = re.compile(r"\$(?:\w+|[@*#?$!-]|\{\w+\})")
_REDIRECTION = re.compile(r"<<<|<<-?|[<>]+[&|]?")
_SHIFTS = re.compile(r"\(\(|[\w$]\[|\blet\b")
_DELIMITER = re.compile(r"[ \t]*((?:\\.|'[^'\n]*'|\"[^\"\n]*\"|[^\s;&|()<>'\"\\])+)")


class Scanner:
    """Splits a text into commands of words, following quotes, substitutions and here-documents."""

    def __init__(self, text: str, document_depth: int = 0) -> None:
        self.text = text
        self.document_depth = document_depth
        self.backticks = 0
        self.at = 0
        self.found: list[list[Word]] = []
        self.targets: list[str] = []
        self.sources: list[str] = []
        self.hidden = False
        self.frames = [_Frame(_Kind.COMMAND, "")]
        self.documents: list[tuple[str, bool]] = []
        self.bodies: list[str] = []
        if document_depth:
            self.frames.append(_Frame(_Kind.QUOTED, "", self.frames[0]))
        self.base = len(self.frames)

    def run(self) -> None:
        while self.at < len(self.text):
            match self.frames[-1].kind:
                case _Kind.COMMAND:
                    self._in_command()
                case _Kind.QUOTED:
                    self._in_quotes()
                case _Kind.PARAMETER:
                    self._in_parameter()
        if len(self.frames) > self.base or self.documents:
            self.hidden = True
        while self.frames:
            self._end_command()
            self.frames.pop()

    @cached_property
    def _has_shifts(self) -> bool:
        return _SHIFTS.search(self.text) is not None

    @property
    def _owner(self) -> _Frame:
        return self.frames[-1].owner

    def _add(self, text: str, *, dynamic: bool = False) -> None:
        owner = self._owner
        owner.parts = owner.parts or []
        owner.parts.append(text)
        owner.dynamic = owner.dynamic or dynamic

    def _end_word(self) -> None:
        owner = self._owner
        if owner.parts is None:
            owner.dynamic = False
            return
        text = "".join(owner.parts)
        if not owner.redirection:
            owner.words.append(Word(text, owner.dynamic))
        elif ">" in owner.redirection:
            self.targets.append(text)
        if owner.redirection in ("<", "<>"):
            self.sources.append(text)
        owner.parts, owner.dynamic, owner.redirection = None, False, ""

    def _end_command(self) -> None:
        self._end_word()
        owner = self._owner
        owner.redirection = ""
        if owner.words:
            self.found.append(owner.words)
            owner.words = []

    def _take(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self.text, self.at)
        self.at = match.end() if match else self.at + 1
        return match[0] if match else ""

    def _in_command(self) -> None:
        character = self.text[self.at]
        if character in " \t\r":
            self._end_word()
            self.at += 1
        elif character in "\n;&|()":
            self._separator(character)
        elif character in "<>":
            self._redirection()
        elif character == "#" and self._owner.parts is None:
            end = self.text.find("\n", self.at)
            self.at = end if end >= 0 else len(self.text)
        elif character == "'":
            self._single_quotes()
        elif character == '"':
            self._add("")
            self._open(_Kind.QUOTED, '"', 1)
        elif character in "\\$`":
            self._special(character)
        else:
            self._plain_run()

    def _plain_run(self) -> None:
        run = self._take(_RUN) or self.text[self.at - 1]
        pattern = any(special in run for special in "*?[{") and run not in ("[", "[[", "{")
        self._add(run, dynamic=pattern)

    def _single_quotes(self) -> None:
        end = self.text.find("'", self.at + 1)
        if end < 0:
            self.hidden = True
            end = len(self.text)
        self._add(self.text[self.at + 1 : end])
        self.at = end + 1

    def _separator(self, character: str) -> None:
        self._end_command()
        self.at += 1
        if character == "(":
            self._open(_Kind.COMMAND, ")", 0)
        elif character == ")" and self.frames[-1].close == ")":
            self.frames.pop()
        elif character == "\n" and self.documents:
            self._read_documents()

    def _redirection(self) -> None:
        owner = self._owner
        if owner.parts is not None and "".join(owner.parts).isdigit():
            owner.parts = None
        self._end_word()
        if self.text[self.at + 1 : self.at + 2] == "(":
            self._add("", dynamic=True)
            self._open(_Kind.COMMAND, ")", 2)
            return
        operator = self._take(_REDIRECTION)
        if operator.startswith("<<") and operator != "<<<":
            delimiter = _DELIMITER.match(self.text, self.at)
            if delimiter is None or self._has_shifts:
                # `1<<2` in arithmetic looks the same: nothing may be skipped then.
                self.hidden = True
                return
            bare = re.sub(r"['\"\\]", "", delimiter[1])
            self.documents.append((bare, bare != delimiter[1]))
            self.at = delimiter.end()
        else:
            self._owner.redirection = operator

    def _read_documents(self) -> None:
        """Skip the bodies; those with an unquoted delimiter are read for substitutions."""
        for delimiter, quoted in self.documents:
            end = re.compile(rf"^\t*{re.escape(delimiter)}$", re.MULTILINE).search(
                self.text, self.at
            )
            body = self.text[self.at : end.start() if end else len(self.text)]
            self.bodies.append(body)
            self.at = end.end() if end else len(self.text)
            self.hidden = self.hidden or end is None
            if self.document_depth > MAX_INNER:
                self.hidden = True
            elif not quoted:
                inner = Scanner(body, self.document_depth + 1)
                inner.run()
                self.hidden = self.hidden or inner.hidden
                self.found += inner.found
                self.targets += inner.targets
                self.sources += inner.sources
        self.documents = []

    def _in_quotes(self) -> None:
        character = self.text[self.at]
        if character == '"' and self.frames[-1].close:
            self.frames.pop()
            self.at += 1
        elif character in "\\$`":
            self._special(character)
        else:
            self._add(self._take(_QUOTED_RUN) or character)

    def _in_parameter(self) -> None:
        character = self.text[self.at]
        if character == "}":
            self.frames.pop()
            self.at += 1
        elif character == '"':
            self._open(_Kind.QUOTED, '"', 1)
        elif character == "'":
            # A quote here is one or is none, depending on what is around the expansion.
            self.hidden = True
            self.at += 1
        elif character in "\\$`":
            self._special(character)
        else:
            self._take(_PARAMETER_RUN)

    def _special(self, character: str) -> None:
        if character == "\\":
            escaped = self.text[self.at + 1 : self.at + 2]
            self.hidden = self.hidden or (escaped == "`" and self.backticks > 0)
            if escaped != "\n":
                literal = self.frames[-1].kind is _Kind.QUOTED and escaped not in _IN_QUOTES
                self._add(f"\\{escaped}" if literal else escaped)
            self.at += 2
        elif character == "`":
            self._backtick()
        else:
            self._dollar()

    def _dollar(self) -> None:
        following = self.text[self.at + 1 : self.at + 2]
        if following == "(":
            self._add("", dynamic=True)
            self._open(_Kind.COMMAND, ")", 2)
        elif following == "{" and not _VARIABLE.match(self.text, self.at):
            self._add("", dynamic=True)
            self._open(_Kind.PARAMETER, "}", 2)
        elif following == "'" and self.frames[-1].kind is _Kind.COMMAND:
            quoted = self._take(_ANSI_QUOTE)
            self._add(_unescaped(quoted[2:-1]), dynamic=not quoted or not quoted.isascii())
        elif following == '"':
            self.at += 1
        else:
            variable = self._take(_VARIABLE)
            self._add(variable or "$", dynamic=bool(variable))

    def _backtick(self) -> None:
        if not self.backticks:
            self._add("", dynamic=True)
            self._open(_Kind.COMMAND, "`", 1)
            return
        self.at += 1
        self.backticks -= 1
        while True:
            self._end_command()
            if self.frames.pop().close == "`":
                return

    def _open(self, kind: _Kind, close: str, length: int) -> None:
        below = None if kind is _Kind.COMMAND else self._owner
        self.frames.append(_Frame(kind, close, below))
        self.backticks += close == "`"
        self.at += length


def _unescaped(text: str) -> str:
    """Return what bash reads between `$'` and `'`; a NUL ends it."""
    return _ANSI_ESCAPE.sub(_escaped, text).partition("\0")[0]


def _escaped(match: re.Match[str]) -> str:
    *hexadecimal, octal, plain = match.groups()
    if plain:
        return _ANSI_NAMED.get(plain, plain if plain in "\\'\"?" else match[0])
    code = next((int(digits, 16) for digits in hexadecimal if digits), None)
    code = int(octal, 8) & 0xFF if code is None else code
    return chr(code) if code <= sys.maxunicode else ""
