"""Which program runs the code of a tool here: the strongest walls first, else the next one.

deno has a sandbox of its own and gets no permission; all others run in opta's, node without its own
permissions as well. What stands in the project is never taken (R10).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import TypeAlias

from tools.confinement import ENGINES
from tools.definition import ToolError
from tools.files.programs import program_outside
from tools.record import record

_HERE = Path(__file__).parent
_VERSION = re.compile(r"v?(\d+)\.(\d+)")
_TIMEOUT_S = 20

_DENO = ("--quiet", "--no-prompt", "--no-remote", "--no-npm", "--no-config", "--no-lock")
_ORDER = {
    "typescript": ("deno", "bun", "node"),
    "node": ("node", "deno", "bun"),
    "python": ("python",),
}
LANGUAGES = tuple(_ORDER)
Version: TypeAlias = tuple[int, int]

_STRIPS_TYPES = (22, 18)
_HAS_PERMISSIONS = (22, 13)
_TRIES_PERMISSIONS = (20, 0)
_INSTALL = {
    "typescript": "install deno: pip install 'opta-agent[ts]', or from https://deno.com",
    "node": "install Node.js, or deno: pip install 'opta-agent[ts]'",
}


@record
class Runtime:
    """A program that runs code. `version` is known where something depends on it."""

    name: str
    program: Path
    version: Version = (0, 0)

    @property
    def main(self) -> Path:
        """What loads the code, a file of opta's."""
        return _HERE / ("bootstrap.py" if self.name == "python" else "bootstrap.mjs")

    @property
    def home(self) -> Path:
        """What it needs of itself where everything else is hidden."""
        return Path(sys.base_prefix) if self.name == "python" else self.program

    @property
    def has_walls(self) -> bool:
        """True when it keeps the code in by itself."""
        return self.name == "deno"

    def names(self, code: Path) -> str:
        """Return how it names a file that it loads."""
        return str(code) if self.name == "python" else code.as_uri()

    def argv(self, code: Path, max_memory_bytes: int | None) -> tuple[str, ...]:
        """Return what runs the file `code`, with so much memory for its data. Raises ToolError."""
        program, main = str(self.program), self.main
        heap = f"--max-old-space-size={max_memory_bytes >> 20}" if max_memory_bytes else ""
        if self.name == "deno":
            flags = [f"--v8-flags={heap}"] if heap else []
            if "," in str(code):
                raise ToolError(
                    f"deno would take {code} for two paths, for its comma. Nothing was done. Let "
                    "XDG_STATE_HOME be a directory without one."
                )
            return (program, "run", *_DENO, *flags, f"--allow-read={code}", str(main))
        if self.name == "python":
            return (program, "-I", "-B", "-u", str(main))
        if self.name == "bun":
            return (program, "--no-install", "run", str(main))
        flags = ["--no-warnings", *([heap] if heap else [])]
        return (program, *flags, *self._permissions(main, code), str(main))

    def _permissions(self, *readable: Path) -> list[str]:
        if self.version < _TRIES_PERMISSIONS or any("," in str(path) for path in readable):
            return []
        name = "--permission" if self.version >= _HAS_PERMISSIONS else "--experimental-permission"
        return [name, *(f"--allow-fs-read={path}" for path in readable)]


def find(language: str, path: str, root: Path | None = None) -> list[Runtime]:
    """Return what can run `language` (typescript, node, python), the best first.

    `path` is a PATH, `root` the project that nothing is taken from.
    """
    return list(_found(language, path, root))


def walled(found: Sequence[Runtime], *, sandbox: bool) -> Runtime | None:
    """Return the first that can be kept in, with opta's sandbox where there is one."""
    return next((one for one in found if one.has_walls or sandbox), None)


def missing(language: str, path: str, root: Path, image: str = "") -> str:
    """Return why nothing runs `language` here and what to do; empty where something may.

    Nothing is taken from `root`, and nothing there is asked for its version (R10). What an image
    has, only a container of it can tell, and none is made here.
    """
    if os.name != "posix":
        return "programs of tools run on Linux and macOS only"
    if image:
        engines = [engine for engine in ENGINES if program_outside(engine, path, root)]
        told = f"there is neither podman nor docker to run it in {image}; install one of them"
        return "" if engines else told
    if next(_found(language, path, root), None) is not None:
        return ""
    return f"{why_none(language, _of_machine('node', path, root))}; {_INSTALL[language]}"


def why_none(language: str, node: Runtime | None) -> str:
    """Return why nothing runs `language` where the only node is this one."""
    if language != "typescript" or node is None:
        return f"there is no runtime for {language}"
    shown, least = (".".join(map(str, version)) for version in (node.version, _STRIPS_TYPES))
    return f"node {shown} cannot run TypeScript (from {least} it can)"


def fitting(language: str, named: Callable[[str], Runtime | None]) -> Iterator[Runtime]:
    """Yield what can run `language`, the best first, of the runtimes that `named` returns."""
    for name in _ORDER[language]:
        runtime = named(name)
        needs = _STRIPS_TYPES if (language, name) == ("typescript", "node") else (0, 0)
        if runtime is not None and runtime.version >= needs:
            yield runtime


def _found(language: str, path: str, root: Path | None) -> Iterator[Runtime]:
    return fitting(language, lambda name: _of_machine(name, path, root))


def _of_machine(name: str, path: str, root: Path | None) -> Runtime | None:
    program = _program(name, path, root)
    if program is None:
        return None
    # A link may be hidden where what it leads to is shown.
    program = program if name == "python" else program.resolve()
    return Runtime(name, program, _version(program) if name == "node" else (0, 0))


def _program(name: str, path: str, root: Path | None) -> Path | None:
    """Find a program beside opta's own interpreter, then on PATH; Python is opta's own."""
    if name == "python":
        return Path(getattr(sys, "_base_executable", "") or sys.executable)
    own = Path(sys.prefix) / ("Scripts" if os.name == "nt" else "bin")
    beside = shutil.which(name, path=str(own))
    if beside is not None:
        return Path(beside)
    return program_outside(name, path, root)


def _version(program: Path) -> Version:
    found = program.stat()
    return _told_version((str(program), "--version"), found.st_mtime_ns, found.st_size)


@cache
def _told_version(argv: Sequence[str], mtime_ns: int, size: int) -> Version:
    """Ask a program for its version; it is asked again when its file changes."""
    try:
        told = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
            timeout=_TIMEOUT_S, check=False, env={"PATH": os.defpath},
        ).stdout  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return (0, 0)
    match = _VERSION.match(told)
    return (int(match[1]), int(match[2])) if match else (0, 0)
