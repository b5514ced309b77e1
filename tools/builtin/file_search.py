"""`file_search`: finds text in files, or files by name."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import prompts
from tools.builtin.findings import Findings
from tools.builtin.kit import Builtin, Services, define
from tools.builtin.ripgrep import ripgrep
from tools.builtin.running import program_path, time_limit
from tools.builtin.search import BUDGET_S, Clock, Request, is_expression, search
from tools.definition import (
    EffectKind,
    Invocation,
    JsonObject,
    Progress,
    ResolvedCall,
    Risk,
    TextDisplay,
    ToolError,
    ToolResult,
)
from tools.engine.output import visible
from tools.files.globs import GlobProblem, Globs
from tools.files.walk import KERNEL_TREES
from tools.files.workspace import FileMissing, FileProblem, Workspace
from tools.permissions.grant import Grant
from tools.permissions.rules import Rule, RuleSet

DEFAULT_LIMIT = 100
MAX_LIMIT = 1000

ALIASES = {
    "query": "pattern", "regex": "pattern", "search": "pattern", "text": "pattern",
    "directory": "path", "dir": "path", "target": "mode", "type": "mode",
    "max_results": "limit", "head_limit": "limit", "file_pattern": "glob",
}  # fmt: skip


def tool() -> Builtin:
    """Return the built-in."""
    definition = define(
        "file_search",
        prompts.load("tools/file_search"),
        {
            "pattern": {"type": "string", "description": "What to find"},
            "mode": {"type": "string", "enum": ["grep", "glob", "regex"]},
            "path": {"type": "string", "description": "Directory or file, default the root"},
            "glob": {"type": "string", "description": "Only these files, e.g. *.{ts,tsx}"},
            "limit": {"type": "integer", "description": f"Default {DEFAULT_LIMIT}"},
        },
        ["pattern"],
        risk=Risk.LOW,
        declared_token_cost=280,
        metadata={"tags": ["read"]},
    )
    return Builtin(definition, prepare, ALIASES)


def prepare(call: ResolvedCall, services: Services) -> Invocation:
    """Say where is searched. Raises ToolError for bad arguments, FileProblem for a bad path."""
    workspace, arguments = services.workspace, call.arguments
    asked = arguments.get("path") or "."
    request = _request(arguments, workspace, asked)
    request = replace(
        request,
        budget_s=time_limit(services.max_execution_ms, round(BUDGET_S * 1000))[0] / 1000,
        kept_by=_keeper(services.rules, request.place),
    )
    what = _what(arguments, workspace, request)

    async def run(grant: Grant, progress: Progress) -> ToolResult:
        grant.check(call)
        _check_place(workspace, request.place)
        # rg knows nothing of permission rules, and a count of its hits would tell of them. A file
        # that is named it would read whole, however large.
        by_rg = (
            request.names is None
            and request.place.is_dir()
            # The root holds trees of the kernel's, which only the search of our own leaves out.
            and request.place != Path(request.place.anchor)
            and not services.rules.kept_below(request.place)
        )
        program = program_path("rg", services) if by_rg else None

        async def look(wanted: Request) -> Findings:
            found = program and await ripgrep(grant, call, services, program, wanted)
            return found or await _search_here(wanted)

        return ToolResult((await _find(request, arguments, look)).text(what))

    return Invocation(
        title=visible(f"Search {what}"),
        effects=(workspace.effect(EffectKind.READ, request.place, "file_search", asked),),
        preview=TextDisplay(what),
        run=run,
    )


def _keeper(rules: RuleSet, place: Path) -> Callable[[Path], Rule | None]:
    """Return what tells why a file is left out.

    A rule that asks about the place itself was answered when this call was allowed.
    """
    answered = rules.keeping_from(place)

    def keeping(path: Path) -> Rule | None:
        rule = rules.keeping_from(path)
        return None if rule == answered else rule

    return keeping


def _check_place(workspace: Workspace, place: Path) -> None:
    """Raise FileProblem when the place is not there, or is no longer what was allowed (R16)."""
    if not place.exists():
        raise FileMissing(f"There is no {workspace.shown(place)} to search in.")
    if place.resolve() != place:
        raise FileProblem(f"{workspace.shown(place)} now leads through a link. Nothing was read.")
    if any(place == tree or tree in place.parents for tree in KERNEL_TREES):
        raise FileProblem(
            f"{workspace.shown(place)} is not searched: the kernel makes what is read there. "
            "Use run_command."
        )
    if not place.is_dir():
        # Says why a pipe, a device or the memory of a process is not searched (R20).
        with workspace.open(place):
            pass


async def _search_here(request: Request) -> Findings:
    clock = Clock(time.monotonic() + request.budget_s)
    try:
        return await asyncio.to_thread(search, request, clock)
    finally:
        clock.cancelled.set()


async def _find(
    request: Request, arguments: JsonObject, look: Callable[[Request], Awaitable[Findings]]
) -> Findings:
    """Search; what is no expression, or finds nothing as one, is looked for as plain text."""
    if arguments.get("mode", "grep") != "grep" or not is_expression(request.pattern):
        return await look(request)
    as_text = replace(request, literal=True)
    try:
        findings = await look(request)
    except ToolError:
        return await look(as_text)
    if findings.total or findings.stopped:
        return findings
    literal = await look(as_text)
    literal.note = "[found as plain text, not as an expression]" if literal.total else ""
    return literal


def _request(arguments: JsonObject, workspace: Workspace, asked: str) -> Request:
    pattern, mode = arguments["pattern"], arguments.get("mode", "grep")
    if not pattern:
        raise ToolError("The pattern is empty. Nothing was searched.")
    limit = arguments.get("limit", DEFAULT_LIMIT)
    if not 1 <= limit <= MAX_LIMIT:
        raise ToolError(f"limit is {limit}: it must be from 1 to {MAX_LIMIT}.")
    place = workspace.resolve(asked)
    base = place if place.is_dir() else place.parent
    include = _texts(arguments.get("glob")) + _texts(arguments.get("include"))
    try:
        return Request(
            pattern,
            place,
            workspace.root,
            limit,
            prefix="" if base == workspace.root else f"{workspace.shown(base)}/",
            literal=mode == "grep" and not is_expression(pattern),
            across=mode == "regex",
            names=Globs([pattern]) if mode == "glob" else None,
            include=_globs(include),
            exclude=_globs(_texts(arguments.get("exclude"))),
            ending=include[0] if len(include) == 1 else "",
        )
    except GlobProblem as error:
        raise ToolError(f"{error} Nothing was searched.") from None


def _texts(value: Any) -> list[str]:
    """Return the documented list form, or the single text models also send."""
    items = value if isinstance(value, list) else [value]
    return [item for item in items if isinstance(item, str) and item]


def _globs(patterns: list[str]) -> Globs | None:
    return Globs(patterns) if patterns else None


def _what(arguments: JsonObject, workspace: Workspace, request: Request) -> str:
    place = "the project" if request.place == workspace.root else workspace.shown(request.place)
    what = f"{arguments['pattern']!r} ({arguments.get('mode', 'grep')}) in {place}"
    for name in ("glob", "include", "exclude"):
        if patterns := _texts(arguments.get(name)):
            what += f", {name} {' '.join(patterns)}"
    return what
