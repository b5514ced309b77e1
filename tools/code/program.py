"""A tool's code as the file that is run, and the way back from its lines to those of the tool file.

The file is written once for each text and runtime. deno keeps what it compiled by the same path and
content, so that code is compiled once and again when it changed (E50).
"""

from __future__ import annotations

import re
from pathlib import Path

from tools import storage
from tools.actions import CodeAction
from tools.definition import ToolDefinition, digest_of
from tools.record import record

_MODULE = re.compile(r"^\s*(?:export\b|import\b(?!\s*[(.]))", re.MULTILINE)
_COMMON = (
    'import { createRequire as __createRequire } from "node:module"; '
    "const require = __createRequire(import.meta.url), module = { exports: {} }, "
    "exports = module.exports; "
)
"""Stands in the first line of code that is no module, so that lines keep their numbers."""

_EXPORTED = (
    "\nexport const __opta = {{ execute: typeof execute === 'undefined' ? undefined : execute, "
    "exports: {exports} }};\n"
)
_EXTENSIONS = {"typescript": ".mts", "node": ".mjs", "python": ".py"}


@record
class Program:
    """The code of a tool in a file of opta's own. `shown` is the tool's file, for messages."""

    path: Path
    shown: str
    first_line: int | None

    @classmethod
    def of(cls, tool: ToolDefinition, shown: str) -> Program:
        """Write the code of `tool` where it is not yet. Raises StorageError."""
        action = tool.action
        assert isinstance(action, CodeAction)
        text = action.code if action.runtime == "python" else module_text(action.code)
        name = f"code/{digest_of([action.runtime, text])[:32]}{_EXTENSIONS[action.runtime]}"
        return cls(storage.kept_file(name, text), shown, action.first_line)

    def place(self, trace: str) -> str:
        """Return where in the tool's file the first place of a trace is; empty where none is."""
        found = re.search(re.escape(self.path.name) + r":(\d+)", trace)
        if found is None:
            return ""
        if self.first_line is None:
            return f"{self.shown}, line {found[1]} of its code"
        return f"{self.shown}:{self.first_line + int(found[1]) - 1}"


def module_text(code: str) -> str:
    """Return the code as a module that exports what it calls `execute`, in whichever way."""
    if _MODULE.search(code):
        return code + _EXPORTED.format(exports="undefined")
    return _COMMON + code + _EXPORTED.format(exports="module.exports")
