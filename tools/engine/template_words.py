"""Reads the words of shell commands, and works out what a placeholder in one means."""

from __future__ import annotations

import re

from tools.engine.template_command import (
    DECLARING,
    DYNAMIC,
    INTEGER_VARIABLES,
    PLACE,
    Command,
    Misplaced,
    Place,
    Quoting,
    check_conditional,
    check_word,
    test_is_safe,
)
from tools.engine.template_flow import run_variable
from tools.engine.template_frames import Frame, Kind, Reader, ScanError, Word

_KEYWORDS = frozenset(
    {"if", "then", "else", "elif", "do", "while", "until", "!", "{", "}", "fi", "done", "esac",
     "time"}
)  # fmt: skip
_HEADS = frozenset({"case", "for", "function", "select"})
_HOLD_WORDS = frozenset({Kind.COMMAND, Kind.ARRAY})
_ASSIGNS = re.compile(r"[A-Za-z_]\w*(?:\[.*\])?\+?=", re.ASCII | re.DOTALL)
_SUBSCRIPT = re.compile(r"[A-Za-z_]\w*\[", re.ASCII)
_RUNS_ITS_VALUE = re.compile(
    r"(?:PS4|BASH_ENV|PROMPT_COMMAND)\+?=|(?:BASH_ALIASES|BASH_CMDS|PROMPT_COMMAND)\["
)


class WordReader(Reader):
    """Tells words, keywords and assignments apart, and what a place in each means."""

    def _in_word(self, place: Place) -> None:
        """Work out what the place means for the word, the number or the document it is in."""
        frame = self._owner()
        try:
            if frame.kind is Kind.ARITHMETIC:
                self._in_number(place)
            elif frame.kind is Kind.COMMAND:
                self._in_command_word(place, frame)
            elif frame.kind is Kind.ARRAY:
                self._in_array(place, frame)
            elif frame.kind is Kind.DOCUMENT:
                place.delimiter = self.delimiter
            elif place.quoting is Quoting.WORDS:
                place.quoting = Quoting.WORD
        except Misplaced as misplaced:
            raise self._error(misplaced.message, self.at, place.index) from misplaced

    def _in_number(self, place: Place) -> None:
        if place.quoting in (Quoting.SINGLE, Quoting.ANSI):
            raise Misplaced("stands in quotes within a calculation. Leave out the quotes")
        place.integer, place.quoting = True, Quoting.DOUBLE

    def _in_array(self, place: Place, frame: Frame) -> None:
        word = self._begin_word(frame)
        if word.parts and word.parts[0].startswith("["):
            if not any("]=" in part for part in word.parts):
                raise Misplaced("stands in a subscript, which bash may run. Assign it by number")
            if place.quoting is Quoting.WORDS:
                place.quoting = Quoting.WORD
        self._mark(word)
        self.declarations.assigning.append(place)
        array = self.frames[self.frames.index(frame) - 1].word
        if array is not None:
            self.flow.give(place, "".join(array.parts[:1]))

    def _in_command_word(self, place: Place, frame: Frame) -> None:
        word = self._begin_word(frame)
        words = frame.command.words
        place.leading = not word.literal
        if word.parts and _RUNS_ITS_VALUE.match(word.parts[0]):
            raise Misplaced("stands in a variable whose value bash runs. Write the value")
        if frame.in_pattern or frame.redirects:
            self._one_word(place)
            place.leading = False
            place.feeds = frame.redirects and frame.feeds
        elif frame.conditional:
            self._one_word(place)
            place.word, place.leading = len(words), False
            frame.conditional_places.append(place)
        elif word.subscript:
            self._in_number(place)
        elif not words and word.assigns:
            self._one_word(place)
            self.declarations.assigning.append(place)
            self.flow.give(place, word.parts[0])
            place.integer = bool(INTEGER_VARIABLES.match(word.parts[0]))
        else:
            self._in_argument(place, words, word)
        self._mark(word)

    def _in_argument(self, place: Place, words: list[str], word: Word) -> None:
        place.word = len(words)
        first = words[0] if words else ""
        if first in ("for", "select"):
            if len(words) == 1:
                raise Misplaced("stands where a loop takes a name. Write a name")
            self.declarations.assigning.append(place)
            self.flow.give(place, words[1])
            place.integer = bool(INTEGER_VARIABLES.match(words[1]))
            place.leading = False
        elif first == "case":
            self._one_word(place)
            place.leading = False
        elif first == "function":
            raise Misplaced("stands where a function takes its name. Write a name")
        else:
            prefix = "".join(word.parts[:2])
            check_word(place, prefix, self.declarations)
            if first in DECLARING or run_variable(prefix):
                self.flow.give(place, prefix)

    def _use(self, name: str) -> None:
        """Note an expansion of a variable of the script's own."""
        frame = self._owner()
        if frame.kind is Kind.ARITHMETIC:
            self.flow.compute_name(name, frame.name)
        elif frame.kind is Kind.COMMAND and not frame.in_pattern:
            word = frame.word or Word()
            if word.subscript:
                self.flow.compute_name(name, word.parts[0].partition("[")[0])
                return
            index = None if frame.redirects or word.assigns else len(frame.command.words)
            use = Place(-1, Quoting.DOUBLE, frame.command, word=index)
            text = "".join(word.parts[:2])
            self.flow.use(name, use, text, assigns=word.assigns, conditional=frame.conditional)

    @staticmethod
    def _one_word(place: Place) -> None:
        if place.quoting is Quoting.WORDS:
            place.quoting = Quoting.WORD

    @staticmethod
    def _mark(word: Word) -> None:
        word.parts.append(PLACE)
        word.placed = True

    def _begin_word(self, frame: Frame) -> Word:
        if frame.word is None:
            frame.word = Word()
        return frame.word

    def _add(self, text: str, *, quoted: bool = False) -> None:
        """Add literal text to the word that is open, if this is part of one."""
        frame = self._owner()
        if frame.kind not in _HOLD_WORDS:
            return
        word = self._begin_word(frame)
        first = not word.parts and not word.quoted
        word.quoted = word.quoted or quoted
        if text:
            word.parts.append(text)
            word.literal = word.literal or text != DYNAMIC
        if quoted:
            return
        if first and "=" in text and not frame.in_pattern and _ASSIGNS.match(text):
            word.assigns = True
            array, _, subscript = text.partition("=")[0].partition("[")
            if subscript:
                self.flow.compute(subscript, array)
        elif (
            first
            and "[" in text
            and "]" not in text
            and not frame.command.words
            and _SUBSCRIPT.match(text)
        ):
            word.subscript = True
        elif word.subscript and "]" in text:
            word.subscript = False
            word.assigns = bool(re.search(r"\]\+?=", text))

    def _end_word(self) -> None:
        frame = self.frames[-1]
        word, frame.word = frame.word, None
        if word is None or frame.kind is Kind.ARRAY:
            return
        if word.subscript:
            raise self._error(
                "This subscript holds a blank, which bash reads as part of it. Leave it out.",
                self.at,
            )
        if frame.redirects:
            frame.redirects = False
            return
        text = "".join(word.parts)
        if frame.in_pattern:
            if text == "esac" and not word.quoted:
                frame.cases.pop()
                frame.command = frame.command.begin()
            return
        if frame.command.words or not self._is_grammar(frame, word, text):
            self._take_word(frame, word, text)

    def _is_grammar(self, frame: Frame, word: Word, text: str) -> bool:
        """Tell whether a command's first word is none: a keyword or an assignment."""
        if word.assigns or word.quoted:
            return word.assigns
        if text == "esac" and frame.cases:
            frame.cases.pop()
        if text == "[[":
            if not self.bash:
                raise self._error("sh has no `[[`. Use `[`, or bash.", self.at)
            frame.conditional = True
            frame.conditional_places = []
            return False
        return text in _KEYWORDS

    def _take_word(self, frame: Frame, word: Word, text: str) -> None:
        words = frame.command.words
        words.append(text)
        if frame.conditional:
            if text == "]]" and not word.quoted:
                self._end_conditional(frame, words)
        elif words[0] in _HEADS:
            self._end_head(frame, words, text)

    def _end_conditional(self, frame: Frame, words: list[str]) -> None:
        frame.conditional = False
        self.flow.condition(words)
        try:
            check_conditional(words, frame.conditional_places)
        except Misplaced as misplaced:
            index = misplaced.place.index if misplaced.place else None
            raise self._error(misplaced.message, self.at, index) from misplaced

    @staticmethod
    def _end_head(frame: Frame, words: list[str], text: str) -> None:
        """Begin a command where the head of a compound one is complete."""
        if len(words) == 3 and words[0] == "case" and text == "in":
            frame.cases.append(True)
            frame.command = frame.command.begin()
        elif (len(words) == 2 and words[0] == "function") or (
            len(words) == 3 and words[0] in ("for", "select") and text in ("do", "{")
        ):
            frame.command = frame.command.begin()

    def _end_command(self, separator: str = "") -> None:
        self._end_word()
        frame = self.frames[-1]
        frame.redirects = False
        if frame.command.words:
            self._note_command(frame.command)
        follow = separator in ("|", "|&")
        frame.command = frame.command.follow() if follow else frame.command.begin()

    def _note_command(self, command: Command) -> None:
        """Take in a finished command."""
        name, at = command.builtin()
        operands = command.words[at + 1 :]
        self.declarations.note(name, operands)
        self.flow.note(command, name, operands)
        if self.bash and not test_is_safe(name, operands):
            index = next(p.index for p in reversed(self.places) if p.command is command)
            raise self._error(
                "may be taken for the operator `-v` here, whose operand bash may run. "
                "Put a literal operator before or after it, or use `[[`",
                self.at,
                index,
            )

    def finish(self) -> None:
        """Apply what the whole script says of its variables."""
        declared = self.declarations
        if declared.arrays and declared.declaring:
            raise ScanError(
                "is assigned by a declaration in a script with arrays, which bash may run. "
                "Assign it without the declaration",
                0,
                declared.declaring[0].index,
            )
        if declared.integers:
            for place in declared.assigning + declared.declaring:
                place.integer = True
