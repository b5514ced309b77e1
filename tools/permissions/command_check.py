"""What is known of a command before it runs: its parts, and the files that reading parts name.

The list of commands that need no rule holds only where the directory of the command is known, and
for programs that PATH finds outside the workspace (R10). The parser and the list are loaded with
the first command: a chat starts without them.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from tools.files.paths import is_within
from tools.files.protected import secret_name, sensitivity
from tools.record import record

if TYPE_CHECKING:
    from tools.permissions.read_only import Reading
    from tools.permissions.shell_syntax import Part

MAX_SEARCHED = 4000
"""Entries of a tree that are looked at for secrets before a command may read all of it."""

_NO_FILES = frozenset(("-", "", "/dev/null", "/dev/stdin"))
_BUILTINS = frozenset((
    ":", "[", "break", "cd", "command", "continue", "echo", "exit", "false", "printf", "pwd",
    "read", "set", "test", "true", "type",
))  # fmt: skip


@record
class FileRead:
    """A file that a command reads: the real path, whether it is inside, why it asks (R40)."""

    path: str
    inside: bool
    sensitive: str


@record
class CheckedPart:
    """A part of a line, and why it does more than read; empty when it only reads `files`.

    `trees` are directories of which it reads all files. `foreign` says that its program comes
    with the workspace. `objects` may be names of objects of git. `starts` are the words, for
    each way in which it may be started. `unlisted` is said of a program of which nothing is known.
    """

    part: Part
    why: str
    files: tuple[FileRead, ...] = ()
    trees: tuple[Path, ...] = ()
    helpers: frozenset[str] = frozenset()
    foreign: bool = False
    objects: tuple[str, ...] = ()
    unlisted: bool = False

    @property
    def starts(self) -> tuple[tuple[str, ...], ...]:
        """The words of the command, all known; empty where some are not."""
        known = tuple(
            tuple(word for word in words if word is not None) for words in self.part.fields
        )
        return () if any(None in words for words in self.part.fields) else known


@record
class Checked:
    """A whole line."""

    parts: tuple[CheckedPart, ...]

    @property
    def only_reads(self) -> bool:
        """Whether every part only reads."""
        return bool(self.parts) and not any(part.why for part in self.parts)

    @property
    def files(self) -> Iterator[FileRead]:
        """All files that are read by name."""
        return (file for part in self.parts for file in part.files)

    @property
    def trees(self) -> Iterator[Path]:
        """All directories that are read whole."""
        return (tree for part in self.parts for tree in part.trees)

    @property
    def objects(self) -> tuple[str, ...]:
        """What git may take for the name of an object whose content it shows."""
        return tuple(dict.fromkeys(name for part in self.parts for name in part.objects))

    @property
    def helpers(self) -> frozenset[str]:
        """Programs whose settings must be kept from running anything while this runs.

        git only where the whole line reads: what keeps it quiet would also switch off the hooks
        of a commit beside it.
        """
        found = frozenset[str]().union(*(part.helpers for part in self.parts if not part.why))
        return found if self.only_reads else found - {"git"}


@dataclass
class CommandChecker:
    """Checks lines for one workspace. `readable` are further directories that count as inside."""

    root: Path
    readable: tuple[Path, ...] = ()
    _inside_programs: dict[str, bool] = field(default_factory=dict)
    _parts: dict[object, CheckedPart] = field(default_factory=dict)

    def check(self, line: str, cwd: str) -> Checked:
        """Check a line that would be run in the directory `cwd`."""
        from tools.permissions.shell_syntax import read_line

        # What is found may change between two commands, not within one.
        self._inside_programs.clear()
        self._parts.clear()
        start = Path(os.path.realpath(cwd))
        parts = dict.fromkeys(read_line(line, start))
        return Checked(tuple(self._part(part, start) for part in parts))

    def foreign(self, program: str) -> bool:
        """Tell whether a program, named without its directory, comes with the workspace."""
        if program not in self._inside_programs:
            self._inside_programs[program] = found_inside(program, self.root)
        return self._inside_programs[program]

    def _part(self, part: Part, start: Path) -> CheckedPart:
        if part.obstacle:
            return CheckedPart(part, part.obstacle)
        key = (part.fields, part.reads, part.cwds)
        if key not in self._parts:
            self._parts[key] = self._checked(part, start)
        return replace(self._parts[key], part=part)

    def _checked(self, part: Part, start: Path) -> CheckedPart:
        from tools.permissions.read_only import NotReadOnly, Reading, reads_only

        reading = Reading(files=list(part.reads))
        why = "is a program of this workspace" if self._is_foreign(part) else ""
        foreign, unlisted = bool(why), False
        for words in part.fields:
            try:
                found = reads_only(words)
            except NotReadOnly as error:
                unlisted = unlisted or (error.unlisted and not why)
                why = why or str(error)
                continue
            reading.files += found.files
            reading.trees += found.trees
            reading.helpers |= found.helpers
            reading.objects += found.objects
        trees = tuple(cwd / tree for cwd in part.cwds for tree in dict.fromkeys(reading.trees))
        why = why or self._problem(part, reading, trees, start)
        files = tuple(self._files(part, reading.files, start))
        helpers, objects = frozenset(reading.helpers), tuple(reading.objects)
        return CheckedPart(part, why, files, trees, helpers, foreign, objects, unlisted)

    def _is_foreign(self, part: Part) -> bool:
        names = {words[0] or "" for words in part.fields}
        return any(name not in _BUILTINS and self.foreign(name) for name in names)

    def _problem(self, part: Part, reading: Reading, trees: tuple[Path, ...], start: Path) -> str:
        if "git" in reading.helpers:
            elsewhere = (cwd for cwd in part.cwds if cwd != start)
            if any(_other_repository(cwd, start) for cwd in elsewhere):
                return "may be in another repository, whose settings are not known"
        if not reading.helpers:
            return next(filter(None, map(_secret_below, trees)), "")
        return ""

    def _files(self, part: Part, names: Iterable[str], start: Path) -> Iterator[FileRead]:
        from tools.permissions.shell_expansion import PIPE

        for name in dict.fromkeys(names):
            if name not in _NO_FILES and name != PIPE:
                for cwd in part.cwds:
                    path = os.path.join(cwd, name)  # noqa: PTH118 - once per operand
                    plain = cwd == start and _has_no_link(str(cwd), name)
                    yield self._file(path, path if plain else None)

    def _file(self, path: str, real: str | None) -> FileRead:
        spelled = real or os.path.normpath(path)
        try:
            real = real or os.path.realpath(path)
        except (OSError, ValueError):
            return FileRead(spelled, False, "")
        inside = any(_is_below(real, place) for place in (self.root, *self.readable))
        sensitive = sensitivity(Path(spelled))
        if real != spelled:
            sensitive = sensitive or sensitivity(Path(real))
        return FileRead(real, inside, sensitive)


def _has_no_link(cwd: str, name: str) -> bool:
    """Tell whether `name`, below the real directory `cwd`, is already the real path of it."""
    path = cwd
    for part in name.split("/"):
        if part in ("", ".", "..") or "\0" in part:
            return False
        path = f"{path}/{part}"
        try:
            if stat.S_ISLNK(os.lstat(path).st_mode):
                return False
        except FileNotFoundError:
            # Nothing below what does not exist leads elsewhere.
            continue
        except OSError:
            return False
    return True


def _is_below(path: str, place: Path) -> bool:
    return path.startswith(f"{place}{os.sep}") or is_within(Path(path), place)


def found_inside(program: str, root: Path) -> bool:
    """Tell whether the shell would find a bare program name in the workspace `root`."""
    if "/" in program:
        return False
    path = os.environ.get("PATH", os.defpath)
    if not all(map(os.path.isabs, path.split(os.pathsep))):
        # Where such a directory is depends on where the shell is.
        return True
    # Where programs come and go, what was found a moment ago says nothing.
    find = _what_shell_finds if _reaches(path, root) else _what_shell_found
    real = find(program, path)
    return real is not None and real.is_relative_to(root)


@lru_cache(maxsize=16)
def _reaches(path: str, root: Path) -> bool:
    """Tell whether programs are looked for in `root`."""
    directories = map(os.path.realpath, path.split(os.pathsep))
    return any(Path(directory).is_relative_to(root) for directory in directories)


def _what_shell_finds(program: str, path: str) -> Path | None:
    """Return the real path of what the shell takes, of the workspace or not."""
    found = shutil.which(program, path=path)
    return None if found is None else Path(found).resolve()


_what_shell_found = lru_cache(maxsize=256)(_what_shell_finds)


def _other_repository(cwd: Path, start: Path) -> bool:
    """Tell whether git, run in `cwd`, may find another repository than in `start`."""
    if start not in cwd.parents:
        return True
    between = [cwd, *cwd.parents]
    return any((place / ".git").exists() for place in between[: between.index(start)])


def _secret_below(tree: Path) -> str:
    """Say which file of a tree asks to be read, or that the tree is too large to tell."""
    seen = 0
    for directory, names, files in os.walk(tree):
        for name in (*names, *files):
            seen += 1
            # Logins in the settings of git are masked where a command prints them.
            reason = secret_name(Path(directory, name))
            if reason:
                return f"reads all files below, also {reason}"
        if seen > MAX_SEARCHED:
            return "reads more files than could be looked at for secrets"
    return ""
