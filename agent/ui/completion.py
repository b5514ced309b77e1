"""Completes slash commands, the words that follow them, and `@file` references."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import islice

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from agent.ui.file_index import FileIndex

SHOWN = 50
"""How many files are offered at once."""

_COMMAND = re.compile(r"/[\w-]*")
_ARGUMENTS = re.compile(r"/([\w-]+)((?: +\S+)*) +(\S*)")
_REFERENCE = re.compile(r"(?:^|\s)@(\"[^\"\n]*|[^\s\"]\S*|)$")
"""What stands before the cursor where a file is named: a word, or what follows a quote."""


class InputCompleter(Completer):
    """Offers `/command` at the start of the input and `@path` at the start of any word.

    `following` is given a command's name and the words after it; it returns what may come next.
    `references` returns what an `@` may name beside files, and is offered to who has begun to type.
    """

    def __init__(
        self,
        commands: Callable[[], Sequence[tuple[str, str]]],
        following: Callable[[str, Sequence[str]], Sequence[tuple[str, str]]],
        files: FileIndex,
        references: Callable[[], Sequence[tuple[str, str]]] = tuple,
    ) -> None:
        self._commands = commands
        self._following = following
        self._files = files
        self._references = references

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterable[Completion]:
        """Yield what fits before the cursor, best first."""
        before = document.text_before_cursor
        if _COMMAND.fullmatch(before):
            offered = [(f"/{name}", help_text) for name, help_text in self._commands()]
            yield from _beginning_with(before, offered)
        elif reference := _REFERENCE.search(before):
            written = reference[1]
            if written:
                yield from islice(_beginning_with(written, self._references()), SHOWN)
            for path in best(written.removeprefix('"'), self._files.paths())[:SHOWN]:
                yield Completion(_as_written(path), -len(written))
        elif arguments := _ARGUMENTS.fullmatch(before):
            name, words, typed = arguments.groups()
            yield from _beginning_with(typed, self._following(name, words.split()))


def _beginning_with(typed: str, words: Iterable[tuple[str, str]]) -> Iterable[Completion]:
    for word, help_text in words:
        if word.startswith(typed):
            yield Completion(word, -len(typed), display_meta=help_text)


def may_complete(before: str) -> bool:
    """Tell whether there may be something to offer after this text."""
    return before.startswith("/") or _REFERENCE.search(before) is not None


def _as_written(path: str) -> str:
    """Return a path as a message names it; the quote of a directory stays open for its files."""
    if not any(character.isspace() for character in path):
        return path
    return f'"{path}' if path.endswith("/") else f'"{path}"'


def best(typed: str, paths: Sequence[str]) -> list[str]:
    """Return the paths that contain the characters of `typed` in order, best first."""
    if not typed:
        return sorted(paths, key=lambda path: (path.count("/"), path))
    gaps = ".*?".join(re.escape(character) for character in typed)
    pattern = re.compile(gaps, re.IGNORECASE)
    found = [(path, match) for path in paths if (match := pattern.search(path))]
    folded = typed.lower()
    return [path for path, _ in sorted(found, key=lambda item: _rank(folded, *item))]


def _rank(typed: str, path: str, match: re.Match[str]) -> tuple[int, int, int, str]:
    """Order: in the file's name, in the path, scattered; then dense before long matches."""
    name = path.rstrip("/").rpartition("/")[2].lower()
    if name.startswith(typed):
        group = 0
    elif typed in name:
        group = 1
    else:
        group = 2 if typed in path.lower() else 3
    return group, match.end() - match.start(), len(path), path
