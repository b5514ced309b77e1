"""Remembers what the tools of each server looked like when they were first used (R34).

A server may change what a tool says of itself at any time, and with it what the model is told to
do. What changed is held back until the person has seen the difference and said yes.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tools import storage
from tools.record import record
from tools.sources.mcp.catalog import ServerTool
from tools.sources.mcp.config import ServerConfig
from tools.storage import StorageError


@record
class Review:
    """What differs from what was accepted, by the names of the tools; `diff` shows it."""

    changed: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    diff: str = ""


@dataclass
class AcceptedTools:
    """The tools of one server as the person accepted them, in a file of opta's own."""

    config: ServerConfig
    _texts: dict[str, str] | None = field(default=None, repr=False)

    def review(self, tools: Iterable[ServerTool]) -> Review:
        """Compare. The tools of a server that was never seen are accepted as they are.

        Tools that are new are only told: a call of them asks in any case.
        """
        now = {tool.name: tool.text() for tool in tools}
        before = self._load()
        if before is None:
            self.accept(now)
            return Review()
        changed = _changed(before, now)
        added = tuple(name for name in now if name not in before)
        removed = tuple(name for name in before if name not in now)
        if added and not changed:
            self.accept(before | now)
        return Review(
            changed, added, removed, "".join(_diff(name, before[name], now[name])
                                             for name in changed)
        )  # fmt: skip

    def changed(self, tools: Iterable[ServerTool]) -> tuple[str, ...]:
        """Return the names of tools that are not as they were accepted; accepts none."""
        return _changed(self._load() or {}, {tool.name: tool.text() for tool in tools})

    def accept(self, texts: Mapping[str, str]) -> None:
        """Accept these tools, given as texts by name. Raises StorageError."""
        self._texts = dict(texts)
        data = json.dumps({"server": self.config.name, "tools": self._texts})
        storage.write_private(self._path(), data.encode())

    def accept_all(self, tools: Iterable[ServerTool]) -> None:
        """Accept tools as they are now. Raises StorageError."""
        self.accept((self._load() or {}) | {tool.name: tool.text() for tool in tools})

    def _load(self) -> dict[str, str] | None:
        if self._texts is None:
            data = storage.read_private(self._path())
            try:
                self._texts = None if data is None else dict(json.loads(data)["tools"])
            except (ValueError, KeyError, TypeError):
                # A damaged record accepts nothing that it cannot show.
                self._texts = {}
        return self._texts

    def _path(self) -> Path:
        return storage.state_dir() / "mcp" / "tools" / f"{self.config.identity[:32]}.json"


class ToolReviews:
    """Compares what servers offer with what was accepted, and tells the person once of it."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._accepted: dict[str, AcceptedTools] = {}
        self._reviews: dict[str, Review] = {}

    def of(self, server: str) -> Review:
        """Return the last review of a server."""
        return self._reviews.get(server, Review())

    def look_at(self, config: ServerConfig, tools: Sequence[ServerTool]) -> Review:
        """Review the tools of a server as they are now."""
        before = self.of(config.name)
        try:
            review = self._accepted_of(config).review(tools)
        except StorageError as error:
            review = Review()
            self._tell(f"MCP server {config.name}: its tools cannot be remembered: {error}")
        self._reviews[config.name] = review
        if review.changed and before.changed != review.changed:
            what = "its tool" if len(review.changed) == 1 else "its tools"
            self._tell(
                f"MCP server {config.name} has changed {what} {', '.join(review.changed)}: not "
                f"used until you accept that (/mcp {config.name} shows it)"
            )
        if review.added and before.added != review.added:
            self._tell(f"MCP server {config.name} has new tools: {', '.join(review.added)}")
        return review

    def accept(self, config: ServerConfig, tools: Sequence[ServerTool]) -> None:
        """Accept the tools of a server as they are now. Raises StorageError."""
        self._accepted_of(config).accept_all(tools)

    def forget(self, server: str) -> None:
        """A server is not configured any more, or otherwise."""
        self._reviews.pop(server, None)
        self._accepted.pop(server, None)

    def _accepted_of(self, config: ServerConfig) -> AcceptedTools:
        return self._accepted.setdefault(config.name, AcceptedTools(config))


def _changed(before: Mapping[str, str], now: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(name for name in now if name in before and before[name] != now[name])


def _diff(name: str, before: str, now: str) -> str:
    lines = difflib.unified_diff(
        before.splitlines(), now.splitlines(), f"{name} (accepted)", f"{name} (now)", lineterm=""
    )
    return "".join(f"{line}\n" for line in lines)
