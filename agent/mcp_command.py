"""`opta mcp …`: MCP servers by hand. Only `get --check` and `login` connect to one."""

from __future__ import annotations

import argparse
import asyncio
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO
from urllib.parse import urlsplit

from agent import log
from agent.configuration import mcp_configured, read_settings
from agent.errors import FAILED, USAGE, UserError
from agent.flags import add_command, add_project_flags, add_subcommands
from agent.mcp_by_hand import connected
from agent.mcp_chat import first_line
from agent.project import project_root, trust_in
from agent.settings_edit import set_mcp_server
from agent.settings_write import SettingsWriteError
from agent.streams import write_json
from tools import storage
from tools.definition import Scope
from tools.engine.output import clean, visible
from tools.formats.problems import shown_path
from tools.hosts import is_loopback
from tools.sources.mcp.config import KEY, ServerConfig, read_servers
from tools.sources.mcp.fields import VARIABLE_NAME, Variables
from tools.sources.mcp.files import Configured
from tools.sources.mcp.log import read_log
from tools.yamltext import Document

if TYPE_CHECKING:
    from tools.sources.mcp.login_store import LoginStore

_EPILOG = """\
examples:
  opta mcp add files -- npx -y @modelcontextprotocol/server-filesystem .
  opta mcp add github https://api.githubcopilot.com/mcp/ --header 'Authorization: Bearer ${TOKEN}'
  opta mcp add slack https://mcp.slack.com/mcp --client-id 12.34 --client-secret-env SLACK_SECRET
  opta mcp get files --check
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EPILOG
    parser.set_defaults(directory=None, trust=False, format="text")
    commands = add_subcommands(parser, dest="action", metavar="ACTION")

    def command(name: str, help_: str) -> argparse.ArgumentParser:
        made = add_command(commands, name, help_)
        add_project_flags(made)
        return made

    _configure_serve(command("serve", "serve opta's own tools to other agents"))
    _configure_add(command("add", "add a server, or change one"))
    listed = command("list", "list the configured servers; connects to none")
    listed.add_argument("--format", choices=("text", "json"), default="text")
    got = command("get", "show a server")
    got.add_argument("name")
    got.add_argument("--check", action="store_true", help="connect, and list its tools")
    removed = command("remove", "remove a server")
    removed.add_argument("name")
    removed.add_argument("--scope", choices=("user", "project"), default="user")
    login = command("login", "log in to a server with the browser")
    login.add_argument("name")
    login.add_argument("--forget", action="store_true", help="delete the login instead")
    logs = command("logs", "show what a server printed, and what opta noted about it")
    logs.add_argument("name")


def _configure_serve(parser: argparse.ArgumentParser) -> None:
    from agent.serving.options import configure

    configure(parser)


def _configure_add(parser: argparse.ArgumentParser) -> None:
    parser.usage = (
        "opta mcp add [options] NAME URL\n       opta mcp add [options] NAME -- COMMAND [ARG ...]"
    )
    parser.add_argument("name", help="letters, digits, - and _")
    parser.add_argument("target", nargs="+", help="an http(s) address, or a command")
    parser.add_argument(
        "--scope", choices=("user", "project"), default="user",
        help="user: your config.yml (default); project: .mcp.json, for everyone who works here",
    )  # fmt: skip
    parser.add_argument(
        "-e", "--env", action="append", default=[], metavar="NAME=VALUE",
        help="variable for the command; ${NAME} takes it from your environment",
    )  # fmt: skip
    parser.add_argument(
        "--header", action="append", default=[], metavar="'NAME: VALUE'",
        help="header for the address",
    )  # fmt: skip
    login = parser.add_argument_group("login, where the server does not register opta by itself")
    login.add_argument("--client-id", metavar="ID", help="what you registered opta as on its site")
    login.add_argument(
        "--client-secret-env", metavar="NAME", help="variable of your environment with the secret"
    )
    login.add_argument(
        "--callback-port", type=int, metavar="PORT",
        help="you registered http://localhost:PORT/callback to come back to",
    )  # fmt: skip
    parser.add_argument("--timeout", type=int, metavar="MS", help="longest time of one call")


def run(arguments: argparse.Namespace, out: TextIO) -> int:
    """Carry it out; return the exit code. Raises UserError."""
    root = project_root(arguments.directory)
    actions: dict[str, Callable[[argparse.Namespace, Path, TextIO], int]] = {
        "add": _add, "list": _list, "get": _get, "remove": _remove, "login": _login, "logs": _logs,
        "serve": _serve,
    }  # fmt: skip
    try:
        return actions[arguments.action or "list"](arguments, root, out)
    except (SettingsWriteError, storage.StorageError) as error:
        raise UserError(str(error)) from None


def _add(arguments: argparse.Namespace, root: Path, out: TextIO) -> int:
    entry = _entry(arguments)
    # Read as a file would be: what could not be used is not written.
    path = Path("the command line")
    document = Document(path, {KEY: {arguments.name: entry}}, {})
    _, problems = read_servers(document, Scope.USER, "", Variables(_Anything()))
    for problem in problems:
        hint = f" ({problem.hint})" if problem.hint else ""
        raise UserError(f"{problem.key}: {problem.message}{hint}", USAGE)
    project = root if arguments.scope == "project" else None
    written, before = set_mcp_server(arguments.name, entry, project)
    out.write(f"Saved {arguments.name} in {visible(shown_path(written))}\n")
    if before not in (None, entry):
        out.write(f"It replaces {visible(log.redactor()(_place(before)))}\n")
    if project is not None:
        out.write("opta asks for trust in it at the next start here.\n")
    return 0


def _place(entry: Any) -> str:
    """Return the address or the command of an entry as it stands in a file, whatever it is."""
    if not isinstance(entry, dict):
        return str(entry)
    url, args = entry.get("url"), entry.get("args")
    words = [entry.get("command"), *(args if isinstance(args, list) else [])]
    return str(url) if url else shlex.join(map(str, words))


class _Anything(dict[str, str]):
    """Has every variable: what is added now may be used where more is set."""

    def __contains__(self, name: object) -> bool:
        return True

    def __missing__(self, name: str) -> str:
        return "https://example.invalid"


def _entry(arguments: argparse.Namespace) -> dict[str, Any]:
    first, *rest = arguments.target
    is_url = first.startswith(("http://", "https://"))
    if is_url and (rest or arguments.env):
        raise UserError("an address takes no arguments and no --env", USAGE)
    login = _login_entry(arguments)
    for flag, given in (("--header", arguments.header), ("a login", login)):
        if given and not is_url:
            raise UserError(f"{flag} goes with an address", USAGE)
    entry: dict[str, Any] = {"type": "http", "url": first} if is_url else {"command": first}
    if rest:
        entry["args"] = rest
    if arguments.env:
        entry["env"] = _pairs(arguments.env, "=", "--env")
    if arguments.header:
        entry["headers"] = _pairs(arguments.header, ":", "--header")
    if login:
        entry["oauth"] = login
    if arguments.timeout is not None:
        entry["timeout"] = arguments.timeout
    return entry


def _login_entry(arguments: argparse.Namespace) -> dict[str, Any]:
    secret = arguments.client_secret_env
    if secret is not None and not VARIABLE_NAME.fullmatch(secret):
        raise UserError("--client-secret-env takes the name of a variable, not the secret", USAGE)
    given = {
        "clientId": arguments.client_id,
        "clientSecret": secret and f"${{{secret}}}",
        "callbackPort": arguments.callback_port,
    }
    return {key: value for key, value in given.items() if value is not None}


def _pairs(given: list[str], mark: str, flag: str) -> dict[str, str]:
    pairs = {}
    for text in given:
        name, found, value = text.partition(mark)
        if not found or not name.strip():
            # Not quoted: it may be a secret.
            told = f"what follows {flag} has the form NAME{mark}VALUE, and one has no {mark!r}"
            raise UserError(told, USAGE)
        pairs[name.strip()] = value.strip() if mark == ":" else value
    return pairs


def _serve(arguments: argparse.Namespace, root: Path, out: TextIO) -> int:
    from agent.serving.command import run

    return run(arguments)


def _configured(arguments: argparse.Namespace, root: Path) -> Configured:
    trust = trust_in(root, given=arguments.trust)
    settings = read_settings(root, {}, trusted=trust.settings)
    configured = mcp_configured(trust, settings)
    for problem in filter(None, [trust.unused(), *configured.problems]):
        sys.stderr.write(f"opta: {problem}\n")
    if not settings.mcp_enabled:
        sys.stderr.write("opta: mcp.enabled is false: no server is used\n")
    return configured


def _list(arguments: argparse.Namespace, root: Path, out: TextIO) -> int:
    configured = _configured(arguments, root)
    servers = [configured.servers[name] for name in sorted(configured.servers)]
    hidden = log.redactor()
    if arguments.format == "json":
        write_json(out, hidden.tree([_data(config) for config in servers]))
    else:
        width = max((len(config.name) for config in servers), default=0)
        for config in servers:
            off = "" if config.enabled else " (off)"
            what = visible(hidden(config.url or shlex.join(config.argv)))
            out.write(f"{config.name:<{width}}  {what}  [{visible(config.place)}]{off}\n")
        if not servers:
            out.write("No MCP server is configured. Add one: opta mcp add NAME -- COMMAND\n")
    return FAILED if any(not problem.warning for problem in configured.problems) else 0


def _data(config: ServerConfig) -> dict[str, Any]:
    """Return a server for programs; the values of variables and headers stay out."""
    return {
        "name": config.name, "scope": config.scope.value, "place": config.place,
        "enabled": config.enabled, "command": config.command, "args": list(config.args),
        "cwd": config.cwd, "env": list(config.env), "url": config.url,
        "headers": list(config.headers), "clientId": config.login.client_id,
        "scopes": config.login.scopes, "callbackPort": config.login.callback_port,
        "timeout": config.call_ms,
        "startupTimeout": config.start_ms,
    }  # fmt: skip


def _server(arguments: argparse.Namespace, root: Path) -> ServerConfig:
    servers = _configured(arguments, root).servers
    if arguments.name not in servers:
        known = ", ".join(sorted(servers)) or "none"
        raise UserError(f"there is no MCP server {arguments.name!r}; there are: {known}")
    return servers[arguments.name]


def _get(arguments: argparse.Namespace, root: Path, out: TextIO) -> int:
    from agent.mcp_chat import describe

    config = _server(arguments, root)
    lines = [f"{config.name} ({visible(config.place)})", *describe(config)]
    if config.url:
        lines += asyncio.run(_login_lines(config))
    lines.append(f"  timeout: {config.call_ms} ms a call, {config.start_ms} ms to start")
    out.write("\n".join(lines) + ("" if config.enabled else "\n  off") + "\n")
    return asyncio.run(_check(config, root, out)) if arguments.check else 0


async def _login_lines(config: ServerConfig) -> list[str]:
    from tools.sources.mcp.login_store import LoginStore

    login = await LoginStore(config, log.learn).load()
    scopes = f", with the scopes {visible(login.scopes)}" if login.scopes else ""
    lines = [f"  logged in{scopes}"] if login.token else []
    if login.wanted:
        lines.append(
            f"  it wants more scopes: {visible(login.wanted)} (opta mcp login {config.name})"
        )
    return lines


async def _check(config: ServerConfig, root: Path, out: TextIO) -> int:
    """Connect once, and show what the server offers."""
    from tools.sources.mcp.connection import State

    settings = read_settings(root, {}, trusted=None)
    async with connected(Configured({config.name: config}), root, settings) as servers:
        for tool in servers.definitions():
            off = f" (not used: {tool.unavailable})" if tool.unavailable else ""
            out.write(f"  {tool.name}  {first_line(tool.description)}{off}\n")
        return 0 if servers.connections[config.name].state is State.READY else FAILED


def _remove(arguments: argparse.Namespace, root: Path, out: TextIO) -> int:
    project = root if arguments.scope == "project" else None
    try:
        written, _ = set_mcp_server(arguments.name, None, project)
    except KeyError:
        raise UserError(
            f"there is no MCP server {arguments.name!r} in the {arguments.scope}'s own file"
        ) from None
    out.write(f"Removed {arguments.name} from {visible(shown_path(written))}\n")
    return 0


def _login(arguments: argparse.Namespace, root: Path, out: TextIO) -> int:
    from tools.sources.mcp.login_store import LoginBusy, LoginStore

    config = _server(arguments, root)
    if not config.url:
        raise UserError(f"{config.name} is a command: only servers with a url have a login")
    store = LoginStore(config)
    try:
        if arguments.forget:
            existed = asyncio.run(store.forget())
            out.write("The login is deleted.\n" if existed else "There was no login.\n")
            return 0
        return _log_in(config, store, out)
    except LoginBusy as error:
        raise UserError(str(error)) from None


def _log_in(config: ServerConfig, store: LoginStore, out: TextIO) -> int:
    from agent.ui.browser import open_browser
    from tools.sources.mcp import sdk
    from tools.sources.mcp.authorization import without
    from tools.sources.mcp.login import LoginFailed, log_in, scopes_in

    asked = ""

    def show(url: str) -> None:
        nonlocal asked
        asked = scopes_in(url)
        scopes = f" with the scopes {visible(asked)}" if asked else ""
        out.write(f"Log in to {config.name} in the browser{scopes}:\n  {url}\n")
        out.flush()
        if not open_browser(url):
            out.write("No browser could be started: open the address yourself.\n")
            out.flush()

    if urlsplit(config.url).scheme == "http" and not is_loopback(config.host):
        out.write(
            f"{config.name} is asked without encryption: who is between can take the login.\n"
        )
    sdk.load()
    try:
        login = asyncio.run(log_in(config, show, log.learn))
    except LoginFailed as error:
        raise UserError(f"not logged in to {config.name}: {visible(str(error))}") from None
    if not login.token:
        out.write(f"{config.name} wants no login.\n")
        return 0
    out.write(f"Logged in to {config.name}. The login is kept in {visible(store.place)}\n")
    missing = without(asked, login.scopes)
    if missing:
        out.write(f"The server did not give all scopes; missing: {visible(missing)}\n")
    return 0


def _logs(arguments: argparse.Namespace, root: Path, out: TextIO) -> int:
    data = read_log(arguments.name)
    if not data:
        raise UserError(f"there is no log of an MCP server {arguments.name!r}")
    out.write(clean(data))
    return 0
