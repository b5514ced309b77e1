"""The loop over a spec: fresh context every iteration, one list of tasks, until all are done (003).

An iteration is one turn of a new conversation: the documented prompt with the tasks as they are,
and the spec as it stands then. What lasts between iterations is the session's log, the files and
git. Everything is recorded before it counts, so a kill at any moment leaves a session that goes
on in the same iteration.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Protocol

import prompts
from agent.chat import Chat
from agent.errors import USAGE, UserError
from agent.events import TurnEnd
from agent.loop import TurnOutcome
from tools import storage
from tools.clock import elapsed_ms
from tools.definition import JsonObject
from tools.engine.output import sanitize
from tools.record import record
from tools.sources.session import SessionTools
from tools.sources.session_log import Frame, SessionLog, TaskStatus, task_state

MAX_ITERATIONS = 10
"""How many iterations a run has where nothing else was said."""

MAX_SETBACKS = 3
"""Iterations in a row that failed, or were refused what they needed, after which it is given up."""

MAX_SPEC_BYTES = 256 * 1024
"""The spec is in every prompt: about 64,000 tokens at most."""

_PLACEHOLDER = re.compile(r"\{(spec|iteration|task_state)\}")
_SPEC_PLACEHOLDER = re.compile(r"\{(path|text)\}")


class LoopEnd(StrEnum):
    """Why a run of the loop ended."""

    COMPLETE = "complete"
    ITERATIONS = "iterations"
    TURNS = "turns"
    TOKENS = "tokens"
    TIME = "time"
    DENIED = "denied"
    FAILED = "failed"
    UNUSABLE = "unusable"
    CANCELLED = "cancelled"


@record
class Budget:
    """Bounds of one run; None is none. `turns` are requests to the model, `seconds` wall time."""

    iterations: int | None = MAX_ITERATIONS
    turns: int | None = None
    tokens: int | None = None
    seconds: float | None = None


@record
class Iteration:
    """One iteration that is over. `denied` calls needed a permission that nobody could give."""

    number: int
    end: TurnEnd
    detail: str
    requests: int
    tokens: int
    duration_ms: int
    denied: int
    changed: bool


@dataclass(slots=True)
class Run:
    """What a run came to. `detail` and `next_step` say more where it did not complete."""

    session: str
    end: LoopEnd = LoopEnd.COMPLETE
    detail: str = ""
    next_step: str = ""
    iterations: list[Iteration] = field(default_factory=list)
    duration_ms: int = 0
    cost_usd: float | None = None
    tasks: dict[str, int] = field(default_factory=dict)

    def add(self, iteration: Iteration, cost_usd: float | None) -> None:
        """Take an iteration that is over, and what it cost in US dollars."""
        self.iterations.append(iteration)
        if cost_usd is not None:
            self.cost_usd = (self.cost_usd or 0.0) + cost_usd

    @property
    def requests(self) -> int:
        """Requests to the model."""
        return sum(iteration.requests for iteration in self.iterations)

    @property
    def tokens(self) -> int:
        """Tokens of input and output."""
        return sum(iteration.tokens for iteration in self.iterations)

    @property
    def denied(self) -> int:
        """Calls that needed a permission nobody could give."""
        return sum(iteration.denied for iteration in self.iterations)


class LoopView(Protocol):
    """Shows the run."""

    def begin(self, number: int, run: Run, tasks: Mapping[str, int]) -> None:
        """An iteration begins; `tasks` are counts by status."""
        ...

    def finish(self, iteration: Iteration, run: Run, tasks: Mapping[str, int]) -> None:
        """An iteration is over."""
        ...


class Spec:
    """The file with what is wanted; read again for every iteration, so it may be worked on."""

    def __init__(self, path: Path, name: str) -> None:
        """Read it; `name` is what the model calls it. Raises UserError."""
        self.name = " ".join(sanitize(name).split())
        self._path = path
        self._text = self._read()

    def given(self, tell: Callable[[str], None]) -> str:
        """Return the spec as it goes along with a prompt.

        One that cannot be read any more is told of, and stays as it was.
        """
        try:
            self._text = self._read()
        except UserError as error:
            tell(f"{error}; the text read before is used")
        template = prompts.load("loop_spec")
        values = {"path": self.name, "text": self._text.rstrip("\n")}
        return _SPEC_PLACEHOLDER.sub(lambda found: values[found[1]], template)

    def _read(self) -> str:
        try:
            text = storage.read_regular(self._path, MAX_SPEC_BYTES).decode("utf-8")
        except UnicodeDecodeError as error:
            raise UserError(f"{self.name} is not UTF-8 text (byte {error.start})", USAGE) from None
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise UserError(f"cannot read the spec {self.name}: {reason}", USAGE) from None
        if not text.strip():
            raise UserError(f"the spec {self.name} is empty: write into it what is wanted", USAGE)
        return text


class _Stop(Exception):
    """The run is over before its session is complete."""

    def __init__(self, end: LoopEnd, detail: str, next_step: str = "") -> None:
        super().__init__(detail)
        self.end, self.detail, self.next_step = end, detail, next_step


class SpecLoop:
    """Runs iterations until the session is complete or a bound is reached."""

    def __init__(
        self,
        chat: Chat,
        tools: SessionTools,
        spec: Spec,
        budget: Budget,
        view: LoopView,
        prepare: Callable[[], None],
    ) -> None:
        """Make a loop. `prepare` is called as an iteration begins, when the tools are bound."""
        self._chat = chat
        self._tools = tools
        self._log = tools.log
        self._spec = spec
        self._budget = budget
        self._view = view
        self._prepare = prepare
        self._limits = chat.limits
        self._started = time.monotonic()
        torn = torn_iteration(self._log.frames)
        self._runs = {os.getpid(), *(f.meta["pid"] for f in torn[:1] if "pid" in f.meta)}
        self._seen = len(self._log.frames) - len(torn)
        self._run = Run(tools.context.session_name)

    async def run(self) -> Run:
        """Run to the end. Ends that are nobody's mistake are no exceptions: the run tells them.

        Raises SessionLogError where nothing more can be recorded.
        """
        run = self._run
        try:
            while not self._complete():
                self._check_budget()
                await self._iterate(next_iteration(self._log.frames))
        except _Stop as stop:
            run.end, run.detail, run.next_step = stop.end, stop.detail, stop.next_step
        except asyncio.CancelledError:
            run.end, run.detail = LoopEnd.CANCELLED, "interrupted"
            run.next_step = "The same command goes on in the same iteration."
        run.duration_ms = elapsed_ms(self._started)
        run.tasks = task_counts(self._log)
        return run

    async def _iterate(self, number: int) -> None:
        run, log, chat = self._run, self._log, self._chat
        self._tools.begin(number)
        self._prepare()
        if run.iterations:
            # The next iteration does not know of them.
            await chat.jobs.stop_all()
            chat.clear()
        about = {"spec": self._spec.name, "session": chat.session.id, "pid": os.getpid()}
        log.append("iteration", {"action": "start", "iteration": number, **about})
        self._view.begin(number, run, task_counts(log))
        known, denied, started = len(log.frames), chat.gate.unanswered, time.monotonic()
        outcome, stop = await self._turn(number)
        log.refresh()
        iteration = Iteration(
            number,
            outcome.end,
            outcome.detail,
            chat.conversation.usage.requests,
            chat.conversation.usage.total,
            elapsed_ms(started),
            chat.gate.unanswered - denied,
            any(frame.kind == "task" for frame in log.frames[known:]),
        )
        run.add(iteration, chat.prices.cost_usd(chat.conversation.usage))
        log.append("iteration", _ended(iteration))
        self._view.finish(iteration, run, task_counts(log))
        if stop is not None and not self._complete():
            raise stop
        self._check_setbacks(outcome)

    async def _turn(self, number: int) -> tuple[TurnOutcome, BaseException | None]:
        """Run the turn within what is left; return also what ends the whole run, if it does."""
        prompt = render(self._spec.name, number, sanitize(task_state(self._log.tasks)))
        self._chat.limits = replace(
            self._limits,
            max_turns=_least(self._limits.max_turns, _left(self._budget.turns, self._run.requests)),
            max_tokens_total=_left(self._budget.tokens, self._run.tokens),
        )
        try:
            async with asyncio.timeout(self._seconds_left()):
                return await self._chat.say(prompt, given=self._spec.given(self._chat.notice)), None
        except TimeoutError:
            if self._budget.seconds is None:
                raise
            return TurnOutcome(TurnEnd.CANCELLED, detail="the time was up"), self._time_is_up()
        except asyncio.CancelledError as error:
            return TurnOutcome(TurnEnd.CANCELLED, detail="interrupted"), error

    def _complete(self) -> bool:
        """Tell whether the session was declared complete in this run (X76).

        That is also so where a kill came between the declaration and the end of its iteration. A
        file for opencode that an earlier run left behind does not end this one.
        """
        self._log.refresh()
        return any(
            frame.kind == "control" and frame.meta.get("parent_pid") in self._runs
            for frame in self._log.frames[self._seen :]
        )

    def _check_budget(self) -> None:
        run, budget = self._run, self._budget
        if budget.iterations is not None and len(run.iterations) >= budget.iterations:
            several = budget.iterations > 1
            raise _Stop(
                LoopEnd.ITERATIONS,
                f"all of {budget.iterations} iterations were run" if several else
                "its one iteration was run",
                "Run it again to go on, or raise --max-iterations.",
            )  # fmt: skip
        if budget.turns is not None and run.requests >= budget.turns:
            raise _Stop(
                LoopEnd.TURNS, f"{run.requests} of {budget.turns} requests were made",
                "Raise --max-turns.",
            )  # fmt: skip
        if budget.tokens is not None and run.tokens >= budget.tokens:
            raise _Stop(
                LoopEnd.TOKENS, f"{run.tokens:,} tokens were used, the limit is {budget.tokens:,}",
                "Raise --max-tokens-total.",
            )  # fmt: skip
        left = self._seconds_left()
        if left is not None and left <= 0:
            raise self._time_is_up()

    def _check_setbacks(self, outcome: TurnOutcome) -> None:
        if outcome.unusable:
            raise _Stop(LoopEnd.UNUSABLE, outcome.detail, outcome.next_step)
        last = self._run.iterations[-MAX_SETBACKS:]
        if len(last) < MAX_SETBACKS or self._complete():
            return
        if all(iteration.end is TurnEnd.FAILED for iteration in last):
            detail = f"{MAX_SETBACKS} iterations in a row failed, the last one: {outcome.detail}"
            raise _Stop(LoopEnd.FAILED, detail, outcome.next_step)
        if all(iteration.denied and not iteration.changed for iteration in last):
            raise _Stop(
                LoopEnd.DENIED,
                f"{MAX_SETBACKS} iterations in a row changed no task and were refused what they "
                "needed, because nobody could be asked",
                "Allow it with --allow RULE; the lines above name the calls.",
            )

    def _seconds_left(self) -> float | None:
        seconds = self._budget.seconds
        return None if seconds is None else seconds - (time.monotonic() - self._started)

    def _time_is_up(self) -> _Stop:
        return _Stop(
            LoopEnd.TIME, f"{self._budget.seconds:g} s are over",
            "Raise --max-time; the same command goes on in the same iteration.",
        )  # fmt: skip


def render(spec: str, iteration: int, tasks: str) -> str:
    """Return the documented prompt; what stands in the values is left alone (D46)."""
    values = {"spec": spec, "iteration": str(iteration), "task_state": tasks}
    return _PLACEHOLDER.sub(lambda found: values[found[1]], prompts.load("loop"))


def torn_iteration(frames: Sequence[Frame]) -> Sequence[Frame]:
    """Return the frames of the last iteration where it has no end, because opta was killed."""
    for position in range(len(frames) - 1, -1, -1):
        if frames[position].kind == "iteration":
            return frames[position:] if frames[position].meta.get("action") == "start" else ()
    return ()


def next_iteration(frames: Sequence[Frame]) -> int:
    """Return the number of the iteration to run: one that was not finished is run again."""
    number, finished = 1, False
    for frame in frames:
        match frame:
            case Frame(kind="iteration", meta={"action": str(action), "iteration": int(number)}):
                finished = action == "end" and frame.meta.get("outcome") != TurnEnd.CANCELLED
    return number + 1 if finished else number


def task_counts(log: SessionLog) -> dict[str, int]:
    """Return how many tasks there are of each status."""
    counts = dict.fromkeys((status.value for status in TaskStatus), 0)
    for task in log.tasks:
        counts[task.status.value] += 1
    return counts


def _ended(iteration: Iteration) -> JsonObject:
    return {
        "action": "end",
        "iteration": iteration.number,
        "outcome": iteration.end.value,
        "detail": iteration.detail,
        "requests": iteration.requests,
        "tokens": iteration.tokens,
        "duration_ms": iteration.duration_ms,
        "denied": iteration.denied,
    }


def _left(limit: int | None, used: int) -> int | None:
    return None if limit is None else limit - used


def _least(one: int | None, other: int | None) -> int | None:
    return min((n for n in (one, other) if n is not None), default=None)
