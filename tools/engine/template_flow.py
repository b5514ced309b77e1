"""Follows values through a script's own variables to where bash, or a program, reads them as code.

`x={P}` is safe, and so is `"$x"` as an argument. `$((x))` is not: bash computes the text of x, and
runs the commands in its subscripts; nor are `[[ $x -eq 1 ]]`, `${x@P}`, `eval "$x"` and the like.
What a program prints is no longer the value: `x=$(wc -l <{P})` is not followed, unlike `echo`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import field

from tools.engine.template_command import (
    DECLARING,
    INTEGER_ATTRIBUTES,
    PLACE,
    Command,
    Declarations,
    Misplaced,
    Place,
    check_conditional,
    check_word,
)
from tools.permissions.run_variables import is_run, runs_value
from tools.record import mutable

_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_TARGET = re.compile(r"([A-Za-z_]\w*)(?:\[[^\]]*\])?\+?=", re.ASCII)
_OUTPUT = re.compile(r"\(\d+\.\d+\)")
_ASSOCIATIVE = re.compile(r"-[A-Za-z]*A")
_FILLS = frozenset({"read", "mapfile", "readarray"})
_TAKES_NAMES = frozenset({"unset", "getopts", "wait", "let"}) | _FILLS
_ANY_INPUT, _INPUT, _PIPE = "<", "<", "|"


def run_variable(word: str) -> str:
    """Return the variable that a word sets, where programs run what it holds."""
    target = _TARGET.match(word)
    return target[1] if target is not None and is_run(target[1]) else ""


@mutable
class Flow:
    """What a script does with its variables, in any order."""

    computed: set[str] = field(default_factory=set)
    functions: set[str] = field(default_factory=set)
    _subscripts: list[tuple[str, str]] = field(default_factory=list)
    _associative: set[str] = field(default_factory=set)
    _given: list[tuple[Place, str]] = field(default_factory=list)
    _copies: list[tuple[str, str]] = field(default_factory=list)
    _uses: dict[str, list[Place]] = field(default_factory=dict)
    _filled: list[tuple[Command, list[str]]] = field(default_factory=list)
    _conditional: list[tuple[str, Place]] = field(default_factory=list)

    def give(self, place: Place, target: str) -> None:
        """Note that a value becomes one of a variable: `target` is `x=` or a name."""
        found = _TARGET.match(target) or _NAME.fullmatch(target)
        if found:
            self._given.append((place, found[found.re.groups]))

    def use(self, name: str, use: Place, word: str, *, assigns: bool, conditional: bool) -> None:
        """Note an expansion of a variable in a word of a command; `word` is what precedes it."""
        words = use.command.words
        target = _TARGET.match(word)
        declares = (words and words[0] in DECLARING) or run_variable(word)
        if target and (assigns or declares):
            self._copies.append((name, target[1]))
        elif len(words) > 1 and words[0] in ("for", "select"):
            self._copies.append((name, words[1]))
        elif conditional:
            self._conditional.append((name, use))
        else:
            self._uses.setdefault(name, []).append(use)
            if _takes_a_name(use, word):
                self.computed.add(name)

    def compute(self, text: str, array: str = "") -> None:
        """Note the names in the text of a calculation, or of a subscript of an array."""
        for name in _NAME.findall(text):
            self.compute_name(name, array)

    def compute_name(self, name: str, array: str = "") -> None:
        """Note a variable whose value is calculated, or is a subscript of an array."""
        if array:
            self._subscripts.append((array, name))
        else:
            self.computed.add(name)

    def condition(self, words: list[str]) -> None:
        """Take in a finished `[[ … ]]`."""
        found, self._conditional = self._conditional, []
        for name, use in found:
            probe = Place(use.index, use.quoting, use.command, word=use.word)
            try:
                check_conditional(words, [probe])
            except Misplaced:
                self.computed.add(name)
            if probe.integer:
                self.computed.add(name)

    def note(self, command: Command, name: str, operands: list[str]) -> None:
        """Take in a finished command, its name and the words behind that."""
        if name in DECLARING:
            targets = [word.partition("=")[0] for word in operands]
            if any(map(_ASSOCIATIVE.match, operands)):
                self._associative.update(targets)
            if any(map(INTEGER_ATTRIBUTES.match, operands)):
                self.computed.update(targets)
        elif name == "let":
            self.compute(" ".join(operands))
        elif name in _FILLS:
            self._filled.append((command, [word for word in operands if _NAME.fullmatch(word)]))
        elif command.words[0] == "function":
            self.functions.update(command.words[1:2])

    def carried(
        self, places: Collection[Place], judge: Callable[[Place], str]
    ) -> Iterator[tuple[Place, str]]:
        """Yield the places whose values variables carry to where they are code, and what reads it.

        `judge` says of a place in a command what reads a value there as code, if anything does.
        """
        given = [
            *self._given,
            *self._arguments(places),
            *self._input(places),
            *self._printed(places),
        ]
        if not given:
            return
        # The subscripts of an associative array are text.
        subscripts = {name for array, name in self._subscripts if array not in self._associative}
        targets = {name for _, name in (*self._given, *self._copies)}
        harm = {name: runs_value(name) for name in sorted(targets) if is_run(name)}
        harm |= {
            name: f"is calculated by the shell{_called(name)}"
            for name in sorted(self.computed | subscripts)
        }
        for name, uses in self._uses.items():
            said = next(filter(None, map(judge, uses)), "")
            if said:
                harm.setdefault(name, f"{said}{_called(name)}")
        sources: dict[str, list[str]] = {}
        for source, target in self._copies:
            sources.setdefault(target, []).append(source)
        pending = list(harm)
        while pending:
            target = pending.pop()
            for source in sources.get(target, ()):
                if source not in harm:
                    harm[source] = harm[target]
                    pending.append(source)
        told: set[Place] = set()
        for place, name in given:
            if name in harm and place in places and place not in told:
                told.add(place)
                yield place, harm[name]

    def _printed(self, places: Collection[Place]) -> Iterator[tuple[Place, str]]:
        """Yield what a substitution prints as it is."""
        for place in places:
            command = place.command
            if command.outer is None:
                continue
            printer = "cat" if place.word is None else command.builtin()[0]
            if printer in ("echo", "printf", "cat"):
                yield place, output_of(command)

    def _arguments(self, places: Collection[Place]) -> Iterator[tuple[Place, str]]:
        """Yield what the functions of the script, or `set`, are given."""
        for place in places:
            words = place.command.words
            if place.word and (words[0] in self.functions or words[0] == "set"):
                yield place, str(place.word - (words[1:2] == ["--"]))
                yield place, "@"
                yield place, "*"

    def _input(self, places: Collection[Place]) -> Iterator[tuple[Place, str]]:
        """Yield what `read` takes from a here-document, a here-string or a pipe.

        The input of a compound command, such as a loop, is taken for that of each `read`.
        """
        if not self._filled:
            return
        for command, names in self._filled:
            sources = (_ANY_INPUT, f"{_PIPE}{command.pipeline}", f"{_INPUT}{command.number}")
            self._copies += [(source, name) for source in sources for name in names]
        for place in places:
            command = place.command
            if place.word is not None:
                yield place, f"{_PIPE}{command.pipeline}"
            elif place.feeds or place.delimiter:
                yield place, f"{_INPUT}{command.number}" if command.words else _ANY_INPUT


def output_of(command: Command) -> str:
    """Return the name that stands for what the substitution around a command prints."""
    assert command.outer is not None
    return f"({command.outer.number}.{command.outer_word})"


def _called(name: str) -> str:
    return " in what a command prints" if _OUTPUT.fullmatch(name) else f", as ${name}"


def _takes_a_name(use: Place, word: str) -> bool:
    """Tell whether a built-in takes the word for the name of a variable, and computes it."""
    name, at = use.command.builtin()
    arguments = use.command.words[at + 1 :]
    if name == "printf":
        return arguments == ["-v"]
    if name in ("[", "test"):
        return arguments[-1:] == ["-v"]
    if name not in _TAKES_NAMES or PLACE in word:
        return False
    try:
        probe = Place(use.index, use.quoting, use.command, word=use.word)
        check_word(probe, word, Declarations())
    except Misplaced:
        return True
    return probe.integer
