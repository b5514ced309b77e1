"""The variables that every template may use (C251-C258)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from tools.definition import ToolError
from tools.formats.platforms import current_platform

FIXED_TIME = "OPTA_FIXED_TIME"
"""An environment variable (ISO 8601) that stands for the time of every run (X103)."""


def predefined_values(
    tool: str, workspace: Path, temp: Path, env: Mapping[str, str]
) -> dict[str, str]:
    """Return the predefined variables of one run: `temp` is the system's temporary directory.

    All times are of one instant: DATE and TIME local, TIMESTAMP in UTC (X103). Raises ToolError
    when the fixed time of `env` is no time.
    """
    now = _now(env)
    return {
        "TOOL_NAME": tool,
        "WORKSPACE": str(workspace),
        "TEMP": str(temp),
        "HOME": env.get("HOME") or str(Path.home()),
        "OS": current_platform(),
        "DATE": now.strftime("%Y-%m-%d"),
        "TIME": now.strftime("%H:%M:%S"),
        "TIMESTAMP": now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }


def _now(env: Mapping[str, str]) -> datetime:
    """Return the instant of this run in the local zone; a fixed time with an offset keeps it."""
    fixed = env.get(FIXED_TIME)
    if not fixed:
        return datetime.now().astimezone()
    try:
        moment = datetime.fromisoformat(fixed)
    except ValueError:
        raise ToolError(
            f"{FIXED_TIME} is {fixed!r}, which is no time. Write it as 2026-01-31T12:00:00+00:00, "
            "or unset it. Nothing was done."
        ) from None
    return moment if moment.tzinfo else moment.astimezone()
