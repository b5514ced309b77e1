"""The arguments of a call, as opta and Codex hand them to the program of a tool."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any


def arguments() -> dict[str, Any]:
    """Return them; opta puts those that are too long for a variable into a file."""
    text = os.environ.get("CODEX_TOOL_ARGS_JSON")
    if text is None and "OPTA_TOOL_ARGS_FILE" in os.environ:
        text = Path(os.environ["OPTA_TOOL_ARGS_FILE"]).read_text(encoding="utf-8")
    if text is None:
        raise SystemExit("CODEX_TOOL_ARGS_JSON is not set: run this as a tool, see README.md")
    given: dict[str, Any] = json.loads(text)
    return given
