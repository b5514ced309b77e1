"""Asks the person what an MCP server wants to know."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from agent.ui.browser import open_browser
from agent.ui.menu import Option
from tools.engine.output import visible
from tools.formats.json_schema import value_problem
from tools.sources.mcp.login import LoginFailed, checked_url
from tools.sources.mcp.sdk import Elicitation, ElicitationAnswer

if TYPE_CHECKING:
    from agent.ui.repl import Repl

_NUMBERS = {"number": float, "integer": int}
_CANCEL = ElicitationAnswer("cancel")


async def answer_for_server(repl: Repl, server: str, question: Elicitation) -> ElicitationAnswer:
    """Ask for each field in turn. The person always sees who asks, and may say no at any point."""
    repl.show(f"The MCP server {visible(server)} asks: {question.message}")
    if question.url:
        return await _visit(repl, question.url)
    options = [Option(True, "answer", "y"), Option(False, "do not answer", "n")]
    asked = f"Answer {visible(server)}? Nothing secret belongs here."
    agreed = await repl.select(asked, options, escape="no")
    if agreed is None:
        return _CANCEL
    if not agreed:
        return ElicitationAnswer("decline")
    content: dict[str, Any] = {}
    for name, schema in question.fields.items():
        given, value = await _field(repl, name, schema, required=name in question.required)
        if not given:
            return _CANCEL
        if value is not None:
            content[name] = value
            repl.show(f"  {_title(name, schema)}: {_shown(value)}")
    return ElicitationAnswer("accept", content)


async def _visit(repl: Repl, url: str) -> ElicitationAnswer:
    try:
        url = checked_url(url)
    except LoginFailed as error:
        repl.show(str(error))
        return ElicitationAnswer("decline")
    repl.show(f"  {url}")
    options = [Option(True, "open it in the browser", "y"), Option(False, "do not", "n")]
    agreed = await repl.select("Go to this address?", options, escape="no")
    if agreed:
        if not open_browser(url):
            repl.show("  No browser could be started: open the address yourself.")
        return ElicitationAnswer("accept")
    return _CANCEL if agreed is None else ElicitationAnswer("decline")


async def _field(
    repl: Repl, name: str, schema: Mapping[str, Any], *, required: bool
) -> tuple[bool, Any]:
    """Return whether the person answered, and what: None for nothing in a field that may be."""
    title = _title(name, schema)
    about = visible(
        "; ".join(filter(None, [str(schema.get("description") or ""), _members(schema)]))
    )
    label = f"{title} ({about})" if about else title
    default = schema.get("default")
    choices = _choices(schema)
    if choices:
        options = [Option((value,), visible(shown)) for value, shown in choices]
        if not required:
            options.append(Option((None,), "(leave it open)"))
        marked = next((n for n, option in enumerate(options) if option.value == (default,)), 0)
        chosen = await repl.select(label, options, marked, escape="do not answer")
        return (False, None) if chosen is None else (True, chosen[0])
    if about:
        repl.show(f"  {label}")
    hint = f" [{_shown(default)}]" if default is not None else "" if required else " (may be empty)"
    while True:
        words = await repl.ask_words(f"{title}{hint}:")
        if words is None:
            return False, None
        if not words and default is None and not required:
            return True, None
        value = _typed(words, schema) if words or default is None else default
        problem = visible(value_problem(dict(schema), value))
        if not problem:
            return True, value
        repl.show(f"  {problem}")


def _title(name: str, schema: Mapping[str, Any]) -> str:
    return visible(str(schema.get("title") or name))


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return visible(", ".join(map(str, value)) if isinstance(value, list) else str(value))


def _choices(schema: Mapping[str, Any]) -> list[tuple[Any, str]]:
    if schema.get("type") == "boolean":
        return [(True, "yes"), (False, "no")]
    listed = schema.get("enum")
    if isinstance(listed, list):
        names = schema.get("enumNames")
        shown = names if isinstance(names, list) and len(names) == len(listed) else listed
        return [(value, str(name)) for value, name in zip(listed, shown, strict=True)]
    titled = schema.get("oneOf")
    if isinstance(titled, list):
        return [(o["const"], str(o.get("title", o["const"]))) for o in titled if "const" in o]
    return []


def _members(schema: Mapping[str, Any]) -> str:
    """Say which values a list may hold, where it may not hold any."""
    items = schema.get("items")
    if not isinstance(items, dict):
        return ""
    choices = _choices({**items, "oneOf": items.get("anyOf")})
    values = ", ".join(str(value) for value, _ in choices)
    return f"any of {values}, with commas between" if values else ""


def _typed(words: str, schema: Mapping[str, Any]) -> Any:
    kind = _NUMBERS.get(str(schema.get("type")))
    if kind is not None:
        try:
            return kind(words)
        except ValueError:
            return words
    if schema.get("type") == "array":
        return [word.strip() for word in words.split(",") if word.strip()]
    return words
