"""`opta loop SPEC.md`, `opta loop status|log`: works on a spec, task by task (003)."""

from __future__ import annotations

import argparse
import re
from typing import TextIO

from agent.errors import UserError
from agent.flags import (
    add_codex_flags,
    add_command,
    add_config_flag,
    add_model_flags,
    add_permission_flags,
    add_project_flags,
    add_subcommands,
)

SUBCOMMANDS = ("run", "status", "log")
EXIT_CODES = """\
exit codes:
  0    the session is complete
  1    failed: 3 iterations in a row, or something that cannot go on
  2    wrong usage or settings
  3    3 iterations in a row needed a permission that nobody could give
  4    a limit was reached before the session was complete
  130  interrupted; the same command goes on in the same iteration
"""
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the subcommands and their flags."""
    parser.usage = (
        "opta loop SPEC.md [options]\n       opta loop status [NAME]\n       opta loop log NAME"
    )
    parser.epilog = f"`opta loop run --help` shows the options of a run.\n\n{EXIT_CODES}"
    commands = add_subcommands(parser, metavar="COMMAND", required=True)
    running = add_command(
        commands, "run", "work on a spec (`run` may be left out)",
        usage="opta loop SPEC.md [options]", epilog=EXIT_CODES,
    )  # fmt: skip
    _add_run_flags(running)
    for name, action, help_ in (
        ("status", _status, "the tasks of a session, or all sessions of this directory"),
        ("log", _log, "every record of a session, as it was written"),
    ):
        command = add_command(commands, name, help_)
        command.add_argument("name", nargs="?" if name == "status" else None, metavar="NAME")
        command.add_argument("--format", choices=("text", "json"), default="text")
        command.add_argument("-C", "--directory", metavar="DIR", help="look in DIR")
        _add_store_flag(command)
        command.set_defaults(action=action)


def run(arguments: argparse.Namespace, out: TextIO) -> int:
    """Carry out the parsed command; return the exit code. Raises UserError."""
    from tools.sources.session_log import SessionLogError

    try:
        code: int = arguments.action(arguments, out)
    except SessionLogError as error:
        raise UserError(str(error)) from None
    return code


def _run(arguments: argparse.Namespace, out: TextIO) -> int:
    from agent.loop_run import run_loop

    return run_loop(arguments, out)


def _status(arguments: argparse.Namespace, out: TextIO) -> int:
    from agent.loop_report import write_status

    return write_status(arguments, out)


def _log(arguments: argparse.Namespace, out: TextIO) -> int:
    from agent.loop_report import write_log

    return write_log(arguments, out)


def _add_run_flags(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(action=_run)
    parser.add_argument("spec", metavar="SPEC.md", help="what is wanted, as Markdown or text")
    group = parser.add_argument_group("loop")
    group.add_argument(
        "--name", metavar="N", help="name of the session (the spec's, without its ending)"
    )
    group.add_argument(
        "--max-iterations", type=_count, metavar="N", help="stop after N iterations (10)"
    )
    group.add_argument(
        "--until-complete", action="store_true",
        help="go on until the session is complete, however many iterations that takes",
    )  # fmt: skip
    group.add_argument(
        "--max-turns", dest="loop_turns", type=_count, metavar="N",
        help="stop after N requests to the model in all",
    )  # fmt: skip
    group.add_argument(
        "--max-tokens-total", dest="loop_tokens", type=_count, metavar="N",
        help="send no further request once N tokens were used in all",
    )  # fmt: skip
    group.add_argument(
        "--max-time", type=_seconds, metavar="TIME", help="stop after TIME, such as 90s, 30m or 2h"
    )
    group.add_argument(
        "--opencode", action="store_true",
        help="also write the session's tools to .opencode/tool/ralph.ts, for opencode",
    )  # fmt: skip
    group.add_argument(
        "--output-format", choices=("text", "json"), default="text",
        help="what standard output holds: a line per iteration and a summary, or one JSON object",
    )  # fmt: skip
    _add_store_flag(group)
    add_model_flags(parser)
    add_project_flags(parser)
    add_config_flag(parser)
    add_codex_flags(parser)
    add_permission_flags(parser)


def _add_store_flag(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--store", metavar="DIR", help="directory of the sessions (.opta/sessions of the project)"
    )


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and int(text)):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def _seconds(text: str) -> float:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text, re.ASCII)
    if not found or not float(found[1]):
        raise argparse.ArgumentTypeError(f"{text!r} is not a time such as 90s, 30m or 2h")
    return float(found[1]) * _UNITS[found[2]]
