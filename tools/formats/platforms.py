"""Names operating systems as tool files do, and says which programs are here."""

from __future__ import annotations

import os
import shutil
import sys
from functools import cache

NAMES = ("windows", "linux", "macos")


def platform_of(system: str) -> str:
    """Return the name tool files use for a value of `sys.platform`; `unknown` for others (C380)."""
    if system in ("win32", "cygwin"):
        return "windows"
    if system == "darwin":
        return "macos"
    return "linux" if system.startswith("linux") else "unknown"


def current_platform() -> str:
    """Return the name of the operating system opta runs on."""
    return platform_of(sys.platform)


def program_exists(program: str) -> bool:
    """Tell whether a shell could start `program`."""
    return _on_path(program, os.environ.get("PATH", os.defpath))


@cache
def _on_path(program: str, path: str) -> bool:
    return shutil.which(program, path=path) is not None
