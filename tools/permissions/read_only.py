"""Which commands only read, and which files (the list that needs no rule).

A command is known only whole: the program, each option, each operand. The answer for everything
else is why not, in words that follow "it".
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from tools.permissions.git_options import PLAIN, SEPARATE_VALUE, is_plain_option, starts_program
from tools.permissions.read_only_options import (
    ALWAYS,
    FD,
    FIND_ALONE,
    FIND_FILES,
    FIND_TEXT,
    GIT,
    JQ_ALONE,
    PROGRAMS,
    Operands,
    Program,
)
from tools.permissions.shell_expansion import Fields

_SAFE_ENDINGS = frozenset(
    """
    adoc asm astro bash bat bazel bzl c cc cfg clj cljs cmake cmd cpp cs csproj css csv cts cu cxx d
    dart diff ex elm erl exs fs fsx gemspec go gradle graphql groovy h hcl hh hpp hrl hs htm html
    hxx ini ipynb java jl js json json5 jsonc jsx kt kts less lock log lua m md mdx mjs mk ml mli mm
    mod mts nim nix patch php pl pm po pot proto ps1 py pyi pyx r rake rb rs rst s sass scala scm
    scss sh sln sol sql sum svelte svg swift tex tf toml ts tsv tsx txt v vb vue xml yaml yml zig
    zsh
    """.split()  # noqa: SIM905 - a list of this length is read best as words
)
"""Endings of file names that hold code or text, no secrets: `*.local` would find `.env.local`."""
_SAFE_BRACES = re.compile(r"(\*\.)\{([A-Za-z0-9,]+)\}")
_JQ_REACHES_OUT = re.compile(r"\b(?:import|include|env|ENV|modulemeta|get_search_list)\b|\$__")
_AWK_PRINT = re.compile(r"\s*\{\s*print(?:\s+\$\d+(?:\s*,?\s*\$\d+)*)?\s*\}\s*")
_PRINTF_PLAIN = re.compile(r"%(?:%|[-+ #0]*[\d*]*(?:\.[\d*]*)?[bcdeEfgGiosuxX])", re.ASCII)
_LOWER_NAME = re.compile(r"[a-z_][a-z0-9_]*", re.ASCII)
_TEST_UNARY = frozenset(("-f", "-d", "-e", "-r", "-w", "-x", "-s", "-L", "-h", "-n", "-z", "!"))
_TEST_BINARY = frozenset(
    ("=", "!=", "==", "-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-nt", "-ot", "-ef")
)
_SET_OPTIONS = frozenset(("-e", "-u", "-x", "-eu", "-ex", "-eux", "-euo", "-euxo", "-o", "+e"))


class NotReadOnly(Exception):
    """The command may do more than read. The message says why, to follow "it".

    `unlisted`: because nothing is known of its program.
    """

    def __init__(self, why: str, *, unlisted: bool = False) -> None:
        super().__init__(why)
        self.unlisted = unlisted


@dataclass(slots=True)
class Reading:
    """What a command reads: names of files, and directories of which it reads all files.

    `helpers` name the programs whose own settings must be kept from running anything, `objects`
    what git may take for the name of an object of its own.
    """

    files: list[str] = field(default_factory=list)
    trees: list[str] = field(default_factory=list)
    helpers: set[str] = field(default_factory=set)
    objects: list[str] = field(default_factory=list)


def reads_only(fields: Fields) -> Reading:
    """Return what a command reads. Raises NotReadOnly."""
    name, *rest = fields
    if name is None:
        raise NotReadOnly("does not name its program plainly")
    known = PROGRAMS.get(name)
    if known is not None and known.any_words:
        return Reading()
    special = _SPECIAL.get(name)
    if known is None and special is None:
        raise NotReadOnly("is not a command that is known to only read", unlisted=True)
    if name == "printf":
        return _printf(rest)
    words = [word for word in rest if word is not None]
    if len(words) != len(rest):
        raise NotReadOnly("has an argument that only running would tell")
    if special is not None:
        return special(words)
    assert known is not None
    reading = _plain(known, words)
    if name == "rg":
        reading.helpers.add("rg")
        reading.trees += reading.files or ["."]
    return reading


@dataclass(slots=True)
class _Parsed:
    """Words taken apart: options with their values, and operands.

    `late` is the first option behind an operand.
    """

    options: list[tuple[str, str]] = field(default_factory=list)
    operands: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    late: str = ""

    def has(self, names: frozenset[str]) -> bool:
        return any(name in names for name, _ in self.options)


def _plain(known: Program, words: Sequence[str]) -> Reading:
    parsed = _parse(known, words)
    for option, value in parsed.options:
        if option in ("-g", "--glob", "--iglob") and not _names_no_secret(value):
            raise NotReadOnly(f"has {option} {value}, which may name files that hold secrets")
    reading = Reading(files=parsed.files)
    operands = parsed.operands
    match known.operands:
        case Operands.NONE if operands:
            raise NotReadOnly(f"has {operands[0]}, which may be a setting")
        case Operands.FORMAT if any(not word.startswith("+") for word in operands):
            raise NotReadOnly(f"has {operands[0]}, which may be a setting")
        case Operands.ONE_FILE if len(operands) > 1:
            raise NotReadOnly(f"writes to {operands[1]}")
        case Operands.ONE_FILE if parsed.late:
            # Where options end at the first operand this is the file to write.
            raise NotReadOnly(f"may write to {parsed.late}")
        case Operands.PATTERN if not parsed.has(known.pattern_options):
            operands = operands[1:]
        case _:
            pass
    if known.operands not in (Operands.TEXT, Operands.NONE, Operands.FORMAT):
        reading.files += operands
    if ALWAYS in known.recursive:
        reading.trees += operands
    if parsed.has(known.recursive):
        included = [v for o, v in parsed.options if o == "--include"]
        if not included or not all(map(_names_no_secret, included)):
            reading.trees += operands or ["."]
    return reading


def _parse(known: Program, words: Sequence[str]) -> _Parsed:
    parsed = _Parsed()
    rest = iter(words)
    for word in rest:
        if word == "--":
            parsed.operands += rest
            return parsed
        if word.startswith("-") and len(word) > 1 and parsed.operands:
            parsed.late = parsed.late or word
        if word.startswith("--"):
            _long(known, word, rest, parsed)
        elif word.startswith("-") and len(word) > 1:
            _short(known, word, rest, parsed)
        else:
            parsed.operands.append(word)
    return parsed


def _long(known: Program, word: str, rest: Iterator[str], parsed: _Parsed) -> None:
    name, equals, value = word.partition("=")
    if name in known.text or name in known.files:
        if not equals:
            value = _value(name, rest, parsed)
        if name in known.files:
            parsed.files.append(value)
    elif name not in known.optional and (equals or name not in known.alone):
        raise NotReadOnly(f"has {name}, which is not known to only read")
    parsed.options.append((name, value))


def _short(known: Program, word: str, rest: Iterator[str], parsed: _Parsed) -> None:
    if "-#" in known.text | known.alone and word[1:].isdecimal() and word.isascii():
        parsed.options.append(("-#", word[1:]))
        return
    for place, letter in enumerate(word[1:], 2):
        name = f"-{letter}"
        if name in known.alone and name != "-#":
            parsed.options.append((name, ""))
            continue
        if name in known.optional:
            parsed.options.append((name, word[place:]))
            return
        if name not in known.text and name not in known.files:
            raise NotReadOnly(f"has {name}, which is not known to only read")
        attached = word[place:]
        if (place > 2 and not known.bundles) or (
            attached and not known.attaches and not attached.isdecimal()
        ):
            raise NotReadOnly(f"has {word}, which may be read in several ways")
        value = word[place:] or _value(name, rest, parsed)
        parsed.options.append((name, value))
        if name in known.files:
            parsed.files.append(value)
        return


def _value(name: str, rest: Iterator[str], parsed: _Parsed) -> str:
    value = next(rest, None)
    if value is None:
        raise NotReadOnly(f"has {name} without its value")
    if parsed.operands:
        # Some systems take every word behind the first operand for one more.
        parsed.files.append(value)
    return value


def _names_no_secret(pattern: str) -> bool:
    """Tell whether a glob of file names surely matches no file that holds secrets."""
    if pattern.startswith("!"):
        return True
    last = pattern.rsplit("/", 1)[-1]
    braces = _SAFE_BRACES.fullmatch(last)
    endings = [braces[1] + ending for ending in braces[2].split(",")] if braces else [last]
    return all(ending[:2] == "*." and ending[2:].lower() in _SAFE_ENDINGS for ending in endings)


def _printf(rest: Sequence[str | None]) -> Reading:
    if not rest or rest[0] is None or rest[0].startswith("-"):
        raise NotReadOnly("has no plain format")
    if "%" in _PRINTF_PLAIN.sub("", rest[0]):
        # `%n` sets the variable that its argument names: PATH, IFS, …
        raise NotReadOnly("has a format that may set a variable")
    return Reading()


def _strings(words: Sequence[str]) -> Reading:
    if any(word.startswith("@") for word in words):
        raise NotReadOnly("takes its words from a file")
    return _plain(PROGRAMS["strings"], words)


def _find(words: Sequence[str]) -> Reading:
    reading = Reading()
    rest = iter(words)
    expression = False
    for word in rest:
        if word in FIND_TEXT or word in FIND_FILES:
            expression = True
            value = next(rest, "")
            if word in FIND_FILES:
                reading.files.append(value)
        elif word in FIND_ALONE:
            expression = True
        elif word.startswith("-") or expression:
            raise NotReadOnly(f"has {word}, which is not known to only read")
        else:
            reading.files.append(word)
    return reading


def _sed(words: Sequence[str]) -> Reading:
    from tools.permissions.sed_script import only_prints

    scripts: list[str] = []
    operands: list[str] = []
    rest = iter(words)
    for word in rest:
        if word == "-e":
            scripts.append(next(rest, ""))
        elif word == "--":
            operands += rest
        elif word.startswith("-") and word not in ("-n", "-E", "-r", "-nE", "-En", "-nr", "-rn"):
            raise NotReadOnly(f"has {word}, which is not known to only read")
        elif not word.startswith("-"):
            operands.append(word)
    if not scripts:
        scripts, operands = operands[:1], operands[1:]
    if not scripts or not all(map(only_prints, scripts)):
        raise NotReadOnly("has a script that may do more than print")
    return Reading(files=operands)


def _awk(words: Sequence[str]) -> Reading:
    rest = list(words)
    if rest and rest[0].startswith("-F"):
        rest = rest[1:] if len(rest[0]) > 2 else rest[2:]
    if not rest or not _AWK_PRINT.fullmatch(rest[0]):
        raise NotReadOnly("has a script that may do more than print columns")
    if any(word.startswith("-") or "=" in word for word in rest[1:]):
        raise NotReadOnly("has more options than are known to only read")
    return Reading(files=rest[1:])


def _jq(words: Sequence[str]) -> Reading:
    operands: list[str] = []
    rest = iter(words)
    for word in rest:
        if word in ("--arg", "--argjson"):
            next(rest, ""), next(rest, "")
        elif word == "--indent":
            next(rest, "")
        elif word.startswith("--"):
            if word not in JQ_ALONE:
                raise NotReadOnly(f"has {word}, which is not known to only read")
        elif word.startswith("-") and len(word) > 1:
            if not set(word[1:]) <= JQ_ALONE:
                raise NotReadOnly(f"has {word}, which is not known to only read")
        else:
            operands.append(word)
    if not operands or _JQ_REACHES_OUT.search(operands[0]):
        raise NotReadOnly("has a filter that may read more than its files")
    return Reading(files=operands[1:])


def _fd(words: Sequence[str]) -> Reading:
    return Reading(files=_plain(FD, words).files)


def _test(words: Sequence[str]) -> Reading:
    if words[:1] == ["!"]:
        words = words[1:]
    unary = len(words) == 2 and words[0] in _TEST_UNARY
    binary = len(words) == 3 and words[1] in _TEST_BINARY
    if len(words) > 1 and not unary and not binary:
        raise NotReadOnly("has a test that is not known")
    return Reading()


def _read(words: Sequence[str]) -> Reading:
    names = [word for word in words if word != "-r"]
    if not names or not all(map(_LOWER_NAME.fullmatch, names)) or os.environ.keys() & set(names):
        raise NotReadOnly("reads into more than plain variables")
    return Reading()


def _command(words: Sequence[str]) -> Reading:
    if len(words) < 2 or words[0] not in ("-v", "-V") or words[1].startswith("-"):
        raise NotReadOnly("runs another program")
    return Reading()


def _set(words: Sequence[str]) -> Reading:
    if not words or any(word not in _SET_OPTIONS and word != "pipefail" for word in words):
        raise NotReadOnly("changes how the shell works")
    return Reading()


def _git(words: Sequence[str]) -> Reading:
    rest = list(words)
    while rest and rest[0] in ("--no-pager", "-P"):
        del rest[0]
    operation, *rest = rest or [""]
    if operation == "--version":
        operation = "version"
    if operation in PLAIN:
        operands = _git_shown(operation, rest)
    elif operation in GIT:
        operands = _plain(GIT[operation], rest).files
    elif operation in _GIT_LISTING and _GIT_LISTING[operation](rest):
        operands = []
    else:
        raise NotReadOnly(f"is git {operation}, which is not known to only read")
    # In `HEAD:path` and `:(top)path` the file stands behind the colon.
    files = [part for word in operands for part in (word, *word.split(":")[1:]) if part]
    shows = operation in ("diff", "log", "show", "grep", "blame", "cat-file")
    return Reading(
        files, trees=["."] if shows else [], helpers={"git"}, objects=operands if shows else []
    )


def _git_shown(operation: str, words: Sequence[str]) -> list[str]:
    operands: list[str] = []
    rest = iter(words)
    for word in rest:
        if word == "--":
            operands += rest
        elif word in SEPARATE_VALUE and operation in ("log", "show", "diff"):
            if starts_program(next(rest, "")):
                raise NotReadOnly("checks signatures, for which git starts a program")
        elif word.startswith("-"):
            if not is_plain_option(operation, word):
                raise NotReadOnly(f"has {word}, which is not known to only read")
        elif operation == "branch" and "--list" not in words:
            raise NotReadOnly(f"makes a branch {word}")
        else:
            operands.append(word)
    return operands


def _lists_tags(words: list[str]) -> bool:
    listing = [w for w in words if w in ("-l", "--list", "-n") or w.startswith("--sort=")]
    named = [word for word in words if word not in listing]
    asked = any(word in ("-l", "--list") for word in listing)
    return not named or (asked and all(not word.startswith("-") for word in named))


def _gets_setting(words: list[str]) -> bool:
    rest = [
        word for word in words if word not in ("--local", "--global", "--system", "--type=bool")
    ]
    return (
        len(rest) == 2 and rest[0] in ("--get", "--get-all", "get") and not rest[1].startswith("-")
    )


_GIT_LISTING: dict[str, Callable[[list[str]], bool]] = {
    "config": _gets_setting,
    "reflog": lambda words: words in ([], ["show"]),
    "remote": lambda words: (
        words in ([], ["-v"]) or (len(words) == 2 and words[0] == "get-url" and words[1][0] != "-")
    ),
    "stash": lambda words: words == ["list"],
    "tag": _lists_tags,
    "worktree": lambda words: words in (["list"], ["list", "--porcelain"]),
}
_SPECIAL: dict[str, Callable[[Sequence[str]], Reading]] = {
    "[": _test,
    "awk": _awk,
    "cd": lambda words: Reading(),
    "command": _command,
    "fd": _fd,
    "fdfind": _fd,
    "find": _find,
    "git": _git,
    "jq": _jq,
    "printf": _printf,
    "read": _read,
    "sed": _sed,
    "set": _set,
    "strings": _strings,
    "test": _test,
}
