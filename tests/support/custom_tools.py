"""Custom tools on disk and the real path of a call: files, registry, gate, executor, processes."""

from __future__ import annotations

import itertools
import json
import os
from pathlib import Path

from tools.builtin.kit import Services
from tools.definition import Scope, ToolCall
from tools.engine.environment import child_environment
from tools.executor import ToolExecutor
from tools.files.workspace import Workspace
from tools.permissions.gate import PermissionGate
from tools.permissions.question import Answer, Choice
from tools.permissions.rules import RuleSet, Verdict, parse_rule
from tools.registry import ToolRegistry, ToolSettings
from tools.sources.files import ToolFiles


class Person:
    """Answers permission questions and remembers them."""

    def __init__(self, answer=Choice.ONCE):
        self.answer = Answer(answer)
        self.asked = []

    async def ask(self, request):
        self.asked.append(request)
        return self.answer


class Project:
    """A trusted project with custom tools, and a person who answers."""

    def __init__(self, root: Path, answer=Choice.ONCE, builtins=None, isolation=None):
        self.root = root
        self.tools = root / ".opta" / "tools"
        self.config_toml = root / ".opta" / "config.toml"
        self.person = Person(answer)
        self.events = []
        self.rules = RuleSet((), root)
        self.gate = PermissionGate(self.rules, self.person)
        self.builtins = builtins or {}
        self.files = ToolFiles([(Scope.LOCAL, self.tools), (Scope.LOCAL, self.config_toml)])
        self.registry = ToolRegistry(
            [tool.definition for tool in self.builtins.values()],
            self.files.load,
            ToolSettings({}),
            lambda name, on: None,
        )
        self.executor = ToolExecutor(
            self.registry, self.gate, self.builtins,
            Services(
                Workspace(root), child_environment(os.environ), self.rules, isolation=isolation
            ),
        )  # fmt: skip
        self._ids = (f"call_{number}" for number in itertools.count(1))

    def add(self, name, command, properties=None, required=(), **more):
        """Write a tool file and load it."""
        self.tools.mkdir(parents=True, exist_ok=True)
        parameters = {"type": "object", "properties": properties or {}, "required": list(required)}
        data = {"name": name, "description": "d", "parameters": parameters, "command": command}
        (self.tools / f"{name}.json").write_text(json.dumps(data | more))
        self.registry.refresh()
        assert self.registry.find(name), self.registry.problems

    def configure(self, text):
        """Write the tables of config.toml and load them."""
        self.config_toml.parent.mkdir(exist_ok=True)
        self.config_toml.write_text(text)
        self.registry.refresh()
        assert not [p for p in self.registry.problems if not p.warning], self.registry.problems

    def rule(self, verdict: Verdict, text: str):
        """Add a permission rule of the user's."""
        self.rules.add(parse_rule(verdict, text, "config.yml:1"))

    async def call(self, name, /, **arguments):
        """Make one call as the model would, and return its result."""
        return (await self.calls((name, arguments)))[0]

    async def calls(self, *calls):
        """Make the calls of one message and return their results."""
        batch = self.executor.batch(
            [ToolCall(next(self._ids), name, json.dumps(args)) for name, args in calls],
            self.events.append,
        )
        return await batch.run()
