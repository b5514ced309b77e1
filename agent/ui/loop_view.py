"""Shows a run of the loop: a line that lives while an iteration does, and one when it is over.

On a terminal the line on standard error is rewritten in place; elsewhere it is a line at the
start and one per finished call. Standard output holds only what is promised: a line per iteration
and the summary, or with `json` one object.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Mapping
from typing import TextIO

from agent.events import Event, Notice, RequestStarted, RetryScheduled, TurnFinished
from agent.spec_loop import Iteration, LoopEnd, Run
from agent.ui.batch import Progress
from tools.definition import JsonObject
from tools.engine.output import sanitize
from tools.events import CallFinished, CallStarted

_CLEAR = "\r\x1b[2K"
_OPEN = ("in_progress", "blocked", "remaining")


class TerminalLoopView:
    """Lines for people."""

    def __init__(self, out: TextIO, err: TextIO, most: int | None) -> None:
        """Make a view; `most` is how many iterations the run may have, None where unbounded."""
        self._out = out
        self._err = err
        self._progress = Progress(err)
        self._live = err.isatty()
        self._of = f"/{most}" if most else ""
        self._head = self._doing = ""
        self._started = 0.0

    def begin(self, number: int, run: Run, tasks: Mapping[str, int]) -> None:
        """Show that an iteration begins."""
        nth = f"{len(run.iterations) + 1}{self._of}"
        self._head = f"iteration #{number} ({nth}) · {counted(tasks)} · {run.tokens:,} tokens"
        self._started = time.monotonic()
        if not self._live:
            self._err.write(f"{self._head}\n")
            self._err.flush()
        self._doing = "waiting for the model"
        self.tick()

    def emit(self, event: Event) -> None:
        """Take one event of the conversation."""
        match event:
            case RequestStarted():
                self._doing = "waiting for the model"
            case CallStarted(_, title):
                self._doing = " ".join(sanitize(title).split())
            case CallFinished() | Notice() | RetryScheduled() | TurnFinished():
                self._wipe()
                self._progress.emit(event)
        self.tick()

    def tick(self) -> None:
        """Draw the line anew: the time goes on."""
        if not self._live or not self._head:
            return
        line = f"{self._head} · {time.monotonic() - self._started:.0f} s · {self._doing}"
        columns = shutil.get_terminal_size().columns
        self._err.write(f"{_CLEAR}{line[: columns - 1]}")
        self._err.flush()

    def finish(self, iteration: Iteration, run: Run, tasks: Mapping[str, int]) -> None:
        """Say how an iteration went."""
        self._wipe()
        self._head = ""
        self._out.write(f"{sanitize(_iteration_line(iteration, tasks))}\n")
        self._out.flush()

    def summarise(self, run: Run, exit_code: int) -> None:
        """Say what the run came to."""
        self._wipe()
        self._head = ""
        self._out.write(f"{sanitize(summary(run))}\n")
        self._out.flush()

    def _wipe(self) -> None:
        if self._live and self._head:
            self._err.write(_CLEAR)
            self._err.flush()


class JsonLoopView(TerminalLoopView):
    """The same progress on standard error, and one JSON object on standard output at the end."""

    def finish(self, iteration: Iteration, run: Run, tasks: Mapping[str, int]) -> None:
        """End the line of the iteration."""
        self._wipe()
        self._head = ""

    def summarise(self, run: Run, exit_code: int) -> None:
        """Write the object."""
        self._out.write(json.dumps(_summary_json(run, exit_code)) + "\n")
        self._out.flush()


def counted(tasks: Mapping[str, int]) -> str:
    """Return how far the tasks are: `2 of 5 tasks done, 1 blocked`."""
    total = sum(tasks.values())
    if not total:
        return "no tasks yet"
    blocked = f", {tasks['blocked']} blocked" if tasks["blocked"] else ""
    return f"{tasks['completed']} of {total} task{'s' * (total > 1)} done{blocked}"


def summary(run: Run) -> str:
    """Return what a run came to, for people."""
    spent = [
        _many(len(run.iterations), "iteration"),
        _many(run.requests, "request"),
        f"{run.tokens:,} tokens",
        f"{run.duration_ms / 1000:.0f} s",
    ]
    if run.cost_usd is not None:
        spent.append(f"${run.cost_usd:.2f}")
    lines = [f"Session {run.session}: {_ending(run)}", f"{counted(run.tasks)}; {', '.join(spent)}."]
    open_tasks = sum(run.tasks.get(status, 0) for status in _OPEN)
    if run.end is LoopEnd.COMPLETE and open_tasks:
        lines.append(f"The model called it complete with {open_tasks} open.")
    if run.denied:
        lines.append(f"Denied because nobody could be asked: {_many(run.denied, 'call')}.")
    if run.next_step:
        lines.append(run.next_step)
    return "\n".join(lines)


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}{'s' * (count != 1)}"


def _ending(run: Run) -> str:
    if run.end is LoopEnd.COMPLETE:
        return "complete."
    return f"not complete: {run.detail.rstrip('.')}."


def _iteration_line(iteration: Iteration, tasks: Mapping[str, int]) -> str:
    detail = f": {iteration.detail}" if iteration.detail else ""
    return (
        f"#{iteration.number} {iteration.end.value}{detail} · {counted(tasks)} · "
        f"{_many(iteration.requests, 'request')}, {iteration.tokens:,} tokens, "
        f"{iteration.duration_ms / 1000:.1f} s"
    )


def _summary_json(run: Run, exit_code: int) -> JsonObject:
    return {
        "v": 1,
        "type": "loop",
        "session": run.session,
        "end": run.end.value,
        "exit_code": exit_code,
        "detail": run.detail,
        "next_step": run.next_step,
        "tasks": run.tasks,
        "requests": run.requests,
        "tokens": run.tokens,
        "denied": run.denied,
        "cost_usd": run.cost_usd,
        "duration_ms": run.duration_ms,
        "iterations": [
            {
                "iteration": iteration.number,
                "end": iteration.end.value,
                "detail": iteration.detail,
                "requests": iteration.requests,
                "tokens": iteration.tokens,
                "duration_ms": iteration.duration_ms,
                "denied": iteration.denied,
            }
            for iteration in run.iterations
        ],
    }
