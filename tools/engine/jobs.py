"""Calls that go on in the background: started, read while they run, stopped with all they started.

A job is a call that was asked about and allowed like any other; only its result comes later.
Nothing outlives the `Jobs` it belongs to: `stop_all` ends every one.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from tools.definition import (
    CommandDisplay,
    Display,
    Invocation,
    Outcome,
    Progress,
    ToolError,
    ToolResult,
)
from tools.engine.output import CLIP_CHARS
from tools.engine.process import settle
from tools.permissions.grant import Grant

MAX_RUNNING = 16
MAX_ENDED = 50
"""How many jobs that have ended are remembered."""

RECENT_CHARS = 64 * 1024
"""How much of a running job's output is at hand, in characters; of more, the end."""

FIRST_LOOK_S = 0.5
"""How long a start is watched, so that a command that fails at once says so."""

STOPPED = "Stopped, with everything it started."


@dataclass(slots=True, eq=False)
class Job:
    """One call in the background. `result` is None while it runs; times are monotonic seconds."""

    id: str
    title: str
    started: float
    ended: float | None = None
    result: ToolResult | None = None
    told: bool = False
    _recent: str = ""
    _total: int = 0
    _read: int = 0
    _task: asyncio.Task[None] | None = None
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def running(self) -> bool:
        """True until it has a result."""
        return self.result is None

    @property
    def state(self) -> str:
        """How it is, in a few words."""
        seconds = (self.ended or time.monotonic()) - self.started
        if self.result is None:
            return f"running for {seconds:.0f} s"
        code = self.result.exit_code
        how = "done" if self.result.success else self.result.outcome.value.replace("_", " ")
        return f"{how} after {seconds:.0f} s" + (f", exit code {code}" if code else "")

    @property
    def recent(self) -> str:
        """The end of its output, or all that its result holds."""
        return self._recent if self.result is None else self.result.text

    def add(self, text: str) -> None:
        """Take a piece of output."""
        self._total += len(text)
        self._recent = (self._recent + text)[-RECENT_CHARS:]
        self._news.set()

    def read(self) -> str:
        """Return what it printed since the last time, and how it is; the end of what is long."""
        result = self.result
        if result is not None and not self._read:
            self._read = self._total + 1
            return f"{result.text}\n[job {self.id}: {self.state}]"
        self._news.clear()
        held = self._total - len(self._recent)
        new = self._recent[max(self._read - held, 0) :][-CLIP_CHARS:]
        skipped = self._total - self._read - len(new)
        self._read = self._total
        parts = [f"[… {skipped:,} characters …]\n" if skipped > 0 else "", new.rstrip("\n")]
        if result is not None and result.full_output is not None:
            parts.append(f"\n[all of it: {result.full_output}]")
        return "".join([*parts, "\n" if new else "", f"[job {self.id}: {self.state}]"])

    async def news(self, seconds: float) -> None:
        """Wait until it prints something or ends, at most so long."""
        if self.running and self._total == self._read:
            try:
                async with asyncio.timeout(seconds):
                    await self._news.wait()
            except TimeoutError:
                return

    def begin(self, invocation: Invocation, grant: Grant, ended: Callable[[Job], None]) -> None:
        """Start it. `ended` is called once it has its result."""
        self._task = asyncio.create_task(self._run(invocation, grant))
        self._task.add_done_callback(lambda task: ended(self))

    async def settle(self, seconds: float | None = None) -> None:
        """Wait until it has ended, at most so long."""
        if self._task is not None:
            await asyncio.wait([self._task], timeout=seconds)

    async def stop(self) -> None:
        """End it with everything it started; return when that is so."""
        if self._task is not None and self.running:
            self.told = True
            self._task.cancel()
            await self.settle()
            await settle()

    async def _run(self, invocation: Invocation, grant: Grant) -> None:
        result = ToolResult(STOPPED, Outcome.CANCELLED)
        try:
            result = await invocation.run(grant, self.add)
        except asyncio.CancelledError:
            pass
        except Exception as error:
            # A defect of one tool costs one job, never the conversation.
            result = ToolResult(str(error) or type(error).__name__, Outcome.ERROR)
        finally:
            self.result, self.ended = result, time.monotonic()
            self._news.set()


class Jobs:
    """The jobs of a chat. `on_start` and `tell` are set by who shows them."""

    def __init__(self) -> None:
        self.on_start: Callable[[], None] = lambda: None
        self.tell: Callable[[str], None] = lambda text: None
        self._jobs: dict[str, Job] = {}
        self._count = 0

    def all(self) -> list[Job]:
        """Return the jobs, the oldest first."""
        return list(self._jobs.values())

    def find(self, id_: str) -> Job:
        """Return a job. Raises ToolError, which names those there are."""
        job = self._jobs.get(id_)
        if job is None:
            known = ", ".join(self._jobs) or "none"
            raise ToolError(f"There is no job {id_!r}; there are: {known}.")
        return job

    def background(self, invocation: Invocation) -> Invocation:
        """Return the same call as a job: it gives its result later."""

        async def run(grant: Grant, progress: Progress) -> ToolResult:
            job = self._begin(invocation, grant)
            await job.settle(FIRST_LOOK_S)
            return _beginning(job)

        title = f"{invocation.title} (in the background)"
        return replace(invocation, title=title, preview=_noted(invocation.preview), run=run)

    def take_news(self) -> list[str]:
        """Return a line for each job that has ended since this was asked before."""
        ended = [job for job in self._jobs.values() if not job.running and not job.told]
        for job in ended:
            job.told = True
        return [f"Job {job.id} ({job.title}) has ended: {job.state}." for job in ended]

    async def stop_all(self) -> int:
        """End every job that runs; return how many did."""
        running = [job for job in self._jobs.values() if job.running]
        await asyncio.gather(*(job.stop() for job in running))
        return len(running)

    def _begin(self, invocation: Invocation, grant: Grant) -> Job:
        if sum(job.running for job in self._jobs.values()) >= MAX_RUNNING:
            raise ToolError(f"{MAX_RUNNING} jobs run already. Stop one first. Nothing was started.")
        self._count += 1
        job = Job(str(self._count), invocation.title, time.monotonic())
        self._jobs[job.id] = job
        for old in [j for j in self._jobs.values() if not j.running][:-MAX_ENDED]:
            del self._jobs[old.id]
        job.begin(invocation, grant, self._on_end)
        self.on_start()
        return job

    def _on_end(self, job: Job) -> None:
        if not job.told:
            self.tell(f"job {job.id} ({job.title}): {job.state}")


def _beginning(job: Job) -> ToolResult:
    if job.result is not None:
        job.told = True
        text = f"Job {job.id} has ended already.\n{job.read()}"
        return replace(job.result, text=text)
    return ToolResult(f"Started as job {job.id}; background_job reads its output or stops it.\n"
                      f"{job.read()}")  # fmt: skip


def _noted(display: Display) -> Display:
    if not isinstance(display, CommandDisplay):
        return display
    return replace(display, note="; ".join(filter(None, [display.note, "in the background"])))
