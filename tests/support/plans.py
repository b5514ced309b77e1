"""Plans run by the real engine with real processes, as a call that was allowed."""

from __future__ import annotations

import os
import time

import psutil

from tools.actions import Parameter, PlanAction, Shell, Step
from tools.definition import (
    Limits,
    Origin,
    Outcome,
    ResolvedCall,
    Scope,
    Security,
    Source,
    ToolDefinition,
    ToolError,
    ToolResult,
)
from tools.engine.environment import child_environment
from tools.engine.isolation.choice import Isolation
from tools.engine.prepared import Setting
from tools.engine.run import prepare_plan
from tools.files.walls import survey
from tools.permissions.grant import mint
from tools.schema import check_arguments


def bash(name, text="true", **more):
    """A step that runs a template in bash."""
    return Step(name, Shell("bash", text, placeholders=True), **more)


def tool(name, action, parameters=(), **more):
    """A custom tool."""
    properties = {each: {} for each in parameters}
    return ToolDefinition(
        name, "d", {"type": "object", "properties": properties}, action,
        Origin(Source.CUSTOM, "test", Scope.LOCAL), **more,
    )  # fmt: skip


class Plans:
    """Calls plans in a directory. `tools` are those that plans can use."""

    def __init__(self, root, *tools):
        self.root = root
        self.tools = {each.name: each for each in tools}
        self.progress = []
        self.times = []
        self.steps = []
        self.isolation = Isolation(root, survey)

    def show(self, text):
        self.progress.append(text)
        self.times.append(time.monotonic())

    def find(self, name):
        return self.tools.get(name)

    def check(self, definition, arguments):
        return check_arguments(definition, arguments, {})

    def resolved(self, *steps, name="t", arguments=None, parameters=None, timeout_ms=20_000,
                 max_memory_bytes=None, security=None, definition=None, **plan):  # fmt: skip
        arguments = arguments or {}
        declared = {each: Parameter(each) for each in arguments} if parameters is None else {
            each.name: each for each in parameters
        }  # fmt: skip
        if definition is None:
            definition = tool(
                name, PlanAction(steps, declared, **plan), declared,
                limits=Limits(timeout_ms, max_memory_bytes), security=security or Security(),
            )  # fmt: skip
        return ResolvedCall("call-1", definition, arguments)

    def prepare(self, *steps, **more):
        call = self.resolved(*steps, **more)
        return call, prepare_plan(
            call, Setting(self.root, child_environment(os.environ), self),
            observe=lambda steps: self.steps.__setitem__(slice(None), steps),
            isolation=self.isolation,
        )  # fmt: skip

    async def run(self, *steps, **more):
        try:
            call, invocation = self.prepare(*steps, **more)
            grant = mint(call, "test", invocation.confinement)
            return await invocation.run(grant, self.show)
        except ToolError as error:
            return ToolResult(str(error), Outcome.ERROR)

    def states(self):
        return {step.name: str(step.state) for step in self.steps}


def marked_seconds(seconds):
    """Return `seconds` as an argument of `sleep` that no other run of the tests uses."""
    return f"{seconds}.{os.getpid():010d}"


def processes_with(text):
    """Return the pids of living processes whose command line holds `text`."""
    found = []
    for process in psutil.process_iter(["pid", "cmdline", "status"]):
        if process.info["status"] == psutil.STATUS_ZOMBIE:
            continue
        if any(text in word for word in process.info["cmdline"] or ()):
            found.append(process.info["pid"])
    return found
