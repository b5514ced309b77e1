"""Runs the steps of a plan, each as soon as what it waits for has ended (X41-X45)."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence

from tools.engine.plan import PlannedStep
from tools.engine.results import ENDINGS, StepResult, StepState

MAX_AT_ONCE = 20
"""How many steps of one plan run at the same time."""


class Schedule:
    """A running plan.

    `results` grows as steps end. `failure` is the step that ended the plan: a step without
    `parallel` at once, a parallel one when something waits for it, or at the end.
    """

    def __init__(
        self,
        steps: Sequence[PlannedStep],
        run_step: Callable[[PlannedStep], Awaitable[StepResult]],
        is_over: Callable[[], bool],
    ) -> None:
        """Make a schedule of `steps`; once `is_over` says so no step is started any more."""
        self.results: dict[str, StepResult] = {}
        self.failure: StepResult | None = None
        self._steps = {planned.step.name: planned for planned in steps}
        self._run_step = run_step
        self._is_over = is_over
        self._missing = {planned.step.name: len(planned.waits_for) for planned in steps}
        self._waiting: dict[str, list[PlannedStep]] = {name: [] for name in self._steps}
        for planned in steps:
            for name in planned.waits_for:
                self._waiting[name].append(planned)
        self._ready = deque(planned for planned in steps if not planned.waits_for)
        self._running: set[asyncio.Future[StepResult]] = set()

    async def run(self) -> None:
        """Run all steps; every step has a result afterwards.

        When cancelled, or when a step raises, all that runs is cancelled before this raises.
        """
        try:
            await self._go()
        except BaseException:
            for task in self._running:
                task.cancel()
            await asyncio.gather(*self._running, return_exceptions=True)
            raise
        self._settle()

    async def _go(self) -> None:
        self._start()
        while self._running:
            ended, self._running = await asyncio.wait(
                self._running, return_when=asyncio.FIRST_COMPLETED
            )
            for task in ended:
                self._end(task.result())
            self._start()

    def _start(self) -> None:
        while self._ready and len(self._running) < MAX_AT_ONCE:
            planned = self._ready.popleft()
            if self.failure is None:
                self.failure = next(
                    (r for name in planned.waits_for if (r := self.results[name]).state in ENDINGS),
                    None,
                )
            if self.failure is not None or self._is_over():
                self._ready.clear()
                return
            self._running.add(asyncio.ensure_future(self._run_step(planned)))

    def _end(self, result: StepResult) -> None:
        self.results[result.name] = result
        for planned in self._waiting[result.name]:
            self._missing[planned.step.name] -= 1
            if not self._missing[planned.step.name]:
                self._ready.append(planned)
        parallel = self._steps[result.name].step.parallel
        if result.state in ENDINGS and self.failure is None and not parallel:
            self.failure = result

    def _settle(self) -> None:
        in_file = sorted(self._steps.values(), key=lambda planned: planned.number)
        if self.failure is None:
            found = (self.results.get(p.step.name) for p in in_file)
            self.failure = next((r for r in found if r and r.state in ENDINGS), None)
        why = "out of time" if self.failure is None else f"{self.failure.name} failed"
        for planned in in_file:
            name = planned.step.name
            if name not in self.results:
                self.results[name] = StepResult(
                    planned.number, name, StepState.CANCELLED, note=f"not started: {why}"
                )
