"""Reads the tools of a Codex `config.toml`: tables `[custom_tools.<name>]`.

Their arguments arrive as JSON in `CODEX_TOOL_ARGS_JSON`; nothing is substituted. Whatever else the
file holds is Codex's own and not looked at.
"""

from __future__ import annotations

import math
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from tools.actions import Argv, Command, PlanAction, PlanEnvironment, Shell, Step
from tools.definition import Limits, Origin, Risk, Security, ToolDefinition
from tools.formats import CODEX
from tools.formats.fields import Key, Kind, read_fields, table
from tools.formats.findings import Findings, few, kind_of
from tools.formats.json_schema import NO_PARAMETERS, check_parameters
from tools.formats.problems import ToolFileError, ToolProblem
from tools.formats.team_keys import take_team_keys
from tools.formats.toml_positions import key_positions
from tools.yamltext import Document, DocumentError, KeyPath, decode

DEFAULT_TIMEOUT_MS = 60_000
MAX_DEPTH = 64
MAX_KEY_PARTS = 500

KEYS = table(
    Key("command", Kind.COMMAND_LINE, 'what to run: ["program", "argument"], or a shell command',
        required=True),
    Key("description", Kind.TEXT, "what it does and when to use it"),
    Key("parameters", Kind.VALUES, "JSON Schema of its arguments"),
    Key("cwd", Kind.TEXT, "where it runs, within the workspace"),
    Key("env", Kind.VARIABLES, "environment variables"),
    Key("timeout", Kind.DEADLINE, "milliseconds a call may take, 60000 unless given"),
    Key("timeout_ms", Kind.DEADLINE, "the same as timeout"),
    Key("with_escalated_permissions", Kind.FLAG, "ask before every call"),
    Key("parallel", Kind.FLAG, "calls of one message may run at the same time"),
)  # fmt: skip

HOOKS = ("tool_hook_command", "stop_hook_command")
"""Programs that are told of calls and of the end of a turn, at the root or in a profile."""

INJECTED = ("CODEX_TOOL_ARGS_JSON", "CODEX_TOOL_NAME", "CODEX_TOOL_CALL_ID")
"""What a tool's program is told of the call. Its `env` cannot set them (X31)."""

_ESCALATED = Security(privilege="elevated", justification="it asks for escalated permissions")

_LONG_KEY = re.compile(
    r"""(?<![A-Za-z0-9_-])(?:(?:[A-Za-z0-9_-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+)"""
    f"{{{MAX_KEY_PARTS}}}"
)


def read(
    data: bytes, origin: Origin, *, profile: str = ""
) -> tuple[list[ToolDefinition], list[ToolProblem]]:
    """Return the tools of a `config.toml`, sorted by name, and what is wrong with it.

    `profile` names a table `[profiles.<name>]` whose `custom_tools` are added and win; empty
    means the one the file's own `profile` key names. A file without that profile adds nothing.
    A tool that is wrong is left out, with its problems, and the others are returned. Raises
    ToolFileError when the text is not TOML.
    """
    document = _parse(data, origin.path or Path("-"))
    problems: list[ToolProblem] = []
    tools: list[ToolDefinition] = []
    for name, (where, table_) in sorted(_tables(document, profile, problems).items()):
        findings = Findings(document)
        with suppress(ToolFileError):  # too many errors in this table: `findings` holds them
            tools += _read_tool(findings, name, table_, where, origin)
        problems += [
            replace(problem, tool=name) for problem in (*findings.errors, *findings.warnings)
        ]
    return tools, few(problems, document.path)


def table_of(data: bytes, path: Path, name: str, *, profile: str) -> Mapping[str, Any] | None:
    """Return what the file says of a tool, None when it has no such table. Raises ToolFileError.

    What JSON has no word for is text.
    """
    _, found = _tables(_parse(data, path), profile, []).get(name, ((), None))
    return found if isinstance(found, dict) else None


def hook_commands(
    data: bytes, path: Path, *, profile: str
) -> tuple[dict[str, tuple[tuple[str, ...], int]], list[ToolProblem]]:
    """Return the hooks of a `config.toml` with their lines, and what is wrong with them (B7).

    Those of the profile win over those at the root; see `read` for which profile that is. Raises
    ToolFileError when the text is not TOML.
    """
    document = _parse(data, path)
    findings = Findings(document)
    found: dict[str, tuple[tuple[str, ...], int]] = {}
    for where, table_ in _levels(document.data, profile):
        for name in HOOKS:
            if name not in table_:
                continue
            value, place = table_[name], (*where, name)
            if isinstance(value, list) and value and all(isinstance(v, str) for v in value):
                found[name] = (tuple(value), document.position(place)[0])
            else:
                findings.error(
                    place, f'must be a list such as ["program", "argument"]: {kind_of(value)}'
                )
    return found, findings.errors


def _levels(
    content: Mapping[str, Any], profile: str
) -> Iterator[tuple[KeyPath, Mapping[str, Any]]]:
    """Yield the root of a file and the profile in use, with their places."""
    yield (), content
    name = profile or content.get("profile", "")
    profiles = content.get("profiles", {})
    if isinstance(name, str) and isinstance(profiles, dict) and name in profiles:
        chosen = profiles[name]
        yield ("profiles", name), chosen if isinstance(chosen, dict) else {}


def profile_names(data: bytes, path: Path) -> frozenset[str]:
    """Return the profiles of a `config.toml`, none for a text that is not TOML."""
    try:
        profiles = _parse(data, path).data.get("profiles")
    except ToolFileError:
        return frozenset()
    return frozenset(profiles) if isinstance(profiles, dict) else frozenset()


def _parse(data: bytes, path: Path) -> Document:
    try:
        text = decode(data, path)
        _check_keys(text, path)
        content = tomllib.loads(text)
    except DocumentError as error:
        problem = ToolProblem(path, error.message, error.line, error.column, error.key, error.hint)
        raise ToolFileError([problem]) from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ToolFileError([_syntax_problem(error, text, path)]) from None
    except ValueError as error:
        raise ToolFileError([ToolProblem(path, f"this is not TOML: {error}")]) from None
    return Document(path, content, key_positions(text))


def _check_keys(text: str, path: Path) -> None:
    """Refuse a key of very many parts: tomllib takes time by the square of their number."""
    long = _LONG_KEY.search(text) if text.count(".") >= MAX_KEY_PARTS else None
    if long:
        line = text.count("\n", 0, long.start()) + 1
        column = long.start() - text.rfind("\n", 0, long.start())
        raise ToolFileError(
            [ToolProblem(path, f"a key has more than {MAX_KEY_PARTS} parts", line, column)]
        )


def _syntax_problem(error: Exception, text: str, path: Path) -> ToolProblem:
    message, _, place = str(error).partition(" (at ")
    found = re.match(r"line (\d+), column (\d+)", place)
    if found:
        line, column = int(found[1]), int(found[2])
    else:
        last = text.rstrip("\n").split("\n")
        line, column = len(last), len(last[-1]) + 1
    told = f"{message[:1].lower()}{message[1:]}"
    if isinstance(error, RecursionError):
        told = "values are nested too deeply"
    return ToolProblem(path, f"this is not TOML: {told}", line, column)


def _tables(
    document: Document, profile: str, problems: list[ToolProblem]
) -> dict[str, tuple[KeyPath, Any]]:
    """Return the table of each tool by name, with its place."""
    findings = Findings(document)
    found: dict[str, tuple[KeyPath, Any]] = {}
    for where, content in _levels(document.data, profile):
        found |= _tables_below(findings, content, where)
    problems += findings.errors
    return found


def _tables_below(
    findings: Findings, content: Mapping[str, Any], where: KeyPath
) -> dict[str, tuple[KeyPath, Any]]:
    tables = content.get("custom_tools", {})
    where = (*where, "custom_tools")
    if not isinstance(tables, dict):
        findings.error(where, f"must be tables [custom_tools.<name>]: found {kind_of(tables)}")
        return {}
    found: dict[str, tuple[KeyPath, Any]] = {}
    for name, data in tables.items():
        try:
            found[name] = ((*where, name), _plain(data))
        except RecursionError:
            findings.error((*where, name), f"is nested deeper than {MAX_DEPTH} levels")
    return found


def _plain(value: Any, depth: int = 0) -> Any:
    """Write what JSON has no word for (dates, infinite numbers) as text."""
    if depth > MAX_DEPTH:
        raise RecursionError
    if isinstance(value, dict):
        return {key: _plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item, depth + 1) for item in value]
    if isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value)):
        return value
    return str(value)


def _read_tool(
    findings: Findings, name: str, data: object, where: KeyPath, origin: Origin
) -> Iterator[ToolDefinition]:
    if isinstance(data, dict):
        data, origin = take_team_keys(findings, data, where, origin)
    given = read_fields(findings, data, KEYS, where)
    command = None
    if "command" in given:
        command = _command(findings, given["command"], (*where, "command"))
    parameters = _parameters(findings, given, where)
    _check(findings, name, given, where)
    if findings.errors or command is None:
        return
    escalated = given.get("with_escalated_permissions", False)
    times = [given[key] for key in ("timeout", "timeout_ms") if key in given]
    yield ToolDefinition(
        name=name,
        description=given.get("description") or f"Run {_first_word(command)}",
        parameters=parameters,
        action=PlanAction(
            (Step(name, command),),
            environment=PlanEnvironment(
                variables=_variables(findings, given, where),
                working_directory=given.get("cwd", ""),
                placeholders=False,
                confined=True,
            ),
        ),
        origin=replace(origin, format=CODEX, line=findings.document.position(where)[0]),
        risk=Risk.CRITICAL if escalated else Risk.HIGH,
        parallel=given.get("parallel", False),
        limits=Limits(min(times, default=DEFAULT_TIMEOUT_MS)),
        security=_ESCALATED if escalated else Security(),
    )


def _command(findings: Findings, value: object, where: KeyPath) -> Command | None:
    if isinstance(value, str) and value.strip() and "\0" not in value:
        return Shell("sh", value)
    words = value if isinstance(value, list) else []
    texts = [word for word in words if isinstance(word, str) and "\0" not in word]
    if texts == words and "".join(texts[:1]).strip():
        return Argv(tuple(texts), placeholders=False)
    findings.error(where, "must name a program", 'such as ["python3", "tool.py"]')
    return None


def _first_word(command: Command) -> str:
    if isinstance(command, Argv):
        return command.words[0]
    return command.text.split()[0] if isinstance(command, Shell) else ""


def _parameters(findings: Findings, given: Mapping[str, Any], where: KeyPath) -> Mapping[str, Any]:
    schema = given.get("parameters", NO_PARAMETERS)
    if isinstance(schema, dict):
        schema = {"type": "object", "properties": {}} | schema
    check_parameters(findings, schema, (*where, "parameters"))
    return schema if isinstance(schema, dict) else NO_PARAMETERS


def _check(findings: Findings, name: str, given: Mapping[str, Any], where: KeyPath) -> None:
    if not name.strip() or not name.isprintable():
        findings.error(where, f"{name!r} cannot be the name of a tool")
    cwd = Path(os.path.normpath(given.get("cwd", ".")))
    if cwd.parts[:1] == ("..",):
        findings.error((*where, "cwd"), f"{str(cwd)!r} is outside of the workspace")


def _variables(findings: Findings, given: Mapping[str, Any], where: KeyPath) -> Mapping[str, str]:
    variables: Mapping[str, str] = given.get("env", {})
    for name in INJECTED:
        if name in variables:
            findings.warn((*where, "env", name), "is set by opta for every call, ignored")
    return {name: text for name, text in variables.items() if name not in INJECTED}
