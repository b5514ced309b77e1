"""What the `opta tool` commands share: where they work, how they ask, how they fail."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TextIO

from tools.commands.tool.store import ToolFile, ToolStore
from tools.definition import Invocation, ToolCall, ToolDefinition, ToolResult
from tools.engine.output import json_text, visible
from tools.formats.problems import shown_path
from tools.record import record

if TYPE_CHECKING:
    from tools.engine.run import Observe
    from tools.events import Emit

DONE, FAILED, USAGE = 0, 1, 2


class CommandError(Exception):
    """A command could not be carried out. The message says what, where and what to do next."""

    exit_code = FAILED


class UsageError(CommandError):
    """The command line is wrong, so nothing was done."""

    exit_code = USAGE


class PersonExecutor(Protocol):
    """Runs calls that the person makes, through the gate."""

    async def run(self, call: ToolCall, emit: Emit) -> ToolResult:
        """Return the result of the call."""
        ...

    def prepare(self, call: ToolCall) -> Invocation:
        """Return what the call would do. Raises ToolError."""
        ...


@record
class Context:
    """Where a command works.

    `trusted` says that the tools of the project may be run, which looking at them does not need.
    `confirm` asks the person yes or no and returns None where nobody can be asked. `edit` lets
    the person change a text in the editor named, else in that of the environment. `export`
    writes a text where the person said and may raise OSError. `executor` makes what runs calls in
    the workspace, that tool winning over others of its name; the observer gets what its steps
    gave, and with True interactive tools talk to the person. `tokens` tells what a tool adds to a
    request. `edit` and `executor` may raise CommandError.
    """

    store: ToolStore
    out: TextIO
    err: TextIO
    stdin: TextIO
    trusted: bool
    confirm: Callable[[str], bool | None]
    edit: Callable[[str, str], str]
    export: Callable[[Path, str], None]
    executor: Callable[[ToolDefinition, Observe | None, bool], PersonExecutor]
    tokens: Callable[[ToolDefinition], int]

    def say(self, text: str) -> None:
        """Print the answer, without anything in it that a terminal would obey."""
        self.out.write(f"{visible(text)}\n")

    def note(self, text: str) -> None:
        """Print something beside the answer."""
        self.err.write(f"{visible(text)}\n")

    def write(self, text: str) -> None:
        """Print a document: byte for byte into a file or pipe, made visible on a terminal."""
        self.out.write(visible(text) if self.out.isatty() else text)

    def shown(self, path: Path) -> str:
        """Return a path as people read it: relative to the directory opta works in, else `~`."""
        root = self.store.root
        return str(path.relative_to(root)) if path.is_relative_to(root) else shown_path(path)


def usable(file: ToolFile) -> ToolDefinition:
    """Return the definition of a tool that can be run. Raises CommandError with its problems."""
    if file.definition is None:
        told = "\n".join(f"  {problem}" for problem in file.problems)
        raise CommandError(f"{file.name} cannot be used:\n{told}")
    return file.definition


def as_json(data: Any) -> str:
    """Return `data` for programs, with a newline at the end."""
    return json_text(data, indent=2) + "\n"
