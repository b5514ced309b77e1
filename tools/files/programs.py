"""Finds programs of the machine: what a project brings along must not pose as one (R10)."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from tools.files.paths import is_within


def path_outside(path: str, root: Path | None) -> str:
    """Return the absolute directories of a PATH that are not in the real directory `root`.

    Where a relative one is depends on where one stands. `root` None leaves out none but those.
    """
    places = (place for place in path.split(os.pathsep) if Path(place).is_absolute())
    return os.pathsep.join(place for place in places if _is_outside(place, root))


def program_outside(name: str, path: str, root: Path | None) -> Path | None:
    """Return the program `name` from a PATH, but none of `root`, not by way of a link either."""
    found = shutil.which(name, path=path_outside(path, root))
    return Path(found) if found is not None and _is_outside(found, root) else None


def _is_outside(place: str, root: Path | None) -> bool:
    if root is None or root == Path(root.anchor):
        # Whoever works in `/` has the machine itself as the project.
        return True
    return not is_within(Path(os.path.realpath(place)), root)
