"""Finds where in a shell script its placeholders stand: bare, in which quotes, in a document, …

The script is read once from left to right, with a stack of what is open, as bash reads it. What
bash and this reading could take differently is refused, so that a place is never guessed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from tools.engine.template_command import DECLARING, DYNAMIC, PLACE, Quoting
from tools.engine.template_expansions import ExpansionReader
from tools.engine.template_frames import Frame, Heredoc, Kind, Scan, Word

MAX_INNER = 20
"""How deep here-documents and backquotes may hold each other: each level is read again."""

_BLANKS_AND_PLAIN = re.compile(r"([ \t]*)([^ \t\n'\"\\$`;&|()<>\0]*)")
_OPERATOR = re.compile(r";;&|;;|;&|&&|\|\||\|&|[;&|]")
_DELIMITER = re.compile(r"[ \t]*((?:[^ \t\n'\"\\$`;&|()<>\0]|'[^'\n\0]*'|\"[^\"\n\0$`\\]*\"|\\.)+)")
_REDIRECTION = re.compile(r"&>>|&>|<<<|<<-|<<|<&|<>|<|>>|>&|>\||>")
_SIMPLE_DELIMITER = re.compile(r"[\w.-]+")


def scan(text: str, *, bash: bool) -> Scan:
    """Read a script in which each placeholder is one NUL character.

    `bash` False reads it as a POSIX shell. Raises ScanError.
    """
    scanner = _Scanner(text, bash=bash)
    scanner.run()
    scanner.finish()
    places = sorted(scanner.places, key=lambda place: place.index)
    edits = sorted(scanner.edits, key=lambda edit: edit.start)
    return Scan(tuple(places), tuple(edits), tuple(scanner.inert), scanner.flow)


class _Scanner(ExpansionReader):
    """Reads commands, redirections and here-documents."""

    def run(self) -> None:
        """Read to the end of the text."""
        if self.level > MAX_INNER:
            raise self._error("Here-documents and backquotes are nested too deeply.", 0)
        length = len(self.text)
        while self.at < length:
            _READ_IN[self.frames[-1].kind](self)
        frame = self.frames[-1]
        if len(self.frames) > 1:
            raise self._error("What opens here is not closed.", frame.at)
        if frame.kind is Kind.COMMAND:
            self._end_command()
            if frame.heredocs or frame.cases or frame.conditional:
                raise self._error("The script ends within a command.", len(self.text))

    def _in_command(self) -> None:
        frame, text = self.frames[-1], self.text
        found = _BLANKS_AND_PLAIN.match(text, self.at)
        assert found is not None
        blanks, plain = found.groups()
        if blanks:
            self._end_word()
            self.at += len(blanks)
        if plain and (plain[0] != "#" or frame.word is not None):
            self._add(plain)
            self.at = found.end()
        if self.at < len(text) and text[self.at] not in " \t":
            self._special(frame, text[self.at])

    def _special(self, frame: Frame, character: str) -> None:
        if frame.conditional and character in "\n;&|()<>":
            # The word may be the `]]` that ends the condition.
            self._end_word()
        if character == "\n":
            self._newline(frame)
        elif character in "<>" or self.text.startswith("&>", self.at):
            self._redirection(frame)
        elif character in ";&|":
            self._separator(frame)
        elif character == "(":
            self._open_parenthesis(frame)
        elif character == ")":
            self._close_parenthesis(frame)
        elif character == "#":
            self._comment()
        elif character == '"':
            self._open_double()
        elif character == "\\":
            self._backslash()
        else:
            self._common(character, bare=True)

    def _newline(self, frame: Frame) -> None:
        if frame.kind is Kind.ARRAY or frame.conditional or frame.in_pattern:
            self._end_word()
        else:
            self._end_command()
        self.at += 1
        if frame.heredocs:
            documents, frame.heredocs = frame.heredocs, []
            self.pending -= len(documents)
            for document in documents:
                self._read_document(document)
        elif self.pending:
            raise self._error("A here-document and a substitution overlap here.", self.at - 1)

    def _separator(self, frame: Frame) -> None:
        if frame.kind is Kind.ARRAY:
            raise self._error("An array cannot hold this character unquoted.", self.at)
        operator = _OPERATOR.match(self.text, self.at)
        assert operator is not None
        if frame.conditional:
            frame.command.words.append(operator[0])
        elif frame.in_pattern:
            self._end_word()
        else:
            self._end_command(operator[0])
            if operator[0] in (";;", ";&", ";;&") and frame.cases:
                frame.cases[-1] = True
        self.at = operator.end()

    def _open_parenthesis(self, frame: Frame) -> None:
        word = frame.word
        if frame.conditional or (frame.in_pattern and word is None):
            self._end_word()
            self.at += 1
        elif word is not None and self._begins_extglob(frame, word):
            self._open(Kind.EXTGLOB, ")", 1, inner=True)
        elif word is not None and word.assigns and word.parts[-1].endswith("="):
            self._open_array(frame)
        elif word is not None and word.placed:
            raise self._error(
                "stands before a parenthesis. Put a blank between them", self.at,
                self.next_place - 1,
            )  # fmt: skip
        elif self.text.startswith("((", self.at) and word is None and self._may_compute(frame):
            self._open_arithmetic_command(frame)
        else:
            if word is not None and self.text.startswith("()", self.at):
                self.flow.functions.add("".join(word.parts))
            self._end_word()
            self._open(Kind.COMMAND, ")", 1)
            self.frames[-1].command = frame.command.within()
            self.frames[-1].subshell = True

    @staticmethod
    def _begins_extglob(frame: Frame, word: Word) -> bool:
        if word.parts == ["!"] and not frame.command.words and not frame.in_pattern:
            return False
        return bool(word.parts) and word.parts[-1][-1] in "?*+@!"

    @staticmethod
    def _may_compute(frame: Frame) -> bool:
        return frame.command.words in ([], ["for"])

    def _open_array(self, frame: Frame) -> None:
        if not self.bash:
            raise self._error("sh has no arrays. Use bash.", self.at)
        if frame.kind is Kind.ARRAY:
            raise self._error("An array cannot hold an array.", self.at)
        name, _ = frame.command.builtin()
        if name in DECLARING or not frame.command.words:
            self.declarations.arrays = True
        self._open(Kind.ARRAY, ")", 1)

    def _open_arithmetic_command(self, frame: Frame) -> None:
        if not self.bash:
            raise self._error("sh has no `((`. Write `( (` for subshells, or use bash.", self.at)
        frame.command = frame.command.begin()
        self._open(Kind.ARITHMETIC, "))", 2)

    def _close_parenthesis(self, frame: Frame) -> None:
        self._end_word()
        if frame.conditional:
            self.at += 1
        elif frame.kind is Kind.ARRAY:
            self._close(1)
            # Not a value any more: `a=(x){Y}` is not an assignment of Y.
            self._add("\2", quoted=True)
        elif frame.in_pattern:
            frame.cases[-1] = False
            frame.command = frame.command.begin()
            self.at += 1
        elif frame.close == ")":
            self._end_command()
            if frame.heredocs or frame.cases:
                raise self._error("A command is not complete here.", self.at)
            self._close(1)
            if frame.subshell:
                self.frames[-1].command = self.frames[-1].command.begin()
            else:
                self._add(DYNAMIC, quoted=True)
        else:
            raise self._error("This parenthesis closes nothing.", self.at)

    def _comment(self) -> None:
        end = self.text.find("\n", self.at)
        end = end if end >= 0 else len(self.text)
        for _ in range(self.text.count(PLACE, self.at, end)):
            self._place(Quoting.COMMENT)
        self._note_inert(end)
        self.at = end

    def _redirection(self, frame: Frame) -> None:
        if frame.kind is Kind.ARRAY and self.text[self.at + 1 : self.at + 2] != "(":
            raise self._error("An array cannot hold this character unquoted.", self.at)
        if frame.conditional:
            frame.command.words.append(self.text[self.at])
            self.at += 1
            return
        if self.text[self.at + 1 : self.at + 2] == "(" and self.text[self.at] in "<>":
            self._bash_only("process substitution")
            self._open_command()
            return
        word = frame.word
        if word is not None and "".join(word.parts[:2]).isdigit() and not word.quoted:
            frame.word = None
        self._end_word()
        operator = self._match(_REDIRECTION)
        if operator in ("<<", "<<-"):
            self._begin_document(frame, operator)
            return
        if operator == "<<<":
            self._bash_only("`<<<`")
        frame.redirects, frame.feeds = True, operator == "<<<"

    def _begin_document(self, frame: Frame, operator: str) -> None:
        delimiter = _DELIMITER.match(self.text, self.at)
        if delimiter is None or self.text[delimiter.end() : delimiter.end() + 1] in (
            "'", '"', "\\", "$", "`", PLACE,
        ):  # fmt: skip
            raise self._error("The delimiter of this here-document cannot be read.", self.at)
        bare = re.sub(r"\\(.)|['\"]", r"\1", delimiter[1])
        frame.heredocs.append(
            Heredoc(
                bare, bare != delimiter[1], operator == "<<-", delimiter.start(1),
                delimiter.end(), frame.command,
            )
        )  # fmt: skip
        self.pending += 1
        self.at = delimiter.end()

    def _read_document(self, document: Heredoc) -> None:
        start, end = self.at, self._document_end(document)
        body = self.text[start:end]
        count = body.count(PLACE)
        if document.quoted:
            self._quoted_document(document, start, body, count)
        else:
            self._document_with_expansions(document, start, body)
        newline = self.text.find("\n", end)
        self.at = newline + 1 if newline >= 0 else len(self.text)

    def _document_end(self, document: Heredoc) -> int:
        """Return where the line with the delimiter starts."""
        at, continued = self.at, False
        while at <= len(self.text):
            newline = self.text.find("\n", at)
            line = self.text[at : newline if newline >= 0 else len(self.text)]
            if document.strip_tabs:
                line = line.lstrip("\t")
            if line == document.delimiter and not continued:
                return at
            if newline < 0:
                break
            slashes = len(line) - len(line.rstrip("\\"))
            continued = not document.quoted and slashes % 2 == 1
            at = newline + 1
        raise self._error("This here-document has no end.", document.start)

    def _document_with_expansions(self, document: Heredoc, start: int, body: str) -> None:
        frame = Frame(Kind.DOCUMENT, "", 0, document.command, quoted=True)
        inner = type(self)(
            body,
            bash=self.bash,
            outer=self,
            start=None if self.start is None else self.start + start,
            error_at=self.error_at,
            first_place=self.next_place,
            frame=frame,
        )
        inner.delimiter = document.delimiter
        inner.run()
        self.next_place = inner.next_place

    def _quoted_document(self, document: Heredoc, start: int, body: str, count: int) -> None:
        """Make the document one with expansions, and its own text safe from them."""
        if not count:
            return
        first = self.next_place
        if not _SIMPLE_DELIMITER.fullmatch(document.delimiter):
            raise self._error("stands in a here-document with an odd delimiter", start, first)
        for _ in range(count):
            self._place(Quoting.DOCUMENT, document.command).delimiter = document.delimiter
        self._edit(document.start, document.end, document.delimiter, first)
        for special in re.finditer(r"[\\$`]", body):
            at = start + special.start()
            self._edit(at, at, "\\", first)


_READ_IN: Mapping[Kind, Callable[[_Scanner], None]] = {
    Kind.COMMAND: _Scanner._in_command,
    Kind.ARRAY: _Scanner._in_command,
    Kind.DOUBLE: _Scanner._in_double,
    Kind.PARAMETER: _Scanner._in_parameter,
    Kind.ARITHMETIC: _Scanner._in_arithmetic,
    Kind.EXTGLOB: _Scanner._in_extglob,
    Kind.DOCUMENT: _Scanner._in_document,
}
