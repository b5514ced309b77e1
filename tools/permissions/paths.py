"""Path patterns of permission rules: matched by components, in time linear in the path."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterator
from pathlib import Path

_Parts = tuple[str, ...]


class PathPattern:
    """A glob over absolute paths: `*` and `?` within a name, `**` across directories.

    A relative pattern starts at `root`, `~` at the home directory. `generous` patterns (deny and
    ask) also match everything below what they name, in any case and Unicode form, and where a
    link leads; others match exactly, so that a link in a repository cannot widen them. `literal`
    says that the pattern has no wildcard.
    """

    def __init__(self, pattern: str, root: Path, *, generous: bool) -> None:
        self.literal = not any(character in pattern for character in "*?")
        self._generous = generous
        absolute = Path(os.path.normpath(root / Path(pattern).expanduser()))
        variants = {absolute.parts}
        if generous:
            variants.add(_real_start(absolute).parts)
        self._variants = [self._folded(parts) for parts in sorted(variants)]

    def matches(self, path: str) -> bool:
        """Say whether the absolute, resolved `path` is meant."""
        parts = self._folded(Path(path).parts)
        return any(self._match(variant, parts) for variant in self._variants)

    def _folded(self, parts: _Parts) -> _Parts:
        if not self._generous:
            return parts
        return tuple(unicodedata.normalize("NFC", part).casefold() for part in parts)

    def below(self, directory: Path) -> Iterator[_Parts]:
        """Yield what is left of the pattern for paths relative to an absolute `directory`.

        An empty rest means the directory itself, and so everything in it.
        """
        parts = self._folded(directory.parts)
        for variant in self._variants:
            places = self._places(variant, parts)
            yield from (variant[place:] for place in sorted(places))

    def _match(self, pattern: _Parts, path: _Parts) -> bool:
        return len(pattern) in self._places(pattern, path)

    def _places(self, pattern: _Parts, path: _Parts) -> set[int]:
        """Walk the path once, keeping the set of places in the pattern that are reached."""
        places = _with_skips({0}, pattern)
        for part in path:
            if self._generous and len(pattern) in places:
                return {len(pattern)}
            reached = set()
            for place in places:
                if place == len(pattern):
                    continue
                if pattern[place] == "**":
                    reached.add(place)
                elif _match_name(pattern[place], part):
                    reached.add(place + 1)
            places = _with_skips(reached, pattern)
            if not places:
                break
        return places


def _with_skips(places: set[int], pattern: _Parts) -> set[int]:
    found = set(places)
    for place in places:
        following = place
        while following < len(pattern) and pattern[following] == "**":
            following += 1
            found.add(following)
    return found


def _match_name(pattern: str, name: str) -> bool:
    """Match one component; on a mismatch go back to the last `*` only, which is enough."""
    at = place = 0
    star, resume = -1, 0
    while at < len(name):
        if place < len(pattern) and pattern[place] == "*":
            star, resume = place, at
            place += 1
        elif place < len(pattern) and pattern[place] in ("?", name[at]):
            place += 1
            at += 1
        elif star >= 0:
            resume += 1
            place, at = star + 1, resume
        else:
            return False
    return all(character == "*" for character in pattern[place:])


def _real_start(path: Path) -> Path:
    """Resolve the part of `path` before its first wildcard."""
    parts = path.parts
    plain = next((i for i, part in enumerate(parts) if "*" in part or "?" in part), len(parts))
    return Path(os.path.realpath(Path(*parts[:plain]))).joinpath(*parts[plain:])
