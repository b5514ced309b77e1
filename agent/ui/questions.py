"""The question that is open, if any: a list of options, or a line of words for the model."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from prompt_toolkit.buffer import Buffer

from agent.ui.approval import NO, Reply, approval_menu
from agent.ui.menu import Menu
from tools.permissions.question import Answer, Choice, PermissionRequest

T = TypeVar("T")

WHY_NOT = "Why not?"


class Questions:
    """Asks one question at a time; `changed` is called when one opens or closes.

    `asked` is what the words that are typed answer.
    """

    def __init__(self, changed: Callable[[], None]) -> None:
        self.menu: Menu[Any] | None = None
        self.words = Buffer(multiline=False)
        self.asked = WHY_NOT
        self._answer: asyncio.Future[str | None] | None = None
        self._changed = changed

    def is_choosing(self) -> bool:
        """Say whether options are shown."""
        return self.menu is not None

    def is_answering(self) -> bool:
        """Say whether words are asked for."""
        return self._answer is not None

    def is_open(self) -> bool:
        """Say whether anything is asked."""
        return self.is_choosing() or self.is_answering()

    def choose(self, key: str) -> None:
        """Give a key to the options (see `Menu.press`)."""
        menu = self.menu
        if menu is None:
            return
        menu.press(key)
        if menu.result.done() and menu.result.result() is Reply.WITH_REASON:
            # At once: the keys behind this one may be here already, and are words.
            self._open_words()

    def end_words(self, *, cancelled: bool) -> None:
        """Take the words, or none of them."""
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(None if cancelled else self.words.text.strip())

    async def open(self, menu: Menu[T]) -> T:
        """Show options and return what was chosen."""
        self.menu = menu
        self._changed()
        try:
            return await menu.result
        finally:
            self.menu = None
            self._changed()

    async def ask_permission(
        self,
        request: PermissionRequest,
        root: Path,
        *,
        accept_edits: Callable[[], None] | None,
        show_all: Callable[[], None] | None,
    ) -> Answer:
        """Return the person's answer; a no may carry words for the model.

        `accept_edits` changes the mode, `show_all` prints what is not shown yet; None where that
        is not offered.
        """
        while True:
            menu = approval_menu(
                request, root, edits=accept_edits is not None, shortened=show_all is not None
            )
            match await self.open(menu):
                case Answer() as answer:
                    return answer
                case Reply.WITH_REASON:
                    words = await self._take_words()
                    if words is None:
                        return NO
                    if words:
                        return Answer(Choice.NO, words)
                case Reply.ACCEPT_EDITS if accept_edits is not None:
                    accept_edits()
                    return Answer(Choice.ONCE)
                case Reply.SHOW_ALL if show_all is not None:
                    show_all()
                    show_all = None

    async def ask_words(self, question: str) -> str | None:
        """Return a line of words, None for Esc."""
        self._open_words(question)
        return await self._take_words()

    def _open_words(self, question: str = WHY_NOT) -> None:
        self.menu = None
        self.asked = question
        self._answer = asyncio.get_running_loop().create_future()
        self.words.reset()
        self._changed()

    async def _take_words(self) -> str | None:
        """Return the person's words, nothing when they want to choose again, None for Esc."""
        assert self._answer is not None
        try:
            return await self._answer
        finally:
            self._answer = None
            self._changed()
