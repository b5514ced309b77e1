"""Which files configure MCP servers, and what they say together.

Where two files name a server the user's `config.yml` wins, then the machine's, then
`.opta/config.yml` and `.mcp.json` of a trusted project: a rule of the user's about a server must
not come to mean another one that a project calls the same (R28).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import field
from functools import partial
from pathlib import Path

from tools.definition import Scope
from tools.engine.environment import is_secret
from tools.formats.problems import ToolProblem, shown_path
from tools.permissions.trust import ProjectFileError, read_project_file
from tools.record import record
from tools.sources.mcp.config import KEY, ServerConfig, read_servers
from tools.sources.mcp.fields import Variables
from tools.yamltext import DocumentError, parse

PROJECT_FILES = (".opta/config.yml", ".mcp.json")
"""Where a project may configure servers, nearest first."""


@record
class Configured:
    """The servers by name, and what is wrong with the files."""

    servers: Mapping[str, ServerConfig] = field(default_factory=dict)
    problems: tuple[ToolProblem, ...] = ()


def read_configured(
    project: Path | None,
    own_files: list[tuple[Scope, Path]],
    environ: Mapping[str, str],
    *,
    secrets: Collection[str] = (),
    holds: Callable[[Path, str], bool] = lambda path, sha256: True,
) -> Configured:
    """Read all files. `project` None leaves those of the project unopened (R22).

    `own_files` are the user's and the machine's, nearest first. `secrets` are variables that a
    project's file may not take besides the keys of providers. `holds` tells of a file of the
    project and its sha256 (hex) whether that is what was trusted (R25).
    """
    servers: dict[str, ServerConfig] = {}
    problems: list[ToolProblem] = []
    for scope, path, data in _contents(project, own_files, problems):
        if KEY.encode() not in data:
            continue
        if scope is Scope.LOCAL and not holds(path, hashlib.sha256(data).hexdigest()):
            continue
        refused = partial(is_secret, secrets=secrets) if scope is Scope.LOCAL else _nothing
        try:
            document = parse(data, path)
        except DocumentError as error:
            if path.suffix == ".json":
                # The settings say it of their own files.
                problems.append(
                    ToolProblem(
                        path, error.message, error.line, error.column, error.key, error.hint
                    )
                )
            continue
        found, wrong = read_servers(document, scope, shown_path(path), Variables(environ, refused))
        problems += wrong
        for config in found:
            first = servers.setdefault(config.name, config)
            if first is not config:
                problems.append(_hidden(config, first, path))
    return Configured(servers, tuple(problems))


def _nothing(name: str) -> bool:
    return False


def _contents(
    project: Path | None, own_files: list[tuple[Scope, Path]], problems: list[ToolProblem]
) -> list[tuple[Scope, Path, bytes]]:
    contents: list[tuple[Scope, Path, bytes]] = []
    for scope, path in own_files:
        try:
            contents.append((scope, path, path.read_bytes()))
        except OSError as error:
            if not isinstance(error, FileNotFoundError | NotADirectoryError):
                reason = error.strerror or os.strerror(error.errno or 0)
                problems.append(ToolProblem(path, f"cannot be read: {reason}"))
    for name in PROJECT_FILES if project is not None else ():
        assert project is not None
        try:
            data = read_project_file(project, name)
        except ProjectFileError as error:
            problems.append(ToolProblem(project / name, str(error)))
            continue
        if data is not None:
            contents.append((Scope.LOCAL, project / name, data))
    return contents


def _hidden(config: ServerConfig, first: ServerConfig, path: Path) -> ToolProblem:
    line = int(config.place.rpartition(":")[2])
    message = f"server {config.name} is not used: {first.place} has one of this name"
    return ToolProblem(path, message, line, warning=True)
