"""What keeps git, while it reads, from running what the settings of a repository name (R12).

A repository brings settings along (`.git/config`) that make plain reading run programs: file
system monitors, external diffs, text converters, filters, pagers, hooks. Settings of the command
line or the environment stand above those of the repository.
"""

from __future__ import annotations

import os
import re
from collections.abc import Awaitable, Iterable, Mapping
from pathlib import Path
from typing import Protocol

from tools import storage
from tools.definition import ToolError
from tools.engine.process import ProcessResult
from tools.files.protected import secret_patterns

LIST_SETTINGS = ("config", "--list", "--show-scope", "--name-only")
"""Arguments with which git tells what `overrides` needs to know."""

_OFF = (
    "core.fsmonitor=false", "core.hooksPath=/dev/null", "core.pager=cat", "diff.external=",
    "diff.submodule=short", "diff.ignoreSubmodules=all", "status.submoduleSummary=false",
    "log.showSignature=false", "gpg.program=false", "gpg.openpgp.program=false",
    "gpg.x509.program=false", "gpg.ssh.program=false", "core.sshCommand=false",
    "safe.bareRepository=explicit",
)  # fmt: skip
"""Settings of the command line, which stand above those of the repository."""

_ENVIRONMENT = {
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
}
"""A partial clone fetches what it lacks when it is read; no transport may start."""


class RunGit(Protocol):
    """Runs git with an environment, arguments and, maybe, an input."""

    def __call__(
        self, environment: Mapping[str, str], words: tuple[str, ...], stdin: bytes | None = None, /
    ) -> Awaitable[ProcessResult]: ...


_DOTS = re.compile(r"\.{2,3}")
_MAX_CHECKED = 500
"""Tracked files with secrets whose attributes are asked for."""

_ADVICE = "Use run_command, so that the user is asked."
_ADVICE_TO_COMMAND = "Nothing was run. The user can run it with `!`."


def without_transport(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment without settings of git's own, in which it fetches nothing."""
    kept = {name: value for name, value in environment.items() if not name.startswith("GIT_")}
    return kept | _ENVIRONMENT


def overrides(listed: ProcessResult, advice: str = _ADVICE) -> list[str]:
    """Return settings (`name=value`) under which reading runs nothing of the repository's.

    `listed` is what LIST_SETTINGS gave. Raises ToolError for what cannot be switched off, whose
    message ends with `advice`.
    """
    try:
        return [*_OFF, *neutralised(_settings(listed))]
    except ToolError as error:
        raise ToolError(f"{error} {advice}") from None


async def reading_environment(
    environment: Mapping[str, str],
    cwd: Path,
    git: RunGit,
) -> dict[str, str]:
    """Return the environment for shell commands that read a repository with git.

    `git` runs git with an environment and arguments in `cwd`. Files that hold secrets are shown
    as binary. Raises ToolError.
    """
    quiet = without_transport(environment) | {"GIT_PAGER": "cat"}
    listed = await git(quiet, LIST_SETTINGS)
    converter = next(filter(_shows_by_program, _settings(listed)), "")
    if converter:
        raise ToolError(
            f"The settings of this repository hold {converter.partition(chr(9))[2]}: git would run "
            "that program to show a file. Nothing was run. Use the tool `git`, which reads "
            "without it."
        )
    settings = overrides(listed, _ADVICE_TO_COMMAND)
    # Empty, it would be a program without a name; the person's own may stay.
    settings.remove("diff.external=")
    modules = _modules_file(cwd)
    if modules is not None:
        found = await git(quiet, ("config", "--file", str(modules), "--list", "--name-only"))
        names = (line.rpartition(".")[0] for line in _settings(found))
        settings += [f"{name}.ignore=all" for name in dict.fromkeys(names)]
    settings.append(f"core.attributesFile={_attributes()}")
    numbered = list(enumerate(setting.partition("=") for setting in settings))
    keys = {f"GIT_CONFIG_KEY_{number}": name for number, (name, _, _) in numbered}
    values = {f"GIT_CONFIG_VALUE_{number}": value for number, (_, _, value) in numbered}
    reading = quiet | keys | values | {"GIT_CONFIG_COUNT": str(len(numbered))}
    shown = await _shown_secret(reading, git)
    if shown:
        raise ToolError(
            f"The attributes of this repository make git show the lines of files such as {shown}, "
            "which hold secrets. Nothing was run. Use the tool `git`, which leaves them out."
        )
    return reading


async def refuse_bare_files(reading: Mapping[str, str], names: Iterable[str], git: RunGit) -> None:
    """Refuse what would show a file by the name of its content, which tells nothing of its path.

    `names` may be names of objects, ranges of them, or paths. Raises ToolError (R40).
    """
    asked = [
        form
        for name in names
        if name.isprintable()
        for one in _DOTS.split(name.removeprefix("^"))
        if one and ":" not in one
        for form in (one, f"{one}^{{}}")
    ]
    if not asked:
        return
    lines = "".join(f"{name}\n" for name in asked).encode("utf-8", "surrogateescape")
    found = await git(reading, ("cat-file", "--batch-check=%(objecttype)"), lines)
    if found.exit_code != 0:
        # Not a repository: git shows nothing then.
        return
    kinds = (found.stdout.head + found.stdout.tail).decode("utf-8", "replace").splitlines()
    shown = next((name for name, kind in zip(asked, kinds, strict=False) if kind == "blob"), "")
    if shown or len(kinds) < len(asked):
        raise ToolError(
            f"{shown or asked[0]} may be the content of a file without its path, so nothing tells "
            "whether it holds secrets. Nothing was run. Write REVISION:PATH instead. The user can "
            "run it with `!`."
        )


async def _shown_secret(reading: Mapping[str, str], git: RunGit) -> str:
    """Return a name of files with secrets that attributes of the repository make text again.

    Those stand above `core.attributesFile`. Asked of every pattern, and of tracked files, which
    may lie beside attributes of their own.
    """
    patterns = secret_patterns()
    listed = await git(
        reading, ("ls-files", "-z", "--", *(f":(top,icase,glob)**/{name}" for name in patterns))
    )
    if listed.exit_code != 0:
        return ""
    tracked = listed.stdout.head.decode("utf-8", "surrogateescape").split("\0")[:-1]
    names = [*(pattern.replace("*", "x") for pattern in patterns), *tracked[:_MAX_CHECKED]]
    checked = await git(reading, ("check-attr", "-z", "diff", "--", *names))
    output = checked.stdout.head + checked.stdout.tail
    fields = output.decode("utf-8", "surrogateescape").split("\0")[:-1]
    found = zip(fields[::3], fields[2::3], strict=False)
    return next((name for name, value in found if value != "unset"), "")


def _shows_by_program(line: str) -> bool:
    scope, _, name = line.partition("\t")
    shown = name == "diff.external" or name.endswith((".command", ".textconv"))
    return scope in ("local", "worktree") and name.startswith("diff.") and shown


def _modules_file(cwd: Path) -> Path | None:
    """Return the list of submodules: each may say for itself that it is looked into."""
    top = next((place for place in (cwd, *cwd.parents) if (place / ".git").exists()), None)
    modules = None if top is None else top / ".gitmodules"
    return modules if modules is not None and os.path.lexists(modules) else None


def _attributes() -> Path:
    return storage.kept_file(
        "git-attributes", "".join(f"{_in_any_case(name)} -diff\n" for name in secret_patterns())
    )


def _in_any_case(pattern: str) -> str:
    """Return a pattern for attributes that holds for every case and in every directory."""
    letters = (f"[{c}{c.upper()}]" if c.isalpha() else c for c in pattern)
    return ("**/" if "/" in pattern else "") + "".join(letters)


def _settings(listed: ProcessResult) -> list[str]:
    output = listed.stdout
    text = (output.head + output.tail).decode("utf-8", "surrogateescape")
    if listed.exit_code != 0 or output.total_bytes > len(output.head) + len(output.tail):
        raise ToolError(
            "The settings of this repository cannot be checked, so git was not run: "
            f"{text[:500].strip() or 'no output'}."
        )
    return text.splitlines()


def neutralised(settings: Iterable[str]) -> list[str]:
    """Return settings that switch off the programs which a repository's own settings name.

    `settings` are lines of `git config --list --show-scope --name-only`. Those of the user's own
    files (git-lfs, for one) stay: they do not come with the project. Raises ToolError for what
    cannot be switched off.
    """
    found = set()
    for line in settings:
        scope, _, name = line.partition("\t")
        if scope not in ("local", "worktree"):
            continue
        section, _, rest = name.partition(".")
        driver, _, key = rest.rpartition(".")
        programs = {"filter": ("clean", "smudge", "process"), "diff": ("command", "textconv")}
        if name == "core.worktree" or ("=" in driver and section in programs):
            raise ToolError(
                f"The settings of this repository hold {name}, which reading could not be kept "
                "safe from."
            )
        if driver and key in programs.get(section, ()):
            found.add(f"{name}=")
            if section == "filter":
                found.add(f"filter.{driver}.required=false")
    return sorted(found)
