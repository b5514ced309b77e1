"""The chat in a terminal: one prompt_toolkit application for its whole life.

The person can always type. What they send while the model works waits in a queue; what stops the
work gives them the queue back. Redraws that the model causes are limited to one a frame, those
that keys cause are never delayed.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from prompt_toolkit.history import InMemoryHistory

from agent.events import Event, Level, Notice, TurnStarted
from agent.ui import ansi
from agent.ui.activity import SPIN_S, Activity
from agent.ui.approval import SHOW_ALL_KEY
from agent.ui.attention import Attention
from agent.ui.control import Control
from agent.ui.history import InputHistory
from agent.ui.keys import bindings
from agent.ui.menu import Menu, Option
from agent.ui.port import ChatPort
from agent.ui.questions import Questions
from agent.ui.render import is_shortened
from agent.ui.screen import Screen
from agent.ui.transcript import SHOW_SHORTENED, Transcript
from agent.ui.turns import Turns
from agent.ui.view import View
from agent.ui.wrap import columns_of, wrap
from tools.permissions.question import Answer, PermissionRequest

T = TypeVar("T")

FRAME_S = 0.07
"""The least time between two redraws that the model causes, in seconds."""

_DUMB = """\
This terminal cannot show a chat: TERM says that it cannot move its cursor.
Set TERM to what it really is (such as xterm-256color), or use opta -p "your request"."""


class Repl:
    """Shows a conversation, takes what the person types and asks them for permission.

    `emit` is an event sink and `ask` an `Approver`; what is emitted before `run` is shown then.
    All methods belong to the event loop's thread.
    """

    def __init__(
        self,
        *,
        root: Path,
        history: Path | None = None,
        warm_up: Callable[[], None] | None = None,
    ) -> None:
        """Make a chat.

        `root` is where `@file` looks. `history` is the file of earlier inputs, None for none.
        `warm_up` runs in a thread after the first paint, to import what the first answer needs.
        """
        self._root = root
        self._history = InputHistory(history) if history else InMemoryHistory()
        self._warm_up = warm_up
        self._colour = ansi.detect()
        self._transcript = Transcript(self._colour, key=SHOW_SHORTENED)
        self._activity = Activity()
        self._questions = Questions(self._question_changed)
        self._asking = asyncio.Lock()
        self._screen: Screen | None = None
        self._frame: asyncio.TimerHandle | None = None

    async def run(self, port: ChatPort, first: str = "") -> int:
        """Run the chat until the person leaves; return the exit code.

        `first` is sent as if it had been typed. The code is 0, 130 after two Ctrl-C, 128 + the
        signal that ended it, 2 for a terminal that cannot move its cursor.
        """
        if self._colour is ansi.Colour.PLAIN:
            sys.stderr.write("\n".join([*wrap(_DUMB, columns_of(sys.stderr), words=True), ""]))
            return 2
        self._build(port)
        assert self._screen is not None
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(self._report_problem)
        for number in (signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)):
            with suppress(NotImplementedError):
                loop.add_signal_handler(number, self.leave, 128 + number)
        spinner = asyncio.create_task(self._spin())
        try:
            code = await self._screen.app.run_async(
                pre_run=lambda: self._begin(first), set_exception_handler=False
            )
        except (EOFError, OSError):
            # The terminal is gone.
            code = 128 + getattr(signal, "SIGHUP", signal.SIGTERM)
        finally:
            spinner.cancel()
            await self._turns.close()
            with suppress(OSError):
                self._attention.close()
        with suppress(OSError):
            self._say_goodbye(port)
        return code

    def emit(self, event: Event) -> None:
        """Take one event."""
        typed = self._turns.text.strip() if self._screen is not None else ""
        if isinstance(event, TurnStarted) and event.message.text.strip() != typed:
            # A turn of an earlier session; what is typed now stands there already.
            self._transcript.user(event.message.text)
        if self._screen is not None:
            self._turns.add(event)
        self._activity.add(event)
        self._transcript.add(event)
        self.refresh()

    def show(self, text: str) -> None:
        """Print text of opta's own, such as the answer to a slash command."""
        self._transcript.text(text)
        self.refresh()

    def give_back(self, messages: Sequence[str]) -> None:
        """Put messages into the input, to be changed and sent again."""
        self._control.give_back(messages)
        self.refresh()

    def leave(self, code: int = 0) -> None:
        """End the chat: `run` returns `code`."""
        if self._screen is None:
            return
        app = self._screen.app
        if app.is_running and not app.is_done:
            app.exit(result=code)

    async def ask(self, request: PermissionRequest) -> Answer:
        """Ask the person whether a call may run. Cancelling means that nothing was allowed."""
        async with self._asking:
            # Shown in the scrollback, where no height cuts it, right above the question.
            shortened = is_shortened(request.invocation.preview)
            self._transcript.request(request, key=SHOW_ALL_KEY if shortened else "")
            self._print_pending()

            def show_all() -> None:
                self._transcript.request(request)
                self._print_pending()

            answer = await self._questions.ask_permission(
                request, self._root,
                accept_edits=self._port.cycle_mode if self._port.status().mode == "ask" else None,
                show_all=show_all if shortened else None,
            )  # fmt: skip
            if answer.feedback:
                self._transcript.refused(request.call.id, answer.feedback)
            self._activity.answered()
            return answer

    async def select(
        self, question: str, options: Sequence[Option[T]], selected: int = 0, escape: str = "back"
    ) -> T | None:
        """Let the person choose one of `options`, that at `selected` with Enter alone.

        None when they press Esc, which is said to mean `escape`.
        """
        async with self._asking:
            self._print_pending()
            menu: Menu[T | None] = Menu(
                [("class:question", question)], options, cancelled=None, selected=selected,
                escape=escape,
            )  # fmt: skip
            return await self._questions.open(menu)

    async def ask_words(self, question: str) -> str | None:
        """Let the person type one line; None when they press Esc."""
        async with self._asking:
            self._print_pending()
            return await self._questions.ask_words(question)

    def _build(self, port: ChatPort) -> None:
        self._port = port
        self._control = Control(
            port, self._root, self._history,
            leave=self.leave, tell=self.emit, changed=self.refresh,
        )  # fmt: skip
        self._turns = Turns(
            port.submit, started=self._turn_started, tell=self.emit,
            give_back=self.give_back, changed=self.refresh,
        )  # fmt: skip
        self._control.attach(self._turns)
        self._view = View(
            port, self._transcript, self._activity, self._turns, self._questions, self._control
        )

        def show_shortened() -> None:
            self._transcript.show_shortened()
            self.refresh()

        keys = bindings(self._questions, self._control, show_shortened)
        self._screen = Screen(self._view, keys, self._control.text, self._questions.words)
        self._attention = Attention(self._root.name, self._screen.app.output, port.signals)

    def _begin(self, first: str) -> None:
        assert self._screen is not None
        self._screen.app.after_render += self._painted
        before_key = self._screen.app.key_processor.before_key_press
        before_key += lambda _: self._control.drop_hint()
        before_key += lambda _: self._attention.key_pressed()
        if first:
            self._turns.send(first)
        self.refresh()

    def _painted(self, _: object) -> None:
        assert self._screen is not None
        self._screen.app.after_render -= self._painted
        threading.Thread(target=_import_late, args=(self._warm_up,), daemon=True).start()

    def _turn_started(self, text: str) -> None:
        self._transcript.user(text)
        self._activity.begin()
        self.refresh()

    def _question_changed(self) -> None:
        if self._screen is not None:
            self._screen.focus()
            self._screen.app.invalidate()
            self.refresh()

    def refresh(self) -> None:
        """Draw at the next frame, because something has changed."""
        if self._frame is None and self._screen is not None:
            self._frame = asyncio.get_running_loop().call_later(FRAME_S, self._draw)

    def _draw(self) -> None:
        """Print what is finished and draw the rest, now."""
        assert self._screen is not None
        self._attention.update(self._view.state)
        if self._frame is not None:
            self._frame.cancel()
            self._frame = None
        if isinstance(self._history, InputHistory) and self._history.problem:
            self._transcript.notice(self._history.problem, Level.WARNING)
            self._history.problem = ""
        # Nothing may come between a question and what it is about.
        if self._questions.is_open() or self._control.away:
            self._screen.app.invalidate()
        else:
            self._print_pending()

    def _print_pending(self) -> None:
        assert self._screen is not None
        text = self._transcript.take(self._screen.columns)
        if text:
            self._screen.print_above(text)
        else:
            self._screen.app.invalidate()

    async def _spin(self) -> None:
        while True:
            await asyncio.sleep(SPIN_S)
            if self._turns.running:
                self.refresh()

    def _report_problem(self, loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        error = context.get("exception")
        said = f"{type(error).__name__}: {error}" if error else context.get("message")
        self.emit(Notice(f"Internal error: {said}", Level.ERROR))

    def _say_goodbye(self, port: ChatPort) -> None:
        assert self._screen is not None
        if self._frame is not None:
            self._frame.cancel()
        text = self._transcript.take(self._screen.columns)
        if way_back := port.goodbye():
            text += f"{way_back}\n"
        self._screen.print_above(text)


def _import_late(warm_up: Callable[[], None] | None) -> None:
    if warm_up is not None:
        warm_up()
    import agent.ui.markdown  # noqa: F401
