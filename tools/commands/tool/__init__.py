"""`opta tool …`: a person's own tools, made, looked at, changed, checked and run by hand."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tools.commands.tool.kit import Context
    from tools.commands.tool.options import Parsed


class _Command(NamedTuple):
    """Where a command is: `function` and `options` in `module`; how many words it takes."""

    module: str
    function: str
    options: str
    words: tuple[str, ...] = ("NAME",)
    optional: bool = False


COMMANDS = {
    "list": _Command("showing", "list_tools", "LIST_OPTIONS", ()),
    "get": _Command("showing", "get", "GET_OPTIONS"),
    "add": _Command("adding", "add", "ADD_OPTIONS", optional=True),
    "remove": _Command("adding", "remove", "REMOVE_OPTIONS"),
    "test": _Command("testing", "test", "OPTIONS"),
    "validate": _Command("checking", "validate", "OPTIONS", optional=True),
    "edit": _Command("adding", "edit", "EDIT_OPTIONS"),
    "export": _Command("exchange", "export", "EXPORT_OPTIONS"),
    "import": _Command("exchange", "import_", "IMPORT_OPTIONS", ("FILE",)),
    "schema": _Command("showing", "schema", "COMMON_OPTIONS", ()),
    "run": _Command("running", "run", "OPTIONS"),
}


def run(name: str, words: Sequence[str], make_context: Callable[[Parsed], Context]) -> int:
    """Carry out the command `name` with its words; return the exit code.

    Raises CommandError: of class UsageError where the words are wrong.
    """
    from tools.commands.tool.document import UnwritableError
    from tools.commands.tool.kit import CommandError, UsageError
    from tools.commands.tool.options import OptionError, parse
    from tools.commands.tool.store import StoreError

    command = COMMANDS[name]
    module = importlib.import_module(f"tools.commands.tool.{command.module}")
    try:
        parsed = parse(words, getattr(module, command.options))
        _check_words(name, command, parsed.words)
        return int(getattr(module, command.function)(parsed, make_context(parsed)))
    except OptionError as error:
        raise UsageError(f"{error}. See `opta help tool {name}`.") from None
    except (StoreError, UnwritableError) as error:
        raise CommandError(str(error)) from error


def _check_words(name: str, command: _Command, words: Sequence[str]) -> None:
    from tools.commands.tool.options import OptionError

    if len(words) > len(command.words):
        expected = f"one {command.words[0]}" if command.words else "no word"
        raise OptionError(f"{name} takes {expected}, and {words[len(command.words)]!r} is too much")
    if len(words) < len(command.words) and not command.optional:
        raise OptionError(f"{name} needs {command.words[0]}")
