"""What the model is told of the place it works in: environment and AGENTS.md files.

Both go into the conversation, never into the system prompt, whose bytes must not change between
sessions (prompt caches).
"""

from __future__ import annotations

import datetime
import os
import platform
import re
from collections.abc import Callable, Iterable
from pathlib import Path

from prompts import load
from tools import storage
from tools.files.protected import sensitivity
from tools.permissions.trust import MAX_FILE_BYTES

FILE_NAME = "AGENTS.md"
LIMIT_BYTES = 32_768
"""Of all instruction files of a session together, as other agents take it."""

_OTHERS = frozenset(
    ("node_modules", "site-packages", ".venv", "venv", "vendor", "bower_components")
)
"""Directories whose content other people wrote: trust in the project is not trust in them."""

_HEAD_BYTES = 1024
_BRANCH = re.compile(r"ref: refs/heads/([^\s~^:?*\[\\]{1,200})")


def environment_text(root: Path) -> str:
    """Describe the working directory, system, date and git branch, as they are now.

    Starts no process: what git is configured to run in this directory is not opta's to run (R12).
    """
    return load("environment").format(
        directory=root,
        system=f"{platform.system()} {platform.release()} {platform.machine()}",
        shell=Path(os.environ.get("SHELL", "sh")).name,
        date=datetime.date.today().isoformat(),
        git=_git_line(root),
    )


class ProjectInstructions:
    """The AGENTS.md files of a project, each told to the model once (only where trusted, R22)."""

    def __init__(
        self, root: Path, *, trusted: Callable[[], bool], user_file: Path | None = None
    ) -> None:
        """Make a reader. `user_file` is the person's own AGENTS.md, told at every start."""
        self._root = root
        self._trusted = trusted
        self._user_file = user_file
        self._told: set[Path] = set()
        self._left = LIMIT_BYTES

    def at_start(self) -> str:
        """Return the person's AGENTS.md and the root's, marked with their paths."""
        own = self._marked(self._user_file, str(self._user_file)) if self._user_file else ""
        return "\n\n".join(filter(None, [own, self._tell([self._root])]))

    def for_paths(self, paths: Iterable[Path]) -> str:
        """Return what the directories above these paths say that was not told yet."""
        directories = {
            parent
            for path in paths
            for parent in path.parents
            if parent.is_relative_to(self._root)
        }  # fmt: skip
        return self._tell(sorted(directories, key=lambda directory: len(directory.parts)))

    def forget(self) -> None:
        """Tell everything again: the conversation was cleared or compacted."""
        self._told.clear()
        self._left = LIMIT_BYTES

    def _tell(self, directories: Iterable[Path]) -> str:
        if not self._trusted():
            return ""
        texts = []
        for directory in directories:
            if directory in self._told:
                continue
            self._told.add(directory)
            path = directory / FILE_NAME
            if self._is_own(path):
                texts.append(self._marked(path, str(path.relative_to(self._root))))
        return "\n\n".join(filter(None, texts))

    def _is_own(self, path: Path) -> bool:
        """True for a file of the project itself, not of a clone, submodule or package in it (R25).

        A link counts as what it leads to, which must not be a secret (R40).
        """
        try:
            real = path.resolve()
        except (OSError, RuntimeError):
            return False
        if not real.is_relative_to(self._root) or sensitivity(real):
            return False
        return not any(
            parent.name in _OTHERS or os.path.lexists(parent / ".git")
            for place in (path, real)
            for parent in place.parents
            if parent != self._root and parent.is_relative_to(self._root)
        )

    def _marked(self, path: Path, shown: str) -> str:
        text = self._read(path)
        return f'<instructions file="{shown}">\n{text}\n</instructions>' if text else ""

    def _read(self, path: Path) -> str:
        try:
            data = storage.read_regular(path, MAX_FILE_BYTES)
        except OSError:
            return ""
        text = data[: self._left].decode("utf-8", errors="replace").strip()
        if len(data) > self._left:
            text += f"\n[cut: instruction files may hold {LIMIT_BYTES:,} bytes in all]"
        self._left -= min(len(data), self._left)
        return text


def _git_line(root: Path) -> str:
    for directory in (root, *root.parents):
        reference = _head(directory / ".git")
        if reference:
            # The file may hold anything: only what can be a branch goes to the model.
            branch = _BRANCH.fullmatch(reference)
            named = branch is not None and branch[1].isprintable()
            return f"Git branch at start: {branch[1]}" if branch and named else "Git: no branch"
    return "Git: not a repository"


def _head(git: Path) -> str:
    """Return the content of HEAD; `git` is a directory, or in a linked worktree a file."""
    try:
        if git.is_file():
            place = _text(git).removeprefix("gitdir:").strip()
            if place.startswith(("//", "\\\\")):
                return ""  # On Windows merely looking there would log in to another machine.
            git = git.parent / place
        return _text(git / "HEAD")
    except (OSError, ValueError):
        return ""


def _text(path: Path) -> str:
    return storage.read_regular(path, _HEAD_BYTES).decode().strip()
