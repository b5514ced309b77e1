"""The one path of a call: find, validate, ask, run, report.

All calls of one message are prepared and asked in order, then run at the same time; calls that
share an exclusive key keep their order. What is made from what an earlier call leaves (the second
edit of a file) waits for the next round: it is prepared and asked when that call has run. Whatever
happens, every call gets exactly one result.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tools.actions import BuiltinAction, CodeAction, McpAction
from tools.builtin.command_paths import guarded
from tools.builtin.command_secrets import guarded_in_command, guarded_in_values
from tools.clock import elapsed_ms
from tools.definition import (
    EffectKind,
    Invocation,
    Outcome,
    Progress,
    ResolvedCall,
    ToolCall,
    ToolDefinition,
    ToolError,
    ToolResult,
)
from tools.engine.output import Excerpt, clipped, sanitize
from tools.events import (
    CallDecided,
    CallEvent,
    CallFinished,
    CallOutput,
    CallProposed,
    CallStarted,
    Emit,
)
from tools.files.workspace import FileProblem
from tools.permissions.gate import Decision, Denial, PermissionGate, refusal
from tools.permissions.grant import Grant, GrantError
from tools.record import record
from tools.schema import check_arguments, parse_arguments

if TYPE_CHECKING:
    from tools.builtin.kit import Builtin, Services
    from tools.code.host import AskModel
    from tools.engine.run import Observe
    from tools.hooks import HookRunner
    from tools.registry import ToolRegistry

NOT_RUN = "Not run: the user refused an earlier call of this message. Nothing was done."
STOPPED_BEFORE = "Not run: the user interrupted before it started. Nothing was done."
STOPPED_DURING = (
    "Interrupted by the user after {seconds:.1f} s; the outcome is unknown. "
    "Check before doing it again."
)

MAX_RUNNING = 32
"""How many calls of a message run at the same time: each may hold several file descriptors."""

BACKGROUND = "background"
"""The argument that every custom tool takes, in a chat, besides its own."""

_FAILURE_CHARS = 1000


async def _nothing(invocation: Invocation) -> None:
    """Wait for nothing."""


@record
class Hooks:
    """What else happens around calls.

    `before_run` is waited for before each call that was allowed. `note_for` gets the paths a call
    touched and returns text to add to its result for the model (directory instructions on first
    touch), or nothing. `observe` gets what the steps of every custom tool gave. `programs` are the
    hooks that the person has configured.
    """

    before_run: Callable[[Invocation], Awaitable[None]] = _nothing
    note_for: Callable[[Iterable[Path]], str] = lambda _: ""
    observe: Observe | None = None
    programs: HookRunner | None = None


@record
class _Ready:
    """A call that may run. `by_tool`: its result goes to a tool, not to the model."""

    call: ToolCall
    resolved: ResolvedCall
    invocation: Invocation
    grant: Grant
    by_tool: bool = False


class ToolExecutor:
    """Runs tool calls of every source. The only caller of what a tool does."""

    def __init__(
        self,
        registry: ToolRegistry,
        gate: PermissionGate,
        builtins: Mapping[str, Builtin],
        services: Services,
        *,
        hooks: Hooks | None = None,
        by_hand: bool = False,
    ) -> None:
        """Make an executor.

        `builtins` are by name. `by_hand` lets interactive tools talk to the person. `ask_model`,
        which a front end with a model sets, is how programs of tools ask it.
        """
        self.registry = registry
        self.gate = gate
        self._builtins = builtins
        self._services = services
        self._hooks = hooks or Hooks()
        self._by_hand = by_hand
        self.ask_model: AskModel | None = None

    def batch(self, calls: Sequence[ToolCall], emit: Emit) -> CallBatch:
        """Take the calls of one message. Nothing happens before `CallBatch.run`."""
        return CallBatch(self, calls, emit)

    async def run_as_person(self, call: ToolCall, emit: Emit) -> ToolResult:
        """Run a call that the person typed: shown, not asked (R48)."""
        (result,) = await CallBatch(self, [call], emit, by_person=True).run()
        return result

    def resolve(self, call: ToolCall) -> ResolvedCall:
        """Find the tool and check the arguments. Raises ToolError with the text for the model."""
        entry = self.registry.find(call.name)
        if entry is None:
            raise ToolError(self._unknown(call.name))
        if entry.deferred:
            # Models call what they have read of: in an older message, in a file. The gate asks.
            self.registry.load([entry.definition.name])
        elif not entry.enabled:
            raise ToolError(f"The tool {call.name} is off ({entry.reason}). Go on without it.")
        tool, builtin = entry.definition, self._builtin(entry.definition)
        given = parse_arguments(call.arguments_json)
        background = self.takes_background(tool) and given.pop(BACKGROUND, False)
        arguments = check_arguments(tool, given, builtin.aliases if builtin else {})
        return ResolvedCall(call.id, tool, arguments, background is True)

    def prepare(self, resolved: ResolvedCall, emit: Emit = lambda event: None) -> Invocation:
        """Let the tool say what it will do. Raises ToolError or FileProblem.

        `emit` hears of the calls that the tool makes itself.
        """
        builtin = self._builtin(resolved.tool)
        if builtin is not None:
            return builtin.prepare(resolved, self._services)
        if isinstance(resolved.tool.action, McpAction):
            return self._services.prepare_served(resolved)
        if isinstance(resolved.tool.action, CodeAction):
            return self._prepare_code(resolved, emit)
        return self._prepare_plan(resolved)

    def _prepare_code(self, resolved: ResolvedCall, emit: Emit) -> Invocation:
        from tools.code.call import Surroundings, prepare_code

        touched: list[Path] = []

        async def ask(inner: ResolvedCall, invocation: Invocation) -> ToolResult:
            batch = CallBatch(self, [inner.as_call()], emit, prepared=(inner, invocation))
            (result,) = await batch.run()
            if result.outcome is not Outcome.DENIED:
                touched.extend(_touched(invocation))
            return result

        async def run(grant: Grant, progress: Progress) -> ToolResult:
            return self._noted(await outer.run(grant, progress), touched)

        programs = self._hooks.programs
        about = programs.about() if programs is not None else {}
        around = Surroundings(self._services, ask, about.get("session_id", ""), self.ask_model)
        outer = prepare_code(resolved, around)
        return replace(outer, run=run)

    def _prepare_plan(self, resolved: ResolvedCall) -> Invocation:
        # Only custom tools pay for the engine: an answer without a call of one is there sooner.
        from tools.engine.prepared import Setting
        from tools.engine.run import prepare_plan
        from tools.registry import OtherTools

        root = self._services.workspace.root
        plan = prepare_plan(
            resolved,
            Setting(
                root,
                self._services.child_env,
                OtherTools(self.registry),
                by_hand=self._by_hand,
                secrets=self._services.masker.secrets,
            ),
            observe=self._hooks.observe,
            isolation=self._services.isolation,
        )
        invocation = self._with_guarded_files(resolved, guarded(plan, root))
        return self._services.in_background(invocation) if resolved.background else invocation

    async def prepare_aside(self, resolved: ResolvedCall, emit: Emit) -> Invocation:
        """Do what `prepare` does in a thread, and tell the person what came of it."""
        try:
            return await asyncio.to_thread(self.prepare, resolved, emit)
        finally:
            isolation = self._services.isolation
            for line in isolation.news() if isolation is not None else ():
                self.gate.tell(line)

    async def run(self, ready: _Ready, emit: Emit) -> ToolResult:
        """Run one allowed call and turn every failure into a result."""
        await self._hooks.before_run(ready.invocation)
        programs = self._hooks.programs
        if programs is not None:
            await programs.before(ready.resolved, emit)
        started = time.monotonic()
        result = await self._run(ready, emit)
        result = replace(result, duration_ms=elapsed_ms(started))
        if programs is not None:
            await programs.after(ready.resolved, result, emit)
        return result

    async def refusal(self, resolved: ResolvedCall, emit: Emit) -> Decision | None:
        """Return the decision of a hook against a call, None where none objects."""
        programs = self._hooks.programs
        refusal = await programs.refusal(resolved, emit) if programs is not None else None
        if refusal is None:
            return None
        return Decision(
            by=f"hook {refusal.by}: {' '.join(refusal.reason.split())}", denial=Denial.HOOK,
            message=f"Permission denied by a hook of the user: {refusal.reason}. Nothing was "
            "done. Do not try another way to do the same; go on without it or say what is needed.",
        )  # fmt: skip

    async def _run(self, ready: _Ready, emit: Emit) -> ToolResult:
        emit(CallStarted(ready.call, ready.invocation.title))
        try:
            result = await ready.invocation.run(
                ready.grant, lambda text: emit(CallOutput(ready.call.id, text))
            )
        except GrantError:
            raise
        except Exception as error:
            return _failure(error)
        # What a tool gets is not for the model, which is told with the result of that tool.
        return result if ready.by_tool else self._noted(result, _touched(ready.invocation))

    def _noted(self, result: ToolResult, touched: Iterable[Path]) -> ToolResult:
        note = self._hooks.note_for(touched)
        return replace(result, text=f"{result.text}\n\n{note}") if note else result

    def _with_guarded_files(self, call: ResolvedCall, plan: Invocation) -> Invocation:
        """Let the guarded files that a call of a plan names count as well (R40)."""
        root = self._services.workspace.root
        found = guarded_in_values(call.arguments, self._services, call.tool.name)
        for effect in plan.effects:
            if effect.kind is EffectKind.EXECUTE:
                found += guarded_in_command(effect.value, root, self._services, call.tool.name)
        unique = tuple(dict.fromkeys(found))
        return replace(plan, effects=(*plan.effects, *unique)) if unique else plan

    def takes_background(self, tool: ToolDefinition) -> bool:
        """Tell whether `background` is for opta: not where it may be an argument of the tool's."""
        if self._services.jobs is None or self._builtin(tool) is not None:
            return False
        if isinstance(tool.action, CodeAction):
            # Its program asks while it runs, which a person must be there for.
            return False
        schema = tool.parameters
        return BACKGROUND not in schema.get("properties", {}) and not schema.get(
            "additionalProperties"
        )

    def _builtin(self, definition: ToolDefinition) -> Builtin | None:
        action = definition.action
        return self._builtins[action.name] if isinstance(action, BuiltinAction) else None

    def _unknown(self, name: str) -> str:
        if not name.strip():
            # A list of names would only feed models that echo call syntax.
            return "The tool call has no name. Nothing was done."
        near = self.registry.nearest(name)
        hint = f" Nearest names: {', '.join(near)}." if near else ""
        return f"There is no tool {name!r}. Nothing was done.{hint}"


class CallBatch:
    """The calls of one message on their way to their results."""

    def __init__(
        self,
        executor: ToolExecutor,
        calls: Sequence[ToolCall],
        emit: Emit,
        *,
        by_person: bool = False,
        prepared: tuple[ResolvedCall, Invocation] | None = None,
    ) -> None:
        """Take calls. `prepared` is what is known already of the only one, made by a tool."""
        self._executor = executor
        self._calls = tuple(calls)
        self._emit = emit
        self._by_person = by_person
        self._prepared = prepared
        self._results: dict[int, ToolResult] = {}
        self._started: dict[int, float] = {}
        self._output: dict[int, Excerpt] = {}
        self._titles: dict[int, str] = {}
        self._resolved: dict[int, ResolvedCall] = {}
        self._places = asyncio.Semaphore(MAX_RUNNING)

    @property
    def valid(self) -> int:
        """How many calls name a tool that is on, with arguments that fit."""
        return len(self._resolved)

    async def run(self) -> tuple[ToolResult, ...]:
        """Prepare, ask and run; return the results in call order.

        When cancelled, the unfinished calls get a result that says so before this raises.
        """
        waiting: Sequence[int] = range(len(self._calls))
        try:
            for call in self._calls:
                self._emit(CallProposed(call))
            while waiting:
                waiting = await self._round(waiting)
        finally:
            self._interrupt_unfinished()
        return self.results()

    def _interrupt_unfinished(self) -> None:
        for position in range(len(self._calls)):
            if position in self._results:
                continue
            started = self._started.get(position)
            if started is None:
                self._finish(position, ToolResult(STOPPED_BEFORE, Outcome.CANCELLED))
                continue
            elapsed = time.monotonic() - started
            text = STOPPED_DURING.format(seconds=elapsed)
            output = self._output[position].text.rstrip("\n")
            text = f"{text} Its output until then:\n{output}" if output else text
            result = ToolResult(text, Outcome.CANCELLED, duration_ms=round(elapsed * 1000))
            self._finish(position, result)

    def results(self) -> tuple[ToolResult, ...]:
        """The results in call order; complete once `run` has returned or raised."""
        return tuple(self._results[position] for position in range(len(self._calls)))

    async def _round(self, positions: Sequence[int]) -> list[int]:
        """Ask for what can be asked now, run what was allowed; return what has to wait."""
        ready: dict[int, _Ready] = {}
        later: list[int] = []
        running, waiting = set[str](), set[str]()
        for position in positions:
            prepared = await self._prepare(position)
            if isinstance(prepared, ToolResult):
                self._finish(position, prepared)
                continue
            keys = prepared.exclusive
            if keys & waiting or (prepared.dependent and keys & running):
                later.append(position)
                waiting |= keys
                continue
            admitted = await self._admit(position, prepared)
            if isinstance(admitted, _Ready):
                ready[position] = admitted
                running |= keys
                continue
            self._finish(position, admitted)
            if admitted.stop_turn:
                self._refuse(p for p in positions if p not in ready)
                later = []
                break
        await self._run_all(ready)
        return later

    def _refuse(self, positions: Iterable[int]) -> None:
        for position in positions:
            if position not in self._results:
                self._finish(position, ToolResult(NOT_RUN, Outcome.DENIED))

    async def _prepare(self, position: int) -> Invocation | ToolResult:
        if self._prepared is not None:
            self._resolved[position], invocation = self._prepared
            return invocation
        try:
            if position not in self._resolved:
                self._resolved[position] = self._executor.resolve(self._calls[position])
            # Preparing reads files (for a diff, say): not on the loop that draws the screen.
            return await self._executor.prepare_aside(self._resolved[position], self._emit)
        except Exception as error:
            return _failure(error)

    async def _admit(self, position: int, invocation: Invocation) -> _Ready | ToolResult:
        call = self._calls[position]
        self._titles[position] = invocation.title
        decision = await self._decide(self._resolved[position], invocation)
        self._emit(
            CallDecided(
                call,
                invocation.title,
                invocation.preview,
                decision.grant is not None,
                decision.by,
                invocation.hazards,
                invocation.warnings,
            )
        )
        if decision.grant is None:
            text = refusal(decision, invocation)
            return ToolResult(text, Outcome.DENIED, stop_turn=decision.stop_turn)
        by_tool = self._prepared is not None
        return _Ready(call, self._resolved[position], invocation, decision.grant, by_tool)

    async def _decide(self, resolved: ResolvedCall, invocation: Invocation) -> Decision:
        if self._by_person and not _reads_secrets(invocation):
            return self._executor.gate.authorise_person(resolved, invocation, "typed by you")
        refused = await self._executor.refusal(resolved, self._emit)
        if refused is not None:
            return refused
        return await self._executor.gate.authorise(resolved, invocation)

    async def _run_all(self, ready: Mapping[int, _Ready]) -> None:
        if len(ready) == 1:
            ((position, only),) = ready.items()
            await self._run_one(position, only)
            return
        last: dict[str, asyncio.Task[None]] = {}
        async with asyncio.TaskGroup() as group:
            for position, item in ready.items():
                before = {last[key] for key in item.invocation.exclusive if key in last}
                task = group.create_task(self._run_one(position, item, before))
                last.update(dict.fromkeys(item.invocation.exclusive, task))

    async def _run_one(
        self, position: int, ready: _Ready, before: Iterable[asyncio.Task[None]] = ()
    ) -> None:
        for task in before:
            await asyncio.wait([task])
        async with self._places:
            await self._run_now(position, ready)

    async def _run_now(self, position: int, ready: _Ready) -> None:
        self._started[position] = time.monotonic()
        kept = self._output[position] = Excerpt()

        def emit(event: CallEvent) -> None:
            if isinstance(event, CallOutput):
                kept.add(event.text)
            self._emit(event)

        self._finish(position, await self._executor.run(ready, emit))

    def _finish(self, position: int, result: ToolResult) -> None:
        call = self._calls[position]
        # Messages repeat names that the model or a directory made up (R36).
        result = replace(result, text=sanitize(result.text))
        self._results[position] = result
        self._emit(CallFinished(call, self._titles.get(position, call.name), result))


def _failure(error: Exception) -> ToolResult:
    """Say what went wrong. A defect of one tool must cost one call, never the conversation."""
    if isinstance(error, ToolError | FileProblem):
        return ToolResult(str(error), Outcome.ERROR)
    said = f"The tool failed: {type(error).__name__}: {error}"
    return ToolResult(clipped(said, _FAILURE_CHARS), Outcome.ERROR)


def _reads_secrets(invocation: Invocation) -> bool:
    """True where a file with secrets would go to the model: naming one in a message asks (R40)."""
    effects = invocation.effects
    reads = all(effect.kind is EffectKind.READ for effect in effects)
    return reads and any(effect.sensitive for effect in effects)


def _touched(invocation: Invocation) -> list[Path]:
    return [
        Path(effect.value)
        for effect in invocation.effects
        if effect.inside and effect.kind in (EffectKind.READ, EffectKind.WRITE)
    ]
