"""Which programs are told of calls and turns, as the settings say."""

from __future__ import annotations

import shlex
from pathlib import Path

from tools.record import record

HOOK_TIMEOUT_S = 10
"""How long a hook may take where nothing else was said, in seconds."""


@record
class HookCommand:
    """A program that is told, without a shell.

    It runs in `cwd`, the directory of the file that names it, so that a hook of the person's never
    runs a file of the project they happen to stand in. `project`: it counts only while the project
    is trusted. `tools` are globs of the names it is told of, all where empty. With `required` a
    call waits for a hook that works: one that fails denies it.
    """

    argv: tuple[str, ...]
    cwd: Path
    source: str
    project: bool = False
    tools: tuple[str, ...] = ()
    timeout_ms: int = HOOK_TIMEOUT_S * 1000
    required: bool = False

    @property
    def line(self) -> str:
        """The command line, for rules and people."""
        return shlex.join(self.argv)


@record
class HookSettings:
    """All hooks: `pre_tool` may deny a call, `tool` and `stop` are told only."""

    pre_tool: tuple[HookCommand, ...] = ()
    tool: tuple[HookCommand, ...] = ()
    stop: tuple[HookCommand, ...] = ()
