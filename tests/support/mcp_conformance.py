"""The client that the conformance suite drives: `python mcp_conformance.py URL`.

It does with opta's own connection, login and questions what the scenario in
MCP_CONFORMANCE_SCENARIO is about. A person who agrees to everything is before it.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
import urllib.request
from pathlib import Path
from typing import Any

from agent.ui.elicitation import answer_for_server
from tests.support.mcp_session import Session, session
from tools.definition import Scope
from tools.sources.mcp import sdk
from tools.sources.mcp.config import LoginSettings, ServerConfig
from tools.sources.mcp.login import log_in

CALLS = {
    "tools_call": ("mcp_suite_add_numbers", {"a": 5, "b": 3}),
    "sse-retry": ("mcp_suite_test_reconnection", {}),
    "elicitation-sep1034-client-defaults": ("mcp_suite_test_client_elicitation_defaults", {}),
}


class Agreeing:
    """Says yes, and presses Enter at whatever else is asked."""

    def show(self, text: str) -> None:
        print(text, file=sys.stderr)

    async def select(self, question: str, options: Any, selected: int = 0, escape: str = "") -> Any:
        return options[selected].value

    async def ask_words(self, question: str) -> str:
        return ""


def visit(url: str) -> None:
    """Go to an address as a browser does, which follows where it is sent."""
    threading.Thread(target=urllib.request.urlopen, args=(url,), daemon=True).start()


async def use(s: Session, scenario: str, config: ServerConfig) -> None:
    assert not s.told, s.told
    s.servers.elicit = lambda name, question: answer_for_server(Agreeing(), name, question)
    call = CALLS.get(scenario) or ((s.names[0], {}) if scenario.startswith("auth/") else None)
    if call is not None:
        result = await s.call(*call)
        if "opta mcp login suite" in result.text:
            await log_in(config, visit)
            result = await s.call(*call)
        assert result.success, result.text


async def main() -> None:
    given = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
    login = LoginSettings(given.get("client_id", ""), given.get("client_secret", ""))
    config = ServerConfig("suite", Scope.USER, "the suite", url=sys.argv[1], login=login)
    scenario = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
    if scenario.startswith("auth/"):
        sdk.load()
        await log_in(config, visit)
    async with session(Path.cwd(), config) as s:
        await use(s, scenario, config)


if __name__ == "__main__":
    asyncio.run(main())
