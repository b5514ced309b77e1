"""Which files configure MCP servers, and what they say together.

The nearer file wins where two name a server: `.opta/config.yml`, `.mcp.json` of a trusted project,
the user's `config.yml`, the machine's. Files are read when they changed, never before they are
needed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tools.definition import Scope
from tools.engine.environment import is_secret
from tools.formats.problems import ToolProblem, shown_path
from tools.permissions.trust import ProjectFileError, read_project_file
from tools.sources.mcp.config import KEY, ServerConfig, Variables, read_servers
from tools.yamltext import DocumentError, parse

PROJECT_FILES = (".opta/config.yml", ".mcp.json")
"""Where a project may configure servers, nearest first."""


@dataclass(frozen=True, slots=True)
class Configured:
    """The servers by name, and what is wrong with the files."""

    servers: Mapping[str, ServerConfig] = field(default_factory=dict)
    problems: tuple[ToolProblem, ...] = ()


def read_configured(
    project: Path | None,
    own_files: list[tuple[Scope, Path]],
    environ: Mapping[str, str],
    holds: Callable[[Path, bytes], bool] = lambda path, data: True,
) -> Configured:
    """Read all files. `project` None leaves those of the project unopened (R22).

    `own_files` are the user's and the machine's, nearest first. `holds` tells whether a file of the
    project still is what was trusted (R25).
    """
    servers: dict[str, ServerConfig] = {}
    problems: list[ToolProblem] = []
    for scope, path, data in _contents(project, own_files, problems):
        if KEY.encode() not in data or (scope is Scope.LOCAL and not holds(path, data)):
            continue
        refused = is_secret if scope is Scope.LOCAL else lambda name: False
        try:
            document = parse(data, path)
        except DocumentError as error:
            if path.suffix == ".json":
                # The settings say it of their own files.
                problems.append(ToolProblem(path, str(error).removeprefix(f"{path}:").strip()))
            continue
        found, wrong = read_servers(document, scope, shown_path(path), Variables(environ, refused))
        problems += wrong
        for config in found:
            servers.setdefault(config.name, config)
    return Configured(servers, tuple(problems))


def _contents(
    project: Path | None, own_files: list[tuple[Scope, Path]], problems: list[ToolProblem]
) -> list[tuple[Scope, Path, bytes]]:
    contents: list[tuple[Scope, Path, bytes]] = []
    for name in PROJECT_FILES if project is not None else ():
        assert project is not None
        try:
            data = read_project_file(project, name)
        except ProjectFileError as error:
            problems.append(ToolProblem(project / name, str(error)))
            continue
        if data is not None:
            contents.append((Scope.LOCAL, project / name, data))
    for scope, path in own_files:
        try:
            contents.append((scope, path, path.read_bytes()))
        except OSError as error:
            if not isinstance(error, FileNotFoundError | NotADirectoryError):
                reason = error.strerror or os.strerror(error.errno or 0)
                problems.append(ToolProblem(path, f"cannot be read: {reason}"))
    return contents
