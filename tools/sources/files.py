"""Finds tool files: in the project, for the user, for the machine (X2).

A scan is one `stat` per file; a file is read again only when its time, size or inode changed.
"""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeAlias

from tools.definition import Origin, Scope, Source, ToolDefinition
from tools.formats.problems import ToolFileError, ToolProblem
from tools.permissions.trust import SEVERAL_TOOLS, TOOL_DIRECTORIES
from tools.record import record
from tools.storage import read_regular
from tools.yamltext import MAX_BYTES

EXTENSIONS = (".json", ".yaml", ".yml")
SEVERAL = ".toml"
_NOT_HERE = "is not read: in TOML, tools are tables [custom_tools.NAME] of .opta/config.toml"
_INSTEAD = "write it as YAML or JSON, or move it there"

_Signature: TypeAlias = tuple[int, ...]
_CHANGED = "has changed since the project was trusted; it is not used before it is trusted again"
_NOTHING_THERE = ((-1, errno.ENOENT), (-1, errno.ENOTDIR))


def tool_places(
    project: Path | None,
    config_dir: Path,
    global_dir: Path,
    *,
    home: Path | None = None,
    codex_config: Path | None = None,
) -> list[tuple[Scope, Path]]:
    """Return the directories of tool files, and the files of many tools, nearest scope first.

    `project` is the root of a trusted project, or None: in a directory that is not trusted no
    file of the project is even opened (R22). `home` is where other programs keep a user's tools,
    `codex_config` a `config.toml` of the user's; None leaves them out.
    """
    local = [] if project is None else [
        project / name for name in (*TOOL_DIRECTORIES, *SEVERAL_TOOLS)
    ]  # fmt: skip
    user = [config_dir / "tools"]
    if home is not None:
        user += [home / ".cycod" / "tools", home / ".mimir" / "tools"]
    if codex_config is not None:
        user.append(codex_config)
    return [
        *((Scope.LOCAL, path) for path in local),
        *((Scope.USER, path) for path in user),
        (Scope.GLOBAL, global_dir / "tools"),
    ]


def has_files(place: Path) -> bool:
    """Tell whether a place holds tool files; none is opened."""
    return any(True for _ in _scan(place))


@record
class _Reading:
    """What a path gave when it had this signature."""

    signature: _Signature
    definitions: tuple[ToolDefinition, ...] = ()
    problems: tuple[ToolProblem, ...] = ()
    profiles: frozenset[str] = frozenset()


class ToolFiles:
    """The tools that files define. Nothing is opened before the first `load` (A25).

    `places` are directories, or files `*.toml` that define several tools. `profile` chooses a
    profile in the latter; empty means the one each file names itself. `refused_name` says why a
    tool may not have a name, or nothing. `trusted` tells whether a file of the project has the
    content (sha256, hex) that the person trusted: it may have changed since (R25). `code_image` is
    the image in which programs run, empty where they run on this machine.
    """

    def __init__(
        self,
        places: Iterable[tuple[Scope, Path]],
        profile: str = "",
        refused_name: Callable[[str], str] = lambda _: "",
        *,
        trusted: Callable[[Path, str], bool] = lambda path, sha256: True,
        code_image: str = "",
    ) -> None:
        self.places = list(places)
        self.profile = profile
        self._refused_name = refused_name
        self._trusted = trusted
        self._code_image = code_image
        self._readings: dict[str, _Reading] = {}

    def load(self) -> tuple[list[ToolDefinition], list[ToolProblem]]:
        """Return all tools, by scope and then file name (A12), and what is wrong with files.

        The same name may come several times: who wins is the registry's business.
        """
        readings: dict[str, _Reading] = {}
        for scope, place in self.places:
            for path, signature in _scan(place):
                known = self._readings.get(path)
                if known is None or known.signature != signature:
                    known = self._read(Path(path), scope, signature)
                readings[path] = known
        self._readings = readings
        return (
            [tool for reading in readings.values() for tool in reading.definitions],
            [
                *(problem for reading in readings.values() for problem in reading.problems),
                *self._missing_profile(readings.values()),
            ],
        )

    def _missing_profile(self, readings: Iterable[_Reading]) -> list[ToolProblem]:
        known = sorted(name for reading in readings for name in reading.profiles)
        if not self.profile or self.profile in known:
            return []
        hint = f"there are {', '.join(dict.fromkeys(known))}" if known else "there is none at all"
        return [ToolProblem(None, f"no config.toml has a profile {self.profile!r}", hint=hint)]

    def _read(self, path: Path, scope: Scope, signature: _Signature) -> _Reading:
        if path.suffix.lower() == SEVERAL and (scope, path) not in self.places:
            return _Reading(signature, problems=(ToolProblem(path, _NOT_HERE, hint=_INSTEAD),))
        try:
            data = read_regular(path, MAX_BYTES)
        except OSError as error:
            return _Reading(signature, problems=(ToolProblem(path, _unreadable(path, error)),))
        digest = hashlib.sha256(data).hexdigest()
        if scope is Scope.LOCAL and not self._trusted(path, digest):
            # Without a signature it is read again: what is trusted may change, too.
            return _Reading((), problems=(ToolProblem(path, _CHANGED),))
        from tools.formats.findings import few

        origin = Origin(Source.CUSTOM, "", scope, path, digest=digest)
        try:
            usable, problems = usable_tools(data, origin, self.profile, self._code_image)
        except ToolFileError as error:
            found = [*error.problems, *error.warnings, *self._refused(data, path)]
            found.sort(key=lambda problem: (problem.line or 0, problem.column or 0))
            return _Reading(signature, problems=tuple(few(found, path)))
        return _Reading(
            signature, tuple(usable), tuple(few(problems, path)), self._profiles_in(data, path)
        )

    def _profiles_in(self, data: bytes, path: Path) -> frozenset[str]:
        if not self.profile or path.suffix != SEVERAL:
            return frozenset()
        from tools.formats import codex

        return codex.profile_names(data, path)

    def _refused(self, data: bytes, path: Path) -> list[ToolProblem]:
        """Say of an unusable file that its name would be refused too: all mistakes at once."""
        from tools.yamltext import DocumentError, parse

        try:
            document = parse(data, path)
        except DocumentError:
            return []
        name = document.data.get("name") if isinstance(document.data, dict) else None
        refusal = self._refused_name(name) if isinstance(name, str) else ""
        if not refusal:
            return []
        line, column = document.position(("name",))
        return [ToolProblem(path, refusal, line, column, "$.name", "choose another name")]


def usable_tools(
    data: bytes, origin: Origin, profile: str = "", code_image: str = ""
) -> tuple[list[ToolDefinition], list[ToolProblem]]:
    """Return the tools in a file that can be used, and what is wrong with it and its other tools.

    `origin.path` says by its extension how to read; `profile` and `code_image` are as in ToolFiles.
    Raises ToolFileError where none can be used.
    """
    # Most people have no tool file, and the formats and the engine take long to import.
    from tools import formats
    from tools.sources.plan_checks import check_plan, checked_runtime

    if origin.path is not None and origin.path.suffix == SEVERAL:
        from tools.formats import codex

        definitions, problems = codex.read(data, origin, profile=profile)
    else:
        definitions, problems = formats.read(data, origin)
    usable = []
    for definition in definitions:
        check = check_plan(definition, data)
        problems += check.problems
        if not check.problems:
            usable.append(checked_runtime(check.tool, code_image))
    return usable, problems


def _scan(place: Path) -> Iterator[tuple[str, _Signature]]:
    """Yield the tool files of a place by name; a directory that cannot be listed, itself.

    Paths are text here: a thousand of them are looked at before every turn.
    """
    base = os.fspath(place)
    if place.suffix == SEVERAL:
        found = _signature(base)
        if found not in _NOTHING_THERE:
            yield base, found
        return
    try:
        with os.scandir(base) as entries:
            names = sorted(
                entry.name
                for entry in entries
                if entry.name.lower().endswith((*EXTENSIONS, SEVERAL)) and entry.name[0] != "."
            )
    except FileNotFoundError:
        return
    except OSError as error:
        yield base, (-1, error.errno or 0)
        return
    for name in names:
        path = f"{base}/{name}"
        yield path, _signature(path)


def _signature(path: str) -> _Signature:
    try:
        found = os.stat(path)  # noqa: PTH116 - see _scan
    except OSError as error:
        return (-1, error.errno or 0)
    return (found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino, found.st_mode)


def _unreadable(path: Path, error: OSError) -> str:
    """Say why a file that is there, or seems to be, cannot be read."""
    if error.errno == errno.ELOOP:
        return f"is a link that leads back to itself ({path.readlink()})"
    if error.errno == errno.ENOENT and path.is_symlink():
        return f"is a link to nothing ({path.readlink()})"
    return f"cannot be read: {error.strerror or error}"
