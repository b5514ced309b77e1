"""What a tool file of a team may say beside the keys of its format: `enforced`, for each format."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tools.definition import Origin, Source
from tools.formats.findings import Findings, kind_of
from tools.yamltext import KeyPath


def take_team_keys(
    findings: Findings, content: dict[str, Any], where: KeyPath, origin: Origin
) -> tuple[dict[str, Any], Origin]:
    """Return `content` without those keys, and the origin with what they say.

    Files of other sources are left alone: a key of theirs enforces nothing. Where a tool comes from
    its loader says, and no file (X57).
    """
    if origin.source is not Source.TEAMS:
        return content, origin
    enforced = content.get("enforced", origin.enforced)
    if not isinstance(enforced, bool):
        told = f"must be true or false: found {kind_of(enforced)}"
        findings.error((*where, "enforced"), told)
    claimed = content.get("source", Source.TEAMS.value)
    if claimed != Source.TEAMS.value:
        findings.warn((*where, "source"), f"claims to be {kind_of(claimed)}; it is a team's tool")
    rest = {key: value for key, value in content.items() if key not in ("enforced", "source")}
    return rest, replace(origin, enforced=enforced is True)
