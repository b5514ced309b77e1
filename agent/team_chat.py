"""The team's tools in the chat: `/team` shows what waits, `/team accept` uses what was shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from agent.team import status_lines
from agent.ui.ansi import Colour
from agent.ui.trust import describe_waiting
from agent.ui.wrap import UNWRAPPED
from tools.engine.output import visible
from tools.storage import StorageError

if TYPE_CHECKING:
    from agent.chat import Chat
    from tools.sources.team.tools import TeamTools, Waiting

_NO_TEAM = "No team is set up. `opta team --help` says what goes into your settings."


async def run_team(chat: Chat, words: Sequence[str]) -> str:
    """Do what the words after `/team` say; return what to show."""
    from tools.sources.team.answer import TeamError

    team = chat.team
    if team is None:
        return _NO_TEAM
    try:
        match list(words):
            case []:
                return _overview(team)
            case ["sync"]:
                changed = await team.sync()
                return _taken_over(chat, "Something new." if changed else "Nothing new.")
            case ["accept", *names]:
                return _accept(chat, team, names)
    except (TeamError, StorageError) as error:
        return visible(f"team {team.config.name}: {error}")
    return f"/team does not know {' '.join(words)!r}; it takes sync, accept [NAME ...]."


def _overview(team: TeamTools) -> str:
    lines = status_lines(team)
    waiting = team.state().waiting
    if waiting:
        lines += [_shown(team, waiting), "Use it exactly as shown: /team accept [NAME ...]"]
    return "\n".join(lines)


def _accept(chat: Chat, team: TeamTools, names: Sequence[str]) -> str:
    """Accept what was shown; what was not is shown instead (R28)."""
    wanted = team.named(names)
    if not wanted:
        return "Nothing waits to be accepted."
    unseen = [one for one in wanted if one not in team.shown]
    if unseen:
        again = " ".join(["/team accept", *names])
        return f"{_shown(team, unseen)}\nNothing is accepted yet. {again} uses it as shown."
    team.accept(wanted)
    told = ", ".join(name for one in wanted for name in one.names)
    return _taken_over(chat, f"Accepted: {visible(told)}")


def _shown(team: TeamTools, waiting: Sequence[Waiting]) -> str:
    team.shown = frozenset([*team.shown, *waiting])
    return describe_waiting(team.config.name, waiting, UNWRAPPED, Colour.PLAIN)


def _taken_over(chat: Chat, told: str) -> str:
    return "\n".join([told, *chat.registry.refresh()])
