"""Which tools there are, which are on, why the others are off."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from tools.advertising import (
    Deferral,
    Ranking,
    ToolEntry,
    over_budget,
    over_number,
    summed_up,
)
from tools.definition import JsonObject, ToolDefinition
from tools.formats.problems import ToolProblem
from tools.record import record
from tools.schema import check_arguments
from tools.tool_names import other_names, place, wire_names, without_conflicts

MANY_TOOLS = 20
"""Above this many custom tools the token budget is worth a warning (X3)."""

WARNED_NAMES = 5
"""How many tools over a limit a warning names."""


@record
class ToolSettings:
    """What the settings say of tools.

    `switches` maps tool names to on or off; `max_custom` is how many custom tools the model may
    see (X3), `max_served` how many of MCP servers, `budget` how many tokens all tools together may
    cost; `load_custom` False leaves all tool files unread (E81); `max_execution_ms` caps the
    timeout of every tool that has one (X8). `enforced` names tools whose switch nobody changes.
    """

    switches: Mapping[str, bool]
    max_custom: int = 10
    max_served: int = 100
    budget: int = 10_000
    load_custom: bool = True
    max_execution_ms: int | None = None
    enforced: frozenset[str] = frozenset()


class ToolRegistry:
    """All tools of all sources. Lookups are by name, wire name or `custom.<name>` (X27).

    Tool files are read at the first need, never by the constructor (A25), and again only by
    `refresh`: between two refreshes nothing changes unless a person switches a tool or a deferred
    one is loaded. `saved_in` is the file that holds the last switch, `on_load` hears of the names
    of tools that are loaded.
    """

    def __init__(
        self,
        builtins: Iterable[ToolDefinition],
        load_custom: Callable[[], tuple[list[ToolDefinition], list[ToolProblem]]],
        settings: ToolSettings,
        save_switch: Callable[[str, bool], Path | None],
        load_served: Callable[[], list[ToolDefinition]] = list,
        deferral: Deferral | None = None,
        load_team: Callable[[], tuple[list[ToolDefinition], list[ToolProblem]]] = lambda: ([], []),
    ) -> None:
        """Make a registry.

        `load_custom` returns definitions in the order of precedence, nearest scope first.
        `save_switch` stores a switch for later runs, returns the file and may raise OSError.
        `load_served` returns the tools that MCP servers offer now, `load_team` those of the team,
        which come before custom ones of the same name (E42). Without a `deferral` tools over a
        limit are off.
        """
        self._builtins = sorted(builtins, key=lambda tool: tool.name)
        self._deferral = deferral
        calls = cache(deferral.calls) if deferral else dict
        # What is switched on later is loaded at once: what was chosen before stays (A24).
        chosen = frozenset(name for name, on in settings.switches.items() if on)
        self._ranking = Ranking(chosen, calls)
        self.on_load: Callable[[tuple[str, ...]], None] = lambda names: None
        self._load_custom = load_custom
        self._load_served = load_served
        self._load_team = load_team
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
        self._offered: list[str] = []
        self._asked_for: list[str] = []
        self.deferrable: list[ToolDefinition] = []
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
        """Return the names of tools that can be called and look most like `name`."""
        from difflib import get_close_matches

        names = {entry.definition.wire_name.lower(): entry.definition.wire_name
                 for entry in self.entries() if entry.enabled or entry.deferred}  # fmt: skip
        return [names[near] for near in get_close_matches(name.lower(), names, count, 0.5)]

    def wire(self) -> tuple[JsonObject, ...]:
        """The schemas of the tools that are on, in the order they are sent: built-ins by name,
        then custom tools (A24), the same bytes at every request while nothing changes. What is
        loaded in a conversation comes last, so that a provider's cache holds what was before."""
        self._ensure_loaded()
        return self._wire

    def switch(self, name: str, on: bool) -> ToolEntry:
        """Turn a tool on or off, now and for later runs (X56). Raises KeyError, OSError.

        The returned entry may still be off: a switch does not lift the limit on custom tools. Nor
        does it change what is enforced (E152): then nothing is saved.
        """
        entry = self.find(name)
        if entry is None:
            raise KeyError(name)
        if entry.enforced:
            return entry
        definition = entry.definition
        self.saved_in = self._save_switch(definition.name, on)
        self._switches[definition.name] = on
        self._build()
        if on and self._names[definition.name].deferred:
            self.load([definition.name])
        return self._names[definition.name]

    def use_switches(self, switches: Mapping[str, bool]) -> None:
        """Take over which tools the settings turn on or off now, in place of those before."""
        if switches != self._switches:
            self._switches = dict(switches)
            self._ensure_loaded()
            self._build()

    def offer(self, name: str) -> None:
        """Turn on a tool that is off by default, for as long as this registry lasts.

        What the person has switched off stays off.
        """
        if name not in self._offered:
            self._offered.append(name)
            self._ensure_loaded()
            self._build()

    def load(self, names: Iterable[str]) -> None:
        """Let every request from now on hold these deferred tools too."""
        new = tuple(name for name in names if name not in self._asked_for)
        if new:
            self._asked_for += new
            self._ensure_loaded()
            self._build()
            self.on_load(new)

    def begin(self, loaded: Iterable[str] = ()) -> None:
        """Begin a conversation, in which these deferred tools were loaded already."""
        self._asked_for = list(loaded)
        if self._loaded is not None:
            self._build()

    def _ensure_loaded(self) -> None:
        if self._loaded is None:
            self._load()

    def _load(self) -> None:
        definitions, problems = self._load_custom() if self._settings.load_custom else ([], [])
        of_team, team_problems = self._load_team()
        loaded = ([*of_team, *definitions], [*team_problems, *problems])
        served = self._load_served()
        if loaded == self._loaded and served == self._served:
            return
        self._loaded, self._served = loaded, served
        definitions, problems = loaded
        self._custom, conflicts = without_conflicts(definitions, self._reserved())
        cap = self._settings.max_execution_ms
        self._file_problems = [*problems, *conflicts]
        if cap is not None:
            self._file_problems += [_cut_notice(t, cap) for t in self._custom if _exceeds(t, cap)]
            self._custom = [_capped(tool, cap) for tool in self._custom]
        self._build()

    def _reserved(self) -> frozenset[str]:
        finder = [self._deferral.finder] if self._deferral else []
        return wire_names([*self._builtins, *finder])

    def _build(self) -> None:
        """Decide what is on and prepare the lookups."""
        builtins, served, custom = (
            [self._entry(tool) for tool in tools]
            for tools in (self._builtins, self._served, self._custom)
        )
        over = self._over_limit(builtins, served, custom)
        self.deferrable = [e.definition for e in (*served, *custom) if _name(e) in over]
        finder = self._finder()
        finds = any(entry.enabled for entry in finder)
        limited = (
            self._limited(entry, over.get(_name(entry), ""), finds) for entry in (*served, *custom)
        )
        self._entries = (*sorted([*builtins, *finder], key=_name), *limited)
        self._names = _by_name(self._entries)
        late = {name: place for place, name in enumerate((*self._offered, *self._asked_for), 1)}
        on = [entry.definition for entry in self._entries if entry.enabled]
        on.sort(key=lambda tool: late.get(tool.name, 0))
        self._wire = tuple(tool.wire for tool in on)
        problems = [*self._file_problems, *_limit_warnings(over, deferred=finds)]
        problems += _overruled(custom, self._switches)
        sent = sum(entry.enabled for entry in custom if _name(entry) not in over)
        if sent > MANY_TOOLS:
            problems.append(_many_tools(sent))
        # Warnings about all tools together have no path and come last.
        self._problems = tuple(sorted(problems, key=lambda p: (p.path is None, str(p.path))))

    def _over_limit(
        self,
        builtins: Sequence[ToolEntry],
        served: Sequence[ToolEntry],
        custom: Sequence[ToolEntry],
    ) -> dict[str, str]:
        """Return the names of the tools that a limit keeps out of requests, with the reason."""
        settings, ranking = self._settings, self._ranking
        # What a team enforces no setting of a person's limits (E152).
        enforced = [entry.definition for entry in custom if entry.definition.origin.enforced]
        custom = [entry for entry in custom if not entry.definition.origin.enforced]
        over = over_number(custom, settings.max_custom, "custom tools", ranking)
        over |= over_number(served, settings.max_served, "MCP tools", ranking)
        if self._deferral is None:
            return over
        # What is offered later must not push out what earlier requests held.
        fixed = [
            entry.definition for entry in builtins
            if entry.enabled and _name(entry) not in self._offered
        ]  # fmt: skip
        fixed += enforced
        fixed.append(_telling(self._deferral.finder, [e.definition for e in (*served, *custom)]))
        others = [
            entry.definition for entry in (*custom, *served)
            if entry.enabled and _name(entry) not in over
        ]  # fmt: skip
        return over | over_budget(fixed, others, settings.budget, self._deferral, ranking)

    def _finder(self) -> list[ToolEntry]:
        """Return the tool that loads others as it is now, where there is one."""
        if self._deferral is None:
            return []
        finder = self._deferral.finder
        if self._switches.get(finder.name) is False:
            return [self._entry(finder)]
        if not self.deferrable:
            return [ToolEntry(finder, False, "no tool is deferred")]
        return [ToolEntry(_telling(finder, self.deferrable), True)]

    def _limited(self, entry: ToolEntry, reason: str, finds: bool) -> ToolEntry:
        """Return the entry as a limit leaves it; without a reason it stays as it is."""
        if not reason or (finds and entry.definition.name in self._asked_for):
            return entry
        if not finds:
            return replace(entry, enabled=False, reason=reason)
        return replace(entry, enabled=False, reason=f"deferred: {reason}", deferred=True)

    def _entry(self, tool: ToolDefinition) -> ToolEntry:
        reason = ""
        if tool.unavailable:
            reason = f"unavailable: {tool.unavailable}"
        elif tool.origin.enforced:
            pass
        elif tool.name in self._switches:
            reason = "" if self._switches[tool.name] else "disabled in the settings"
        elif not tool.enabled and tool.name not in self._offered:
            reason = "disabled in its file" if tool.origin.path else "off by default"
        enforced = tool.origin.enforced or tool.name in self._settings.enforced
        return ToolEntry(tool, not reason, reason, enforced=enforced)


@record
class OtherTools:
    """The tools that a custom tool may be made of: all that are known, on or off."""

    registry: ToolRegistry

    def find(self, name: str) -> ToolDefinition | None:
        """Return the tool of this name."""
        entry = self.registry.find(name)
        return None if entry is None else entry.definition

    def check(self, tool: ToolDefinition, arguments: JsonObject) -> JsonObject:
        """Return the arguments as the tool wants them. Raises ToolError."""
        return check_arguments(tool, arguments, {})


def _overruled(entries: Iterable[ToolEntry], switches: Mapping[str, bool]) -> Iterator[ToolProblem]:
    """Tell of the tools that settings turn off in vain (E152)."""
    for entry in entries:
        tool = entry.definition
        if tool.origin.enforced and switches.get(tool.name) is False:
            told = f"tools.{tool.name}.enabled: false is ignored: your team enforces it"
            yield ToolProblem(tool.origin.path, told, warning=True)


def _name(entry: ToolEntry) -> str:
    return entry.definition.name


def _telling(finder: ToolDefinition, tools: Sequence[ToolDefinition]) -> ToolDefinition:
    """Return the search with a description that sums up what it may find."""
    return replace(finder, description=finder.description.replace("{tools}", summed_up(tools)))


def _limit_warnings(over: Mapping[str, str], *, deferred: bool) -> list[ToolProblem]:
    hint = "the model loads them with find_tools" if deferred else "/tools disable others first"
    told = "deferred" if deferred else "not offered to the model"
    reasons: dict[str, list[str]] = {}
    for name, reason in over.items():
        reasons.setdefault(reason, []).append(name)
    return [
        ToolProblem(None, f"{reason}, {told}: {_few(names)}", hint=hint, warning=True)
        for reason, names in reasons.items()
    ]


def _few(names: Sequence[str]) -> str:
    rest = f" and {len(names) - WARNED_NAMES} more" if len(names) > WARNED_NAMES else ""
    return f"{', '.join(names[:WARNED_NAMES])}{rest}"


def _many_tools(count: int) -> ToolProblem:
    return ToolProblem(
        None, f"{count} custom tools are offered to the model: each costs tokens in every request",
        hint="see /tools tokens", warning=True,
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
    lines = [f"tool added: {name} ({place(now[name])})" for name in now if name not in before]
    lines += [
        f"tool changed: {name} ({place(tool)})"
        for name, tool in now.items()
        if name in before and _essence(tool) != _essence(before[name])
    ]
    gone = [tool for name, tool in before.items() if name not in now]
    lines += [
        f"tool removed: {tool.name} ({place(tool)})"
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
