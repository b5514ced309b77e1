"""Turns the text of a path into the real one, and compares paths by what the file system says.

Two spellings of one file must never be two answers: links are resolved, and on a file system that
folds case or Unicode forms a name is given back as it is stored (R15).
"""

from __future__ import annotations

import errno
import os
import re
import unicodedata
from pathlib import Path

_PREFIXED = re.compile(r"\\\\|\\\?\?\\|//[?.]/")
"""`\\\\?\\`, `\\\\.\\`, UNC and `\\??\\`: forms that skip the checks of the Windows API."""

_DEVICE = re.compile(r"(?:con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[0-9¹²³])\s*(?:[.:].*)?")

_ESCAPED = re.compile(r"\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|U([0-9a-f]{8})|([nrt\\]))")
_LETTERS = {"n": "\n", "r": "\r", "t": "\t", "\\": "\\"}


TEMPORARY = ".opta-{}.tmp"
"""The name of a file while it is written; within the braces 16 hexadecimal digits."""

_IS_TEMPORARY = re.compile(r"\.opta-[0-9a-f]{16}\.tmp")


class PathProblem(ValueError):
    """A text that names no file opta would touch. The message goes to the model."""


def real_path(text: str, base: Path) -> Path:
    """Return the real absolute path that `text` names, relative to `base`; it need not exist.

    Links of the deepest existing part are resolved, `~` is expanded, and a name that was shown
    escaped (see `shown_name`) is understood. Raises PathProblem.
    """
    _check_text(text)
    path = absolute_path(text, base)
    if "\\" in text and not os.path.lexists(path):
        literal = absolute_path(_unescaped(text), base)
        path = literal if os.path.lexists(literal) else path
    resolved = os.path.realpath(path)
    try:
        os.lstat(resolved)
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise PathProblem("The path is longer than the system allows.") from None
    if os.name == "posix":
        # POSIX lets `//` stand for something of its own; here it must not be a second spelling.
        resolved = "/" + resolved.lstrip("/")
    return _as_stored(Path(resolved))


def absolute_path(text: str, base: Path) -> Path:
    """Return the absolute path of `text` with `~` expanded and no link resolved."""
    if not text.startswith("~"):
        # `./~` is a file of that name, which Path would forget.
        return base / text
    try:
        return base / Path(text).expanduser()
    except RuntimeError:
        # `~name` without such a user is a plain name.
        return base / text


def windows_problem(text: str) -> str:
    """Say what would make `text` something else than a plain file on Windows; empty if nothing."""
    for part in re.split(r"[\\/]", re.sub(r"^[A-Za-z]:", "", text)):
        if _DEVICE.fullmatch(part.casefold()):
            return f"{part} is a device name on Windows"
        if ":" in part:
            return f"{part} names an alternate data stream"
        if part.strip(".") and part != part.rstrip(". "):
            return f"{part!r} ends in a dot or blank, which Windows drops"
    return ""


def is_within(path: Path, directory: Path) -> bool:
    """True when `path` is `directory` or lies in it, by components and by identity.

    Asking the file system which directories are the same one covers case, Unicode forms and
    mounts without a table of rules. Both paths must be real ones.
    """
    if path == directory or directory in path.parents:
        return True
    try:
        wanted = directory.stat()
    except OSError:
        return False
    return any(_is(parent, wanted) for parent in (path, *path.parents))


def shown_name(path: str) -> str:
    """Return `path` as printable text: control characters and bytes that are no text escaped."""
    if path.isprintable():
        return path
    return "".join(_escaped(char) for char in path)


def _check_text(text: str) -> None:
    if not text:
        raise PathProblem("The path is empty. Give the path of a file.")
    if "\0" in text:
        raise PathProblem("The path contains a NUL byte, which no file name has.")
    try:
        os.fsencode(text)
    except UnicodeEncodeError as error:
        raise PathProblem("The path is no valid text: it has a lone surrogate.") from error
    if _PREFIXED.match(text):
        raise PathProblem(
            f"{shown_name(text)} is a Windows device or network path, which opta does not open. "
            "Give a plain path."
        )
    if os.name == "nt" and (problem := windows_problem(text)):
        raise PathProblem(f"{problem}. Give the path of a plain file.")


def _unescaped(text: str) -> str:
    def character(match: re.Match[str]) -> str:
        byte, short, long, letter = match.groups()
        if byte:
            code = int(byte, 16)
            return chr(code if code < 0x80 else 0xDC00 + code)
        if letter:
            return _LETTERS[letter]
        return chr(min(int(short or long, 16), 0x10FFFF)).replace("\0", "")

    unescaped = _ESCAPED.sub(character, text)
    try:
        os.fsencode(unescaped)
    except UnicodeEncodeError:
        return text
    return text if "\0" in unescaped else unescaped


def _escaped(char: str) -> str:
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    if char == "\\":
        return "\\\\"
    if char.isprintable():
        return char
    for letter, meaning in _LETTERS.items():
        if char == meaning:
            return f"\\{letter}"
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _is(path: Path, wanted: os.stat_result) -> bool:
    try:
        return os.path.samestat(path.stat(), wanted)
    except (OSError, ValueError):
        return False


def _as_stored(path: Path) -> Path:
    """Spell each existing component as its directory stores it."""
    stored = Path(path.anchor)
    for name in path.parts[1:]:
        stored /= _stored_name(stored, name) if _folds(stored, name) else name
    return stored


def _folds(directory: Path, name: str) -> bool:
    """True when another spelling of `name` is the same file."""
    spellings = {name.swapcase(), *(unicodedata.normalize(form, name) for form in ("NFC", "NFD"))}
    return any(_same_entry(directory / name, directory / other) for other in spellings - {name})


def _same_entry(one: Path, other: Path) -> bool:
    try:
        return os.path.samestat(os.lstat(other), os.lstat(one))
    except (OSError, ValueError):
        return False


def _stored_name(directory: Path, name: str) -> str:
    try:
        names = [entry.name for entry in directory.iterdir()]
    except OSError:
        return name
    wanted = folded_name(name)
    alike = [entry for entry in names if folded_name(entry) == wanted]
    return name if name in names or len(alike) != 1 else alike[0]


def folded_name(name: str) -> str:
    """Return `name` without what file systems may ignore: case, Unicode form, invisible marks."""
    visible = name.casefold()
    if not name.isascii():
        text = unicodedata.normalize("NFC", name).casefold()
        visible = "".join(char for char in text if unicodedata.category(char) != "Cf")
    return visible.rstrip(". ") or visible


def is_temporary(name: str) -> bool:
    """True for the name of a file that is being written, or was when opta was killed."""
    return _IS_TEMPORARY.fullmatch(name) is not None
