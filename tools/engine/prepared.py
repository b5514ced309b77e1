"""A call of a plan, read and checked before anything is asked or run."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path

from tools.actions import Argv, Command, PlanAction, PlatformCommands, Shell, Step, UseTool
from tools.definition import JsonObject, ResolvedCall, ToolDefinition, ToolError
from tools.engine.arguments import CallVariables, call_variables, without_outer_arguments
from tools.engine.binding import Bindings
from tools.engine.commands import Compiled, Shown, compile_command, for_platform
from tools.engine.compose import ToolFinder, find_plan, through_aliases
from tools.engine.foreground import has_terminal
from tools.engine.hazards import Hazard, run_templates, variable_hazards
from tools.engine.masking import Masker
from tools.engine.plan import PlanError, PlannedStep, order_steps
from tools.engine.surroundings import Surroundings, surroundings
from tools.engine.template import TemplateError, parse
from tools.formats.cycod_steps import native_shell
from tools.formats.platforms import current_platform
from tools.record import record
from tools.secret_values import line_secrets, variable_secrets

DEFAULT_TIMEOUT_MS = 30_000
"""The deadline of a tool whose file names none."""

WHOLE_DAY_MS = 24 * 60 * 60 * 1000


@record
class Setting:
    """What a call is prepared with: the workspace, the environment of processes, other tools.

    `within` are the names of the tools around this one. `by_hand` says that the person who typed
    the call is there to talk to what it runs. `secrets` are opta's own, which nothing shows (R39).
    """

    root: Path
    child_env: Mapping[str, str]
    tools: ToolFinder
    within: tuple[str, ...] = ()
    by_hand: bool = False
    secrets: tuple[str, ...] = ()


class PreparedPlan:
    """A call of a tool that is a plan, ready to be shown and run. Nothing has happened yet.

    `call` is the call of the plan itself, `passed` the aliases that led to it. `commands`,
    `fallbacks` and `inner` are by the name of their step; `referred` names the steps whose whole
    output something refers to.
    """

    def __init__(self, call: ResolvedCall, setting: Setting) -> None:
        """Read the plan's templates and put in what is known. Raises ToolError."""
        self.call, self.passed = through_aliases(call, setting.within, setting.tools, setting.root)
        tool = self.call.tool
        if tool.unavailable:
            raise ToolError(f"The tool {tool.name} cannot run here: {tool.unavailable}.")
        if not isinstance(tool.action, PlanAction):
            raise ToolError(f"The tool {tool.name} is not made of commands. Nothing was done.")
        self.action: PlanAction = tool.action
        self.setting = Setting(
            setting.root, setting.child_env, setting.tools,
            (*setting.within, *(alias.name for alias in self.passed), tool.name),
            setting.by_hand, setting.secrets,
        )  # fmt: skip
        self.in_terminal = self._is_in_terminal()
        try:
            self._read()
        except (PlanError, TemplateError) as error:
            raise ToolError(f"The tool {tool.name} cannot run: {error} Nothing was done.") from None

    def _read(self) -> None:
        action, setting = self.action, self.setting
        shared = [action.interaction.input]
        self.steps = order_steps(action.steps, shared)
        self.bindings = Bindings(self.call, action, setting.root, setting.child_env)
        self.commands: dict[str, Compiled] = {}
        self.fallbacks: dict[str, Compiled] = {}
        self.inner: dict[str, ToolDefinition] = {}
        for step in action.steps:
            self._read_step(step)
        self.surroundings = self._surroundings()
        self.variables = self._call_variables()
        self.masker = self._masker()
        self.referred = {name for planned in self.steps for name in planned.refers_to}

    def _read_step(self, step: Step) -> None:
        if isinstance(step.command, UseTool):
            self.inner[step.name] = find_plan(
                step.command.name, self.call.tool.name, self.setting.within, self.setting.tools
            )
        else:
            self.commands[step.name] = self._compile(step.command, step.name)
        if step.fallback:
            shell = Shell(_shell_of(step.command), step.fallback, placeholders=True)
            self.fallbacks[step.name] = self._compile(shell, f"{step.name} fallback")

    def cleanup(self, command: Shell) -> Compiled:
        """Read one of the commands that clean up. Raises TemplateError."""
        return self._compile(command, "cleanup")

    def _compile(self, command: Shell | Argv | PlatformCommands, what: str) -> Compiled:
        tool = self.call.tool.name
        label = tool if what == tool else f"{tool}/{what}"
        return compile_command(command, self.bindings.names, self.bindings.escape, label)

    def shown(self, compiled: Compiled) -> Shown:
        """Return how a command reads with what is known of its values. Raises ToolError."""
        try:
            return compiled.show(self.bindings.of(compiled.placeholders))
        except TemplateError as error:
            raise ToolError(f"{error} Nothing was done.") from None

    def inner_plan(self, step: Step) -> PreparedPlan:
        """Prepare the tool that a step uses, with what is known of its arguments.

        Before the plan runs, arguments that need what steps will give are not checked.
        Raises ToolError.
        """
        assert isinstance(step.command, UseTool)
        tool = self.inner[step.name]
        arguments: JsonObject = self.bindings.fill_all(step.command.arguments)
        late = self.bindings.results is None and self.bindings.is_late(step.command.arguments)
        if not late:
            arguments = self.setting.tools.check(tool, arguments)
        inner = PreparedPlan(ResolvedCall(self.call.id, tool, arguments), self.setting)
        self.hide(inner.secrets())
        return inner

    @property
    def timeout_ms(self) -> int:
        """The deadline of the whole call; in a terminal the person decides when to end it."""
        if self.in_terminal:
            return WHOLE_DAY_MS
        return self.call.tool.limits.timeout_ms or DEFAULT_TIMEOUT_MS

    def _is_in_terminal(self) -> bool:
        """Tell whether what it runs talks to the person (X125). Raises ToolError."""
        interaction = self.action.interaction
        if not (self.setting.by_hand and interaction.interactive) or interaction.input:
            return False
        if has_terminal():
            return True
        if interaction.default_response is None:
            raise ToolError(
                f"The tool {self.call.tool.name} is interactive: it asks the person and needs a "
                "terminal as standard input. Nothing was done. Run it in a terminal, or give its "
                "file `interactive-options: {default-response: ...}`."
            )
        return False

    def with_defaults(self, arguments: JsonObject) -> JsonObject:
        """Return arguments with values for defaults that stand there with their placeholders.

        Checking a call against its schema put those in.
        """
        composed = self.bindings.composed
        return {name: composed.get(name, value) for name, value in arguments.items()}

    def _surroundings(self) -> Surroundings:
        environ = {**os.environ, **self.setting.child_env}
        return surroundings(
            self.action.environment,
            root=self.setting.root,
            child_env=without_outer_arguments(self.setting.child_env),
            fill=self.bindings.fill,
            variable=lambda text: self.bindings.variable(text, environ),
            wants_temp=self.action.delete_temp,
        )

    def variable_hazards(self) -> tuple[Hazard, ...]:
        """Return what values can do in the environment variables that the tool sets."""
        return tuple(
            hazard
            for name, text in run_templates(self.action.environment)
            for hazard in variable_hazards(name, parse(text, self.bindings.names)).hazards
        )

    def _call_variables(self) -> CallVariables | None:
        if not self.action.environment.arguments_as_variables:
            return None
        return call_variables(self.with_defaults(self.call.arguments))

    def _masker(self) -> Masker:
        known = [
            template
            for step in self.action.steps
            for template in step.output.masked
            if not self.bindings.is_late(template)
        ]
        self.hidden = (*self.surroundings.secrets, *self.masked(known))
        return Masker((*self.hidden, *self.setting.secrets, *self._named_secrets()))

    def _named_secrets(self) -> list[str]:
        """Return what the tool's file gives to names such as `API_KEY`, in variables and commands.

        What the call gives is none: the model has said it.
        """
        templates, names = self.action.environment.variables, self.bindings.names
        own = {
            name: value for name, value in self.surroundings.changes.items()
            if name in templates and not parse(templates[name], names).placeholders
        }  # fmt: skip
        lines = [line for step in self.action.steps for line in _lines_of(step.command)]
        return [*variable_secrets(own), *chain.from_iterable(map(line_secrets, lines))]

    def secrets(self) -> tuple[str, ...]:
        """Return what must not show, once steps have run also those values that they gave."""
        late = [
            text
            for step in self.action.steps
            for text in step.output.masked
            if self.bindings.results is not None and self.bindings.is_late(text)
        ]
        return (*self.masker.secrets, *self.masked(late))

    def hide(self, secrets: Iterable[str]) -> None:
        """Keep from being shown, from now on, what a tool that a step uses keeps secret (X105)."""
        known = dict.fromkeys((*self.masker.secrets, *secrets))
        if len(known) > len(self.masker.secrets):
            self.masker = Masker(known)

    def masked(self, templates: list[str]) -> list[str]:
        """Return the values of templates that must not show; names may be of the environment."""
        values = (self.bindings.variable(text, os.environ) for text in templates)
        return [value for value in values if value]

    @property
    def hides(self) -> bool:
        """True when there is a value that must not show."""
        late = any(step.output.masked for step in self.action.steps)
        return late or bool(self.hidden)

    def step_masker(self, planned: PlannedStep) -> Masker:
        """Return what hides secrets of one step, those among them that other steps gave."""
        late = [text for text in planned.step.output.masked if self.bindings.is_late(text)]
        if not late:
            return self.masker
        return Masker((*self.masker.secrets, *self.masked(late)))


def _lines_of(command: Command) -> Iterator[str]:
    """Yield the text of a command, for each system that has one of its own."""
    match command:
        case Shell(text=text):
            yield text
        case Argv(words=words):
            yield " ".join(words)
        case PlatformCommands(default, platforms):
            yield from (shell.text for shell in (default, *platforms.values()) if shell is not None)


def _shell_of(command: Command) -> str:
    """Return the shell of a fallback: that of the step, where it has one (X50)."""
    if isinstance(command, PlatformCommands):
        command = for_platform(command)
    return command.kind if isinstance(command, Shell) else native_shell(current_platform())
