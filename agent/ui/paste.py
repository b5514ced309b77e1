"""What a paste puts into the input: its text, or a mention of the image that was dropped there."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

IMAGES = (".png", ".jpg", ".jpeg", ".gif", ".webp")

_LONGEST_PATH = 4096


def pasted(text: str) -> str:
    """Return what goes into the input for a paste.

    A terminal pastes the path of a file that is dropped on it, quoted as for a shell. That of an
    image becomes a mention: the image goes along with the message. Line ends become `\\n`.
    """
    image = _dropped_image(text.strip()) if len(text) <= _LONGEST_PATH else None
    if image is not None:
        return f'@"{image}" '
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _dropped_image(text: str) -> Path | None:
    try:
        words = shlex.split(text, posix=os.name == "posix")
        path = Path(*words) if len(words) == 1 else Path()
        dropped = path.suffix.lower() in IMAGES and path.is_absolute() and path.is_file()
    except (ValueError, OSError):
        return None
    return path if dropped and '"' not in str(path) else None
