"""Lets the person write their message in an editor of their own.

Started by a key of the person, who also chose the program.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tools.engine.environment import child_environment, with_terminal


class EditorError(Exception):
    """The editor could not be used. The message says what to set."""


async def edit(
    text: str, environment: Mapping[str, str] = os.environ, *, suffix: str = ".md"
) -> str:
    """Return `text` as the person left it in `$VISUAL` or `$EDITOR`, else in `vi`.

    `suffix` tells the editor what kind of text it is. The file is private and removed afterwards.
    Raises EditorError when the program cannot be started or fails; the text is then as it was.
    """
    argv = _command(environment)
    descriptor, name = tempfile.mkstemp(prefix="opta-", suffix=suffix)
    path = Path(name)
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        await _run([*argv, name], with_terminal(child_environment(environment), environment))
        return path.read_text(encoding="utf-8", errors="replace").rstrip("\n")
    finally:
        path.unlink(missing_ok=True)


def _command(environment: Mapping[str, str]) -> list[str]:
    command = environment.get("VISUAL") or environment.get("EDITOR") or "vi"
    try:
        return shlex.split(command)
    except ValueError as error:
        raise EditorError(f"$VISUAL or $EDITOR cannot be read ({error}): {command}") from error


async def _run(argv: list[str], environment: Mapping[str, str]) -> None:
    try:
        process = await asyncio.create_subprocess_exec(*argv, env=environment)
    except OSError as error:
        raise EditorError(
            f"Cannot start the editor {argv[0]}: {error.strerror}. Set VISUAL or EDITOR."
        ) from error
    status = await process.wait()
    if status != 0:
        raise EditorError(f"The editor {argv[0]} ended with {status}; the text stays as it was.")
