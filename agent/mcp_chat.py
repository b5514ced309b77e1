"""MCP servers in the chat: `/mcp`, and their prompts as commands."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from agent import log
from tools.actions import McpAction
from tools.definition import ToolError
from tools.engine.output import one_line, visible
from tools.formats import CODEX
from tools.sources.mcp.catalog import ServerPrompt
from tools.sources.mcp.config import ServerConfig
from tools.sources.mcp.connection import Connection, State
from tools.sources.mcp.pending import CallTimeout
from tools.sources.mcp.servers import McpServers
from tools.storage import StorageError

if TYPE_CHECKING:
    from agent.chat import Chat
    from tools.advertising import ToolEntry

_NO_CONFIG_TOOLS = (
    "Tools of config.toml: none. A table [custom_tools.NAME] in .opta/config.toml or "
    "~/.codex/config.toml makes one."
)
_DESCRIPTION_CHARS = 100
_NO_SERVERS = "MCP servers: none is configured. Add one: opta mcp add NAME -- COMMAND"


async def run_mcp(chat: Chat, words: Sequence[str]) -> str:
    """Do what the words after `/mcp` say; return what to show."""
    servers = chat.servers
    match list(words):
        case [] | ["list"]:
            return _overview(chat)
        case ["list", "tools"]:
            return _tools(chat)
        case ["accept", name] if name in servers.connections:
            return _accept(chat, name)
        case ["restart", name] if name in servers.connections:
            await servers.restart(name)
            return f"MCP server {name} is started again."
        case [name] if name in servers.connections:
            return _details(chat, servers.connections[name])
    return _not_known(servers, words)


def _not_known(servers: McpServers, words: Sequence[str]) -> str:
    known = ", ".join(servers.connections) or "none"
    if len(words) == 2 and words[0] in ("accept", "restart"):
        return f"There is no MCP server {words[1]!r}; there are: {known}."
    return (
        f"/mcp does not know {' '.join(words)!r}; it takes a server ({known}), list tools, "
        "accept NAME, restart NAME."
    )


def prompt_commands(servers: McpServers) -> list[tuple[str, str]]:
    """Return the prompts of all servers as slash commands: name and help."""
    return [
        (f"mcp__{name}__{prompt.name}", prompt.description or _usage(prompt))
        for name, connection in servers.connections.items()
        for prompt in connection.catalog.prompts
    ]


def resource_references(servers: McpServers) -> list[tuple[str, str]]:
    """Return what follows an `@` that hands a resource over, and what each is."""
    return [
        (f"{name}:{resource.uri}", resource.description or resource.name)
        for name, connection in servers.connections.items()
        for resource in connection.catalog.resources
        # A template has places to fill in first.
        if "{" not in resource.uri
    ]


async def prompt_message(servers: McpServers, command: str, rest: str) -> str:
    """Return the message that a prompt typed as a command stands for. Raises ToolError.

    Arguments are `name=value`, or values in the order of the prompt's arguments.
    """
    connection, prompt = _find_prompt(servers, command)
    try:
        text = await connection.prompt_text(prompt.name, _arguments(prompt, command, rest))
    except CallTimeout:
        raise ToolError(f"{connection.config.name} did not answer in time.") from None
    return text or "(the prompt is empty)"


def _find_prompt(servers: McpServers, command: str) -> tuple[Connection, ServerPrompt]:
    for name, connection in servers.connections.items():
        for prompt in connection.catalog.prompts:
            if command == f"mcp__{name}__{prompt.name}":
                return connection, prompt
    raise ToolError(f"There is no prompt /{command}. /mcp shows the servers.")


def _arguments(prompt: ServerPrompt, command: str, rest: str) -> dict[str, str]:
    try:
        words = shlex.split(rest)
    except ValueError as error:
        raise ToolError(f"The arguments cannot be read: {error}.") from None
    names = [name for name, _ in prompt.arguments]
    given: dict[str, str] = {}
    open_names = list(names)
    for position, word in enumerate(words):
        name, equals, value = word.partition("=")
        if not equals or name not in names:
            if not open_names:
                raise ToolError(f"Too many arguments. Usage: /{command} {_usage(prompt)}".rstrip())
            # The last argument takes the rest of the line: people write sentences.
            last = len(open_names) == 1 and all("=" not in w for w in words[position:])
            name, value = open_names[0], " ".join(words[position:]) if last else word
            if last:
                given[name] = value
                break
        given[name] = value
        if name in open_names:
            open_names.remove(name)
    missing = [name for name, required in prompt.arguments if required and name not in given]
    if missing:
        raise ToolError(f"Missing: {', '.join(missing)}. Usage: /{command} {_usage(prompt)}")
    return given


def _usage(prompt: ServerPrompt) -> str:
    return " ".join(
        f"{name}=…" if required else f"[{name}=…]" for name, required in prompt.arguments
    )


def _overview(chat: Chat) -> str:
    connections = chat.servers.connections
    if not connections:
        return _NO_SERVERS
    width = max(map(len, connections))
    lines = ["MCP servers:"]
    for name in sorted(connections):
        connection = connections[name]
        lines.append(f"  {name:<{width}}  {_state(chat, connection)}")
    lines += [
        "",
        "/mcp NAME            tools, prompts, resources of a server",
        "/mcp list tools      every tool that is not built in",
        "/mcp restart NAME    connect anew",
        "opta mcp logs NAME   what a server printed",
    ]
    return "\n".join(lines)


def _state(chat: Chat, connection: Connection) -> str:
    if connection.state is not State.READY:
        return f"{connection.state}{f': {connection.error}' if connection.error else ''}"
    entries = _entries(chat, connection.config.name)
    on = [entry.definition.wire for entry in entries if entry.enabled]
    catalog = connection.catalog
    counts = [f"{len(on)} of {len(entries)} tools on, {chat.tools.tokens_of(on):,} tokens"]
    numbers = {
        "prompt": len(catalog.prompts), "resource": len(catalog.resources),
        "call": connection.calls, "unusable tool": len(catalog.refused),
    }  # fmt: skip
    counts += [f"{number} {noun}{'s' * (number > 1)}" for noun, number in numbers.items() if number]
    changed = chat.servers.review(connection.config.name).changed
    if changed:
        counts.append(f"{len(changed)} changed: /mcp accept {connection.config.name}")
    return f"ready: {', '.join(counts)}"


def _entries(chat: Chat, server: str) -> list[ToolEntry]:
    return [
        entry for entry in chat.registry.entries()
        if isinstance(entry.definition.action, McpAction)
        and entry.definition.action.server == server
    ]  # fmt: skip


def _details(chat: Chat, connection: Connection) -> str:
    config, catalog = connection.config, connection.catalog
    lines = [
        f"MCP server {config.name} ({config.place})",
        *describe(config),
        f"  {_state(chat, connection)}",
    ]
    entries = _entries(chat, config.name)
    lines += ["Tools:", *_tool_lines(entries)] if entries else []
    lines += [f"  not used: {line}" for line in catalog.refused]
    prompts = [f"  /mcp__{config.name}__{p.name} {_usage(p)}".rstrip() for p in catalog.prompts]
    lines += ["Prompts:", *prompts] if prompts else []
    resources = [f"  @{config.name}:{r.uri}  {r.name}" for r in catalog.resources]
    lines += ["Resources:", *resources] if resources else []
    review = chat.servers.review(config.name)
    if review.changed:
        lines += [
            f"Changed since you accepted them, and not used until /mcp accept {config.name}:",
            review.diff.rstrip("\n"),
        ]
    return "\n".join(lines)


def describe(config: ServerConfig) -> list[str]:
    """Return lines that say what a server runs or where it is, without the values of secrets."""
    if config.url:
        lines = [f"  url: {visible(log.shown(config.url))}"]
        if config.login.client_id:
            lines.append(f"  login: as {visible(config.login.client_id)}")
        names = ", ".join(map(visible, config.headers))
        return [*lines, f"  headers: {names}"] if names else lines
    lines = [f"  command: {visible(log.shown(shlex.join(config.argv)))}"]
    if config.cwd:
        lines.append(f"  cwd: {visible(config.cwd)}")
    if config.sandbox:
        network = "with" if config.sandbox_network else "without"
        lines.append(f"  sandbox: yes, {network} the network")
    names = ", ".join(map(visible, config.env))
    return [*lines, f"  env: {names}"] if names else lines


def _accept(chat: Chat, name: str) -> str:
    changed = chat.servers.review(name).changed
    if not changed:
        return f"Nothing of {name} is waiting to be accepted."
    try:
        chat.servers.accept(name)
    except StorageError as error:
        return str(error)
    chat.registry.refresh()
    return f"Accepted: {', '.join(changed)}"


def _tools(chat: Chat) -> str:
    entries = chat.registry.entries()
    served = [e for e in entries if isinstance(e.definition.action, McpAction)]
    codex = [e for e in entries if e.definition.origin.format == CODEX]
    lines = ["Tools of MCP servers:", *_tool_lines(served)] if served else [_no_tools(chat)]
    lines += ["Tools of config.toml, which need no server:" if codex else _NO_CONFIG_TOOLS]
    return "\n".join([*lines, *_tool_lines(codex)])


def _no_tools(chat: Chat) -> str:
    return "Tools of MCP servers: none." if chat.servers.connections else _NO_SERVERS


def _tool_lines(entries: Sequence[ToolEntry]) -> list[str]:
    width = max((len(entry.definition.name) for entry in entries), default=0)
    return [
        f"  {entry.definition.name:<{width}}  {first_line(entry.definition.description)}"
        f"{'' if entry.enabled else f' (off: {entry.reason})'}"
        for entry in entries
    ]


def first_line(text: str) -> str:
    """Return what a line of a list shows of a description."""
    return one_line(text, _DESCRIPTION_CHARS)
