"""Files in the chat: `/undo` and `/redo`, and what `/rewind` takes back of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.messages import UserMessage
from agent.undo import left, told, told_all

if TYPE_CHECKING:
    from agent.chat import Chat


async def restore_last(chat: Chat, *, undoing: bool) -> str:
    """Take back what the last turn did to files, or put it again; say what was done.

    Raises VersionsError.
    """
    restored = await (chat.files.undo if undoing else chat.files.redo)(chat.session.id)
    if restored is not None and restored.done:
        chat.context.tell_done(told(restored, undoing=undoing))
    return told(restored, undoing=undoing, way_back="/redo" if undoing else "/undo")


async def changed_since(chat: Chat, message: UserMessage) -> list[str]:
    """Return the files that turns have changed since a message, where that can be taken back.

    Raises VersionsError.
    """
    # Sessions of earlier versions do not say when.
    return [] if message.at is None else await chat.files.changed_since(chat.session.id, message.at)


async def restore_since(chat: Chat, message: UserMessage, *, forgotten: bool) -> str:
    """Take back what turns did to files since a message of which `at` is known; say what was done.

    `forgotten`: the model will not know of those turns either. Raises VersionsError.
    """
    assert message.at is not None
    restored = await chat.files.undo_since(chat.session.id, message.at)
    done = told_all(restored)
    news = left(restored) if forgotten else done
    if news:
        chat.context.tell_done(news)
    return done
