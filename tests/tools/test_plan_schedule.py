"""Which steps start when, and what a failure stops; the commands are stand-ins here."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from tools.actions import Shell, Step
from tools.engine.plan import order_steps
from tools.engine.results import ENDINGS, StepResult, StepState
from tools.engine.schedule import MAX_AT_ONCE, Schedule


@dataclass
class Stub:
    """Runs steps that take some turns of the loop and end as told; notes when."""

    states: dict[str, StepState]
    turns: dict[str, int] = field(default_factory=dict)
    events: list[tuple[str, str]] = field(default_factory=list)
    running: int = 0
    most: int = 0

    async def __call__(self, planned):
        name = planned.step.name
        self.events.append(("start", name))
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            for _ in range(self.turns.get(name, 1)):
                await asyncio.sleep(0)
        finally:
            self.running -= 1
            self.events.append(("end", name))
        state = self.states.get(name, StepState.OK)
        if state is None:
            raise ZeroDivisionError
        return StepResult(planned.number, name, state, started=datetime.now(UTC))

    def order(self, kind):
        return [name for what, name in self.events if what == kind]


def step(name, **more):
    return Step(name, Shell("bash", "true"), **more)


async def run(steps, over=lambda: False, turns=None, **states):
    stub = Stub(states, turns or {})
    schedule = Schedule(order_steps(steps), stub, over)
    await schedule.run()
    return schedule, stub


async def test_a_failed_step_ends_the_plan_while_running_ones_finish():
    steps = [step("slow", parallel=True), step("bad", wait_for=()), step("c"), step("d")]
    schedule, stub = await run(steps, turns={"slow": 9}, bad=StepState.FAILED)
    assert [r.state for r in schedule.results.values()] == [
        "failed",
        "ok",
        "cancelled",
        "cancelled",
    ]
    assert schedule.failure.name == "bad"
    assert schedule.results["c"].note == "not started: bad failed"
    assert stub.order("end") == ["bad", "slow"]


async def test_a_failed_parallel_step_counts_only_when_something_waits_for_it():
    steps = [
        step("bad", parallel=True), step("b", wait_for=()), step("c", wait_for=("b",)),
        step("d", wait_for=("c", "bad")), step("e", wait_for=("c",)),
    ]  # fmt: skip
    schedule, stub = await run(steps, bad=StepState.FAILED)
    assert schedule.failure.name == "bad"
    assert "c" in stub.order("start")
    assert schedule.results["d"].state is StepState.CANCELLED


async def test_a_failed_parallel_step_that_nothing_waits_for_fails_the_plan_at_the_end():
    schedule, stub = await run(
        [step("bad", parallel=True), step("b", wait_for=())], bad=StepState.TIMED_OUT
    )
    assert stub.order("end") == ["bad", "b"]
    assert schedule.failure.name == "bad"


async def test_skipped_and_ignored_steps_let_the_plan_go_on():
    steps = [step("a"), step("b"), step("c")]
    schedule, stub = await run(steps, a=StepState.IGNORED, b=StepState.SKIPPED)
    assert schedule.failure is None
    assert stub.order("start") == ["a", "b", "c"]


async def test_nothing_starts_once_the_time_is_over():
    over = iter([False, True, True])
    schedule, stub = await run([step("a"), step("b"), step("c")], over=lambda: next(over))
    assert stub.order("start") == ["a"]
    assert schedule.results["b"].note == "not started: out of time"
    assert schedule.failure is None


async def test_no_more_steps_run_at_once_than_the_limit():
    _, stub = await run([step(f"s{n}", parallel=True) for n in range(3 * MAX_AT_ONCE)])
    assert stub.most == MAX_AT_ONCE


async def test_a_step_that_breaks_takes_the_others_along():
    stub = Stub({"bad": None}, {"slow": 10_000})
    schedule = Schedule(
        order_steps([step("slow", parallel=True), step("bad", wait_for=())]), stub, lambda: False
    )
    with pytest.raises(ZeroDivisionError):
        await schedule.run()
    assert stub.running == 0


@st.composite
def random_plans(draw):
    names = [f"s{n}" for n in range(draw(st.integers(1, 10)))]
    steps = []
    for position, name in enumerate(names):
        earlier = st.lists(st.sampled_from(names[:position] or [name]), max_size=3, unique=True)
        wait_for = draw(st.none() | earlier.map(tuple)) if position else None
        steps.append(step(name, parallel=draw(st.booleans()), wait_for=wait_for))
    states = [StepState.OK] * 4 + [StepState.FAILED, StepState.IGNORED, StepState.SKIPPED]
    return steps, {name: draw(st.sampled_from(states)) for name in names}


@settings(max_examples=200)
@given(random_plans(), st.randoms(use_true_random=False))
def test_every_step_has_one_end_and_none_starts_before_what_it_waits_for(plan, chance):
    steps, states = plan
    turns = {s.name: chance.randrange(6) for s in steps}
    schedule, stub = asyncio.run(run(steps, turns=turns, **states))
    assert sorted(schedule.results) == sorted(s.name for s in steps)
    started, ended = stub.order("start"), stub.order("end")
    assert sorted(started) == sorted(set(started)) == sorted(ended)
    for planned in order_steps(steps):
        name = planned.step.name
        result = schedule.results[name]
        assert (result.state is StepState.CANCELLED) == (name not in started)
        if name in started:
            assert result.state is states[name]
            before = stub.events[: stub.events.index(("start", name))]
            assert all(("end", other) in before for other in planned.waits_for)
    failed = [r for r in schedule.results.values() if r.state in ENDINGS]
    assert (schedule.failure is None) == (not failed)
    assert len(started) == len(steps) or schedule.failure in failed


@pytest.mark.parametrize("after", range(12))
async def test_a_cancelled_plan_leaves_no_step_running(after):
    steps = [step(f"s{n}", parallel=n % 2 == 0) for n in range(8)]
    stub = Stub({}, {s.name: 3 for s in steps})
    task = asyncio.ensure_future(Schedule(order_steps(steps), stub, lambda: False).run())
    for _ in range(after):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert stub.running == 0
