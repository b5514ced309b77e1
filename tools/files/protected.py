"""Which files ask although rules or modes would allow them, and why, in words for the person.

`protection` is about writing what later runs or decides (R27); `sensitivity` about reading
secrets (R40). Names are compared folded, so that no spelling a file system accepts gets past.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from fnmatch import fnmatchcase, translate
from functools import cache
from pathlib import Path

from tools import storage
from tools.files.paths import folded_name
from tools.logins import holds_login

_GIT = "git runs or obeys what stands here"
_OWN = "this is configuration that opta reads"
_AGENT = "another agent obeys what stands here"
_CI = "the build server runs what stands here"
_EDITOR = "the editor runs or obeys what stands here"
_START = "this runs when a shell or session starts"

_PROTECTED_DIRECTORIES = {
    ".git": _GIT, ".husky": _GIT, ".githooks": _GIT,
    ".opta": _OWN, ".cycod": _OWN, ".mimir": _OWN, ".codex": _OWN,
    ".claude": _AGENT, ".gemini": _AGENT, ".qwen": _AGENT, ".opencode": _AGENT,
    ".circleci": _CI, ".buildkite": _CI, ".teamcity": _CI, ".woodpecker": _CI, ".ci": _CI,
    ".vscode": _EDITOR, ".idea": _EDITOR, ".cursor": _EDITOR, ".zed": _EDITOR,
    ".fleet": _EDITOR, ".devcontainer": _EDITOR,
}  # fmt: skip
"""Nothing below a directory of such a name is written without a question."""

_PROTECTED_PAIRS = {
    (".github", "workflows"): _CI, (".github", "actions"): _CI, (".gitlab", "ci"): _CI,
    (".config", "fish"): _START, (".config", "autostart"): _START, (".config", "systemd"): _START,
    (".config", "git"): _GIT, ("library", "launchagents"): _START,
}  # fmt: skip

_PROTECTED_FILES = {
    ".mcp.json": "this file starts MCP servers",
    ".gitlab-ci.yml": _CI, ".travis.yml": _CI, "azure-pipelines.yml": _CI, "jenkinsfile": _CI,
    "bitbucket-pipelines.yml": _CI, ".drone.yml": _CI, ".woodpecker.yml": _CI,
    "appveyor.yml": _CI, ".appveyor.yml": _CI, ".cirrus.yml": _CI,
    ".exrc": _EDITOR, ".nvimrc": _EDITOR, ".nvim.lua": _EDITOR, ".vimrc": _EDITOR,
    ".dir-locals.el": _EDITOR, ".devcontainer.json": _EDITOR, "*.code-workspace": _EDITOR,
    ".envrc": _START,
}  # fmt: skip

START_FILES = (
    ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile",
    ".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".kshrc", ".cshrc", ".tcshrc",
    ".login", ".logout", ".inputrc", ".xprofile", ".xinitrc", ".xsession", ".xsessionrc",
    ".pam_environment", ".gitconfig", ".tmux.conf", ".screenrc",
)  # fmt: skip

_SECRET_FILES = {
    ".env": "environment files hold secrets", "*.env": "environment files hold secrets",
    ".env.*": "environment files hold secrets", ".envrc": "environment files hold secrets",
    "id_rsa*": "it looks like a private key", "id_dsa*": "it looks like a private key",
    "id_ecdsa*": "it looks like a private key", "id_ed25519*": "it looks like a private key",
    "*.pem": "it looks like a private key", "*.key": "it looks like a private key",
    "*.ppk": "it looks like a private key", "*.p12": "it looks like a key store",
    "*.pfx": "it looks like a key store", "*.jks": "it looks like a key store",
    "*.keystore": "it looks like a key store", "*.kdbx": "it is a password store",
    "ssh_host_*_key": "it is a private key", ".netrc": "it holds logins",
    "_netrc": "it holds logins", ".pgpass": "it holds logins", ".my.cnf": "it holds logins",
    ".npmrc": "it may hold a token", ".pypirc": "it may hold a token",
    ".git-credentials": "it holds logins", ".dockercfg": "it holds logins",
    ".vault-token": "it holds a token", ".htpasswd": "it holds logins",
    "credentials.tfrc.json": "it holds a token",
}  # fmt: skip

_HARMLESS = ("*.example", "*.sample", "*.template", "*.dist", "*.defaults", "*.pub")

_PROTECTED_NAME, _SECRET_NAME, _HARMLESS_NAME = (
    re.compile("|".join(map(translate, patterns)))
    for patterns in (_PROTECTED_FILES, _SECRET_FILES, _HARMLESS)
)

_SECRET_DIRECTORIES = {
    ".ssh", ".aws", ".azure", ".gnupg", ".password-store", ".kube", ".docker", "keychains",
    "keyrings", "gcloud", ".terraform.d", ".mozilla",
}  # fmt: skip

_SECRET_PAIRS = {
    (".config", "gh"), (".config", "hub"), (".config", "op"), (".cargo", "credentials"),
    (".cargo", "credentials.toml"), (".gem", "credentials"), (".config", "google-chrome"),
    (".config", "chromium"), ("etc", "shadow"), ("etc", "gshadow"),
}  # fmt: skip


_GIT_SETTINGS = ("config", "config.worktree")
_MOST_SETTINGS = 1 << 20

_PATTERN_MARKS = frozenset("*?[")


def protection(path: Path) -> str:
    """Say why writing `path`, a real path, asks in every mode, or return an empty text (R27)."""
    return first_protection((str(path),))


def first_protection(paths: Iterable[str]) -> str:
    """Return what `protection` says of the first of several paths that asks.

    Where opta's own directories and the start files are is looked up once for all of them.
    """
    places = _Places()
    return _first(places.reason(path) for path in paths)


class _Places:
    """The files that are protected for where they are, and not for their name."""

    def __init__(self) -> None:
        self._own = {str(directory) for directory in own_directories()}
        self._own_files = {found for own in self._own if (found := _identity(own)) is not None}
        starts = (os.path.split(file) for file in _start_files())
        self._starts = {(parent, _folded_name(name)) for parent, name in starts}
        self._is_own: dict[str, bool] = {}

    def reason(self, path: str) -> str:
        """Say why a real path is protected, or return an empty text."""
        parent, last = os.path.split(path)
        names = [_folded_name(name) for name in Path(path).parts]
        name = names[-1]
        reason = (
            _first(_PROTECTED_DIRECTORIES.get(name, "") for name in names)
            or _first(_PROTECTED_PAIRS.get(pair, "") for pair in itertools.pairwise(names))
            # `git~1` is what Windows calls `.git` for programs that know only short names.
            or (_GIT if any(name.startswith("git~") for name in names) else "")
            or (_by_pattern(name, _PROTECTED_FILES) if _PROTECTED_NAME.match(name) else "")
            or (_START if (parent, name) in self._starts else "")
            or (_OWN if self._lies_in_own(path) else "")
        )
        return f"{last or path}: {reason}" if reason else ""

    def _lies_in_own(self, path: str) -> bool:
        """Tell whether a path lies in a directory of opta's own, by name or by identity.

        As `is_within`, for several directories and many paths at once.
        """
        waiting = [path]
        while waiting[-1] not in self._is_own:
            parent = os.path.dirname(waiting[-1])  # noqa: PTH120 - once per word of a command
            if parent == waiting[-1]:
                break
            waiting.append(parent)
        known = self._is_own.get(waiting[-1], False)
        for place in reversed(waiting):
            known = known or place in self._own or _identity(place) in self._own_files
            self._is_own[place] = known
        return known


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)  # noqa: PTH116 - once per word of a command
    except (OSError, ValueError):
        return None
    return (found.st_dev, found.st_ino)


def pattern_protection(pattern: str) -> str:
    """Say why writing what a shell pattern may name asks, or return an empty text (R27).

    Only patterns that begin with a dot: a shell lets no other match a hidden file.
    """
    for part in folded_name(pattern).split("/"):
        if part.startswith(".") and not _PATTERN_MARKS.isdisjoint(part):
            for name, reason in (_PROTECTED_DIRECTORIES | _PROTECTED_FILES).items():
                if fnmatchcase(name, part):
                    return f"{pattern}: {reason} ({name})"
    return ""


def sensitivity(path: Path) -> str:
    """Say why `path` asks even to be read, or return an empty text (R40).

    That is for its name; of the settings of git, which nearly all are harmless, for a login there.
    """
    if _is_of_git(_folded(path)) and _shows_login(path):
        return f"{path.name}: it holds a login"
    return secret_name(path)


def secret_name(path: Path) -> str:
    """Say why the name of `path` asks even to be read, or return an empty text (R40)."""
    names = _folded(path)
    if not _SECRET_DIRECTORIES.isdisjoint(names) or not _SECRET_PAIRS.isdisjoint(
        itertools.pairwise(names)
    ):
        return f"{path.name}: it lies in a store of keys or logins"
    # A search asks this of every file: nearly all are settled by one look at the name.
    if _SECRET_NAME.match(names[-1]) is None or _HARMLESS_NAME.match(names[-1]):
        return ""
    reason = _by_pattern(names[-1], _SECRET_FILES)
    return f"{path.name}: {reason}" if reason else ""


def _is_of_git(names: list[str]) -> bool:
    """Tell whether a file is one that git reads its settings from."""
    if names[-1] == ".gitconfig":
        return True
    above = names[:-1]
    return names[-1] in _GIT_SETTINGS and (
        any(name.endswith(".git") for name in above) or above[-2:] == [".config", "git"]
    )


def _shows_login(path: Path) -> bool:
    with suppress(OSError):
        return holds_login(storage.read_regular(path, _MOST_SETTINGS))
    return False


def secret_patterns() -> tuple[str, ...]:
    """Return glob patterns for the names of files that hold secrets."""
    return (*_SECRET_FILES, *(f"{name}/**" for name in sorted(_SECRET_DIRECTORIES)))


_SPELLED = {"jenkinsfile": "Jenkinsfile", "library/launchagents": "Library/LaunchAgents"}
"""How names of the tables, which are folded, are spelled by what obeys them."""

_SECRET_PLACES = (
    ".ssh", ".aws", ".azure", ".gnupg", ".password-store", ".kube", ".docker", ".terraform.d",
    ".mozilla", ".config/gcloud", ".config/gh", ".config/hub", ".config/op",
    ".config/google-chrome", ".config/chromium", ".config/github-copilot", ".cargo/credentials",
    ".cargo/credentials.toml", ".gem/credentials", ".local/share/keyrings", "Library/Keychains",
    ".codex/auth.json", ".claude/.credentials.json", ".claude.json", ".bash_history",
    ".zsh_history", ".python_history",
)  # fmt: skip
"""Where keys and logins lie, relative to the home directory."""


def holds_secret(name: str) -> bool:
    """Tell whether a folded file or directory name is one that `sensitivity` asks about."""
    if name in _SECRET_DIRECTORIES:
        return True
    return _SECRET_NAME.match(name) is not None and _HARMLESS_NAME.match(name) is None


def protected_names() -> tuple[str, ...]:
    """Return the names and paths, relative to a project, that `protection` asks about.

    Of patterns there are none: those files need not exist under one name.
    """
    pairs = ("/".join(pair) for pair in _PROTECTED_PAIRS)
    files = (name for name in _PROTECTED_FILES if "*" not in name)
    names = (*_PROTECTED_DIRECTORIES, *pairs, *files)
    return tuple(_SPELLED.get(name, name) for name in names)


def is_protected(name: str) -> bool:
    """Tell whether a folded name alone makes `protection` ask."""
    return name in _PROTECTED_DIRECTORIES or _PROTECTED_NAME.match(name) is not None


def secret_places() -> Iterator[Path]:
    """Yield the files and directories of the home directory that hold secrets, if they exist."""
    home = home_directory()
    if home is None:
        return
    places = dict.fromkeys(home / name for name in _SECRET_PLACES)
    with suppress(OSError), os.scandir(home) as entries:
        places |= dict.fromkeys(
            Path(entry.path) for entry in entries if holds_secret(folded_name(entry.name))
        )
    yield from (place for place in places if place.exists())


def _folded(path: Path) -> list[str]:
    return [_folded_name(part) for part in path.parts]


def _folded_name(name: str) -> str:
    """Return a name as any file system may understand it.

    What follows a colon names a stream of the same file (`.env::$DATA`) where there are streams.
    """
    return folded_name(name.partition(":")[0] or name)


def _by_pattern(name: str, table: dict[str, str]) -> str:
    return _first(reason for pattern, reason in table.items() if fnmatchcase(name, pattern))


def _first(reasons: Iterator[str]) -> str:
    return next((reason for reason in reasons if reason), "")


def own_directories() -> list[Path]:
    """Return the real paths of the directories with opta's own settings, tools and sessions."""
    found = [storage.global_dir()]
    for directory in (storage.config_dir, storage.state_dir):
        with suppress(storage.StorageError):
            found.append(directory())
    return [Path(os.path.realpath(directory)) for directory in found]


def _start_files() -> Iterator[str]:
    """The shell start files of the home directory, and what they are links to."""
    home = home_directory()
    if home is None:
        return
    for name in START_FILES:
        file = f"{home}{os.sep}{name}"
        yield file
        if os.path.islink(file):  # noqa: PTH114 - two dozen names for each command
            yield os.path.realpath(file)


@cache
def _real_home(home: str) -> Path:
    return Path(os.path.realpath(home))


def home_directory() -> Path | None:
    """Return the real path of the person's home directory, None where there is none."""
    with suppress(RuntimeError):
        return _real_home(str(Path.home()))
    return None
