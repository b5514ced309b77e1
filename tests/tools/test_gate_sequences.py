"""Random sequences of calls, sources, rules, modes and answers against tools that record.

What must hold whatever happens: what ran was allowed before, for exactly that call; what was denied
never ran; nothing ran twice.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.calls import connects, reads, runs, writes
from tools.actions import BuiltinAction
from tools.builtin.kit import Builtin, Services
from tools.definition import (
    Effect,
    Invocation,
    Origin,
    Outcome,
    ResolvedCall,
    Risk,
    Source,
    TextDisplay,
    ToolCall,
    ToolDefinition,
    ToolResult,
)
from tools.events import CallDecided
from tools.executor import ToolExecutor
from tools.files.workspace import Workspace
from tools.permissions.gate import Mode, PermissionGate
from tools.permissions.grant import Grant, GrantError
from tools.permissions.question import Answer, Choice, PermissionRequest
from tools.permissions.rules import RuleSet, Verdict, parse_rule
from tools.registry import ToolRegistry, ToolSettings

ROOT = Path("/work/project")
PARAMETERS = {"type": "object", "properties": {"what": {"type": "string"}}, "required": ["what"]}
SOURCES = {
    "run_command": Source.BUILTIN,
    "write_file": Source.BUILTIN,
    "read_file": Source.BUILTIN,
    "deploy": Source.CUSTOM,
    "fetch": Source.MCP,
}
WHAT = ["ls", "npm test", "rm x", "$x", "a.py", ".git/hooks/x"]
RULES = ["run_command", "run_command(npm test:*)", "run_command(rm:*)", "write_file", "read_file",
         "deploy", "fetch", "write_file(*.py)", "network:example.org"]  # fmt: skip


@dataclass(frozen=True)
class Step:
    """The calls of one message, and what is so while they are made."""

    calls: list[tuple[str, str]]
    mode: Mode
    skip: bool
    rule: tuple[Verdict, str] | None
    answers: list[Answer | None]


Key = tuple[str, str, str]
"""What a grant is bound to: call id, digest of the arguments, digest of the definition."""


def key_of(call: ResolvedCall) -> Key:
    return call.id, call.arguments_digest, call.tool.digest


@dataclass
class Recorder:
    """Tools that do nothing but say that they ran, and a person who answers from a list."""

    ran: list[Key] = field(default_factory=list)
    grants: list[tuple[Grant, ResolvedCall]] = field(default_factory=list)
    allowed: list[Key] = field(default_factory=list)
    refused: list[Key] = field(default_factory=list)
    asked: dict[Key, Answer | None] = field(default_factory=dict)
    answers: list[Answer | None] = field(default_factory=list)

    async def ask(self, request: PermissionRequest) -> Answer | None:
        await asyncio.sleep(0)
        answer = self.answers.pop(0) if self.answers else None
        self.asked[key_of(request.call)] = answer
        return answer

    def prepare(self, call: ResolvedCall, services: Services) -> Invocation:
        async def run(grant: Grant, progress: object) -> ToolResult:
            self.ran.append(key_of(call))
            assert key_of(call) in self.allowed, "it ran before it was allowed"
            grant.check(call)
            self.grants.append((grant, call))
            await asyncio.sleep(0)
            return ToolResult("ran")

        what = call.arguments["what"]
        shared = frozenset({what}) if call.tool.name == "write_file" else frozenset()
        return Invocation(
            "title", effects_of(call.tool.name, what), TextDisplay("preview"), run,
            exclusive=shared, dependent=bool(shared),
        )  # fmt: skip


def effects_of(name: str, what: str) -> tuple[Effect, ...]:
    match name:
        case "run_command":
            return (runs(what),)
        case "write_file":
            protected = "git runs it" if ".git" in what else ""
            return (writes(f"{ROOT}/{what}", protected=protected),)
        case "read_file":
            return (reads(f"{ROOT}/{what}"),)
        case "fetch":
            return (connects("example.org"),)
        case _:
            return (runs(what), writes(f"{ROOT}/{what}"))


def definition(name: str) -> ToolDefinition:
    return ToolDefinition(
        name, "d", PARAMETERS, BuiltinAction(name), Origin(SOURCES[name], "test"), Risk.HIGH,
        parallel=True,
    )  # fmt: skip


class Bench:
    """The real registry, gate and executor around a recorder."""

    def __init__(self, root: Path = ROOT) -> None:
        self.recorder = Recorder()
        tools = [definition(name) for name in SOURCES]
        custom = [tool for tool in tools if tool.origin.source is not Source.BUILTIN]
        self.registry = ToolRegistry(
            [tool for tool in tools if tool.origin.source is Source.BUILTIN],
            lambda: (custom, []),
            ToolSettings({}),
            lambda name, on: None,
        )
        self.gate = PermissionGate(RuleSet((), root), self.recorder)
        builtins = {tool.name: Builtin(tool, self.recorder.prepare, {}) for tool in tools}
        services = Services(Workspace(root), {}, self.gate.rules)
        self.executor = ToolExecutor(self.registry, self.gate, builtins, services)
        self.results: dict[Key, ToolResult] = {}
        self.denied_tools: set[str] = set()

    async def take(self, step: Step, number: int) -> None:
        self.gate.mode, self.gate.skip_permissions = step.mode, step.skip
        self.recorder.answers = list(step.answers)
        if step.rule is not None:
            verdict, text = step.rule
            self.gate.rules.add(parse_rule(verdict, text, "t:1"))
            if verdict is Verdict.DENY and text in SOURCES:
                self.denied_tools.add(text)
        calls = [
            ToolCall(f"call_{number}_{place}", name, json.dumps({"what": what}))
            for place, (name, what) in enumerate(step.calls)
        ]
        before = len(self.recorder.ran)
        results = await self.executor.batch(calls, self._note).run()
        for call, result in zip(calls, results, strict=True):
            self.results[self._key(call)] = result
        for identity, _, _ in self.recorder.ran[before:]:
            name = step.calls[int(identity.rpartition("_")[2])][0]
            assert name not in self.denied_tools, "a deny rule holds in every mode"
            assert step.mode is not Mode.PLAN or name == "read_file"

    def _note(self, event: Any) -> None:
        if isinstance(event, CallDecided):
            into = self.recorder.allowed if event.allowed else self.recorder.refused
            into.append(self._key(event.call))

    def _key(self, call: ToolCall) -> Key:
        return key_of(self.executor.resolve(call))


answers = st.one_of(
    st.none(), st.builds(Answer, st.sampled_from(Choice), st.sampled_from(["", "do it otherwise"]))
)
steps = st.builds(
    Step,
    st.lists(st.tuples(st.sampled_from(list(SOURCES)), st.sampled_from(WHAT)), max_size=4),
    st.sampled_from(list(Mode)),
    st.booleans(),
    st.none() | st.tuples(st.sampled_from(list(Verdict)), st.sampled_from(RULES)),
    st.lists(answers, max_size=4),
)


@given(st.lists(steps, min_size=1, max_size=6))
@settings(max_examples=150)
def test_what_ran_was_allowed_what_was_denied_did_not_run_and_nothing_ran_twice(
    sequence: list[Step],
) -> None:
    bench = Bench()

    async def play() -> None:
        for number, step in enumerate(sequence):
            await bench.take(step, number)

    asyncio.run(play())
    recorder = bench.recorder
    assert Counter(recorder.ran) == Counter(recorder.allowed), "all that was allowed ran, once"
    assert not Counter(recorder.ran) - Counter(set(recorder.ran))
    assert not set(recorder.ran) & set(recorder.refused)
    for key, answer in recorder.asked.items():
        yes = answer is not None and answer.choice is not Choice.NO
        assert (key in recorder.ran) == yes
    for key, result in bench.results.items():
        assert (result.outcome is Outcome.OK) == (key in recorder.ran)
    for grant, call in recorder.grants:
        for _, other in recorder.grants:
            if key_of(other) != key_of(call):
                try:
                    grant.check(other)
                except GrantError:
                    continue
                raise AssertionError("a grant fits another call")
