"""Finds every place of a shell text where a command can start, and the words that stand there.

For deny and ask rules only: it may find too many commands, and says so where it may find too few.
One pass, without recursion for nesting. Texts inside texts (`sh -c '…'`) are read up to MAX_INNER,
commands inside commands (`sudo nice …`) up to MAX_WRAPPED; what is deeper counts as hidden.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from tools.permissions.launchers import (
    WRAPPERS,
    Launched,
    is_assignment,
    launched,
    reads_commands,
    runs_input,
    wrapped_words,
)
from tools.permissions.run_variables import is_run
from tools.permissions.shell_scanner import MAX_INNER, Scanner, Word
from tools.record import record

MAX_WRAPPED = 20
_UNSURE_WORDS = 8


@record
class SimpleCommand:
    """Words from one command position, unquoted. Not `sure`: perhaps only an argument."""

    words: tuple[str, ...]
    sure: bool


@dataclass
class ShellReading:
    """What was found. `hidden`: a program is named only at run time. `code`: words of code.

    `targets` are the words that output is redirected to, `sources` those that input comes from,
    `assigned` the plain values that variables get anywhere in the text. `simple` are the commands
    of the text itself, nothing unwrapped; `unsettled` says that quotes or brackets in it do not
    end.
    """

    commands: list[SimpleCommand] = field(default_factory=list)
    targets: list[str] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)
    hidden: bool = False
    code: set[str] = field(default_factory=set)
    assigned: dict[str, set[str]] = field(default_factory=dict)
    simple: list[tuple[str, ...]] = field(default_factory=list)
    unsettled: bool = False

    @cached_property
    def programs(self) -> frozenset[str]:
        """The names under which rules may know the programs, once all is read."""
        words = {command.words[0] for command in self.commands}
        return frozenset(name for word in words for name in (word.lower(), program_name(word)))


_KEYWORDS = frozenset(
    ["if", "then", "else", "elif", "do", "while", "until", "!", "{", "}", "fi", "done", "esac"]
)
_SHELLS = frozenset(["sh", "bash", "dash", "zsh", "ksh", "ash", "fish"])
_CODE = re.compile(
    r"(python|pypy|perl|ruby|node|deno|bun|php|lua|[gmn]?awk|tclsh|osascript)[\d.]*", re.ASCII
)
_EVALUATES = frozenset((
    "[", "[[", "declare", "export", "let", "local", "mapfile", "printf", "read", "readarray",
    "readonly", "test", "typeset", "unset", "wait",
))  # fmt: skip
"""What is part of the shell and runs the `$(…)` in a subscript, whatever quotes it stands in."""

_REBINDS = frozenset(["alias", "enable", "hash"])
_RUNS_TEXT = _SHELLS | {"eval", "trap", ".", "source"}
_SUBSTITUTION = re.compile(r"\$\(|`")
_SUBSCRIPT = re.compile(r"\[.*(?:\$\(|`)", re.DOTALL)
_SPLIT_FLAG = re.compile(r"-\w*S|--split-string=")


def program_name(word: str) -> str:
    """Return the program that a command word names, without directory and case."""
    return word.rsplit("/", 1)[-1].lower()


@lru_cache(maxsize=4)
def read_commands(text: str) -> ShellReading:
    """Find the commands in `text`. What is returned is shared: it must not be changed."""
    reading = ShellReading()
    _read_text(text, reading, sure=True, depth=0)
    return reading


def _read_text(text: str, reading: ShellReading, *, sure: bool, depth: int) -> None:
    if depth > MAX_INNER:
        reading.hidden = True
        return
    scanner = Scanner(text)
    scanner.run()
    reading.hidden = reading.hidden or scanner.hidden
    reading.targets += scanner.targets
    reading.sources += scanner.sources
    for words in scanner.found:
        _note_assignments(words, reading)
    if not depth:
        stripped = map(_without_prefixes, scanner.found)
        reading.simple = [tuple(word.text for word in words) for words in stripped if words]
        reading.unsettled = scanner.hidden
    unwrapper = _Unwrapper(reading, depth, has_document=bool(scanner.bodies))
    for words in scanner.found:
        unwrapper.read(words, sure=sure)
    if scanner.bodies and any(map(_may_run_input, scanner.found)):
        for body in scanner.bodies:
            reading.code.update(_TOKEN.findall(body))


def _may_run_input(words: Sequence[Word]) -> bool:
    command = _without_prefixes(words)
    return bool(command) and runs_input(program_name(command[0].text))


def _note_assignments(words: Sequence[Word], reading: ShellReading) -> None:
    loop = [word.text for word in words]
    if loop[0] == "for" and loop[2:3] == ["in"]:
        reading.assigned.setdefault(loop[1], set()).update(loop[3:])
    for word in words:
        if not word.dynamic and is_assignment(word.text):
            target, _, value = word.text.partition("=")
            name = re.split(r"\W", target, maxsplit=1)[0]
            reading.assigned.setdefault(name, set()).add(value)


_TOKEN = re.compile(r"[\w./-]+")
_ANYTHING = re.compile(r"|\$(?!\{?(?:PWD|HOME|USER)\b)(?:\w+|\{\w+\})")
_WHOLE_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)\})")


class _Unwrapper:
    """Takes keywords, assignments and wrappers off a command, and reads the text it passes on."""

    def __init__(self, reading: ShellReading, depth: int, *, has_document: bool) -> None:
        self.reading = reading
        self.depth = depth
        self.has_document = has_document

    def read(self, words: Sequence[Word], *, sure: bool) -> None:
        """Note the command, and every one that it runs, however often it is wrapped."""
        self._variables(words)
        for wrapped in range(MAX_WRAPPED):
            words = _without_prefixes(words)
            if not words:
                # `xargs env` and its like run whatever is passed to them.
                self.reading.hidden = self.reading.hidden or wrapped > 1
                return
            self._note(words, sure=sure)
            self._note_values(words, sure=sure)
            name = program_name(words[0].text)
            self._read_arguments(name, words[1:], sure=sure)
            inner = wrapped_words(name, words)
            if not wrapped:
                self._note_possible_places(words, everywhere=inner is not None)
            if inner is None:
                return
            words = inner
        self.reading.hidden = True

    def _note(self, words: Sequence[Word], *, sure: bool) -> None:
        texts = tuple(word.text for word in words)
        self.reading.commands.append(SimpleCommand(texts, sure))
        self.reading.hidden = self.reading.hidden or (sure and words[0].dynamic)

    def _note_values(self, words: Sequence[Word], *, sure: bool) -> None:
        """Note what a variable in the place of the program holds, as far as the text says it."""
        match = _WHOLE_VARIABLE.fullmatch(words[0].text) if words[0].dynamic else None
        if match is not None:
            rest = tuple(word.text for word in words[1:])
            for value in sorted(self.reading.assigned.get(match[1] or match[2], ())):
                if value.split():
                    found = SimpleCommand((*value.split(), *rest), sure)
                    self.reading.commands.append(found)

    def _note_possible_places(self, words: Sequence[Word], *, everywhere: bool) -> None:
        """Note the words behind keywords (`[[ x ]] then rm`), or behind every word of a wrapper."""
        for start in range(1, len(words)):
            if everywhere or words[start - 1].text in _KEYWORDS:
                texts = tuple(word.text for word in words[start : start + _UNSURE_WORDS])
                self.reading.commands.append(SimpleCommand(texts, sure=False))
                self.reading.hidden = self.reading.hidden or (
                    not everywhere and program_name(texts[0]) in _RUNS_TEXT
                )

    def _variables(self, words: Sequence[Word]) -> None:
        """Read the values of variables that programs run (`GIT_PAGER=…`), wherever they are set."""
        for word in words:
            if "=" in word.text and is_assignment(word.text):
                name, _, value = word.text.partition("=")
                if _SUBSTITUTION.search(value):
                    # `${x@P}` and arithmetic run what a value holds.
                    self._inner([Word(value, False)], sure=False)
                if is_run(name.removesuffix("+")):
                    self._launched(Launched([Word(value, word.dynamic)], surely=True))

    def _read_arguments(self, name: str, arguments: Sequence[Word], *, sure: bool) -> None:
        if reads_commands(name, arguments):
            self.reading.hidden = True
        if name in _EVALUATES:
            self._inner([word for word in arguments if _SUBSCRIPT.search(word.text)], sure=False)
        if name in _SHELLS:
            self._shell(arguments, sure=sure)
        elif name == "eval":
            self._inner([_joined(arguments)], sure=sure)
        elif name == "trap":
            self._inner(arguments, sure=False)
        elif name in _REBINDS or (name in (".", "source") and _any_unknown(arguments)):
            self.reading.hidden = True
        elif name in WRAPPERS:
            self._inner([word for word in arguments if " " in word.text], sure=False)
            self._launched(launched(name, arguments))
        elif _CODE.fullmatch(name):
            self._code(arguments)
        else:
            self._launched(launched(name, arguments))

    def _code(self, arguments: Sequence[Word]) -> None:
        for word in arguments:
            self.reading.code.update(_TOKEN.findall(word.text))
        from_input = not arguments or any(word.text == "-" for word in arguments)
        if (from_input and not self.has_document) or _any_devices(arguments):
            self.reading.hidden = True

    def _launched(self, found: Launched) -> None:
        """Note words that may be commands, which hide nothing where the program is not known."""
        texts = [word for word in found.words if " " in word.text or "\n" in word.text]
        known = self.reading.hidden
        self._inner(texts, sure=False)
        if not found.surely:
            self.reading.hidden = known
        elif any(word.dynamic and _ANYTHING.fullmatch(word.text) for word in found.words):
            self.reading.hidden = True
        for place, word in enumerate(found.words):
            self.reading.code.update(_TOKEN.findall(word.text))
            if word.text[:1] == "-" and len(word.text) > 2:
                # The value of a short option may stand in the same word: `-Irm`.
                self.reading.code.add(word.text[2:])
            rest = tuple(word.text for word in found.words[place : place + _UNSURE_WORDS])
            self.reading.commands.append(SimpleCommand(rest, sure=False))

    def _shell(self, arguments: Sequence[Word], *, sure: bool) -> None:
        operands = [word for word in arguments if not word.text.startswith(("-", "+"))]
        letters = "".join(word.text for word in arguments if re.match(r"[-+]\w", word.text))
        if not operands or "s" in letters or _any_unknown(operands[:1]):
            self.reading.hidden = True
        if "c" in letters:
            self._inner(operands, sure=sure)

    def _inner(self, texts: Iterable[Word], *, sure: bool) -> None:
        for word in texts:
            self.reading.hidden = self.reading.hidden or word.dynamic
            text = _SPLIT_FLAG.sub("", word.text)
            _read_text(text, self.reading, sure=sure, depth=self.depth + 1)


def runs_another(program: str) -> bool:
    """Tell whether a program runs what its arguments say."""
    return program in WRAPPERS or program in _RUNS_TEXT


def interprets(program: str) -> bool:
    """Tell whether a program runs code of another language than the shell's."""
    return _CODE.fullmatch(program) is not None


def _any_unknown(words: Sequence[Word]) -> bool:
    return any(word.dynamic for word in words) or _any_devices(words)


def _any_devices(words: Sequence[Word]) -> bool:
    return any(word.text.startswith(("/dev/", "/proc/")) for word in words)


def _joined(words: Sequence[Word]) -> Word:
    return Word(" ".join(word.text for word in words), any(word.dynamic for word in words))


def _without_prefixes(words: Sequence[Word]) -> Sequence[Word]:
    start = 0
    while start < len(words):
        text = words[start].text
        if text == "function":
            start += 2
        elif text in _KEYWORDS or is_assignment(text):
            start += 1
        else:
            break
    return words[start:]
