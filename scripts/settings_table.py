"""Prints the table of all settings in docs/settings.md, from the table that the reader uses.

python -m scripts.settings_table [--write]
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from agent.settings_keys import KEYS

PAGE = Path(__file__).resolve().parent.parent / "docs" / "settings.md"
HEAD = "| Setting | Value | Default | Meaning | Flag, variables |\n|---|---|---|---|---|\n"
_TABLE = re.compile(re.escape(HEAD) + r"(?:\|.*\n)*")


def table() -> str:
    """Return the table as Markdown."""
    rows = []
    for key in KEYS.values():
        default = "" if key.default in (None, "", (), {}) else f"`{_shown(key.default)}`"
        other = ", ".join(f"`{name}`" for name in (key.flag, *key.env) if name)
        name = f"`{key.name}`" if key.file else "(flag only)"
        rows.append(f"| {name} | {key.allowed} | {default} | {key.help} | {other} |\n")
    return HEAD + "".join(rows)


def page() -> str:
    """Return the whole page with the table as it should be."""
    return _TABLE.sub(lambda _: table(), PAGE.read_text(encoding="utf-8"))


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def main(arguments: list[str]) -> int:
    """Print the table, or write it to its place."""
    if arguments == ["--write"]:
        PAGE.write_text(page(), encoding="utf-8")
    else:
        sys.stdout.write(table())
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
