"""What the words of a shell command can be once bash has expanded them.

A word is read from the syntax tree into alternatives: each is the list of fields that the program
would get, where None stands for what only running would tell. Globs are looked up, and variables
count with every value that the same text gives them. What bash would execute while it expands
(`${x@P}`, array subscripts, arithmetic) raises Unclear.
"""

from __future__ import annotations

import glob
import itertools
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from tools.record import record
from tools.secret_values import names_secret

if TYPE_CHECKING:
    from tree_sitter import Node

Field: TypeAlias = str | None
Fields: TypeAlias = tuple[Field, ...]
T = TypeVar("T")

PIPE = "/dev/fd/63"
"""What stands for `<(…)`: the name of a pipe, which only the program that gets it can read."""

MAX_ALTERNATIVES = 64
MAX_MATCHES = 2000
_WORD_TYPES = frozenset((
    "word", "number", "string", "raw_string", "concatenation", "simple_expansion", "expansion",
    "command_substitution", "process_substitution", "variable_name", "test_operator",
))  # fmt: skip
_UNSPLIT = re.compile(r"[\w./,:@%+=-]*")
_LITERAL = re.compile(r"[\w./,:@%+=-]+", re.ASCII)
_WITH_PASSWORD = re.compile(r"://[^/\s]*:[^/\s]*@")
_BACKSLASHED = re.compile(r"\\(.)", re.DOTALL)
_IN_QUOTES = re.compile(r'\\([$`"\\])')
_TAKING_SCRIPTS: Sequence[list[Fields]] = [[("awk",)], [("jq",)], [("sed",)]]
_OF_FILES: Sequence[Fields] = (("env",),)
"""What is a script that is asked about to each of those, and harmless as the name of a file."""

_NAMED = {
    "ansi_c_string": "$'…'", "translated_string": '$"…"', "arithmetic_expansion": "$((…))",
    "brace_expression": "{…}", "extglob_pattern": "an extended pattern",
}  # fmt: skip


class Unclear(Exception):
    """No rule can speak for this. The message says why, to follow "it"."""


@record
class _Piece:
    """Part of a word. `plain` text is still open to tilde, braces and globs; `empty` may vanish."""

    text: Field
    plain: bool = False
    may_vanish: bool = False


class Expander:
    """Expands the words of one line.

    `cwds` are the directories in which the shell may be at that point; `assigned` maps variables
    to the nodes of all values they get anywhere in the line, None for an unknown value. `visit`
    is called with every command substitution.
    """

    def __init__(
        self,
        home: str,
        cwds: Sequence[Path],
        assigned: Mapping[str, Sequence[Node | None]],
        visit: Callable[[Node], None],
    ) -> None:
        self.home = home
        self.cwds = tuple(cwds)
        self._assigned = assigned
        self._visit = visit
        self._open: set[str] = set()

    def command(self, nodes: Iterable[Node]) -> tuple[Fields, ...]:
        """Return the alternatives for all words of a command together. Raises Unclear."""
        options = [self.word(node) for node in nodes]
        if options[0] in _TAKING_SCRIPTS:
            # Which of several names comes first, and is the script, depends on the language.
            options = [[*found, *_OF_FILES] if len(found[0]) > 1 else found for found in options]
        return tuple(
            tuple(field for fields in combination for field in fields)
            for combination in _product(options)
        )

    def word(self, node: Node) -> list[Fields]:
        """Return the alternatives for one word. Raises Unclear."""
        if node.type == "word" and _LITERAL.fullmatch(text := _text(node)):
            return [(text,)]
        found = [fields for pieces in self._pieces(node) for fields in self._fields(pieces)]
        return list(dict.fromkeys(found))

    def single(self, node: Node) -> list[Field]:
        """Return what a word that is not split may be (a value, a target). Raises Unclear."""
        texts: list[Field] = []
        for fields in self.word(node):
            if len(fields) > 1:
                raise Unclear("names more than one file where one belongs")
            texts.append(fields[0] if fields else "")
        return texts

    def _pieces(self, node: Node) -> list[tuple[_Piece, ...]]:
        text = _text(node)
        match node.type:
            case "word" | "number" | "test_operator":
                return [(_Piece(_bare(text), plain=True),)] if "\\" not in text else _escaped(text)
            case "raw_string":
                return [(_Piece(text[1:-1]),)]
            case "string":
                return self._string(node)
            case "concatenation":
                return self._concatenation(node)
            case "simple_expansion" | "expansion":
                return [self._unquoted(value) for value in self._variable(node)]
            case "command_substitution" | "process_substitution":
                return [(_Piece(self._substitution(node)),)]
        raise Unclear(f"has {_NAMED.get(node.type, node.type.replace('_', ' '))}")

    def _concatenation(self, node: Node) -> list[tuple[_Piece, ...]]:
        end = node.start_byte
        for child in node.children:
            if child.start_byte != end:
                raise Unclear("is written in a way that two readers read differently")
            end = child.end_byte
        combined = _product([self._pieces(child) for child in node.children])
        return [tuple(itertools.chain.from_iterable(parts)) for parts in combined]

    def _string(self, node: Node) -> list[tuple[_Piece, ...]]:
        """Read what stands between the expansions from the text: the tree drops blanks there."""
        source = node.text or b""
        at, end, start = 1, len(source) - 1, node.start_byte
        parts: list[list[Field]] = []
        for child in node.children:
            if child.type in ('"', "string_content"):
                continue
            begin = child.start_byte - start
            lead = _text(child)
            begin += len(lead) - len(lead.lstrip())
            parts.append([_unescaped(source[at:begin])])
            parts.append(self._quoted(child))
            at = child.end_byte - start
        parts.append([_unescaped(source[at:end])])
        texts = (_joined(texts) for texts in _product(parts))
        return [(_Piece(text),) for text in texts]

    def _quoted(self, node: Node) -> list[Field]:
        if node.type in ("simple_expansion", "expansion"):
            return self._variable(node)
        if node.type == "command_substitution":
            return [self._substitution(node)]
        raise Unclear(f"has {_NAMED.get(node.type, node.type.replace('_', ' '))}")

    def _unquoted(self, value: Field) -> tuple[_Piece, ...]:
        if value is not None and not _UNSPLIT.fullmatch(value):
            raise Unclear("has a variable without quotes whose value the shell splits")
        return (_Piece(value, may_vanish=not value),)

    def _substitution(self, node: Node) -> Field:
        text = _text(node)
        if text.startswith("`") and "\\" in text:
            raise Unclear("has backslashes in backticks")
        if text.startswith(">("):
            raise Unclear("writes to >(…)")
        self._visit(node)
        return PIPE if node.type == "process_substitution" else None

    def _variable(self, node: Node) -> list[Field]:
        """Return the values of `$x` or `${x}`. Raises Unclear for every other expansion."""
        types = [child.type for child in node.children if child.type not in ("${", "}")]
        if node.type == "simple_expansion":
            types = types[1:]
        if types == ["special_variable_name"]:
            return [None]
        if types != ["variable_name"]:
            raise Unclear("has an expansion that does more than give a value")
        name = next(_text(child) for child in node.children if child.type == "variable_name")
        return self._values(name)

    def _values(self, name: str) -> list[Field]:
        if name not in self._assigned:
            if names_secret(name) or _WITH_PASSWORD.search(os.environ.get(name, "")):
                raise Unclear(f"shows ${name}, which may be a secret")
            known = {"HOME": [self.home], "PWD": [str(cwd) for cwd in self.cwds]}
            return [*known.get(name, [None])]
        if name in self._open:
            return [None]
        self._open.add(name)
        try:
            # Before the first assignment, or after a loop over nothing, it is empty.
            found: dict[Field, None] = {"": None}
            for node in self._assigned[name]:
                values = [(None,)] if node is None else self.word(node)
                found.update(dict.fromkeys(itertools.chain.from_iterable(values)))
            if len(found) > MAX_ALTERNATIVES:
                return [None]
            return list(found)
        finally:
            self._open.discard(name)

    def _fields(self, pieces: tuple[_Piece, ...]) -> list[Fields]:
        pieces = self._with_home(pieces)
        plain = "".join(piece.text or "" for piece in pieces if piece.plain)
        if not plain.isascii():
            raise Unclear("has letters outside ASCII without quotes")
        if "{" in plain and ("," in plain or ".." in plain):
            raise Unclear("has {…}")
        if "=~" in plain or ":~" in plain:
            raise Unclear("has ~ inside a word")
        if any(piece.text is None for piece in pieces):
            return [(None,)]
        if all(piece.may_vanish for piece in pieces):
            return [()]
        text = "".join(piece.text or "" for piece in pieces)
        if not any(character in plain for character in "*?["):
            return [(text,)]
        if "[" in plain and text != "[":
            raise Unclear("has [ in a pattern of file names")
        if any(part[:1] == "." and fnmatchcase("..", part) for part in text.split("/")):
            # Shells differ in whether `.*` is also `..`.
            raise Unclear("has a pattern that may name the directory above")
        return [(text,)] if text == "[" else self._matches(pieces, text)

    def _with_home(self, pieces: tuple[_Piece, ...]) -> tuple[_Piece, ...]:
        first = pieces[0] if pieces else _Piece("")
        if not first.plain or not (first.text or "").startswith("~"):
            return pieces
        text = first.text or ""
        if text != "~" and not text.startswith("~/"):
            raise Unclear("names somebody's home directory")
        if text == "~" and len(pieces) > 1:
            raise Unclear("has ~ before a quote")
        return (_Piece(self.home), _Piece(text[1:], plain=True), *pieces[1:])

    def _matches(self, pieces: tuple[_Piece, ...], text: str) -> list[Fields]:
        pattern = "".join(
            (piece.text or "") if piece.plain else glob.escape(piece.text or "") for piece in pieces
        )
        found: list[Fields] = []
        for cwd in self.cwds:
            matches = glob.iglob(pattern, root_dir=cwd)  # noqa: PTH207 - `./x` must stay `./x`
            names = sorted(itertools.islice(matches, MAX_MATCHES + 1))
            if len(names) > MAX_MATCHES:
                raise Unclear(f"has a pattern that names more than {MAX_MATCHES} files")
            found.append(tuple(names) or (text,))
        return found


def is_word(node: Node) -> bool:
    """Tell whether a node is a word that `Expander` reads or refuses."""
    return node.type in _WORD_TYPES or node.type in _NAMED


def _text(node: Node) -> str:
    return (node.text or b"").decode("utf-8", "replace")


def _bare(text: str) -> str:
    if "$" in text or "`" in text:
        raise Unclear("has a $ that stands for nothing known")
    return text


def _escaped(text: str) -> list[tuple[_Piece, ...]]:
    if "\n" in text:
        raise Unclear("has a line end inside a word")
    pieces = []
    for index, part in enumerate(_BACKSLASHED.split(text)):
        if part:
            pieces.append(_Piece(part) if index % 2 else _Piece(_bare(part), plain=True))
    return [tuple(pieces)]


def _unescaped(data: bytes) -> str:
    text = data.decode("utf-8", "replace").replace("\\\n", "")
    return _IN_QUOTES.sub(r"\1", text)


def _joined(texts: Iterable[Field]) -> Field:
    found = list(texts)
    known = [text for text in found if text is not None]
    return "".join(known) if len(known) == len(found) else None


def _product(options: Sequence[Sequence[T]]) -> list[tuple[T, ...]]:
    count = 1
    for option in options:
        count *= len(option)
        if count > MAX_ALTERNATIVES:
            raise Unclear("has variables with too many values")
    return list(itertools.product(*options))
