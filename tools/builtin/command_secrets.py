"""Which guarded files a shell command names: with secrets, or kept by a rule for `read_file`.

The former ask, whatever allows the command (R40); of the latter the rule decides. Only what its
words say can be known, as for writing (`command_paths`): names that variables or
scripts hold stay unseen (docs/permissions.md).
"""

from __future__ import annotations

import glob
import os
import re
import stat
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path

from tools.builtin.command_words import spelled
from tools.builtin.kit import Services
from tools.definition import Effect, EffectKind, JsonObject
from tools.files.globs import GlobProblem, Globs
from tools.files.paths import absolute_path
from tools.files.protected import sensitivity
from tools.files.workspace import FileProblem
from tools.permissions.rules import RuleSet
from tools.permissions.shell_words import SimpleCommand, program_name, read_commands

_MAX_EXPANDED = 2000
_MAX_VALUE = 4096

_NAMES_ONLY = frozenset((
    "basename", "chmod", "chown", "dirname", "echo", "ls", "mkdir", "printf", "readlink",
    "realpath", "rm", "rmdir", "stat", "test", "touch", "[", "[[",
))  # fmt: skip
"""Programs that do not show what is in the files they are given."""

_OPTION_VALUE = re.compile(r"--?[\w-]+=|@|-\w(?=[./~$])")
_WILDCARD = re.compile(r"[*?\[{]")


def guarded_in_command(line: str, cwd: Path, services: Services, subject: str) -> list[Effect]:
    """Return an effect for each guarded file that the words of a command name."""
    return _guarded(_words(line), cwd, services, subject)


def guarded_in_values(values: JsonObject, services: Services, subject: str) -> list[Effect]:
    """Return an effect for each guarded file that an argument of a call names.

    Only values without blanks count, which a text for people has.
    """
    texts = [value for value in values.values() if isinstance(value, str)]
    short = [text for text in texts if len(text) < _MAX_VALUE and not re.search(r"\s", text)]
    return _guarded(short, services.workspace.root, services, subject)


def _guarded(words: Iterable[str], cwd: Path, services: Services, subject: str) -> list[Effect]:
    found: dict[str, Effect] = {}
    for word in dict.fromkeys(words):
        for name in _expanded(word, cwd):
            effect = _effect(name, cwd, services, subject)
            if effect is not None:
                found.setdefault(effect.value, effect)
    return list(found.values())


def _words(line: str) -> Iterator[str]:
    reading = read_commands(line)
    found = [*chain.from_iterable(map(_operands, reading.commands)), *reading.sources]
    for word in dict.fromkeys(found):
        yield from spelled(word, reading.assigned)


def _operands(command: SimpleCommand) -> Iterator[str]:
    program, *words = command.words
    if program_name(program) in _NAMES_ONLY:
        return
    for word in words:
        yield word
        # `HEAD:.env`, `--file=.env`, `-f.env`, `@.env`
        if ":" in word:
            yield word.rpartition(":")[2]
        option = _OPTION_VALUE.match(word)
        if option is not None:
            yield word[option.end() :].removeprefix("@")


def _expanded(word: str, cwd: Path) -> Iterator[str]:
    """Yield what a word may stand for: itself, and the files that its wildcards match."""
    yield word
    if _WILDCARD.search(word) is None:
        return
    try:
        alternatives = Globs.alternatives(word)
    except GlobProblem:
        return
    for pattern in alternatives:
        yield pattern
        base = os.path.join(cwd, os.path.expanduser(pattern))  # noqa: PTH111, PTH118 - a pattern
        yield from islice(glob.iglob(base), _MAX_EXPANDED)  # noqa: PTH207


def _effect(name: str, cwd: Path, services: Services, subject: str) -> Effect | None:
    workspace, rules = services.workspace, services.rules
    try:
        if not _is_suspect(name, cwd, rules):
            return None
        path = workspace.resolve(name if name.startswith("~") else str(cwd / name))
        effect = workspace.effect(EffectKind.READ, path, subject, name)
    except (FileProblem, OSError, ValueError):
        return None
    return effect if effect.sensitive or rules.keeping_from(path) is not None else None


def _is_suspect(name: str, cwd: Path, rules: RuleSet) -> bool:
    """Look first at what costs little: nearly all words of commands name no secret."""
    if not name or "\n" in name:
        return False
    path = os.path.normpath(absolute_path(name, cwd))
    try:
        found = os.stat(path)  # noqa: PTH116 - of a text, thousands of times
    except OSError:
        found = None
    if found is None and "/" not in name and "." not in name:
        # Words such as `gcloud` are names of things too.
        return False
    if sensitivity(Path(path)):
        return True
    if found is None:
        return False
    several = stat.S_ISREG(found.st_mode) and found.st_nlink > 1
    real = Path(os.path.realpath(path))
    by_link = str(real) != path and bool(sensitivity(real))
    return several or by_link or rules.keeping_from(real) is not None
