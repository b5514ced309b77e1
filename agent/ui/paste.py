"""What a paste puts into the input: its text, or a mention of the image that was dropped there."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from pathlib import Path

from agent.events import Level, Notice

IMAGES = (".png", ".jpg", ".jpeg", ".gif", ".webp")

_LONGEST_PATH = 4096


def pasted(text: str, before: str = "") -> str:
    """Return what goes into the input for a paste; `before` is what stands before it.

    A terminal pastes the path of a file that is dropped on it, quoted as for a shell. That of an
    image becomes a mention: the image goes along with the message. Line ends become `\\n`.
    """
    image = _dropped_image(text.strip()) if len(text) <= _LONGEST_PATH else None
    if image is not None:
        # Right behind a word an `@` names nothing.
        blank = " " if before and not before[-1].isspace() else ""
        return f'{blank}@"{image}" '
    return text.replace("\r\n", "\n").replace("\r", "\n")


async def paste_clipboard(
    root: Path, paste: Callable[[str], None], tell: Callable[[Notice], None]
) -> None:
    """Paste what is in the clipboard, or tell why not; no program of `root` is asked for it."""
    from agent.ui.clipboard import ClipboardError, clipboard_text

    try:
        paste(await clipboard_text(root))
    except ClipboardError as error:
        tell(Notice(str(error), Level.ERROR))


def _dropped_image(text: str) -> Path | None:
    try:
        words = shlex.split(text, posix=os.name == "posix")
        path = Path(*words) if len(words) == 1 else Path()
        dropped = path.suffix.lower() in IMAGES and path.is_absolute() and path.is_file()
    except (ValueError, OSError):
        return None
    return path if dropped and '"' not in str(path) else None
