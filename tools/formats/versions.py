"""Which versions of the formats opta covers, and which tool files ask for more (X131)."""

from __future__ import annotations

from tools.formats.fields import SEMANTIC_VERSION

CYCOD_LEVEL = "1.2.0"
"""The level of the CYCOD format that is covered: the highest its published document names."""

OPTA_VERSION = "0.1.0"
"""The version of opta, as its launcher prints it."""


def is_newer(wanted: str, have: str) -> bool:
    """Tell whether `wanted` is a higher semantic version than `have` (semver.org, section 11)."""
    return _precedence(wanted) > _precedence(have)


def _precedence(version: str) -> tuple[tuple[int, ...], bool, tuple[tuple[bool, int, str], ...]]:
    found = SEMANTIC_VERSION.fullmatch(version)
    if found is None:
        raise ValueError(f"{version!r} is no semantic version")
    before = (found[4] or "").removeprefix("-")
    parts = tuple(
        (not part.isdecimal(), int(part) if part.isdecimal() else 0, part)
        for part in before.split(".")
        if part
    )
    return tuple(int(found[n]) for n in (1, 2, 3)), not before, parts
