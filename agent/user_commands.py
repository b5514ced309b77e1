"""Slash commands of the person's own: `~/.config/opta/commands/NAME.md`, a message sent by name."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from agent.errors import UserError
from tools import storage
from tools.record import record
from tools.yamltext import DocumentError, decode, parse

MAX_BYTES = 65_536
_FILE = re.compile(r"([a-z][a-z0-9_-]*)\.md")
_HEADER = re.compile(r"---\r?\n(.*?\n)---\r?\n", re.DOTALL)
_PLACE = re.compile(r"\$(ARGUMENTS\b|[1-9](?!\d))")


@record
class UserCommand:
    """One file. `help` says what it is for: the header's `description`, or the first line."""

    name: str
    help: str
    text: str

    def message(self, arguments: str) -> str:
        """Return what is sent: `$ARGUMENTS` is all that was typed behind the name, `$1` a word.

        Where the text has no place for them, they go below it.
        """
        if not _PLACE.search(self.text):
            return "\n\n".join(filter(None, [self.text, arguments]))
        words = _words(arguments)
        filled = {"ARGUMENTS": arguments} | {str(n): word for n, word in enumerate(words, 1)}
        return _PLACE.sub(lambda place: filled.get(place[1], ""), self.text)


def listed() -> list[tuple[str, str]]:
    """Return name and help of each command there is, in order; a broken file says what is wrong."""
    found = []
    for name, path in _files():
        try:
            found.append((name, _read(name, path).help))
        except UserError as error:
            found.append((name, str(error)))
    return found


def find(name: str) -> UserCommand | None:
    """Return the command of this name. Raises UserError where its file cannot be used."""
    path = dict(_files()).get(name)
    return _read(name, path) if path is not None else None


def _files() -> Iterator[tuple[str, Path]]:
    try:
        paths = sorted((storage.config_dir() / "commands").iterdir())
    except (OSError, storage.StorageError):
        return
    for path in paths:
        if named := _FILE.fullmatch(path.name):
            yield named[1], path


def _read(name: str, path: Path) -> UserCommand:
    try:
        text = decode(storage.read_regular(path, MAX_BYTES), path).replace("\r\n", "\n")
        header = _HEADER.match(text)
        # The line before it counts, so that the places of mistakes are those in the file.
        keys = parse(f"\n{header[1]}", path).data if header else None
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}") from None
    except DocumentError as error:
        raise UserError(str(error)) from None
    body = text[header.end() :].strip() if header else text.strip()
    if not body:
        raise UserError(f"{path} is empty. Write into it what /{name} is to send.")
    described = keys.get("description") if isinstance(keys, dict) else None
    first = body.partition("\n")[0].lstrip("# ")
    return UserCommand(name, described if isinstance(described, str) else first, body)


def _words(arguments: str) -> list[str]:
    try:
        return shlex.split(arguments)
    except ValueError:
        return arguments.split()
