"""Where a team's tools are, as the person or the machine's owner has set it (E151)."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import quote, urlsplit

from tools.definition import digest_of
from tools.hosts import is_loopback
from tools.record import record

_REVISION = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_ORG = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class TeamConfigError(Exception):
    """The settings name no team that can be used. The message says which and why."""


@record
class TeamConfig:
    """One source of team tools: an address with an organisation, or a directory.

    `revision` pins a git checkout to a commit. `token_env` names the variable with the bearer
    token. `refresh_s` is how old an answer may be before it is asked for again, `timeout_s` how
    long one request may take, in seconds.
    """

    url: str = ""
    org: str = ""
    directory: Path | None = None
    revision: str = ""
    token_env: str = ""
    refresh_s: int = 300
    timeout_s: int = 15

    def __post_init__(self) -> None:
        """Raise TeamConfigError where this cannot be used."""
        if bool(self.url) is (self.directory is not None):
            given = "both teams.url and teams.directory are" if self.url else (
                "neither teams.url nor teams.directory is"
            )  # fmt: skip
            raise TeamConfigError(f"{given} set: give one of them")
        if self.url:
            self._check_address()
        elif self.revision and not _REVISION.fullmatch(self.revision):
            raise TeamConfigError("teams.revision must be a whole commit id: names can move")

    @property
    def name(self) -> str:
        """What people call it."""
        return self.org or (self.directory.name if self.directory else "")

    @property
    def place(self) -> str:
        """Where it is, for people."""
        pinned = f" at {self.revision[:12]}" if self.revision else ""
        return self.url or f"{self.directory}{pinned}"

    @property
    def identity(self) -> str:
        """What belongs to this source is kept under this name (hex)."""
        return digest_of([self.url.rstrip("/"), self.org, str(self.directory or "")])[:32]

    @property
    def address(self) -> str:
        """The whole address of the tools."""
        return f"{self.url.rstrip('/')}/v1/orgs/{quote(self.org, safe='')}/tools"

    @property
    def host(self) -> str:
        """The host of the address."""
        return urlsplit(self.url).hostname or ""

    def _check_address(self) -> None:
        if not _ORG.fullmatch(self.org):
            raise TeamConfigError("teams.org must name the organisation: letters, digits, - _ .")
        if self.revision:
            raise TeamConfigError("teams.revision goes with teams.directory")
        parts = urlsplit(self.url)
        if "@" in parts.netloc or parts.query or parts.fragment:
            raise TeamConfigError(
                "teams.url holds more than an address: the token goes into the variable that "
                "teams.tokenEnv names, or to `opta team login`"
            )
        if parts.scheme != "https" and not is_loopback(self.host):
            raise TeamConfigError(
                f"teams.url must begin with https://: over http:// anyone on the way to "
                f"{self.host} could read the token and change the tools"
            )
