"""`opta help [TOPIC …]`: pages about tools, permissions, hooks and the loop."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

import tools.commands
from agent.errors import USAGE, UserError

_PAGES = Path(tools.commands.__file__).parent / "help"


def main(words: Sequence[str], out: TextIO) -> int:
    """Print the page of a topic, without one the list of topics. Raises UserError."""
    name = "-".join(word for word in words if word not in ("-h", "--help"))
    out.write(page(name) if name else _topics())
    return 0


def has_page(command: str) -> bool:
    """Tell whether there is a page about a command; of the others `--help` says all."""
    return command in _names()


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
    more = "Other commands: opta help COMMAND. Which there are: opta --help"
    return "\n".join(["Topics:", "", *lines, "", more, ""])


def _names() -> list[str]:
    return sorted(path.stem for path in _PAGES.glob("*.txt"))


def _spoken(name: str) -> str:
    return name.replace("-", " ")
