"""The team that the settings name: its source, its tools, and the token for it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from agent import log
from agent.errors import USAGE, UserError
from agent.settings_values import Settings
from tools import storage
from tools.builtin import all_builtins
from tools.engine.output import visible
from tools.tool_names import refused_name, wire_names

if TYPE_CHECKING:
    from tools.permissions.gate import PermissionGate
    from tools.sources.credentials import Credentials
    from tools.sources.team.config import TeamConfig
    from tools.sources.team.tools import TeamTools

_SERVICE = "opta-team"


def team_config(settings: Settings) -> TeamConfig | None:
    """Return where the team's tools are; None where none are wanted (E15). Raises UserError."""
    team = settings.teams
    if not (team.enabled and team.shared_tools):
        return None
    from tools.sources.team.config import TeamConfig, TeamConfigError

    try:
        return TeamConfig(
            url=team.url,
            org=team.org,
            directory=Path(team.directory).expanduser() if team.directory else None,
            revision=team.revision,
            token_env=team.token_env,
            refresh_s=team.refresh_s,
            timeout_s=team.timeout_s,
        )
    except TeamConfigError as error:
        raise UserError(f"{team.place}: {error}", USAGE) from None


def team_tools(settings: Settings, gate: PermissionGate | None = None) -> TeamTools | None:
    """Return the tools of the team, not read yet; None where none are wanted.

    The `gate` is held to the team's allowlist; without one what is kept is used and nothing is
    asked for. Raises UserError.
    """
    config = team_config(settings)
    if config is None:
        return None
    from tools.sources.team.answer import TeamError
    from tools.sources.team.source import fetch_from
    from tools.sources.team.tools import TeamTools

    builtins = wire_names(made.definition for made in all_builtins())
    token = token_for(config, os.environ)
    if config.url and credentials_of(config).path.exists():
        # Known before anything is said, not only once the server is asked (R39).
        with suppress(TeamError):
            token()
    fetch = None if gate is None else fetch_from(config, token, gate)
    image = settings.isolation.code_image
    team = TeamTools(config, fetch, partial(refused_name, builtins=builtins), code_image=image)
    if gate is not None:
        gate.allowlist = team.allowlist
    return team


def token_for(config: TeamConfig, environ: Mapping[str, str]) -> Callable[[], str]:
    """Return what finds the bearer token: in the environment, else where the login is kept.

    Empty where there is none. It raises TeamError.
    """
    from tools.sources.team.answer import TeamError

    def find() -> str:
        given = environ.get(config.token_env, "").strip()
        if given:
            return given
        try:
            kept = str(credentials_of(config).load().get("token", ""))
        except Exception as error:
            # The backends of keyrings fail in ways of their own.
            raise TeamError(f"the kept token cannot be read: {error}") from None
        log.learn([kept])
        return kept

    return find


def credentials_of(config: TeamConfig) -> Credentials:
    """Return where the token for this address and organisation is kept. Raises StorageError."""
    from tools.sources.credentials import Credentials

    path = storage.state_dir() / "team" / config.identity / "login.json"
    return Credentials(_SERVICE, config.identity, path)


def heading(team: TeamTools) -> str:
    """Return what a team is called and where it is, safe for a terminal."""
    return visible(f"team {team.config.name} ({team.config.place})")


def status_lines(team: TeamTools) -> list[str]:
    """Return what is known of a team, safe for a terminal. Raises StorageError."""
    from tools.sources.team.tools import ago

    state = team.state()
    lines = []
    if state.last is None:
        lines.append("  nothing is known yet: opta team sync")
    else:
        lines.append(f"  answered {ago(state.last.checked_at)}")
        if state.last.answer.allowlist is not None:
            lines += _listed("commands that are allowed", state.last.answer.allowlist)
    names = [f"{tool.name}{' (enforced)' * tool.origin.enforced}" for tool in state.in_use]
    lines += _listed("in use", names)
    lines += _listed("waiting for you", [one.title for one in state.waiting])
    if state.problems:
        lines += _listed("problems", [str(problem) for problem in state.problems])
    return [heading(team), *map(visible, lines)]


def _listed(title: str, names: Sequence[str]) -> list[str]:
    return [f"  {title}:", *(f"    {name}" for name in names)] if names else [f"  {title}: none"]
