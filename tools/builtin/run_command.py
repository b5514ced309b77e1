"""`run_command`: runs a shell command in a process group of its own."""

from __future__ import annotations

import prompts
from tools.builtin.kit import Builtin, Services, define
from tools.builtin.running import Command, running, shell_argv, working_directory
from tools.definition import Invocation, ResolvedCall, Risk, ToolError

DEFAULT_TIMEOUT_S = 120
MAX_TIMEOUT_S = 600
NO_TIMEOUT_MS = 365 * 24 * 3600 * 1000

ALIASES = {
    "cmd": "command", "script": "command", "code": "command", "cwd": "workdir",
    "dir": "workdir", "directory": "workdir", "working_directory": "workdir",
    "workingDirectory": "workdir", "timeout_seconds": "timeout",
}  # fmt: skip


def tool() -> Builtin:
    """Return the built-in."""
    definition = define(
        "run_command",
        prompts.load("tools/run_command"),
        {
            "command": {"type": "string", "description": "Shell command"},
            "timeout": {
                "type": "number",
                "description": f"Seconds, default {DEFAULT_TIMEOUT_S}, at most {MAX_TIMEOUT_S}",
            },
            "workdir": {"type": "string", "description": "Directory, default the project root"},
            "unsandboxed": {
                "type": "boolean",
                "description": "Run outside the sandbox, where it failed in it: the user is asked",
            },
            "background": {
                "type": "boolean",
                "description": "Return at once; custom tools take it too",
            },
        },
        ["command"],
        risk=Risk.HIGH,
        metadata={"tags": ["run"]},
    )
    return Builtin(definition, prepare, ALIASES)


def prepare(call: ResolvedCall, services: Services) -> Invocation:
    """Show the command. One in the background has the timeout it was given, or none.

    Raises ToolError for a bad timeout or a sandbox that is required and not there, FileProblem for
    a bad directory.
    """
    line = call.arguments["command"]
    if not line.strip():
        raise ToolError("The command is empty. Nothing was run.")
    background = call.arguments.get("background", False)
    if background and "timeout" not in call.arguments:
        timeout_ms = NO_TIMEOUT_MS
    else:
        timeout_ms = _timeout_ms(call.arguments.get("timeout", DEFAULT_TIMEOUT_S))
    cwd = working_directory(services.workspace, call.arguments.get("workdir"))
    command = Command(
        line, (*shell_argv(services), line), cwd, timeout_ms,
        unsandboxed=call.arguments.get("unsandboxed", False), all_live=background,
    )  # fmt: skip
    invocation = running(call, services, command)
    return services.in_background(invocation) if background else invocation


def _timeout_ms(seconds: float) -> int:
    if not 0 < seconds <= MAX_TIMEOUT_S:
        raise ToolError(
            f"timeout is {seconds:g}: it is in seconds, more than 0 and at most {MAX_TIMEOUT_S}. "
            "Nothing was run."
        )
    return round(seconds * 1000)
