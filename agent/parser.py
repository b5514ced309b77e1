"""The flags of the chat and of one job (R29)."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from typing import Any, NoReturn

from agent.errors import USAGE
from agent.flags import (
    add_codex_flags,
    add_config_flag,
    add_model_flags,
    add_permission_flags,
    add_project_flags,
)

EXIT_CODES = """\
exit codes:
  0    done
  1    failed
  2    wrong usage or settings
  3    something needed a permission that nobody could give
  4    a limit (--max-turns, --max-tokens-total) was reached
  130  interrupted
"""


class Parser(argparse.ArgumentParser):
    """Says in one line what is wrong, and where help is."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
            **settings,
        )

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        """Leave, once what was printed (--help) really is."""
        sys.stdout.flush()
        super().exit(status, message)

    def error(self, message: str) -> NoReturn:
        for action in self._actions:
            if message.endswith(f"required: {action.metavar}") and isinstance(action.choices, dict):
                message = f"name what to do: {', '.join(action.choices)}"
        self.exit(USAGE, f"opta: {message}\nTry `{self.prog} --help`.\n")


def chat_parser(version: str, commands: Mapping[str, str]) -> Parser:
    """Return the parser of `opta` without a command; `commands` maps the others to their help."""
    listed = "\n".join(f"  opta {name:<13}{help}" for name, help in commands.items())
    parser = Parser(
        prog="opta",
        usage="opta [options] [prompt ...]\n       opta -p [prompt]\n       opta COMMAND --help",
        description="A coding agent for the terminal whose tools belong to you.\n\n"
        "Without -p a chat opens in this directory; a prompt given is its first message.",
        epilog=f"commands:\n{listed}\n\n{EXIT_CODES}",
    )
    parser.add_argument("--version", action="version", version=f"opta {version}")
    parser.set_defaults(version_text=version)
    parser.add_argument("prompt", nargs="*", help=argparse.SUPPRESS)
    _add_batch_flags(parser)
    add_model_flags(parser)
    add_project_flags(parser)
    add_config_flag(parser)
    add_codex_flags(parser)
    _add_session_flags(parser)
    add_permission_flags(parser)
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
