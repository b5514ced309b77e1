"""Finds code that does not parse before anything runs it."""

from __future__ import annotations

import ast
import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tools.actions import CodeAction
from tools.code import runtimes
from tools.code.program import module_text
from tools.code.runtimes import Runtime
from tools.record import record

_TIMEOUT_S = 20
_PLACE = re.compile(r"(?:_stdin\.\w+|\[stdin\]):(\d+)")
_MESSAGE = re.compile(r"SyntaxError: (.*)")
_BUN_PARSES = """
try { new Bun.Transpiler({ loader: "%s" }).scan(await Bun.stdin.text()); } catch (error) {
  const { message, position } = error.errors?.[0] ?? error;
  console.error(`SyntaxError: ${message}\\n[stdin]:${position?.line}`);
  process.exit(1);
}
"""


@record
class Fault:
    """What is wrong with code, and where: `line` counts from 1, in the code."""

    line: int
    message: str


def fault(action: CodeAction, root: Path) -> Fault | None:
    """Return the first mistake of a tool's code; None where there is none, or nobody to tell.

    The code is read, not run. Nothing that stands below `root` reads it (R10).
    """
    if action.runtime == "python":
        return _in_python(action.code)
    path = os.environ.get("PATH", os.defpath)
    for runtime in runtimes.find(action.runtime, path, root):
        command = _parser(runtime, action.runtime)
        if command is not None:
            return _told(command, action.code)
    return None


def _in_python(code: str) -> Fault | None:
    try:
        ast.parse(code)
    except SyntaxError as error:
        return Fault(error.lineno or 1, error.msg)
    except (ValueError, RecursionError, MemoryError) as error:
        return Fault(1, str(error) or "it is nested too deeply")
    return None


def _parser(runtime: Runtime, language: str) -> tuple[str, ...] | None:
    """Return what parses standard input as a module and says where it cannot."""
    program = str(runtime.program)
    if runtime.name == "deno":
        extension = "mts" if language == "typescript" else "mjs"
        return (program, "fmt", "--quiet", "--no-config", "--ext", extension, "-")
    if runtime.name == "bun":
        script = _BUN_PARSES % ("ts" if language == "typescript" else "js")
        return (program, "--no-install", "-e", script)
    if runtime.name == "node" and language == "node":
        return (program, "--check", "--input-type=module", "-")
    return None


def _told(command: Sequence[str], code: str) -> Fault | None:
    environment = {"PATH": os.defpath, "NO_COLOR": "1", "DENO_NO_UPDATE_CHECK": "1"}
    try:
        done = subprocess.run(
            command, input=module_text(code), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            encoding="utf-8", errors="replace", timeout=_TIMEOUT_S, check=False, env=environment,
            # bun obeys settings where it is started, and those of a project name code (R10).
            cwd=Path(__file__).parent,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    place, message = _PLACE.search(done.stderr), _MESSAGE.search(done.stderr)
    if done.returncode == 0 or place is None or message is None:
        return None
    # What opta adds comes after the last line.
    return Fault(min(int(place[1]), code.rstrip("\n").count("\n") + 1), message[1])
