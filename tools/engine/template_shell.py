"""Puts values into scripts for `sh` and `bash`, so that a value is never shell text.

Each placeholder becomes an expansion of a variable, written as the quotes around it need (X87).
The variables are assigned ahead of the script and not exported: programs do not see them.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from tools.engine.hazards import (
    Hazard,
    carried,
    given_option,
    in_place,
    may_be_option,
    possible_option,
    raw,
    with_options,
)
from tools.engine.shell_scan import scan
from tools.engine.shell_variables import preamble, quote
from tools.engine.template import (
    Names,
    Placeholder,
    Template,
    TemplateError,
    Value,
    as_text,
    parse,
    value_of,
)
from tools.engine.template_command import DYNAMIC, PLACE, Place, Quoting
from tools.engine.template_flow import Flow
from tools.engine.template_frames import Scan, ScanError
from tools.engine.template_inner import InnerLanguages
from tools.record import open_record, record

SHELLS = frozenset({"sh", "bash"})
"""The kinds of shell whose scripts can be templates here."""

_INTEGER = re.compile(r"-?[0-9]{1,18}")
_SAFE = re.compile(r"[\w@%+=:,./-]+", re.ASCII)
_TOKEN = re.compile(r"[^ \t\n'\"\\]+|[ \t\n]+|\\[ \t\n'\"]|\\|['\"]")
_VARIABLE_END = re.compile(r"\$\w+$")
_NAME_CHARS = 200
_IN_DOUBLE = re.compile(r"\\([\\\"$`])")
_DOUBLE_END = re.compile(r'([^"\\]*(?:\\.[^"\\]*)*)"', re.DOTALL)


@record
class RenderedScript:
    """A script with values.

    `text` is what the shell evaluates after `preamble(variables)`. `shown` is the same script as a
    person reads it, with the values in place. `raw` says that a value became part of the text.
    `text_variable` is a name that the text does not use.
    """

    text: str
    variables: Mapping[str, str | list[str]]
    shown: str
    raw: bool = False
    hazards: tuple[Hazard, ...] = ()
    text_variable: str = "__opta_text"

    def program(self) -> str:
        """Return what a shell is told with `-c`; its one argument is a file of `assignments`.

        The text is evaluated, not read from that file, so that the shell counts its lines from
        1 and calls it by the name it was given (`$0`) in its messages.
        """
        return f'. "$1"; shift; eval "${{{self.text_variable}}}"'

    def assignments(self) -> bytes:
        """Return shell code that assigns the text and its values. Raises TemplateError."""
        return preamble({**self.variables, self.text_variable: self.text})


@record
class _Slot:
    """A placeholder in its place; `place` is None where the value is pasted as it is."""

    placeholder: Placeholder
    place: Place | None
    words: bool | None
    before: str
    after: str

    @property
    def may_be_option(self) -> bool:
        """Whether a value here, or a word of it, may be read as an option."""
        if self.place is None or not may_be_option(self.place):
            return False
        return self.place.leading or (
            self.place.quoting is Quoting.WORDS and self.words is not True
        )


@open_record
class ShellTemplate:
    """A script whose placeholders have all been placed. Made by `compile_shell`."""

    template: Template
    kind: str
    prefix: str
    pieces: tuple[str | _Slot, ...]
    flow: Flow
    refused: TemplateError | None = None

    @property
    def placeholders(self) -> tuple[Placeholder, ...]:
        """The places for values, in order."""
        return self.template.placeholders

    @cached_property
    def hazards(self) -> tuple[Hazard, ...]:
        """What any value can do in its place, but for options."""
        return tuple(_hazards(self.pieces, self.flow))

    @property
    def possible(self) -> tuple[Hazard, ...]:
        """Return what values can do in their places: `hazards`, and being options."""
        slots = (piece for piece in self.pieces if isinstance(piece, _Slot))
        options = (
            possible_option(slot.placeholder, leading=slot.place is None or slot.place.leading)
            for slot in slots
            if slot.may_be_option
        )
        return with_options(self.hazards, options)

    def quoting(self, placeholder: Placeholder) -> Quoting | None:
        """Return how a placeholder of this template is quoted, None where it is pasted."""
        slots = (piece for piece in self.pieces if isinstance(piece, _Slot))
        slot = next(slot for slot in slots if slot.placeholder is placeholder)
        return None if slot.place is None else slot.place.quoting

    def render(self, values: Mapping[str, Value]) -> RenderedScript:
        """Put values (by key) in.

        Raises TemplateError for an unknown name or a missing value (X93), a NUL character, text
        that is not Unicode, and what is no integer where the shell calculates.
        """
        if self.refused is not None:
            raise self.refused
        return _Rendering(self, values).run()


def compile_shell(
    source: str,
    names: Names,
    *,
    kind: str = "bash",
    escape: Mapping[str, bool | None] | None = None,
) -> ShellTemplate:
    """Read a script for `kind` (`sh` or `bash`) as a template.

    `escape` is `escape-shell` by parameter (X85): None splits a bare value into words, True keeps
    it one word, False pastes it. Raises TemplateError where a placeholder cannot be placed.
    """
    if kind not in SHELLS:
        raise TemplateError(
            f"Values cannot be placed in a script for {kind}. Read them from the environment."
        )
    return _Compiler(parse(source, names), names, kind, escape or {}).run()


class _Compiler:
    def __init__(
        self, template: Template, names: Names, kind: str, escape: Mapping[str, bool | None]
    ) -> None:
        self.template, self.names, self.kind, self.escape = template, names, kind, escape
        self.marks: list[str] = []
        self.offsets: list[int] = []
        self.sources: list[int] = []
        self._mark()

    def _mark(self) -> None:
        """Replace each placeholder by one character, and remember where that was."""
        at = source = 0
        for part in self.template.parts:
            if isinstance(part, str):
                if PLACE in part:
                    raise TemplateError("A script cannot hold a NUL character.")
                mark = part
            else:
                mark, source = (DYNAMIC if self._is_raw(part) else PLACE), part.start
            self.offsets.append(at)
            self.sources.append(source)
            self.marks.append(mark)
            at += len(mark)
            source = part.end if isinstance(part, Placeholder) else source + len(part)

    def run(self) -> ShellTemplate:
        marked = "".join(self.marks)
        result = self._scanned(marked)
        prefix = "__opta"
        while prefix in marked:
            prefix += "_"
        pieces = tuple(self._pieces(marked, result))
        return ShellTemplate(
            self.template, self.kind, prefix, pieces, result.flow, self._refusal(result)
        )

    def _scanned(self, marked: str) -> Scan:
        """Read the script, where it matters what stands in it."""
        if PLACE in marked or self.template.unknown:
            try:
                return scan(marked, bash=self.kind == "bash")
            except ScanError as error:
                if PLACE in marked:
                    raise self._located(error) from error
        return Scan((), (), ())

    def _is_raw(self, placeholder: Placeholder) -> bool:
        return (
            self.escape.get(placeholder.name) is False
            and not placeholder.expression
            and placeholder.step_property is None
        )

    def _located(self, error: ScanError) -> TemplateError:
        if error.place is not None:
            places = [p for p in self.template.placeholders if not self._is_raw(p)]
            return places[error.place].fail(f"{error.message}.")
        line, column = self._position(error.at)
        return TemplateError(
            f"{error.message} So the placeholders cannot be placed safely.", line, column
        )

    def _position(self, marked_at: int) -> tuple[int, int]:
        part = max(bisect_right(self.offsets, marked_at) - 1, 0)
        inside = marked_at - self.offsets[part] if self.offsets else 0
        at = (self.sources[part] if self.sources else 0) + inside
        source = self.template.source
        return source.count("\n", 0, at) + 1, at - source.rfind("\n", 0, at)

    def _pieces(self, marked: str, result: Scan) -> Iterator[str | _Slot]:
        """Yield the script's own text with the scan's edits, and the slots in it."""
        edits = iter([*result.edits, None])
        edit, places = next(edits), iter(result.places)
        for part, offset, mark in zip(self.template.parts, self.offsets, self.marks, strict=True):
            end, at = offset + len(mark), offset
            text = []
            while edit is not None and edit.start < end:
                text += [marked[at : edit.start], edit.text]
                at = edit.end
                edit = next(edits)
            if isinstance(part, Placeholder):
                if text:
                    yield "".join(text)
                place = None if mark == DYNAMIC else next(places)
                yield _Slot(
                    part, place, self._escape_of(part), marked[offset - 1 : offset],
                    marked[end : end + 1],
                )  # fmt: skip
            else:
                yield "".join([*text, marked[at:end]])

    def _escape_of(self, placeholder: Placeholder) -> bool | None:
        if placeholder.step_property is None and placeholder.name not in self.names.parameters:
            return True
        return self.escape.get(placeholder.name)

    def _refusal(self, result: Scan) -> TemplateError | None:
        starts = [start for start, _ in result.inert]
        for unknown in self.template.unknown:
            at = self._marked_offset(unknown.start)
            stretch = bisect_right(starts, at) - 1
            if stretch < 0 or at >= result.inert[stretch][1]:
                return unknown.error()
        return None

    def _marked_offset(self, source_at: int) -> int:
        part = max(bisect_right(self.sources, source_at) - 1, 0)
        return self.offsets[part] + source_at - self.sources[part]


def _hazards(pieces: Sequence[str | _Slot], flow: Flow) -> Iterator[Hazard]:
    languages = InnerLanguages()
    harmless: dict[Place, Placeholder] = {}
    for slot in pieces:
        if isinstance(slot, str):
            continue
        if slot.place is None:
            yield raw(slot.placeholder)
            continue
        found = list(in_place(slot.placeholder, slot.place, languages))
        yield from found
        if not found and not slot.place.integer:
            harmless[slot.place] = slot.placeholder
    for place, reader in flow.carried(harmless, languages.what_runs):
        yield carried(harmless[place], reader)


@dataclass
class _Rendering:
    shell: ShellTemplate
    values: Mapping[str, Value]
    variables: dict[str, str | list[str]] = field(default_factory=dict)
    names: dict[tuple[str, str], str] = field(default_factory=dict)
    hazards: list[Hazard] = field(default_factory=list)
    raw: bool = False

    def run(self) -> RenderedScript:
        text, shown = [], []
        for piece in self.shell.pieces:
            if isinstance(piece, str):
                text.append(piece)
                shown.append(piece)
                continue
            value = value_of(piece.placeholder, self.values)
            _check(piece.placeholder, value)
            if piece.place is None:
                self.raw = True
                text.append(as_text(value))
                shown.append(as_text(value))
            elif piece.place.quoting is Quoting.COMMENT:
                shown.append(f"{{{piece.placeholder.key}}}")
            else:
                self._put(piece, piece.place, value, text, shown)
        return RenderedScript(
            "".join(text), self.variables, "".join(shown), self.raw,
            (*self.shell.hazards, *self.hazards), f"{self.shell.prefix}_text",
        )  # fmt: skip

    def _put(
        self, slot: _Slot, place: Place, value: Value, text: list[str], shown: list[str]
    ) -> None:
        if place.integer and not _INTEGER.fullmatch(as_text(value)):
            raise slot.placeholder.fail("stands where the shell calculates: it must be an integer.")
        if place.quoting is Quoting.WORDS:
            words = words_of(value, one_word=slot.words is True)
            text.append(self._words(slot.placeholder.key, words))
            display = _shown_words(slot, place, words)
        else:
            words = [as_text(value)]
            name = self._variable(slot.placeholder.key, "text", words[0])
            text.append(_EXPANSIONS[place.quoting].replace("NAME", name))
            before = next((piece for piece in reversed(shown) if piece), "")
            display = _shown(slot, place, words[0], before[-_NAME_CHARS:])
        for _ in range(place.backquotes):
            display = re.sub(r"([\\`])", r"\\\1", display)
        shown.append(display)
        self._note_options(slot, place, words)

    def _words(self, key: str, words: list[str]) -> str:
        if not words:
            return f"${{{self._variable(key, 'none', '')}}}"
        if self.shell.kind == "bash":
            return f'"${{{self._variable(key, "words", words)}[@]}}"'
        return " ".join(
            f'"${{{self._variable(key, f"word {number}", word)}}}"'
            for number, word in enumerate(words)
        )

    def _variable(self, key: str, form: str, value: str | list[str]) -> str:
        if (key, form) not in self.names:
            name = f"{self.shell.prefix}_{len(self.names)}"
            self.names[key, form] = name
            self.variables[name] = value
        return self.names[key, form]

    def _note_options(self, slot: _Slot, place: Place, words: list[str]) -> None:
        """Note a value that a program may take for an option (X89)."""
        if may_be_option(place):
            starting = words if place.leading else words[1:]
            self.hazards += given_option(slot.placeholder, starting)


_EXPANSIONS = {
    Quoting.WORD: '"${NAME}"',
    Quoting.DOUBLE: "${NAME}",
    Quoting.DOCUMENT: "${NAME}",
    Quoting.SINGLE: "'\"${NAME}\"'",
    Quoting.ANSI: "'\"${NAME}\"$'",
}


def _check(placeholder: Placeholder, value: Value) -> None:
    text = as_text(value)
    if "\0" in text:
        raise placeholder.fail("holds a NUL character, which a shell cannot hold.")
    try:
        text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise placeholder.fail("holds half of a surrogate pair, which is no text.") from None


def words_of(value: Value, *, one_word: bool) -> list[str]:
    """Return the words that a value is in a bare position (X85, X97)."""
    if not isinstance(value, str):
        return list(value)
    return [value] if one_word else split_words(value)


def split_words(text: str) -> list[str]:
    """Split text at blanks as a shell does, quotes keeping words together; nothing is expanded.

    A backslash quotes a blank or a quote and is text elsewhere, so that paths and patterns keep
    theirs. A quote that is not closed is text.
    """
    words: list[str] = []
    word: list[str] | None = None
    at, unclosed = 0, set[str]()
    while at < len(text):
        token = _TOKEN.match(text, at)
        assert token is not None
        found, at = token[0], token.end()
        if found[0] in " \t\n":
            if word is not None:
                words.append("".join(word))
            word = None
            continue
        word = [] if word is None else word
        if found in "'\"" and found not in unclosed:
            content, end = _quoted(text, at, found)
            if end < 0:
                unclosed.add(found)
            else:
                found, at = content, end
        elif len(found) == 2 and found[0] == "\\":
            found = found[1]
        word.append(found)
    return words if word is None else [*words, "".join(word)]


def _quoted(text: str, at: int, quote: str) -> tuple[str, int]:
    """Return what is between the quote before `at` and the next, and where that ends, or -1."""
    if quote == "'":
        end = text.find("'", at)
        return text[at:end], end + 1 if end >= 0 else -1
    found = _DOUBLE_END.match(text, at)
    return (_IN_DOUBLE.sub(r"\1", found[1]), found.end()) if found else ("", -1)


# What a person reads


def _shown_word(text: str, *, plain: bool) -> str:
    return text if plain and _SAFE.fullmatch(text) else quote(text)


def _shown_words(slot: _Slot, place: Place, words: list[str]) -> str:
    if not words:
        alone = slot.before in " \t\n" and slot.after in " \t\n"
        return "" if alone and place.word else "$()"
    plain = bool(place.word) and slot.after not in ("<", ">")
    return " ".join(_shown_word(word, plain=plain) for word in words)


def _shown(slot: _Slot, place: Place, text: str, before: str) -> str:
    if place.integer:
        return text
    if place.quoting is Quoting.WORD:
        words = place.command.words
        plain = words[:1] != ["[["] and text != "esac" and slot.after not in ("<", ">")
        return _shown_word(text, plain=plain and not place.in_parameter)
    if place.quoting is Quoting.SINGLE:
        return text.replace("'", "'\\''")
    if place.quoting is Quoting.ANSI:
        return re.sub(r"([\\'])", r"\\\1", text)
    if place.delimiter:
        # A value must not look like the end of its document, and so hide what comes after.
        simple = "\n" not in text and text not in place.delimiter
    else:
        simple = not place.in_parameter or _SAFE.fullmatch(text) is not None
    if not simple or _VARIABLE_END.search(before):
        return _as_output(text)
    return re.sub(r"([\\$`])" if place.delimiter else r'([\\"$`])', r"\\\1", text)


def _as_output(text: str) -> str:
    """Return a value as a command that prints it: in one line, whatever is around it."""
    core = text.rstrip("\n")
    escaped = re.sub(r"([\\'])", r"\\\1", core).replace("\n", "\\n")
    rest = text[len(core) :]
    return f"$(printf %s $'{escaped}')" + (f"{rest}$()" if rest else "")
