"""Calls and invocations for tests of the gate and the rules, without a tool behind them."""

from __future__ import annotations

from tools.actions import BuiltinAction
from tools.definition import (
    Effect,
    EffectKind,
    Invocation,
    Origin,
    ResolvedCall,
    Risk,
    Source,
    TextDisplay,
    ToolDefinition,
    ToolResult,
)


def make_call(name="run_command", arguments=None, tags=None, source=Source.BUILTIN, id="call_1"):
    """Return a call of a tool of this name."""
    metadata = {} if tags is None else {"tags": tags}
    tool = ToolDefinition(
        name, "d", {"type": "object"}, BuiltinAction(name), Origin(source, "test"), Risk.HIGH,
        metadata=metadata,
    )  # fmt: skip
    return ResolvedCall(id, tool, arguments or {})


def make_invocation(*effects: Effect) -> Invocation:
    """Return an invocation with these effects."""

    async def run(grant, progress):
        return ToolResult("ran")

    return Invocation("title", effects, TextDisplay("preview"), run)


def runs(command, subject="run_command", **more) -> Effect:
    """A command that is run."""
    return Effect(EffectKind.EXECUTE, command, subject, **more)


def reads(path, inside=True, **more) -> Effect:
    """A file that is read."""
    return Effect(EffectKind.READ, path, "read_file", inside, **more)


def writes(path, inside=True, **more) -> Effect:
    """A file that is written."""
    return Effect(EffectKind.WRITE, path, "write_file", inside, **more)


def connects(host) -> Effect:
    """A host that is connected to."""
    return Effect(EffectKind.NETWORK, host, "fetch")
