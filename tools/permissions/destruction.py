"""Which commands would destroy the system, the home directory or the whole project (R14).

Asked in every mode, so it works on the words that the scanner of the deny rules finds, behind
every wrapper and in every nested text. Only words are known: what a script does stays unseen.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from tools.files.paths import is_within
from tools.permissions.shell_words import ShellReading, SimpleCommand, program_name, read_commands

_REMOVERS = frozenset(("rm", "rmdir", "unlink", "shred", "srm", "trash", "gio"))
_MOVERS = frozenset(("mv", "rename"))
_CHANGERS = frozenset(("chmod", "chown", "chgrp", "chattr", "setfacl"))
_FORMATTERS = re.compile(
    r"mkfs(\..+)?|mke2fs|wipefs|mkswap|fdisk|sfdisk|sgdisk|parted|blkdiscard|diskutil|cryptsetup"
)
_DEVICE = re.compile(r"/dev/(sd|hd|vd|xvd|nvme|mmcblk|disk|rdisk|mapper/|md|loop|mem|kmem|port)\S*")
_RECURSIVE = re.compile(r"-[A-Za-z]*[rR][A-Za-z]*|--r(e(c(u(r(s(i(ve?)?)?)?)?)?)?)?")
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
    for command in reading.commands:
        for operand, what in _endangered(command):
            reason = _reason(operand, what, reading, places, root)
            if reason:
                return reason
    return ""


def _endangered(command: SimpleCommand) -> Iterator[tuple[str, str]]:
    """Yield the operands of a command that are destroyed, and how; "" stands for all there is."""
    name, words = program_name(command.words[0]), command.words[1:]
    operands = [word for word in words if not word.startswith("-")]
    recursive = any(_RECURSIVE.fullmatch(word) for word in words)
    if name in _REMOVERS:
        yield from ((operand, "removes") for operand in operands)
    elif name in _MOVERS:
        yield from ((operand, "moves") for operand in operands[: len(operands) - 1 or 1])
    elif name in _CHANGERS and recursive:
        yield from ((operand, "changes the rights of") for operand in operands[1:])
    elif name == "find":
        yield from _found(words)
    elif name == "git":
        yield from _git(words)
    elif name == "rsync" and any(word.startswith(("--del", "--remove-s")) for word in words):
        yield from ((operand, "may empty") for operand in operands[-1:])
    elif name == "dd":
        yield from ((w[3:], "writes over") for w in words if w.startswith("of=/dev/"))
    elif _FORMATTERS.fullmatch(name):
        yield "/", "formats a disk:"


def home_directory() -> str:
    """Return what `~` is for the shell."""
    return os.environ.get("HOME", "")


def _found(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the starting points of a `find` that removes all it finds."""
    acts = "-delete" in words or any(program_name(word) in _REMOVERS for word in words)
    narrowed = any(word.startswith(("-name", "-iname", "-path", "-mtime")) for word in words)
    if acts and not narrowed:
        starts = []
        for word in words:
            if word.startswith(("-", "(", "!")):
                break
            starts.append(word)
        yield from ((start, "removes") for start in starts or ["."])


def _git(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    place, operands, flags = ".", list[str](), list[str]()
    rest = iter(words)
    for word in rest:
        if word in ("-C", "--work-tree") and not operands:
            place = next(rest, ".")
        elif word in ("-c", "--git-dir", "--namespace", "--config-env") and not operands:
            next(rest, "")
        else:
            (flags if word.startswith("-") else operands).append(word)
    forced = any(flag == "--force" or re.fullmatch(r"-\w*f\w*", flag) for flag in flags)
    dry = any(flag == "--dry-run" or re.fullmatch(r"-\w*n\w*", flag) for flag in flags)
    if operands[:1] == ["clean"] and forced and not dry:
        named = (os.path.join(place, path) for path in operands[1:])  # noqa: PTH118 - `*` stays
        yield from ((path, "removes untracked files of") for path in named)
        if len(operands) == 1:
            yield place, "removes untracked files of"


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
    texts = set(_alternatives(operand))
    if not operand and any(command.words[0] == "pwd" for command in reading.commands):
        # A substitution leaves nothing of itself: `"$(pwd)"`.
        texts = {"."}
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
    for precious, name in ((home, "the home directory"), (root, "the whole project")):
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
