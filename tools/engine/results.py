"""What became of the steps of a plan, and the one result that the call gives (X45-X47, X19)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from enum import StrEnum
from pathlib import Path

from tools.definition import Outcome, ToolResult
from tools.record import record

TIMED_OUT_CODE = 124
"""The exit code of a step, and of a tool, that ran out of time, as timeout(1) has it."""

TIMED_OUT = "timed out after {} ms"
CYCOD_TIMED_OUT = "Command timed out after {}ms"
"""The same in the words of the CYCOD document (C387)."""


class StepState(StrEnum):
    """How a step ended; every step ends in exactly one of these."""

    OK = "ok"
    SKIPPED = "skipped"
    """Its condition was false."""
    FAILED = "failed"
    TIMED_OUT = "timed out"
    IGNORED = "ignored"
    """It failed or ran out of time, and the plan was to go on then."""
    CANCELLED = "cancelled"
    """It was not started, because the plan had ended before."""


ENDINGS = frozenset({StepState.FAILED, StepState.TIMED_OUT})
"""The states that end a plan."""


@record
class StepResult:
    """How one step went.

    `text` is its output for the model, `note` how it ended where that needs a word. `output` and
    `error` are the bytes that later steps may refer to. `exit_code` is None where nothing was run
    (X43); the end by a signal counts 128 and its number, as in a shell. `signalled` tells the two
    apart. Times are UTC. `cut` says that `output` or `error` is not all there was.
    """

    number: int
    name: str
    state: StepState
    text: str = ""
    note: str = ""
    output: bytes = b""
    error: bytes = b""
    exit_code: int | None = None
    signalled: bool = False
    started: datetime | None = None
    ended: datetime | None = None
    duration_ms: int = 0
    full_output: Path | None = None
    cut: str = ""

    @property
    def executed(self) -> bool:
        """True when the step was started."""
        return self.started is not None

    def shown(self) -> str:
        """Return the output and how it ended, for the model."""
        ending = f"[{self.note}]" if self.note else ""
        return "\n".join(part for part in (self.text, ending) if part)


def plan_result(
    results: Sequence[StepResult],
    failure: StepResult | None,
    *,
    ignore_errors: bool,
    timed_out: str,
    remarks: Sequence[str],
) -> ToolResult:
    """Return the result of a whole plan.

    `results` are in the order of the file. `failure` is the step that ended the plan early,
    `timed_out` says, where it is so, that its deadline did. `remarks` are lines to add.
    """
    parts = [_section(result, alone=len(results) == 1) for result in results]
    code, outcome = _ending(failure)
    if timed_out:
        code, outcome = TIMED_OUT_CODE, Outcome.TIMED_OUT
        if len(results) > 1:
            parts.append(f"[{timed_out}; everything it started was ended]")
    if ignore_errors:
        parts += [f"ignored error: {reason}" for reason in _reasons(results, timed_out)]
        code, outcome = 0, Outcome.OK
    text = "\n".join(part for part in (*parts, *remarks) if part)
    full = next((result.full_output for result in results if result.full_output), None)
    alone_signalled = failure is not None and failure.signalled and len(results) == 1
    return ToolResult(
        text or "(no output)",
        outcome,
        exit_code=None if alone_signalled and code else code,
        full_output=full,
    )


def _section(result: StepResult, *, alone: bool) -> str:
    if alone:
        return result.shown()
    return f"--- Step {result.number}: {result.name} ---\n{result.shown() or '(no output)'}"


def _ending(failure: StepResult | None) -> tuple[int, Outcome]:
    if failure is None:
        return 0, Outcome.OK
    outcome = Outcome.TIMED_OUT if failure.state is StepState.TIMED_OUT else Outcome.ERROR
    return (1 if failure.exit_code is None else failure.exit_code), outcome


def _reasons(results: Sequence[StepResult], timed_out: str) -> Iterator[str]:
    for result in results:
        if result.state in ENDINGS or result.state is StepState.IGNORED:
            note = result.note.removesuffix("; ignored")
            yield f"step {result.number}, {result.name}: {note}"
    if timed_out:
        yield timed_out
