"""The tests in a tool file: their keys, and what `opta tool test` runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tools.definition import ToolTest
from tools.formats.fields import Key, Kind, table
from tools.formats.platforms import NAMES as PLATFORMS

_TEST = table(
    Key("name", Kind.NAME, "what the test is called", required=True),
    Key("description", Kind.TEXT, "what it tests"),
    Key("parameters", Kind.VALUES, "the arguments of the call"),
    Key(
        "expected", Kind.MAP, "what must come of it",
        keys=table(
            Key("exit-code", Kind.INTEGER, "the exit code"),
            Key("output-contains", Kind.TEXT, "text that must be in the output"),
            Key("output-contains-any", Kind.TEXTS, "texts of which one must be in the output"),
            Key("file-exists", Kind.TEXT, "a file that must be there afterwards"),
            Key("directory-exists", Kind.TEXT, "a directory that must be there afterwards"),
        ),
    ),
    Key("cleanup", Kind.TEXTS, "commands to run afterwards"),
    Key("platforms", Kind.TEXTS, "operating systems it is for", choices=PLATFORMS),
)  # fmt: skip

TESTS = Key("tests", Kind.LIST, "tests, for opta tool test", keys=_TEST)


def tests_of(data: Mapping[str, Any]) -> tuple[ToolTest, ...]:
    """Return the tests of a file whose keys were read."""
    return tuple(
        ToolTest(
            name=test["name"],
            description=test.get("description", ""),
            parameters=test.get("parameters", {}),
            expected=test.get("expected", {}),
            cleanup=test.get("cleanup", ()),
            platforms=test.get("platforms", ()),
        )
        for test in data.get("tests", ())
    )
