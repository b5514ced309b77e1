"""What may stand in a place of a shell command: some built-ins run what they are given.

A variable in quotes is data to a program. Not so to bash itself: it computes subscripts, and runs
the commands in them, wherever it takes a name (`unset`, `printf -v`, `[[ -v`) or a number
(`[[ -eq ]]`, `let`, variables declared as integers).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from itertools import count

from tools.record import mutable

PLACE = "\0"
"""Stands for a placeholder in the text of a word."""

DYNAMIC = "\1"
"""Stands for an expansion of the template's own in the text of a word."""

DECLARING = frozenset({"declare", "typeset", "local", "readonly", "export"})
"""Built-ins whose arguments are assignments."""

_NAMING = frozenset({"unset", "read", "mapfile", "readarray", "getopts", "wait"})
_TESTS = frozenset({"[", "test"})
_NAME_TESTS = frozenset({"-v", "-R"})
_NUMBER_OPERATORS = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge"})
_AFTER_OPERAND = _NUMBER_OPERATORS | {
    "=", "==", "!=", "<", ">", "-nt", "-ot", "-ef", "-a", "-o", "]", ")",
}  # fmt: skip
INTEGER_ATTRIBUTES = re.compile(r"-[A-Za-z]*[in\0\1]")
_ARRAY_ATTRIBUTES = re.compile(r"-[A-Za-z]*[aA]")
INTEGER_VARIABLES = re.compile(
    r"(?:RANDOM|SRANDOM|OPTIND|HISTCMD|SECONDS|LINENO|EPOCHSECONDS|BASHPID|PPID|E?UID)(?:\+?=|$)"
)
"""Variables that bash itself has declared as integers: it computes what is assigned to them."""
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=", re.ASCII)


class Quoting(Enum):
    """How the text around a placeholder is quoted, which decides how it is rewritten."""

    WORDS = "bare"
    WORD = "bare, exactly one word"
    DOUBLE = "within double quotes or the like"
    SINGLE = "within single quotes"
    ANSI = "within $'…'"
    DOCUMENT = "within a here-document"
    COMMENT = "within a comment"


_numbers = count()


@dataclass(eq=False)
class Command:
    """A simple command: its words without quotes, and the command whose word it is part of.

    `number` is its own among all commands, `pipeline` that of its pipeline; `reader` is the command
    behind it there. No two refer to each other: what was read of a script goes once it was used.
    """

    outer: Command | None = None
    outer_word: int = 0
    words: list[str] = field(default_factory=list)
    number: int = field(default_factory=_numbers.__next__)
    pipeline: int = field(default_factory=_numbers.__next__)
    reader: Command | None = None
    _name_at: int = 0

    def builtin(self) -> tuple[str, int]:
        """Return the name of the command, which may be a built-in, and its index in the words.

        `command` and `builtin` are left out, and whatever an expansion may leave empty.
        """
        while self._name_at < len(self.words):
            name = self.words[self._name_at].replace(PLACE, "").replace(DYNAMIC, "")
            if name not in ("", "command", "builtin", "-p", "--"):
                return name, self._name_at
            self._name_at += 1
        return "", self._name_at

    @cached_property
    def options_end(self) -> int:
        """The index of the word `--` in a finished command, or how many words there are."""
        return self.words.index("--") if "--" in self.words else len(self.words)

    def follow(self) -> Command:
        """Return the command that reads this one's output."""
        self.reader = Command(self.outer, self.outer_word, pipeline=self.pipeline)
        return self.reader

    def begin(self) -> Command:
        """Return the command after this one."""
        return Command(self.outer, self.outer_word)

    def within(self) -> Command:
        """Return the first command of a substitution in this one's current word."""
        return Command(self, len(self.words))


@mutable
class Place:
    """Where one placeholder stands.

    `integer` says that bash will compute the value. `word` is the index in the command's words,
    None outside of them (redirections, assignments, patterns); `leading` that the value begins
    the word. `delimiter` ends the here-document it is in. `in_parameter` says that it stands
    directly within a `${…}`, `backquotes` within how many of them, `feeds` that it is a command's
    input (`<<<`).
    """

    index: int
    quoting: Quoting
    command: Command
    integer: bool = False
    word: int | None = None
    leading: bool = False
    delimiter: str = ""
    in_parameter: bool = False
    backquotes: int = 0
    feeds: bool = False


class Misplaced(Exception):
    """A placeholder stands where a value cannot be data; the message goes on after its name."""

    def __init__(self, message: str, place: Place | None = None) -> None:
        super().__init__(message)
        self.message, self.place = message, place


@mutable
class Declarations:
    """What a script says of its variables anywhere in it."""

    integers: bool = False
    arrays: bool = False
    declaring: list[Place] = field(default_factory=list)
    assigning: list[Place] = field(default_factory=list)

    def note(self, name: str, operands: list[str]) -> None:
        """Take in a finished command: its name and the words behind that."""
        if name in ("mapfile", "readarray"):
            self.arrays = True
        if name not in DECLARING and name != "read":
            return
        for word in operands:
            if INTEGER_ATTRIBUTES.match(word) and name in DECLARING:
                self.integers = True
            self.arrays = self.arrays or bool(_ARRAY_ATTRIBUTES.match(word))


def check_word(place: Place, prefix: str, declarations: Declarations) -> None:
    """Check a place in a word of a command; `prefix` is the literal text before it in the word.

    Sets `integer`, or makes it exactly one word. Raises Misplaced.
    """
    name, at = place.command.builtin()
    if name == "let":
        place.integer = True
    elif name in _TESTS:
        _one_word(place)
    elif name in DECLARING:
        _one_word(place)
        if not _ASSIGNMENT.match(prefix):
            raise Misplaced(f"stands where `{name}` takes a name, which bash may run. Write a name")
        declarations.declaring.append(place)
        place.integer = place.integer or bool(INTEGER_VARIABLES.match(prefix))
    elif name in _NAMING:
        raise Misplaced(
            f"stands where `{name}` may take a name, which bash may run. "
            "Assign it to a variable first and check it"
        )
    elif name == "coproc":
        raise Misplaced("stands behind `coproc`, whose command cannot be told. Use a pipe")
    elif name == "printf":
        _check_printf(place.command.words[at + 1 : at + 4], prefix)


def _one_word(place: Place) -> None:
    if place.quoting is Quoting.WORDS:
        place.quoting = Quoting.WORD


def _check_printf(arguments: list[str], prefix: str) -> None:
    option = arguments[:1] == ["-v"]
    if option and len(arguments) == 1:
        raise Misplaced("stands where `printf -v` takes a name, which bash may run. Write a name")
    first = len(arguments) in ((2,) if option else (0,))
    if first and (not prefix or prefix.startswith("-")):
        raise Misplaced(
            "stands where `printf` takes its options. Write `printf '%s\\n'` before it, "
            "or `printf --`"
        )


def test_is_safe(name: str, arguments: list[str]) -> bool:
    """Tell whether a finished command is no `[` or `test`, or one that is safe with any value.

    Not so where a value may be the operator `-v`, or what `-v` is asked about.
    """
    if name not in _TESTS:
        return True
    for at, word in enumerate(arguments):
        if PLACE not in word:
            continue
        if at and arguments[at - 1] in _NAME_TESTS:
            return False
        following = arguments[at + 1 : at + 2]
        if word.startswith(PLACE) and following and following[0] not in _AFTER_OPERAND:
            return False
    return True


def check_conditional(words: list[str], places: list[Place]) -> None:
    """Check the places in a finished `[[ … ]]`: beside `-eq` and the like bash computes.

    `word` of each place is an index in `words`. Raises Misplaced with the place.
    """
    for place in places:
        assert place.word is not None
        before, after = words[place.word - 1 : place.word], words[place.word + 1 : place.word + 2]
        if before and before[0] in _NAME_TESTS:
            raise Misplaced(f"stands where `{before[0]}` takes a name, which bash may run", place)
        if _NUMBER_OPERATORS.intersection(before + after):
            place.integer = True
