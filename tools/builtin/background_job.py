"""`background_job`: reads what a call in the background prints, or stops it."""

from __future__ import annotations

import prompts
from tools.builtin.kit import Builtin, Services, define
from tools.definition import (
    Invocation,
    Progress,
    ResolvedCall,
    Risk,
    TextDisplay,
    ToolError,
    ToolResult,
)
from tools.permissions.grant import Grant

NAME = "background_job"
MAX_WAIT_S = 60


def tool() -> Builtin:
    """Return the built-in. It is offered once there is a job."""
    definition = define(
        NAME,
        prompts.load(f"tools/{NAME}"),
        {
            "id": {"type": "string"},
            "wait": {
                "type": "number",
                "description": f"Seconds to wait for output, at most {MAX_WAIT_S}",
            },
            "stop": {"type": "boolean"},
        },
        ["id"],
        risk=Risk.LOW,
        enabled=False,
        metadata={"tags": ["run"]},
    )
    return Builtin(definition, prepare, {"job_id": "id", "job": "id"})


def prepare(call: ResolvedCall, services: Services) -> Invocation:
    """Find the job. Raises ToolError where there is none, or for a bad time."""
    if services.jobs is None:
        raise ToolError("There are no jobs here.")
    job = services.jobs.find(call.arguments["id"])
    stop, seconds = call.arguments.get("stop", False), call.arguments.get("wait", 0)
    if not 0 <= seconds <= MAX_WAIT_S:
        raise ToolError(f"wait is {seconds:g}: it is in seconds, at most {MAX_WAIT_S}.")

    async def run(grant: Grant, progress: Progress) -> ToolResult:
        grant.check(call)
        if stop:
            await job.stop()
        elif seconds:
            await job.news(seconds)
        if not job.running:
            job.told = True
        return ToolResult(job.read())

    title = f"{'Stop' if stop else 'Read'} job {job.id}: {job.title}"
    return Invocation(title, (), TextDisplay(title), run)
