"""Calls built-in tools on a real directory, as the executor does once the gate has allowed it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from tools.builtin import all_builtins
from tools.builtin.kit import Services
from tools.definition import Invocation, Outcome, ResolvedCall, ToolError, ToolResult
from tools.engine.environment import child_environment
from tools.files.workspace import FileProblem, Workspace
from tools.permissions.grant import Grant, mint
from tools.schema import check_arguments

BUILTINS = {builtin.definition.name: builtin for builtin in all_builtins()}


class Bench:
    """A workspace in `root` and everything needed to call tools in it."""

    def __init__(self, root: Path) -> None:
        root.mkdir(parents=True, exist_ok=True)
        self.root = root.resolve()
        self.workspace = Workspace(self.root)
        self.services = Services(self.workspace, child_environment(os.environ))
        self.progress: list[str] = []

    def file(self, name: str, content: str | bytes) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def resolved(self, name: str, arguments: dict[str, Any]) -> ResolvedCall:
        builtin = BUILTINS[name]
        checked = check_arguments(builtin.definition, arguments, builtin.aliases)
        return ResolvedCall("call-1", builtin.definition, checked)

    def prepare(self, name: str, **arguments: Any) -> tuple[Invocation, Grant]:
        call = self.resolved(name, arguments)
        invocation = BUILTINS[name].prepare(call, self.services)
        return invocation, mint(call, "test", invocation.confinement)

    async def finish(self, prepared: tuple[Invocation, Grant]) -> ToolResult:
        invocation, grant = prepared
        try:
            return await invocation.run(grant, self.progress.append)
        except (ToolError, FileProblem) as error:
            return ToolResult(str(error), Outcome.ERROR)

    async def call(self, name: str, **arguments: Any) -> ToolResult:
        try:
            prepared = self.prepare(name, **arguments)
        except (ToolError, FileProblem) as error:
            return ToolResult(str(error), Outcome.ERROR)
        return await self.finish(prepared)

    async def text(self, name: str, **arguments: Any) -> str:
        return (await self.call(name, **arguments)).text
