"""`/jobs`: what the person sees, starts and stops of what goes on in the background."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from tools.definition import ToolError

if TYPE_CHECKING:
    from agent.chat import Chat

_USAGE = """

/jobs show ID         what it printed, the end of it while it runs
/jobs stop ID|all     end it with everything it started
/jobs start COMMAND   run a command of yours in the background
/jobs tool NAME [PARAMETER=VALUE …]   run a tool there"""

_WANTED = {
    "show": "the number of a job", "stop": "the number of a job",
    "start": "a command", "tool": "the name of a tool",
}  # fmt: skip


async def jobs(chat: Chat, rest: str) -> str:
    """Do what was typed after `/jobs`, and return what to show."""
    verb, _, argument = rest.partition(" ")
    if not rest:
        lines = [f"  {job.id:>3}  {job.title}: {job.state}" for job in chat.jobs.all()]
        return "\n".join(["Jobs:", *lines] if lines else ["Nothing was started."]) + _USAGE
    if verb in _WANTED and not argument:
        return f"/jobs {verb} needs {_WANTED[verb]}.{_USAGE}"
    known = chat.jobs.all()
    try:
        if verb == "start":
            await chat.run_as_person(argument, background=True)
        elif verb == "tool":
            await _start_tool(chat, argument)
        else:
            return await _of_job(chat, verb, argument)
    except ToolError as error:
        return f"{error}{_USAGE}"
    return "\n".join(f"Job {job.id}: {job.state}" for job in chat.jobs.all() if job not in known)


async def _of_job(chat: Chat, verb: str, argument: str) -> str:
    """Show a job, or stop it. Raises ToolError."""
    if verb == "stop" and argument == "all":
        return f"Stopped: {await chat.jobs.stop_all()}"
    job = chat.jobs.find(argument if verb in ("stop", "show") else verb)
    if verb == "stop":
        await job.stop()
    return f"{job.recent.rstrip()}\n[job {job.id}: {job.state}]".lstrip()


async def _start_tool(chat: Chat, typed: str) -> None:
    """Start the tool that was typed, with its values. Raises ToolError."""
    from tools.commands.tool.kit import CommandError
    from tools.commands.tool.options import OptionError
    from tools.commands.tool.running import arguments_from

    try:
        name, *pairs = shlex.split(typed)
    except ValueError as error:
        raise ToolError(f"/jobs tool {typed}: {str(error).lower()}.") from None
    entry = chat.registry.find(name)
    if entry is None:
        near = ", ".join(chat.registry.nearest(name))
        raise ToolError(f"There is no tool {name!r}.{f' Nearest names: {near}.' if near else ''}")
    if not chat.executor.takes_background(entry.definition):
        raise ToolError(
            f"{name} does not run in the background: only tools of steps and of MCP servers do."
        )
    try:
        arguments = arguments_from(entry.definition, pairs, "/jobs tool")
    except (CommandError, OptionError) as error:
        raise ToolError(str(error)) from None
    await chat.start_tool_as_person(entry.definition.name, arguments)
