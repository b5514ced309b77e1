"""`opta tool run NAME --for-model`: one call of a model in another program.

Rules, hooks and records hold for it as for the calls of an MCP client, only that nobody is asked:
the answer is the text that a model gets.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TextIO

from agent.app import Options
from agent.chat import Chat
from agent.errors import DONE, FAILED, INTERRUPTED, USAGE, UserError
from agent.flags import CODEX_FLAGS
from agent.journal import SERVED
from agent.project import project_root, trust_in
from agent.serving.asking import ClientApprover
from agent.serving.calls import ServedCalls, served_chat
from agent.signals import cancel_on_signals
from tools.commands.tool.kit import UsageError
from tools.commands.tool.options import PROJECT_OPTIONS, Option, OptionError, Parsed, parse
from tools.commands.tool.running import ARGUMENT_OPTIONS, arguments_of
from tools.definition import JsonObject, ToolDefinition
from tools.engine.process import settle
from tools.sources.mcp.sdk import product_version

FLAG = "--for-model"
CALLER = "another program"
OPTIONS = (*PROJECT_OPTIONS, *ARGUMENT_OPTIONS, Option(FLAG))


def run(words: Sequence[str], stdin: TextIO, out: TextIO) -> int:
    """Carry out the call; return 0 where the tool succeeded. Raises UserError."""
    try:
        parsed = parse(words, OPTIONS)
        if len(parsed.words) != 1:
            raise OptionError("run takes one NAME")
        approver = ClientApprover()
        chat = _chat(parsed, approver)
        tool = _tool(chat, parsed.words[0])
        arguments = arguments_of(tool, parsed, stdin)
    except (OptionError, UsageError) as error:
        raise UserError(f"{error}. See `opta help tool run`.", USAGE) from None
    return asyncio.run(_call(chat, ServedCalls(chat, approver), tool, arguments, out))


def _chat(parsed: Parsed, approver: ClientApprover) -> Chat:
    root = project_root(parsed.options.get("--directory"))
    trust = trust_in(root, given=parsed.flag("--trust"))
    flags = {name: parsed.options.get(f"--{name.replace('_', '-')}") for name in CODEX_FLAGS}
    return served_chat(trust, Options(flags, product_version(), SERVED), approver)


def _tool(chat: Chat, name: str) -> ToolDefinition:
    entry = chat.registry.find(name)
    if entry is None:
        raise UserError(f"there is no tool {name!r}; `opta tools list` shows which there are")
    return entry.definition


async def _call(
    chat: Chat, calls: ServedCalls, tool: ToolDefinition, arguments: JsonObject, out: TextIO
) -> int:
    call = calls.begin(tool.wire_name, arguments, CALLER, None)
    assert call.task is not None
    cancel_on_signals(call.task)
    try:
        result = await call.task
    except asyncio.CancelledError:
        return INTERRUPTED
    finally:
        await calls.close()
        await chat.aclose()
        await settle()
    out.write(f"{result.text}\n")
    return DONE if result.success else FAILED
