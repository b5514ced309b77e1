"""The command line: parses flags once (R29) and hands over; imports the rest only when needed."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from agent import streams
from agent.errors import FAILED, INTERRUPTED, UserError

if TYPE_CHECKING:
    import argparse


class Command(NamedTuple):
    """A command beside the chat: its module has `configure(parser)` and `run(arguments, out)`.

    One that reads its words itself (`own_words`) has `main(words, out)` instead. Where `implied`
    is set, it is the subcommand that is meant when the first word is none of `SUBCOMMANDS`.
    """

    module: str
    help: str
    own_words: bool = False
    implied: str = ""


COMMANDS = {
    "demo": Command("agent.demo", "see opta work on a small project, without key or network"),
    "loop": Command(
        "agent.loop_command", "work on a spec, task by task, until it is done", implied="run"
    ),
    "tools": Command("agent.tools_command", "list tools with their cost, switch them on or off"),
    "tool": Command("agent.tool_command", "make, check, test and run tools of your own", True),
    "permissions": Command(
        "agent.permissions_command", "show and change permission rules, check a command"
    ),
    "config": Command("agent.config_command", "show and change settings, and where each was set"),
    "team": Command("agent.team_command", "tools your team shares: get, accept and serve them"),
    "mcp": Command("agent.mcp_command", "add, list and check MCP servers, log in, read their logs"),
    "sessions": Command("agent.sessions_command", "list, show, export, undo and remove sessions"),
    "doctor": Command("agent.doctor_command", "what this machine and these settings can do"),
    "help": Command("agent.help_command", "what there is to know about a topic or a command", True),
}


def main(arguments: Sequence[str], version: str) -> int:
    """Run `opta` with these arguments (without the program name); return the exit code."""
    streams.prepare()
    try:
        code = _run(arguments, version)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader has left: nobody is there for an error, nor for Python's own at exit.
        streams.silence_stdout()
        return FAILED
    except UserError as error:
        if isinstance(error, streams.OutputError):
            streams.silence_stdout()
        streams.tell(str(error))
        return error.exit_code
    except Exception as error:
        from agent import log

        streams.tell(log.report(error))
        return FAILED


def _run(arguments: Sequence[str], version: str) -> int:
    if arguments and arguments[0] in COMMANDS:
        return _run_command(arguments[0], arguments[1:], version)
    return _chat(arguments, version)


def _run_command(name: str, arguments: Sequence[str], version: str) -> int:
    module = importlib.import_module(COMMANDS[name].module)
    if name == "help" and arguments and arguments[0] in COMMANDS:
        command, *words = arguments
        if not module.has_page(command):
            return _run_command(command, [*words, "--help"], version)
    if COMMANDS[name].own_words:
        return int(module.main(arguments, sys.stdout))
    from agent.parser import Parser

    help_ = COMMANDS[name].help
    parser = Parser(prog=f"opta {name}", description=f"{help_[0].upper()}{help_[1:]}.")
    parser.set_defaults(version_text=version)
    module.configure(parser)
    implied = COMMANDS[name].implied
    first = arguments[0] if arguments else ""
    if implied and first not in (*module.SUBCOMMANDS, "-h", "--help"):
        arguments = [implied, *arguments]
    parsed = parser.parse_args(arguments)
    return int(module.run(parsed, sys.stdout))


def _chat(arguments: Sequence[str], version: str) -> int:
    from agent.parser import chat_parser

    parser = chat_parser(version, {name: command.help for name, command in COMMANDS.items()})
    options = parser.parse_args(arguments)
    if options.print is None and not _has_terminal():
        options.print = ""
    _check_combination(parser, options)
    if options.print is not None:
        from agent.batch import run

        return run(options)
    from agent.interactive import run as run_interactive

    return run_interactive(options)


def _has_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def _check_combination(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    if options.print is None and options.output_format != "text":
        parser.error("--output-format goes with -p")
    if options.continue_ and options.resume is not None:
        parser.error("--continue and --resume both choose a session: give one of them")
    if options.print and options.prompt:
        options.print = " ".join([options.print, *options.prompt])
    elif options.print is not None and options.prompt:
        options.print = " ".join(options.prompt)
    for name in ("max_turns", "max_tokens_total"):
        value = getattr(options, name)
        if value is not None and value < 1:
            parser.error(f"--{name.replace('_', '-')} must be at least 1, not {value}")
