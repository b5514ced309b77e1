"""Which directory of a repository's main worktree a directory of another worktree stands for.

What a person allowed in a project holds in every worktree of it. A directory says of itself what
it is a worktree of, so it is believed only where the repository says the same (a directory that
names somebody else's repository would inherit that one's rules).
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

_MAX_BYTES = 4096


def main_worktree(root: Path) -> Path:
    """Return the counterpart of the real directory `root` in the main worktree, or `root`."""
    with suppress(OSError, ValueError):
        for top in (root, *root.parents):
            link = top / ".git"
            if link.is_dir():
                return root
            if link.is_file():
                main = _main_of(link)
                return root if main is None else main / root.relative_to(top)
    return root


def _main_of(link: Path) -> Path | None:
    """Return the main worktree of the one whose `.git` file is `link`, if both agree."""
    text = _line(link)
    if not text.startswith("gitdir:"):
        return None
    own = (link.parent / text.removeprefix("gitdir:").strip()).resolve(strict=True)
    common = (own / _line(own / "commondir")).resolve(strict=True)
    registered = own.parent == common / "worktrees"
    back = (own / _line(own / "gitdir")).resolve(strict=True)
    if not registered or back != link.resolve(strict=True) or common.name != ".git":
        return None
    return common.parent


def _line(path: Path) -> str:
    with path.open("rb") as file:
        return file.read(_MAX_BYTES).decode().partition("\n")[0].strip()
