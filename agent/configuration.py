"""Where settings and tools come from, for the commands and the chat."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent import log
from agent.errors import USAGE, UserError
from agent.project import ProjectTrust
from agent.redaction import configured_secrets
from agent.settings import load_settings
from agent.settings_files import SettingsError, managed_file, user_file
from agent.settings_values import Settings
from tools import storage
from tools.definition import Scope
from tools.hook_settings import HookCommand, HookSettings
from tools.permissions.trust import (
    MAX_FILE_BYTES,
    SEVERAL_TOOLS,
    ProjectFileError,
    TrustReport,
    read_project_file,
)
from tools.secret_values import argument_secrets
from tools.sources.codex_config import user_config
from tools.sources.files import SEVERAL, tool_places

if TYPE_CHECKING:
    from tools.engine.isolation.choice import Isolation
    from tools.permissions.gate import PermissionGate
    from tools.sources.mcp.files import Configured
    from tools.sources.mcp.servers import Surroundings


def read_settings(root: Path, flags: dict[str, Any], *, trusted: TrustReport | None) -> Settings:
    """Read all settings, of the project those that are `trusted`; keep secrets out of the log.

    Raises UserError with the place of what is wrong.
    """
    try:
        settings = load_settings(root, trusted=trusted, flags=flags, environ=os.environ)
    except (SettingsError, storage.StorageError) as error:
        raise UserError(str(error), USAGE) from None
    log.learn(configured_secrets(settings, os.environ))
    return settings


def isolation_of(
    root: Path, settings: Settings, in_auto_sandbox: Callable[[], bool] = lambda: False
) -> Isolation:
    """Return what chooses the walls of processes; see `Isolation` for `in_auto_sandbox`."""
    from tools.engine.isolation.choice import Isolation
    from tools.files.walls import survey

    return Isolation(root, survey, settings.isolation, in_auto_sandbox=in_auto_sandbox)


def surroundings_of_servers(root: Path, settings: Settings, gate: PermissionGate) -> Surroundings:
    """Return what MCP servers, and the calls of a chat, run in."""
    from tools.engine.environment import child_environment
    from tools.permissions.mode import Mode
    from tools.sources.mcp.servers import Surroundings

    environment = child_environment(os.environ, secrets=settings.secret_variables)
    walls = isolation_of(root, settings, lambda: gate.mode is Mode.AUTO_SANDBOX)
    return Surroundings(root, environment, gate, walls, log.redactor().masker)


def codex_config(settings: Settings) -> Path:
    """Return the user's Codex `config.toml`. Raises UserError if a chosen one is not there."""
    chosen = {
        name: Path(value).expanduser().absolute()
        for name in ("config_home", "config_file")
        if (value := getattr(settings, name))
    }
    file = user_config(Path.home(), os.environ, **chosen)
    if chosen and not file.is_file():
        what = "is not a file" if file.exists() else "does not exist"
        raise UserError(f"{file} {what}. Check --config-file and --config-home.", USAGE)
    if file.suffix != SEVERAL:
        raise UserError(f"{file} is not named *{SEVERAL}. Check --config-file.", USAGE)
    return file


def hook_settings(
    settings: Settings, root: Path, trusted: TrustReport | None
) -> tuple[HookSettings, list[str]]:
    """Return all hooks, those of Codex's `config.toml` too, and what is wrong with them.

    Of the project count those that are `trusted` to run. Hooks of several files add up; one given
    on the command line replaces those of files (B40).
    """
    files = [(codex_config(settings), False)]
    files += [(root / name, True) for name in SEVERAL_TOOLS if trusted is not None]
    hooks, problems = settings.hooks, []
    for path, project in files:
        commands, wrong = _codex_hooks(path, trusted if project else None, settings.profile)
        problems += wrong
        for name, (argv, line) in commands.items():
            if settings.source(name).startswith("flag"):
                continue
            hook = HookCommand(
                argv, root if project else path.parent, f"{path}:{line}", project,
                timeout_ms=settings.hook_timeout_s * 1000,
            )  # fmt: skip
            kind = "tool" if name == "tool_hook_command" else "stop"
            hooks = replace(hooks, **{kind: (*getattr(hooks, kind), hook)})
    for hook in (*hooks.pre_tool, *hooks.tool, *hooks.stop):
        log.learn(argument_secrets(hook.argv))
    return hooks, problems


def _codex_hooks(
    path: Path, project: TrustReport | None, profile: str
) -> tuple[dict[str, tuple[tuple[str, ...], int]], list[str]]:
    """Read the hooks of one file; one that is not there has none."""
    try:
        if project is not None:
            data = read_project_file(project.root, str(path.relative_to(project.root)))
        else:
            data = storage.read_regular(path, MAX_FILE_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return {}, []
    except (OSError, ProjectFileError) as error:
        return {}, [f"{path}: hooks are not read: {error}"]
    # Most files have none: the reader of TOML with its positions is not loaded for those.
    if data is None or b"_hook_command" not in data:
        return {}, []
    if project is not None and not project.holds(path, hashlib.sha256(data).hexdigest()):
        return {}, [f"{path}: its hooks are not used: it has changed since it was trusted"]
    from tools.formats import codex
    from tools.formats.problems import ToolFileError

    try:
        commands, problems = codex.hook_commands(data, path, profile=profile)
    except ToolFileError as error:
        return {}, [str(error)]
    return commands, [str(problem) for problem in problems]


def tool_files(project: Path | None, codex_file: Path) -> list[tuple[Scope, Path]]:
    """Return where tools are found, nearest first; `project` None leaves the local ones out."""
    return tool_places(
        project, storage.config_dir(), storage.global_dir(),
        home=Path.home(), codex_config=codex_file,
    )  # fmt: skip


def mcp_configured(trust: ProjectTrust, settings: Settings) -> Configured:
    """Return the MCP servers that are configured now; those of the project only while trusted.

    What they are given in secret is kept out of what opta writes and shows from now on (R39).
    """
    from tools.sources.mcp.files import Configured, read_configured

    if not settings.mcp_enabled:
        return Configured()
    project = trust.root if trust.level.runs else None
    own = [(Scope.USER, user_file()), (Scope.GLOBAL, managed_file())]
    configured = read_configured(
        project, own, os.environ, secrets=settings.secret_variables, holds=trust.holds
    )
    for server in configured.servers.values():
        log.learn(server.secrets(os.environ))
    return configured
