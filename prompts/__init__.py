"""Every text the model reads, as Markdown files beside this module."""

from __future__ import annotations

from functools import cache
from pathlib import Path

_HERE = Path(__file__).parent


@cache
def load(name: str) -> str:
    """Return the text of `prompts/<name>.md`, without the final newline.

    Raises FileNotFoundError when opta ships no such text.
    """
    return (_HERE / f"{name}.md").read_text(encoding="utf-8").rstrip("\n")
