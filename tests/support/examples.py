"""Runs the files of the published designs by hand, with stubs in the place of their programs."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.tool_command import Ran, Shell
from tests.support.tool_files import EXAMPLES

CODEX = "001/config.toml"
FRAGMENTS = "002/fragments/"
NAME_OF_A_FRAGMENT = "part"

_SHOW = r"""printf '%s' "${0##*/}"; for word; do printf ' <%s>' "$word"; done; echo"""
"""Shell text that prints a stub's name and its exact words."""


@dataclass(frozen=True)
class Line:
    """What one run of an example comes to.

    A fragment stands between `before` and `after`, the rest of the smallest tool that can run it.
    `stubs` are scripts by program, which print their words unless they are `quiet`. `err` is in
    what is printed on standard error; without it nothing is. `rows` are what it proves.
    """

    file: str
    arguments: Mapping[str, object] = field(default_factory=dict)
    out: str = ""
    code: int = 0
    err: str = ""
    before: str = ""
    after: str = ""
    stubs: Mapping[str, str] = field(default_factory=dict)
    quiet: bool = False
    tool: str = ""
    rows: tuple[str, ...] = ()


class Examples:
    """A home with the examples one asks for, where the programs they start are stubs.

    Each stub appends its words to `calls`, prints them, and then does what its script says. Every
    bash reads the file `startup` before its script.
    """

    def __init__(self, opta: Shell, directory: Path):
        self.opta = opta
        self._programs = directory / "programs"
        self._programs.mkdir()
        self._calls = directory / "calls"
        self._calls.touch()
        self.startup = directory / "startup.bash"
        os.environ["BASH_ENV"] = str(self.startup)
        # What an example leaves in the temporary directory goes with the test's own.
        (directory / "temporary").mkdir()
        os.environ["TMPDIR"] = str(directory / "temporary")
        os.environ["PATH"] = f"{self._programs}{os.pathsep}{os.environ['PATH']}"
        self.stub("show")

    def stub(self, name: str, script: str = "", *, shown: bool = True) -> None:
        """Put a program on PATH; if it is not `shown` it prints only what its script prints."""
        path = self._programs / name
        log = f"{{ {_SHOW}; }} >> '{self._calls}'"
        path.write_text(f"#!/bin/sh\n{log}\n{_SHOW if shown else ''}\n{script}\n")
        path.chmod(0o755)
        if name == "command":
            # It is a builtin of bash, too.
            self.startup.write_text("enable -n command\n")

    def only(self, *programs: str) -> None:
        """Leave nothing on PATH but the stubs and these programs of the machine."""
        for name in programs:
            found = shutil.which(name)
            assert found, name
            (self._programs / name).symlink_to(found)
        os.environ["PATH"] = str(self._programs)

    @property
    def calls(self) -> list[str]:
        """The stubs that were started, in order, with their words."""
        return self._calls.read_text().splitlines()

    def put(self, file: str, before: str = "", after: str = "") -> str:
        """Make an example, or the tool around a fragment, one of the person's. Return its name."""
        text = (EXAMPLES / file).read_text()
        if file == CODEX:
            self.opta.put("config.toml", text, Path.home() / ".codex")
            return ""
        if file.startswith(FRAGMENTS):
            name = NAME_OF_A_FRAGMENT
            text = f"name: {name}\ndescription: d\n{before}\n{text}\n{after}\n"
        else:
            name = Path(file).name.partition(".")[0]
        self.opta.put(name + Path(file).suffix, text, self.opta.user)
        return name

    def run(self, name: str, *words: str, **arguments: object) -> Ran:
        """Run a tool by hand."""
        return self.opta(f"tool run {name}", "--args", json.dumps(arguments), *words)

    def line(self, line: Line) -> Ran:
        """Run one line of a table."""
        for name, script in line.stubs.items():
            self.stub(name, script, shown=not line.quiet)
        name = self.put(line.file, line.before, line.after)
        return self.run(line.tool or name, **line.arguments)


def parameters(*names: str, **types: str) -> str:
    """Return the declarations a fragment does without: texts, and those of other types."""
    declared = dict.fromkeys(names, "string") | types
    entries = (f"  {name}: {{type: {kind}, description: d, required: true}}"
               for name, kind in declared.items())  # fmt: skip
    return "\n".join(["parameters:", *entries])
