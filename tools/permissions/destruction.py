"""Which commands would destroy the system, the home directory or the whole project (R14).

Asked in every mode, so it works on the words that the scanner of the deny rules finds, behind
every wrapper and in every nested text. Only words are known: what a script does stays unseen.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise, takewhile
from pathlib import Path

from tools.files.paths import is_within
from tools.permissions.git_destruction import git_losses
from tools.permissions.shell_words import ShellReading, SimpleCommand, program_name, read_commands

_REMOVERS = frozenset(
    ("rm", "rmdir", "unlink", "shred", "srm", "trash", "trash-put", "gio", "rimraf", "del-cli")
)
_MOVERS = frozenset(("mv", "rename"))
_CHANGERS = frozenset(("chmod", "chown", "chgrp", "chattr", "setfacl"))
_FORMATTERS = re.compile(
    r"mkfs(\..+)?|mke2fs|wipefs|mkswap|fdisk|sfdisk|sgdisk|parted|blkdiscard|diskutil|cryptsetup"
)
_DEVICE = re.compile(r"/dev/(sd|hd|vd|xvd|nvme|mmcblk|disk|rdisk|mapper/|md|loop|mem|kmem|port)\S*")
_RECURSIVE = re.compile(r"-[A-Za-z]*[rR][A-Za-z]*|--r(e(c(u(r(s(i(ve?)?)?)?)?)?)?)?")
_PASSERS = frozenset(("xargs", "parallel"))
_LIST_DIRECTORIES = {("fd", ""), ("fd", "."), ("fdfind", ""), ("git", "ls-files")}
_SELECTORS = frozenset(("grep", "egrep", "fgrep", "rg", "head", "tail"))
_INVERTS = re.compile(r"-[A-Za-z]*v[A-Za-z]*|--inv\w*(-\w*)?")
_FIND_TEST = re.compile(
    r"-(i?(name|path|regex)|[il]name|wholename|[acm](time|min)|newer\w*|empty|size|perm|user|group"
    r"|[ug]id|nouser|nogroup|inum|links|samefile)"
)
_VARIABLE = re.compile(r"\$(\{?)(\w+)\}?")
_BRACES = re.compile(r"([^{}]*)\{([^{}]*,[^{}]*)\}([^{}]*)")
_GLOB_TAIL = re.compile(r"(/?(\*\*?|\[[^]/]*\]\*|\.\*|\.\[[^/]*|\{[^/]*|\?\?*))+/?$")


def destruction(line: str, cwd: Path, root: Path) -> str:
    """Say what a command would destroy, or return an empty text. Both directories are real."""
    reading = read_commands(line)
    places = [cwd, *_entered(reading, cwd)]
    for target in reading.targets:
        if _DEVICE.fullmatch(target):
            return f"it writes over the device {target}"
    passed = any(program_name(command.words[0]) in _PASSERS for command in reading.commands)
    for command in reading.commands:
        is_git = program_name(command.words[0]) == "git"
        losses = git_losses(command.words[1:]) if is_git else _endangered(command, passed=passed)
        for operand, what in losses:
            if is_git and not operand:
                return f"it {what}"
            for one in (operand,) if operand else ("", *_printed(reading)):
                if command.sure or not _is_passed(one, reading):
                    reason = _reason(one, what, reading, places, root)
                    if reason:
                        return reason
    return ""


def _printed(reading: ShellReading) -> Iterator[str]:
    """Yield what a line prints of its own: `xargs` may add it to a command."""
    for command in reading.commands:
        if program_name(command.words[0]) in ("echo", "printf"):
            yield from command.words[1:]


def _endangered(command: SimpleCommand, *, passed: bool) -> Iterator[tuple[str, str]]:
    """Yield the operands of a command that are destroyed, and how.

    The operand "" stands for what is only known when it runs: `passed` says that `xargs` adds
    some. Without an operand at all, the text says everything.
    """
    name, words = program_name(command.words[0]), command.words[1:]
    operands = [word for word in words if not word.startswith("-")]
    recursive = any(_RECURSIVE.fullmatch(word) for word in words)
    if name in _REMOVERS:
        yield from ((operand, "removes") for operand in operands or [""] * passed)
    elif name in _MOVERS:
        yield from ((operand, "moves") for operand in operands[: len(operands) - 1 or 1])
    elif name in _CHANGERS and recursive:
        yield from ((operand, "changes the rights of") for operand in operands[1:])
    elif name == "truncate":
        values = {value for option, value in pairwise(words) if option in ("-r", "-s")}
        yield from ((o, "empties the files of") for o in operands if o not in values)
    elif name == "find" and "-delete" in words:
        yield from ((start, "removes") for start in _found(words))
    elif name == "rsync" and any(word.startswith(("--del", "--remove-s")) for word in words):
        yield from ((operand, "may empty") for operand in operands[-1:])
    elif name == "dd":
        yield from ((w[3:], "writes over") for w in words if w.startswith("of=/dev/"))
    elif _FORMATTERS.fullmatch(name):
        yield "/", "formats a disk:"


def home_directory() -> str:
    """Return what `~` is for the shell."""
    return os.environ.get("HOME", "")


def _found(words: Sequence[str]) -> list[str]:
    """Return the starting points of a `find` that does not choose among what is below them."""
    starts = list(takewhile(lambda word: not word.startswith(("-", "(", "!")), words))
    chooses = True
    for alternative in _alternatives_of_find(words[len(starts) :]):
        chooses = chooses and _chooses(alternative)
    return [] if chooses else starts or ["."]


def _alternatives_of_find(words: Sequence[str]) -> Iterator[list[str]]:
    found = list[str]()
    for word in words:
        if word in ("-o", "-or", ","):
            yield found
            found = []
        else:
            found.append(word)
    yield found


def _chooses(words: Sequence[str]) -> bool:
    """Tell whether a test of `find` holds for some files only: neither `-not`, nor for `*`."""
    for before, word, value in zip(("", *words), words, (*words[1:], ""), strict=False):
        if _FIND_TEST.fullmatch(word) and before not in ("!", "-not") and value.strip("*./?"):
            return True
    return False


def _listed(reading: ShellReading) -> Iterator[str]:
    """Yield the directories whose names a command lists that others of the line may read."""
    commands = [(program_name(command.words[0]), command.words[1:]) for command in reading.commands]
    if any(name in _SELECTORS and not any(map(_INVERTS.fullmatch, w)) for name, w in commands):
        return
    for name, words in commands:
        operands = [word for word in words if not word.startswith("-")]
        first = operands[0] if operands else ""
        if name in ("ls", "dir", "exa", "eza", "tree"):
            yield from operands or ["."]
        elif name == "find":
            yield from _found(words)
        elif (name, first) in _LIST_DIRECTORIES:
            yield from operands[1:] or ["."]
        elif name in ("echo", "printf"):
            yield from (word for word in operands if _GLOB_TAIL.search(word))
        elif name == "pwd":
            yield "."


def _is_passed(operand: str, reading: ShellReading) -> bool:
    """Tell whether an operand is what other commands of the line give: `{}`, `$(…)`, `$1`."""
    if operand in ("", "{}", "$@", "$*"):
        return True
    variable = _VARIABLE.fullmatch(operand)
    if variable is None:
        return False
    name = variable[2]
    read = any(name in command.words for command in reading.commands if command.words[0] == "read")
    return read or name.isdecimal() or "" in reading.assigned.get(name, ())


def _reason(
    operand: str, what: str, reading: ShellReading, places: Sequence[Path], root: Path
) -> str:
    if _DEVICE.fullmatch(operand):
        return f"it {what} the device {operand}"
    for text in _values(operand, reading, root):
        if text is None:
            continue
        for place in places:
            named = _named(text, place, root)
            if named:
                return f"it {what} {named}: {operand}"
    return ""


def _values(operand: str, reading: ShellReading, root: Path) -> Iterator[str | None]:
    """Yield what an operand may be: variables with known values, unknown ones as nothing."""
    known = {"HOME": {home_directory()}, "PWD": {str(root)}, "OLDPWD": {str(root)}}
    if _is_passed(operand, reading):
        yield from _listed(reading)
    if operand == "{}":
        return
    texts = set(_alternatives(operand))
    for match in _VARIABLE.finditer(operand):
        values = reading.assigned.get(match[2]) or known.get(match[2]) or {""}
        texts = {text.replace(match[0], value) for text in texts for value in values}
        if len(texts) > 64:
            break
    # An operand that is a variable and nothing else is not known to be anything.
    yield from (text or None for text in texts)


def _alternatives(operand: str) -> list[str]:
    """Return what `{a,b}` stands for, where an operand holds one."""
    braces = _BRACES.fullmatch(operand)
    if braces is None:
        return [operand]
    return [braces[1] + word + braces[3] for word in braces[2].split(",")]


def _named(text: str, cwd: Path, root: Path) -> str:
    """Say which precious directory a text names, with a glob of everything in it too."""
    base = _GLOB_TAIL.sub("", text)
    if base != text:
        base = base or ("/" if text.startswith("/") else ".")
    if base == "~" or base.startswith("~/"):
        base = home_directory() + base[1:]
    elif base == "~+" or base.startswith("~+/"):
        base = str(cwd) + base[2:]
    elif base.startswith("~"):
        base = os.path.expanduser(base)  # noqa: PTH111 - Path raises for users that are not known
    try:
        real = Path(os.path.realpath(cwd / base))
    except (OSError, ValueError):
        return ""
    home = Path(os.path.realpath(home_directory() or "/"))
    if real == Path("/") or real.parent == Path("/"):
        # Nothing that stands directly below / is anybody's to throw away.
        return "/" if real == Path("/") else f"{real}, a directory of the system"
    for precious, name in (
        (home, "the home directory"), (root, "the whole project"),
        (root / ".git", "the repository with all its history"),
    ):  # fmt: skip
        if is_within(precious, real):
            same = real == precious or precious.samefile(real)
            return name if same else f"{real}, which holds {name}"
    return ""


def _entered(reading: ShellReading, cwd: Path) -> Iterator[Path]:
    """Yield the directories that the line changes to: later names count from there."""
    for command in reading.commands:
        if command.words[0] in ("cd", "pushd"):
            target = command.words[1] if len(command.words) > 1 else "~"
            for text in _values(target, reading, cwd):
                place = home_directory() if text in ("~", None) else text or ""
                place = place.replace("~/", f"{home_directory()}/", 1)
                yield Path(os.path.realpath(cwd / place))
