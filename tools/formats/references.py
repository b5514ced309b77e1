"""Finds what the templates of a tool file refer to: `{NAME}`, `{NAME:transform}`, `{step.output}`.

Only for telling the author early; the engine decides what is substituted (X91).
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator
from dataclasses import dataclass

PREDEFINED = frozenset(
    {"TOOL_NAME", "WORKSPACE", "TEMP", "HOME", "OS", "DATE", "TIME", "TIMESTAMP"}
)
"""Names every template may use (C251-C258)."""

STEP_PROPERTIES = frozenset({"output", "error", "exit-code", "duration", "start-time", "end-time"})
"""What `{step.…}` may name (C260-C265)."""

_REFERENCE = re.compile(
    r"(?<![${\\])\{(?P<name>[A-Za-z_][\w-]*)(?:\.(?P<property>[A-Za-z][\w-]*))?(?=\}(?!\})|[:?]|\s*\?)",
    re.ASCII,
)
_SHOUTED = re.compile(r"[A-Z][A-Z0-9_]*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Reference:
    """A place of a template. `property` is empty for anything but a step."""

    name: str
    property: str = ""


def references_in(template: str) -> Iterator[Reference]:
    """Yield what looks like a reference, in order."""
    if "{" in template:
        for found in _REFERENCE.finditer(template):
            yield Reference(found["name"], found["property"] or "")


def undeclared(template: str, declared: Container[str]) -> Iterator[str]:
    """Yield names in capitals that nothing declares: they would stay as they are (X91)."""
    for reference in references_in(template):
        name = reference.name
        known = name in declared or name in PREDEFINED
        if not reference.property and not known and _SHOUTED.fullmatch(name):
            yield name


def uses_any(template: str, names: Container[str]) -> bool:
    """Tell whether a template refers to one of `names`, or to something predefined."""
    return any(
        reference.name in names or reference.name in PREDEFINED
        for reference in references_in(template)
    )
