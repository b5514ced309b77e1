"""Runs one step of a plan: its condition, its tries, its fallback, its output."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from dataclasses import field
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from tools import storage
from tools.clock import elapsed_ms
from tools.confinement import Level
from tools.definition import Progress, ResolvedCall, ToolError
from tools.engine.commands import Start
from tools.engine.expressions import ExpressionError
from tools.engine.masking import Masker
from tools.engine.plan import PlannedStep
from tools.engine.process import ProcessResult, ProcessSpec, ProcessStartError, run_process
from tools.engine.results import TIMED_OUT, TIMED_OUT_CODE, StepResult, StepState
from tools.engine.streams import (
    Live,
    LiveLines,
    LiveLog,
    LivePieces,
    OutputLimitError,
    StepStream,
    for_result,
)
from tools.engine.template import TemplateError
from tools.permissions.grant import Grant
from tools.record import record


@record
class Clock:
    """The deadline of a whole call (X52)."""

    timeout_ms: int
    started: float = field(default_factory=time.monotonic)

    def rest_ms(self) -> int:
        """Return how much time is left, in ms; not below 0."""
        return max(0, self.timeout_ms - elapsed_ms(self.started))

    def is_over(self) -> bool:
        """True when the time is up."""
        return self.rest_ms() == 0


@record
class Processes:
    """Starts the processes of one call, all under the call's grant.

    `reads` are files of opta's that they read.
    """

    grant: Grant
    call: ResolvedCall
    cwd: Path
    env: Mapping[str, str]
    max_memory_bytes: int | None = None
    reads: tuple[Path, ...] = ()
    terminal: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def run(
        self,
        start: Start,
        timeout_ms: int,
        streams: tuple[StepStream, StepStream],
    ) -> ProcessResult:
        """Run one command to its end; one at a time has the terminal.

        Raises ProcessStartError, OutputLimitError, StorageError.
        """
        async with AsyncExitStack() as files:
            if start.terminal:
                await files.enter_async_context(self.terminal)
            argv, descriptors, scripts = _with_script(start, files, by_name=self._needs_names())
            spec = ProcessSpec(
                argv=argv,
                cwd=self.cwd,
                env=self.env,
                timeout_ms=timeout_ms,
                stdin=start.stdin,
                stdin_delay_ms=start.stdin_delay_ms,
                descriptors=descriptors,
                max_memory_bytes=self.max_memory_bytes,
                reads=(*self.reads, *scripts),
                terminal=start.terminal,
                pass_output=start.pass_output,
            )
            return await run_process(self.grant, self.call, spec, filters=streams)

    def _needs_names(self) -> bool:
        """A container gets files, not descriptors."""
        walls = self.grant.confinement
        return walls is not None and walls.level is Level.CONTAINER


def _with_script(
    start: Start, files: AsyncExitStack, *, by_name: bool
) -> tuple[tuple[str, ...], tuple[int, ...], tuple[Path, ...]]:
    """Return the words to start, the descriptors and the files that they name."""
    if start.script is None:
        return start.argv, (), ()
    if start.suffix or by_name:
        path = storage.write_scratch(start.script, start.suffix or ".sh")
        files.callback(storage.remove, path)
        return (*start.argv, str(path)), (), (path,)
    descriptor = storage.data_descriptor(start.script)
    files.callback(os.close, descriptor)
    return (*start.argv, f"/dev/fd/{descriptor}"), (descriptor,), ()


@record
class Attempt:
    """What one run of a step's command gave; `ok` is what the plan goes by."""

    ok: bool
    text: str = ""
    note: str = ""
    output: bytes = b""
    error: bytes = b""
    exit_code: int | None = 1
    signalled: bool = False
    timed_out: bool = False
    full_output: Path | None = None
    cut: str = ""


@record
class StepContext:
    """What the steps of one call share.

    `alone` says that the plan has one step; `clip` is how many characters of each step's output
    the model gets; `log_directory` is where a step that streams to a file has it (X124).
    `timed_out` says that a deadline of {} ms was over.
    """

    processes: Processes
    clock: Clock
    progress: Progress
    alone: bool
    clip: int
    log_directory: Path | None = None
    timed_out: str = TIMED_OUT


class StepCommand(Protocol):
    """What a step runs, with its values put in at the last moment."""

    async def run(self, run: StepRun) -> Attempt:
        """Run it once. Raises ToolError, TemplateError."""
        ...


@record
class StepRun:
    """One run of one step: its share of the time, and what its output must not show."""

    planned: PlannedStep
    context: StepContext
    masker: Masker
    timeout_ms: int
    keep: bool


async def run_step(
    planned: PlannedStep,
    context: StepContext,
    command: StepCommand,
    fallback: StepCommand | None,
    *,
    masker: Masker,
    keep: bool,
) -> StepResult:
    """Run a step with its retries and its fallback (X48-X50). Never raises but when cancelled,
    or when the grant is not for this call.

    `keep` says that its whole output will be asked for.
    """
    started, clock = datetime.now(UTC), time.monotonic()
    tries = _Tries(planned, context, masker, keep)
    attempt = await tries.run(command, fallback)
    step = planned.step
    over = attempt.timed_out and context.clock.is_over()
    return StepResult(
        number=planned.number,
        name=step.name,
        state=_state(attempt, forgiven=step.continue_on_error and not over),
        text=attempt.text,
        note=masker.text(tries.note(attempt)),
        output=attempt.output,
        error=attempt.error,
        exit_code=attempt.exit_code,
        signalled=attempt.signalled,
        started=started,
        ended=datetime.now(UTC),
        duration_ms=elapsed_ms(clock),
        full_output=attempt.full_output,
        cut=attempt.cut,
    )


def _state(attempt: Attempt, *, forgiven: bool) -> StepState:
    if attempt.ok:
        return StepState.OK
    if forgiven:
        return StepState.IGNORED
    return StepState.TIMED_OUT if attempt.timed_out else StepState.FAILED


class _Tries:
    """The runs of one step until one is good."""

    def __init__(
        self, planned: PlannedStep, context: StepContext, masker: Masker, keep: bool
    ) -> None:
        self._planned, self._context = planned, context
        self._masker, self._keep = masker, keep
        self._count = 0
        self._fell_back = False

    async def run(self, command: StepCommand, fallback: StepCommand | None) -> Attempt:
        retry = self._planned.step.retry
        attempt = await self._once(command)
        for number in range(retry.attempts):
            if attempt.ok or self._context.clock.is_over():
                break
            delay_s = retry.delay_ms / 1000 * (1 if retry.fixed else 2.0 ** min(number, 40))
            await asyncio.sleep(min(delay_s, self._context.clock.rest_ms() / 1000))
            if self._context.clock.is_over():
                break
            attempt = await self._once(command)
        if attempt.ok or fallback is None or self._context.clock.is_over():
            return attempt
        self._fell_back = True
        return await self._once(fallback)

    def note(self, attempt: Attempt) -> str:
        """Return how it ended, in words."""
        words = [attempt.note] if attempt.note else []
        if self._fell_back:
            words.append("this is the fallback's result" if attempt.ok else "the fallback failed")
        if self._count > 1 + self._fell_back:
            words.append(f"{self._count - self._fell_back} tries")
        if not attempt.ok and self._planned.step.continue_on_error:
            words.append("ignored")
        return "; ".join(words)

    async def _once(self, command: StepCommand) -> Attempt:
        self._count += 1
        rest_ms, own_ms = self._context.clock.rest_ms(), self._planned.step.timeout_ms
        timeout_ms = rest_ms if own_ms is None else min(own_ms, rest_ms)
        run = StepRun(self._planned, self._context, self._masker, timeout_ms, self._keep)
        try:
            return await command.run(run)
        except (
            ExpressionError, OutputLimitError, ProcessStartError, TemplateError, ToolError,
            storage.StorageError,
        ) as error:  # fmt: skip
            return Attempt(ok=False, note=str(error))


@record
class ProcessCommand:
    """A command that is a process; `start` puts the values in."""

    start: Callable[[], Start]

    async def run(self, run: StepRun) -> Attempt:
        """Run it once. Raises ProcessStartError, OutputLimitError, TemplateError."""
        options, start = run.planned.step.output, self.start()
        with _shows(run, talks=start.terminal) as (show, show_errors):
            streams = (
                StepStream(options, run.masker, keep=run.keep, show=show),
                StepStream(options, run.masker, keep=run.keep, show=show_errors),
            )
            process = await run.context.processes.run(start, run.timeout_ms, streams)
        return _attempt(process, run, streams)


@contextmanager
def _shows(run: StepRun, *, talks: bool) -> Iterator[tuple[Live | None, Live | None]]:
    """Decide where stdout and stderr are shown while they come (C384, X124).

    `talks` says that the person answers what is shown.
    """
    options, context, name = run.planned.step.output, run.context, run.planned.step.name
    if (
        not talks
        and options.stream
        and options.callback == "file"
        and context.log_directory is not None
    ):
        log = LiveLog(context.log_directory / f"{run.planned.number}.log")
        context.progress(f"The output of {name} goes to {log.path}\n")
        try:
            yield log, log
        finally:
            log.close()
        return

    def show(text: str) -> None:
        context.progress(run.masker.text(text))

    if context.alone or talks:
        yield LivePieces(show), LivePieces(show)
    elif options.stream:
        yield LiveLines(f"{name} | ", show), LiveLines(f"{name} | ", show)
    else:
        yield None, None


def _attempt(
    process: ProcessResult, run: StepRun, streams: tuple[StepStream, StepStream]
) -> Attempt:
    options, clip = run.planned.step.output, run.context.clip
    stdout, cut = for_result(process.stdout, options, clip)
    stderr, errors_cut = for_result(process.stderr, options, clip)
    parts = [stdout.text.rstrip("\n")]
    if process.stderr.total_bytes:
        parts.append(f"[stderr] {stderr.text.rstrip()}")
    if cut or errors_cut:
        parts.append(f"[{cut or errors_cut}]")
    parts += [f"[{remark}]" for remark in process.remarks]
    return Attempt(
        ok=process.exit_code == 0 and not process.timed_out,
        text=run.masker.text("\n".join(part for part in parts if part)),
        note=_ending(process, run.context.timed_out.format(_limit_ms(run))),
        output=streams[0].reference(),
        error=streams[1].reference(),
        exit_code=_exit_code(process),
        signalled=process.exit_code is None,
        timed_out=process.timed_out,
        full_output=stdout.full_output or stderr.full_output,
        cut=cut or errors_cut,
    )


def _exit_code(process: ProcessResult) -> int:
    if process.timed_out:
        return TIMED_OUT_CODE
    return 128 + (process.signal or 0) if process.exit_code is None else process.exit_code


def _limit_ms(run: StepRun) -> int:
    """Return the deadline as the file says it: of an only step, the call's own is meant."""
    of_the_call = run.timeout_ms != run.planned.step.timeout_ms
    return run.context.clock.timeout_ms if run.context.alone and of_the_call else run.timeout_ms


def _ending(process: ProcessResult, timed_out: str) -> str:
    if process.timed_out:
        return f"{timed_out}; the command and its children were ended"
    if process.exit_code is None:
        return f"ended by signal {process.signal_name}"
    return f"exit code: {process.exit_code}" if process.exit_code else ""
