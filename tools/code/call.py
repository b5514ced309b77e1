"""A call of a code tool: what it will do, and doing it.

The program runs behind walls through which it reaches nothing but opta's end of the channel, so
that everything it does to the world is asked of opta, as a call of its own.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping
from contextlib import suppress

from tools import storage
from tools.actions import CodeAction
from tools.builtin.kit import Services
from tools.builtin.running import time_limit, title_of
from tools.code import runtimes
from tools.code.channel import Channel, ChannelError
from tools.code.host import Host
from tools.code.program import MAIN, Program
from tools.code.runtimes import Runtime
from tools.confinement import Confinement, Level
from tools.definition import (
    Effect,
    EffectKind,
    Invocation,
    JsonObject,
    Outcome,
    Progress,
    ResolvedCall,
    TextDisplay,
    ToolError,
    ToolResult,
)
from tools.engine.isolation.choice import Demands
from tools.engine.output import bounded_text, for_model, live
from tools.engine.process import ProcessResult, ProcessSpec, ProcessStartError, run_process
from tools.permissions.grant import Grant
from tools.record import record

_KEPT_VARIABLES = ("LANG", "LC_ALL", "LC_CTYPE", "TZ")
_DRAINED_S = 1.0
_RESERVED_BYTES = 768 * 1024 * 1024
"""What JavaScript runtimes reserve and count as data without ever using it."""


def prepare_code(call: ResolvedCall, services: Services) -> Invocation:
    """Return what a call of a code tool will do. Raises ToolError where nothing can run it."""
    runtime, walls = _choose(call, services)
    timeout_ms, note = time_limit(services, call.tool.limits.timeout_ms or 0)
    running = _Running(call, services, runtime, timeout_ms)
    return Invocation(
        title=title_of(f"{call.tool.name} {_brief(call.arguments)}".strip()),
        effects=(Effect(EffectKind.PROGRAM, call.tool.name, call.tool.name, inside=True),),
        preview=TextDisplay(_shown(call, services, runtime, walls, note)),
        run=running.run,
        confinement=walls,
    )


def _choose(call: ResolvedCall, services: Services) -> tuple[Runtime, Confinement | None]:
    """Return what runs the code, and opta's walls around it where it has none. Raises ToolError."""
    action, isolation = call.tool.action, services.isolation
    assert isinstance(action, CodeAction)
    path = services.child_env.get("PATH", os.defpath)
    found = runtimes.find(action.runtime, path, services.workspace.root)
    if not found:
        why = runtimes.missing(action.runtime, path) or "what there is belongs to the project"
        raise ToolError(f"The tool {call.tool.name} cannot run: {why}. Nothing was done.")
    sandbox = isolation.sandbox() if isolation is not None else None
    runtime = next((one for one in found if one.has_walls or sandbox is not None), found[0])
    if runtime.has_walls:
        return runtime, None
    if isolation is None:
        raise ToolError(f"The tool {call.tool.name} needs a sandbox, which is not set up here.")
    demands = Demands(Level.SANDBOX, reduced=True)
    return runtime, isolation.for_tool(call.tool.name, demands)


@record
class _Running:
    """One call, from its grant to its result."""

    call: ResolvedCall
    services: Services
    runtime: Runtime
    timeout_ms: int

    async def run(self, grant: Grant, progress: Progress) -> ToolResult:
        """Run the program. Raises GrantError, ToolError."""
        grant.check(self.call)
        try:
            program = await asyncio.to_thread(Program.of, self.call.tool, self._file())
            channel = Channel()
        except (storage.StorageError, OSError) as error:
            raise ToolError(f"The call cannot be set up: {error} Nothing was done.") from error
        serving = asyncio.create_task(self._host(program).serve(channel))
        try:
            process = await run_process(
                grant, self.call, self._spec(program, channel), live(progress),
                self.services.masker.streams(),
            )  # fmt: skip
            channel.hang_up()
            with suppress(TimeoutError):
                async with asyncio.timeout(_DRAINED_S):
                    await asyncio.wait([serving])
            return self._result(program, process, serving)
        except ProcessStartError as error:
            raise ToolError(str(error)) from error
        finally:
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)
            channel.close()

    def _file(self) -> str:
        path = self.call.tool.origin.path
        return self.services.workspace.shown(path) if path is not None else self.call.tool.name

    def _host(self, program: Program) -> Host:
        directory = str(self.services.workspace.root)
        return Host({
            "program": program.path.as_uri(),
            "args": self.call.arguments,
            "context": {"config": {"workingDirectory": directory}},
        })  # fmt: skip

    def _spec(self, program: Program, channel: Channel) -> ProcessSpec:
        memory = self.call.tool.limits.max_memory_bytes
        return ProcessSpec(
            self.runtime.argv(MAIN, program.path, memory),
            # There is nothing for a program to see, whatever it was made for.
            MAIN.parent,
            self._environment(channel),
            self.timeout_ms,
            merge_stderr=True,
            descriptors=(channel.descriptor,),
            max_memory_bytes=_data_limit(memory),
            reads=(MAIN, program.path),
        )

    def _environment(self, channel: Channel) -> Mapping[str, str]:
        """Return the environment, in which there is nothing to be read (E60)."""
        env = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
        env |= {
            "PATH": os.defpath,
            "NO_COLOR": "1",
            "NODE_CHANNEL_FD": str(channel.descriptor),
        }
        if self.runtime.name == "deno":
            cache = storage.private_dir(storage.state_dir() / "deno")
            env |= {"DENO_DIR": str(cache), "DENO_NO_UPDATE_CHECK": "1"}
        return env

    def _result(
        self, program: Program, process: ProcessResult, serving: asyncio.Task[JsonObject | None]
    ) -> ToolResult:
        failure = serving.exception() if serving.done() else None
        answer = serving.result() if serving.done() and failure is None else None
        if answer is not None and answer["type"] == "returned":
            return _returned(answer.get("json"))
        printed = for_model(process.stdout)
        if failure is not None and not isinstance(failure, ChannelError):
            raise failure
        lines = [self._reason(program, process, answer, failure, printed.text), printed.text]
        outcome = Outcome.TIMED_OUT if answer is None and process.timed_out else Outcome.ERROR
        text = "\n".join(line.rstrip("\n") for line in lines if line)
        return ToolResult(self.services.masker.text(text), outcome, full_output=printed.full_output)

    def _reason(
        self, program: Program, process: ProcessResult, answer: JsonObject | None,
        failure: ChannelError | None, printed: str,
    ) -> str:  # fmt: skip
        """Say why there is no result (E58, E64)."""
        if answer is not None and answer["type"] == "threw":
            message = str(answer.get("message"))
            place = program.place(f"{answer.get('trace')}\n{message}")
            return f"{place}: {message}" if place else message
        if answer is not None:
            return f"Tool execution failed: {answer.get('message')}"
        if failure is not None:
            return f"Tool execution failed: it {failure}"
        if process.timed_out:
            return f"[timed out after {self.timeout_ms} ms; the program was ended]"
        place = program.place(printed)
        ended = f"signal {process.signal_name}" if process.signal else f"code {process.exit_code}"
        reason = f"Tool execution failed: the program ended without a result ({ended})"
        return f"{place}: {reason}" if place else reason


def _returned(text: object) -> ToolResult:
    """Return what the program returned as the result; an object may be a whole result (E12)."""
    value = json.loads(text) if isinstance(text, str) else None
    outcome = Outcome.OK
    if isinstance(value, dict) and isinstance(value.get("success"), bool) and "output" in value:
        if not value["success"]:
            outcome = Outcome.ERROR
        error = value.get("error")
        value = "\n".join(_as_text(part) for part in (value["output"], error) if part)
    clipped = bounded_text(_as_text(value))
    return ToolResult(clipped.text or "(no output)", outcome, full_output=clipped.full_output)


def _as_text(value: object) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value, indent=2, ensure_ascii=False)


def _data_limit(wanted_bytes: int | None) -> int | None:
    """Return the limit to ask for: what runtimes reserve comes on top where only data counts."""
    if wanted_bytes is None:
        return None
    from tools.engine.isolation import memory

    found = memory.means(os.environ.get("PATH", os.defpath))
    return wanted_bytes + (_RESERVED_BYTES if found.reach is memory.Reach.PROCESS else 0)


def _brief(arguments: JsonObject) -> str:
    return " ".join(f"{name}={_as_text(value)}" for name, value in arguments.items())


def _shown(
    call: ResolvedCall, services: Services, runtime: Runtime, walls: Confinement | None, note: str
) -> str:
    action, path = call.tool.action, call.tool.origin.path
    assert isinstance(action, CodeAction)
    file = services.workspace.shown(path) if path is not None else call.tool.name
    first = action.first_line
    where = file if first is None else f"{file}:{first}"
    lines = [json.dumps(call.arguments, indent=2, ensure_ascii=False)]
    behind = walls.note if walls is not None else "in a sandbox of its own: no files, no network"
    lines.append(f"runs its program ({where}) with {runtime.name}, {behind}")
    if action.allowlist is not None:
        lines.append(f"commands it may ask for: {', '.join(action.allowlist) or 'none'}")
    return "\n".join([*lines, *([note] if note else [])])
