"""How much of a command one allow rule speaks for, and the narrowest that is worth suggesting."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tools.permissions.shell_words import program_name, runs_another

_PLAIN_WORD = r"[A-Za-z0-9_./:@%+,-][A-Za-z0-9_./:@%+,=-]*"
PLAIN = re.compile(_PLAIN_WORD)
PLAIN_COMMAND = re.compile(rf"[A-Za-z0-9_./+-]+(?:[ \t]+{_PLAIN_WORD})*")
PREFIX = ":*"
"""Ends the argument of a rule that is the beginning of a command."""

BLANKS = " \t\n"

_FLAGS_ACT = frozenset((
    "ack", "ag", "base64", "curl", "date", "diff", "fd", "fdfind", "find", "git", "less", "man",
    "more", "rg", "rsync", "scp", "sort", "ssh", "tar", "tree", "unzip", "wget", "xxd", "zip",
))  # fmt: skip
"""Programs of which some flag writes a file or runs a program (R9)."""

_OPERANDS_ACT = frozenset(("awk", "gawk", "mawk", "nawk", "sed", "gsed", "uniq"))
"""Programs of which an operand does (a script, a file to write)."""

_ACTING: Mapping[str, tuple[str, ...]] = {
    "cargo": ("--config", "-C", "-Z", "--manifest-path"),
    "eslint": ("--fix", "--output-file", "-o", "--plugin", "--rulesdir", "--config", "-c"),
    "gh": ("--method", "-X", "--field", "-f", "-F", "--raw-field", "--input"),
    "go": (
        "-exec", "-toolexec", "-vettool", "-ldflags", "-modfile", "-overlay", "-compiler",
        "-gccgoflags", "-pkgdir", "-C", "-o",
    ),
    "npm": (
        "--script-shell", "--node-options", "--prefix", "-C", "--userconfig", "--globalconfig",
        "--shell", "--git", "--call", "-c",
    ),
    "prettier": ("--write", "-w", "--plugin", "--config"),
    "pytest": ("-p", "-c", "-o", "--override-ini", "--rootdir", "--basetemp", "--pdbcls"),
    "ruff": ("--fix", "--fix-only", "--unsafe-fixes", "--add-noqa", "--output-file", "-o",
             "--config"),
}  # fmt: skip
"""Options that a rule covers only where it names them: what they say is run, loaded or written."""

_MAKE_COVERED = re.compile(
    r"[^-=][^=]*|-j\d*|-[knsBO]+|--(?:keep-going|dry-run|silent|always-make|no-print-directory)"
)
"""What a rule for make covers: the value of a variable becomes text of a shell."""

_GIT_COVERED = {
    "add": frozenset(("-A", "-u", "-v", "--all", "--update", "--verbose", "--intent-to-add", "-N")),
    "checkout": frozenset(("-b", "-B", "-q", "--quiet", "--detach", "--track", "-t")),
    "commit": frozenset((
        "-m", "-a", "-q", "-s", "-v", "-am", "--message", "--all", "--amend", "--no-edit",
        "--signoff",
    )),
    "fetch": frozenset(("-p", "-q", "-v", "--all", "--prune", "--tags", "--quiet")),
    "merge": frozenset((
        "--no-ff", "--ff-only", "--abort", "--continue", "--no-edit", "-q", "--squash",
    )),
    "pull": frozenset(
        ("-q", "--rebase", "--ff-only", "--no-rebase", "--no-edit", "--autostash")
    ),
    "push": frozenset(("-u", "-q", "--set-upstream", "--tags", "--quiet")),
    "stash": frozenset(("-u", "-m", "--include-untracked", "--message")),
    "switch": frozenset(("-c", "-q", "--create", "--quiet", "--detach")),
}  # fmt: skip
"""Options that a rule for a subcommand of git covers: they run nothing and write no other file."""

_CHECKERS = frozenset((
    "eslint", "jest", "mypy", "prettier", "pyright", "pytest", "tsc", "vitest",
))  # fmt: skip
_SUBCOMMANDS = frozenset((
    "bun", "bundle", "cargo", "composer", "deno", "docker", "dotnet", "gh", "git", "go", "helm",
    "kubectl", "mix", "npm", "pip", "pip3", "pnpm", "poetry", "ruff", "swift", "terraform", "uv",
    "yarn",
))  # fmt: skip
_REPEATED = frozenset((
    "bench", "build", "check", "clippy", "describe", "diff", "doc", "fmt", "format", "get", "info",
    "lint", "list", "log", "logs", "ls", "outdated", "ps", "show", "status", "test", "top", "tree",
    "typecheck", "vet", "view",
))  # fmt: skip
"""Subcommands that do the same kind of thing whatever stands behind them: no package is named."""

_REPEATED_OF_GIT = (_REPEATED | _GIT_COVERED.keys() | {"blame", "grep"}) - {"push"}
_GROUPS = frozenset((
    "compose", "container", "image", "issue", "network", "pip", "pr", "release", "repo", "state",
    "volume", "workflow",
))  # fmt: skip
"""Words of which the next is the subcommand: `gh pr view` is no `gh pr merge`."""

_RUNNERS = frozenset(("run", "exec", "x", "tool"))
_RUN_SCRIPTS = frozenset(("bun", "composer", "npm", "pnpm", "yarn"))


def plain_words(command: str) -> tuple[str, ...]:
    """Return the words of a command that is nothing but plain words, else none."""
    command = command.strip(BLANKS)
    return tuple(command.split()) if PLAIN_COMMAND.fullmatch(command) else ()


def covers_rest(words: tuple[str, ...], length: int) -> bool:
    """Tell whether a rule for the first `length` words of a command speaks for the rest (R9)."""
    program = program_name(words[0])
    rest = words[length:]
    if program in _OPERANDS_ACT:
        return not rest
    if runs_another(program):
        return all(map(PLAIN.fullmatch, rest))
    if program in ("make", "gmake"):
        return all(map(_MAKE_COVERED.fullmatch, rest))
    if program == "git" and length > 1:
        covered = _GIT_COVERED.get(words[1], frozenset())
        return all(_option(word) in covered for word in rest if word.startswith(("-", "+")))
    if program in _FLAGS_ACT:
        return not any(word.startswith(("-", "+")) for word in rest)
    return not any(_acts(program, word) for word in _own_words(program, rest))


def _own_words(program: str, rest: tuple[str, ...]) -> tuple[str, ...]:
    """Return the words that a program keeps: behind `--` they are those of what it runs."""
    passes_on = program in ("npm", "cargo") and "--" in rest
    return rest[: rest.index("--")] if passes_on else rest


def _acts(program: str, word: str) -> bool:
    """Tell whether a word may be an option that acts: abbreviated, bundled or with its value."""
    acting = _ACTING.get(program, ())
    name = word.partition("=")[0]
    if program == "go":
        # `--exec` is `-exec`.
        return word.startswith("-") and f"-{name.lstrip('-')}" in acting
    if name.startswith("--"):
        return len(name) > 3 and any(option.startswith(name) for option in acting)
    return word.startswith("-") and any(f"-{letter}" in acting for letter in name[1:])


def _option(word: str) -> str:
    return word.partition("=")[0] if word.startswith("--") else word


def suggest_command(command: str) -> str:
    """Return the argument of the narrowest sensible rule for `command`, "" if there is none.

    What is run again and again with other words is suggested up to its subcommand or script,
    checkers as they are; anything else as the whole text.
    """
    command = command.strip(BLANKS)
    words = plain_words(command)
    if words:
        prefix = words[: _sensible_length(*words)]
        if prefix and covers_rest(words, len(prefix)):
            return " ".join(prefix) + PREFIX
    return "" if not command or command == "*" or command.endswith(PREFIX) else command


def _sensible_length(program: str, first: str = "", second: str = "", *_: str) -> int:
    if program in _CHECKERS:
        return 1
    if program not in _SUBCOMMANDS:
        return 0
    if first in (_REPEATED_OF_GIT if program == "git" else _REPEATED):
        return 2
    if first in _GROUPS:
        return 3 if second in _REPEATED else 0
    if first in _RUNNERS:
        script = program in _RUN_SCRIPTS and first == "run" and not second.startswith("-")
        return 3 if second and (script or second in _CHECKERS) else 0
    return 0
