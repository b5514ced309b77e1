"""Finds tools by words: over names, tags and descriptions, the best first.

Plain substring tests, so that the first search among thousands of tools needs no index: a word
counts more in a name than in a tag or a description, and more the fewer tools have it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tools.actions import McpAction
from tools.definition import ToolDefinition

EMPTY_WORDS = frozenset([
    "a", "an", "and", "are", "be", "by", "can", "do", "for", "from", "have", "how", "i", "in", "is",
    "it", "me", "my", "need", "of", "on", "or", "please", "that", "the", "this", "to", "tool",
    "tools", "use", "want", "what", "which", "with", "you",
])  # fmt: skip
"""Words of a question that say nothing of what is looked for."""

WHOLE_WORD, IN_NAME, IN_TAGS, IN_TEXT = 8.0, 5.0, 4.0, 1.0
"""What a word counts by where it is found."""

CLOSE = 0.5
"""A tool with less than this part of the best one's points is no match."""

_WORD = re.compile(r"[^\W_]+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class ToolSearch:
    """Searches tools that stay the same."""

    def __init__(self, tools: Sequence[ToolDefinition]) -> None:
        self._tools = tools
        self._texts = [_text(tool) for tool in tools]

    def find(self, query: str) -> list[ToolDefinition]:
        """Return the tools that match, the best first.

        Few, since each tool that is loaded costs tokens from then on: where the query is names of
        tools only these, and where the best tool has all its words only such as have them too.
        """
        named = self._named(query)
        if named and len(named) == len(query.split()):
            return named
        points: dict[int, float] = {}
        words = _words(query)
        for word in words:
            values = {
                position: value
                for position, text in enumerate(self._texts)
                if (value := _value(word, text))
            }
            rarity = math.log(1 + len(self._texts) / (1 + len(values)))
            for position, value in values.items():
                points[position] = points.get(position, 0.0) + rarity * value
        least = max(points.values(), default=0.0) * CLOSE
        close = [position for position, value in points.items() if value >= least]
        # Ties keep the order of the tools.
        close.sort(key=lambda position: (-points[position], position))
        if close and self._has_all(close[0], words):
            close = [position for position in close if self._has_all(position, words)]
        found = (self._tools[position] for position in close)
        return list({tool.name: tool for tool in (*named, *found)}.values())

    def _has_all(self, position: int, words: Sequence[str]) -> bool:
        return all(_value(word, self._texts[position]) for word in words)

    def _named(self, query: str) -> list[ToolDefinition]:
        asked = {word.strip("\"'`,;:()") for word in query.split()}
        return [tool for tool in self._tools if tool.name in asked or tool.wire_name in asked]


def _text(tool: ToolDefinition) -> str:
    """Return what of a tool is searched, in small letters: a line each of name, tags, the rest.

    The words of the name stand between blanks.
    """
    name = tool.name if tool.name.islower() else f"{tool.name} {_CAMEL.sub(' ', tool.name)}"
    if isinstance(tool.action, McpAction):
        name = f"{name} {tool.action.server}"
    tags = " ".join(_tags(tool.metadata)) if tool.metadata else ""
    words = name.replace("_", " ").replace("-", " ").replace(".", " ")
    return f" {words} \n{tags}\n{tool.description}".lower()


def _tags(metadata: Mapping[str, Any]) -> Iterable[str]:
    for key in ("tags", "search-keywords", "category"):
        value = metadata.get(key, ())
        yield from [value] if isinstance(value, str) else map(str, value)


def _words(query: str) -> list[str]:
    """Return the words that say something, in the singular."""
    words = list(dict.fromkeys(_WORD.findall(query.lower())))
    telling = [word for word in words if word not in EMPTY_WORDS] or words
    return [word[:-1] if len(word) > 3 and word.endswith("s") else word for word in telling]


def _value(word: str, text: str) -> float:
    """Return what a word counts by where it stands in the text of a tool; 0 where it does not."""
    if word not in text:
        return 0.0
    name, tags, rest = text.split("\n", 2)
    if word in name:
        return WHOLE_WORD if f" {word} " in name else IN_NAME
    if word in tags:
        return IN_TAGS
    # Within a word of a description, a few letters mean nothing.
    return IN_TEXT if len(word) > 3 or re.search(rf"\b{word}", rest) else 0.0
