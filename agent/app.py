"""Builds the object graph: the only place that knows all parts and puts them together."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from agent import log
from agent.chat import Chat, Parts, Tell
from agent.configuration import (
    hook_settings,
    mcp_configured,
    read_settings,
    surroundings_of_servers,
)
from agent.configured_model import make_model, unusable
from agent.context import MessageContext
from agent.conversation import Prices
from agent.flags import CODEX_FLAGS
from agent.instructions import FILE_NAME, ProjectInstructions
from agent.journal import BATCH, CHAT, SERVED
from agent.loop import DEFAULT_WINDOW_TOKENS, Limits
from agent.project import ProjectTrust
from agent.session import Session, find, resume, resume_newest, start
from agent.settings_values import Settings
from agent.team import team_tools
from agent.tool_registry import build_registry, build_tools_command
from agent.ui.port import Signals
from agent.undo import FileHistory
from prompts import load
from tools import storage
from tools.builtin import all_builtins, background_job
from tools.builtin.kit import Builtin, Services
from tools.definition import Invocation, ResolvedCall
from tools.engine.jobs import Jobs
from tools.executor import Hooks, ToolExecutor
from tools.files.paths import shown_name
from tools.files.workspace import Workspace, remove_unfinished
from tools.find_tools import FindTools
from tools.hooks import HookRunner
from tools.permissions.gate import PermissionGate
from tools.permissions.question import Approver
from tools.permissions.rule_review import review
from tools.permissions.rules import Rule, RuleSet
from tools.permissions.trust import ProjectFileError, Trust, TrustReport
from tools.record import record
from tools.sources.mcp.servers import WAIT_S, McpServers, Surroundings

if TYPE_CHECKING:
    from tools.sources.mcp.config import ServerConfig

AskTrust: TypeAlias = Callable[[TrustReport, str], Awaitable[Trust]]
"""Asks the person; takes what the project brings now and the diff to what was trusted."""


@record
class Options:
    """What the command line said. `flags` are settings by name; None says nothing.

    `kind` is what the session is recorded as: CHAT, BATCH for `-p`, SERVED for MCP clients,
    LOOP for iterations.
    """

    flags: dict[str, Any]
    version: str
    kind: str = CHAT

    @classmethod
    def of(cls, arguments: argparse.Namespace, kind: str = "") -> Options:
        """Take them from the parsed command line; `kind` empty: CHAT or BATCH, as it says."""
        names = {
            "model": "model",
            "base_url": "base_url",
            "api": "api",
            "mode": "mode",
            "sandbox": "sandbox",
            "max_turns": "max_turns",
            "max_tokens_total": "max_tokens_total",
            "skip_permissions": "skip_permissions",
            "allow": "permissions.allow",
            "ask": "permissions.ask",
            "deny": "permissions.deny",
            "auto_approve": "auto_approve",
            "auto_deny": "auto_deny",
            "config": "config",
        }
        names |= {name: name for name in CODEX_FLAGS}
        flags = {setting: getattr(arguments, name, None) for name, setting in names.items()}
        kind = kind or (CHAT if arguments.print is None else BATCH)
        return cls(flags, arguments.version_text, kind)


def build_chat(
    trust: ProjectTrust,
    options: Options,
    *,
    approver: Approver | None = None,
    ask_trust: AskTrust | None = None,
    session_tools: tuple[Builtin, ...] = (),
) -> Chat:
    """Put a chat together.

    `approver` and `ask_trust` None mean that nobody can be asked. `session_tools` are offered
    beside all others. Raises UserError.
    """
    root = trust.root
    settings = _settings(trust, options)
    gate = _gate(root, settings, approver)
    around = surroundings_of_servers(root, settings, gate)
    servers = McpServers(partial(mcp_configured, trust, settings), around, _open_address)
    team = team_tools(settings, gate)
    registry = build_registry(trust, settings, session_tools, servers.definitions, team)
    instructions = _instructions(trust)
    builtins = (*all_builtins(), FindTools(registry).builtin(), *session_tools)
    workspace = Workspace(root, also_readable=(storage.output_dir(),))
    files = FileHistory(workspace, gate, enabled=settings.undo)
    jobs = Jobs()
    jobs.on_start = partial(registry.offer, background_job.NAME)
    hooks, hook_problems = hook_settings(settings, root, trust.report if trust.level.runs else None)
    programs = HookRunner(hooks, gate, root, around.child_env, lambda: trust.level.runs)
    executor = ToolExecutor(
        registry,
        gate,
        {builtin.definition.name: builtin for builtin in builtins},
        _services(workspace, around, settings, None if options.kind == SERVED else jobs, servers),
        hooks=_around_calls(programs, files, instructions, options.kind),
    )
    return Chat(
        Parts(
            model_name=settings.model,
            base_url=settings.base_url,
            make_model=lambda name: make_model(settings, name),
            executor=executor,
            context=MessageContext(workspace, executor, instructions, servers),
            files=files,
            hooks=programs,
            jobs=jobs,
            servers=servers,
            team=team,
            server_wait_s=WAIT_S if options.kind == CHAT else None,
            check_project=lambda: _check_project(trust, ask_trust),
            begin_session=_session_starter(root, options),
            reopen_session=_session_opener(root, options.kind),
            limits=_limits(settings),
            system=load("system"),
            tools_command=lambda form: build_tools_command(root, registry, settings, form),
            prices=Prices(settings.price_input, settings.price_output),
            signals=Signals(settings.bell_s, settings.title),
            warnings=(*_warnings(settings, root, options.kind), *hook_problems, *_swept()),
        )
    )


def _settings(trust: ProjectTrust, options: Options) -> Settings:
    settings = read_settings(trust.root, options.flags, trusted=trust.settings)
    if options.kind != SERVED:
        return settings
    # A client chooses itself what it shows its model.
    return replace(settings, max_custom_tools=sys.maxsize, tool_budget=sys.maxsize)


def _around_calls(
    programs: HookRunner, files: FileHistory, instructions: ProjectInstructions, kind: str
) -> Hooks:
    if kind == SERVED:
        # Undo and AGENTS.md are the client's own: it works on more than these calls.
        return Hooks(programs=programs)
    return Hooks(files.before_change, instructions.for_paths, programs=programs)


def _instructions(trust: ProjectTrust) -> ProjectInstructions:
    return ProjectInstructions(
        trust.root, trusted=lambda: trust.level.reads, user_file=storage.config_dir() / FILE_NAME
    )


def _services(
    workspace: Workspace,
    around: Surroundings,
    settings: Settings,
    jobs: Jobs | None,
    servers: McpServers,
) -> Services:
    gate = around.gate
    return Services(
        workspace,
        around.child_env,
        gate.rules,
        settings.max_execution_ms,
        around.isolation,
        around.masker,
        jobs,
        partial(_prepare_served, servers=servers, max_execution_ms=settings.max_execution_ms),
    )


def _prepare_served(
    call: ResolvedCall, servers: McpServers, max_execution_ms: int | None
) -> Invocation:
    from tools.sources.mcp.calls import prepare_call

    return prepare_call(call, servers, max_execution_ms)


def _open_address(config: ServerConfig) -> AbstractAsyncContextManager[tuple[Any, Any]]:
    from tools.sources.mcp.http import open_address

    return open_address(config, log.learn)


def _warnings(settings: Settings, root: Path, kind: str) -> tuple[str, ...]:
    # A job says so itself when it is about to ask.
    missing = unusable(settings) if kind == CHAT else ""
    return (*settings.warnings, *map(str, review(settings.rules, root)), *filter(None, [missing]))


async def _check_project(trust: ProjectTrust, ask: AskTrust | None) -> str:
    """Ask again where the project is no longer what was trusted; return what to tell."""
    report = trust.changed()
    if report is None:
        return ""
    answer = Trust.NOTHING if ask is None else await ask(report, trust.difference(report))
    try:
        trust.settle(report, answer)
    except ProjectFileError as error:
        trust.settle(report, Trust.NOTHING)
        return str(error)
    if answer.reads:
        return ""
    return "the project's tools and settings have changed: until they are trusted none is used"


def _swept() -> list[str]:
    """Clean up behind an opta that was killed; return what to tell."""
    removed = ", ".join(shown_name(str(path)) for path in remove_unfinished())
    return [f"removed what a killed opta left half written: {removed}"] if removed else []


def _gate(root: Path, settings: Settings, approver: Approver | None) -> PermissionGate:
    from agent.settings_edit import add_permission_rule

    def remember(rule: Rule) -> None:
        add_permission_rule(root, rule)

    return PermissionGate(
        RuleSet(settings.rules, root, (storage.output_dir(),)),
        approver,
        mode=settings.mode,
        skip_permissions=settings.skip_permissions,
        default=settings.default_verdict,
        remember=remember,
    )


def _limits(settings: Settings) -> Limits:
    return Limits(
        max_turns=settings.max_turns,
        max_tokens_total=settings.max_tokens_total,
        context_window=settings.context_window or DEFAULT_WINDOW_TOKENS,
    )


def _session_starter(root: Path, options: Options) -> Callable[[str, Tell], Session]:
    def begin(model: str, tell: Tell) -> Session:
        return start(
            root, model, options.version, tell=tell, redact=log.redactor(), kind=options.kind
        )

    return begin


def _session_opener(root: Path, kind: str) -> Callable[[str, Tell], Session]:
    def reopen(identity: str, tell: Tell) -> Session:
        redact = log.redactor()
        if not identity:
            return resume_newest(root, kind, tell=tell, redact=redact)
        return resume(find(identity), root, tell=tell, redact=redact)

    return reopen
