"""Programs in containers: which runtimes an image has, found out by asking them for their versions.

With `code_image` set no program runs anywhere else (E56).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from tools.code.runtimes import Runtime, fitting, why_none
from tools.confinement import Confinement
from tools.definition import ToolError
from tools.engine.isolation.choice import Isolation

_ASK = (
    "for name in deno bun node python3; do "
    'told=$("$name" --version 2>/dev/null) && echo "$name" $told; done; true'
)
_TOLD = re.compile(r"((deno|bun|node|python)3?) \D*(\d+)\.(\d+)")


def choose(isolation: Isolation, language: str) -> tuple[Runtime, Confinement]:
    """Return what runs `language` in the image for programs, and its walls.

    Raises ToolError, with the reason only, where there is no engine, no image or no runtime in it.
    """
    walls, told = isolation.for_program(_ASK)
    runtimes = _runtimes(told)
    found = next(fitting(language, runtimes.get), None)
    if found is None:
        why = why_none(language, runtimes.get("node"))
        raise ToolError(
            f"in the image {walls.image} {why}; name another with the setting code_image"
        )
    return found, walls


def _runtimes(told: str) -> Mapping[str, Runtime]:
    """Read what `_ASK` printed. Where the runtimes are, the image's own PATH says."""
    return {
        match[2]: Runtime(match[2], Path(match[1]), (int(match[3]), int(match[4])))
        for match in map(_TOLD.match, told.splitlines())
        if match is not None
    }
