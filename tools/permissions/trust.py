"""Which projects the person trusts, bound to the real path and to what the project would run.

Trust covers the files that opta executes or obeys; `AGENTS.md` needs trust too, but a change of it
asks no question. Only the path itself counts: a trusted directory says nothing of a clone,
worktree or submodule inside it (R25).
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path

from tools import storage
from tools.actions import PlanAction, command_text
from tools.definition import Origin, Scope, Source, ToolDefinition, digest_of

MAX_FILE_BYTES = 1 << 20
MAX_FILES = 500
INSTRUCTIONS = "AGENTS.md"
SETTINGS_FILES = (".opta/config.yml", ".mimir/config.yml", ".mcp.json")
SEVERAL_TOOLS = (".opta/config.toml", ".codex/config.toml")
TOOL_DIRECTORIES = (".opta/tools", ".cycod/tools", ".mimir/tools")


class ProjectFileError(Exception):
    """A file of the project cannot be used safely. The message says which and why."""


@dataclass(frozen=True, slots=True)
class ProjectFile:
    """One file of a project that trust is about.

    `text` is its content, undecodable bytes as escapes; for a link, where it leads; for a file
    that cannot be read, why not. None of it is safe for a terminal yet (R33). `digest` is the
    sha256 (hex) of what would be used. `problem` is empty when all is well.
    """

    path: str
    text: str
    digest: str
    problem: str = ""


@dataclass(frozen=True, slots=True)
class ProjectTool:
    """A tool the project brings: its name, the file, and what it would run."""

    name: str
    path: str
    command: str


@dataclass(frozen=True)
class TrustReport:
    """What a project asks to be trusted with, by content (R24).

    `instructions` is the text of AGENTS.md, empty when there is none. A report that is not
    `complete` stops at MAX_FILES tool files: what cannot be shown cannot be trusted.
    """

    root: Path
    settings: tuple[ProjectFile, ...]
    tool_files: tuple[ProjectFile, ...]
    tools: tuple[ProjectTool, ...]
    instructions: str
    complete: bool = True

    @property
    def files(self) -> tuple[ProjectFile, ...]:
        """The files whose change asks again."""
        return self.settings + self.tool_files

    @property
    def anything(self) -> bool:
        """True when there is something to ask about."""
        return bool(self.files or self.instructions)

    @cached_property
    def digest(self) -> str:
        """Sha256 (hex) over the paths and contents of `files`."""
        return digest_of([[file.path, file.digest] for file in self.files])


def inspect(project: Path) -> TrustReport:
    """Read what the project would have executed or obeyed. Executes and imports nothing (R22)."""
    root = project.resolve()
    settings = [_settings_file(root, relative) for relative in SETTINGS_FILES]
    settings += [_tool_file(root, relative) for relative in SEVERAL_TOOLS if _there(root, relative)]
    names = list(islice(_tool_names(root), MAX_FILES + 1))
    tool_files = tuple(_tool_file(root, name) for name in names[:MAX_FILES])
    return TrustReport(
        root=root,
        settings=tuple(file for file in settings if file is not None),
        tool_files=tool_files,
        tools=tuple(tool for file in tool_files for tool in _tools_in(root, file)),
        instructions=_instructions(root),
        complete=len(names) <= MAX_FILES,
    )


class TrustStore:
    """Remembers what was trusted, with its text, below the user's state directory."""

    def __init__(self, state_dir: Path) -> None:
        self._directory = state_dir / "trust"

    def trusted(self, report: TrustReport) -> bool:
        """True when exactly this was trusted at this path. Raises StorageError."""
        stored = self._load(report.root)
        return stored is not None and stored.digest == report.digest and report.complete

    def what_changed(self, report: TrustReport) -> str:
        """Return a unified diff from what was trusted to what is there now (R25).

        Empty when nothing was ever trusted here, or nothing changed. Raises StorageError.
        """
        stored = self._load(report.root)
        if stored is None or stored.digest == report.digest:
            return ""
        now = {file.path: file.text for file in report.files}
        pieces = [
            _diff(path, stored.texts.get(path), now.get(path))
            for path in sorted(stored.texts.keys() | now.keys())
        ]
        return "".join(pieces)

    def grant(self, report: TrustReport) -> None:
        """Trust what the report shows, nothing that came after it.

        Raises StorageError, and ProjectFileError for a report that is not complete.
        """
        if not report.complete:
            raise ProjectFileError(
                f"{report.root} has more than {MAX_FILES} tool files, too many to be shown and "
                "trusted. Remove some to use any."
            )
        record = {
            "path": str(report.root),
            "digest": report.digest,
            "texts": {file.path: file.text for file in report.files},
        }
        storage.write_private(self._file(report.root), json.dumps(record).encode())

    def _file(self, root: Path) -> Path:
        return self._directory / f"{hashlib.sha256(os.fsencode(root)).hexdigest()[:32]}.json"

    def _load(self, root: Path) -> _Stored | None:
        data = storage.read_private(self._file(root))
        try:
            record = json.loads(data) if data is not None else None
            if record is None or record["path"] != str(root):
                return None
            return _Stored(str(record["digest"]), dict(record["texts"]))
        except (ValueError, KeyError, TypeError):
            # A damaged record trusts nothing: the question is asked again.
            return None


@dataclass(frozen=True, slots=True)
class _Stored:
    digest: str
    texts: Mapping[str, str] = field(repr=False)


def _diff(path: str, old: str | None, new: str | None) -> str:
    if old == new:
        return ""
    import difflib

    lines = difflib.unified_diff(
        (old or "").splitlines(), (new or "").splitlines(),
        "/dev/null" if old is None else path, "/dev/null" if new is None else path, lineterm="",
    )  # fmt: skip
    return "".join(f"{line}\n" for line in lines)


def read_project_file(root: Path, relative: str) -> bytes | None:
    """Return the bytes of a file of a project, None when there is none.

    No component below `root` may be a link (R16). Raises ProjectFileError for links, for anything
    but a regular file (R20), for more than MAX_FILE_BYTES and for files that cannot be read.
    """
    path = root
    try:
        for part in Path(relative).parts:
            path = path / part
            if stat.S_ISLNK(path.lstat().st_mode):
                raise ProjectFileError(f"{relative} of the project is not used: it is a link")
        return storage.read_regular(path, MAX_FILE_BYTES, getattr(os, "O_NOFOLLOW", 0))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        reason = "it is a link" if error.errno == errno.ELOOP else _reason(error)
        raise ProjectFileError(f"{relative} of the project is not used: {reason}") from None


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()


def _settings_file(root: Path, relative: str) -> ProjectFile | None:
    try:
        data = read_project_file(root, relative)
    except ProjectFileError as error:
        return _unreadable(relative, str(error))
    return None if data is None else _readable(relative, data)


def _there(root: Path, relative: str) -> bool:
    path = root / relative
    try:
        return path.is_symlink() or path.exists()
    except OSError:
        return True


def _tool_names(root: Path) -> Iterator[str]:
    for directory in TOOL_DIRECTORIES:
        for name in _names(root / directory):
            yield f"{directory}/{name}"


def _names(directory: Path) -> list[str]:
    try:
        return sorted(entry.name for entry in directory.iterdir() if not entry.is_dir())
    except OSError:
        return []


def _tool_file(root: Path, relative: str) -> ProjectFile:
    """Read a file as the loader of tools would, through a link too: that is what would run."""
    path = root / relative
    try:
        data = storage.read_regular(path, MAX_FILE_BYTES)
        if not path.is_symlink():
            return _readable(relative, data)
        target = f"link to {path.readlink()}"
    except OSError as error:
        return _unreadable(relative, f"{relative} is not used: {_reason(error)}")
    return ProjectFile(relative, target, _sha256(os.fsencode(target) + b"\0" + data))


def _readable(relative: str, data: bytes) -> ProjectFile:
    return ProjectFile(relative, data.decode("utf-8", "backslashreplace"), _sha256(data))


def _unreadable(relative: str, problem: str) -> ProjectFile:
    return ProjectFile(relative, problem, _sha256(b"unreadable"), problem)


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _tools_in(root: Path, file: ProjectFile) -> list[ProjectTool]:
    """Name what a tool file defines; the whole text stands for files of other formats."""
    path = root / file.path
    if path.suffix.lower() == ".json" and not file.problem:
        found = [_tool(file, tool) for tool in _definitions(path, file)]
        if found:
            return found
    return [ProjectTool(path.name, file.path, file.text)]


def _definitions(path: Path, file: ProjectFile) -> list[ToolDefinition]:
    from tools.formats import read
    from tools.formats.problems import ToolFileError

    origin = Origin(Source.CUSTOM, "", Scope.LOCAL, path, digest=file.digest)
    try:
        return read(file.text.encode(), origin)[0]
    except ToolFileError:
        return []


def _tool(file: ProjectFile, tool: ToolDefinition) -> ProjectTool:
    steps = tool.action.steps if isinstance(tool.action, PlanAction) else ()
    return ProjectTool(
        tool.name, file.path, "\n".join(command_text(step.command) for step in steps)
    )


def _instructions(root: Path) -> str:
    try:
        data = read_project_file(root, INSTRUCTIONS)
    except ProjectFileError as error:
        return str(error)
    return "" if data is None else data.decode("utf-8", "backslashreplace")
