"""Reads the quotes and expansions of shell scripts."""

from __future__ import annotations

import re

from tools.engine.template_command import DYNAMIC, PLACE, Quoting
from tools.engine.template_flow import output_of
from tools.engine.template_frames import Frame, Kind
from tools.engine.template_words import WordReader

_PLAIN = re.compile(r"[^ \t\n'\"\\$`;&|()<>\0]+")
_QUOTED = re.compile(r"[^\"\\$`\0]+")
_DOCUMENT = re.compile(r"[^\\$`\0]+")
_OPERAND = re.compile(r"[^}'\"\\$`\0]+")
_ARITHMETIC = re.compile(r"[^()\[\]}'\"\\$`\0]+")
_VARIABLE = re.compile(r"\$(?:[A-Za-z_]\w*|[0-9@*#?$!-])", re.ASCII)
_PARAMETER = re.compile(r"\$\{[!#]?(?:[A-Za-z_]\w*|[0-9]+|[@*#?$!-])?", re.ASCII)
_ANSI = re.compile(r"\$'([^'\\]*(?:\\.[^'\\]*)*)'", re.DOTALL)
_BACKQUOTED = re.compile(r"`([^`\\]*(?:\\.[^`\\]*)*)`", re.DOTALL)


class ExpansionReader(WordReader):
    """Reads within quotes, `${…}`, calculations, patterns and backquotes."""

    def _single(self) -> None:
        end = self.text.find("'", self.at + 1)
        if end < 0:
            raise self._error("This quote is not closed.", self.at)
        for piece in re.split("(\0)", self.text[self.at + 1 : end]):
            if piece == PLACE:
                self._in_word(self._place(Quoting.SINGLE))
            else:
                self._add(piece, quoted=True)
        self._note_inert(end)
        self.at = end + 1

    def _ansi(self) -> None:
        self._bash_only("`$'`")
        found = _ANSI.match(self.text, self.at)
        if found is None:
            raise self._error("This quote is not closed.", self.at)
        if "\\\0" in re.sub(r"\\[^\0]", "", found[1], flags=re.DOTALL):
            place = self.next_place + found[1][: found[1].index("\\\0")].count(PLACE)
            raise self._error("stands behind a backslash. Leave it out", self.at, place)
        for piece in re.split("(\0)", found[1]):
            if piece == PLACE:
                self._in_word(self._place(Quoting.ANSI))
            else:
                self._add(piece, quoted=True)
        self.at = found.end()

    def _open_double(self) -> None:
        self._add("", quoted=True)
        self._open(Kind.DOUBLE, '"', 1, inner=True)
        self.frames[-1].quoted = True

    def _in_double(self) -> None:
        character = self.text[self.at]
        if character == '"':
            self._close(1)
        elif character == "\\":
            self._quoted_backslash()
        elif character == "'" or not self._common(character, bare=False):
            self._add(self._match(_QUOTED), quoted=True)

    def _backslash(self) -> None:
        escaped = self.text[self.at + 1 : self.at + 2]
        if escaped == PLACE:
            raise self._error("stands behind a backslash. Leave it out", self.at, self.next_place)
        if escaped != "\n":
            self._add(escaped, quoted=True)
        self.at += 2

    def _quoted_backslash(self) -> None:
        """Within double quotes a backslash before a placeholder is text, and must stay so."""
        escaped = self.text[self.at + 1 : self.at + 2]
        if escaped == PLACE:
            self._edit(self.at, self.at, "\\", self.next_place)
            self._add("\\", quoted=True)
            self.at += 1
            return
        self._add(escaped, quoted=True)
        self.at += 2

    def _in_document(self) -> None:
        character = self.text[self.at]
        if character == "\\":
            self._quoted_backslash()
        elif character == "'" or not self._common(character, bare=False):
            self._match(_DOCUMENT)

    def _common(self, character: str, *, bare: bool) -> bool:
        """Read what starts the same wherever expansions happen. False when this is nothing such."""
        if character == PLACE:
            self.at += 1
            self._in_word(self._place(Quoting.WORDS if bare else Quoting.DOUBLE))
        elif character == "'":
            self._single()
        elif character == "$":
            self._dollar()
        elif character == "`":
            self._backquotes()
        else:
            return False
        return True

    def _open_command(self) -> None:
        """Open a substitution: a script of its own, whatever is around it."""
        self._add("", quoted=True)
        command = self.frames[-1].command.within()
        self._use(output_of(command))
        self._open(Kind.COMMAND, ")", 2)
        self.frames[-1].command = command

    def _dollar(self) -> None:
        frame = self.frames[-1]
        following = self.text[self.at + 1 : self.at + 2]
        if self.text.startswith("$((", self.at):
            self._add(DYNAMIC, quoted=True)
            self._open(Kind.ARITHMETIC, "))", 3)
        elif following == "(":
            self._open_command()
        elif following == "{":
            self._open_parameter(frame)
        elif following == "[":
            self._bash_only("`$[`")
            self._add(DYNAMIC, quoted=True)
            self._open(Kind.ARITHMETIC, "]", 2)
        elif following == "'" and not frame.quoted:
            self._ansi()
        elif following == '"' and not frame.quoted:
            self._bash_only('`$"`')
            self.at += 1
        else:
            variable = _VARIABLE.match(self.text, self.at)
            if variable:
                self._use(variable[0][1:])
            self._add(DYNAMIC if variable else "$", quoted=True)
            self.at = variable.end() if variable else self.at + 1

    def _open_parameter(self, frame: Frame) -> None:
        name = _PARAMETER.match(self.text, self.at)
        assert name is not None
        variable = name[0].lstrip("${!#")
        if variable and name[0][2] == "!":
            # `${!a[@]}` and `${!a*}` are keys and names.
            if self.text[name.end() : name.end() + 1] not in ("[", "*", "@"):
                self.flow.computed.add(variable)
        elif variable and name[0][2] != "#":
            self._use(variable)
        self._add(DYNAMIC, quoted=True)
        quoted = frame.quoted
        self._open(Kind.PARAMETER, "}", name.end() - self.at, inner=True)
        self.frames[-1].quoted, self.frames[-1].name = quoted, variable

    def _in_parameter(self) -> None:
        frame, character = self.frames[-1], self.text[self.at]
        if character == "}":
            self._close(1)
        elif frame.operator is None:
            self._parameter_operator(frame, character)
        elif character == '"':
            if frame.quoted and not self.bash:
                raise self._error("Shells differ on quotes within quotes here.", self.at)
            self._open_double()
        elif character == "\\":
            self._quoted_backslash() if frame.quoted else self._backslash()
        elif character == "'" and frame.quoted:
            self._quote_in_quoted_parameter(frame)
        elif character == PLACE:
            self._place_in_parameter(frame)
        elif not self._common(character, bare=True):
            self._match(_OPERAND)

    def _parameter_operator(self, frame: Frame, character: str) -> None:
        if character == "[":
            self._open(Kind.ARITHMETIC, "]", 1)
            self.frames[-1].name = frame.name
        elif character in "-=+?":
            frame.operator = ":"
            self.at += 1
        elif character == ":" and self.text[self.at + 1 : self.at + 2] in ("-", "=", "+", "?"):
            frame.operator = ":"
            self.at += 2
        elif character == ":":
            self.frames.pop()
            self._open(Kind.ARITHMETIC, "}", 1)
        elif character in "#%/^,@~*":
            if self.text.startswith("@P", self.at):
                self.flow.computed.add(frame.name)
            frame.operator = "#"
            self.at += 1
        else:
            place = self.next_place if character == PLACE else None
            message = "stands in the name of a variable. Write a name"
            raise self._error(
                message if character == PLACE else "This `${` is odd.", self.at, place
            )

    def _quote_in_quoted_parameter(self, frame: Frame) -> None:
        """A quote in a default within double quotes is text; in a pattern it quotes."""
        if frame.operator == ":":
            self.at += 1
        elif self._owner().kind is Kind.DOCUMENT:
            raise self._error("Shells differ on quotes within a pattern here.", self.at)
        else:
            self._single()

    def _place_in_parameter(self, frame: Frame) -> None:
        if frame.quoted and frame.operator == "#" and self._owner().kind is Kind.DOCUMENT:
            raise self._error(
                "stands in a pattern within a here-document. Assign it first", self.at,
                self.next_place,
            )  # fmt: skip
        self.at += 1
        place = self._place(Quoting.DOUBLE)
        place.in_parameter = True
        self.declarations.assigning.append(place)
        self.flow.give(place, frame.name)
        self._in_word(place)
        if not place.integer and not (frame.quoted and frame.operator == ":"):
            place.quoting = Quoting.WORD

    def _in_arithmetic(self) -> None:
        frame, character = self.frames[-1], self.text[self.at]
        opening = {"))": "(", "]": "[", "}": ""}[frame.close]
        if frame.depth == 0 and self.text.startswith(frame.close, self.at):
            self._close(len(frame.close))
        elif opening and character == opening:
            frame.depth += 1
            self.at += 1
        elif opening and character == frame.close[0]:
            frame.depth -= 1
            self.at += 1
            if frame.depth < 0:
                raise self._error("This may be a calculation or a subshell: write `( (`.", frame.at)
        elif character == '"':
            self._open_double()
        elif character == "\\":
            self._backslash()
        elif character in "()[]}":
            self.at += 1
        elif not self._common(character, bare=False):
            self.flow.compute(self._match(_ARITHMETIC), frame.name)

    def _in_extglob(self) -> None:
        frame, character = self.frames[-1], self.text[self.at]
        if character == ")" and frame.depth == 0:
            self._add("\2", quoted=True)
            self._close(1)
        elif character in "()":
            frame.depth += 1 if character == "(" else -1
            self.at += 1
        elif character == '"':
            self._open_double()
        elif character == "\\":
            self._backslash()
        elif character in " \t\n;&|<>":
            self.at += 1
        elif character == PLACE:
            self.at += 1
            place = self._place(Quoting.WORD)
            self._in_word(place)
        elif not self._common(character, bare=True):
            self._match(_PLAIN)

    def _backquotes(self) -> None:
        found = _BACKQUOTED.match(self.text, self.at)
        if found is None:
            raise self._error("This backquote is not closed.", self.at)
        self._add(DYNAMIC, quoted=True)
        quoted = self.frames[-1].quoted
        special = r'\\([$`\\"])' if quoted else r"\\([$`\\])"
        body = re.sub(special, r"\1", found[1])
        command = self.frames[-1].command.within()
        self._use(output_of(command))
        inner = type(self)(
            body,
            bash=self.bash,
            outer=self,
            start=None,
            error_at=self.error_at if self.start is None else self.start + self.at,
            first_place=self.next_place,
            frame=Frame(Kind.COMMAND, "", 0, command),
        )
        inner.run()
        self.next_place = inner.next_place
        self.at = found.end()
