"""Takes away what a confined call made where nothing may be made without a question (R27).

Mounts and rules protect what exists. What does not exist yet (`.opta`, `.git/commondir`, a first
`.envrc`) cannot be walled off without making it, so it is looked at again when all processes of
the call have ended: what is new, or a link that leads elsewhere, is renamed to a name that nothing
obeys, and nothing is lost.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from pathlib import Path


class Guard:
    """What was at some paths before a call."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._before = {path: _look(path) for path in paths}

    def __bool__(self) -> bool:
        return bool(self._before)

    def take_back(self) -> list[str]:
        """Rename what came to be; return a line for each."""
        made = [path for path, before in self._before.items() if _look(path) not in ("", before)]
        return [_rename(path) for path in made]


def _look(path: Path) -> str:
    """Return what a path is: nothing, a link and where it leads, or something else."""
    try:
        return f"link {path.readlink()}"
    except FileNotFoundError:
        return ""
    except OSError:
        return "there"


def _rename(path: Path) -> str:
    aside = path.with_name(f"{path.name}.refused-{secrets.token_hex(4)}")
    try:
        path.rename(aside)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        return f"The command made {path}, which asks in every mode. Moving it away failed: {reason}"
    return (
        f"The command made {path}, which is not made without a question of its own: "
        f"it is now {aside.name}"
    )
