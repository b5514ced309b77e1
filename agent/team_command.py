"""`opta team …`: the team's tools by hand. `sync` asks its source, `accept` uses what it gave."""

from __future__ import annotations

import argparse
import asyncio
import getpass
import json
import os
import secrets
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

from agent import streams
from agent.configuration import read_settings
from agent.errors import FAILED, NEEDS_PERMISSION, USAGE, UserError
from agent.flags import add_command, add_subcommands
from agent.project import project_root
from agent.settings_files import user_file
from agent.settings_values import Settings
from agent.team import credentials_of, heading, status_lines, team_config, team_tools
from tools import storage
from tools.engine.output import visible
from tools.formats.problems import shown_path
from tools.permissions.gate import PermissionGate
from tools.permissions.rules import RuleSet

if TYPE_CHECKING:
    from tools.sources.team.config import TeamConfig
    from tools.sources.team.tools import TeamState, TeamTools, Waiting

FoundT = TypeVar("FoundT")

PORT = 8400
TOKEN_ENV = "OPTA_TEAM_TOKEN"

_EPILOG = """\
Where the team's tools are is set in your own config.yml (or the machine's), never in a project:

  teams:
    enabled: true
    features: {sharedTools: true}
    url: https://tools.example.com
    org: acme

examples:
  opta team sync
  opta team accept
  opta team serve ./team-tools --org acme
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.epilog = _EPILOG
    commands = add_subcommands(parser, dest="action", metavar="ACTION", required=True)
    status = add_command(
        commands, "status", "show the team's tools as they are known here; asks nobody"
    )
    status.add_argument("--format", choices=("text", "json"), default="text")
    sync = add_command(commands, "sync", "ask the team's source now")
    sync.add_argument(
        "--anew", action="store_true", help="take the answer even where it is older than the last"
    )
    accept = add_command(
        commands, "accept", "show what waits, and use it from now on if you say so"
    )
    accept.add_argument("names", nargs="*", metavar="NAME", help="tools or files; all without any")
    accept.add_argument("--all", action="store_true", help="everything that waits (the default)")
    accept.add_argument("-y", "--yes", action="store_true", help="ask nothing")
    login = add_command(
        commands, "login", "keep the token for the team's server (read from standard input)"
    )
    login.add_argument("--forget", action="store_true", help="delete the token instead")
    for command in (status, sync, accept, login):
        command.add_argument("-C", "--directory", metavar="DIR", help="work in DIR")
    _configure_serve(
        commands.add_parser("serve", help="share a directory of tool files on this machine")
    )


def _configure_serve(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Share a directory of tool files on this machine's loopback address. To share it with "
        "others put a reverse proxy with TLS in front."
    )
    parser.add_argument("shared", metavar="DIR", help="the directory of tool files")
    parser.add_argument("--port", type=int, default=PORT, help=f"default {PORT}; 0: any free one")
    parser.add_argument("--org", default="", help="the organisation (default: the name of DIR)")
    parser.add_argument(
        "--token-env", default=TOKEN_ENV, metavar="NAME",
        help=f"variable with the token to ask for (default {TOKEN_ENV}; unset: a new one, shown)",
    )  # fmt: skip


def run(arguments: argparse.Namespace, out: TextIO) -> int:
    """Carry it out; return the exit code. Raises UserError."""
    try:
        if arguments.action == "serve":
            return _serve(arguments, out)
        root = project_root(arguments.directory)
        settings = read_settings(root, {}, trusted=None)
        for text in settings.warnings:
            streams.tell(text)
        if arguments.action == "login":
            return _login(_needed(team_config(settings), settings), out, forget=arguments.forget)
        gate = PermissionGate(RuleSet(settings.rules, root))
        team = _needed(team_tools(settings, gate), settings)
        actions: dict[str, Callable[[argparse.Namespace, TeamTools, TextIO], int]] = {
            "status": _status, "sync": _sync, "accept": _accept,
        }  # fmt: skip
        return actions[arguments.action](arguments, team, out)
    except storage.StorageError as error:
        raise UserError(str(error)) from None


def _needed(found: FoundT | None, settings: Settings) -> FoundT:
    """Return what the settings say of a team. Raises UserError where they say nothing."""
    if found is not None:
        return found
    if settings.teams.enabled:
        told = f"{settings.teams.place}: teams.features.sharedTools is not true: no tool is shared"
        raise UserError(told, USAGE)
    place = shown_path(user_file())
    raise UserError(f"no team is set up: see `opta team --help` for what goes into {place}", USAGE)


def _status(arguments: argparse.Namespace, team: TeamTools, out: TextIO) -> int:
    state = team.state()
    _, problems = team.load()
    errors = [problem for problem in problems if not problem.warning]
    if arguments.format == "json":
        json.dump(_data(team, state) | {"problems": [str(p) for p in problems]}, out, indent=2)
        out.write("\n")
        return FAILED if errors else 0
    out.write("\n".join(status_lines(team)) + "\n")
    return FAILED if errors else 0


def _data(team: TeamTools, state: TeamState) -> dict[str, Any]:
    return {
        "team": team.config.name,
        "place": team.config.place,
        "checked_at": None if state.last is None else state.last.checked_at,
        "serial": None if state.last is None else state.last.answer.serial,
        "allowlist": None if state.last is None else state.last.answer.allowlist,
        "tools": [{"name": t.name, "enforced": t.origin.enforced} for t in state.in_use],
        "waiting": [
            {"file": w.file.path, "sha256": w.file.digest, "tools": w.names, "kind": w.kind}
            for w in state.waiting
        ],
    }


def _sync(arguments: argparse.Namespace, team: TeamTools, out: TextIO) -> int:
    from tools.engine.process import settle
    from tools.sources.team.answer import TeamError

    async def sync() -> bool:
        try:
            return await team.sync(anew=arguments.anew)
        finally:
            await settle()

    before = {tool.name for tool in team.state().in_use}
    try:
        changed = asyncio.run(sync())
    except TeamError as error:
        state = team.state()
        kept = "" if state.last is None else ". The last good answer stays in use"
        raise UserError(f"{heading(team)}: {visible(str(error))}{kept}.") from None
    _, problems = team.load()
    out.write(f"{visible(heading(team))}: {'something new' if changed else 'nothing new'}\n")
    gone = sorted(before - {tool.name for tool in team.state().in_use})
    if gone:
        out.write(f"no longer shared, and no longer in use: {visible(', '.join(gone))}\n")
    for problem in problems:
        out.write(f"{problem}\n")
    return 0


def _accept(arguments: argparse.Namespace, team: TeamTools, out: TextIO) -> int:
    from agent.ui.ansi import Colour, detect
    from agent.ui.screen import make_output
    from agent.ui.trust import describe_waiting
    from agent.ui.wrap import UNWRAPPED
    from tools.sources.team.answer import TeamError

    try:
        waiting = team.named(arguments.names)
    except TeamError as error:
        raise UserError(str(error)) from None
    if not waiting:
        out.write("Nothing waits to be accepted.\n")
        return 0
    in_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    colour = detect() if in_terminal else Colour.PLAIN
    columns = make_output().get_size().columns if in_terminal else UNWRAPPED
    out.write(describe_waiting(team.config.name, waiting, columns, colour) + "\n")
    out.flush()
    if not arguments.yes:
        if not in_terminal:
            told = "nothing was accepted: there is no terminal to ask in. --yes accepts it"
            raise UserError(told, NEEDS_PERMISSION)
        if not _asked(waiting):
            out.write("Nothing was accepted.\n")
            return 0
    team.accept(waiting)
    names = ", ".join(name for one in waiting for name in one.names)
    out.write(f"Accepted: {visible(names)}\n")
    return 0


def _asked(waiting: Sequence[Waiting]) -> bool:
    from agent.ui.menu import Option
    from agent.ui.select import select

    what = "this tool file" if len(waiting) == 1 else f"these {len(waiting)} tool files"
    options = [Option(False, "no, leave it as it is", "n"), Option(True, "yes", "y")]
    return select(f"Use {what} exactly as shown?", options, cancelled=False)


def _login(config: TeamConfig, out: TextIO, *, forget: bool) -> int:
    from tools.sources.team.answer import TeamError
    from tools.sources.team.http import checked_token

    if not config.url:
        raise UserError("the team's tools are in a directory, which has no login")
    kept = credentials_of(config)
    if forget:
        existed = bool(kept.load())
        kept.save({})
        out.write("The token is deleted.\n" if existed else "There was no token.\n")
        return 0
    given = getpass.getpass("Token: ") if sys.stdin.isatty() else sys.stdin.readline()
    if not given.strip():
        raise UserError("no token was given: nothing is kept", USAGE)
    try:
        kept.save({"token": checked_token(given.strip())})
    except TeamError as error:
        raise UserError(str(error), USAGE) from None
    out.write(f"The token is kept in {visible(kept.place)}\n")
    if os.environ.get(config.token_env):
        out.write(f"{config.token_env} is set, and is used instead.\n")
    return 0


def _serve(arguments: argparse.Namespace, out: TextIO) -> int:
    from tools.sources.team.answer import TeamError
    from tools.sources.team.serve import TeamServer

    directory = Path(arguments.shared).expanduser().resolve()
    if not directory.is_dir():
        raise UserError(f"there is no directory {arguments.shared} to share", USAGE)
    org = arguments.org or directory.name
    given = os.environ.get(arguments.token_env, "").strip()
    token = given or secrets.token_urlsafe(24)

    def log(line: str) -> None:
        sys.stderr.write(f"{line}\n")

    try:
        server = TeamServer(directory, org, token, arguments.port, log)
        count = len(server.shared.read().files)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"cannot listen on port {arguments.port}: {reason}") from None
    except TeamError as error:
        raise UserError(str(error)) from None
    files = "1 tool file" if count == 1 else f"{count} tool files"
    out.write(f"Sharing {files} of {visible(str(directory))} as {visible(org)} at {server.url}\n")
    if not given:
        out.write(f"{arguments.token_env} is not set; the token is {token}\n")
    out.write("Only this machine can reach it; Ctrl-C ends it.\n")
    out.flush()
    with server:
        server.serve_forever()
    return 0
