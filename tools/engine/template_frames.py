"""What is open while a shell script is read, and what has been found in it."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import field
from enum import IntEnum, auto

from tools.engine.template_command import Command, Declarations, Place, Quoting
from tools.engine.template_flow import Flow
from tools.record import mutable, record


@record
class Edit:
    """A change of the script's own text: `start` to `end` becomes `text`."""

    start: int
    end: int
    text: str


@record
class Scan:
    """Where the placeholders stand, in order, and the changes that make room for values there.

    `inert` are the stretches (start, end) in which nothing is expanded: single quotes, comments.
    `flow` is what the script does with its variables.
    """

    places: tuple[Place, ...]
    edits: tuple[Edit, ...]
    inert: tuple[tuple[int, int], ...]
    flow: Flow = field(default_factory=Flow)


class ScanError(Exception):
    """The script has a place that cannot be understood. `place` is a placeholder's index, or
    None: then `at` is an offset in the script.
    """

    def __init__(self, message: str, at: int, place: int | None = None) -> None:
        super().__init__(message)
        self.message, self.at, self.place = message, at, place


class Kind(IntEnum):
    """What is open. Numbers, because they are looked up for every character that matters."""

    COMMAND = auto()
    ARRAY = auto()
    DOUBLE = auto()
    PARAMETER = auto()
    ARITHMETIC = auto()
    EXTGLOB = auto()
    DOCUMENT = auto()


@mutable
class Word:
    """The word that is being read. `assigns`: what follows is a variable's value; `literal`: it
    has text of its own, so that no value begins it.
    """

    parts: list[str] = field(default_factory=list)
    assigns: bool = False
    subscript: bool = False
    quoted: bool = False
    placed: bool = False
    literal: bool = False


@mutable
class Heredoc:
    delimiter: str
    quoted: bool
    strip_tabs: bool
    start: int
    end: int
    command: Command


@mutable
class Frame:
    """Something open. `owner` is the frame whose word or number this is part of.

    `quoted` says that double quotes or a document are around; `operator` is what a `${…}` does:
    None while its name is read, `:` for defaults, `#` for patterns; `name` is its variable. `feeds`
    says that the redirection is one from text (`<<<`).
    """

    kind: Kind
    close: str
    at: int
    command: Command
    owner: Frame | None = None
    quoted: bool = False
    operator: str | None = None
    depth: int = 0
    word: Word | None = None
    redirects: bool = False
    feeds: bool = False
    name: str = ""
    conditional: bool = False
    subshell: bool = False
    cases: list[bool] = field(default_factory=list)
    conditional_places: list[Place] = field(default_factory=list)
    heredocs: list[Heredoc] = field(default_factory=list)

    @property
    def in_pattern(self) -> bool:
        """True where a `case` expects a pattern."""
        return bool(self.cases) and self.cases[-1]


class Reader(ABC):
    """A script, how far it is read, what is open there, and the places found so far.

    `start` is where the text begins in the whole script, None where backquotes have changed it:
    then `error_at` is where errors are reported.
    """

    def __init__(
        self,
        text: str,
        *,
        bash: bool,
        outer: Reader | None = None,
        start: int | None = 0,
        error_at: int = 0,
        first_place: int = 0,
        frame: Frame | None = None,
    ) -> None:
        self.text, self.bash = text, bash
        self.at = 0
        self.start, self.error_at = start, error_at
        self.next_place = first_place
        self.level: int = outer.level + 1 if outer else 0
        self.places: list[Place] = outer.places if outer else []
        self.edits: list[Edit] = outer.edits if outer else []
        self.inert: list[tuple[int, int]] = outer.inert if outer else []
        self.backquotes: int = outer.backquotes + (start is None) if outer else 0
        self.declarations: Declarations = outer.declarations if outer else Declarations()
        self.flow: Flow = outer.flow if outer else Flow()
        root = frame or Frame(Kind.COMMAND, "", 0, Command())
        self.frames = [root]
        self.delimiter = ""
        self.pending = 0

    @abstractmethod
    def run(self) -> None:
        """Read to the end of the text. Raises ScanError."""

    def _error(self, message: str, at: int, place: int | None = None) -> ScanError:
        return ScanError(message, self.error_at if self.start is None else self.start + at, place)

    def _edit(self, start: int, end: int, text: str, place: int) -> None:
        if self.start is None:
            raise self._error(
                "stands where backquotes hide the quoting. Write $(…) for them", start, place
            )
        self.edits.append(Edit(self.start + start, self.start + end, text))

    def _place(self, quoting: Quoting, command: Command | None = None) -> Place:
        """Note the next placeholder."""
        place = Place(self.next_place, quoting, command or self.frames[-1].command)
        place.backquotes = self.backquotes
        self.next_place += 1
        self.places.append(place)
        return place

    def _owner(self) -> Frame:
        frame = self.frames[-1]
        return frame.owner or frame

    def _open(self, kind: Kind, close: str, length: int, *, inner: bool = False) -> None:
        above = self.frames[-1]
        self.frames.append(
            Frame(
                kind, close, self.at, above.command,
                owner=(above.owner or above) if inner else None,
                quoted=above.quoted and inner,
            )
        )  # fmt: skip
        self.at += length

    def _close(self, length: int) -> None:
        self.frames.pop()
        self.at += length

    def _match(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self.text, self.at)
        assert found is not None
        self.at = found.end()
        return found[0]

    def _bash_only(self, what: str) -> None:
        if not self.bash:
            raise self._error(f"sh has no {what}. Use bash.", self.at)

    def _note_inert(self, end: int) -> None:
        if self.start is not None:
            self.inert.append((self.start + self.at, self.start + end))
