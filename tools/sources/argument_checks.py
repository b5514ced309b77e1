"""Looks at how a shell command uses the variables that its arguments come in (X6, X88, X89)."""

from __future__ import annotations

import re

from tools.actions import PlanAction, Shell
from tools.definition import ToolDefinition
from tools.engine.harmless import is_closed
from tools.engine.hazards import Hazard, HazardKind
from tools.engine.template import Names, Placeholder, TemplateError
from tools.engine.template_command import Quoting
from tools.engine.template_shell import SHELLS, ShellTemplate, compile_shell
from tools.formats.opta_json import ARGUMENT_PREFIX, argument_variable
from tools.formats.problems import ToolProblem
from tools.sources.tool_text import ToolText, before

_VARIABLE = re.compile(rf"(?<!\\)\$(?:({ARGUMENT_PREFIX}\w+)|\{{({ARGUMENT_PREFIX}\w+)\}})")

_EXPANDED = frozenset({Quoting.WORDS, Quoting.WORD, Quoting.DOUBLE})
"""Where a shell puts the value of a variable, as far as that matters."""


def argument_warnings(definition: ToolDefinition, source: ToolText) -> list[ToolProblem]:
    """Return where a variable is not in quotes, is read as code or may be an option.

    Only plain expansions are looked at, as if they were placeholders of a template.
    """
    found: list[ToolProblem] = []
    if not isinstance(definition.action, PlanAction):
        return found
    free = _free_variables(definition)
    for position, step in enumerate(definition.action.steps):
        command = step.command
        if isinstance(command, Shell) and not command.placeholders and command.kind in SHELLS:
            for name, number, message, advice in _notes(command, free):
                pattern = rf"\$\{{?{name}\b"
                found.append(source.warning(("steps", position), message, advice, pattern, number))
    return found


def _free_variables(definition: ToolDefinition) -> frozenset[str]:
    """Return the variables whose values the schema leaves room for anything."""
    properties = definition.parameters.get("properties", {})
    return frozenset(
        argument_variable(name)
        for name, schema in properties.items()
        if not (isinstance(schema, dict) and is_closed(schema))
    )


def _notes(command: Shell, free: frozenset[str]) -> list[tuple[str, int, str, str]]:
    """Return variable, which of its places, message and advice."""
    names = Names(frozenset(one or other for one, other in _VARIABLE.findall(command.text)))
    marked = _VARIABLE.sub(lambda found: f"{{{found[1] or found[2]}}}", command.text)
    try:
        template = compile_shell(marked, names, kind=command.kind)
    except TemplateError:
        return []
    notes = []
    for place in template.placeholders:
        hazards = [hazard for hazard in template.possible if hazard.placeholder is place]
        said = _said(template, place, hazards) if place.name in free else None
        if said is not None:
            notes.append((place.name, before(place, template.placeholders), *said))
    return notes


def _said(
    template: ShellTemplate, place: Placeholder, hazards: list[Hazard]
) -> tuple[str, str] | None:
    """Return what is to be said of one place, the worst only, and what to do about it."""
    quoting = template.quoting(place)
    if quoting not in _EXPANDED:
        return None
    name = f"${place.name}"
    certain = next((hazard for hazard in hazards if hazard.kind is not HazardKind.OPTION), None)
    if certain is not None:
        return f"high risk: {name} {certain.message}", certain.advice
    if quoting is Quoting.WORDS:
        message = f"{name} is not in quotes: the shell splits it at blanks and expands * in it"
        return message, f'write "{name}"'
    return (f"high risk: {name} {hazards[0].message}", hazards[0].advice) if hazards else None
