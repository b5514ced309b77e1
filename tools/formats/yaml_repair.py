"""Reads YAML in which a command was written without the quotes that YAML wants (X33).

Two published tools hold `bash: curl -H "Authorization: Bearer x"` and the like, which is not YAML:
a plain value ends at `: `. Only one-line values of keys that hold commands are mended.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from tools.formats.problems import ToolProblem
from tools.record import record
from tools.yamltext import Document, DocumentError, decode, parse

_COMMAND_LINE = re.compile(
    r"(?P<lead>[ ]*(?:-[ ]+)*)(?P<key>bash|cmd|pwsh|run|fallback|default|windows|linux|macos"
    r"|final-command|input):[ ]+(?P<value>[^ #|>\"'\n].*?)(?P<comment>[ ]+#.*)?[ ]*"
)
NOT_YAML = "is not YAML as written"
"""What is said of a command that `with_blocks` mends."""

_PROBE = Path("value.yaml")
_MAX_LINES, _MAX_LINE = 5_000, 5_000


@record
class Unquoted:
    """A command that YAML cannot read as written. `line` counts from 1."""

    line: int
    lead: str
    key: str
    value: str
    comment: str

    @property
    def quoted(self) -> str:
        """The line with its value in single quotes: what it means, and nothing moves."""
        doubled = self.value.replace("'", "''")
        return f"{self.lead}{self.key}: '{doubled}'{self.comment}"

    @property
    def block(self) -> str:
        """The lines with the value as a block scalar: what a careful person would write."""
        return f"{self.lead}{self.key}: |-{self.comment}\n{' ' * (len(self.lead) + 2)}{self.value}"


def find_unquoted(text: str) -> list[Unquoted]:
    """Return the commands of `text` that are plain, on one line, and not YAML."""
    lines = _lines(text)
    found: list[Unquoted] = []
    if len(lines) > _MAX_LINES:
        return found
    for number, line in enumerate(lines, 1):
        match = _COMMAND_LINE.fullmatch(line) if len(line) <= _MAX_LINE else None
        if match is None or _goes_on(lines[number:], len(match["lead"])):
            continue
        if not _is_text(match["value"]):
            comment = match["comment"] or ""
            found.append(Unquoted(number, match["lead"], match["key"], match["value"], comment))
    return found


def with_blocks(text: str) -> str:
    """Return `text` with every unquoted command as a block scalar."""
    return _replaced(text, {item.line: item.block for item in find_unquoted(text)})


def parse_mended(data: bytes, path: Path) -> tuple[Document, list[ToolProblem]] | None:
    """Read YAML whose commands lack quotes; return it and a warning for each.

    None when that is not what is wrong with it.
    """
    if path.suffix.lower() == ".json":
        return None
    try:
        text = decode(data, path)
        unquoted = find_unquoted(text)
        mended = _replaced(text, {item.line: item.quoted for item in unquoted})
        document = parse(mended, path, allow_repeated=True) if unquoted else None
    except DocumentError:
        return None
    return None if document is None else (document, [_warning(path, item) for item in unquoted])


def _warning(path: Path, item: Unquoted) -> ToolProblem:
    return ToolProblem(
        path, f"the value of {item.key} {NOT_YAML}, it was read as plain text",
        item.line, len(item.lead) + 1, hint=f"write '{item.key}: |-' and the command below it",
        warning=True, tolerated=True,
    )  # fmt: skip


def _lines(text: str) -> list[str]:
    return text.replace("\r\n", "\n").split("\n")


def _goes_on(following: Sequence[str], indent: int) -> bool:
    """Tell whether the value continues on the next line that is not empty."""
    for line in following:
        if line.strip():
            return len(line) - len(line.lstrip(" ")) > indent
    return False


def _is_text(value: str) -> bool:
    """Tell whether YAML reads `value` as a scalar."""
    try:
        return not isinstance(parse(f"k: {value}", _PROBE).data["k"], dict | list)
    except DocumentError:
        return False


def _replaced(text: str, lines: Mapping[int, str]) -> str:
    return "\n".join(lines.get(number, line) for number, line in enumerate(_lines(text), 1))
