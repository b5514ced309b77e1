"""Code tools on disk, and the real path of their calls: files, registry, gate, runtimes, walls."""

from __future__ import annotations

import json
import textwrap
from dataclasses import replace

import yaml

from tests.support.custom_tools import Project
from tools.confinement import IsolationSettings
from tools.engine.isolation.choice import Isolation
from tools.files.walls import survey
from tools.registry import ToolSettings


def code_tool(name, **more):
    """Return the text of a code tool that says that it ran."""
    return json.dumps({
        "name": name, "description": "d", "schema": {"type": "object", "properties": {}},
        "code": "export const execute = () => 'it ran';", **more,
    })  # fmt: skip


class CodeProject(Project):
    """A trusted project with code tools, and a person who answers."""

    def __init__(self, root, settings=None, **more):
        isolation = Isolation(root, survey, settings or IsolationSettings())
        super().__init__(root, isolation=isolation, **more)
        self.tools = root / ".mimir" / "tools"
        self.files.places = [(scope, self.tools) for scope, _ in self.files.places[:1]]

    def code(self, name, code, runtime="typescript", properties=None, **more):
        """Write a code tool and load it; return the file."""
        self.tools.mkdir(parents=True, exist_ok=True)
        head = {
            "name": name, "description": "d", "runtime": runtime, **more,
            "schema": {"type": "object", "properties": properties or {}},
        }  # fmt: skip
        text = textwrap.dedent(code).strip("\n")
        path = self.tools / f"{name}.yml"
        path.write_text(f"{yaml.safe_dump(head)}code: |\n{textwrap.indent(text, '  ')}\n")
        self.registry.refresh()
        entry = self.registry.find(name)
        assert entry, self.registry.problems
        assert entry.enabled, entry.reason
        return path

    def limit(self, timeout_ms):
        """Cap the time of every call, as the setting maxExecutionTime does."""
        self.registry._settings = ToolSettings({}, max_execution_ms=timeout_ms)

    def path(self, directory):
        """Put a directory of programs first on PATH."""
        services = self.executor._services
        env = dict(services.child_env)
        env["PATH"] = f"{directory}:{env['PATH']}"
        self.executor._services = replace(services, child_env=env)

    async def value(self, name, /, **arguments):
        """Call a tool that returns JSON, and return that."""
        result = await self.call(name, **arguments)
        assert result.success, result.text
        return json.loads(result.text)
