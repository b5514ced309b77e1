"""What tools cost in tokens, in the form the model's API counts them (design, section 8).

OpenAI does not count the JSON of functions but a text of its own made from it; the recipe is
published in its cookbook, "How to count tokens with tiktoken", section 7. Other servers paste the
JSON of each tool on a line of its own into the prompt. Either way the rows and the list add up to
the total exactly.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeAlias

from tools import storage
from tools.definition import JsonObject, digest_of
from tools.record import record

Count: TypeAlias = Callable[[str, str], int]
"""Returns the tokens of a text in an encoding (`o200k` or `cl100k`)."""

LIST_TOKENS = 12
MAX_REMEMBERED = 10_000
"""How many counts are remembered: those of thousands of deferred tools too."""


class Form(StrEnum):
    """How the tools of a request are counted."""

    OPENAI_O200K = "openai-o200k"
    OPENAI_CL100K = "openai-cl100k"
    JSON_LINES = "json-lines"

    @property
    def encoding(self) -> str:
        """The encoding the counts are made in."""
        return "cl100k" if self is Form.OPENAI_CL100K else "o200k"


_OPENAI = re.compile(r"(ft:)?(gpt|chatgpt|codex|o[134])(-|$)")
_CL100K = re.compile(r"(ft:)?gpt-(4|3\.5|35)(-|$)")


def form_of(model: str) -> Form:
    """Return how `model` counts tools: by its name, which may have a prefix such as `openai/`."""
    provider, _, name = model.lower().rpartition("/")
    if provider.rpartition("/")[2] not in ("", "openai", "azure") or not _OPENAI.match(name):
        return Form.JSON_LINES
    return Form.OPENAI_CL100K if _CL100K.match(name) else Form.OPENAI_O200K


@record
class ToolsCost:
    """What a list of tools costs: each by its wire name, the list itself, and all together."""

    per_tool: Mapping[str, int]
    list_tokens: int

    @property
    def total(self) -> int:
        """The tokens of the tools part of the request."""
        return sum(self.per_tool.values()) + self.list_tokens


def tools_cost(wire: Iterable[JsonObject], form: Form, count: Count) -> ToolsCost:
    """Return what the schemas cost that are sent with a request."""
    per_tool = {tool["function"]["name"]: tool_tokens(tool, form, count) for tool in wire}
    return ToolsCost(per_tool, list_tokens(per_tool, form))


def list_tokens(names: Collection[str], form: Form) -> int:
    """Return what the list of these tools itself costs: by the recipe 12, once."""
    return LIST_TOKENS if names and form is not Form.JSON_LINES else 0


def tool_tokens(tool: JsonObject, form: Form, count: Count) -> int:
    """Return what one function schema adds to a request.

    A line of JSON counts the same alone as among others, because no token reaches over its end.
    """
    if form is Form.JSON_LINES:
        return count(f"{json.dumps(tool, ensure_ascii=False)}\n", form.encoding)
    return _Recipe(form, count).function(tool["function"])


@record
class _Recipe:
    form: Form
    count: Count

    def function(self, function: Mapping[str, Any]) -> int:
        start = 10 if self.form is Form.OPENAI_CL100K else 7
        description = _sentence(function.get("description"))
        total = start + self._tokens(f"{function['name']}:{description}")
        parameters = function.get("parameters")
        properties = parameters.get("properties") if isinstance(parameters, Mapping) else None
        if isinstance(properties, Mapping) and properties:
            total += 3 + sum(self._property(name, p) for name, p in properties.items())
        return total

    def _property(self, name: str, schema: object) -> int:
        if not isinstance(schema, Mapping):
            return 3 + self._tokens(f"{name}:{json.dumps(schema)}:")
        total = 3
        enum = schema.get("enum")
        if isinstance(enum, list) and enum:
            total += -3 + sum(3 + self._tokens(_plain(value)) for value in enum)
        kind = schema.get("type", "")
        total += self._tokens(f"{name}:{_plain(kind)}:{_sentence(schema.get('description'))}")
        return total + self._nested(schema)

    def _nested(self, schema: Mapping[str, Any]) -> int:
        """Count the text of what the recipe says nothing about: objects, lists, alternatives."""
        inner = {key: schema[key] for key in _NESTING if key in schema}
        return self._tokens(json.dumps(inner, ensure_ascii=False)) if inner else 0

    def _tokens(self, text: str) -> int:
        return self.count(text, self.form.encoding)


_NESTING = ("properties", "items", "prefixItems", "additionalProperties", "anyOf", "oneOf", "allOf")


def _sentence(text: object) -> str:
    return text.removesuffix(".") if isinstance(text, str) else ""


def _plain(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


class CostMeter:
    """Measures tools and remembers the counts in a file, so that a warm one loads no vocabulary.

    A count is found by what it was made of (the schema and the form), so it never goes stale.
    """

    def __init__(self, count: Count, path: Path | None = None) -> None:
        """Make a meter; `path` defaults to a file in opta's state directory."""
        self._count = count
        self._path = path
        self._known: dict[str, int] | None = None

    def measure(self, wire: Iterable[JsonObject], form: Form) -> ToolsCost:
        """Return what these schemas cost; see `tools_cost`."""
        known = self._load()
        before = len(known)
        per_tool: dict[str, int] = {}
        for tool in wire:
            key = digest_of([form, tool])
            if key not in known:
                known[key] = tool_tokens(tool, form, self._count)
            per_tool[tool["function"]["name"]] = known[key]
        if len(known) > before:
            self._save(known)
        return ToolsCost(per_tool, list_tokens(per_tool, form))

    def _load(self) -> dict[str, int]:
        if self._known is None:
            # A cache that cannot be read costs time, nothing else.
            with suppress(storage.StorageError, ValueError, TypeError):
                found = json.loads(storage.read_private(self._file()) or b"{}")
                self._known = {str(key): int(value) for key, value in dict(found).items()}
            self._known = self._known or {}
        return self._known

    def _save(self, known: dict[str, int]) -> None:
        newest = dict(list(known.items())[-MAX_REMEMBERED:])
        with suppress(storage.StorageError):
            storage.write_private(self._file(), json.dumps(newest).encode())

    def _file(self) -> Path:
        return self._path or storage.state_dir() / "tool-costs.json"
