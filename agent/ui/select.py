"""Asks one question before, or without, a chat."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from typing import TypeVar

from prompt_toolkit.application import Application
from prompt_toolkit.filters import Always
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.layout import Layout

from agent.ui.keys import bind_question
from agent.ui.menu import Menu, Option
from agent.ui.screen import ESCAPE_S, STYLE, lines_window, make_output

T = TypeVar("T")


def select(question: str, options: Sequence[Option[T]], *, cancelled: T) -> T:
    """Let the person choose one of `options` and return its value.

    Esc, Ctrl-C, the end of the input and a terminal that is not there give `cancelled`. Keys that
    were typed before the question appeared do not answer it.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return cancelled
    return asyncio.run(_select(question, options, cancelled))


async def _select(question: str, options: Sequence[Option[T]], cancelled: T) -> T:
    menu = Menu(
        [("class:question", question)], options,
        cancelled=cancelled, guarded=True, escape="no",
    )  # fmt: skip
    keys = KeyBindings()
    bind_question(keys, menu.press, Always())
    app: Application[None] = Application(
        Layout(lines_window(menu.fragments, focusable=True)),
        key_bindings=keys, style=STYLE, output=make_output(), erase_when_done=True,
    )  # fmt: skip
    app.ttimeoutlen = app.timeoutlen = ESCAPE_S
    menu.result.add_done_callback(lambda _: app.exit())
    try:
        await app.run_async()
    except (EOFError, OSError):
        return cancelled
    return menu.result.result()
