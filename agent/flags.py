"""Command-line flags that several commands share."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse


def add_model_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags that choose a model; shared by every command that talks to one."""
    group = parser.add_argument_group("model")
    group.add_argument("--model", metavar="NAME", help="model to use (OPTA_MODEL)")
    group.add_argument(
        "--base-url", metavar="URL", help="endpoint to use (OPENAI_BASE_URL); key: OPENAI_API_KEY"
    )
    group.add_argument(
        "--api", choices=["chat", "responses"], help="which OpenAI API the endpoint speaks"
    )


def add_project_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of every command that reads a project."""
    group = parser.add_argument_group("project")
    group.add_argument(
        "-C", "--directory", metavar="DIR", help="work in DIR instead of the current directory"
    )
    group.add_argument(
        "--trust", action="store_true",
        help="trust this directory's own tools, settings and AGENTS.md for this run",
    )  # fmt: skip


CODEX_FLAGS = ("config_home", "config_file", "profile")


def add_codex_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags that choose a Codex `config.toml`; shared by every command with tools."""
    group = parser.add_argument_group("custom tools of Codex")
    group.add_argument(
        "--config-home", metavar="DIR", help="read DIR/config.toml instead of ~/.codex/config.toml"
    )
    group.add_argument(
        "--config-file", metavar="FILE", help="read FILE instead; wins over --config-home"
    )
    group.add_argument("--profile", metavar="NAME", help="use the tools of [profiles.NAME] too")
