"""The commands typed with a leading slash: a table of name, help and handler."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from agent.model.base import ModelError
from agent.model.factory import SCRIPT
from tools.files.versions import VersionsError
from tools.formats import CODEX
from tools.permissions.mode import Mode
from tools.permissions.rules import RuleError, Verdict, parse_rule

if TYPE_CHECKING:
    from agent.chat import Chat

Handler: TypeAlias = Callable[["Chat", str], Awaitable[str]]


class LeaveChat(Exception):
    """The person wants to leave."""


@dataclass(frozen=True, slots=True)
class SlashCommand:
    """One command. `arguments` shows what may follow it."""

    name: str
    help: str
    handler: Handler
    arguments: str = ""


def is_command(text: str) -> bool:
    """Tell whether a line typed is a slash command; `//` and paths such as `/etc/hosts` are not."""
    return re.fullmatch(r"/[a-z]*(\s[^\n]*)?", text) is not None


async def run(chat: Chat, text: str) -> str:
    """Run the command in `text` (with its slash); return what to show, possibly nothing.

    Raises LeaveChat for `/exit`, and UserError.
    """
    name, _, rest = text[1:].strip().partition(" ")
    command = find(name)
    if command is None:
        return f"There is no command /{name}. /help lists them."
    try:
        return await command.handler(chat, rest.strip())
    except VersionsError as error:
        return str(error)
    except ModelError as error:
        return " ".join(filter(None, [str(error), error.next_step]))


def find(name: str) -> SlashCommand | None:
    """Return the command of this name."""
    return next((command for command in COMMANDS if command.name == name), None)


async def _help(chat: Chat, _: str) -> str:
    width = max(len(f"/{c.name} {c.arguments}".rstrip()) for c in COMMANDS)
    lines = [f"{f'/{c.name} {c.arguments}'.rstrip():<{width}}  {c.help}" for c in COMMANDS]
    keys = [
        "!command      run a command yourself; the model sees its output with your next message",
        "@path         give the model a file with your message",
        "Alt-Enter     new line (also Ctrl-J)      Ctrl-G   write in your editor",
        f"Shift-Tab     next mode: {', '.join(Mode)}",
        "Up, Ctrl-R    earlier messages            Esc, Ctrl-C  stop the model",
        "Ctrl-D        leave",
    ]
    return "\n".join([*lines, "", *keys])


async def _tools(chat: Chat, rest: str) -> str:
    await chat.look_again()
    return chat.tools.run(rest.split()).text


async def _model(chat: Chat, rest: str) -> str:
    if rest:
        chat.use_model(rest)
    place = "" if chat.model_name.startswith(SCRIPT) else f" ({chat.base_url})"
    return f"Model: {chat.model_name or 'none chosen'}{place}"


async def _permissions(chat: Chat, rest: str) -> str:
    verb, _, argument = rest.partition(" ")
    if verb == "why":
        return "\n".join(chat.decisions) or "No call was decided yet."
    if verb == "mode":
        return _set_mode(chat, argument)
    if rest and verb not in tuple(Verdict):
        return f"/permissions does not know {rest!r}; it takes why, mode NAME, or a rule to add."
    if verb in tuple(Verdict):
        try:
            chat.gate.rules.add(parse_rule(Verdict(verb), argument, "/permissions, this session"))
        except RuleError as error:
            return str(error)
        return f"From now on in this session: {verb} {argument}"
    return _permissions_overview(chat)


def _set_mode(chat: Chat, name: str) -> str:
    if name not in tuple(Mode):
        return f"There is no mode {name!r}; there are {', '.join(Mode)}."
    chat.gate.mode = Mode(name)
    return f"Mode: {name}"


def _permissions_overview(chat: Chat) -> str:
    rules = [f"  {rule.verdict:<6}{rule.text}  ({rule.origin})" for rule in chat.gate.rules]
    lines = [f"Mode: {chat.gate.mode}"]
    if chat.gate.skip_permissions:
        lines.append("Questions are skipped: --dangerously-skip-permissions")
    lines += ["Rules:", *(rules or ["  none: reads in this directory are allowed, the rest asks"])]
    lines += [
        "",
        "/permissions allow|ask|deny RULE   add a rule for this session",
        f"/permissions mode NAME             {', '.join(Mode)}",
        "/permissions why                   what decided the last calls",
    ]
    return "\n".join(lines)


async def _mcp(chat: Chat, rest: str) -> str:
    if rest.split() not in ([], ["list"], ["list", "tools"]):
        return f"/mcp does not know {rest!r}; it takes list tools."
    await chat.look_again()
    tools = [entry for entry in chat.registry.entries() if entry.definition.origin.format == CODEX]
    lines = ["MCP servers: none is configured; this version connects to none."]
    lines += ["Tools of config.toml, which need no server:" if tools else _NO_CONFIG_TOOLS]
    width = max((len(entry.definition.name) for entry in tools), default=0)
    for entry in tools:
        tool = entry.definition
        off = "" if entry.enabled else f" (off: {entry.reason})"
        lines.append(f"  {tool.name:<{width}}  {' '.join(tool.description.split())}{off}")
    return "\n".join(lines)


_NO_CONFIG_TOOLS = (
    "Tools of config.toml: none. A table [custom_tools.NAME] in .opta/config.toml or "
    "~/.codex/config.toml makes one."
)


async def _clear(chat: Chat, _: str) -> str:
    return chat.clear()


async def _compact(chat: Chat, rest: str) -> str:
    return await chat.compact(rest)


async def _undo(chat: Chat, _: str) -> str:
    return await chat.restore_files(undoing=True)


async def _redo(chat: Chat, _: str) -> str:
    return await chat.restore_files(undoing=False)


async def _resume(chat: Chat, rest: str) -> str:
    return chat.resume(rest)


async def _cost(chat: Chat, _: str) -> str:
    usage = chat.conversation.usage
    cost = chat.prices.cost_usd(usage)
    about = "about " if usage.estimated else ""
    unknown = "unknown (set price_input and price_output, in dollars per million tokens)"
    return (
        f"Requests: {usage.requests}\n"
        f"Input:    {about}{usage.input:,} tokens ({usage.cached:,} from the cache)\n"
        f"Output:   {about}{usage.output:,} tokens\n"
        f"Context:  about {chat.conversation.context_tokens:,} of "
        f"{chat.limits.context_window:,} tokens\n"
        f"Cost:     {unknown if cost is None else f'${cost:.4f}'}"
    )


async def _exit(chat: Chat, _: str) -> str:
    raise LeaveChat


COMMANDS: tuple[SlashCommand, ...] = (
    SlashCommand("help", "show the commands and keys", _help),
    SlashCommand(
        "tools",
        "list tools with their cost, switch them on and off",
        _tools,
        "[list|enable|disable|info|tokens]",
    ),
    SlashCommand("mcp", "list the tools of config.toml", _mcp, "[list tools]"),
    SlashCommand("model", "show the model, or use another", _model, "[NAME]"),
    SlashCommand(
        "permissions", "show the mode and the rules, add rules", _permissions, "[why|mode|allow|…]"
    ),
    SlashCommand("clear", "start over with an empty conversation", _clear),
    SlashCommand("compact", "summarise the conversation to make room", _compact, "[what to keep]"),
    SlashCommand("undo", "take back what the last turn changed in files", _undo),
    SlashCommand("redo", "put again what was taken back", _redo),
    SlashCommand("resume", "go on with an earlier session", _resume, "[ID]"),
    SlashCommand("cost", "show tokens and cost of this session", _cost),
    SlashCommand("exit", "leave; the session can be resumed", _exit),
)
