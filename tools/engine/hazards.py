"""Where a value can do more than stand for itself.

Quoting keeps a value one word of a command. It does not help where a program reads that word as
code (X88), takes it for an option (X89) or is named by it, nor where a value is pasted (X85).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum

from tools.actions import PlanEnvironment
from tools.engine.template import (
    ArgvTemplate,
    Placeholder,
    Template,
    Value,
    as_text,
    value_of,
)
from tools.engine.template_command import DYNAMIC, PLACE, Command, Place, Quoting
from tools.engine.template_flow import run_variable
from tools.engine.template_inner import NAMES_PROGRAM, InnerLanguages, names_program, read_as_code
from tools.permissions.run_variables import is_run, runs_value
from tools.record import record

_VALUE_CHARS = 80

_TAKES_ANY_WORD = frozenset(
    {":", "[", "[[", "case", "echo", "exit", "for", "return", "select", "test"}
)
"""Commands to which a dash means nothing, or nothing worse than a missing line of output."""

_PATTERN_PROGRAMS = frozenset({"grep", "egrep", "fgrep"})
_PATTERN_OPTIONS = frozenset({"-e", "--regexp"})
_PLAIN_FLAGS = re.compile(rf"-[EFGHILPRTUabchilnoqrsvwxyz]+|{DYNAMIC}")
"""Options of grep that leave the next word alone, and an expansion of the template's own."""

_QUOTED = re.compile(r"\"((?:[^\"`]|`.)*)\"|'([^']*)'|([^\s\"';|&(){}]+)|(\s+)|(.)", re.DOTALL)


class HazardKind(Enum):
    """What a value can do besides standing as data in its place."""

    RAW = "raw"
    INNER_LANGUAGE = "inner language"
    PROGRAM = "program"
    OPTION = "option"
    VARIABLE = "variable"


_ADVICE = {
    HazardKind.RAW: "leave escape-shell out, or set it to true",
    HazardKind.INNER_LANGUAGE: "pass it as an argument or in a variable, or give it an enum or a "
    "pattern of letters and digits",
    HazardKind.PROGRAM: "write the program's name, or give it an enum",
    HazardKind.VARIABLE: "give it the type integer, an enum or a pattern of letters and digits",
    HazardKind.OPTION: "write -- before it, or give it a pattern such as ^[^-]",
}


@record
class Hazard:
    """A placeholder whose value makes a call a high risk.

    `values` are the words that begin with a dash, empty for other kinds and before a call.
    `several_words` says that only a word behind the first can be an option.
    """

    kind: HazardKind
    placeholder: Placeholder
    message: str
    values: tuple[str, ...] = ()
    several_words: bool = False

    @property
    def advice(self) -> str:
        """What the author of the tool can do about it."""
        if self.several_words:
            return "put it in quotes: then it is one word"
        return _ADVICE[self.kind]


def raw(placeholder: Placeholder) -> Hazard:
    """Return the hazard of a value that becomes text of the script."""
    message = "is pasted into the script as it is (escape-shell: false)"
    return Hazard(HazardKind.RAW, placeholder, message)


def possible_option(placeholder: Placeholder, *, leading: bool = True) -> Hazard:
    """Return the hazard of a place where a program would take a dash for an option.

    A value that is not `leading` only begins a word where it is several.
    """
    if leading:
        message = "may be taken for an option where it begins with a dash"
    else:
        message = "may be several words, and one that begins with a dash an option"
    return Hazard(HazardKind.OPTION, placeholder, message, several_words=not leading)


def with_options(certain: Sequence[Hazard], options: Iterable[Hazard]) -> tuple[Hazard, ...]:
    """Return hazards and those of being options, unless worse is known of a place."""
    known = {id(hazard.placeholder) for hazard in certain}
    return (*certain, *(hazard for hazard in options if id(hazard.placeholder) not in known))


def given_option(placeholder: Placeholder, words: Sequence[str]) -> Iterator[Hazard]:
    """Yield the hazard of the words given for such a place, where one begins with a dash (X89)."""
    found = tuple(word for word in words if word.startswith("-"))
    if found:
        message = f"begins with a dash and may be taken for an option: {found[0][:_VALUE_CHARS]}"
        yield Hazard(HazardKind.OPTION, placeholder, message, found)


def in_place(placeholder: Placeholder, place: Place, languages: InnerLanguages) -> Iterator[Hazard]:
    """Yield what a value can do in its place of a command, but for options."""
    if program := languages.program(place):
        yield Hazard(HazardKind.INNER_LANGUAGE, placeholder, read_as_code(program))
    if names_program(place):
        yield Hazard(HazardKind.PROGRAM, placeholder, NAMES_PROGRAM)


def carried(placeholder: Placeholder, reader: str) -> Hazard:
    """Return the hazard of a value that variables of the script carry to a `reader` of code."""
    return Hazard(HazardKind.VARIABLE, placeholder, reader)


def in_variable(placeholder: Placeholder, name: str) -> Hazard:
    """Return the hazard of a value in a variable that programs run (see `is_run`)."""
    return carried(placeholder, runs_value(name))


def may_be_option(place: Place) -> bool:
    """Tell whether a word here may be read as an option: an argument, and not behind `--`."""
    if not place.word or place.command.options_end < place.word:
        return False
    name, at = place.command.builtin()
    if name in _PATTERN_PROGRAMS and place.quoting is not Quoting.WORDS:
        return not _follows_pattern_option(place.command.words[at + 1 : place.word])
    # The first operand of printf ends its options.
    return name not in _TAKES_ANY_WORD and not (name == "printf" and place.word > at + 1)


def _follows_pattern_option(before: Sequence[str]) -> bool:
    """Tell whether grep takes the word behind these for a pattern, whatever it begins with."""
    is_pattern = False
    for word in before:
        if is_pattern:
            is_pattern = False
        elif word in _PATTERN_OPTIONS:
            is_pattern = True
        elif not _PLAIN_FLAGS.fullmatch(word):
            return False
    return is_pattern


@record
class WordHazards:
    """The hazards of words: those of any value, and where a value may be an option."""

    placeholders: tuple[Placeholder, ...] = ()
    hazards: tuple[Hazard, ...] = ()
    options: tuple[Placeholder, ...] = ()

    @property
    def possible(self) -> tuple[Hazard, ...]:
        """What values can do in their places."""
        return with_options(self.hazards, map(possible_option, self.options))

    def given(self, values: Mapping[str, Value]) -> tuple[Hazard, ...]:
        """Return what `values` (by key) do. Raises TemplateError where one is missing (X93)."""
        found = list(self.hazards)
        for placeholder in self.options:
            found += given_option(placeholder, [as_text(value_of(placeholder, values))])
        return tuple(found)


def run_templates(environment: PlanEnvironment) -> Iterator[tuple[str, str]]:
    """Yield the variables that a tool sets to a template, of those that programs run."""
    if environment.placeholders:
        yield from ((name, text) for name, text in environment.variables.items() if is_run(name))


def variable_hazards(name: str, template: Template) -> WordHazards:
    """Look at the template of such a variable."""
    places = template.placeholders
    return WordHazards(places, tuple(in_variable(place, name) for place in places))


def argv_hazards(template: ArgvTemplate) -> WordHazards:
    """Look at words that reach a program as they are (X99)."""
    marked = ["".join(map(_mark, word.parts)) for word in template.words]
    return _word_hazards([marked], template.placeholders)


def windows_hazards(template: Template) -> WordHazards:
    """Look at a script for PowerShell or cmd, which is taken apart at quotes and blanks only."""
    marked = "".join(map(_mark, template.parts))
    return _word_hazards(_windows_commands(marked), template.placeholders)


def _word_hazards(
    commands: Iterable[Sequence[str]], placeholders: tuple[Placeholder, ...]
) -> WordHazards:
    """Look at commands whose words hold a mark for each placeholder, in order."""
    certain: list[Hazard] = []
    options: list[Placeholder] = []
    languages = InnerLanguages()
    following = iter(placeholders)
    for words in commands:
        command = Command()
        command.words += words
        for number, word in enumerate(words):
            for start in (at for at, character in enumerate(word) if character == PLACE):
                placeholder = next(following)
                place = Place(0, Quoting.WORD, command, word=number, leading=start == 0)
                found = list(in_place(placeholder, place, languages))
                if not found and (name := run_variable(word[:start])):
                    found.append(in_variable(placeholder, name))
                certain += found
                if place.leading and may_be_option(place):
                    options.append(placeholder)
    return WordHazards(placeholders, tuple(certain), tuple(options))


def _windows_commands(marked: str) -> Iterator[list[str]]:
    words, word = list[str](), ""
    for double, single, bare, blank, separator in _QUOTED.findall(marked):
        word += double or single or bare
        if not (blank or separator):
            continue
        if word:
            # Names of programs are the same in capitals there.
            words.append(word if words else word.lower())
        word = ""
        if separator or "\n" in blank:
            yield words
            words = []
    yield [*words, word if words else word.lower()] if word else words


def _mark(part: str | Placeholder) -> str:
    return part if isinstance(part, str) else PLACE
