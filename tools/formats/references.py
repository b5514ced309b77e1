"""Finds what the templates of a tool file refer to: `{NAME}`, `{NAME:transform}`, `{step.output}`.

Only for telling the author early; the engine decides what is substituted (X91).
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping

from tools.record import record

PREDEFINED_MEANINGS: Mapping[str, str] = {
    "TOOL_NAME": "the name of the tool",
    "WORKSPACE": "the root of the workspace",
    "TEMP": "the system's directory for temporary files",
    "HOME": "the person's home directory",
    "OS": "windows, linux or macos",
    "DATE": "the local date, such as 2026-01-31",
    "TIME": "the local time, such as 18:05:09",
    "TIMESTAMP": "date and time in UTC, such as 2026-01-31T17:05:09Z",
}
"""Names every template may use, and what they stand for (C251-C258)."""

PREDEFINED = frozenset(PREDEFINED_MEANINGS)

STEP_MEANINGS: Mapping[str, str] = {
    "output": "what it wrote to standard output, without line ends at the end",
    "error": "what it wrote to standard error",
    "exit-code": "its exit code; null where it did not run",
    "duration": "milliseconds from its first start to its end, with all retries",
    "start-time": "when it started, in UTC",
    "end-time": "when it ended, in UTC",
}
"""What `{step.…}` may name, and what that stands for (C260-C265)."""

STEP_PROPERTIES = frozenset(STEP_MEANINGS)

_REFERENCE = re.compile(
    r"\{(?<![${\\]\{)(?P<name>[A-Za-z_][\w-]*)(?:\.(?P<property>[A-Za-z][\w-]*))?(?=\}(?!\})|[:?]|\s*\?)",
    re.ASCII,
)
_SHOUTED = re.compile(r"[A-Z][A-Z0-9_]*", re.ASCII)


@record
class Reference:
    """A place of a template. `property` is empty for anything but a step."""

    name: str
    property: str = ""


def references_in(template: str) -> Iterator[Reference]:
    """Yield what looks like a reference, in order."""
    if "{" in template:
        for found in _REFERENCE.finditer(template):
            yield Reference(found["name"], found["property"] or "")


def undeclared(references: Iterable[Reference], declared: Container[str]) -> Iterator[str]:
    """Yield names in capitals that nothing declares: they would stay as they are (X91)."""
    for reference in references:
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
