"""The client that the conformance suite drives: `python mcp_conformance.py URL`.

It does with opta's own connection what the scenario in MCP_CONFORMANCE_SCENARIO is about.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from tests.support.mcp_session import session
from tools.definition import Scope
from tools.sources.mcp.config import ServerConfig

CALLS = {
    "tools_call": ("mcp_suite_add_numbers", {"a": 5, "b": 3}),
    "sse-retry": ("mcp_suite_test_reconnection", {}),
}


async def main() -> None:
    config = ServerConfig("suite", Scope.USER, "the suite", url=sys.argv[1])
    async with session(Path.cwd(), config) as s:
        assert not s.told, s.told
        call = CALLS.get(os.environ.get("MCP_CONFORMANCE_SCENARIO", ""))
        if call is not None:
            result = await s.call(*call)
            assert result.success, result.text


if __name__ == "__main__":
    asyncio.run(main())
