"""`opta help [TOPIC …]`: pages about the tool and permission commands."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

import tools.commands
from agent.errors import USAGE, UserError

_PAGES = Path(tools.commands.__file__).parent / "help"


def main(words: Sequence[str], out: TextIO) -> int:
    """Print the page of a topic, without one the list of topics. Raises UserError."""
    topics = [word for word in words if word not in ("-h", "--help")]
    out.write(page("-".join(topics)) if topics else _topics())
    return 0


def page(name: str) -> str:
    """Return a page such as `tool-add`. Raises UserError, which names the topics near it."""
    known = _names()
    if name in known:
        return (_PAGES / f"{name}.txt").read_text(encoding="utf-8")
    from difflib import get_close_matches

    near = [_spoken(found) for found in get_close_matches(name, known, 3)]
    hint = f" Did you mean {', '.join(near)}?" if near else ""
    raise UserError(
        f"there is no help about {_spoken(name)!r}.{hint} See `opta help`, or `opta --help` for "
        "everything else",
        USAGE,
    )


def _topics() -> str:
    lines = [f"  opta help {_spoken(name)}" for name in _names()]
    return "\n".join(["Topics:", "", *lines, "", "Everything else: opta --help", ""])


def _names() -> list[str]:
    return sorted(path.stem for path in _PAGES.glob("*.txt"))


def _spoken(name: str) -> str:
    return name.replace("-", " ")
