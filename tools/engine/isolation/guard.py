"""Takes away what a confined call made where nothing may be made without a question (R27).

Mounts and rules protect what exists. What does not exist yet (`.opta`, `.git/commondir`, a first
`.envrc`, `new/.vscode`) cannot be walled off without making it, so it is looked at again when all
processes of the call have ended: what is new, or a link that leads elsewhere, is renamed to a name
that nothing obeys, and nothing is lost.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path


class Guard:
    """What was at some paths before a call.

    `kept` are paths further down that stood there and were walled off; `again` finds those that
    stand there now.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        kept: Iterable[Path] = (),
        again: Callable[[], Iterable[Path]] = lambda: (),
    ) -> None:
        self._before = {path: _look(path) for path in paths}
        self._kept = frozenset(kept)
        self._again = again

    def __bool__(self) -> bool:
        return bool(self._before)

    def take_back(self) -> list[str]:
        """Rename what came to be; return a line for each."""
        made = [path for path, before in self._before.items() if _look(path) not in ("", before)]
        told = [_rename(path) for path in made]
        # A repository that was made may hold what repositories hold (docs/security.md).
        further = (path for path in self._again() if path.parent.name != ".git")
        return told + [_rename(path) for path in further if path not in self._kept]


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
