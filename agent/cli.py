"""The command line: parses flags once (R29) and hands over; imports the rest only when needed."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence
from typing import NamedTuple, NoReturn

from agent import streams
from agent.errors import FAILED, INTERRUPTED, USAGE, UserError
from agent.flags import add_codex_flags, add_model_flags, add_project_flags

EXIT_CODES = """\
exit codes:
  0    done
  1    failed
  2    wrong usage or settings
  3    something needed a permission that nobody could give
  4    a limit (--max-turns, --max-tokens-total) was reached
  130  interrupted
"""


class Command(NamedTuple):
    """A command beside the chat: its module has `configure(parser)` and `run(arguments, out)`.

    One that reads its words itself (`own_words`) has `main(words, out)` instead.
    """

    module: str
    help: str
    own_words: bool = False


COMMANDS = {
    "demo": Command("agent.demo", "see opta work on a small project, without key or network"),
    "tools": Command("agent.tools_command", "list tools with their cost, switch them on or off"),
    "tool": Command("agent.tool_command", "make, check, test and run tools of your own", True),
    "sessions": Command("agent.sessions_command", "list, show, export and remove sessions"),
    "help": Command("agent.help_command", "pages about tools: opta help tools", True),
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
    return _chat(_chat_parser(version), arguments)


def _run_command(name: str, arguments: Sequence[str], version: str) -> int:
    module = importlib.import_module(COMMANDS[name].module)
    if COMMANDS[name].own_words:
        return int(module.main(arguments, sys.stdout))
    parser = _Parser(prog=f"opta {name}", description=f"{COMMANDS[name].help.capitalize()}.")
    parser.set_defaults(version_text=version)
    module.configure(parser)
    parsed = parser.parse_args(arguments)
    return int(module.run(parsed, sys.stdout))


def _chat(parser: _Parser, arguments: Sequence[str]) -> int:
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


def _check_combination(parser: _Parser, options: argparse.Namespace) -> None:
    if options.print is None and options.output_format != "text":
        parser.error("--output-format goes with -p")
    if options.print and options.prompt:
        options.print = " ".join([options.print, *options.prompt])
    elif options.print is not None and options.prompt:
        options.print = " ".join(options.prompt)
    for name in ("max_turns", "max_tokens_total"):
        value = getattr(options, name)
        if value is not None and value < 1:
            parser.error(f"--{name.replace('_', '-')} must be at least 1, not {value}")


class _Parser(argparse.ArgumentParser):
    def __init__(self, **settings: str) -> None:
        super().__init__(
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
            **settings,  # type: ignore[arg-type]
        )

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        """Leave, once what was printed (--help) really is."""
        sys.stdout.flush()
        super().exit(status, message)

    def error(self, message: str) -> NoReturn:
        self.exit(USAGE, f"opta: {message}\nTry `{self.prog} --help`.\n")


def _chat_parser(version: str) -> _Parser:
    commands = "\n".join(f"  opta {name:<10}{command.help}" for name, command in COMMANDS.items())
    parser = _Parser(
        prog="opta",
        usage="opta [options] [prompt ...]\n       opta -p [prompt]\n       opta COMMAND --help",
        description="A coding agent for the terminal whose tools belong to you.\n\n"
        "Without -p a chat opens in this directory; a prompt given is its first message.",
        epilog=f"commands:\n{commands}\n\n{EXIT_CODES}",
    )
    parser.add_argument("--version", action="version", version=f"opta {version}")
    parser.set_defaults(version_text=version)
    parser.add_argument("prompt", nargs="*", help=argparse.SUPPRESS)
    _add_batch_flags(parser)
    add_model_flags(parser)
    add_project_flags(parser)
    add_codex_flags(parser)
    _add_session_flags(parser)
    _add_permission_flags(parser)
    return parser


def _add_batch_flags(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("one job, no chat")
    group.add_argument(
        "-p", "--print", nargs="?", const="", metavar="PROMPT",
        help="do one job and exit; text on standard input is the prompt or is added to it",
    )  # fmt: skip
    group.add_argument(
        "--output-format", choices=["text", "json", "stream-json"], default="text",
        help="what standard output holds: the answer (text), one JSON object (json), "
        "or one JSON object per event (stream-json)",
    )  # fmt: skip
    group.add_argument(
        "--max-turns", type=int, metavar="N", help="stop after N requests to the model"
    )
    group.add_argument(
        "--max-tokens-total", type=int, metavar="N",
        help="send no further request once N tokens were used",
    )  # fmt: skip


def _add_session_flags(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("session")
    group.add_argument(
        "-c", "--continue", dest="continue_", action="store_true",
        help="go on with the newest session of this directory",
    )  # fmt: skip
    group.add_argument(
        "-r", "--resume", nargs="?", const="", metavar="ID",
        help="go on with a session; without ID, choose from a list",
    )  # fmt: skip


def _add_permission_flags(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("permission")
    rule = {"action": "append", "default": [], "metavar": "RULE"}
    group.add_argument("--allow", **rule, help="allow, e.g. 'run_command(npm test:*)'")  # type: ignore[arg-type]
    group.add_argument("--ask", **rule, help="always ask")  # type: ignore[arg-type]
    group.add_argument("--deny", **rule, help="never allow; beats every other rule")  # type: ignore[arg-type]
    group.add_argument(
        "--auto-approve", **rule,  # type: ignore[arg-type]
        help="allow all tools with a tag, e.g. tool:read",
    )  # fmt: skip
    group.add_argument("--auto-deny", **rule, help="deny all tools with a tag")  # type: ignore[arg-type]
    group.add_argument(
        "--mode", choices=["ask", "accept-edits", "plan"],
        help="what needs no question: reads (ask), also edits in this directory (accept-edits); "
        "plan allows reads only",
    )  # fmt: skip
    group.add_argument(
        "--dangerously-skip-permissions", dest="skip_permissions", action="store_true",
        help="answer every question with yes, except those only a person may answer",
    )  # fmt: skip
