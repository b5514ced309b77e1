"""Where settings and tools come from, for the commands and the chat."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from agent.errors import USAGE, UserError
from agent.project import ProjectTrust
from agent.settings import Settings, SettingsError, load_settings
from tools import storage
from tools.definition import Scope
from tools.sources.codex_config import user_config
from tools.sources.files import SEVERAL, tool_places
from tools.sources.mcp.files import Configured, read_configured


def read_settings(root: Path, flags: dict[str, Any], *, trusted: bool) -> Settings:
    """Read all settings. Raises UserError with the place of what is wrong."""
    try:
        return load_settings(root, project_trusted=trusted, flags=flags, environ=os.environ)
    except (SettingsError, storage.StorageError) as error:
        raise UserError(str(error), USAGE) from None


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


def tool_files(project: Path | None, codex_file: Path) -> list[tuple[Scope, Path]]:
    """Return where tools are found, nearest first; `project` None leaves the local ones out."""
    return tool_places(
        project, storage.config_dir(), storage.global_dir(),
        home=Path.home(), codex_config=codex_file,
    )  # fmt: skip


def mcp_configured(trust: ProjectTrust, settings: Settings) -> Configured:
    """Return the MCP servers that are configured now; those of the project only while trusted."""
    if not settings.mcp_enabled:
        return Configured()
    project = trust.root if trust.given else None
    own = [
        (Scope.USER, storage.config_dir() / "config.yml"),
        (Scope.GLOBAL, storage.global_dir() / "config.yml"),
    ]
    return read_configured(project, own, os.environ, secrets=[settings.api_key_env])
