"""What one model server wants or refuses: guessed from its name, learned from its answers.

Servers of the same API differ in small things, and none of them can be asked. `ServerTraits` holds
the differences as data. They start from what is known about the host and the model, can be set by
`ModelOptions.server`, and change when a server refuses a request and says why.
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any
from urllib.parse import urlsplit

OUTPUT_LIMIT_KEYS = ("max_tokens", "max_completion_tokens")
OPTIONAL_KEYS = ("stream_options", "include", "store")
"""What opta adds to a request on its own and can do without."""

_MISTRAL = re.compile(r"mistral|ministral|magistral|devstral|codestral|pixtral", re.IGNORECASE)
_REFUSED = re.compile(
    r"un(supported|known|recogni[sz]ed|expected)|not (supported|permitted|allowed)|extra|instead",
    re.IGNORECASE,
)


@dataclass
class ServerTraits:
    """The differences between servers.

    `nine_character_ids`: call ids must be nine letters or digits (Mistral).
    `assistant_after_tool`: a user message may not follow a tool message (Mistral).
    `reasoning_back`: reasoning is sent back to the model that wrote it.
    `reasoning_required`: a message with calls must carry reasoning, be it a space (DeepSeek).
    `output_limit_key`: how the output limit is called; "" if the server takes none.
    `dropped`: keys of the request that the server refused.
    """

    nine_character_ids: bool = False
    assistant_after_tool: bool = False
    reasoning_back: bool = True
    reasoning_required: bool = False
    output_limit_key: str = "max_tokens"
    dropped: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, base_url: str, model: str, overrides: Mapping[str, Any]) -> ServerTraits:
        """Return what is known about `model` at `base_url`, changed by `overrides`.

        Raises ValueError naming an override that does not exist.
        """
        host = urlsplit(base_url).hostname or ""
        mistral = host.endswith("mistral.ai") or bool(_MISTRAL.search(model))
        traits = cls(
            nine_character_ids=mistral,
            assistant_after_tool=mistral,
            reasoning_back=not host.endswith(("mistral.ai", "groq.com", "cerebras.ai")),
            output_limit_key=OUTPUT_LIMIT_KEYS[host.endswith((".openai.com", ".azure.com"))],
        )
        known = {f.name for f in fields(cls)}
        for name, value in overrides.items():
            if name not in known:
                raise ValueError(f"unknown key {name!r}; known: {', '.join(sorted(known))}")
            setattr(traits, name, set(value) if name == "dropped" else value)
        return traits

    def learn(self, complaint: str, sent: Container[str]) -> bool:
        """Change what `complaint` (a refused request's error text) speaks of.

        `sent` holds the keys of the request. Returns False where there is nothing to change, so
        that sending again would give the same answer.
        """
        before = replace(self, dropped=set(self.dropped))
        self._learn_keys(complaint, sent)
        if re.search(r"tool.?call.?id|length of 9", complaint, re.IGNORECASE):
            self.nine_character_ids = True
        if re.search(
            r"role.{0,12}user.{0,20}after.{0,12}role.{0,12}tool", complaint, re.IGNORECASE
        ):
            self.assistant_after_tool = True
        if re.search(r"reasoning_(content|details)|extra_content", complaint):
            missing = bool(re.search(r"missing|must be (passed|provided)|required", complaint))
            self.reasoning_required |= missing
            self.reasoning_back = missing
        return self != before

    def _learn_keys(self, complaint: str, sent: Container[str]) -> None:
        for key in OPTIONAL_KEYS:
            if key in sent and re.search(rf"\b{key}\b", complaint):
                self.dropped.add(key)
        if "include" in sent and re.search(r"encrypted.content", complaint, re.IGNORECASE):
            self.dropped.add("include")
        key = self.output_limit_key
        if key in sent and re.search(rf"\b{key}\b", complaint) and _REFUSED.search(complaint):
            self.dropped.add(key)
            left = [k for k in OUTPUT_LIMIT_KEYS if k not in self.dropped]
            self.output_limit_key = left[0] if left else ""
