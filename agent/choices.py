"""Slash commands that let the person choose from a list: `/resume` and `/rewind`."""

from __future__ import annotations

from enum import Enum
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from agent import undo_chat
from agent.compaction import SUMMARY
from agent.events import Level
from agent.messages import UserMessage
from agent.session import summaries
from agent.session_summary import labels, local_time
from agent.ui.menu import Option
from agent.ui.wrap import shorten
from tools.engine.output import sanitize
from tools.files.paths import shown_name
from tools.files.versions import VersionsError

if TYPE_CHECKING:
    from agent.chat import Chat
    from agent.ui.repl import Repl

LISTED = 30
LABEL_COLUMNS = 100
NAMED = 5
"""How many files that would be taken back are named."""

LABEL_READ = 1000
"""How much of a long message is looked at for its label, in characters."""

_REWOUND = "Taken back: that message and all that followed it. Send it again as you want it."
_FILES_STAY = "Files are as they are; /undo takes back what was changed in them."


class _Way(Enum):
    """What `/rewind` takes back."""

    CONVERSATION = 1
    BOTH = 2
    FILES = 3


async def resume(repl: Repl, chat: Chat, root: Path) -> str:
    """Let the person choose an earlier session to go on with; return what to show."""
    others = (s for s in summaries(root) if s.answered and s.id != chat.session.id)
    found = list(islice(others, LISTED))
    if not found:
        return "There is no earlier session in this directory."
    options = [
        Option(s.id, _described(s.updated, s.turns, label))
        for s, label in zip(found, labels(found), strict=True)
    ]
    chosen = await repl.select("Go on with which session?", options)
    return chat.resume(chosen) if chosen else ""


async def rewind(repl: Repl, chat: Chat) -> str:
    """Let the person choose a message to write anew; return what to show."""
    said = [
        (position, message)
        for position, message in enumerate(chat.conversation.messages)
        if isinstance(message, UserMessage) and _is_alone(message)
    ]
    if not said:
        return "There is no message to go back to."
    options = [Option(one, _label(one[1].text)) for one in reversed(said[-LISTED:])]
    chosen = await repl.select("Go back to before which of your messages?", options)
    if chosen is None:
        return ""
    position, message = chosen
    changed = await _changed_since(chat, message)
    way = await repl.select("Go back with what?", _ways(changed)) if changed else _Way.CONVERSATION
    if way is None:
        return ""
    if way is _Way.CONVERSATION:
        files = _FILES_STAY if changed else ""
    else:
        try:
            files = await undo_chat.restore_since(chat, message, forgotten=way is _Way.BOTH)
        except VersionsError as error:
            return str(error)
    if way is _Way.FILES:
        return files
    repl.give_back([message.text])
    chat.rewind(position)
    return "\n".join(filter(None, [_REWOUND, files]))


async def _changed_since(chat: Chat, message: UserMessage) -> list[str]:
    try:
        return await undo_chat.changed_since(chat, message)
    except VersionsError as error:
        chat.notice(str(error), Level.WARNING)
        return []


def _ways(changed: list[str]) -> list[Option[_Way | None]]:
    names = ", ".join(map(shown_name, changed[:NAMED]))
    more = f" and {len(changed) - NAMED:,} more" if len(changed) > NAMED else ""
    return [
        Option(_Way.CONVERSATION, "the conversation: files stay as they are", "c"),
        Option(_Way.BOTH, f"the conversation and files: {names}{more}", "b"),
        Option(_Way.FILES, "files alone: the conversation goes on, and the model is told", "f"),
    ]


def _is_alone(message: UserMessage) -> bool:
    """Tell whether the person wrote it and no summary would be lost with it."""
    return bool(message.text) and SUMMARY not in message.context


def _label(text: str) -> str:
    return shorten(" ".join(sanitize(text[:LABEL_READ]).split()), LABEL_COLUMNS)


def _described(updated: float, turns: int, title: str) -> str:
    return f"{local_time(updated)}  {turns} {'message' if turns == 1 else 'messages'}  {title}"
