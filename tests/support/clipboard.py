"""Programs that read a clipboard, which answer as those of a machine with a screen do."""

from __future__ import annotations

import base64
import shlex
from collections.abc import Mapping
from pathlib import Path

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
"""An image of one point."""

_WORDS = {
    "xclip": ("-selection clipboard -o -t TARGETS", "-selection clipboard -o -t"),
    "wl-paste": ("--list-types", "--no-newline --type"),
}
"""How each is asked for the types, and for what is of one type."""


def put_program(directory: Path, name: str, holds: Mapping[str, bytes]) -> None:
    """Make the program `name`, for a clipboard that holds these data by their type.

    As xclip 0.13 does it answers to a type that is not there with what is.
    """
    listing, reading = _WORDS[name]
    lines = ["#!/bin/sh", 'case "$*" in']
    for number, data in enumerate(holds.values()):
        (directory / f"{name}.{number}").write_bytes(data)
    listed = "".join(f"{kind}\n" for kind in ("TARGETS", *holds))
    lines.append(f"{shlex.quote(listing)}) printf %s {shlex.quote(listed)} ;;" if holds else "")
    for number, kind in enumerate((*holds, "*")):
        asked = f"{reading} {kind}"
        pattern = f"{shlex.quote(reading)}' '*" if kind == "*" else shlex.quote(asked)
        file = directory / f"{name}.{min(number, len(holds) - 1)}"
        lines.append(f"{pattern}) cat {shlex.quote(str(file))} ;;" if holds else "")
    lines += ["*) exit 1 ;;", "esac"]
    program = directory / name
    program.write_text("\n".join(filter(None, lines)) + "\n")
    program.chmod(0o755)
