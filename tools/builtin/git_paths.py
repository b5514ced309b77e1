"""What the arguments of a git operation name, and what a diff must leave out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from tools.builtin.kit import Services
from tools.files.paths import is_within
from tools.files.protected import secret_patterns, sensitivity
from tools.files.workspace import FileProblem, Workspace

_OBJECT_NAME = re.compile(r"[0-9a-f]{4,64}", re.IGNORECASE)
_PEELED = re.compile(r"\^\{(?!commit\}|/)")
_DOTS = re.compile(r"(\.{2,3})")


def named_paths(word: str, workspace: Workspace) -> list[Path]:
    """Return the real paths that an argument names if it is `path`, `revision:path` or `-x=path`.

    A path behind a colon starts at the top of the repository. Raises FileProblem.
    """
    root = workspace.root
    places = [root / word]
    _, colon, inside = word.partition(":")
    if colon:
        places.append((root if inside.startswith("./") else repository_top(root)) / inside)
    _, equals, value = word.partition("=")
    if equals:
        places.append(root / value)
    return [workspace.resolve(str(place)) for place in places]


def is_plain_operand(word: str, services: Services) -> bool:
    """True for a revision or a path inside that holds no secrets and may be read silently.

    git compares files outside of the repository too when a path leads there, and shows any
    object that `^{blob}` and its kin name.
    """
    if word.startswith(":") or _PEELED.search(word):
        return False
    workspace = services.workspace
    texts = (word, word.partition(":")[2])
    if any(text.startswith(("/", "~")) or ".." in PurePosixPath(text).parts for text in texts):
        return False
    if any(sensitivity(workspace.root / text) for text in texts):
        return False
    try:
        path, *others = named_paths(word, workspace)
    except FileProblem:
        return False
    return is_within(path, workspace.root) and all(
        not sensitivity(named) and services.rules.keeping_from(named) is None
        for named in (path, *others)
    )


def as_commits(word: str) -> str:
    """Make the object names in a revision stand for commits only.

    The name of a blob would show a file of which nothing tells the path.
    """
    parts = _DOTS.split(word)
    return "".join(f"{part}^{{commit}}" if _OBJECT_NAME.fullmatch(part) else part for part in parts)


def left_out(services: Services, args: tuple[str, ...]) -> list[str]:
    """Return the path patterns that keep secrets, and what rules keep from being read, out of a
    diff (R40)."""
    root = services.workspace.root
    paths = args[args.index("--") + 1 :] if "--" in args else args
    named = any(path and (root / path).exists() for path in paths)
    patterns = [f"**/{pattern}" for pattern in secret_patterns()]
    patterns += _kept_patterns(services)
    excluded = [f":(top,exclude,glob,icase){pattern}" for pattern in patterns]
    return excluded if named else [":(top)", *excluded]


def repository_top(root: Path) -> Path:
    """Return the top of the working tree that `root` lies in, or `root`."""
    return next((place for place in (root, *root.parents) if (place / ".git").exists()), root)


def _kept_patterns(services: Services) -> Iterator[str]:
    for parts in services.rules.kept_below(repository_top(services.workspace.root)):
        names = list(parts)
        while names and names[-1] == "**":
            names.pop()
        pattern = "/".join(map(_as_glob, names))
        if pattern:
            yield pattern
        yield f"{pattern}/**".removeprefix("/")


def _as_glob(name: str) -> str:
    """Write one component of a rule for git, where brackets and backslashes are special.

    git folds the case of ASCII letters only: any other letter becomes a wildcard.
    """
    if name == "**":
        return name
    return re.sub(r"[^\x00-\x7f]+", "*", re.sub(r"([\[\]\\])", r"\\\1", name))
