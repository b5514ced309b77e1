"""Finds every place of a shell text where a command can start, and the words that stand there.

For deny and ask rules only: it may find too many commands, and says so where it may find too few.
One pass, without recursion for nesting. Texts inside texts (`sh -c '…'`) are read up to MAX_INNER,
commands inside commands (`sudo nice …`) up to MAX_WRAPPED; what is deeper counts as hidden.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property

MAX_INNER = 5
MAX_WRAPPED = 20
_UNSURE_WORDS = 8


@dataclass(frozen=True, slots=True)
class SimpleCommand:
    """Words from one command position, unquoted. Not `sure`: perhaps only an argument."""

    words: tuple[str, ...]
    sure: bool


@dataclass
class ShellReading:
    """What was found. `hidden`: a program is named only at run time. `code`: words of code.

    `targets` are the words that output is redirected to.
    """

    commands: list[SimpleCommand] = field(default_factory=list)
    targets: list[str] = field(default_factory=list)
    hidden: bool = False
    code: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class _Word:
    text: str
    dynamic: bool


_KEYWORDS = frozenset(
    ["if", "then", "else", "elif", "do", "while", "until", "!", "{", "}", "fi", "done", "esac"]
)
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*(\[[^]]*\])?\+?=")
_SHELLS = frozenset(["sh", "bash", "dash", "zsh", "ksh", "ash", "fish"])
_CODE = re.compile(
    r"(python|pypy|perl|ruby|node|deno|bun|php|lua|[gmn]?awk|tclsh|osascript)[\d.]*", re.ASCII
)
_REBINDS = frozenset(["alias", "enable", "hash"])
_RUNS_TEXT = _SHELLS | {"eval", "trap", ".", "source"}
_SPLIT_FLAG = re.compile(r"-\w*S|--split-string=")
_EXEC_FLAGS = frozenset(
    ("-exec", "-execdir", "-ok", "-okdir", "-x", "-X", "--exec", "--exec-batch", "exec", "run")
)

_WRAPPERS: dict[str, tuple[frozenset[str], int]] = {
    "busybox": (frozenset(), 0),
    "builtin": (frozenset(), 0),
    "chroot": (frozenset(), 1),
    "command": (frozenset(), 0),
    "coproc": (frozenset(), 0),
    "doas": (frozenset(("-u", "-C")), 0),
    "env": (frozenset(("-u", "-C", "--unset", "--chdir")), 0),
    "exec": (frozenset(("-a",)), 0),
    "flock": (frozenset(("-w", "-E")), 1),
    "ionice": (frozenset(("-c", "-n")), 0),
    "nice": (frozenset(("-n",)), 0),
    "nohup": (frozenset(), 0),
    "parallel": (frozenset(("-j", "-I")), 0),
    "setsid": (frozenset(), 0),
    "stdbuf": (frozenset(("-i", "-o", "-e")), 0),
    "strace": (frozenset(("-e", "-o")), 0),
    "su": (frozenset(), 1),
    "sudo": (frozenset(("-u", "-g", "-h", "-p", "-C", "-D", "-R", "-T", "-r", "-t")), 0),
    "time": (frozenset(("-f", "-o")), 0),
    "timeout": (frozenset(("-s", "-k")), 1),
    "unshare": (frozenset(), 0),
    "watch": (frozenset(("-n",)), 0),
    "xargs": (frozenset(("-I", "-n", "-P", "-L", "-d", "-s", "-a", "-E")), 0),
}
"""Programs that run another (R11): options that take a word, and how many operands come first."""


def program_name(word: str) -> str:
    """Return the program that a command word names, without directory and case."""
    return word.rsplit("/", 1)[-1].lower()


def read_commands(text: str) -> ShellReading:
    """Find the commands in `text`."""
    reading = ShellReading()
    _read_text(text, reading, sure=True, depth=0)
    return reading


def _read_text(text: str, reading: ShellReading, *, sure: bool, depth: int) -> None:
    if depth > MAX_INNER:
        reading.hidden = True
        return
    scanner = _Scanner(text)
    scanner.run()
    reading.hidden = reading.hidden or scanner.hidden
    reading.targets += scanner.targets
    for words in scanner.found:
        _Unwrapper(reading, depth).read(words, sure=sure)


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
    words: list[_Word] = field(default_factory=list)
    parts: list[str] | None = None
    dynamic: bool = False
    redirection: str = ""

    @property
    def owner(self) -> _Frame:
        """The frame whose words this one adds to."""
        return self.below or self


_RUN = re.compile(r"[^\s'\"\\$`;&|()<>#]+")
_QUOTED_RUN = re.compile(r'[^"\\$`]+')
_PARAMETER_RUN = re.compile(r"[^}'\"\\$`]+")
_ANSI_QUOTE = re.compile(r"\$'(?:[^'\\]|\\.)*'", re.DOTALL)
_VARIABLE = re.compile(r"\$(?:\w+|[@*#?$!-])")
_REDIRECTION = re.compile(r"<<<|<<-?|[<>]+[&|]?")
_SHIFTS = re.compile(r"\(\(|[\w$]\[|\blet\b")
_DELIMITER = re.compile(r"[ \t]*((?:\\.|'[^'\n]*'|\"[^\"\n]*\"|[^\s;&|()<>'\"\\])+)")


class _Scanner:
    """Splits a text into commands of words, following quotes, substitutions and here-documents."""

    def __init__(self, text: str, document_depth: int = 0) -> None:
        self.text = text
        self.document_depth = document_depth
        self.backticks = 0
        self.at = 0
        self.found: list[list[_Word]] = []
        self.targets: list[str] = []
        self.hidden = False
        self.frames = [_Frame(_Kind.COMMAND, "")]
        self.documents: list[tuple[str, bool]] = []
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
            owner.words.append(_Word(text, owner.dynamic))
        elif ">" in owner.redirection:
            self.targets.append(text)
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
            self.at = end.end() if end else len(self.text)
            self.hidden = self.hidden or end is None
            if self.document_depth > MAX_INNER:
                self.hidden = True
            elif not quoted:
                inner = _Scanner(body, self.document_depth + 1)
                inner.run()
                self.hidden = self.hidden or inner.hidden
                self.found += inner.found
                self.targets += inner.targets
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
            self._add("" if escaped == "\n" else escaped)
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
        elif following == "{":
            self._add("", dynamic=True)
            self._open(_Kind.PARAMETER, "}", 2)
        elif following == "'" and self.frames[-1].kind is _Kind.COMMAND:
            self._add(self._take(_ANSI_QUOTE), dynamic=True)
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


class _Unwrapper:
    """Takes keywords, assignments and wrappers off a command, and reads the text it passes on."""

    def __init__(self, reading: ShellReading, depth: int) -> None:
        self.reading = reading
        self.depth = depth

    def read(self, words: Sequence[_Word], *, sure: bool) -> None:
        """Note the command, and every one that it runs, however often it is wrapped."""
        for wrapped in range(MAX_WRAPPED):
            words = _without_prefixes(words)
            if not words:
                # `xargs env` and its like run whatever is passed to them.
                self.reading.hidden = self.reading.hidden or wrapped > 1
                return
            self._note(words, sure=sure)
            name = program_name(words[0].text)
            self._read_arguments(name, words[1:], sure=sure)
            inner = _wrapped_command(name, words)
            if not wrapped:
                self._note_possible_places(words, everywhere=inner is not None)
            if inner is None:
                return
            words = inner
        self.reading.hidden = True

    def _note(self, words: Sequence[_Word], *, sure: bool) -> None:
        texts = tuple(word.text for word in words)
        self.reading.commands.append(SimpleCommand(texts, sure))
        self.reading.hidden = self.reading.hidden or (sure and words[0].dynamic)

    def _note_possible_places(self, words: Sequence[_Word], *, everywhere: bool) -> None:
        """Note the words behind keywords (`[[ x ]] then rm`), or behind every word of a wrapper."""
        for start in range(1, len(words)):
            if everywhere or words[start - 1].text in _KEYWORDS:
                texts = tuple(word.text for word in words[start : start + _UNSURE_WORDS])
                self.reading.commands.append(SimpleCommand(texts, sure=False))
                self.reading.hidden = self.reading.hidden or (
                    not everywhere and program_name(texts[0]) in _RUNS_TEXT
                )

    def _read_arguments(self, name: str, arguments: Sequence[_Word], *, sure: bool) -> None:
        if name in _SHELLS:
            self._shell(arguments, sure=sure)
        elif name == "eval":
            self._inner([_joined(arguments)], sure=sure)
        elif name == "trap":
            self._inner(arguments, sure=False)
        elif name in _REBINDS or (name in (".", "source") and _any_unknown(arguments)):
            self.reading.hidden = True
        elif name in _WRAPPERS:
            self._inner([word for word in arguments if " " in word.text], sure=False)
        elif _CODE.fullmatch(name):
            for word in arguments:
                self.reading.code.update(re.findall(r"[\w./-]+", word.text))

    def _shell(self, arguments: Sequence[_Word], *, sure: bool) -> None:
        operands = [word for word in arguments if not word.text.startswith(("-", "+"))]
        letters = "".join(word.text for word in arguments if re.match(r"[-+]\w", word.text))
        if not operands or "s" in letters or _any_unknown(operands[:1]):
            self.reading.hidden = True
        if "c" in letters:
            self._inner(operands, sure=sure)

    def _inner(self, texts: Iterable[_Word], *, sure: bool) -> None:
        for word in texts:
            self.reading.hidden = self.reading.hidden or word.dynamic
            text = _SPLIT_FLAG.sub("", word.text)
            _read_text(text, self.reading, sure=sure, depth=self.depth + 1)


def _any_unknown(words: Sequence[_Word]) -> bool:
    return any(word.dynamic or word.text.startswith(("/dev/", "/proc/")) for word in words)


def _joined(words: Sequence[_Word]) -> _Word:
    return _Word(" ".join(word.text for word in words), any(word.dynamic for word in words))


def _without_prefixes(words: Sequence[_Word]) -> Sequence[_Word]:
    start = 0
    while start < len(words):
        text = words[start].text
        if text == "function":
            start += 2
        elif text in _KEYWORDS or _ASSIGNMENT.match(text):
            start += 1
        else:
            break
    return words[start:]


def _wrapped_command(name: str, words: Sequence[_Word]) -> Sequence[_Word] | None:
    """Return the words of the command that a wrapper runs, None when `name` is no wrapper."""
    if name in ("find", "fd", "fdfind"):
        places = (i for i, word in enumerate(words) if word.text in _EXEC_FLAGS)
        return words[next(places, len(words)) + 1 :]
    if name not in _WRAPPERS:
        return None
    with_value, operands = _WRAPPERS[name]
    at = 1
    while at < len(words):
        text = words[at].text
        if text in with_value:
            at += 2
        elif text.startswith("-") or _ASSIGNMENT.match(text):
            at += 1
        elif operands:
            operands -= 1
            at += 1
        else:
            break
    return words[at:]
