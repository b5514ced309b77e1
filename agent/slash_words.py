"""What may follow a slash command, word by word: offered while it is typed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

from tools.engine.output import sanitize
from tools.permissions.mode import Mode

if TYPE_CHECKING:
    from agent.chat import Chat

Words: TypeAlias = list[tuple[str, str]]
"""Words and what each means."""

_FIRST: dict[str, Words] = {
    "tools": [
        ("list", "all tools and what each costs"),
        ("enable", "use a tool from the next request on"),
        ("disable", "take a tool out of the next request"),
        ("info", "what the model sees of a tool"),
        ("tokens", "where the tokens go"),
        ("usage", "calls of each tool in the last sessions"),
    ],
    "permissions": [
        ("allow", "add a rule for this session"),
        ("ask", "add a rule for this session"),
        ("deny", "add a rule for this session"),
        ("mode", ", ".join(Mode)),
        ("why", "what decided the last calls"),
    ],
    "mcp": [
        ("list", "all servers, or their tools"),
        ("accept", "use the tools of a server as they are now"),
        ("restart", "connect anew"),
    ],
    "team": [("accept", "use what was shown"), ("sync", "ask the team's server now")],
    "jobs": [
        ("show", "what a job printed"),
        ("stop", "end a job with everything it started"),
        ("start", "run a command of yours in the background"),
        ("tool", "run a tool in the background"),
    ],
}


_CONCERNS = {"info": None, "enable": False, "disable": True, "tool": True}
"""Whether what `/tools` and `/jobs` do concerns tools that are on: None for all."""


def following(chat: Chat, name: str, before: Sequence[str]) -> Words:
    """Return what may come after the command `name` and the words `before`."""
    match [name, *before]:
        case [_]:
            return [*_FIRST.get(name, ()), *(_servers(chat) if name == "mcp" else ())]
        case ["tools", action, *_] | ["jobs", "tool" as action] if action in _CONCERNS:
            return _tools(chat, _CONCERNS[action])
        case ["permissions", "mode"]:
            return [(mode, "") for mode in Mode]
        case ["mcp", "accept" | "restart"]:
            return _servers(chat)
        case ["jobs", "show" | "stop"]:
            return [(job.id, f"{sanitize(job.title)}: {job.state}") for job in chat.jobs.all()]
    return []


def _tools(chat: Chat, on: bool | None) -> Words:
    """Return the tools that are on, or off, or both where `on` is None."""
    return [
        (entry.definition.name, " ".join(sanitize(entry.definition.description).split()))
        for entry in chat.registry.entries()
        if on in (None, entry.enabled)
    ]


def _servers(chat: Chat) -> Words:
    return [(name, "an MCP server") for name in sorted(chat.servers.connections)]
