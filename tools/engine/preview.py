"""What a call will do, for the person and for the permission rules."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Iterator

from tools.actions import AliasAction
from tools.confinement import Confinement, Level
from tools.definition import (
    CommandDisplay,
    Effect,
    EffectKind,
    ResolvedCall,
    ToolDefinition,
    ToolError,
)
from tools.engine.arguments import argument_text
from tools.engine.commands import Shown
from tools.engine.harmless import can_harm
from tools.engine.hazards import Hazard, HazardKind
from tools.engine.isolation.choice import Demands, Isolation
from tools.engine.needs import Need, about_needs, declared_needs, effects_of
from tools.engine.output import clipped
from tools.engine.plan import PlannedStep
from tools.engine.prepared import PreparedPlan
from tools.record import record

_TITLE_CHARS = 80
_VALUE_CHARS = 80
_LEVELS = {"sandbox": Level.SANDBOX, "container": Level.CONTAINER}


@record
class PlanPreview:
    """All that is known of a call before it runs."""

    title: str
    display: CommandDisplay
    effects: tuple[Effect, ...]
    warnings: tuple[str, ...]
    hazards: tuple[str, ...] = ()
    uses: tuple[ToolDefinition, ...] = ()
    permissions: tuple[str, ...] = ()
    confinement: Confinement | None = None


def preview(
    plan: PreparedPlan, call: ResolvedCall, isolation: Isolation | None = None
) -> PlanPreview:
    """Show the whole of a call. Raises ToolError when it cannot run."""
    parts = list(_parts(plan))
    tools = list(_tools(plan))
    needs = [need for owner in _plans(plan) for need in declared_needs(owner)]
    walls = _confinement(call, tools, needs, isolation)
    masker = plan.masker
    display = CommandDisplay(
        masker.text(_text(plan, parts)),
        str(plan.surroundings.cwd),
        note=masker.text(_note(plan, walls)),
    )
    warnings = dict.fromkeys((*_warnings(plan, parts), *about_needs(needs, tools, walls)))
    return PlanPreview(
        title=masker.text(_title(plan, call)),
        display=display,
        effects=(*_commands(parts, call, tools), *_directory(plan), *effects_of(needs)),
        warnings=tuple(masker.text(warning) for warning in warnings),
        hazards=tuple(masker.text(hazard) for hazard in dict.fromkeys(_hazards(plan, parts))),
        uses=tuple(tool for tool in tools if tool is not call.tool),
        permissions=tuple(masker.text(need.text) for need in needs),
        confinement=walls,
    )


def _commands(
    parts: list[_Part], call: ResolvedCall, tools: list[ToolDefinition]
) -> Iterator[Effect]:
    security = [tool.security for tool in tools]
    elevated = next((s for s in security if s.privilege == "elevated"), None)
    protected = ""
    if elevated is not None:
        why = f": {elevated.justification}" if elevated.justification else ""
        protected = f"{call.tool.name} declares that it needs elevated rights{why}"
    for text in dict.fromkeys(part.shown.text for part in parts):
        yield Effect(EffectKind.EXECUTE, text, subject="run_command", protected=protected)


def _confinement(
    call: ResolvedCall,
    tools: list[ToolDefinition],
    needs: list[Need],
    isolation: Isolation | None,
) -> Confinement | None:
    """Return the strictest walls that the tool, or one that it uses, asks for. Raises ToolError."""
    levels = [_LEVELS.get(tool.security.isolation, Level.PROCESS) for tool in tools]
    demands = Demands(
        level=max(levels, key=list(Level).index),
        reduced=any(tool.security.privilege == "reduced" for tool in tools),
        network=any(need.host for need in needs),
        write=tuple(need.path for need in needs if need.path and need.writes),
        read=tuple(need.path for need in needs if need.path and not need.writes),
    )
    if demands.level is Level.PROCESS and not demands.reduced:
        return None
    if isolation is None:
        raise ToolError(
            f"The tool {call.tool.name} asks for isolation, which is not set up here. "
            "Nothing was done."
        )
    return isolation.for_tool(call.tool.name, demands)


@record
class _Part:
    """One command of a plan: a heading, the command, the plan it belongs to."""

    heading: str
    shown: Shown
    owner: PreparedPlan


def _parts(plan: PreparedPlan, prefix: str = "") -> Iterator[_Part]:
    in_file = sorted(plan.steps, key=lambda planned: planned.number)
    for planned in in_file:
        step = planned.step
        heading = f"{prefix}{planned.number}: {step.name}{_when(planned)}"
        if step.name in plan.inner:
            inner = plan.inner_plan(step)
            yield from _parts(inner, f"{prefix}{planned.number}: {step.name} / ")
        else:
            yield _Part(heading, plan.shown(plan.commands[step.name]), plan)
        if step.name in plan.fallbacks:
            shown = plan.shown(plan.fallbacks[step.name])
            yield _Part(f"{prefix}{planned.number}, if it fails", shown, plan)
    for command in plan.action.cleanup:
        try:
            shown = plan.shown(plan.cleanup(command))
        except (ToolError, ValueError):
            # Not run either; the result of the call says why (C303).
            continue
        yield _Part(f"{prefix}cleanup", shown, plan)


def _when(planned: PlannedStep) -> str:
    step = planned.step
    words = []
    if step.condition:
        words.append(f"only if {step.condition}")
    if step.wait_for:
        words.append(f"after {', '.join(step.wait_for)}")
    elif step.parallel:
        words.append("in parallel")
    if step.retry.attempts:
        words.append(f"up to {step.retry.attempts + 1} tries")
    return f" ({'; '.join(words)})" if words else ""


def _text(plan: PreparedPlan, parts: list[_Part]) -> str:
    if len(parts) == 1 and not _when(plan.steps[0]):
        return parts[0].shown.text
    return "\n".join(f"# Step {part.heading}\n{part.shown.text.rstrip()}" for part in parts)


def _note(plan: PreparedPlan, walls: Confinement | None) -> str:
    notes = [f"{walls.note}."] if walls is not None else []
    placed = any(command.placeholders for command in plan.commands.values())
    if plan.variables is not None and not placed and not plan.inner:
        notes.append(plan.variables.note())
    changes = plan.surroundings.changes
    hidden = frozenset(plan.action.environment.secrets)
    notes += [
        f"{name}={'****' if name in hidden else shlex.quote(value)}"
        for name, value in changes.items()
    ]
    limit = plan.call.tool.limits.max_memory_bytes
    if limit is not None:
        notes.append(about_memory(limit, walls))
    return " ".join(note for note in notes if note)


def about_memory(max_bytes: int, walls: Confinement | None) -> str:
    from tools.engine.isolation import memory

    if walls is not None and walls.level is Level.CONTAINER:
        return memory.about(max_bytes, memory.MemoryMeans(memory.Reach.TREE, "container"))
    return memory.about(max_bytes, memory.means(os.environ.get("PATH", os.defpath)))


def _title(plan: PreparedPlan, call: ResolvedCall) -> str:
    arguments = plan.with_defaults(call.arguments)
    given = " ".join(f"{name}={argument_text(value)}" for name, value in arguments.items())
    return clipped(f"{call.tool.name} {given}".strip().replace("\n", " "), _TITLE_CHARS)


def _plans(plan: PreparedPlan) -> Iterator[PreparedPlan]:
    yield plan
    for planned in plan.steps:
        if planned.step.name in plan.inner:
            yield from _plans(plan.inner_plan(planned.step))


def _tools(plan: PreparedPlan) -> Iterator[ToolDefinition]:
    for each in _plans(plan):
        yield from (*each.passed, each.call.tool)


def _directory(plan: PreparedPlan) -> Iterator[Effect]:
    """A rule that allows a command means in the workspace, not in any other directory."""
    cwd, root = plan.surroundings.cwd, plan.setting.root
    if cwd != root:
        inside = cwd.resolve().is_relative_to(root.resolve())
        yield Effect(EffectKind.READ, str(cwd), plan.call.tool.name, inside=inside)


def _warnings(plan: PreparedPlan, parts: list[_Part]) -> Iterator[str]:
    for owner in dict.fromkeys((plan, *(part.owner for part in parts))):
        yield from owner.bindings.warnings
        for tool in (*owner.passed, owner.call.tool):
            if tool.deprecated:
                yield f"The tool {tool.name} is deprecated: {tool.deprecated}"
        if owner.call.tool.security.isolation == "none":
            yield "isolation: none is the same as process: its commands are processes"
        yield from _about_answers(owner)


def _hazards(plan: PreparedPlan, parts: list[_Part]) -> Iterator[str]:
    """Yield what the values of this call can do besides standing for themselves."""
    for part in parts:
        yield from _harms(part.owner, part.shown.hazards)
    for owner in dict.fromkeys((plan, *(part.owner for part in parts))):
        yield from _harms(owner, owner.variable_hazards())


def _harms(owner: PreparedPlan, hazards: Iterable[Hazard]) -> Iterator[str]:
    call = owner.call
    chosen = {
        name: value
        for alias in owner.passed
        if isinstance(alias.action, AliasAction)
        for name, value in alias.action.defaults.items()
    }
    for hazard in hazards:
        if can_harm(hazard, call.tool, call.arguments, chosen):
            told = f"{{{hazard.placeholder.key}}} {hazard.message}"
            given = call.arguments.get(hazard.placeholder.name)
            if given is None or hazard.kind is HazardKind.OPTION:
                yield told
            else:
                yield f"{told}: {argument_text(given)[:_VALUE_CHARS]}"


def _about_answers(plan: PreparedPlan) -> Iterator[str]:
    interaction = plan.action.interaction
    if interaction.interactive and interaction.default_response is not None:
        yield f"Its questions are answered with {interaction.default_response!r} by itself"
