"""What a project brings that opta would execute or obey: read for the question of trust.

Reading here executes and imports nothing (R22). `AGENTS.md` needs trust too, but a change of it
asks no question.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import field
from enum import StrEnum
from functools import cached_property
from itertools import islice
from pathlib import Path

from tools import storage
from tools.definition import Origin, Scope, Source, ToolDefinition, digest_of
from tools.record import open_record, record

MAX_FILE_BYTES = 1 << 20
MAX_FILES = 500
MAX_BYTES = 8 << 20
"""Of all files together: nobody reads more before saying yes."""

INSTRUCTIONS = "AGENTS.md"
SWITCHING_FILES = (".opta/config.yml", ".mimir/config.yml")
"""Files of a project that turn tools on and off."""

SETTINGS_FILES = (*SWITCHING_FILES, ".mcp.json")
SEVERAL_TOOLS = (".opta/config.toml", ".codex/config.toml")
"""Files of a project that may define several tools each, nearest first."""

TOOL_DIRECTORIES = (".opta/tools", ".cycod/tools", ".mimir/tools")
"""Where a project may have tool files, nearest first (X2)."""


class Trust(StrEnum):
    """How far a project is trusted. With READING its settings and AGENTS.md count, nothing runs."""

    NOTHING = "nothing"
    READING = "reading"
    RUNNING = "running"

    @property
    def reads(self) -> bool:
        """True when settings and instructions of the project count."""
        return self is not Trust.NOTHING

    @property
    def runs(self) -> bool:
        """True when tools of the project may be offered to the model and run."""
        return self is Trust.RUNNING


class ProjectFileError(Exception):
    """A file of the project cannot be used safely. The message says which and why."""


@record
class ProjectFile:
    """One file of a project that trust is about.

    `text` is its content, undecodable bytes as escapes, for a link after a line that says where it
    leads; for a file that cannot be read, why not. None of it is safe for a terminal yet (R33).
    `digest` is the sha256 (hex) of what would be used, `data` that itself. `problem` is empty when
    all is well.
    """

    path: str
    text: str
    digest: str
    problem: str = ""
    data: bytes = field(default=b"", repr=False)


@record
class ProjectTool:
    """A tool the project brings: its name, the file, what it would run, and what else it says."""

    name: str
    path: str
    command: str
    rest: str = ""


@open_record
class TrustReport:
    """What a project asks to be trusted with, by content (R24).

    `instructions` is the text of AGENTS.md, empty when there is none. A report that is not
    `complete` stops at MAX_FILES tool files or MAX_BYTES: what cannot be shown cannot be trusted.
    """

    root: Path
    settings: tuple[ProjectFile, ...]
    tool_files: tuple[ProjectFile, ...]
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

    @cached_property
    def tools(self) -> tuple[ProjectTool, ...]:
        """The tools that the files define, for showing them."""
        return tuple(tool for file in self.tool_files for tool in _tools_in(self.root, file))

    def holds(self, path: Path, sha256: str) -> bool:
        """Tell whether the file at `path` had this content when the report was made (R25).

        What opta reads later is compared with what the person saw. Of an incomplete report, which
        only `--trust` accepts, nothing can be said.
        """
        return sha256 == self._contents.get(os.fspath(path), "" if self.complete else sha256)

    @cached_property
    def _contents(self) -> dict[str, str]:
        return {os.fspath(self.root / file.path): _sha256(file.data) for file in self.files}


def inspect(project: Path) -> TrustReport:
    """Read what the project would have executed or obeyed. Executes and imports nothing (R22)."""
    root = project.resolve()
    settings = [_settings_file(root, relative) for relative in SETTINGS_FILES]
    settings += [_tool_file(root, relative) for relative in SEVERAL_TOOLS if _there(root, relative)]
    names = list(islice(_tool_names(root), MAX_FILES + 1))
    tool_files = tuple(_within_limit(_tool_file(root, name) for name in names[:MAX_FILES]))
    return TrustReport(
        root=root,
        settings=tuple(file for file in settings if file is not None),
        tool_files=tool_files,
        instructions=_instructions(root),
        complete=len(tool_files) == len(names),
    )


def _within_limit(files: Iterable[ProjectFile]) -> Iterator[ProjectFile]:
    total = 0
    for file in files:
        total += len(file.data)
        if total > MAX_BYTES:
            return
        yield file


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
    digest = _sha256(os.fsencode(target) + b"\0" + data)
    return ProjectFile(relative, f"{target}\n{_decoded(data)}", digest, data=data)


def _readable(relative: str, data: bytes) -> ProjectFile:
    return ProjectFile(relative, _decoded(data), _sha256(data), data=data)


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")


def _unreadable(relative: str, problem: str) -> ProjectFile:
    return ProjectFile(relative, problem, _sha256(b"unreadable"), problem)


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _tools_in(root: Path, file: ProjectFile) -> list[ProjectTool]:
    """Name what a tool file defines; the whole text stands for files of other formats.

    Those say in many places what is run: fallbacks, variables, code, other tools.
    """
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
        return [tool for tool in read(file.data, origin)[0] if tool.origin.format == "opta-json"]
    except ToolFileError:
        return []


def _tool(file: ProjectFile, tool: ToolDefinition) -> ProjectTool:
    from tools.actions import PlanAction, command_text

    assert isinstance(tool.action, PlanAction)
    link = file.text.removesuffix(_decoded(file.data)).rstrip("\n")
    parameters = json.dumps(tool.parameters, ensure_ascii=False)
    rest = [link, f"description: {tool.description}", f"parameters: {parameters}"]
    return ProjectTool(
        tool.name, file.path, command_text(tool.action.steps[0].command),
        "\n".join(filter(None, rest)),
    )  # fmt: skip


def _instructions(root: Path) -> str:
    """Read AGENTS.md as it is told to the model: through a link that stays in the project."""
    path = root / INSTRUCTIONS
    try:
        if not path.resolve().is_relative_to(root):
            return f"{INSTRUCTIONS} is not used: it leads out of the project"
        return _decoded(storage.read_regular(path, MAX_FILE_BYTES))
    except FileNotFoundError:
        return ""
    except (OSError, RuntimeError) as error:
        reason = _reason(error) if isinstance(error, OSError) else "it leads back to itself"
        return f"{INSTRUCTIONS} is not used: {reason}"
