"""Puts the tools of all sources together, for the chat and for commands that need no chat."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from agent.configuration import codex_config, tool_files
from agent.project import ProjectTrust
from agent.settings_values import Settings
from agent.tool_use import recent_calls, tool_use
from tools import find_tools
from tools.advertising import Deferral
from tools.builtin import all_builtins
from tools.builtin.kit import Builtin
from tools.commands.tools import ToolsCommand
from tools.cost import CostMeter, Form, form_of
from tools.definition import JsonObject, Scope, ToolDefinition
from tools.formats.problems import ToolProblem, shown_path
from tools.registry import ToolRegistry
from tools.sources.files import ToolFiles, has_files
from tools.tool_names import refused_name, wire_names

if TYPE_CHECKING:
    from tools.sources.team.tools import TeamTools


def build_registry(
    trust: ProjectTrust,
    settings: Settings,
    session_tools: Iterable[Builtin] = (),
    load_served: Callable[[], list[ToolDefinition]] = list,
    team: TeamTools | None = None,
) -> ToolRegistry:
    """Make the registry of all tools; no tool file is read yet.

    Project files count only while they are trusted: a refresh looks again. `load_served` returns
    the tools of MCP servers. Raises UserError for a chosen `config.toml` that does not exist.
    """
    from agent.settings_edit import set_tool_switch

    def save_switch(name: str, on: bool) -> Path:
        unchanged = trust.changed() is None
        saved = set_tool_switch(trust.root, name, on, project_trusted=trust.level.reads)
        if unchanged:
            trust.take_own_change(saved)
        return saved

    codex_file = codex_config(settings)
    builtins = [builtin.definition for builtin in (*all_builtins(), *session_tools)]
    taken = wire_names([*builtins, find_tools.definition()])
    files = ToolFiles(
        [], settings.profile, lambda name: refused_name(name, taken), trusted=trust.holds,
        code_image=settings.isolation.code_image,
    )  # fmt: skip

    def load_custom() -> tuple[list[ToolDefinition], list[ToolProblem]]:
        project = trust.root if trust.level.runs else None
        files.places = tool_files(project, codex_file)
        unused = _without_local(files) if settings.disable_local_tools else []
        definitions, problems = files.load()
        if unused:
            problems.append(_disabled(unused, settings))
        return definitions, problems

    return ToolRegistry(
        builtins,
        load_custom,
        settings.tool_settings(),
        save_switch,
        load_served,
        Deferral(find_tools.definition(), partial(recent_calls, trust.root), _measure(settings)),
        team.load if team is not None else lambda: ([], []),
    )


def _without_local(files: ToolFiles) -> list[Path]:
    """Leave only the machine's own files to be read; return the places that hold others (E17)."""
    local = [place for scope, place in files.places if scope is not Scope.GLOBAL]
    files.places = [place for place in files.places if place[0] is Scope.GLOBAL]
    return [place for place in local if has_files(place)]


def _disabled(places: Iterable[Path], settings: Settings) -> ToolProblem:
    key = "enforcement.disableLocalTools"
    shown = ", ".join(map(shown_path, places))
    told = f"not loaded, for {key} is set in {settings.source(key)}: {shown}"
    return ToolProblem(None, told, warning=True)


def _measure(settings: Settings) -> Callable[[Sequence[JsonObject]], Mapping[str, int]]:
    """Return what counts the tokens of schemas."""
    form = form_of(settings.model)
    return lambda schemas: CostMeter(_count).measure(schemas, form).per_tool


def build_tools_command(
    root: Path,
    registry: ToolRegistry,
    settings: Settings,
    form: Callable[[], Form],
    called: str = "/tools",
) -> ToolsCommand:
    """Make what `/tools` and `opta tools` do in `root`.

    `form` tells how the model in use counts tools.
    """
    return ToolsCommand(
        registry,
        CostMeter(_count),
        form,
        show_costs=settings.show_token_costs,
        price_per_1000=settings.price_per_1000,
        use=partial(tool_use, root),
        command=called,
    )


def _count(text: str, encoding: str) -> int:
    from agent.tokens import count_text

    return count_text(text, encoding)
