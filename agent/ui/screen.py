"""The part of the terminal that is drawn again and again: a few lines below the scrollback.

Never full screen, no mouse, no alternate screen, no questions to the terminal: what is finished
is printed above and belongs to the terminal, so selecting and scrolling work as in any shell.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from prompt_toolkit.application import Application, get_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import Condition, has_completions
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.input.ansi_escape_sequences import ANSI_SEQUENCES
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import (
    BufferControl,
    ConditionalContainer,
    Dimension,
    FormattedTextControl,
    HSplit,
    Layout,
    VerticalAlign,
    Window,
)
from prompt_toolkit.layout.menus import CompletionsMenuControl
from prompt_toolkit.layout.screen import Screen as PaintedScreen
from prompt_toolkit.output import ColorDepth, Output, create_output
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.styles import Style
from prompt_toolkit.widgets import SearchToolbar

from agent.ui.view import View

MENU_ROWS = 16
"""The greatest height of the completions: all slash commands have room."""

ESCAPE_S = 0.05
"""How long Esc waits for a key that would make it Alt-something, in seconds."""

STYLE = Style.from_dict(
    {
        "tail": "",
        "reasoning": "ansibrightblack italic",
        "status": "ansicyan",
        "queued": "ansibrightblack",
        "prompt": "bold ansicyan",
        "question": "bold",
        "danger": "bold ansired",
        "warning": "ansiyellow",
        "selected": "bold",
        "toolbar": "ansibrightblack",
        "mode": "bold",
        "hint": "ansiyellow",
        "completion-menu": "noreverse",
        "completion-menu.completion": "",
        "completion-menu.completion.current": "reverse",
        "completion-menu.meta.completion": "ansibrightblack",
        "completion-menu.meta.completion.current": "reverse",
        "search-toolbar": "",
    }
)
_SHIFT_ENTER = ("\x1b[13;2u", "\x1b[27;2;13~")
_BEGIN_UPDATE, _END_UPDATE = "\x1b[?2026h", "\x1b[?2026l"


class Screen:
    """Owns the prompt_toolkit application, its layout, and printing above it."""

    def __init__(self, view: View, keys: KeyBindings, text: Buffer, words: Buffer) -> None:
        for sequence in _SHIFT_ENTER:
            ANSI_SEQUENCES[sequence] = (Keys.Escape, Keys.ControlM)
        self._questions = view.questions
        search = SearchToolbar()
        self._panel_window = lines_window(view.panel, focusable=True)
        self._text_window = _input(text, lambda: "> ", search)
        self._words_window = _input(words, lambda: f"{view.questions.asked} ", None)
        body = HSplit(
            [
                lines_window(view.live),
                ConditionalContainer(self._panel_window, Condition(view.questions.is_choosing)),
                ConditionalContainer(self._words_window, Condition(view.questions.is_answering)),
                self._text_window,
                ConditionalContainer(
                    Window(CompletionsMenuControl(), height=Dimension(min=1, max=MENU_ROWS)),
                    has_completions,
                ),
                search,
                lines_window(view.toolbar),
            ],
            align=VerticalAlign.TOP,
        )
        self.app: Application[int] = _Application(
            Layout(body, focused_element=self._text_window),
            key_bindings=keys,
            style=STYLE,
            output=make_output(),
            erase_when_done=True,
            before_render=_make_room,
        )
        self.app.ttimeoutlen = self.app.timeoutlen = ESCAPE_S

    @property
    def columns(self) -> int:
        """The width of the terminal."""
        return self.app.output.get_size().columns

    def focus(self) -> None:
        """Let keys go to the open question, or to the input."""
        if self._questions.is_choosing():
            self.app.layout.focus(self._panel_window)
        elif self._questions.is_answering():
            self.app.layout.focus(self._words_window)
        else:
            self.app.layout.focus(self._text_window)

    def print_above(self, text: str) -> None:
        """Write finished lines into the scrollback, above what is drawn again."""
        output = self.app.output
        if not self.app.is_running:
            output.write_raw(_lines_of(text))
            output.flush()
            return
        # Where the terminal knows synchronised updates nothing flickers; others ignore them.
        output.write_raw(_BEGIN_UPDATE)
        _erase(self.app)
        output.write_raw(_lines_of(text))
        # The public way, run_in_terminal, leaves raw mode: keys typed meanwhile would be echoed.
        self.app._redraw()
        output.write_raw(_END_UPDATE)
        output.flush()


class _Application(Application[int]):
    def _on_resize(self) -> None:
        # `_make_room` erases: a key may have caused a redraw before the signal came.
        self._redraw()


def _make_room(app: Application[int]) -> None:
    """Erase what was drawn when it cannot be drawn over: its lines are too many, or moved."""
    last = app.renderer.last_rendered_screen
    if last is None:
        return
    size = app.output.get_size()
    lower = app.layout.container.preferred_height(size.columns, size.rows).preferred < last.height
    if lower or app.renderer._last_size != size:
        _erase(app)


def _erase(app: Application[int]) -> None:
    """Erase what was drawn, also where a narrower terminal has broken its rows in two."""
    renderer = app.renderer
    last = renderer.last_rendered_screen
    columns = app.output.get_size().columns
    if last is not None and _REFLOWS:
        cursor = renderer._cursor_pos
        above = (_used(last, row) for row in range(cursor.y))
        broken = sum((used - 1) // columns for used in above if used) + cursor.x // columns
        if broken:
            app.output.cursor_up(broken)
    renderer.erase(leave_alternate_screen=False)


_REFLOWS = "XTERM_VERSION" not in os.environ and os.environ.get("TERM") != "linux"
"""Nearly all terminals break lines anew when they get narrower; these two cut them off."""


def _used(screen: PaintedScreen, row: int) -> int:
    """Return how many columns of a row were drawn."""
    cells = screen.data_buffer[row]
    return max((column for column, cell in cells.items() if cell.char != " "), default=-1) + 1


class _Output(Vt100_Output):
    def erase_down(self) -> None:
        """Erase to the end of the screen.

        Not from its first cell: tmux takes that for a clear screen and keeps what was there.
        """
        self.write_raw("\x1b[K\x1b[C\x1b[J\x1b[D")


def make_output() -> Output:
    """Return the terminal as prompt_toolkit writes to it."""
    if sys.platform == "win32":
        return create_output()
    output = _Output.from_pty(
        sys.stdout, term=os.environ.get("TERM"), default_color_depth=ColorDepth.from_env()
    )
    # Asking where the cursor is costs a warning in terminals that do not answer.
    output.enable_cpr = False
    return output


def _lines_of(text: str) -> str:
    return text.replace("\n", "\r\n")


def lines_window(
    content: Callable[[int, int], StyleAndTextTuples], *, focusable: bool = False
) -> Window:
    """Return a window exactly as high as its lines, which come already broken.

    `content` is asked for them on every redraw, with the columns and rows of the terminal.
    """

    def lines() -> StyleAndTextTuples:
        size = get_app().output.get_size()
        return content(size.columns, size.rows)

    def height() -> Dimension:
        count = sum(part[1].count("\n") for part in lines())
        return Dimension(min=min(count, 1), preferred=count, max=count)

    control = FormattedTextControl(
        lambda: _without_last_newline(lines()), focusable=focusable, show_cursor=False
    )
    return Window(control, height=height, always_hide_cursor=True)


def _without_last_newline(parts: StyleAndTextTuples) -> StyleAndTextTuples:
    if not parts:
        return []
    style, text, *_ = parts[-1]
    return [*parts[:-1], (style, text.removesuffix("\n"))]


def _input(buffer: Buffer, mark: Callable[[], str], search: SearchToolbar | None) -> Window:
    def prefix(line: int, wrapped: int) -> StyleAndTextTuples:
        shown = mark()
        return [("class:prompt", shown if line == wrapped == 0 else " " * len(shown))]

    control = BufferControl(
        buffer, search_buffer_control=search.control if search else None, preview_search=True
    )
    return Window(
        control,
        height=Dimension(min=1, max=10),
        wrap_lines=True,
        dont_extend_height=True,
        get_line_prefix=prefix,
    )
