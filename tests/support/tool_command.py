"""Runs `opta tool …` in this process, through the same entry as the program."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass
from pathlib import Path

from agent.cli import main
from tools.commands.tool.document import read_document


@dataclass
class Ran:
    """What a command line came to."""

    code: int
    out: str
    err: str


class Shell:
    """A directory to type `opta` commands in; nobody can be asked there."""

    def __init__(self, capfd):
        self._capfd = capfd
        self.root = Path.cwd()
        self.local = self.root / ".opta" / "tools"
        self.user = Path(os.environ["XDG_CONFIG_HOME"]) / "opta" / "tools"
        self.shared = Path(os.environ["OPTA_GLOBAL_DIR"]) / "tools"

    def __call__(self, line, *words):
        """Run `opta LINE`, split as a shell does, with further words as they are."""
        self._capfd.readouterr()
        code = main([*shlex.split(line), *words], "0.0.0")
        return Ran(code, *self._capfd.readouterr())

    def written(self, name, directory=None):
        """Return the data of a tool file."""
        path = (directory or self.local) / f"{name}.yaml"
        return read_document(path.read_bytes(), path).data

    def put(self, name, text, directory=None):
        """Write a tool file as an editor would."""
        directory = directory or self.local
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / name
        path.write_text(text)
        return path


def editor(path, script):
    """Make `$EDITOR` a shell script that gets the file as `$1`."""
    program = path / "editor"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    os.environ["EDITOR"] = str(program)
    return program
