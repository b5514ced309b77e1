"""`bash_execution`: the documented command tool with a list of arguments; off by default (X14)."""

from __future__ import annotations

import shlex

import prompts
from tools.builtin.kit import Builtin, Services, define
from tools.builtin.running import Command, running, shell_argv
from tools.definition import Invocation, ResolvedCall, Risk, ToolError

DEFAULT_TIMEOUT_MS = 30_000
MAX_TIMEOUT_MS = 600_000


def tool() -> Builtin:
    """Return the built-in."""
    definition = define(
        "bash_execution",
        prompts.load("tools/bash_execution"),
        {
            "command": {"type": "string", "description": "Command to execute"},
            "args": {
                "type": "array",
                "items": {"type": "string"},
                "description": "Command arguments",
            },
            "timeout": {
                "type": "number",
                "default": DEFAULT_TIMEOUT_MS,
                "description": "Timeout in ms",
            },
        },
        ["command"],
        risk=Risk.HIGH,
        enabled=False,
        declared_token_cost=350,
        metadata={"tags": ["run"]},
    )
    return Builtin(definition, prepare, {"cmd": "command"})


def prepare(call: ResolvedCall, services: Services) -> Invocation:
    """Show the command: shell text alone, or a program with its arguments and no shell.

    Raises ToolError for an empty command or a bad timeout.
    """
    command, args = call.arguments["command"], call.arguments.get("args", [])
    timeout = call.arguments.get("timeout", DEFAULT_TIMEOUT_MS)
    if not command.strip():
        raise ToolError("The command is empty. Nothing was run.")
    if not 0 < timeout <= MAX_TIMEOUT_MS:
        raise ToolError(
            f"timeout is {timeout:g}: it is in ms, more than 0 and at most {MAX_TIMEOUT_MS}. "
            "Nothing was run."
        )
    argv = (command, *args) if args else (*shell_argv(services), command)
    line = shlex.join(argv) if args else command
    cwd = services.workspace.root
    return running(call, services, Command(line, argv, cwd, round(timeout), merged=False))
