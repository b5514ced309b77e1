"""What a call will do, for the person and for the permission rules."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.actions import AliasAction
from tools.definition import (
    CommandDisplay,
    Effect,
    EffectKind,
    ResolvedCall,
    ToolDefinition,
    ToolError,
)
from tools.engine.arguments import argument_text
from tools.engine.commands import Shown, about_memory_limit
from tools.engine.harmless import can_harm
from tools.engine.hazards import HazardKind
from tools.engine.plan import PlannedStep
from tools.engine.prepared import PreparedPlan

_TITLE_CHARS = 80
_VALUE_CHARS = 80
_REFUSED = {
    "reduced": "with fewer rights than yours",
    "container": "in a container",
}


@dataclass(frozen=True, slots=True)
class PlanPreview:
    """All that is known of a call before it runs."""

    title: str
    display: CommandDisplay
    effects: tuple[Effect, ...]
    warnings: tuple[str, ...]
    hazards: tuple[str, ...] = ()
    uses: tuple[ToolDefinition, ...] = ()
    permissions: tuple[str, ...] = ()


def preview(plan: PreparedPlan, call: ResolvedCall) -> PlanPreview:
    """Show the whole of a call. Raises ToolError when it cannot run."""
    parts = list(_parts(plan))
    security = [tool.security for tool in (*plan.passed, plan.call.tool)]
    for asked in (item for s in security for item in (s.privilege, s.isolation)):
        if asked in _REFUSED:
            raise ToolError(
                f"The tool {call.tool.name} is to run {_REFUSED[asked]}, which this version "
                "cannot do. Nothing was done."
            )
    elevated = next((s for s in security if s.privilege == "elevated"), None)
    protected = ""
    if elevated is not None:
        why = f": {elevated.justification}" if elevated.justification else ""
        protected = f"{call.tool.name} declares that it needs elevated rights{why}"
    texts = dict.fromkeys(part.shown.text for part in parts)
    commands = tuple(
        Effect(EffectKind.EXECUTE, text, subject="run_command", protected=protected)
        for text in texts
    )
    permissions, effects, declared = _permissions(plan)
    masker = plan.masker
    display = CommandDisplay(
        masker.text(_text(plan, parts)), str(plan.surroundings.cwd), note=masker.text(_note(plan))
    )
    warnings = dict.fromkeys((*_warnings(plan, parts), *declared))
    return PlanPreview(
        title=masker.text(_title(plan, call)),
        display=display,
        effects=(*commands, *_directory(plan), *effects),
        warnings=tuple(masker.text(warning) for warning in warnings),
        hazards=tuple(masker.text(hazard) for hazard in dict.fromkeys(_hazards(parts))),
        uses=tuple(tool for tool in _tools(plan) if tool is not call.tool),
        permissions=tuple(masker.text(permission) for permission in permissions),
    )


@dataclass(frozen=True, slots=True)
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


def _note(plan: PreparedPlan) -> str:
    notes = []
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
        notes.append(about_memory_limit(limit))
    return " ".join(note for note in notes if note)


def _title(plan: PreparedPlan, call: ResolvedCall) -> str:
    arguments = plan.with_defaults(call.arguments)
    given = " ".join(f"{name}={argument_text(value)}" for name, value in arguments.items())
    title = f"{call.tool.name} {given}".strip().replace("\n", " ")
    return title if len(title) <= _TITLE_CHARS else f"{title[: _TITLE_CHARS - 1]}…"


def _tools(plan: PreparedPlan) -> Iterator[ToolDefinition]:
    yield from (*plan.passed, plan.call.tool)
    for planned in plan.steps:
        if planned.step.name in plan.inner:
            yield from _tools(plan.inner_plan(planned.step))


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


def _hazards(parts: list[_Part]) -> Iterator[str]:
    """Yield what the values of this call can do besides standing for themselves."""
    for part in parts:
        call = part.owner.call
        chosen = {
            name: value
            for alias in part.owner.passed
            if isinstance(alias.action, AliasAction)
            for name, value in alias.action.defaults.items()
        }
        for hazard in part.shown.hazards:
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


def _permissions(plan: PreparedPlan) -> tuple[list[str], list[Effect], list[str]]:
    """Return what the file declares that it needs: as it stands, for the rules, and in words."""
    permissions: list[str] = []
    effects: list[Effect] = []
    lines: list[str] = []
    for tool in (*plan.passed, plan.call.tool):
        security = tool.security
        for template in security.permissions:
            permission = plan.bindings.fill(template)
            permissions.append(permission)
            effect = _permission_effect(permission, plan)
            if effect is not None:
                effects.append(effect)
            lines.append(f"declares that it needs {permission} (not enforced)")
        if security.permissions and security.justification:
            lines.append(f"its reason: {security.justification}")
    return permissions, effects, lines


def _permission_effect(permission: str, plan: PreparedPlan) -> Effect | None:
    kind, _, rest = permission.partition(":")
    action, _, value = rest.partition(":")
    root = plan.setting.root
    if kind == "network" and value:
        return Effect(EffectKind.NETWORK, value, plan.call.tool.name)
    if kind == "filesystem" and action in ("read", "write") and value:
        path = Path(os.path.normpath(plan.surroundings.cwd / Path(value).expanduser()))
        inside = path.resolve().is_relative_to(root.resolve())
        which = EffectKind.READ if action == "read" else EffectKind.WRITE
        return Effect(which, str(path), plan.call.tool.name, inside=inside)
    return None
