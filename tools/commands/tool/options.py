"""Reads the words of an `opta tool` command.

Options may stand anywhere, as `--name VALUE` or `--name=VALUE`. Some belong to the latest
`--step`, `--parameter` or `--test` before them (X144), and a parameter is followed by words of its
own, such as `type=number`: neither is within reach of argparse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from tools.definition import Scope
from tools.record import record


class OptionError(Exception):
    """The words do not make a command. The message says which word and what is expected."""


@record
class Option:
    """One option.

    `values` names the words that follow it. `many` collects several. `of` is the option whose
    latest occurrence it belongs to; with `joins` it adds to the one with the same first word, or
    makes one. `pairs` are the keys of the `key=value` words that may follow.
    `convert` turns its value and raises ValueError with what is expected.
    """

    name: str
    values: tuple[str, ...] = ()
    many: bool = False
    of: str = ""
    joins: str = ""
    choices: tuple[str, ...] = ()
    pairs: tuple[str, ...] = ()
    convert: Callable[[str], Any] = str


@dataclass
class Group:
    """An option with options of its own: `--step NAME COMMAND --parallel`."""

    words: tuple[str, ...]
    options: dict[str, Any] = field(default_factory=dict)
    pairs: list[tuple[str, str]] = field(default_factory=list)


@dataclass
class Parsed:
    """A command line: positional words, option values by name, groups by the option they begin."""

    words: list[str] = field(default_factory=list)
    options: dict[str, Any] = field(default_factory=dict)
    groups: dict[str, list[Group]] = field(default_factory=dict)

    def flag(self, name: str) -> bool:
        """Tell whether a flag was given."""
        return bool(self.options.get(name))

    def text(self, name: str, default: str = "") -> str:
        """Return the value of an option, `default` where it was not given."""
        return str(self.options.get(name, default))

    def texts(self, name: str) -> list[str]:
        """Return all values of an option that may come several times."""
        return list(self.options.get(name, ()))

    @property
    def scope(self) -> Scope | None:
        """The scope asked for, None for any or when nothing was said."""
        chosen = self.options.get("--scope")
        return Scope(chosen) if chosen and chosen != "any" else None


def count(text: str) -> int:
    """Convert a whole number from 0."""
    if not (text.isascii() and text.isdigit()):
        raise ValueError("a whole number from 0")
    return int(text)


def integer(text: str) -> int:
    """Convert a whole number."""
    if not text.removeprefix("-").isascii() or not text.removeprefix("-").isdigit():
        raise ValueError("a whole number")
    return int(text)


def truth(text: str) -> bool:
    """Convert `true` or `false`."""
    if text not in ("true", "false"):
        raise ValueError("true or false")
    return text == "true"


SCOPES = {"--global": "global", "--user": "user", "--local": "local", "--any": "any"}
SHORT = {"-C": "--directory", "-g": "--global", "-u": "--user", "-l": "--local", "-a": "--any"}
PROJECT_OPTIONS = (
    Option("--trust"),
    Option("--directory", ("DIR",)),
    Option("--config-home", ("DIR",)),
    Option("--config-file", ("FILE",)),
    Option("--profile", ("NAME",)),
)
"""Which project, as other opta commands take it."""

COMMON_OPTIONS = (
    Option("--scope", ("SCOPE",), choices=("local", "user", "global", "any")),
    *(Option(name) for name in SCOPES),
    *PROJECT_OPTIONS,
)
"""What every command takes: whose tool, and which project (as other opta commands do)."""


def parse(words: Sequence[str], options: Sequence[Option]) -> Parsed:
    """Read `words` by `options`; `--` ends the options. Raises OptionError."""
    return _Parser(words, options).parse()


class _Parser:
    def __init__(self, words: Sequence[str], options: Sequence[Option]) -> None:
        self.words = list(words)
        self.at = 0
        self.known: Mapping[str, Option] = {option.name: option for option in options}
        self.parsed = Parsed()
        self.latest: dict[str, Group] = {}

    def parse(self) -> Parsed:
        for word in self._rest():
            if word == "--":
                self.parsed.words += self.words[self.at :]
                break
            if word.startswith("-") and word != "-":
                self._option(word)
            else:
                self.parsed.words.append(word)
        return self.parsed

    def _rest(self) -> Iterator[str]:
        while self.at < len(self.words):
            self.at += 1
            yield self.words[self.at - 1]

    def _option(self, word: str) -> None:
        name, equals, given = word.partition("=")
        option = self.known.get(SHORT.get(name, name))
        if option is None:
            raise OptionError(f"unknown option {name}{nearest(name, self.known)}")
        if equals and len(option.values) != 1:
            what = "no value" if not option.values else " ".join(option.values)
            raise OptionError(f"{name} takes {what}, not ={given}")
        values = (given,) if equals else tuple(self._value(name, v) for v in option.values)
        if option.name in SCOPES:
            self._scope(SCOPES[option.name], name)
        elif option.name == "--scope":
            self._scope(_converted(option, values[0]), f"--scope {values[0]}")
        elif len(option.values) > 1:
            self._begin(option, values)
        else:
            self._store(option, _converted(option, values[0]) if values else True)

    def _value(self, name: str, what: str) -> str:
        word = self.words[self.at] if self.at < len(self.words) else None
        # A value may begin with a dash; a word that is an option here is a forgotten value.
        if word is None or word in self.known or word in SHORT:
            found = "" if word is None else f", found {word}"
            raise OptionError(f"{name} needs {what}{found}")
        self.at += 1
        return word

    def _scope(self, scope: str, written: str) -> None:
        known = self.parsed.options.setdefault("--scope", scope)
        if known != scope:
            raise OptionError(f"{written} contradicts the scope {known} given before: name one")

    def _join(self, option: Option, name: str, value: str) -> None:
        groups = self.parsed.groups.setdefault(option.joins, [])
        group = next((known for known in groups if known.words[0] == name), None)
        if group is None:
            group = Group((name,))
            groups.append(group)
        self.latest[option.joins] = group
        self._put(group.options, option, value)

    def _begin(self, option: Option, values: tuple[str, ...]) -> None:
        if option.joins:
            self._join(option, *values)
            return
        group = self.latest[option.name] = Group(values)
        while option.pairs and self.at < len(self.words):
            key, equals, value = self.words[self.at].partition("=")
            if not equals or key.startswith("-"):
                break
            if key not in option.pairs:
                raise OptionError(
                    f"{option.name} {values[0]}: unknown setting {key}"
                    f"{nearest(key, option.pairs)}; it can be {', '.join(option.pairs)}"
                )
            group.pairs.append((key, value))
            self.at += 1
        self.parsed.groups.setdefault(option.name, []).append(group)

    def _store(self, option: Option, value: Any) -> None:
        if not option.of:
            self._put(self.parsed.options, option, value)
        elif option.of in self.latest:
            self._put(self.latest[option.of].options, option, value)
        else:
            raise OptionError(
                f"{option.name} belongs to the {option.of} before it, and there is none"
            )

    def _put(self, target: dict[str, Any], option: Option, value: Any) -> None:
        if option.many:
            target.setdefault(option.name, []).append(value)
        elif target.setdefault(option.name, value) != value:
            raise OptionError(f"{option.name} is given twice")


def nearest(name: str, known: Iterable[str]) -> str:
    """Return which of the `known` names is meant, as a question in brackets, or nothing."""
    near = get_close_matches(name, list(known), 1)
    return f" (did you mean {near[0]}?)" if near else ""


def _converted(option: Option, text: str) -> Any:
    if option.choices and text not in option.choices:
        raise OptionError(f"{option.name} can be {', '.join(option.choices)}, not {text!r}")
    try:
        return option.convert(text)
    except ValueError as error:
        raise OptionError(f"{option.name} must be {error}, not {text!r}") from None
