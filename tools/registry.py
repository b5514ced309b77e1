"""Which tools there are, which are on, why the others are off."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tools.actions import McpAction
from tools.definition import JsonObject, Source, ToolDefinition, wire_name
from tools.formats.problems import ToolProblem, shown_path

__all__ = ["ToolEntry", "ToolProblem", "ToolRegistry", "ToolSettings"]

SETTING_NAMES = frozenset(
    {"showTokenCosts", "autoLoadCustomTools", "maxExecutionTime", "maxCustomTools"}
)
"""Keys of the `tools:` settings that are not tools, so no tool can have such a name (X68)."""

SESSION_NAMES = frozenset({"task_add", "task_status", "task_list", "session_complete"})
"""Names that belong to the tools of a session (X13)."""

SHOWN_NAMES = 20
"""How many names a warning lists."""

MANY_TOOLS = 20
"""Above this many custom tools the token budget is worth a warning (X3)."""


@dataclass(frozen=True, slots=True)
class ToolEntry:
    """One known tool. `reason` says why it is off, for people; empty when it is on."""

    definition: ToolDefinition
    enabled: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ToolSettings:
    """What the settings say of tools.

    `switches` maps tool names to on or off; `max_custom` is how many custom tools the model may
    see (X3), `max_served` how many of MCP servers; `load_custom` False leaves all tool files
    unread (E81); `max_execution_ms` caps the timeout of every tool that has one (X8).
    """

    switches: Mapping[str, bool]
    max_custom: int = 10
    max_served: int = 100
    load_custom: bool = True
    max_execution_ms: int | None = None


class ToolRegistry:
    """All tools of all sources. Lookups are by name, wire name or `custom.<name>` (X27).

    Tool files are read at the first need, never by the constructor (A25), and again only by
    `refresh`: between two refreshes nothing changes unless a person switches a tool. `saved_in`
    is the file that holds the last switch.
    """

    def __init__(
        self,
        builtins: Iterable[ToolDefinition],
        load_custom: Callable[[], tuple[list[ToolDefinition], list[ToolProblem]]],
        settings: ToolSettings,
        save_switch: Callable[[str, bool], Path | None],
        load_served: Callable[[], list[ToolDefinition]] = list,
    ) -> None:
        """Make a registry.

        `load_custom` returns definitions in the order of precedence, nearest scope first.
        `save_switch` stores a switch for later runs, returns the file and may raise OSError.
        `load_served` returns the tools that MCP servers offer now.
        """
        self._builtins = sorted(builtins, key=lambda tool: tool.name)
        self._load_custom = load_custom
        self._load_served = load_served
        self._served: list[ToolDefinition] = []
        self._settings = settings
        self._switches = dict(settings.switches)
        self._save_switch = save_switch
        self.saved_in: Path | None = None
        self._loaded: tuple[list[ToolDefinition], list[ToolProblem]] | None = None
        self._custom: list[ToolDefinition] = []
        self._file_problems: list[ToolProblem] = []
        self._entries: tuple[ToolEntry, ...] = ()
        self._problems: tuple[ToolProblem, ...] = ()
        self._names: dict[str, ToolEntry] = {}
        self._wire: tuple[JsonObject, ...] = ()
        self._offered: set[str] = set()
        self._told: tuple[dict[str, ToolDefinition], frozenset[ToolProblem]] | None = None

    def refresh(self) -> list[str]:
        """Read the tool files again where they changed; return one line per change (X16).

        The first call reports problems only: no tool is news then.
        """
        self._load()
        tools, problems = {tool.name: tool for tool in self._custom}, frozenset(self._problems)
        before, self._told = self._told, (tools, problems)
        if before is None:
            return [_unloaded(problem) for problem in self._problems]
        if before == self._told:
            return []
        new_problems = [problem for problem in self._problems if problem not in before[1]]
        return _changes(before[0], tools, new_problems)

    @property
    def problems(self) -> tuple[ToolProblem, ...]:
        """What is wrong with tool files, in the order of their paths."""
        self._ensure_loaded()
        return self._problems

    def entries(self) -> tuple[ToolEntry, ...]:
        """Every known tool, built-ins first, then custom ones by scope and file name (A12)."""
        self._ensure_loaded()
        return self._entries

    def find(self, name: str) -> ToolEntry | None:
        """Look a tool up by any of its names; None when there is none (E43)."""
        self._ensure_loaded()
        return self._names.get(name)

    def nearest(self, name: str, count: int = 3) -> list[str]:
        """Return the names of tools that are on and look most like `name`."""
        from difflib import get_close_matches

        names = {entry.definition.wire_name.lower(): entry.definition.wire_name
                 for entry in self.entries() if entry.enabled}  # fmt: skip
        return [names[near] for near in get_close_matches(name.lower(), names, count, 0.5)]

    def wire(self) -> tuple[JsonObject, ...]:
        """The schemas of the tools that are on, in the order they are sent: built-ins by name,
        then custom tools (A24), the same bytes at every request while nothing changes."""
        self._ensure_loaded()
        return self._wire

    def switch(self, name: str, on: bool) -> ToolEntry:
        """Turn a tool on or off, now and for later runs (X56). Raises KeyError, OSError.

        The returned entry may still be off: a switch does not lift the limit on custom tools.
        """
        entry = self.find(name)
        if entry is None:
            raise KeyError(name)
        definition = entry.definition
        self.saved_in = self._save_switch(definition.name, on)
        self._switches[definition.name] = on
        self._build()
        return self._names[definition.name]

    def offer(self, name: str) -> None:
        """Turn on a tool that is off by default, for as long as this registry lasts.

        What the person has switched off stays off.
        """
        if name not in self._offered:
            self._offered.add(name)
            self._ensure_loaded()
            self._build()

    def _ensure_loaded(self) -> None:
        if self._loaded is None:
            self._load()

    def _load(self) -> None:
        loaded = self._load_custom() if self._settings.load_custom else ([], [])
        served = self._load_served()
        if loaded == self._loaded and served == self._served:
            return
        self._loaded, self._served = loaded, served
        definitions, problems = loaded
        self._custom, conflicts = without_conflicts(definitions, wire_names(self._builtins))
        cap = self._settings.max_execution_ms
        self._file_problems = [*problems, *conflicts]
        if cap is not None:
            self._file_problems += [_cut_notice(t, cap) for t in self._custom if _exceeds(t, cap)]
            self._custom = [_capped(tool, cap) for tool in self._custom]
        self._build()

    def _build(self) -> None:
        """Decide what is on and prepare the lookups."""
        builtins = [self._entry(tool) for tool in self._builtins]
        settings = self._settings
        served, unserved = _limited(
            [self._entry(tool) for tool in self._served], settings.max_served, "MCP tools"
        )
        custom, over = _limited(
            [self._entry(tool) for tool in self._custom], settings.max_custom, "custom tools"
        )
        self._entries = (*builtins, *served, *custom)
        self._names = _by_name(self._entries)
        self._wire = tuple(entry.definition.wire for entry in self._entries if entry.enabled)
        problems = [*self._file_problems, *self._budget_warnings(len(custom), over)]
        if unserved:
            problems.append(_too_many(unserved, settings.max_served, "MCP tools"))
        # Warnings about all tools together have no path and come last.
        self._problems = tuple(sorted(problems, key=lambda p: (p.path is None, str(p.path))))

    def _entry(self, tool: ToolDefinition) -> ToolEntry:
        if tool.unavailable:
            return ToolEntry(tool, False, f"unavailable: {tool.unavailable}")
        switch = self._switches.get(tool.name)
        if switch is not None:
            return ToolEntry(tool, switch, "" if switch else "disabled in the settings")
        if tool.enabled or tool.name in self._offered:
            return ToolEntry(tool, True)
        return ToolEntry(
            tool, False, "disabled in its file" if tool.origin.path else "off by default"
        )

    def _budget_warnings(self, count: int, over: Sequence[str]) -> list[ToolProblem]:
        warnings = []
        if over:
            warnings.append(_too_many(over, self._settings.max_custom, "custom tools"))
        if count > MANY_TOOLS:
            warnings.append(ToolProblem(
                None, f"{count} custom tools are loaded: each one offered to the model costs "
                "tokens in every request", hint="see /tools tokens", warning=True,
            ))  # fmt: skip
        return warnings


def _limited(
    entries: Sequence[ToolEntry], limit: int, noun: str
) -> tuple[list[ToolEntry], list[str]]:
    """Turn off what is over the limit, by scope, then name (X3); return also those names."""
    scopes = list(dict.fromkeys(entry.definition.origin.scope for entry in entries))
    wanted = sorted(
        (entry.definition for entry in entries if entry.enabled),
        key=lambda tool: (scopes.index(tool.origin.scope), tool.name),
    )
    over = [tool.name for tool in wanted[limit:]]
    names = frozenset(over)
    reason = f"over the limit of {limit} {noun}"
    limited = [
        replace(entry, enabled=False, reason=reason) if entry.definition.name in names else entry
        for entry in entries
    ]
    return limited, over


def _too_many(over: Sequence[str], limit: int, noun: str) -> ToolProblem:
    shown = ", ".join(over[:SHOWN_NAMES])
    rest = f" and {len(over) - SHOWN_NAMES} more" if len(over) > SHOWN_NAMES else ""
    return ToolProblem(
        None, f"over the limit of {limit} {noun}, not offered to the model: {shown}{rest}",
        hint="/tools disable others first", warning=True,
    )  # fmt: skip


def _by_name(entries: Iterable[ToolEntry]) -> dict[str, ToolEntry]:
    """Index entries by every name they answer to; a declared name beats any alias (X12, X27)."""
    entries = tuple(entries)
    names: dict[str, ToolEntry] = {}
    for entry in entries:
        tool = entry.definition
        for name in other_names(tool):
            names.setdefault(name, entry)
    names.update({entry.definition.name: entry for entry in entries})
    return names


def other_names(tool: ToolDefinition) -> tuple[str, ...]:
    """Return what a tool answers to besides its own name (X12, X27)."""
    if isinstance(tool.action, McpAction):
        # As other programs spell it.
        return (tool.wire_name, wire_name(f"mcp__{tool.action.server}__{tool.action.tool}"))
    if tool.origin.source is not Source.CUSTOM:
        return (tool.wire_name,)
    return (tool.wire_name, f"custom.{tool.name}", f"custom_{tool.name}")


def without_conflicts(
    definitions: Iterable[ToolDefinition], reserved: frozenset[str]
) -> tuple[list[ToolDefinition], list[ToolProblem]]:
    """Keep the first tool of every name; say what happened to the others (X2, X13).

    No tool may have one of the `reserved` wire names, those of the built-in tools.
    """
    kept: dict[str, ToolDefinition] = {}
    problems: list[ToolProblem] = []
    for tool in definitions:
        refusal = refused_name(tool.name, reserved)
        first = kept.get(tool.wire_name)
        if refusal:
            problems.append(_problem(tool, refusal, hint="choose another name"))
        elif first is None:
            kept[tool.wire_name] = tool
        elif first.name != tool.name:
            problems.append(_problem(
                tool, f"the API sees {tool.name!r} and {first.name!r} ({_place(first)}) "
                f"as one name, {tool.wire_name!r}", hint="rename one of them",
            ))  # fmt: skip
        elif first.origin.scope is not tool.origin.scope:
            problems.append(_problem(
                tool, f"tool {tool.name} is overridden by the {first.origin.scope} tool "
                f"{_place(first)}", warning=True,
            ))  # fmt: skip
        else:
            problems.append(_problem(
                tool, f"Tool {tool.name} already registered, skipping",
                hint=f"the first is {_place(first)}", warning=True,
            ))  # fmt: skip
    return list(kept.values()), problems


def wire_names(tools: Iterable[ToolDefinition]) -> frozenset[str]:
    """Return the names that the API knows the tools by."""
    return frozenset(tool.wire_name for tool in tools)


def refused_name(name: str, builtins: frozenset[str]) -> str:
    """Say why no custom tool may have this name (X13), or nothing.

    `builtins` are the wire names of the built-in tools.
    """
    on_wire = wire_name(name)
    if on_wire in builtins:
        return f"the name {name!r} conflicts with built-in tool {on_wire}"
    if on_wire in SESSION_NAMES:
        return f"the name {name!r} conflicts with a session tool"
    if on_wire.startswith("mcp_"):
        return f"the name {name!r} starts with mcp_, which is kept for MCP tools"
    if name in SETTING_NAMES:
        return f"the name {name!r} is a setting"
    return ""


def _problem(
    tool: ToolDefinition, message: str, *, hint: str = "", warning: bool = False
) -> ToolProblem:
    origin = tool.origin
    return ToolProblem(
        origin.path, message, line=origin.line, key="$.name", hint=hint, warning=warning
    )


def _place(tool: ToolDefinition) -> str:
    return shown_path(tool.origin.path) if tool.origin.path else ""


def _exceeds(tool: ToolDefinition, cap_ms: int) -> bool:
    return tool.limits.timeout_ms is not None and tool.limits.timeout_ms > cap_ms


def _capped(tool: ToolDefinition, cap_ms: int) -> ToolDefinition:
    if not _exceeds(tool, cap_ms):
        return tool
    return replace(tool, limits=replace(tool.limits, timeout_ms=cap_ms))


def _cut_notice(tool: ToolDefinition, cap_ms: int) -> ToolProblem:
    return ToolProblem(
        tool.origin.path,
        f"the timeout of {tool.name}, {tool.limits.timeout_ms} ms, is cut to {cap_ms} ms "
        "by the setting maxExecutionTime",
        warning=True,
    )


def _unloaded(problem: ToolProblem) -> str:
    unusable = problem.path is not None and not problem.warning
    return f"Failed to load tool from {problem}" if unusable else str(problem)


def _changes(
    before: Mapping[str, ToolDefinition],
    now: Mapping[str, ToolDefinition],
    new_problems: Sequence[ToolProblem],
) -> list[str]:
    broken = {problem.path for problem in new_problems if not problem.warning}
    lines = [f"tool added: {name} ({_place(now[name])})" for name in now if name not in before]
    lines += [
        f"tool changed: {name} ({_place(tool)})"
        for name, tool in now.items()
        if name in before and _essence(tool) != _essence(before[name])
    ]
    gone = [tool for name, tool in before.items() if name not in now]
    lines += [
        f"tool removed: {tool.name} ({_place(tool)})"
        for tool in gone
        if tool.origin.path not in broken
    ]
    names = {tool.origin.path: tool.name for tool in gone}
    for problem in new_problems:
        name = names.get(problem.path)
        lines.append(f"tool broken: {name}: {problem}" if name else _unloaded(problem))
    return lines


def _essence(tool: ToolDefinition) -> tuple[object, ...]:
    """What makes two readings of a file the same tool: white space in the file does not."""
    return (tool.digest, tool.limits, tool.risk, tool.parallel, tool.enabled, tool.origin.path)
