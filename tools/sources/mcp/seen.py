"""Remembers what each server offered last, so that its tools can be listed without connecting."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

from tools import storage
from tools.definition import ToolDefinition
from tools.record import record
from tools.sources.mcp.accepted import AcceptedTools
from tools.sources.mcp.catalog import Catalog, Offer, ServerTool, all_definitions
from tools.sources.mcp.config import ServerConfig


@record
class Seen:
    """What a server offered at a time (epoch, in seconds)."""

    catalog: Catalog
    at: float


def remember(config: ServerConfig, catalog: Catalog) -> None:
    """Note what a server offers now. Raises StorageError."""
    tools = [asdict(tool) for tool in catalog.tools]
    data = json.dumps({"tools": tools, "resources": catalog.has_resources}).encode()
    path = _path(config)
    if storage.read_private(path) == data:
        storage.private_file(path)
    else:
        storage.write_private(path, data)


def recall(config: ServerConfig) -> Seen | None:
    """Return what a server offered last, as far as it is configured to be used; None: nothing."""
    path = _path(config)
    try:
        data = storage.read_private(path)
        if data is None:
            return None
        noted = json.loads(data)
        tools = tuple(ServerTool(**tool) for tool in noted["tools"] if config.uses(tool["name"]))
        return Seen(Catalog(tools, has_resources=noted["resources"]), path.stat().st_mtime)
    except (storage.StorageError, OSError, ValueError, KeyError, TypeError):
        # A damaged note is as good as none: the next connection makes it anew.
        return None


def seen_definitions(servers: Iterable[ServerConfig]) -> list[ToolDefinition]:
    """Return the tools of servers as they were last offered; what was not accepted is held back."""
    offers = []
    for config in servers:
        seen = recall(config)
        if seen is not None:
            changed = AcceptedTools(config).changed(seen.catalog.tools)
            offers.append(Offer(config, seen.catalog, changed))
    return all_definitions(offers)


def _path(config: ServerConfig) -> Path:
    return storage.state_dir() / "mcp" / "seen" / f"{config.identity[:32]}.json"
