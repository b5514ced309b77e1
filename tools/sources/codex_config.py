"""Says which Codex `config.toml` of the user may define tools (B4, B32, B33)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

FILE = "config.toml"


def user_config(
    home: Path,
    environ: Mapping[str, str],
    *,
    config_home: Path | None = None,
    config_file: Path | None = None,
) -> Path:
    """Return the file of the user: `config_file`, else the one in `config_home`.

    Without either it is the one in `$CODEX_HOME`, or in `~/.codex`. It need not exist.
    """
    if config_file is not None:
        return config_file
    if config_home is None:
        config_home = Path(environ.get("CODEX_HOME") or home / ".codex").absolute()
    return config_home / FILE
