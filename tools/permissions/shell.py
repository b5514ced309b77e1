"""How permission rules match shell commands.

Two questions, answered in opposite directions:

- *Does an allow rule cover a command?* Only if the command is provably a program with literal
  words: `command_check` takes a line apart for that (R6, R7), and each part is covered by itself.
  Programs whose flags write or run something are covered with the flags of the rule only (R9). A
  rule that is the whole text of a command covers exactly that text. Where the directory of the
  command is not known, it must be one simple command of plain words.
- *May a deny or ask rule concern it?* The words are looked for at every place where a command can
  start: after separators, in substitutions, behind keywords, assignments and wrappers, through
  quotes and backslashes (R7, R11). What hides its program (`$x`, `eval "$y"`, a shell that reads a
  pipe, quotes that do not end) may be anything, so every such rule then matches as MAYBE.

Time is linear in the command and independent of the number of rules about commands (R42).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import Enum
from pathlib import Path
from typing import Generic, TypeVar

from tools.permissions.command_check import found_inside
from tools.permissions.command_cover import (
    BLANKS,
    PLAIN,
    PLAIN_COMMAND,
    PREFIX,
    covers_rest,
    plain_words,
)
from tools.permissions.shell_words import (
    ShellReading,
    SimpleCommand,
    program_name,
    read_commands,
)
from tools.record import record

RuleT = TypeVar("RuleT")

_UNKNOWN = re.compile(r"(?:\$(?:\w+|\{\w+\}))?")
_BUNDLE = re.compile(r"-[A-Za-z]{2,}")

_SPELLINGS: Mapping[str, Mapping[str, str]] = {
    "chmod": {"-R": "--recursive"},
    "chown": {"-R": "--recursive"},
    "cp": {"-r": "--recursive", "-R": "--recursive", "-f": "--force"},
    "git": {"-f": "--force"},
    "mv": {"-f": "--force"},
    "rm": {"-r": "--recursive", "-R": "--recursive", "-f": "--force", "-d": "--dir"},
}
"""Options of which one spelling is the same as another, for rules that restrict."""

_GLOBAL_OPTIONS: Mapping[str, frozenset[str]] = {
    "docker": frozenset(("-H", "--host", "--context", "-c", "--config", "-l", "--log-level")),
    "git": frozenset(("-C", "-c", "--git-dir", "--work-tree", "--namespace", "--config-env")),
    "kubectl": frozenset(("-n", "--namespace", "--context", "--kubeconfig", "--cluster", "-s")),
    "npm": frozenset(("--prefix", "-w", "--workspace", "-C")),
}
"""Options with a value that stand before the subcommand."""


class Match(Enum):
    """Whether a rule concerns a command."""

    NO = 0
    MAYBE = 1
    YES = 2


@record
class CommandPattern:
    """The argument of `run_command(…)`: `words` for a prefix, else `text` for a whole command."""

    words: tuple[str, ...] = ()
    text: str = ""

    @classmethod
    def parse(cls, argument: str) -> CommandPattern:
        """Read the argument of a rule. Raises ValueError, saying what is wrong."""
        if argument == "*":
            return cls()
        if not argument.endswith(PREFIX):
            return cls(text=argument)
        words = argument.removesuffix(PREFIX)
        if not PLAIN_COMMAND.fullmatch(words):
            raise ValueError("before :* stand plain words only, without quotes and wildcards")
        return cls(words=tuple(words.split()))


class AllowedCommands(Generic[RuleT]):
    """Allow rules about commands, looked up by their words."""

    def __init__(self) -> None:
        self._all: RuleT | None = None
        self._texts: dict[str, RuleT] = {}
        self._prefixes: dict[tuple[str, ...], RuleT] = {}
        self._longest = 0

    def add(self, pattern: CommandPattern, rule: RuleT) -> None:
        """Add one; of several that say the same the first stays."""
        if pattern.words:
            self._prefixes.setdefault(pattern.words, rule)
            self._longest = max(self._longest, len(pattern.words))
        elif pattern.text:
            self._texts.setdefault(pattern.text, rule)
        else:
            self._all = self._all or rule

    def covering(self, command: str, root: Path) -> RuleT | None:
        """Return a rule that covers all of `command`, if one provably does.

        A program found below `root`, the workspace, is covered only by its path (R10).
        """
        found = self.covering_text(command)
        if found is not None or not self._prefixes:
            return found
        words = plain_words(command)
        found = self._covering_words(words)
        return None if found is None or found_inside(words[0], root) else found

    def covering_text(self, command: str) -> RuleT | None:
        """Return a rule for every command, or for exactly this text."""
        return self._all or self._texts.get(command.strip(BLANKS))

    def names(self, command: str) -> bool:
        """Tell whether a rule is exactly this text."""
        return command.strip(BLANKS) in self._texts

    def covering_starts(self, starts: Iterable[tuple[str, ...]]) -> RuleT | None:
        """Return a rule that covers one of several ways to start a command, if rules cover all."""
        found = None
        for words in starts if self._prefixes or self._texts else ():
            found = self._covering_words(words)
            if found is None:
                return None
        return found

    def _covering_words(self, words: tuple[str, ...]) -> RuleT | None:
        for length in range(min(len(words), self._longest), 0, -1):
            rule = self._prefixes.get(words[:length])
            if rule is not None and covers_rest(words, length):
                return rule
        return self._texts.get(" ".join(words)) if all(map(PLAIN.fullmatch, words)) else None


class RestrictedCommands(Generic[RuleT]):
    """Deny or ask rules about commands, looked up by program and words."""

    def __init__(self) -> None:
        self._all: RuleT | None = None
        self._first: RuleT | None = None
        self._texts: dict[str, RuleT] = {}
        self._prefixes: dict[tuple[str, ...], RuleT] = {}
        self._by_program: dict[str, list[tuple[frozenset[str], RuleT]]] = {}
        self._by_operand: dict[tuple[str, str], list[tuple[_Said, RuleT]]] = {}
        self._with_operand: dict[str, RuleT] = {}
        self._longest = 0

    def add(self, pattern: CommandPattern, rule: RuleT) -> None:
        """Add one. The text of a whole command also means everything that begins with it."""
        self._first = self._first or rule
        words = pattern.words or plain_words(pattern.text)
        if words:
            program, *rest = words
            program = program.lower()
            self._prefixes.setdefault((program, *rest), rule)
            self._by_program.setdefault(program, []).append((_parts_of(rest), rule))
            said = _Said.of(program, rest)
            first = said.operands[0] if said.operands else ""
            if said.operands:
                self._with_operand.setdefault(program, rule)
            self._by_operand.setdefault((program, first), []).append((said, rule))
            self._longest = max(self._longest, len(words))
        elif pattern.text:
            self._texts.setdefault(pattern.text, rule)
        else:
            self._all = self._all or rule

    def concerning(self, command: str) -> tuple[Match, RuleT | None]:
        """Return the rule that concerns `command`, and how sure that is."""
        if self._first is None:
            return Match.NO, None
        certain = self._all or next((r for t, r in self._texts.items() if t in command), None)
        if certain is not None:
            return Match.YES, certain
        reading = read_commands(command)
        possible: RuleT | None = None
        for found in reading.commands if self._by_program.keys() & reading.programs else ():
            rule = self._rule_for(found)
            if rule is not None and found.sure:
                return Match.YES, rule
            possible = possible or rule
        possible = possible or self._scattered(reading) or self._hidden_operand(reading)
        if possible is None and reading.hidden:
            possible = self._first
        return (Match.NO, None) if possible is None else (Match.MAYBE, possible)

    def _rule_for(self, command: SimpleCommand) -> RuleT | None:
        program, *rest = command.words
        for name in dict.fromkeys((program.lower(), program_name(program))):
            if name not in self._by_program:
                continue
            for length in range(min(self._longest, len(command.words)) + 1):
                rule = self._prefixes.get((name, *rest[:length]))
                if rule is not None:
                    return rule
            if command.sure:
                rule = self._saying_the_same(name, rest)
                if rule is not None:
                    return rule
        return None

    def _saying_the_same(self, program: str, words: list[str]) -> RuleT | None:
        """Find a rule whose words a command says in another order or spelling."""
        said = _Said.of(program, words)
        for first in ("", *said.operands[:1]):
            for needed, rule in self._by_operand.get((program, first), ()):
                if said.says(needed):
                    return rule
        return None

    def _scattered(self, reading: ShellReading) -> RuleT | None:
        """Find a rule whose words all occur with its program, or in inline code, in any order."""
        said: dict[str, set[str]] = {}
        known = self._by_program.keys() & reading.programs
        for command in reading.commands if known else ():
            name = program_name(command.words[0])
            if name in self._by_program:
                said.setdefault(name, set()).update(_parts_of(command.words[1:]))
        for name in reading.code & self._by_program.keys():
            said.setdefault(name, set()).update(reading.code)
        for name, words in said.items():
            for needed, rule in self._by_program[name]:
                if needed <= words:
                    return rule
        return None

    def _hidden_operand(self, reading: ShellReading) -> RuleT | None:
        """Find a rule for a program whose first operand only running would tell: `git $x`."""
        for command in reading.commands if self._with_operand.keys() & reading.programs else ():
            name = program_name(command.words[0])
            operands = _Said.of(name, command.words[1:]).operands
            if operands and _UNKNOWN.fullmatch(operands[0]) and name in self._with_operand:
                return self._with_operand[name]
        return None


@record
class _Said:
    """The arguments of a command however they are ordered and spelled."""

    operands: tuple[str, ...]
    options: frozenset[str]

    @classmethod
    def of(cls, program: str, words: Iterable[str]) -> _Said:
        spellings = _SPELLINGS.get(program, {})
        operands: list[str] = []
        options: set[str] = set()
        rest = iter(words)
        for word in rest:
            if not word.startswith("-"):
                operands.append(word)
            elif word in _GLOBAL_OPTIONS.get(program, ()) and not operands:
                next(rest, None)
            elif word.startswith("--"):
                options.add(_whole_option(word, spellings))
            else:
                options.update(spellings.get(part, part) for part in _parts_of([word]))
        return cls(tuple(operands), frozenset(options))

    def says(self, needed: _Said) -> bool:
        """Tell whether it says all of `needed`, its operands first."""
        begins = self.operands[: len(needed.operands)] == needed.operands
        return begins and needed.options <= self.options


def _whole_option(word: str, spellings: Mapping[str, str]) -> str:
    """Return the long option that an abbreviation stands for, where a program is known."""
    name = word.partition("=")[0]
    known = {long for long in spellings.values() if long.startswith(name)}
    return known.pop() if len(known) == 1 else name


def _parts_of(words: Iterable[str]) -> frozenset[str]:
    """Return the words, with bundled short options taken apart (`-rf` is `-r` and `-f`)."""
    parts: set[str] = set()
    for word in words:
        if _BUNDLE.fullmatch(word):
            parts.update(f"-{letter}" for letter in word[1:])
        else:
            parts.add(word)
    return frozenset(parts)
