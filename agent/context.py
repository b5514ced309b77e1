"""What goes to the model along with a message: the environment, instructions, mentioned files."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from agent.images import read_image
from agent.instructions import ProjectInstructions, environment_text
from agent.messages import BY_PERSON, Image
from tools.definition import JsonObject, ToolCall, ToolError, ToolResult
from tools.events import Emit
from tools.executor import ToolExecutor
from tools.files.workspace import FileProblem, Workspace
from tools.sources.mcp.servers import McpServers

MENTION = re.compile(r"(?<!\S)@(?:\"([^\"\n]+)\"|(\S+))")
"""A file named in a message: `@src/app.py`, or `@"a name with blanks"`."""

_NUMBERED = re.compile(r"^\d+\t", re.MULTILINE)
"""A line of a file as the read tool gives it."""


class MessageContext:
    """Collects what belongs to the person's next message."""

    def __init__(
        self,
        workspace: Workspace,
        executor: ToolExecutor,
        instructions: ProjectInstructions,
        servers: McpServers,
    ) -> None:
        self._workspace = workspace
        self._servers = servers
        self._executor = executor
        self._instructions = instructions
        self._waiting: list[str] = []

    async def take(
        self, text: str, *, first: bool, tell: Callable[[str], None], given: str | None = None
    ) -> tuple[str, tuple[Image, ...]]:
        """Return what goes along with the message `text`; `first`: a conversation begins.

        `tell` hears of each file that is attached, and of one that cannot be. A message that no
        person typed names no files: `given` then takes their place.
        """
        parts = [self.standing(), *self._waiting] if first else [*self._waiting]
        images: list[Image] = []
        for path in mentions(text) if given is None else ():
            parts.append(await self._attached(path, images, tell))
        parts.append(given or "")
        self._waiting.clear()
        return "\n\n".join(filter(None, parts)), tuple(images)

    async def run_as_person(self, command: str, emit: Emit, *, background: bool = False) -> None:
        """Run a shell command that the person typed; what it printed goes along later."""
        # The sandbox is for what the model wants; the settings may require it for all.
        more = {"background": True} if background else {}
        result = await self._call("run_command", emit, command=command, unsandboxed=True, **more)
        self._add_output(command, result)

    async def start_tool_as_person(self, name: str, arguments: JsonObject, emit: Emit) -> None:
        """Start a tool in the background for the person; the next message says so."""
        result = await self._call(name, emit, **arguments, background=True)
        self.tell_done(f"/jobs tool {name} {json.dumps(arguments)}\n{result.text}")

    def take_up(self, call: ToolCall, result: ToolResult) -> None:
        """Let a command that the person ran before the session was left go along later."""
        with suppress(ValueError, KeyError, TypeError):
            self._add_output(json.loads(call.arguments_json)["command"], result)

    def _add_output(self, command: str, result: ToolResult) -> None:
        # What a command printed must not end the mark and go on as the person's own words (R30).
        output = result.text.replace("</user_command", "<\\/user_command")
        self._waiting.append(f"<user_command>\n$ {command}\n{output}\n</user_command>")

    def standing(self) -> str:
        """Return what a conversation begins with; instructions count as not told before."""
        self._instructions.forget()
        return "\n\n".join(
            filter(None, [environment_text(self._workspace.root), self._instructions.at_start()])
        )

    def tell_place(self) -> None:
        """Let the next message say where it is: the conversation came from another directory."""
        self._waiting.append(self.standing())

    def tell_done(self, what: str) -> None:
        """Let the next message say what the person did to files meanwhile."""
        self._waiting.append(f"<user_action>\n{what}\n</user_action>")

    def tell_jobs(self, news: list[str]) -> None:
        """Let the next message say which jobs have ended meanwhile."""
        if news:
            self._waiting.append("\n".join(["<background_jobs>", *news, "</background_jobs>"]))

    def rewound(self) -> None:
        """What the model was told of AGENTS.md may be forgotten: let it be told again."""
        self._instructions.forget()

    def forget(self) -> None:
        """Begin anew: another conversation is about to start."""
        self._waiting.clear()
        self._instructions.forget()

    async def _attached(self, path: str, images: list[Image], tell: Callable[[str], None]) -> str:
        """Read a file the person named as the read tool would; nothing where there is none.

        An image is added to `images`.
        """
        named = self._workspace.root / path
        if named.is_dir():
            return await self._attached_directory(path, tell)
        if not named.is_file():
            from tools.sources.mcp.calls import find_server

            resource = find_server(path, self._servers)
            return await self._attached_resource(*resource, tell) if resource else ""
        result = await self._call("read_file", lambda event: None, path=path)
        if result.image is not None:
            return self._attached_image(path, result.image, images, tell)
        if not result.success:
            tell(f"{path} is not attached: {result.text}")
            return ""
        tell(f"attached {path} ({_lines(result.text)})")
        return f'<file path="{path}">\n{result.text}\n</file>'

    async def _attached_directory(self, path: str, tell: Callable[[str], None]) -> str:
        result = await self._call(
            "file_search", lambda event: None, mode="glob", pattern="/*", path=path
        )
        if not result.success:
            tell(f"{path} is not attached: {result.text}")
            return ""
        tell(f"attached {path} (what is in it)")
        return f'<directory path="{path}">\n{result.text}\n</directory>'

    def _attached_image(
        self, path: str, file: Path, images: list[Image], tell: Callable[[str], None]
    ) -> str:
        try:
            image = read_image(self._workspace, file)
        except (ToolError, FileProblem) as error:
            tell(f"{path} is not attached: {error}")
            return ""
        images.append(image)
        tell(f"attached {path} (an image)")
        return f'<image path="{path}">attached to this message: {len(images)}.</image>'

    async def _attached_resource(self, server: str, uri: str, tell: Callable[[str], None]) -> str:
        """Read a resource of an MCP server that the person named: `@server:uri`."""
        from tools.sources.mcp.catalog import READ_RESOURCE

        result = await self._call(READ_RESOURCE, lambda event: None, server=server, uri=uri)
        if not result.success:
            tell(f"{server}:{uri} is not attached: {result.text}")
            return ""
        tell(f"attached {server}:{uri}")
        return f'<resource server="{server}" uri="{uri}">\n{result.text}\n</resource>'

    async def _call(self, tool: str, emit: Emit, **arguments: Any) -> ToolResult:
        call = ToolCall(f"{BY_PERSON}{secrets.token_hex(4)}", tool, json.dumps(arguments))
        return await self._executor.run_as_person(call, emit)


def _lines(numbered: str) -> str:
    count = len(_NUMBERED.findall(numbered))
    return "1 line" if count == 1 else f"{count:,} lines"


def mentions(text: str) -> list[str]:
    """Return the files that a message names, each once, in order."""
    found = [quoted or plain.rstrip(".,;:!?)") for quoted, plain in MENTION.findall(text)]
    return list(dict.fromkeys(filter(None, found)))
