"""Whether a command, or a custom tool, asks in every mode: for what it destroys (R14), or for the
name of a file that is not written without a question (R27).

Only what its words say can be known: names in variables, in scripts and in other programs' own
settings stay unseen (docs/permissions.md).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from tools.builtin.command_words import spelled
from tools.definition import CommandDisplay, Effect, EffectKind, Invocation
from tools.files.paths import absolute_path
from tools.files.protected import first_protection, pattern_protection
from tools.permissions.destruction import destruction
from tools.permissions.shell_words import SimpleCommand, interprets, program_name, read_commands

_READERS = frozenset((
    "basename", "cat", "cmp", "diff", "dirname", "du", "echo", "egrep", "fgrep", "file", "grep",
    "head", "ls", "md5sum", "printf", "pwd", "readlink", "realpath", "rg", "sha256sum", "stat",
    "tail", "test", "tree", "wc", "[", "[[",
))  # fmt: skip
"""Programs whose operands are only read. Their options are looked at all the same."""

_GIT_CONFIG_READS = frozenset((
    "get", "list", "--get", "--get-all", "--get-regexp", "--get-urlmatch", "--get-color",
    "--get-colorbool", "--list", "-l",
))  # fmt: skip

_GIT_READERS = frozenset(("add", "blame", "commit", "diff", "log", "ls-files", "show", "status"))


_INTO = frozenset(("cp", "install", "ln", "mv", "rsync"))
_SED = frozenset(("gsed", "sed"))
_SED_WRITES = re.compile(r"[wW]\s*([^\s;}]+)")
_NAME = re.compile(r"\.\w|.*/")

_OPTA = frozenset(("opta", "opta.py", "opta-agent", "cycod"))
_OPTA_READS: Mapping[str, frozenset[str]] = {
    "config": frozenset(("get", "show")),
    "doctor": frozenset(("",)),
    "mcp": frozenset(("list", "logs")),
    "permissions": frozenset(("check", "list", "why")),
    "sessions": frozenset(("export", "list", "show")),
    "team": frozenset(("status",)),
    "tool": frozenset(("get", "list", "validate")),
    "tools": frozenset(("", "info", "list", "tokens", "usage")),
}
_OPTA_COMMANDS = _OPTA_READS.keys() | {"loop"}
_OPENS = frozenset(("--connect", "--trust"))
_TELLS = frozenset(("-h", "--help", "--version"))


def protected_by_name(line: str, cwd: Path) -> str:
    """Say why a command asks in every mode, as far as its words tell; empty if it need not."""
    reading = read_commands(line)
    words = dict.fromkeys(reading.targets)
    for command in reading.commands:
        words.update(dict.fromkeys(_may_be_written(command)))
        if _changes_git(command):
            words[".git/config"] = None
    if any(interprets(name) for name in reading.programs):
        # Of code, only what looks like the name of a file.
        words.update(dict.fromkeys(sorted(filter(_NAME.match, reading.code))))
    named = dict.fromkeys(text for word in words for text in spelled(word, reading.assigned))
    return _first_reason(named, cwd) or next(filter(None, map(_of_opta, reading.commands)), "")


def must_ask(line: str, cwd: Path, root: Path) -> str:
    """Say why a command asks in every mode: what it would destroy, or which file it may write.

    Empty where it need not. Both directories are real paths.
    """
    return destruction(line, cwd, root) or protected_by_name(line, cwd)


def guarded(invocation: Invocation, root: Path) -> Invocation:
    """Mark what a custom tool runs, and the files its definition declares, as built-ins are."""
    preview = invocation.preview
    cwd = Path(preview.cwd) if isinstance(preview, CommandDisplay) else root
    return replace(
        invocation,
        effects=tuple(_guarded_effect(effect, cwd, root) for effect in invocation.effects),
    )


def _guarded_effect(effect: Effect, cwd: Path, root: Path) -> Effect:
    match effect.kind:
        case EffectKind.EXECUTE:
            protected = effect.protected or must_ask(effect.value, cwd, root)
            return replace(effect, protected=protected)
        case EffectKind.WRITE:
            return replace(effect, protected=effect.protected or _first_reason([effect.value], cwd))
        case _:
            return effect


def _changes_git(command: SimpleCommand) -> bool:
    """Tell whether git may write its own settings or hooks; `git config NAME` only reads."""
    program, *arguments = command.words
    words = list(_from_subcommand(arguments))
    if program_name(program) != "git":
        return False
    if words[:1] == ["init"]:
        return any(word.startswith("--t") for word in words)
    if words[:1] != ["config"]:
        return False
    words = words[1:]
    operands = [word for word in words if not word.startswith("-")]
    return _GIT_CONFIG_READS.isdisjoint(words) and (len(operands) != 1 or len(words) > 1)


def _of_opta(command: SimpleCommand) -> str:
    """Say why a command that starts opta asks: it may change rules and tools, or go around them."""
    program, *words = command.words
    operands = [word for word in words if not word.startswith("-")]
    only_tells = len(operands) < 3 and words[len(operands) :] in [[word] for word in _TELLS]
    if program_name(program) not in _OPTA or only_tells or operands[:1] == ["help"]:
        return ""
    name, action = (*operands, "", "")[:2]
    reads = action in _OPTA_READS.get(name, ()) and _OPENS.isdisjoint(words)
    if reads or not (command.sure or name in _OPTA_COMMANDS):
        return ""
    return f"opta {name}".strip() + ": opta's own settings, rules and answers are for you to change"


def _from_subcommand(arguments: Iterable[str]) -> Iterator[str]:
    """Leave out the options of git itself, which stand before the name of what it does."""
    rest = iter(arguments)
    for word in rest:
        if word in ("-C", "-c", "--git-dir", "--work-tree", "--namespace", "--config-env"):
            next(rest, "")
        elif not word.startswith("-"):
            yield word
            yield from rest


def _may_be_written(command: SimpleCommand) -> Iterator[str]:
    program, *arguments = command.words
    harmless = _only_reads(program_name(program), arguments)
    if program_name(program) in _INTO:
        yield from _put_into(arguments)
    for word in arguments:
        if program_name(program) in _SED:
            yield from _SED_WRITES.findall(word)
        if not word.startswith("-"):
            if not harmless:
                yield word
        elif len(word) > 2:
            yield word[2:]
        _, equals, value = word.partition("=")
        if equals:
            yield value


def _put_into(arguments: Iterable[str]) -> Iterator[str]:
    """Yield what files are called once they are in a directory, which is named last, or first."""
    names = [word for word in arguments if not word.startswith("-")]
    for directory in (names[-1:], names[:1]):
        yield from (f"{place}/{Path(name).name}" for place in directory for name in names)


def _only_reads(program: str, arguments: list[str]) -> bool:
    if any(word.startswith(("-o", "--o")) for word in arguments):
        return False
    return program in _READERS or (
        program == "git" and arguments[:1] != [] and arguments[0] in _GIT_READERS
    )


def _first_reason(words: Iterable[str], cwd: Path) -> str:
    """Say why the first file that words may name is protected, as spelled or where it leads."""
    named = {word: tuple(_named(word, cwd)) for word in words}
    reason = first_protection(dict.fromkeys(path for paths in named.values() for path in paths))
    return reason or next(filter(None, map(pattern_protection, named)), "")


def _named(word: str, cwd: Path) -> Iterator[str]:
    with suppress(OSError, ValueError):
        plain = os.path.normpath(absolute_path(word, cwd))
        real = os.path.realpath(plain)
        yield from (plain,) if plain == real else (plain, real)
