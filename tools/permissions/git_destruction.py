"""Which operations of git throw work away that no commit holds, or commits that nothing else holds.

Undo knows the files of a workspace, not what git keeps: a stash, a branch, a remote (R14).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

_GLOBAL_WITH_VALUE = frozenset(
    ("-C", "-c", "--git-dir", "--work-tree", "--namespace", "--config-env")
)
_WITH_VALUE: Mapping[str, str] = {
    "branch": "u", "checkout": "bB", "clean": "e", "push": "o", "restore": "s", "switch": "cC",
}  # fmt: skip
"""The last letters of short options, by operation, whose value is the next word."""

_TOP = re.compile(r":(/|\([^)]*\))?(?P<path>.*)", re.DOTALL)
_SHORTEST = len("--x") + 1
_CHANGES = "throws away the changes in"
_NO_FORCE_NEEDED = re.compile(r"clean\.requireforce=(false|no|off|0)", re.IGNORECASE)


@dataclass
class _Line:
    """The words of git taken apart: `place` is where it works, `paths` are its operands."""

    place: str = "."
    operation: str = ""
    paths: list[str] = field(default_factory=list)
    letters: set[str] = field(default_factory=set)
    options: list[str] = field(default_factory=list)
    settings: list[str] = field(default_factory=list)

    def has(self, name: str, letter: str = "") -> bool:
        """Tell whether a long option, which git lets one shorten, or its letter is given."""
        given = (option.partition("=")[0] for option in self.options)
        shortened = any(
            len(option) >= _SHORTEST and f"--{name}".startswith(option) for option in given
        )
        return shortened or (letter != "" and letter in self.letters)


def git_losses(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield (path, what git does to it), for the words behind `git`.

    The path is empty where what is lost has none; the text then says all.
    """
    line = _taken_apart(words)
    sentence = _SENTENCES.get(line.operation, _no_loss)(line)
    if sentence:
        yield "", sentence
    what = _of_paths(line)
    if what:
        named = line.paths or ([line.place] if line.operation == "clean" else [])
        yield from ((_place_of(path, line.place), what) for path in named)


def _taken_apart(words: Sequence[str]) -> _Line:
    line = _Line()
    rest = iter(words)
    for word in rest:
        if not line.operation:
            _before_operation(line, word, rest)
        elif word == "--":
            line.paths += rest
        elif word.startswith("--"):
            line.options.append(word)
        elif word.startswith("-"):
            line.letters.update(word[1:])
            if word[-1] in _WITH_VALUE.get(line.operation, ""):
                next(rest, "")
        else:
            line.paths.append(word)
    return line


def _before_operation(line: _Line, word: str, rest: Iterator[str]) -> None:
    if word in _GLOBAL_WITH_VALUE:
        value = next(rest, "")
        if word in ("-C", "--work-tree"):
            line.place = value
        elif word == "-c":
            line.settings.append(value)
    elif not word.startswith("-"):
        line.operation = word


def _place_of(path: str, place: str) -> str:
    """Return the path that a pathspec names; `:/` and `:(top)` stand for the whole repository."""
    if path.startswith(":"):
        match = _TOP.fullmatch(path)
        path = (match["path"] if match else "") or "."
    return os.path.join(place, path)  # noqa: PTH118 - `*` and `..` stay


def _of_paths(line: _Line) -> str:
    """Say what an operation does to the paths it is given, where it changes files."""
    match line.operation:
        case "checkout":
            return _CHANGES
        case "restore" if line.has("worktree", "W") or not line.has("staged", "S"):
            return _CHANGES
        case "rm" if not line.has("cached") and not line.has("dry-run", "n"):
            return "removes the files of"
        case "clean" if not line.has("dry-run", "n"):
            forced = line.has("force", "f") or any(map(_NO_FORCE_NEEDED.fullmatch, line.settings))
            return "removes untracked files of" if forced else ""
        case _:
            return ""


def _no_loss(line: _Line) -> str:
    return ""


def _when(sentence: str, lost: Callable[[_Line], bool]) -> Callable[[_Line], str]:
    return lambda line: sentence if lost(line) else ""


_UNCOMMITTED = "throws away all changes that are not committed"
_REWRITES = "rewrites the history of the repository"
_FORGETS = "removes commits for good that no branch holds"

_SENTENCES: Mapping[str, Callable[[_Line], str]] = {
    "branch": _when(
        "deletes a branch whose commits may be nowhere else",
        lambda line: (
            "D" in line.letters or (line.has("delete", "d") and line.has("force", "f"))
        ),
    ),
    "checkout": _when(_UNCOMMITTED, lambda line: line.has("force", "f")),
    "checkout-index": _when(
        _UNCOMMITTED, lambda line: line.has("force", "f") and line.has("all", "a")
    ),
    "filter-branch": _when(_REWRITES, lambda line: True),
    "filter-repo": _when(_REWRITES, lambda line: True),
    "gc": _when(
        _FORGETS, lambda line: any(o in ("--prune=now", "--prune=all") for o in line.options)
    ),
    "prune": _when(_FORGETS, lambda line: not line.has("dry-run", "n")),
    "push": _when(
        "overwrites or deletes branches of the remote repository",
        lambda line: (
            line.has("force", "f")
            or line.has("delete", "d")
            or line.has("mirror")
            or line.has("prune")
            or any(path[0] in "+:" and len(path) > 1 for path in line.paths if path)
        ),
    ),
    "read-tree": _when(_UNCOMMITTED, lambda line: line.has("reset") and "u" in line.letters),
    "reflog": _when(_FORGETS, lambda line: line.paths[:1] in (["expire"], ["delete"])),
    "reset": _when(_UNCOMMITTED, lambda line: line.has("hard")),
    "stash": _when(
        "throws away changes that are stashed", lambda line: line.paths[:1] in (["clear"], ["drop"])
    ),
    "switch": _when(
        _UNCOMMITTED, lambda line: line.has("force", "f") or line.has("discard-changes")
    ),
    "update-ref": _when(
        "deletes a branch whose commits may be nowhere else", lambda line: "d" in line.letters
    ),
    "worktree": _when(
        "throws away changes in another worktree",
        lambda line: line.paths[:1] == ["remove"] and line.has("force", "f"),
    ),
}  # fmt: skip
"""What operations lose that has no path, or all of it."""
