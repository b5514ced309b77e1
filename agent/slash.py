"""The commands typed with a leading slash: a table of name, help and handler."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from difflib import get_close_matches
from typing import TYPE_CHECKING, TypeAlias

from agent import jobs_chat, undo_chat, user_commands
from agent.model.base import ModelError
from agent.model.factory import SCRIPT
from prompts import load
from tools.definition import ToolError
from tools.engine.output import sanitize
from tools.files.versions import VersionsError
from tools.permissions.mode import Mode
from tools.permissions.rules import RuleError, Verdict, parse_rule
from tools.record import record

if TYPE_CHECKING:
    from agent.chat import Chat

PROMPT = re.compile(r"mcp__[A-Za-z0-9_-]+?__[\w.-]+")
"""A prompt of an MCP server, typed as a command."""

_NAME = r"[A-Za-z][A-Za-z0-9_-]*"

Handler: TypeAlias = Callable[["Chat", str], Awaitable[str]]


class LeaveChat(Exception):
    """The person wants to leave."""


@record
class SlashCommand:
    """One command. `arguments` shows what may follow it, `aliases` are its other names."""

    name: str
    help: str
    handler: Handler
    arguments: str = ""
    aliases: tuple[str, ...] = ()


ELSEWHERE = {
    "add-dir": "name the file or directory; what lies outside the project asks",
    "agents": "there are none; `opta loop SPEC.md` works on a spec with fresh context each time",
    "config": "`opta config show` and `opta config set KEY VALUE`, in a shell or behind !",
    "context": "the bottom line tells how full it is, /tools tokens what the tools take of it",
    "copy": "`opta sessions export` writes the conversation, in a shell or behind !",
    "diff": "!git diff shows what has changed",
    "doctor": "`opta doctor`, in a shell or behind !",
    "export": "`opta sessions export` writes the conversation, in a shell or behind !",
    "hooks": "they are settings: pre_tool_hooks, tool_hook_command, stop_hook_command",
    "login": "the key for the model's server comes from OPENAI_API_KEY",
    "memory": "what the model should always know goes into AGENTS.md; /init writes one",
    "review": "~/.config/opta/commands/review.md makes it a command of your own",
    "status": "the bottom line has mode, model and context; /cost, /permissions, /mcp the rest",
    "theme": "the terminal's own colours are used",
    "vim": "Ctrl-G opens your editor",
}
"""What other programs have a command for, and where it is here."""


def is_command(text: str) -> bool:
    """Tell whether a line typed is a slash command; `//` and paths such as `/etc/hosts` are not."""
    return re.fullmatch(rf"/(?:{_NAME}|{PROMPT.pattern})?(\s[^\n]*)?", text) is not None


async def run(chat: Chat, text: str) -> str:
    """Run the command in `text` (with its slash); return what to show, possibly nothing.

    Raises LeaveChat for `/exit`, and UserError.
    """
    name, _, rest = text[1:].strip().partition(" ")
    if PROMPT.fullmatch(name):
        return await _prompt(chat, name, rest)
    command = find(name)
    if command is None:
        return await _own(chat, name.lower(), rest.strip())
    try:
        return await command.handler(chat, rest.strip())
    except VersionsError as error:
        return str(error)
    except ModelError as error:
        return " ".join(filter(None, [str(error), error.next_step]))


def find(name: str) -> SlashCommand | None:
    """Return the command of this name, in small or large letters."""
    name = name.lower()
    return next((c for c in COMMANDS if name in (c.name, *c.aliases)), None)


def offered() -> list[tuple[str, str]]:
    """Return name and help of opta's commands and the person's own."""
    return [(command.name, command.help) for command in COMMANDS] + _own_commands()


def _own_commands() -> list[tuple[str, str]]:
    return [(name, sanitize(says)) for name, says in user_commands.listed() if find(name) is None]


async def _own(chat: Chat, name: str, rest: str) -> str:
    """Send the text of a command of the person's own as their message."""
    command = user_commands.find(name)
    if command is None:
        if name in ELSEWHERE:
            return f"There is no command /{name}: {ELSEWHERE[name]}."
        near = get_close_matches(name, [known for known, _ in offered()], 1)
        meant = f" (did you mean /{near[0]}?)" if near else ""
        return f"There is no command /{name}{meant}. /help lists them."
    await chat.say(command.message(rest))
    return ""


async def _prompt(chat: Chat, name: str, rest: str) -> str:
    """Send the text of a server's prompt as the person's message."""
    from agent.mcp_chat import prompt_message

    await chat.servers.ready(chat.server_wait_s, chat.notice)
    try:
        text = await prompt_message(chat.servers, name, rest)
    except ToolError as error:
        return str(error)
    await chat.say(text, typed=rest)
    return ""


async def _help(chat: Chat, _: str) -> str:
    listed = [(f"/{c.name} {c.arguments}".rstrip(), c.help) for c in COMMANDS]
    listed += [(f"/{name}", says) for name, says in _own_commands()]
    width = max(len(typed) for typed, _ in listed)
    lines = [f"{typed:<{width}}  {says}" for typed, says in listed]
    keys = [
        "!command      run a command yourself; your next message takes its output along",
        "@path         hand over a file with your message; @server:uri: one of MCP",
        "Alt-Enter     new line (also Ctrl-J)      Ctrl-G   write in your editor",
        f"Shift-Tab     next mode: {', '.join(Mode)}",
        "Up, Ctrl-R    earlier messages            Ctrl-O   show shortened output whole",
        "Esc, Ctrl-C   stop the model              Ctrl-D   leave",
        "Esc Esc       go back to a message        Ctrl-V   paste an image, or text",
    ]
    return "\n".join([*lines, "", *keys])


async def _init(chat: Chat, rest: str) -> str:
    await chat.say("\n\n".join(filter(None, [load("init"), rest])), typed=rest)
    return ""


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
    allowlist = chat.gate.allowlist()
    if allowlist is not None:
        lines.append(f"Commands that {allowlist.owner} allows: {allowlist.shown}")
    lines += ["Rules:", *(rules or ["  none: reads in this directory are allowed, the rest asks"])]
    lines += [
        "",
        "/permissions allow|ask|deny RULE   add a rule for this session",
        f"/permissions mode NAME             {', '.join(Mode)}",
        "/permissions why                   what decided the last calls",
    ]
    return "\n".join(lines)


async def _team(chat: Chat, rest: str) -> str:
    from agent.team_chat import run_team

    await chat.look_again()
    return await run_team(chat, rest.split())


async def _mcp(chat: Chat, rest: str) -> str:
    from agent.mcp_chat import run_mcp

    await chat.look_again()
    return await run_mcp(chat, rest.split())


async def _clear(chat: Chat, _: str) -> str:
    return chat.clear()


async def _compact(chat: Chat, rest: str) -> str:
    return await chat.compact(rest)


async def _undo(chat: Chat, _: str) -> str:
    return await undo_chat.restore_last(chat, undoing=True)


async def _redo(chat: Chat, _: str) -> str:
    return await undo_chat.restore_last(chat, undoing=False)


async def _resume(chat: Chat, rest: str) -> str:
    return chat.resume(rest)


async def _rewind(chat: Chat, _: str) -> str:
    return "/rewind takes no words: it lists your messages, and you choose one."


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
        "[info|tokens|…]",
    ),
    SlashCommand("mcp", "show MCP servers and their tools", _mcp, "[NAME|accept|…]"),
    SlashCommand("team", "show the team's tools, use what changed", _team, "[accept|sync]"),
    SlashCommand("model", "show the model, or use another", _model, "[NAME]"),
    SlashCommand(
        "permissions", "show the mode and the rules, add rules", _permissions, "[why|mode|…]"
    ),
    SlashCommand("clear", "start over with an empty conversation", _clear, aliases=("new",)),
    SlashCommand("compact", "summarise the conversation to make room", _compact, "[what to keep]"),
    SlashCommand("undo", "take back what the last turn changed in files", _undo),
    SlashCommand("redo", "put again what was taken back", _redo),
    SlashCommand("rewind", "go back to an earlier message, files too", _rewind),
    SlashCommand("resume", "go on with an earlier session", _resume, "[ID]"),
    SlashCommand("jobs", "what runs in the background", jobs_chat.jobs, "[show|stop|start|tool]"),
    SlashCommand("cost", "show tokens and cost of this session", _cost),
    SlashCommand("init", "let the model write AGENTS.md for this project", _init, "[what to say]"),
    SlashCommand("exit", "leave; the session can be resumed", _exit, aliases=("quit",)),
)
