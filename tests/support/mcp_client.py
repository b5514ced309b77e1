"""An MCP client as other agents have one: the official SDK's, connected to the real `opta`."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.support.cli import OPTA

MODES = ("legacy", "auto")
"""Up to 2025-11-25 a server may ask in the middle of a call; later a question is a result."""


class Person:
    """Sits before a client and answers what opta asks; remembers what that was."""

    def __init__(self, *answers: Any) -> None:
        self._answers = list(answers)
        self.asked: list[str] = []
        self.choices: list[list[str]] = []

    async def __call__(self, context: Any, params: Any) -> Any:
        from mcp import types

        self.asked.append(params.message)
        self.choices.append(params.requested_schema["properties"]["answer"]["enum"])
        answer = self._answers.pop(0)
        if answer in ("decline", "cancel"):
            return types.ElicitResult(action=answer)
        return types.ElicitResult(action="accept", content={"answer": answer})


@asynccontextmanager
async def served(
    root: Path,
    *flags: str,
    mode: str = "legacy",
    person: Person | None = None,
    on_message: Any = None,
    errors: Path | None = None,
) -> AsyncIterator[Any]:
    """Start `opta mcp serve` in `root`, connected; `errors` gets its standard error."""
    from mcp import Client, StdioServerParameters
    from mcp.client.stdio import stdio_client

    parameters = StdioServerParameters(
        command=OPTA[0], args=[OPTA[1], "mcp", "serve", *flags], cwd=root, env=dict(os.environ)
    )
    with (errors or Path(os.devnull)).open("w") as told:
        transport = stdio_client(parameters, errlog=told)
        async with Client(
            transport, mode=mode, elicitation_callback=person, message_handler=on_message,
            cache=None,
        ) as client:  # fmt: skip
            yield client


async def text(client: Any, name: str, arguments: Mapping[str, Any] | None = None) -> str:
    """Call a tool that has to succeed; return its text."""
    result = await client.call_tool(name, dict(arguments or {}))
    assert not result.is_error, result.content
    return str(result.content[0].text)


async def refused(client: Any, name: str, arguments: Mapping[str, Any] | None = None) -> str:
    """Call a tool that must not succeed; return what is said."""
    result = await client.call_tool(name, dict(arguments or {}))
    assert result.is_error, result.content
    return str(result.content[0].text)


async def names(client: Any) -> list[str]:
    """The tools that are listed now."""
    return [tool.name for tool in (await client.list_tools()).tools]
