"""Where settings and tools come from, for the commands and the chat."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent import log
from agent.errors import USAGE, UserError
from agent.redaction import Redactor, configured_secrets
from agent.settings import Settings, SettingsError, load_settings
from tools import storage
from tools.definition import Scope
from tools.permissions.trust import TrustReport
from tools.sources.codex_config import user_config
from tools.sources.files import SEVERAL, tool_places

if TYPE_CHECKING:
    from tools.engine.isolation.choice import Isolation


def read_settings(root: Path, flags: dict[str, Any], *, trusted: TrustReport | None) -> Settings:
    """Read all settings, of the project those that are `trusted`; keep secrets out of the log.

    Raises UserError with the place of what is wrong.
    """
    try:
        settings = load_settings(root, trusted=trusted, flags=flags, environ=os.environ)
    except (SettingsError, storage.StorageError) as error:
        raise UserError(str(error), USAGE) from None
    log.install(Redactor(configured_secrets(settings, os.environ)))
    return settings


def isolation_of(
    root: Path, settings: Settings, in_auto_sandbox: Callable[[], bool] = lambda: False
) -> Isolation:
    """Return what chooses the walls of processes; see `Isolation` for `in_auto_sandbox`."""
    from tools.engine.isolation.choice import Isolation
    from tools.files.walls import survey

    return Isolation(root, survey, settings.isolation, in_auto_sandbox=in_auto_sandbox)


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
