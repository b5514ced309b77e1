"""Makes text for the model from what an MCP server sends: bounded, sanitized, marked as data."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable, Mapping
from typing import Any

from prompts import load
from tools import storage
from tools.definition import Outcome, ToolResult
from tools.engine.masking import Masker
from tools.engine.output import bounded_text, visible
from tools.formats.json_schema import schema_errors, value_problem
from tools.record import record

_END = "</mcp_result"
_SUFFIXES = {
    "image/png": ".png", "image/jpeg": ".jpg", "image/gif": ".gif", "image/webp": ".webp",
    "image/svg+xml": ".svg", "audio/wav": ".wav", "audio/mpeg": ".mp3", "audio/ogg": ".ogg",
    "application/pdf": ".pdf",
}  # fmt: skip


@record
class ServerResult:
    """What a call of a server's tool gave: pieces of content as the SDK has them."""

    content: tuple[Any, ...]
    structured: Any = None
    is_error: bool = False
    mismatch: str = ""


def result_of(server: str, result: ServerResult, masker: Masker) -> ToolResult:
    """Return the result of a call as the model gets it (E142), without secrets (R39)."""
    pieces = [masker.text(described(piece)) for piece in result.content]
    if result.mismatch:
        # What breaks the server's own promise is not passed on as if it kept it.
        lie = (
            f"The result does not fit the tool's own output schema: {masker.text(result.mismatch)}."
        )
        return _marked(server, "\n".join([lie, *pieces]), Outcome.ERROR)
    if result.structured is not None and not any(map(_is_text, result.content)):
        structured = json.dumps(result.structured, ensure_ascii=False, default=str)
        pieces.append(masker.text(structured))
    text = "\n".join(piece for piece in pieces if piece) or "(no content)"
    if result.is_error:
        return _marked(server, f"The tool reported an error:\n{text}", Outcome.ERROR)
    return _marked(server, text, Outcome.OK)


def _is_text(piece: Any) -> bool:
    return bool(piece.type == "text")


def mismatch(schema: Mapping[str, Any] | None, structured: Any) -> str:
    """Say in one line how a structured result breaks the promised schema; empty when it does not.

    The check fetches nothing, and its patterns take bounded time.
    """
    if schema is None:
        return ""
    if structured is None:
        return "it has no structured content"
    for _, message in schema_errors(dict(schema)):
        return f"that schema {visible(message)}"
    return " ".join(visible(value_problem(dict(schema), structured)).split())


def _marked(server: str, text: str, outcome: Outcome) -> ToolResult:
    bounded = bounded_text(text)
    return ToolResult(marked(server, bounded.text), outcome, full_output=bounded.full_output)


def marked(server: str, text: str) -> str:
    """Put text from a server between marks that say what it is (R30); it cannot end them itself."""
    inside = text.replace(_END, "<\\/mcp_result")
    return load("mcp_result").replace("{server}", server).replace("{text}", inside)


def described(piece: Any) -> str:
    """Return one piece of content as text; images and other data are described and stored."""
    match piece.type:
        case "text":
            return str(piece.text)
        case "image" | "audio":
            return _stored(piece.type, piece.data, piece.mime_type)
        case "resource_link":
            about = f": {piece.description}" if piece.description else ""
            return f"[resource {piece.uri} ({piece.name}){about}]"
        case "resource":
            return resource_text(piece.resource)
        case kind:
            return f"[content of the kind {kind!r}, which opta cannot show]"


def resource_text(resource: Any) -> str:
    """Return the contents of a resource as text."""
    kind = resource.mime_type or ""
    text = getattr(resource, "text", None)
    if text is not None:
        return f"[resource {resource.uri}{f' ({kind})' if kind else ''}]\n{text}"
    return f"[resource {resource.uri}] {_stored('data', resource.blob, kind)}"


def resources_text(resources: Iterable[Any]) -> str:
    """Return what reading one resource gave, which may be several."""
    return "\n".join(map(resource_text, resources)) or "(empty)"


def _stored(kind: str, encoded: str, mime_type: str) -> str:
    try:
        data = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        return f"[{kind} {mime_type}: not valid base64]"
    named = f"{kind} {mime_type}".strip()
    try:
        path = storage.write_scratch(data, _SUFFIXES.get(mime_type, ".bin"))
    except storage.StorageError as error:
        return f"[{named}, {len(data):,} bytes, could not be stored: {error}]"
    return f"[{named}, {len(data):,} bytes, stored in {path}]"
