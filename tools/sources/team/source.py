"""Where the answers of a team come from: a server, a directory, or a git checkout at a commit."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeAlias

from tools.actions import PlanAction
from tools.definition import (
    Effect,
    EffectKind,
    Invocation,
    Origin,
    ResolvedCall,
    Source,
    TextDisplay,
    ToolDefinition,
    ToolResult,
)
from tools.engine.environment import child_environment
from tools.files.programs import path_outside
from tools.permissions.gate import PermissionGate
from tools.permissions.grant import Grant
from tools.record import record
from tools.sources.team.answer import TeamAnswer, TeamDirectory, TeamError, parse_answer
from tools.sources.team.config import TeamConfig
from tools.sources.team.store import LastAnswer

TOOL = "team_sync"
"""What permission rules know the reading of a team source as."""


@record
class FreshAnswer:
    """An answer that was just read, and the tag it came with."""

    answer: TeamAnswer
    etag: str = ""


Fetch: TypeAlias = Callable[[LastAnswer | None], Awaitable[FreshAnswer | None]]
"""Reads the source; None says that the last answer still holds. Raises TeamError."""


def fetch_from(config: TeamConfig, token: Callable[[], str], gate: PermissionGate) -> Fetch:
    """Return what reads a source. `token` may be slow; deny rules of the gate hold."""
    if config.directory is None:
        return _from_server(config, token, gate)
    if config.revision:
        return _from_checkout(config, config.directory, gate)
    directory = TeamDirectory(config.directory, config.name)

    async def read(last: LastAnswer | None) -> FreshAnswer:
        return FreshAnswer(await asyncio.to_thread(directory.read))

    return read


def _from_server(config: TeamConfig, token: Callable[[], str], gate: PermissionGate) -> Fetch:
    async def fetch(last: LastAnswer | None) -> FreshAnswer | None:
        from tools.sources.team.http import fetch as fetch_body

        _permitted(config, gate, Effect(EffectKind.NETWORK, config.host, TOOL))
        etag = last.etag if last is not None else ""
        fetched = await fetch_body(config, await asyncio.to_thread(token), etag)
        if fetched is None:
            return None
        answer = await asyncio.to_thread(parse_answer, fetched.body, config.org)
        if last is not None:
            _check_order(answer, fetched.etag, last)
        return FreshAnswer(answer, fetched.etag)

    return fetch


def _check_order(answer: TeamAnswer, etag: str, last: LastAnswer) -> None:
    """Raise TeamError for an answer that contradicts the last one, or is older than it."""
    if answer.digest == last.answer.digest:
        return
    if etag and etag == last.etag:
        raise TeamError("it answered with other tools under the same ETag")
    if answer.serial < last.answer.serial:
        raise TeamError(
            f"it answered with an older version (serial {answer.serial}, before it was "
            f"{last.answer.serial}); if that is right: `opta team sync --anew`"
        )


def _from_checkout(config: TeamConfig, directory: Path, gate: PermissionGate) -> Fetch:
    async def read(last: LastAnswer | None) -> FreshAnswer:
        from tools.sources.team.checkout import Checkout

        command = f"git -C {directory} cat-file --batch"
        call, grant = _permitted(config, gate, Effect(EffectKind.EXECUTE, command, TOOL))
        env = child_environment(os.environ)
        env |= {"PATH": path_outside(env.get("PATH", os.defpath), gate.rules.root)}
        checkout = Checkout(directory, env, grant, call)
        return FreshAnswer(await checkout.read(config.revision, config.name))

    return read


def _permitted(
    config: TeamConfig, gate: PermissionGate, effect: Effect
) -> tuple[ResolvedCall, Grant]:
    """Let the gate allow what the person has configured. Raises TeamError where a rule denies."""
    title = f"read the tools of the team {config.name}"
    tool = ToolDefinition(TOOL, "", {}, PlanAction(()), Origin(Source.TEAMS, "team"))

    async def run(grant: Grant, progress: object) -> ToolResult:
        raise NotImplementedError  # reading a source is no call with a result

    call = ResolvedCall(TOOL, tool, {"place": config.place})
    invocation = Invocation(title, (effect,), TextDisplay(title), run)
    decision = gate.authorise_configured(call, invocation, "configured under teams")
    if decision.grant is None:
        raise TeamError(f"reading it is denied by {decision.by}")
    return call, decision.grant
