"""Command-line flags that several commands share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from tools.confinement import Sandboxing
from tools.permissions.mode import Mode

if TYPE_CHECKING:
    import argparse


Subcommands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def add_subcommands(parser: argparse.ArgumentParser, **settings: Any) -> Subcommands:
    """Let subcommands follow, which are typed right behind this command's own name."""
    commands: Subcommands = parser.add_subparsers(prog=parser.prog, **settings)
    return commands


def add_command(
    commands: Subcommands, name: str, help_: str, **settings: Any
) -> argparse.ArgumentParser:
    """Add the subcommand `name`; `help_` says what it does, to its parent's help and its own."""
    says = f"{help_[0].upper()}{help_[1:]}."
    return commands.add_parser(name, help=help_, description=says, **settings)


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


def add_config_flag(parser: argparse.ArgumentParser) -> None:
    """Add the flag that sets any setting; shared by everything that runs turns."""
    parser.add_argument(
        "--config", action="append", default=[], metavar="KEY=VALUE",
        help="set a setting for this run; VALUE is TOML, or text: --config 'undo=false'",
    )  # fmt: skip


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


def add_permission_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags that say what needs no question; shared by everything that runs turns."""
    group = parser.add_argument_group("permission")
    rule: dict[str, Any] = {"action": "append", "default": [], "metavar": "RULE"}
    group.add_argument("--allow", **rule, help="allow, e.g. 'run_command(npm test:*)'")
    group.add_argument("--ask", **rule, help="always ask")
    group.add_argument("--deny", **rule, help="never allow; beats every other rule")
    group.add_argument(
        "--auto-approve", **rule,
        help="allow all tools with a tag, e.g. tool:read",
    )  # fmt: skip
    group.add_argument("--auto-deny", **rule, help="deny all tools with a tag")
    group.add_argument(
        "--mode", "--permission-mode", choices=list(map(str, Mode)),
        help="what needs no question: reads (ask), also edits in this directory (accept-edits), "
        "also commands in a sandbox without network (auto-sandbox); plan allows reads only",
    )  # fmt: skip
    group.add_argument(
        "--sandbox", choices=list(map(str, Sandboxing)),
        help="run the model's commands in a sandbox: where there is one (auto), always (required), "
        "or only in the mode auto-sandbox (off)",
    )  # fmt: skip
    group.add_argument(
        "--dangerously-skip-permissions", dest="skip_permissions", action="store_true",
        help="answer every question with yes, except those only a person may answer",
    )  # fmt: skip
