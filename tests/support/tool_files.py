"""Reads tool files in tests, as the loader does."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.definition import Origin, Scope, Source, ToolDefinition
from tools.formats import read
from tools.formats.problems import ToolFileError, ToolProblem

EXAMPLES = Path(__file__).parent.parent / "examples"
"""The files of the published designs, unchanged; `002` is the CYCOD document."""


def origin(name: str = "t.yaml") -> Origin:
    return Origin(Source.CUSTOM, "", Scope.LOCAL, Path("/project/.cycod/tools") / name)


def load(text: str | bytes, name: str = "t.yaml") -> tuple[ToolDefinition, list[ToolProblem]]:
    """Return the one tool of a file, and the warnings about it."""
    (definition,), warnings = read(text.encode() if isinstance(text, str) else text, origin(name))
    return definition, warnings


def refused(text: str | bytes, name: str = "t.yaml") -> dict[str, ToolProblem]:
    """Return what keeps a file from loading, by key path."""
    with pytest.raises(ToolFileError) as caught:
        read(text.encode() if isinstance(text, str) else text, origin(name))
    return {problem.key: problem for problem in caught.value.problems}


def cycod(more: str = "", command: str = "bash: run-it") -> str:
    """Return a CYCOD tool with further keys."""
    return f"name: t\ndescription: d\n{command}\n{more}"
