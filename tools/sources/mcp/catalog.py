"""What an MCP server offers, as opta's own plain data, and its tools as definitions.

Everything here was written by the server: it is bounded, shown without control or invisible
characters, and believed in nothing. Hints such as `readOnlyHint` lower no risk.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from typing import Any

from tools.actions import McpAction
from tools.definition import (
    JsonObject,
    Limits,
    Origin,
    Source,
    ToolDefinition,
    digest_of,
    wire_name,
)
from tools.engine.output import has_unseen, sanitize, visible
from tools.formats.json_schema import schema_errors
from tools.record import record
from tools.sources.mcp.config import ServerConfig

MAX_TOOLS = 1000
"""How many tools of one server are looked at."""

MAX_DESCRIPTION = 8 * 1024
MAX_SCHEMA = 64 * 1024
CHANGED = "its description or schema has changed: see /mcp"
READ_RESOURCE = "mcp_read_resource"

_TOOL_NAME = re.compile(r"[A-Za-z0-9_./-]{1,128}")
_NOT_NAME = re.compile(r"[^A-Za-z0-9_.-]")


@record
class ServerTool:
    """A tool as its server describes it. `hints` are the annotations that are set."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    output_schema: Mapping[str, Any] | None = None
    hints: Mapping[str, Any] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """Sha256 (hex) over everything the model and the person would see of it (R34)."""
        return digest_of([self.name, self.description, self.parameters, self.output_schema,
                          self.hints])  # fmt: skip

    def text(self) -> str:
        """Return all of it as lines, for a diff."""
        schemas = {"parameters": self.parameters, "output": self.output_schema, "hints": self.hints}
        return f"{self.description}\n{json.dumps(schemas, indent=1, sort_keys=True, default=str)}\n"


@record
class ServerPrompt:
    """A prompt. `arguments` are names with whether they are required."""

    name: str
    description: str
    arguments: tuple[tuple[str, bool], ...] = ()


@record
class ServerResource:
    """A resource, or a template of some where the address holds `{…}`."""

    uri: str
    name: str
    description: str = ""


@record
class Catalog:
    """All that one server offers.

    `refused` are lines about tools that cannot be used, `hidden` the names of those whose words
    hold invisible characters (R33).
    """

    tools: tuple[ServerTool, ...] = ()
    prompts: tuple[ServerPrompt, ...] = ()
    resources: tuple[ServerResource, ...] = ()
    has_resources: bool = False
    refused: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()


def has_hidden(tool: Any) -> bool:
    """Tell whether what a server says of a tool holds characters that nobody sees."""
    words = json.dumps(tool.input_schema, ensure_ascii=False, default=str)
    return has_unseen(tool.description or "") or has_unseen(words)


def plain_tools(tools: Iterable[Any]) -> tuple[list[ServerTool], list[str]]:
    """Return those of the SDK's tools that are usable, and what is wrong with others."""
    found: dict[str, ServerTool] = {}
    refused: list[str] = []
    for tool in tools:
        name = tool.name
        problem = _problem(tool, found)
        if problem:
            refused.append(f"{visible(name)[:80]}: {problem}")
            continue
        hints = tool.annotations.model_dump(exclude_none=True) if tool.annotations else {}
        found[name] = ServerTool(
            name=name,
            description=_described(tool),
            parameters=_cleaned(_object_schema(tool.input_schema)),
            output_schema=tool.output_schema,
            hints={key: hints[key] for key in sorted(hints) if key != "title"},
        )
    return list(found.values()), refused


def _problem(tool: Any, found: Mapping[str, ServerTool]) -> str:
    if not _TOOL_NAME.fullmatch(tool.name):
        return "its name has characters that are not allowed, or too many"
    if tool.name in found:
        return "the name is there twice"
    if len(json.dumps(tool.input_schema, default=str)) > MAX_SCHEMA:
        return f"its parameters take more than {MAX_SCHEMA // 1024} KiB"
    schema = _object_schema(tool.input_schema)
    if schema.get("type") != "object" or not isinstance(schema["properties"], dict):
        return 'its parameters are not of "type": "object"'
    wrong = next(schema_errors(schema), None)
    return f"its schema {visible(wrong[1])}" if wrong else ""


def _described(tool: Any) -> str:
    text = visible(sanitize(tool.description or tool.title or ""))
    if len(text) > MAX_DESCRIPTION:
        text = f"{text[:MAX_DESCRIPTION]}… (cut)"
    return text


def _object_schema(schema: Mapping[str, Any]) -> JsonObject:
    """Return the schema with what an object schema may leave out (E141)."""
    plain = {key: value for key, value in schema.items() if key != "$schema"}
    return {"type": "object", "properties": {}} | plain


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, dict):
        return {visible(key): _cleaned(item) for key, item in value.items()}
    return [_cleaned(item) for item in value] if isinstance(value, list) else value


def tool_name(server: str, tool: str) -> str:
    """Return the name of a server's tool in opta (E138)."""
    return f"mcp_{server}_{_NOT_NAME.sub('_', tool)}"


@record
class Offer:
    """What a server offers; `changed` are names of tools that wait to be accepted (R34)."""

    config: ServerConfig
    catalog: Catalog
    changed: tuple[str, ...] = ()


def all_definitions(offers: Iterable[Offer]) -> list[ToolDefinition]:
    """Return the tools of all servers as definitions, by server and name."""
    offers = sorted(offers, key=lambda offer: offer.config.name)
    taken: set[str] = set()
    made = [tool for offer in offers for tool in _definitions(offer, taken)]
    readable = [offer.config.name for offer in offers if offer.catalog.has_resources]
    return [*made, resource_tool(readable)] if readable else made


def _definitions(offer: Offer, taken: set[str]) -> Iterator[ToolDefinition]:
    """Yield the tools of a server. `taken` are wire names in use, to which theirs are added: the
    second of two names that the API would see as one gets a number."""
    config = offer.config
    for tool in sorted(offer.catalog.tools, key=lambda tool: tool.name):
        name, number = tool_name(config.name, tool.name), 2
        while wire_name(name) in taken:
            name, number = f"{tool_name(config.name, tool.name)}_{number}", number + 1
        taken.add(wire_name(name))
        yield ToolDefinition(
            name=name,
            description=tool.description,
            parameters=tool.parameters,
            action=McpAction(config.name, tool.name),
            origin=Origin(Source.MCP, "mcp", config.scope, digest=tool.digest),
            parallel=True,
            limits=Limits(timeout_ms=config.call_ms),
            unavailable=CHANGED if tool.name in offer.changed else "",
        )


def resource_tool(servers: Iterable[str]) -> ToolDefinition:
    """Return the tool that reads what servers offer to be read."""
    from prompts import load

    return ToolDefinition(
        name=READ_RESOURCE,
        description=load("tools/mcp_read_resource"),
        parameters={
            "type": "object",
            "properties": {
                "server": {"type": "string", "enum": sorted(servers)},
                "uri": {"type": "string", "description": "leave it out to list what there is"},
            },
            "required": ["server"],
            "additionalProperties": False,
        },
        action=McpAction("", READ_RESOURCE),
        origin=Origin(Source.MCP, "mcp"),
        parallel=True,
    )
