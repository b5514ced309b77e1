"""Renders finished Markdown blocks with rich. Imported late: rich takes long to import.

Differs from rich's own rendering where that loses text: HTML, images and link definitions stay as
they were written, wide tables are folded, headings are not centred, numbers of lists keep their
dot, and what is left of a line of code that is too long is marked.
"""

from __future__ import annotations

import io
import itertools
import re
from typing import ClassVar

from markdown_it import MarkdownIt
from rich import box
from rich.console import Console, ConsoleOptions, JustifyMethod, RenderResult
from rich.markdown import (
    CodeBlock,
    Heading,
    HorizontalRule,
    ListItem,
    Markdown,
    MarkdownElement,
    TableElement,
)
from rich.rule import Rule
from rich.segment import Segment
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text
from rich.theme import Theme

from agent.ui.ansi import Colour
from agent.ui.wrap import TAB, wrap

_NARROWEST = 12
_NARROWEST_COLUMN = 6
_CONTINUED = "  ↪ "
_CODE_THEME = "ansi_dark"
_SYSTEMS = {Colour.ANSI: "standard", Colour.EIGHT_BIT: "256", Colour.TRUE: "truecolor"}
_TRAILING_SPACES = re.compile(r" +((?:\x1b\[0m)?)$", re.MULTILINE)
_STYLE = re.compile(r"\x1b\[[0-9;]*m")
_FENCED = re.compile(r"\s*(`{3,}|~{3,})[ \t]*([^\s`]*)[^\n]*\n(.*)", re.DOTALL)
_THEME = Theme(
    {
        "markdown.h1": "bold underline",
        "markdown.h2": "bold",
        "markdown.h3": "bold",
        "markdown.code": "cyan",
        "markdown.table.header": "bold",
        "markdown.table.border": "dim",
        "markdown.link_url": "underline",
    }
)
_PARSER = (
    MarkdownIt("commonmark", {"html": False})
    .enable(["strikethrough", "table"])
    .disable(["reference", "image", "html_block", "html_inline"])
)


class _Code(CodeBlock):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        code = str(self.text).rstrip()
        yield Syntax(code, self.lexer_name, theme=self.theme, word_wrap=True)


class _LeftHeading(Heading):
    LEVEL_ALIGN: ClassVar[dict[str, JustifyMethod]] = {}


class _Rule(HorizontalRule):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Rule(style="markdown.hr")


class _Item(ListItem):
    def render_number(
        self, console: Console, options: ConsoleOptions, number: int, last_number: int
    ) -> RenderResult:
        width = len(f" {last_number}. ")
        lines = console.render_lines(
            self.elements, options.update(width=options.max_width - width), style=self.style
        )
        style = console.get_style("markdown.item.number", default="none")
        mark = f"{number}. ".rjust(width)
        for line in lines:
            yield Segment(mark, style)
            yield from line
            yield Segment("\n")
            mark = " " * width


class _FoldedTable(TableElement):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, style="markdown.table.border")
        if self.header is not None and self.header.row is not None:
            for cell in self.header.row.cells:
                heading = cell.content.copy()
                heading.stylize("markdown.table.header")
                table.add_column(heading, overflow="fold")
        if self.body is not None:
            for row in self.body.rows:
                table.add_row(*(cell.content for cell in row.cells))
        yield table


class _Document(Markdown):
    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "fence": _Code,
        "code_block": _Code,
        "heading_open": _LeftHeading,
        "table_open": _FoldedTable,
        "hr": _Rule,
        "list_item_open": _Item,
    }

    def __init__(self, markup: str) -> None:
        super().__init__("", code_theme=_CODE_THEME, hyperlinks=False)
        self.markup = markup
        self.parsed = _PARSER.parse(markup)


def render_block(block: str, columns: int, colour: Colour) -> str:
    """Return one finished block as it is printed, without empty lines around it.

    `block` must be free of control characters. Where there is no room for the layout the source
    is shown instead.
    """
    if not block.strip():
        return ""
    if colour is Colour.PLAIN or columns < _NARROWEST or _is_cramped(block, columns):
        return "\n".join(wrap(block.strip("\n"), columns, words=True))
    if fenced := _FENCED.fullmatch(block):
        return _fence(fenced[1], fenced[2], fenced[3], columns, colour)
    return _print(_Document(block), columns, colour)


def _fence(marks: str, language: str, body: str, columns: int, colour: Colour) -> str:
    lines = body.rstrip("\n").split("\n")
    if lines and set(lines[-1].strip()) == {marks[0]} and len(lines[-1].strip()) >= len(marks):
        lines.pop()
    code = "\n".join(lines).replace("\t", TAB)
    text = Syntax("", language or "text", theme=_CODE_THEME).highlight(code)
    text.rstrip()
    shown = []
    for line in text.split("\n", allow_blank=True):
        for number, piece in enumerate(_broken(line, columns - len(_CONTINUED))):
            margin = _CONTINUED if number else "  "
            shown.append((margin + _print(piece, 1 << 16, colour)).rstrip(" "))
    return "\n".join(shown)


def _broken(line: Text, columns: int) -> list[Text]:
    """Return the pieces of a line of code, none wider than `columns`."""
    ends = itertools.accumulate(len(piece) for piece in wrap(line.plain, columns))
    return list(line.divide(list(ends)[:-1]))


def _print(what: Markdown | Text, columns: int, colour: Colour) -> str:
    console = Console(
        file=io.StringIO(),
        width=columns,
        height=100,
        force_terminal=True,
        color_system=_SYSTEMS.get(colour, "standard"),  # type: ignore[arg-type]
        no_color=colour <= Colour.ATTRIBUTES,
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
        theme=_THEME,
    )
    with console.capture() as capture:
        console.print(what)
    lines = _TRAILING_SPACES.sub(r"\1", capture.get()).split("\n")
    while lines and _is_empty(lines[-1]):
        lines.pop()
    while lines and _is_empty(lines[0]):
        lines.pop(0)
    return "\n".join(lines)


def _is_empty(line: str) -> bool:
    return not _STYLE.sub("", line).strip()


def _is_cramped(block: str, columns: int) -> bool:
    """Say whether `block` is a table with less room than its columns need."""
    first = block.strip().split("\n", 1)[0]
    cells = first.strip().strip("|").count("|") + 1
    return cells > 1 and columns // cells < _NARROWEST_COLUMN
