"""Jobs: what is read of one while it runs and after, and how many there may be."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.calls import make_call, make_invocation
from tools.definition import Invocation, Outcome, TextDisplay, ToolError, ToolResult
from tools.engine.jobs import MAX_ENDED, MAX_RUNNING, RECENT_CHARS, STOPPED, Jobs
from tools.engine.output import CLIP_CHARS
from tools.permissions.gate import PermissionGate
from tools.permissions.rules import RuleSet


def granted(invocation):
    gate = PermissionGate(RuleSet())
    return gate.authorise_person(make_call(), invocation, "test").grant


class Printer:
    """A call that prints what it is told to, until it is let go."""

    def __init__(self):
        self.pieces = asyncio.Queue()
        self.invocation = Invocation("printer", (), TextDisplay("p"), self._run)

    async def _run(self, grant, progress):
        while (piece := await self.pieces.get()) is not None:
            progress(piece)
        return ToolResult("all of it", exit_code=0)


async def start(jobs, invocation):
    return await jobs.background(invocation).run(granted(invocation), lambda text: None)


async def test_what_was_read_is_not_read_again_and_the_end_says_how_it_went():
    jobs, printer = Jobs(), Printer()
    printer.pieces.put_nowait("one\n")
    started = await start(jobs, printer.invocation)
    (job,) = jobs.all()
    assert "one\n[job 1: running for" in started.text
    assert job.read().startswith("[job 1: running")
    printer.pieces.put_nowait("two\n")
    await job.news(20)
    assert job.read().startswith("two\n[job 1: running")
    printer.pieces.put_nowait("three\n")
    printer.pieces.put_nowait(None)
    await job.settle()
    assert job.read().startswith("three\n[job 1: done after")
    assert job.read().startswith("[job 1: done after")
    assert jobs.take_news() == [f"Job 1 (printer) has ended: {job.state}."]
    assert jobs.take_news() == []


async def test_output_at_hand_is_bounded_and_what_is_left_out_is_counted():
    jobs, printer = Jobs(), Printer()
    await start(jobs, printer.invocation)
    (job,) = jobs.all()
    for _ in range(10):
        printer.pieces.put_nowait("x" * RECENT_CHARS)
    printer.pieces.put_nowait("end")
    while not job.recent.endswith("end"):
        await asyncio.sleep(0)
    told = job.read()
    assert len(job.recent) == RECENT_CHARS
    assert told.startswith(f"[… {10 * RECENT_CHARS + 3 - CLIP_CHARS:,} characters …]\nxxx")
    assert len(told) < CLIP_CHARS + 200
    assert await jobs.stop_all() == 1
    assert (job.recent, job.running) == (STOPPED, False)


async def test_so_many_jobs_run_and_those_that_ended_are_forgotten_one_day():
    jobs = Jobs()
    printers = [Printer() for _ in range(MAX_RUNNING)]
    for printer in printers:
        printer.pieces.put_nowait("x")
    await asyncio.gather(*(start(jobs, printer.invocation) for printer in printers))
    with pytest.raises(ToolError, match="run already"):
        await start(jobs, Printer().invocation)
    assert await jobs.stop_all() == MAX_RUNNING
    for _ in range(MAX_ENDED + 5):
        await start(jobs, make_invocation())
    assert len(jobs.all()) <= MAX_ENDED + 1
    with pytest.raises(ToolError, match="There is no job '1'"):
        jobs.find("1")


async def test_a_call_that_breaks_costs_a_job_alone():
    async def breaks(grant, progress):
        raise RuntimeError("broken")

    jobs = Jobs()
    result = await start(jobs, Invocation("b", (), TextDisplay("b"), breaks))
    assert result.outcome is Outcome.ERROR
    assert "broken" in result.text
