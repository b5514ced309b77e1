"""The engine: what a call of a custom tool will do, and doing it.

Every custom tool is a plan of steps; a tool of one command is a plan of one step. A value never
becomes shell text (R1): it arrives in variables that are assigned ahead of the script.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import replace

from tools import storage
from tools.actions import Interaction, OutputOptions, Shell, Step
from tools.definition import (
    Invocation,
    Outcome,
    Progress,
    ResolvedCall,
    ToolError,
    ToolResult,
)
from tools.engine.commands import Compiled, Start
from tools.engine.environment import with_terminal
from tools.engine.isolation.choice import Isolation
from tools.engine.output import CLIP_CHARS
from tools.engine.plan import PlannedStep
from tools.engine.prepared import PreparedPlan, Setting
from tools.engine.preview import preview
from tools.engine.process import settle_now
from tools.engine.results import (
    CYCOD_TIMED_OUT,
    TIMED_OUT,
    StepResult,
    StepState,
    plan_result,
)
from tools.engine.schedule import Schedule
from tools.engine.steps import (
    Attempt,
    Clock,
    ProcessCommand,
    Processes,
    StepCommand,
    StepContext,
    StepRun,
    run_step,
)
from tools.permissions.grant import Grant
from tools.record import record

IN_ORDER = frozenset({"custom tools"})
"""The key that calls of tools without `parallel` share, so that they run in order (X28)."""

CLEANUP_TIMEOUT_MS = 30_000
"""How long each cleanup command may take."""

ANSWER_AFTER_MS = 30_000
"""How long a question waits for its default answer where the file does not say (X125)."""

_LEAST_CLIP_CHARS = 1024

Observe = Callable[[Sequence[StepResult]], None]
"""Takes the results of all steps, in the order of the file, with their whole output."""


def prepare_plan(
    call: ResolvedCall,
    setting: Setting,
    *,
    observe: Observe | None = None,
    isolation: Isolation | None = None,
) -> Invocation:
    """Return what a call of a custom tool will do.

    `observe` gets what every step gave, for who wants more than the result; secrets are masked
    there too. `isolation` chooses its walls; without one a tool that asks for some is refused.
    Raises ToolError when the call cannot run.
    """
    plan = PreparedPlan(call, setting)
    shown = preview(plan, call, isolation)

    async def run(grant: Grant, progress: Progress) -> ToolResult:
        observer = None if observe is None else _masking(plan, observe)
        running = _Running(plan, grant, call, progress, Clock(plan.timeout_ms), observer)
        result = (await running.run()).result
        if not plan.bindings.warnings:
            return result
        return replace(result, text="\n".join((result.text, *plan.bindings.warnings)))

    return Invocation(
        title=shown.title,
        effects=shown.effects,
        preview=shown.display,
        run=run,
        warnings=shown.warnings,
        hazards=shown.hazards,
        exclusive=frozenset() if call.tool.parallel else IN_ORDER,
        uses=shown.uses,
        permissions=shown.permissions,
        confinement=shown.confinement,
    )


def _masking(plan: PreparedPlan, observe: Observe) -> Observe:
    """Return what takes the bytes that steps gave each other, and passes them on masked."""
    planned = {step.number: step for step in plan.steps}

    def masked(result: StepResult) -> StepResult:
        if result.number not in planned:  # cleaning up gives no bytes
            return result
        masker = plan.step_masker(planned[result.number])
        return replace(result, output=masker.data(result.output), error=masker.data(result.error))

    return lambda results: observe([masked(result) for result in results])


@record
class _Ended:
    """What a plan gave: the result, and its steps in the order of the file."""

    result: ToolResult
    steps: Sequence[StepResult]


class _Running:
    """One run of a plan. `granted` is the call that was allowed, which stands around this one
    where a tool uses another."""

    def __init__(
        self,
        plan: PreparedPlan,
        grant: Grant,
        granted: ResolvedCall,
        progress: Progress,
        clock: Clock,
        observe: Observe | None = None,
    ) -> None:
        self._plan, self._grant, self._granted = plan, grant, granted
        self._progress, self._clock, self._observe = progress, clock, observe
        self._files = ExitStack()
        in_cycod = plan.call.tool.origin.format == "cycod"
        self._timed_out = CYCOD_TIMED_OUT if in_cycod else TIMED_OUT
        self._context: StepContext | None = None
        self._schedule = Schedule(plan.steps, self._run_step, clock.is_over)
        plan.bindings.results = self._schedule.results

    async def run(self) -> _Ended:
        """Run the plan; cleanup happens whatever else does. Raises ToolError, GrantError."""
        self._grant.check(self._granted)
        try:
            self._context = self._prepare()
            await self._schedule.run()
        except BaseException:
            self._begin_cleanup()
            raise
        steps = sorted(self._schedule.results.values(), key=lambda result: result.number)
        late = self._clock.is_over() and any(
            result.state in (StepState.TIMED_OUT, StepState.CANCELLED) for result in steps
        )
        # In a thread of its own: when this is cancelled, cleaning up goes on.
        problems = await asyncio.wrap_future(self._begin_cleanup())
        if self._observe is not None:
            self._observe([*steps, *_as_steps(problems, len(steps))])
        result = plan_result(
            steps,
            self._schedule.failure,
            ignore_errors=self._plan.action.ignore_errors,
            timed_out=self._timed_out.format(self._clock.timeout_ms) if late else "",
            remarks=problems,
        )
        return _Ended(result, steps)

    def _prepare(self) -> StepContext:
        """Make the files that the call needs. Raises ToolError."""
        plan, around = self._plan, self._plan.surroundings
        env, arguments = dict(around.env), None
        try:
            if around.temp is not None:
                storage.private_dir(around.temp)
            if plan.variables is not None and plan.variables.overflow:
                arguments = storage.write_scratch(plan.variables.arguments_json.encode())
                self._files.callback(storage.remove, arguments)
        except storage.StorageError as error:
            raise ToolError(f"The call cannot be set up: {error} Nothing was done.") from error
        if plan.variables is not None:
            env = plan.variables.added_to(env, plan.call, arguments)
        if plan.in_terminal:
            env = with_terminal(env, os.environ)
        count = len(plan.steps)
        return StepContext(
            processes=Processes(
                self._grant, self._granted, around.cwd, env,
                max_memory_bytes=plan.call.tool.limits.max_memory_bytes,
                reads=() if arguments is None else (arguments,),
            ),
            clock=self._clock,
            progress=self._progress,
            alone=count == 1,
            clip=CLIP_CHARS if count == 1 else max(_LEAST_CLIP_CHARS, 2 * CLIP_CHARS // count),
            log_directory=around.temp,
            timed_out=self._timed_out,
        )  # fmt: skip

    async def _run_step(self, planned: PlannedStep) -> StepResult:
        plan, step, context = self._plan, planned.step, self._context
        assert context is not None
        try:
            skip = bool(step.condition) and not plan.bindings.holds(step.condition)
        except ValueError as error:
            return StepResult(
                planned.number, step.name, StepState.FAILED, note=plan.masker.text(str(error))
            )
        if skip:
            note = f"skipped: {step.condition} is false"
            return StepResult(planned.number, step.name, StepState.SKIPPED, note=note)
        if not context.alone:
            self._progress(f"--- Step {planned.number}: {step.name} ---\n")
        fallback = plan.fallbacks.get(step.name)
        return await run_step(
            planned,
            context,
            self._command(step),
            None if fallback is None else self._process(fallback, step),
            masker=plan.step_masker(planned),
            keep=step.name in plan.referred or self._observe is not None,
        )

    def _command(self, step: Step) -> StepCommand:
        if step.name in self._plan.inner:
            return _InnerTool(self._plan, self._grant, self._granted, step)
        return self._process(self._plan.commands[step.name], step)

    def _process(self, command: Compiled, step: Step | None = None) -> ProcessCommand:
        """Return what runs a command; without a `step` it never talks to the person."""
        plan, bindings, interaction = self._plan, self._plan.bindings, self._plan.action.interaction

        def start() -> Start:
            begun = command.start(bindings.of(command.placeholders))
            if step is not None and plan.in_terminal:
                # What other steps refer to, and secrets, pass through opta.
                passed = step.name not in plan.referred and not plan.hides
                return replace(begun, terminal=True, pass_output=passed)
            stdin, delay_ms = _stdin(interaction, bindings.fill)
            return replace(begun, stdin=stdin, stdin_delay_ms=delay_ms)

        return ProcessCommand(start)

    def _begin_cleanup(self) -> Future[list[str]]:
        """Clean up, keeping nobody waiting; opta does not exit before it is done.

        The future gives what went wrong.
        """
        done: Future[list[str]] = Future()
        done.set_running_or_notify_cancel()
        action, context = self._plan.action, self._context
        if context is None or not (action.cleanup or action.delete_temp):
            self._files.close()
            self._remove_empty_temp()
            done.set_result([])
            return done

        def work() -> None:
            try:
                settle_now()
                with self._files:
                    problems = asyncio.run(self._cleanup_commands(context))
                done.set_result(problems)
            except BaseException as error:
                done.set_exception(error)

        threading.Thread(target=work, name="cleanup").start()
        return done

    def _remove_empty_temp(self) -> None:
        temp = self._plan.surroundings.temp
        if temp is not None:
            storage.remove_empty(temp)

    async def _cleanup_commands(self, context: StepContext) -> list[str]:
        problems = []
        for number, command in enumerate(self._plan.action.cleanup, 1):
            problem = await self._cleanup_command(number, command, context)
            if problem:
                problems.append(self._plan.masker.text(f"Cleanup command failed: {problem}"))
        temp = self._plan.surroundings.temp
        if self._plan.action.delete_temp and temp is not None:
            try:
                storage.remove_tree(temp)
            except storage.StorageError as error:
                problems.append(f"Cleanup command failed: {error}")
        self._remove_empty_temp()
        return problems

    async def _cleanup_command(self, number: int, command: Shell, context: StepContext) -> str:
        """Run one cleanup command and return what went wrong with it, or nothing."""
        planned = PlannedStep(Step(f"cleanup {number}", command), number, (), {})
        context = replace(
            context, clock=Clock(CLEANUP_TIMEOUT_MS), progress=lambda _: None, alone=True
        )
        try:
            compiled = self._plan.cleanup(command)
        except ValueError as error:
            return str(error)
        result = await run_step(
            planned, context, self._process(compiled), None,
            masker=self._plan.masker, keep=False,
        )  # fmt: skip
        return "" if result.state is StepState.OK else f"{command.text}: {result.shown()}"


def _as_steps(problems: Sequence[str], before: int) -> list[StepResult]:
    """Return what cleaning up could not do as results that follow those of the steps."""
    return [
        StepResult(number, "cleanup", StepState.IGNORED, note=problem)
        for number, problem in enumerate(problems, before + 1)
    ]


def _stdin(interaction: Interaction, fill: Callable[[str], str]) -> tuple[bytes | None, int]:
    """Return what a process reads, and how many ms later (X125)."""
    if interaction.input:
        return fill(interaction.input).encode("utf-8", "surrogateescape"), 0
    if interaction.interactive and interaction.default_response is not None:
        after_ms = interaction.answer_after_ms
        answer = f"{interaction.default_response}\n".encode()
        return answer, ANSWER_AFTER_MS if after_ms is None else after_ms
    return None, 0


@record
class _InnerTool:
    """A step that is a call of another tool, under the permission of this one (X129)."""

    plan: PreparedPlan
    grant: Grant
    granted: ResolvedCall
    step: Step

    async def run(self, run: StepRun) -> Attempt:
        """Run the tool once. Raises ToolError."""
        inner = self.plan.inner_plan(self.step)
        timeout_ms = min(run.timeout_ms, inner.timeout_ms)
        outputs: list[StepResult] = []
        ended = await _Running(
            inner, self.grant, self.granted, run.context.progress, Clock(timeout_ms),
            outputs.extend if run.keep else None,
        ).run()  # fmt: skip
        self.plan.hide(inner.secrets())
        result = ended.result
        options = OutputOptions()
        return Attempt(
            ok=result.success,
            text=run.masker.text(result.text),
            output=_lines([step.output for step in outputs])[: options.limit_bytes],
            error=b"".join(step.error for step in outputs)[: options.limit_bytes],
            exit_code=1 if result.exit_code is None else result.exit_code,
            timed_out=result.outcome is Outcome.TIMED_OUT,
            full_output=result.full_output,
        )


def _lines(outputs: Sequence[bytes]) -> bytes:
    """Return outputs one after the other, each of them beginning a line."""
    given = [output for output in outputs if output]
    ended = [output if output.endswith(b"\n") else output + b"\n" for output in given[:-1]]
    return b"".join((*ended, *given[-1:]))
