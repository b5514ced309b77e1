"""The flags of `opta mcp serve`, apart from what carries it out."""

from __future__ import annotations

import argparse

from agent.flags import add_codex_flags, add_permission_flags

TOKEN_VARIABLE = "OPTA_MCP_TOKEN"

EPILOG = """\
examples:
  opta mcp serve                           your own tools, over standard input and output
  opta mcp serve --tools 'deploy_*' --tools git
  opta mcp serve --http --port 8765        for several clients, on this machine only

A client starts it with an entry such as
  {"mcpServers": {"opta": {"command": "opta", "args": ["mcp", "serve"]}}}
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments, but those of every command of `opta mcp`."""
    parser.epilog = EPILOG
    parser.add_argument(
        "--tools", action="append", default=[], metavar="GLOB",
        help="serve the tools with such names, built-in ones too ('*': all that are on); "
        "without it, all but the built-in ones",
    )  # fmt: skip
    parser.add_argument(
        "--http", action="store_true",
        help=f"serve over HTTP on 127.0.0.1, for who has the token ({TOKEN_VARIABLE}, "
        "or a new one that is printed)",
    )  # fmt: skip
    parser.add_argument("--port", type=int, default=None, help="the port of --http (a free one)")
    add_codex_flags(parser)
    add_permission_flags(parser)
