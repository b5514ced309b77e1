"""What can be set about a model beside its name, address and key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from tools.record import record


@record
class ModelOptions:
    """Settings of a model client.

    `max_output_tokens` None leaves the limit to the server. `body` holds further keys of the
    request (`temperature`, `reasoning_effort`, …), `headers` further headers (Azure's `api-key`).
    `server` overrides what is assumed about the server: see `ServerTraits`. The timeouts are in
    seconds; `idle_timeout_s` bounds the silence between two reads.
    """

    max_output_tokens: int | None = None
    body: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    server: Mapping[str, Any] = field(default_factory=dict)
    connect_timeout_s: float = 10.0
    idle_timeout_s: float = 300.0
