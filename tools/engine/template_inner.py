"""Finds values that a program reads as code, where no quoting of the shell helps (X88)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import field
from itertools import islice

from tools.engine.template_command import DYNAMIC, Command, Place, Quoting
from tools.record import mutable, record

_SHELLS = ("sh", "bash", "dash", "zsh", "ksh", "busybox")
_CODE_OPTIONS: Mapping[str, re.Pattern[str]] = {
    **dict.fromkeys(_SHELLS, re.compile(r"-[A-Za-z]*c")),
    "su": re.compile(r"-c|--command"),
    "python": re.compile(r"-[A-Za-z]*c"),
    "perl": re.compile(r"-[A-Za-z0-9]*[eE]"),
    "ruby": re.compile(r"-[A-Za-z]*e"),
    "php": re.compile(r"-r"),
    "lua": re.compile(r"-e"),
    "node": re.compile(r"-[A-Za-z]*[ep]|--eval|--print"),
    "bun": re.compile(r"-e|--eval"),
    "deno": re.compile(r"eval"),
    "osascript": re.compile(r"-e"),
    "powershell": re.compile(r"-(?i:c|command|e|ec|encodedcommand)"),
    "pwsh": re.compile(r"-(?i:c|command|e|ec|encodedcommand)"),
    "psql": re.compile(r"-c|--command"),
    "mysql": re.compile(r"-e|--execute"),
    "cmd": re.compile(r"/(?i:c|k)"),
}
"""Programs that take code after an option."""

_ALL_CODE = frozenset(
    {"eval", "trap", "ssh", "watch", "sqlite3", "source", ".", "bc", "expr", "compgen", "complete",
     "bind", "alias", "iex", "invoke-expression"}
)  # fmt: skip
"""Programs all of whose arguments may be code."""

_CODE_FIRST: Mapping[str, Mapping[str, int]] = {
    "sed": {},
    "awk": {"-v": 1, "-F": 1, "-f": 1},
    "jq": {"--arg": 2, "--argjson": 2, "--slurpfile": 2, "--rawfile": 2, "--indent": 1},
}
"""Programs whose first operand is code, and how many words their options take."""

_WRAPPERS = frozenset(
    {"builtin", "chroot", "command", "docker", "doas", "env", "exec", "find", "flock", "ionice",
     "kubectl", "nice", "nohup", "parallel", "podman", "setsid", "ssh", "stdbuf", "strace", "su",
     "sudo", "time", "timeout", "unshare", "watch", "xargs"}
)  # fmt: skip
"""Programs that run another, which may be any of their words."""

_PREFIXES = frozenset(
    {"builtin", "command", "doas", "env", "exec", "nice", "nohup", "setsid", "stdbuf", "sudo",
     "time", "timeout", "xargs"}
)  # fmt: skip

_NAMES = {"gawk": "awk", "mawk": "awk", "nawk": "awk", "gsed": "sed", "yq": "jq", "nodejs": "node"}
_READS_CODE = frozenset(_CODE_OPTIONS) - {"su", "powershell", "pwsh", "cmd"} | {"sqlite3", "bc"}


_VERSION = re.compile(r"(?:\.exe|[0-9.]+)$")
NAMES_PROGRAM = "names the program to run"


def read_as_code(program: str) -> str:
    """Say that a program reads a value as code."""
    return f"is read as code by {program}"


def _program(word: str) -> str:
    name = _VERSION.sub("", word.rsplit("/", 1)[-1])
    return _NAMES.get(name, name) or word


def _programs(words: list[str]) -> Iterator[tuple[int, str]]:
    """Yield the words that name programs: the first, or any behind one that runs another."""
    for at, word in enumerate(words):
        program = _program(word)
        yield at, program
        if at == 0 and program not in _WRAPPERS:
            return


def names_program(place: Place) -> bool:
    """Tell whether the value is, or is part of, the name of the program that runs."""
    return place.word is not None and all(
        map(_may_precede_program, islice(place.command.words, place.word))
    )


def _may_precede_program(word: str) -> bool:
    return (
        word in _PREFIXES
        or not word.strip(DYNAMIC)
        or word.startswith("-")
        or "=" in word
        or word.isdigit()
    )


@record
class _Reading:
    """Which words of a command are code: from `start` (inclusive) to `end` (exclusive)."""

    program: str = ""
    start: int = 0
    end: int = 0


@mutable
class InnerLanguages:
    """Answers for the places of one script, each command being read once."""

    _readings: dict[Command, tuple[_Reading, ...]] = field(default_factory=dict)
    _around: dict[Command, str] = field(default_factory=dict)
    _piped: dict[Command, str] = field(default_factory=dict)

    def program(self, place: Place) -> str:
        """Return the program that reads the value as code, empty when none is seen."""
        if place.quoting is Quoting.COMMENT:
            return ""
        command = place.command
        if place.word is not None:
            found = self._reader(command, place.word)
        else:
            found = _stdin_reader(command.words)
        return found or self._pipe_reader(command) or self._outer_reader(command)

    def what_runs(self, place: Place) -> str:
        """Say what makes code of a value in a place of a command; empty when nothing does."""
        if program := self.program(place):
            return read_as_code(program)
        return NAMES_PROGRAM if names_program(place) else ""

    def _reader(self, command: Command, word: int) -> str:
        if command not in self._readings:
            self._readings[command] = tuple(_readings(command.words))
        for reading in self._readings[command]:
            if reading.start <= word < reading.end:
                return reading.program
        return ""

    def _pipe_reader(self, command: Command) -> str:
        """Return what reads the output of `command` as code."""
        chain: list[Command] = []
        while command.reader is not None and command not in self._piped:
            chain.append(command)
            command = command.reader
        found = self._piped.get(command, "")
        for before in reversed(chain):
            found = _stdin_reader(command.words) or found
            self._piped[before] = found
            command = before
        return found

    def _outer_reader(self, command: Command) -> str:
        """Return what reads the output of the substitution that `command` is in as code."""
        if command.outer is None:
            return ""
        chain: list[Command] = []
        at: Command | None = command
        while at is not None and at not in self._around:
            chain.append(at)
            at = at.outer
        found = self._around[at] if at is not None else ""
        for inner in reversed(chain):
            if inner.outer is not None:
                found = (
                    self._reader(inner.outer, inner.outer_word)
                    or self._pipe_reader(inner.outer)
                    or found
                )
            self._around[inner] = found
        return self._around[command]


def _readings(words: list[str]) -> list[_Reading]:
    found = []
    for at, program in _programs(words):
        if program in _ALL_CODE:
            found.append(_Reading(program, at + 1, len(words) + 1))
            break
        if program in _CODE_OPTIONS:
            option = next(
                (
                    i
                    for i in range(at + 1, len(words))
                    if _CODE_OPTIONS[program].fullmatch(words[i])
                ),
                None,
            )
            if option is not None:
                found.append(_Reading(program, option + 1, len(words) + 1))
                break
        if program in _CODE_FIRST:
            found.append(_code_first(program, words, at))
            break
    return found


def _code_first(program: str, words: list[str], at: int) -> _Reading:
    options = _CODE_FIRST[program]
    at += 1
    start = at
    while at < len(words):
        if words[at] in options:
            at += 1 + options[words[at]]
            start = at
        elif words[at] in ("-e", "--expression"):
            # Each may be followed by another: all that comes is taken for code.
            return _Reading(program, at + 1, len(words) + 1)
        elif words[at].startswith("-"):
            at += 1
        else:
            break
    return _Reading(program, start, at + 1)


def _stdin_reader(words: list[str]) -> str:
    for at, program in _programs(words):
        if program in _READS_CODE:
            operands = [w for w in words[at + 1 :] if not w.startswith("-") or w == "-"]
            return program if operands in ([], ["-"]) or program == "sqlite3" else ""
    return ""
