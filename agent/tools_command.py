"""`opta tools`: the twin of `/tools` on the command line."""

from __future__ import annotations

import argparse
import sys
from typing import TextIO

from agent import streams
from agent.app import build_registry, build_tools_command
from agent.configuration import read_settings
from agent.errors import UserError
from agent.flags import CODEX_FLAGS, add_codex_flags, add_model_flags
from agent.project import project_root, trust_in
from agent.team import team_tools
from tools.commands import tools as command
from tools.cost import form_of


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    command.configure(parser)
    parser.add_argument(
        "--trust",
        action="store_true",
        help="trust this directory's tools and settings for this run",
    )
    parser.add_argument("-C", "--directory", metavar="DIR", help="work in DIR")
    add_model_flags(parser)
    add_codex_flags(parser)


def run(arguments: argparse.Namespace, out: TextIO) -> int:
    """Carry it out; return the exit code. Raises UserError."""
    root = project_root(arguments.directory)
    trust = trust_in(root, given=arguments.trust)
    names = ("model", "base_url", "api", *CODEX_FLAGS)
    flags = {name: getattr(arguments, name) for name in names}
    settings = read_settings(root, flags, trusted=trust.settings)
    for text in settings.warnings:
        streams.tell(text)
    tools = build_tools_command(
        root,
        build_registry(trust, settings, team=team_tools(settings)),
        settings,
        lambda: form_of(settings.model),
        called="opta tools",
    )
    try:
        return command.run(arguments, tools, out, sys.stderr)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise UserError(str(error)) from None
