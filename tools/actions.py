"""What a tool does when it is called: built-in code, a plan of steps, another tool, a server."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import field
from typing import Any, TypeAlias

from tools.record import record


@record
class Shell:
    """Text for a shell.

    `kind` names the shell (`sh`, `bash`, `cmd`, `pwsh`, or the program of a `script`). With
    `placeholders` False the text is run as written and arguments reach it as environment
    variables only (X4); with True it is a template whose `{NAME}` places take values.
    """

    kind: str
    text: str
    placeholders: bool = False


@record
class Argv:
    """A program and its arguments, started without a shell; each word is a template (X99)."""

    words: tuple[str, ...]
    placeholders: bool = True


@record
class UseTool:
    """Runs another tool. `arguments` maps its parameters to values; texts are templates (C143)."""

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


@record
class PlatformCommands:
    """One command per operating system (`windows`, `linux`, `macos`), and one for all others."""

    default: Shell | None = None
    platforms: Mapping[str, Shell] = field(default_factory=dict)


Command: TypeAlias = Shell | Argv | UseTool | PlatformCommands


@record
class Retry:
    """Further tries after a failure: `attempts` besides the first run, the first after `delay_ms`.

    The delay doubles each time unless `fixed` (X48, X49).
    """

    attempts: int = 0
    delay_ms: int = 0
    fixed: bool = False


@record
class OutputOptions:
    """What becomes of a step's output.

    `limit_bytes` bounds what is kept of each stream; `truncate` False makes more than that an
    error (X123). `stream` shows lines while they come, in `callback` (console, file, function;
    X124). `masked` are templates whose values never show (X105).
    """

    stream: bool = False
    callback: str = "console"
    limit_bytes: int = 10 * 1024 * 1024
    truncate: bool = True
    masked: tuple[str, ...] = ()


@record
class Step:
    """One command of a plan.

    `wait_for` names steps, None where nothing was said (X42). `condition` is an expression, run
    only when it is true. `fallback` runs with the same shell when all tries failed (X50).
    """

    name: str
    command: Command
    timeout_ms: int | None = None
    condition: str = ""
    wait_for: tuple[str, ...] | None = None
    parallel: bool = False
    continue_on_error: bool = False
    retry: Retry = Retry()
    fallback: str = ""
    output: OutputOptions = OutputOptions()


@record
class Parameter:
    """What a declared parameter means beyond its JSON Schema.

    `default` is a value, and where it is text a template over other parameters (X104); `UNSET`
    where there is none. `escape_shell`: None words, True one word, False raw text (X85).
    `delimiter` joins arrays (X97). `path` asks for separators to be converted (X117).
    """

    name: str
    type: str = "string"
    default: Any = None
    has_default: bool = False
    transform: str = ""
    format: str = ""
    escape_shell: bool | None = None
    delimiter: str | None = None
    path: bool = False
    deprecated: str = ""
    detailed_help: str = ""
    examples: tuple[Any, ...] = ()


@record
class PlanEnvironment:
    """Where and with what a plan's processes run.

    `variables` are templates; `inherit` False leaves a minimal environment (X126). `secrets` are
    names of variables whose values never show (X105). Directories are templates; empty means the
    workspace. `arguments_as_variables` hands arguments over in both families of variables (X4).
    With `placeholders` False variables and directories are taken as written; `confined` asks that
    the working directory lies in the workspace (B11).
    """

    variables: Mapping[str, str] = field(default_factory=dict)
    inherit: bool = True
    secrets: tuple[str, ...] = ()
    working_directory: str = ""
    temp_directory: str = ""
    normalize_paths: bool = False
    arguments_as_variables: bool = True
    placeholders: bool = True
    confined: bool = False


@record
class Interaction:
    """What a plan's processes read: `input` is a template for stdin, empty means none (X125)."""

    input: str = ""
    interactive: bool = False
    answer_after_ms: int | None = None
    default_response: str | None = None


@record
class BuiltinAction:
    """Runs code of opta's own, found by `name`."""

    name: str


@record
class PlanAction:
    """Runs steps. A tool of a single command is a plan of one step.

    `cleanup` are commands that run at the end, whatever happened (C389); `delete_temp` removes
    the call's temporary directory. `ignore_errors` makes a failing plan succeed (X47).
    """

    steps: tuple[Step, ...]
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    environment: PlanEnvironment = PlanEnvironment()
    interaction: Interaction = Interaction()
    cleanup: tuple[Shell, ...] = ()
    delete_temp: bool = False
    ignore_errors: bool = False


@record
class AliasAction:
    """Is another tool with other defaults (X128). `defaults`: texts are templates."""

    base: str
    defaults: Mapping[str, Any] = field(default_factory=dict)


@record
class McpAction:
    """Calls a tool of an MCP server; `tool` is the name the server gave it."""

    server: str
    tool: str


@record
class CodeAction:
    """Runs a program of the tool's own behind walls (E34).

    `runtime` is typescript, node or python. `first_line` is the line of the file in which the code
    begins, None where its lines are not lines of the file. `allowlist` are globs of the commands
    that it may ask for; None names none, and leaves them to the permissions (E35).
    """

    runtime: str
    code: str
    first_line: int | None = None
    allowlist: tuple[str, ...] | None = None


Action: TypeAlias = BuiltinAction | PlanAction | AliasAction | McpAction | CodeAction


def shells_of(command: Command) -> tuple[Shell, ...]:
    """Return the scripts of a command, those for other platforms too."""
    match command:
        case Shell():
            return (command,)
        case PlatformCommands(default, platforms):
            return tuple(shell for shell in (default, *platforms.values()) if shell is not None)
        case _:
            return ()


def command_text(command: Command) -> str:
    """Return a command as its author wrote it, for people to read."""
    match command:
        case Shell(text=text):
            return text
        case Argv(words):
            return shlex.join(words)
        case UseTool(name, arguments):
            return f"{name} {json.dumps(dict(arguments), ensure_ascii=False)}"
        case PlatformCommands(default, platforms):
            texts = [f"{name}: {shell.text}" for name, shell in platforms.items()]
            return "\n".join([*([default.text] if default else []), *texts])
