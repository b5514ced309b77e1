"""The input line, and what its keys do."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from prompt_toolkit.application import get_app, in_terminal
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import ThreadedCompleter
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import History

from agent.events import Level, Notice
from agent.ui.completion import InputCompleter, may_complete
from agent.ui.file_index import FileIndex
from agent.ui.paste import paste_clipboard, pasted
from agent.ui.port import ChatPort
from agent.ui.turns import Turns

AGAIN_S = 2.0
"""How soon a key must be pressed again to do what its second press does, in seconds."""

INTERRUPTED = 130


class Control:
    """Holds what is being typed. `hint` is shown in the bottom line for a moment.

    `away` is True while another program has the terminal.
    """

    def __init__(
        self,
        port: ChatPort,
        root: Path,
        history: History,
        *,
        leave: Callable[[int], None],
        tell: Callable[[Notice], None],
        changed: Callable[[], None],
    ) -> None:
        self._pressed, self._pressed_at = "", 0.0
        self.text = Buffer(
            multiline=True,
            completer=ThreadedCompleter(
                InputCompleter(port.commands, port.following, FileIndex(root), port.references)
            ),
            complete_while_typing=Condition(self._may_complete),
            history=history,
            on_text_changed=self._typed,
        )
        self.hint = ""
        self.away = False
        self._port = port
        self._root = root
        self._leave = leave
        self._tell = tell
        self._changed = changed

    def attach(self, turns: Turns) -> None:
        """Say where messages go."""
        self._turns = turns

    def enter(self) -> None:
        """Send the input; what is still to complete is completed; after a backslash go on."""
        if self._completes():
            return
        text = self.text.text
        if text.endswith("\\") and self.text.document.is_cursor_at_the_end:
            self.text.delete_before_cursor()
            self.newline()
        elif text.strip():
            self.text.reset(append_to_history=True)
            self._turns.send(text)

    def complete(self) -> None:
        """Complete with the chosen of what is offered, or with the first; offer what there is."""
        state = self.text.complete_state
        if state is not None and state.completions:
            self.text.apply_completion(state.current_completion or state.completions[0])
        else:
            self.text.start_completion()

    def newline(self) -> None:
        """Start a new line in the input."""
        self.text.newline(copy_margin=False)

    def paste(self, text: str) -> None:
        """Insert what was pasted, or dropped."""
        self.text.insert_text(pasted(text, self.text.document.text_before_cursor))

    def paste_clipboard(self) -> None:
        """Insert what is in the clipboard: text, or a mention of the image."""
        get_app().create_background_task(paste_clipboard(self._root, self.paste, self._tell))

    def interrupt(self) -> None:
        """Stop the turn; clear the input; on an empty one say how to leave; the second leaves."""
        if self.away:
            return
        if self._turns.stoppable:
            self._turns.stop()
        elif self.text.text:
            self.text.reset()
        elif self._again("interrupt", "Press Ctrl-C again to leave, or Ctrl-D"):
            self._leave(INTERRUPTED)

    def _typed(self, _: Buffer) -> None:
        self._pressed = ""

    def _again(self, key: str, hint: str) -> bool:
        """Tell whether a key was pressed twice in a row; say what the second time would do."""
        now = time.monotonic()
        twice = self._pressed == key and now - self._pressed_at < AGAIN_S
        self._pressed, self._pressed_at = ("" if twice else key), now
        if not twice:
            self.hint = hint
            asyncio.get_running_loop().call_later(AGAIN_S, self.drop_hint)
        return twice

    def drop_hint(self) -> None:
        """Show the status again."""
        if self.hint:
            self.hint = ""
            self._changed()

    def escape(self) -> None:
        """Close the completions; stop the turn; the second on an empty line goes back."""
        if self.text.complete_state is not None:
            self.text.cancel_completion()
        elif self._turns.stoppable:
            self._turns.stop()
        elif not self.text.text and self._again(
            "escape", "Press Esc again to go back to a message"
        ):
            self._turns.send("/rewind")

    def end_of_input(self) -> None:
        """Leave on an empty line, else delete the next character."""
        if self.text.text:
            self.text.delete()
        else:
            self._leave(0)

    def next_mode(self) -> None:
        """Go to the next permission mode."""
        self._port.cycle_mode()

    def open_editor(self) -> None:
        """Write the input in an editor."""
        get_app().create_background_task(self._edit())

    def suspend(self) -> None:
        """Go to the background, as any job of a shell."""
        get_app().suspend_to_background()

    def give_back(self, messages: Sequence[str]) -> None:
        """Put messages that were not sent before what is being typed."""
        self.text.document = Document("\n".join([*messages, *filter(None, [self.text.text])]))

    async def _edit(self) -> None:
        from agent.ui.editor import EditorError, edit

        self.away = True
        try:
            async with in_terminal():
                text = await edit(self.text.text)
            self.text.document = Document(text)
        except EditorError as error:
            self._tell(Notice(str(error), Level.ERROR))
        finally:
            self.away = False
            self._changed()

    def _may_complete(self) -> bool:
        return may_complete(self.text.document.text_before_cursor)

    def _completes(self) -> bool:
        """Complete what Enter completes: what was chosen, or a command that is not one yet."""
        state = self.text.complete_state
        if state is None or not state.completions:
            return False
        text = self.text.text
        chosen = state.current_completion
        if text.startswith("/") and " " not in text:
            known = text in [f"/{name}" for name, _ in self._port.commands()]
            chosen = None if known else state.completions[0]
        if chosen is not None:
            self.text.apply_completion(chosen)
        return chosen is not None
