"""Which files a project ignores: nested `.gitignore` files, the nearest deciding (gitignore(5))."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from tools.record import record
from tools.storage import read_regular

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

_MAX_BYTES = 1024 * 1024
_MAX_STARS = 3


@record
class _Rules:
    """The patterns of one file, for what lies below `base` (with a slash at its end)."""

    base: str
    spec: GitIgnoreSpec


@record
class Ignores:
    """The ignore rules in force in one directory, nearest first."""

    rules: tuple[_Rules, ...] = ()

    @classmethod
    def above(cls, directory: Path, root: Path) -> Ignores:
        """Return the rules that hold in `directory` from the directories down from `root`.

        A directory that is itself ignored was asked for by name: then only rules below it count.
        """
        ignores = cls()
        above = [*reversed(directory.parents), directory] if directory != root else [root]
        for parent in above:
            if parent != root and root not in parent.parents:
                continue
            if parent != root and ignores.ignored(f"{parent}/", is_directory=True):
                return cls().within(directory)
            ignores = ignores.within(parent)
        return ignores

    def within(self, directory: Path) -> Ignores:
        """Add the rules that `directory` brings along."""
        lines = _lines(directory / ".gitignore")
        if os.path.isdir(directory / ".git"):  # noqa: PTH112 - without raising
            lines = _lines(directory / ".git/info/exclude") + lines
        patterns = [line for line in lines if line.strip() and not line.startswith("#")]
        if not patterns:
            return self
        rules = _Rules(f"{directory}/".replace("//", "/"), _spec(patterns))
        return Ignores((rules, *self.rules))

    def ignored(self, path: str, *, is_directory: bool = False) -> bool:
        """True when the nearest rule that speaks of the absolute `path` ignores it."""
        for rules in self.rules:
            relative = path.removeprefix(rules.base).rstrip("/")
            verdict = rules.spec.check_file(f"{relative}/" if is_directory else relative).include
            if verdict is not None:
                return verdict
        return False


def _spec(patterns: list[str]) -> GitIgnoreSpec:
    from pathspec import GitIgnoreSpec

    usable = []
    for pattern in patterns:
        # Each star multiplies what a regular expression tries: such a pattern would hang (R42).
        if any(name.count("*") > _MAX_STARS and name != "**" for name in pattern.split("/")):
            continue
        try:
            GitIgnoreSpec.from_lines([pattern])
        except ValueError:
            continue
        usable.append(pattern)
    return GitIgnoreSpec.from_lines(usable)


def _lines(file: Path) -> list[str]:
    try:
        data = read_regular(file, _MAX_BYTES, getattr(os, "O_NOFOLLOW", 0))
    except OSError:
        return []
    return data.decode("utf-8", "replace").splitlines()
