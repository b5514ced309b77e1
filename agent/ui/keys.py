"""Which key does what."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from prompt_toolkit.filters import Condition, Filter, has_completions, is_searching
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys

from agent.ui.control import Control
from agent.ui.questions import Questions


def bindings(
    questions: Questions, control: Control, show_shortened: Callable[[], None]
) -> KeyBindings:
    """Return the key bindings of the chat."""
    keys = KeyBindings()
    bind_question(keys, questions.choose, Condition(questions.is_choosing))
    _bind_words(keys, questions)
    _bind_input(keys, control, ~Condition(questions.is_open))
    keys.add("c-o", filter=~Condition(questions.is_open))(_call(show_shortened))
    return keys


def bind_question(keys: KeyBindings, choose: Callable[[str], None], choosing: Filter) -> None:
    """Give every key to an open question (see `Menu.press`)."""
    named: dict[Any, str] = {
        "up": "up", "down": "down", "pageup": "pageup", "pagedown": "pagedown", "enter": "enter",
        "s-tab": "shift-tab",
        "escape": "cancel", "c-c": "cancel", Keys.SIGINT: "cancel",
    }  # fmt: skip
    for key, name in named.items():
        keys.add(key, filter=choosing, eager=True)(_call(partial(choose, name)))

    @keys.add(Keys.Any, filter=choosing)
    def _(event: KeyPressEvent) -> None:
        choose(event.data)

    # A paste is not an answer.
    keys.add(Keys.BracketedPaste, filter=choosing)(_call(partial(choose, "")))


def _bind_words(keys: KeyBindings, questions: Questions) -> None:
    answering = Condition(questions.is_answering)
    keys.add("enter", filter=answering)(_call(partial(questions.end_words, cancelled=False)))
    for key in ("escape", "c-c", Keys.SIGINT):
        keys.add(key, filter=answering, eager=True)(
            _call(partial(questions.end_words, cancelled=True))
        )


def _bind_input(keys: KeyBindings, control: Control, typing: Filter) -> None:
    free = typing & ~is_searching
    keys.add("enter", filter=free)(_call(control.enter))
    keys.add("tab", filter=free)(_call(control.complete))
    keys.add("escape", "enter", filter=free)(_call(control.newline))
    keys.add("c-j", filter=free)(_call(control.newline))
    keys.add("escape", filter=free)(_call(control.escape))
    keys.add("c-c", filter=free)(_call(control.interrupt))
    keys.add(Keys.SIGINT, filter=typing)(_call(control.interrupt))
    keys.add("c-d", filter=free)(_call(control.end_of_input))
    keys.add("s-tab", filter=free & ~has_completions)(_call(control.next_mode))
    keys.add("c-g", filter=free)(_call(control.open_editor))
    keys.add(Keys.BracketedPaste, filter=free)(lambda event: control.paste(event.data))
    keys.add("c-v", filter=free)(_call(control.paste_clipboard))
    keys.add("c-z", filter=free)(_call(control.suspend))


def _call(action: Callable[[], None]) -> Callable[[KeyPressEvent], None]:
    def handler(event: KeyPressEvent) -> None:
        action()

    return handler
