"""What tools are written in: one module per format, told apart by their keys (X1)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from tools.definition import Origin, ToolDefinition
from tools.formats.findings import Findings, kind_of
from tools.formats.problems import ToolFileError, ToolProblem
from tools.formats.team_keys import take_team_keys
from tools.yamltext import Document, DocumentError, parse

CODEX = "codex"
"""The format of tools that stand in a `config.toml`, as their origin names it."""

_CYCOD_KEYS = frozenset(
    {"bash", "cmd", "pwsh", "run", "script", "shell", "commands", "steps", "base-tool"}
)
_MIMIR_KEYS = frozenset({"schema", "code", "runtime"})


def read(data: bytes, origin: Origin) -> tuple[list[ToolDefinition], list[ToolProblem]]:
    """Return the tools of a JSON or YAML file, and warnings about it.

    `origin.path` must be set; its extension says whether the text is JSON or YAML, the keys say
    which format it is, and `origin.format` of the tools is set to that. Raises ToolFileError with
    everything that is wrong with the file.
    """
    document, mended = _parse(data, origin.path or Path("-"))
    content = document.data
    findings = Findings(document)
    if not isinstance(content, dict):
        findings.error((), f"one file defines one tool, an object: found {kind_of(content)}")
    elif "custom_tools" in content:
        findings.error(("custom_tools",), "Codex tools are read from config.toml only")
    findings.raise_errors()
    content, origin = take_team_keys(findings, content, (), origin)
    findings.raise_errors()
    if content is not document.data:
        document = replace(document, data=content)
    tools, warnings = _read_shape(document, content, origin)
    return tools, [*mended, *findings.warnings, *warnings]


def _parse(data: bytes, path: Path) -> tuple[Document, list[ToolProblem]]:
    """Parse strictly, and where that fails once more with unquoted commands quoted (X33)."""
    try:
        return parse(data, path, allow_repeated=True), []
    except DocumentError as error:
        from tools.formats.yaml_repair import parse_mended

        mended = parse_mended(data, path)
        if mended is not None:
            return mended
        problem = ToolProblem(path, error.message, error.line, error.column, error.key, error.hint)
        raise ToolFileError([problem]) from None


def _read_shape(
    document: Document, content: dict[str, Any], origin: Origin
) -> tuple[list[ToolDefinition], list[ToolProblem]]:
    # Readers are imported on use: most people have tools of one or two formats.
    if "command" in content or _has_json_schema(content):
        from tools.formats import opta_json

        return opta_json.read(document, origin)
    if not content.keys() & _CYCOD_KEYS and content.keys() & _MIMIR_KEYS:
        from tools.formats import mimir

        return mimir.read(document, origin)
    from tools.formats import cycod

    return cycod.read(document, origin)


def _has_json_schema(content: dict[str, Any]) -> bool:
    parameters = content.get("parameters")
    return (
        isinstance(parameters, dict)
        and isinstance(parameters.get("type"), str)
        and not content.keys() & (_CYCOD_KEYS | _MIMIR_KEYS)
    )
