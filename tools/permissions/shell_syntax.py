"""Reads a shell text with tree-sitter-bash into the commands it can start (R6, R7).

For allowing only, so everything it does not know is an obstacle. Grammars differ from bash in
small ways (`cat \\ x` loses its blank), and each way is a hole: so every byte between two tokens
must be a blank, and the scanner of the deny rules, which shares no code with the grammar, must
find the same commands.
"""

from __future__ import annotations

import os
import re
import shutil
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tools.permissions.destruction import home_directory
from tools.permissions.shell_expansion import (
    Expander,
    Fields,
    Unclear,
    is_word,
)
from tools.permissions.shell_words import read_commands
from tools.record import record

if TYPE_CHECKING:
    from tree_sitter import Node

MAX_DEPTH = 40
MAX_DIRECTORIES = 4

_DIFFERENT = "is written in a way that two readers read differently"
_MAY_ASSIGN = re.compile(rb"=|for|read")
_BETWEEN = re.compile(rb"(?:[ \t\n]|\\\n)*")
_PROGRAM = re.compile(r"[A-Za-z0-9_./+:-]+|\[", re.ASCII)
_VARIABLE = re.compile(r"[a-z_][a-z0-9_]*", re.ASCII)
_TOKENS = frozenset((
    ";", "\n", "&&", "||", "|", "|&", "!", "(", ")", "{", "}", "if", "then", "else", "elif", "fi",
    "while", "until", "for", "in", "do", "done", "$(", "<(", "`", ";;",
))  # fmt: skip
_NESTING = frozenset((
    "program", "pipeline", "subshell", "compound_statement", "negated_command",
    "if_statement", "elif_clause", "else_clause", "while_statement", "do_group",
    "command_substitution", "process_substitution",
))  # fmt: skip
_OBSTACLES = {
    "function_definition": "defines a function",
    "declaration_command": "declares variables",
    "unset_command": "unsets variables",
    "case_statement": "has a case statement",
    "c_style_for_statement": "has a loop that counts",
    "arithmetic_expansion": "has arithmetic",
    "ERROR": "cannot be read as shell syntax",
}
_TEST_OPERATORS = frozenset((
    "-f", "-d", "-e", "-r", "-w", "-x", "-s", "-L", "-h", "-n", "-z", "=", "==", "!=", "!", "&&",
    "||", "[", "]", "[[", "]]", "-nt", "-ot", "-ef",
))  # fmt: skip
_NUMBER_OPERATORS = frozenset(("-eq", "-ne", "-lt", "-le", "-gt", "-ge"))
_WITHOUT_COMMAND = frozenset(("for", "in", "[", "[["))
_EXPANDING = "*?~$`{<"


@record
class Part:
    """A simple command of a line, or something else that the line does.

    `fields` are the alternatives of program and arguments after expansion; empty for what starts
    no program. An `obstacle` says, to follow "it", why nothing can speak for the part. `reads` are
    names of files it gets as input; relative names count from each of `cwds`.
    """

    text: str
    fields: tuple[Fields, ...] = ()
    obstacle: str = ""
    reads: tuple[str, ...] = ()
    cwds: tuple[Path, ...] = ()


def read_line(line: str, cwd: Path) -> tuple[Part, ...]:
    """Return all parts of `line`, started in `cwd`, in the order in which they stand."""
    shown = line.strip()
    bad = next((c for c in line if c not in "\n\t" and not c.isprintable()), None)
    if bad is not None:
        return (Part(shown, obstacle=f"has the character U+{ord(bad):04X}"),)
    try:
        data = line.encode()
    except UnicodeEncodeError:
        return (Part(shown, obstacle="is no valid text"),)
    root = parser().parse(data).root_node
    if root.has_error:
        return (Part(shown, obstacle="cannot be read as shell syntax"),)
    reader = _Reader(cwd, root)
    reader.statement(root, 0)
    parts = tuple(reader.parts)
    if not any(part.obstacle for part in parts) and not (
        _only_blanks_between(root, data) and _agrees(parts, line)
    ):
        return (*parts, Part(shown, obstacle=_DIFFERENT))
    return parts


class _Reader:
    """Walks the statements of a line and notes what each does."""

    def __init__(self, cwd: Path, root: Node) -> None:
        self.parts: list[Part] = []
        self.cwds: tuple[Path, ...] = (cwd,)
        self.depth = 0
        self.loops = 0
        self.visited: set[int] = set()
        self.entered: tuple[Path, ...] | None = None
        self.assigned: dict[str, list[Node | None]] = {}
        if _MAY_ASSIGN.search(root.text or b""):
            self._find_assignments(root)
        self.expander = self._expander()

    def statement(self, node: Node, depth: int) -> None:
        """Note all that a statement does."""
        if depth > MAX_DEPTH:
            self._obstacle(node, "is nested too deeply")
            return
        self.depth = depth
        self.entered = None
        kind = node.type
        try:
            if kind == "list":
                self._list(node, depth)
            elif kind in _NESTING:
                self._nested(node, depth)
            elif kind == "command":
                self._command(node)
            elif kind == "redirected_statement":
                self._redirected(node, depth)
            elif kind == "for_statement":
                self._for(node, depth)
            elif kind == "test_command":
                self._test(node)
            elif kind in ("variable_assignment", "variable_assignments"):
                self._assignment(node)
            elif kind != "comment":
                what = _OBSTACLES.get(kind, f"has {kind.replace('_', ' ')}")
                self._obstacle(node, what)
        except Unclear as error:
            self._obstacle(node, str(error))

    def _nested(self, node: Node, depth: int) -> None:
        looped = node.type == "while_statement"
        self.loops += looped
        for child in node.children:
            if child.is_named:
                self.statement(child, depth + 1)
            elif child.type == "&":
                self._obstacle(node, "leaves a command running in the background")
            elif child.type not in _TOKENS:
                self._obstacle(node, f"has {child.type}")
        self.loops -= looped

    def _list(self, node: Node, depth: int) -> None:
        """Read `a && b` or `a || b`: behind a `cd` that must have succeeded, b is there."""
        if len(node.children) != 3 or node.children[1].type not in ("&&", "||"):
            raise Unclear("has a list of commands that is not known")
        left, operator, right = node.children
        before = self.cwds
        self.statement(left, depth + 1)
        everywhere, entered = self.cwds, self.entered
        sure = operator.type == "&&"
        if sure and entered is not None:
            self._go(entered)
        self.statement(right, depth + 1)
        succeeded = (self.entered or self.cwds) if sure else None
        self._go(tuple(dict.fromkeys((*before, *everywhere, *self.cwds))))
        self.entered = succeeded

    def _go(self, cwds: tuple[Path, ...]) -> None:
        if cwds != self.cwds:
            self.cwds = cwds
            self.expander = self._expander()

    def _for(self, node: Node, depth: int) -> None:
        self.loops += 1
        for child in node.children:
            if child.type == "do_group":
                self.statement(child, depth + 1)
            elif child.type == "variable_name":
                self._check_name(_text(child))
            elif is_word(child):
                self.expander.word(child)
            elif child.type not in _TOKENS:
                raise Unclear(f"has {child.type}")
        self.loops -= 1

    def _redirected(self, node: Node, depth: int) -> None:
        for child in node.children:
            if child.type == "file_redirect":
                self._file_redirect(child)
            elif child.type == "herestring_redirect":
                self.expander.word(child.children[-1])
            elif child.type == "heredoc_redirect":
                self._obstacle(child, "has a here-document")
            else:
                self.statement(child, depth + 1)

    def _file_redirect(self, node: Node) -> None:
        operator = next(child.type for child in node.children if not child.is_named)
        target = node.children[-1]
        if operator in (">&", "<&") and _text(target) in ("0", "1", "2"):
            return
        if operator == "<":
            self._note(node, reads=_known(self.expander.single(target)))
        elif operator not in (">", ">>", "&>", "&>>", ">|") or _text(target) != "/dev/null":
            self._obstacle(node, f"writes to a file ({_text(node)})")

    def _command(self, node: Node) -> None:
        words: list[Node] = []
        for child in node.children:
            if child.type == "variable_assignment":
                name = _text(child).partition("=")[0]
                raise Unclear(f"sets {name} for one command")
            if child.type == "command_name":
                words.append(_literal_program(child))
            elif child.type == "herestring_redirect":
                self.expander.word(child.children[-1])
            elif child.type == "file_redirect":
                self._file_redirect(child)
            elif is_word(child):
                words.append(child)
            else:
                raise Unclear(f"has {child.type.replace('_', ' ')}")
        fields = self.expander.command(words)
        if fields and fields[0][0] == "cd":
            self._change_directory(node, fields)
        else:
            self._note(node, fields=fields)

    def _change_directory(self, node: Node, alternatives: tuple[Fields, ...]) -> None:
        if self.loops:
            raise Unclear("changes the directory in a loop")
        before, found = self.cwds, dict.fromkeys(self.cwds)
        targets = []
        for _, *operands in alternatives:
            target = operands[0] if len(operands) == 1 else None
            if target is None or not target or target.startswith("-"):
                raise Unclear("changes to a directory that is not known")
            if os.environ.get("CDPATH") and not target.startswith(("/", "./", "../")):
                raise Unclear("changes to a directory that CDPATH chooses")
            if ".." in Path(target).parts and any(_through_link(cwd / target) for cwd in before):
                raise Unclear("goes up from behind a link")
            targets.append(target)
            found.update(dict.fromkeys(cwd / target for cwd in before))
        if len(found) > MAX_DIRECTORIES:
            raise Unclear("changes the directory too often")
        self._note(node, fields=alternatives, reads=tuple(targets))
        # Whether it succeeds is not known: what follows may run in any of them.
        self._go(tuple(found))
        self.entered = tuple(cwd / target for cwd in before for target in targets)

    def _assignment(self, node: Node) -> None:
        for child in node.children if node.type == "variable_assignments" else [node]:
            name, value = child.children[0], child.children[-1]
            if name.type != "variable_name" or len(child.children) > 3 or "+=" in _text(child):
                raise Unclear("sets more than a plain variable")
            self._check_name(_text(name))
            if len(child.children) == 3:
                self.expander.word(value)

    def _test(self, node: Node) -> None:
        """Note the programs in `[ … ]` and `[[ … ]]`, which evaluate nothing by themselves."""
        double = node.children[0].type == "[["
        if double and shutil.which("bash") is None:
            # To any other shell `[[ a || b ]]` are two commands.
            raise Unclear("is a test of bash, which is not installed")
        for leaf in _operands(node):
            text = _text(leaf)
            if leaf.type in ("test_operator",) or not leaf.is_named:
                numeric = text in _NUMBER_OPERATORS and not double
                if not numeric and text not in _TEST_OPERATORS:
                    raise Unclear(f"tests with {text}")
            elif leaf.type in ("extglob_pattern", "regex"):
                if "$" in text or "`" in text:
                    raise Unclear("has a pattern that expands")
            elif not double and any(None in fields for fields in self.expander.word(leaf)):
                if leaf.type != "string":
                    raise Unclear("tests a variable without quotes")
            elif double:
                self.expander.word(leaf)
        self._note(node, fields=(("[",),))

    def _check_name(self, name: str) -> None:
        # Capitals are for the environment: PATH, IFS, LD_PRELOAD, GIT_PAGER, …
        if not _VARIABLE.fullmatch(name) or name in os.environ:
            raise Unclear(f"sets {name}, which other programs may read")

    def _note(
        self, node: Node, fields: tuple[Fields, ...] = (), reads: tuple[str, ...] = ()
    ) -> None:
        self.parts.append(Part(_text(node), fields, reads=reads, cwds=self.cwds))

    def _obstacle(self, node: Node, what: str) -> None:
        self.parts.append(Part(_text(node), obstacle=what, cwds=self.cwds))

    def _expander(self) -> Expander:
        def visit(node: Node) -> None:
            # What a variable holds is read again where it is used, but runs once.
            if node.start_byte not in self.visited:
                self.visited.add(node.start_byte)
                self.statement(node, self.depth + 1)

        return Expander(home_directory(), self.cwds, self.assigned, visit)

    def _find_assignments(self, root: Node) -> None:
        """Find every value of every variable first: a loop may come back to a use before it."""
        for node in _all_nodes(root):
            if node.type == "variable_assignment":
                name, value = _text(node.children[0]), node.children[-1]
                known = len(node.children) == 3 and is_word(value)
                self.assigned.setdefault(name, []).append(value if known else None)
            elif node.type == "for_statement":
                words = [child for child in node.children if is_word(child)]
                name = _text(words[0]) if words else ""
                self.assigned.setdefault(name, []).extend(words[1:] or [None])
            elif node.type == "command" and _text(node).startswith("read"):
                for child in node.children[1:]:
                    self.assigned.setdefault(_text(child), []).append(None)


def _through_link(path: Path) -> bool:
    """Tell whether `..` leads elsewhere for the shell, which takes back names, than for files."""
    return os.path.realpath(path) != os.path.realpath(os.path.normpath(path))


def _literal_program(node: Node) -> Node:
    words = node.children
    if len(words) != 1 or words[0].type != "word" or not _PROGRAM.fullmatch(_text(words[0])):
        raise Unclear("does not name its program plainly")
    return words[0]


def _known(values: list[Any]) -> tuple[str, ...]:
    if None in values:
        raise Unclear("reads a file that only running would tell")
    return tuple(values)


def _operands(node: Node) -> Iterator[Node]:
    for child in node.children:
        if child.type in ("unary_expression", "binary_expression", "negated_command"):
            yield from _operands(child)
        else:
            yield child


def _all_nodes(root: Node) -> Iterator[Node]:
    waiting = [root]
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(node.children)


def _only_blanks_between(root: Node, data: bytes) -> bool:
    """Tell whether the tokens of the tree hold all of the text that is not blank."""
    at = 0
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if node.child_count and node.type != "string":
            waiting.extend(reversed(node.children))
            continue
        between = data[at : node.start_byte]
        if between and not _BETWEEN.fullmatch(between):
            return False
        at = max(at, node.end_byte)
    return _BETWEEN.fullmatch(data[at:]) is not None


def _agrees(parts: tuple[Part, ...], line: str) -> bool:
    """Tell whether the scanner of the deny rules finds the same programs and literal words."""
    reading = read_commands(line)
    if reading.unsettled:
        return False
    found = [words for words in reading.simple if words[0] not in _WITHOUT_COMMAND]
    if any(part.text.startswith("[[") for part in parts):
        # To the scanner `&&` in a test is the start of another command.
        found = [words for words in found if words[-1] != "]]"]
    parsed = [part.fields[0] for part in parts if part.fields and part.fields[0][0] != "["]
    if any(character in line for character in _EXPANDING):
        return Counter(words[0] for words in found) == Counter(fields[0] for fields in parsed)
    return Counter(found) == Counter(parsed)


def _text(node: Node) -> str:
    return (node.text or b"").decode("utf-8", "replace")


@cache
def parser() -> Any:
    """Return the parser, loaded when it is first needed."""
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))
