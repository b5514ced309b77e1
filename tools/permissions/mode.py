"""The permission modes, apart from the gate so that reading settings does not load the gate."""

from __future__ import annotations

from enum import StrEnum


class Mode(StrEnum):
    """What is allowed without a question when no rule speaks. Shift-Tab cycles through them."""

    ASK = "ask"
    ACCEPT_EDITS = "accept-edits"
    AUTO_SANDBOX = "auto-sandbox"
    PLAN = "plan"
