"""A call of a code tool: what it will do, and doing it.

The program runs behind walls through which it reaches nothing but opta's end of the channel, so
that everything it does to the world is asked of opta, as a call of its own.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from tools import storage
from tools.actions import CodeAction
from tools.builtin.kit import Services
from tools.builtin.running import time_limit, title_of
from tools.code import images, runtimes
from tools.code.channel import Channel, ChannelError
from tools.code.ending import Ending, as_text
from tools.code.host import AskModel, Host
from tools.code.program import Program
from tools.code.runtimes import Runtime
from tools.code.serving import Ask, Refused, Serving
from tools.confinement import Confinement, Level, Survey, Walls
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
from tools.engine.output import live
from tools.engine.preview import about_memory
from tools.engine.process import (
    ProcessResult,
    ProcessSpec,
    ProcessStartError,
    can_choose_cpu,
    run_process,
)
from tools.engine.run import IN_ORDER
from tools.files.protected import home_directory
from tools.formats.mimir import DEFAULT_TIMEOUT_MS
from tools.permissions.grant import Grant
from tools.record import record

_QUIET_DENO = {"DENO_NO_UPDATE_CHECK": "1"}
_IN_CONTAINER = {"NO_COLOR": "1", "DENO_DIR": "/tmp/deno", **_QUIET_DENO}
"""What a program finds in its environment besides what the image says.

The engine has opta's environment, none of which it passes on.
"""

_KEPT_VARIABLES = ("LANG", "LC_ALL", "LC_CTYPE", "TZ")
_DRAINED_S = 1.0
"""How long frames are still read after the program ended."""

_LEAVES_S = 2.0
"""How long a program that has given its result may take to end."""

_CONTAINER_LEAVES_S = 10.0
"""The same with the time that the engine takes to remove a container."""

_RESERVED_BYTES = 768 * 1024 * 1024
"""What JavaScript runtimes reserve and count as data without ever using it."""


@record
class Surroundings:
    """What a program runs in: `ask` takes what it asks for, `session_id` names the conversation.

    `ask_model` is None where there is no model.
    """

    services: Services
    ask: Ask
    session_id: str = ""
    ask_model: AskModel | None = None


def prepare_code(call: ResolvedCall, around: Surroundings) -> Invocation:
    """Return what a call of a code tool will do. Raises ToolError where nothing can run it."""
    services = around.services
    runtime, walls = _choose(call, services)
    wanted_ms = call.tool.limits.timeout_ms or DEFAULT_TIMEOUT_MS
    timeout_ms, note = time_limit(services.max_execution_ms, wanted_ms)
    running = _Running(call, around, runtime, timeout_ms, _is_container(walls))
    return Invocation(
        title=title_of(f"{call.tool.name} {_brief(call.arguments)}".strip()),
        effects=(Effect(EffectKind.PROGRAM, call.tool.name, call.tool.name, inside=True),),
        preview=TextDisplay(_shown(call, services, runtime, walls, note)),
        run=running.run,
        exclusive=IN_ORDER,
        confinement=walls,
    )


def _choose(call: ResolvedCall, services: Services) -> tuple[Runtime, Confinement | None]:
    """Return what runs the code, and its walls unless it has its own. Raises ToolError."""
    action, isolation = call.tool.action, services.isolation
    assert isinstance(action, CodeAction)
    if isolation is not None and isolation.settings.code_image:
        try:
            return images.choose(isolation, action.runtime)
        except ToolError as error:
            raise _cannot_run(call, str(error)) from error
    path = services.child_env.get("PATH", os.defpath)
    root = services.workspace.root
    found = runtimes.find(action.runtime, path, root)
    if not found:
        raise _cannot_run(call, runtimes.missing(action.runtime, path, root))
    sandbox = isolation.sandbox() if isolation is not None else None
    runtime = runtimes.walled(found, sandbox=sandbox is not None) or found[0]
    if runtime.has_walls:
        return runtime, None
    if isolation is None:
        raise ToolError(f"The tool {call.tool.name} needs a sandbox, which is not set up here.")
    walls = isolation.for_tool(call.tool.name, Demands(Level.SANDBOX, reduced=True))
    assert walls is not None
    return runtime, replace(walls, survey=_shut(walls.survey, services, runtime), alone=True)


def _cannot_run(call: ResolvedCall, reason: str) -> ToolError:
    return ToolError(f"The tool {call.tool.name} cannot run: {reason}. Nothing was done.")


def _shut(survey: Survey, services: Services, runtime: Runtime) -> Survey:
    """Return walls behind which there is neither the workspace nor a home, but the runtime."""

    def shut(writable: Sequence[Path], readable: Sequence[Path]) -> Walls:
        walls = survey(writable, readable)
        homes = (services.workspace.root, home_directory())
        hidden = (*walls.hidden, *(place for place in homes if place is not None))
        return replace(walls, hidden=hidden, read_only=(*walls.read_only, runtime.home))

    return shut


@record
class _Running:
    """One call, from its grant to its result; in a container where it is `contained`."""

    call: ResolvedCall
    around: Surroundings
    runtime: Runtime
    timeout_ms: int
    contained: bool

    async def run(self, grant: Grant, progress: Progress) -> ToolResult:
        """Run the program. Raises GrantError, ToolError."""
        grant.check(self.call)
        try:
            program = await asyncio.to_thread(Program.of, self.call.tool, self._file())
            channel = Channel()
        except (storage.StorageError, OSError) as error:
            raise ToolError(f"The call cannot be set up: {error} Nothing was done.") from error
        memory_bytes = self.call.tool.limits.max_memory_bytes
        ending = Ending(program, self.timeout_ms, self._services.masker, memory_bytes)
        try:
            with closing(channel):
                answer, process = await self._answer(grant, program, channel, progress)
        except Refused as error:
            return replace(error.result, outcome=Outcome.DENIED)
        except ChannelError as error:
            return ending.failed(f"it {error}")
        except ProcessStartError as error:
            raise ToolError(str(error)) from error
        return ending.result(answer, process)

    async def _answer(
        self, grant: Grant, program: Program, channel: Channel, progress: Progress
    ) -> tuple[JsonObject | None, ProcessResult | None]:
        """Return the last frame, None where there is none, and how the process ended by itself.

        Raises Refused, ChannelError, ProcessStartError.
        """
        serving = self._serving(program)
        spec = self._spec(program, channel, serving.waited_s)
        talk = asyncio.create_task(serving.run(channel))
        streams = self._services.masker.streams()
        process = asyncio.create_task(run_process(grant, self.call, spec, live(progress), streams))
        try:
            await asyncio.wait((talk, process), return_when=asyncio.FIRST_COMPLETED)
            if process.done():
                channel.hang_up()
                ended = process.result()
                await asyncio.wait((talk,), timeout=_DRAINED_S)
                return talk.result() if talk.done() else None, ended
            answer = talk.result()
            leaves_s = _CONTAINER_LEAVES_S if self.contained else _LEAVES_S
            await asyncio.wait((process,), timeout=None if answer is None else leaves_s)
            return answer, process.result() if process.done() else None
        finally:
            for task in (talk, process):
                task.cancel()
            await asyncio.gather(talk, process, return_exceptions=True)

    @property
    def _services(self) -> Services:
        return self.around.services

    def _file(self) -> str:
        path = self.call.tool.origin.path
        return self._services.workspace.shown(path) if path is not None else self.call.tool.name

    def _serving(self, program: Program) -> Serving:
        action = self.call.tool.action
        assert isinstance(action, CodeAction)
        directory = str(self._services.workspace.root)
        context: JsonObject = {"config": {"workingDirectory": directory}}
        if self.around.session_id:
            context["conversation"] = {
                "id": self.around.session_id, "workingDirectory": directory,
            }  # fmt: skip
        start = {
            "program": self.runtime.names(program.path),
            "args": self.call.arguments,
            "context": context,
        }
        host = Host(self.call, self._services, action.allowlist, self.around.ask_model)
        return Serving(start, host, self.around.ask)

    def _spec(
        self, program: Program, channel: Channel, not_counted_s: Callable[[], float]
    ) -> ProcessSpec:
        memory = self.call.tool.limits.max_memory_bytes
        spec = ProcessSpec(
            self.runtime.argv(program.path, memory),
            # There is nothing for a program to see, whatever it was made for.
            self.runtime.main.parent,
            self._environment(channel),
            self.timeout_ms,
            merge_stderr=True,
            descriptors=(channel.descriptor,),
            max_memory_bytes=_data_limit(memory),
            one_cpu=True,
            reads=(self.runtime.main, program.path),
            not_counted_s=not_counted_s,
        )
        if not self.contained:
            return spec
        return replace(
            spec, cwd=Path("/"), env={**os.environ, **_IN_CONTAINER}, merge_stderr=False,
            descriptors=(), channel=channel.descriptor, max_memory_bytes=memory,
        )  # fmt: skip

    def _environment(self, channel: Channel) -> Mapping[str, str]:
        """Return the environment, in which there is nothing to be read (E60)."""
        env = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
        env |= {
            "PATH": os.defpath,
            "NO_COLOR": "1",
            "NODE_CHANNEL_FD": str(channel.descriptor),
        }
        if self.runtime.name == "deno":
            env |= {"DENO_DIR": str(storage.cache_dir("deno")), **_QUIET_DENO}
        return env


def _data_limit(wanted_bytes: int | None) -> int | None:
    """Return the limit to ask for: what runtimes reserve comes on top where only data counts."""
    if wanted_bytes is None:
        return None
    from tools.engine.isolation import memory

    found = memory.means(os.environ.get("PATH", os.defpath))
    return wanted_bytes + (_RESERVED_BYTES if found.reach is memory.Reach.PROCESS else 0)


def _limits(max_bytes: int | None, walls: Confinement | None) -> str:
    """Say what is limited, as far as this machine can."""
    held = can_choose_cpu() or _is_container(walls)
    cpu = "one processor" if held else "one processor is declared, but not enforced here"
    return cpu if max_bytes is None else f"{about_memory(max_bytes, walls)}; {cpu}"


def _is_container(walls: Confinement | None) -> bool:
    return walls is not None and walls.level is Level.CONTAINER


def _brief(arguments: JsonObject) -> str:
    return " ".join(f"{name}={as_text(value)}" for name, value in arguments.items())


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
    lines.append(_limits(call.tool.limits.max_memory_bytes, walls))
    if action.allowlist is not None:
        lines.append(f"commands it may ask for: {', '.join(action.allowlist) or 'none'}")
    return "\n".join([*lines, *([note] if note else [])])
