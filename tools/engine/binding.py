"""The values of one call: its parameters, the predefined names, and what its steps gave so far."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tools.engine.expressions import condition
from tools.engine.predefined import predefined_values
from tools.engine.surroundings import system_temp
from tools.engine.template import Names, Placeholder, Value, parse
from tools.engine.values import Values
from tools.formats.references import PREDEFINED

if TYPE_CHECKING:
    from tools.actions import PlanAction
    from tools.definition import ResolvedCall
    from tools.engine.results import StepResult

_VARIABLE_NAME = re.compile(r"(?<![${])\{([A-Za-z_]\w*)\}", re.ASCII)


class Bindings:
    """Values for the placeholders of one call's templates.

    A parameter hides the predefined name it shares (X102). `results` are those of the steps that
    have ended; while it is None, before the call runs, what steps will give stands for itself.
    `warnings` are about parameters that should not be used any more, `composed` holds the values
    of parameters that were left to a default with placeholders. The constructor raises
    ToolError where a default or transform fails; all methods raise TemplateError and ToolError.
    """

    def __init__(
        self, call: ResolvedCall, action: PlanAction, root: Path, env: Mapping[str, str]
    ) -> None:
        declared = frozenset(action.parameters)
        steps = frozenset(step.name for step in action.steps)
        self.results: Mapping[str, StepResult] | None = None
        self.names = Names(declared, PREDEFINED - declared, steps)
        self.escape = {name: given.escape_shell for name, given in action.parameters.items()}
        self._values = Values(
            action.parameters,
            _arguments(call, action),
            predefined_values(call.tool.name, root, system_temp(env), env),
            self._of_step,
        )
        self.warnings = self._values.warnings
        self.composed = self._values.composed

    def of(self, placeholders: Iterable[Placeholder]) -> dict[str, Value]:
        """Return the value of each placeholder, by key."""
        places = tuple(placeholders)
        late = {} if self.results is not None else {
            place.key: f"{{{place.key}}}" for place in places if self._is_late(place)
        }  # fmt: skip
        known = (place for place in places if place.key not in late)
        return late | self._values.of(known, self.names)

    def holds(self, expression: str) -> bool:
        """Tell whether a step's condition is true (X43, X44). Raises ExpressionError."""
        return condition(expression, self.names, self._values.lookup)

    def fill(self, text: str) -> str:
        """Put values into text that no shell reads."""
        template = parse(text, self.names)
        return template.fill(self.of(template.placeholders))

    def fill_all(self, value: Any) -> Any:
        """Put values into every text of a JSON value."""
        if isinstance(value, str):
            return self.fill(value)
        if isinstance(value, Mapping):
            return {name: self.fill_all(item) for name, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.fill_all(item) for item in value]
        return value

    def is_late(self, value: Any) -> bool:
        """Tell whether a template, or one within a JSON value, needs what steps will give."""
        if isinstance(value, str):
            return any(map(self._is_late, parse(value, self.names).placeholders))
        if isinstance(value, Mapping):
            return any(map(self.is_late, value.values()))
        return isinstance(value, list | tuple) and any(map(self.is_late, value))

    def variable(self, text: str, environ: Mapping[str, str]) -> str | None:
        """Fill in the template of an environment variable, undeclared names from `environ`.

        None where such a name is not set there: then the variable is not set either (X92).
        """
        known = self.names
        others = {name for name in _VARIABLE_NAME.findall(text) if not known.knows(name, None)}
        if any(name not in environ for name in others):
            return None
        template = parse(text, Names(known.parameters, known.predefined | others, known.steps))
        own = self.of(place for place in template.placeholders if place.name not in others)
        return template.fill({name: environ[name] for name in others} | own)

    def _is_late(self, place: Placeholder) -> bool:
        return place.step_property is not None or (
            bool(place.expression) and any(f"{step}." in place.key for step in self.names.steps)
        )

    def _of_step(self, name: str, wanted: str | None) -> Any:
        return step_value((self.results or {}).get(name), wanted or "")


def _arguments(call: ResolvedCall, action: PlanAction) -> Mapping[str, Any]:
    """Return the arguments, separators of paths converted where the tool asks for it (X117)."""
    if not action.environment.normalize_paths:
        return call.arguments
    ours, theirs = ("\\", "/") if os.sep == "\\" else ("/", "\\")
    paths = {name for name, parameter in action.parameters.items() if parameter.path}
    return {
        name: value.replace(theirs, ours) if name in paths and isinstance(value, str) else value
        for name, value in call.arguments.items()
    }


def step_value(result: StepResult | None, wanted: str) -> Any:
    """Return what `{step.wanted}` stands for: null, or empty, where the step did not run (X43)."""
    if wanted in ("output", "error"):
        data = b"" if result is None else result.output if wanted == "output" else result.error
        # As `$(…)` does it (X90); no program can be given a NUL.
        return data.replace(b"\0", b"").rstrip(b"\n").decode("utf-8", "surrogateescape")
    if result is None or not result.executed:
        return None
    if wanted == "exit-code":
        return result.exit_code
    if wanted == "duration":
        return result.duration_ms
    moment = result.started if wanted == "start-time" else result.ended
    return None if moment is None else _iso(moment)


def _iso(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
