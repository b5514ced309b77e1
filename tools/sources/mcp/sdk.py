"""The one place that knows the SDK's client: opens it, asks it, and makes plain data of answers.

The SDK takes most of a second to import; `load` does it, in a thread, before anything else here is
called.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import field
from typing import Any

from tools.connecting import explained
from tools.definition import JsonObject
from tools.engine.output import sanitize, visible
from tools.record import record
from tools.sources.mcp.catalog import (
    MAX_TOOLS,
    Catalog,
    ServerPrompt,
    ServerResource,
    has_hidden,
    plain_tools,
)
from tools.sources.mcp.config import ServerConfig
from tools.sources.mcp.content import ServerResult, described

MAX_PAGES = 100
MAX_LISTED = 1000
"""How many prompts and resources of one server are looked at."""

_NO_MESSAGE = "it sent no message of MCP"
_LOST = (-32000, -32600)
_LOST_WORDS = ("connection closed", "session terminated", "connection lost")


@record
class Elicitation:
    """What a server wants to know of the person.

    `fields` maps names to JSON Schemas of plain values. With a `url` the person is to go there, and
    nothing is asked.
    """

    message: str
    fields: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    required: frozenset[str] = frozenset()
    url: str = ""


@record
class ElicitationAnswer:
    """The person's answer: `action` is accept, decline or cancel."""

    action: str
    content: Mapping[str, Any] = field(default_factory=dict)


@record
class Callbacks:
    """What a server may ask or tell."""

    elicit: Callable[[Elicitation], Awaitable[ElicitationAnswer]]
    on_list_changed: Callable[[], None]
    on_log: Callable[[str], None]
    root_uri: str


def load() -> None:
    """Import the SDK. Its own log of what servers do wrong stays out of the terminal."""
    import mcp  # noqa: F401

    for name in ("mcp", "client"):
        logger = logging.getLogger(name)
        logger.addHandler(logging.NullHandler())
        logger.propagate = False


async def open_client(
    stack: AsyncExitStack,
    transport: AbstractAsyncContextManager[tuple[Any, Any]],
    callbacks: Callbacks,
) -> Any:
    """Connect and shake hands; the client is closed with `stack`."""
    from mcp import Client, types

    async def elicit(context: Any, params: Any) -> Any:
        answer = await callbacks.elicit(_elicitation(params))
        content = dict(answer.content) if answer.action == "accept" else None
        return types.ElicitResult(action=answer.action, content=content)  # type: ignore[arg-type]

    async def roots(context: Any) -> Any:
        root = types.Root(uri=callbacks.root_uri, name="workspace")  # type: ignore[arg-type]
        return types.ListRootsResult(roots=[root])

    async def logged(params: Any) -> None:
        callbacks.on_log(f"{params.level}: {params.data}")

    async def on_message(message: Any) -> None:
        if isinstance(
            message,
            types.ToolListChangedNotification
            | types.PromptListChangedNotification
            | types.ResourceListChangedNotification,
        ):
            callbacks.on_list_changed()

    client = Client(
        transport,
        elicitation_callback=elicit,
        list_roots_callback=roots,
        logging_callback=logged,
        message_handler=on_message,
        client_info=types.Implementation(name="opta", version=product_version()),
        cache=None,
    )
    entered = await stack.enter_async_context(client)
    # The SDK checks results with patterns of the server's that may take for ever; opta's own check
    # is bounded, and needs no second one.
    entered.session.validate_tool_result = _unchecked  # type: ignore[method-assign]
    return entered


def product_version() -> str:
    """Return the version of opta that is installed."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("opta-agent")
    except PackageNotFoundError:
        return "unknown"


async def _unchecked(name: str, result: Any) -> None:
    return None


async def catalog(client: Any, config: ServerConfig) -> Catalog:
    """Ask a server for all that it offers."""
    can = client.server_capabilities
    listed = await _pages(client.list_tools, "tools", MAX_TOOLS) if can.tools else []
    usable = [tool for tool in listed[:MAX_TOOLS] if config.uses(tool.name)]
    tools, refused = plain_tools(usable)
    if len(listed) > MAX_TOOLS:
        refused.append(f"it has more than {MAX_TOOLS:,} tools; the others are left out")
    prompts = await _pages(client.list_prompts, "prompts", MAX_LISTED) if can.prompts else []
    resources: list[ServerResource] = []
    if can.resources:
        found = await _pages(client.list_resources, "resources", MAX_LISTED)
        resources = [_resource(str(item.uri), item) for item in found]
        # Servers that say they have resources often have no list of templates.
        try:
            more = await _pages(client.list_resource_templates, "resource_templates", MAX_LISTED)
        except Exception:
            more = []
        resources += [_resource(item.uri_template, item) for item in more]
    return Catalog(
        tuple(tools), tuple(map(_prompt, prompts[:MAX_LISTED])), tuple(resources[:MAX_LISTED]),
        bool(can.resources), tuple(refused),
        tuple(tool.name for tool in usable if has_hidden(tool)),
    )  # fmt: skip


async def _pages(ask: Callable[..., Awaitable[Any]], key: str, most: int) -> list[Any]:
    items: list[Any] = []
    cursor = None
    for _ in range(MAX_PAGES):
        page = await ask(cursor=cursor)
        items += getattr(page, key)
        cursor = page.next_cursor
        if cursor is None or len(items) > most:
            break
    return items


def _prompt(prompt: Any) -> ServerPrompt:
    arguments = tuple((visible(a.name), bool(a.required)) for a in prompt.arguments or ())
    return ServerPrompt(visible(prompt.name), _line(prompt.description), arguments)


def _resource(uri: str, item: Any) -> ServerResource:
    return ServerResource(visible(uri), visible(item.name), _line(item.description))


def _line(text: str | None) -> str:
    return visible(" ".join(sanitize(text or "").split()))[:300]


async def call_tool(
    client: Any, name: str, arguments: JsonObject, on_progress: Callable[[str], None]
) -> ServerResult:
    """Call a tool; cancelling tells the server."""

    async def progress(done: float, total: float | None, message: str | None) -> None:
        parts = [f"{done:g} of {total:g}" if total else f"{done:g}", _line(message)]
        on_progress(f"{': '.join(filter(None, parts))}\n")

    result = await client.call_tool(name, arguments, progress_callback=progress)
    return ServerResult(tuple(result.content), result.structured_content, bool(result.is_error))


async def prompt_text(client: Any, name: str, arguments: dict[str, str]) -> str:
    """Return the messages of a prompt as one text."""
    result = await client.get_prompt(name, arguments)
    return "\n\n".join(described(message.content) for message in result.messages)


def _elicitation(params: Any) -> Elicitation:
    message = visible(sanitize(params.message))
    if params.mode == "url":
        return Elicitation(message, url=str(params.url))
    schema = params.requested_schema
    plain = schema if isinstance(schema, dict) else schema.model_dump(exclude_none=True)
    return Elicitation(
        message, dict(plain.get("properties") or {}), frozenset(plain.get("required") or ())
    )


def innermost(error: BaseException) -> BaseException:
    """Return the one error that a group of errors is about."""
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    return error


def reason(error: BaseException) -> str:
    """Return the words of an error, without those of the library that checks messages."""
    plain = innermost(error)
    problems = getattr(plain, "errors", None)
    if callable(problems):
        first = problems()[0]
        field = ".".join(map(str, first["loc"]))
        return f"{_NO_MESSAGE}: {field}: {first['msg']}"
    before, found, _ = explained(plain).partition("validation error")
    return f"{before.rstrip(' 0123456789')} {_NO_MESSAGE}" if found else before


def lost_connection(error: BaseException) -> bool:
    """Tell whether an error of a request means that there is no connection any more."""
    plain = innermost(error)
    code = getattr(plain, "code", None)
    words = str(plain).lower()
    return isinstance(plain, OSError) or (code in _LOST and any(w in words for w in _LOST_WORDS))
