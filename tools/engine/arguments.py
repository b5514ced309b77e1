"""Hands the arguments of a call to a program as environment variables (X4, X5).

What is too long for a variable is left out there and handed over in a file with all of them.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tools.definition import ResolvedCall, ToolError
from tools.formats.opta_json import ARGUMENT_PREFIX, argument_variable
from tools.record import record

MAX_VARIABLE_BYTES = 100_000
"""A longer value is not put into the environment: Linux refuses 128 KiB and more (X5)."""

MAX_VARIABLES_BYTES = 500_000
"""All values together; systems limit arguments and environment to 1 or 2 MiB."""

ARGUMENTS, ARGUMENTS_FILE = "OPTA_TOOL_ARGS", "OPTA_TOOL_ARGS_FILE"
CODEX_ARGUMENTS, CODEX_NAME, CODEX_CALL_ID = (
    "CODEX_TOOL_ARGS_JSON", "CODEX_TOOL_NAME", "CODEX_TOOL_CALL_ID",
)  # fmt: skip
_ABOUT_THE_CALL = frozenset({ARGUMENTS, ARGUMENTS_FILE, CODEX_ARGUMENTS, CODEX_NAME, CODEX_CALL_ID})


@record
class CallVariables:
    """The arguments of a call as environment variables.

    `arguments_json` is the whole object; `overflow` says that it, or a value, is too long for a
    variable and must be handed over in a file. `left_out` names the arguments without a variable.
    """

    values: Mapping[str, str]
    arguments_json: str
    left_out: tuple[str, ...] = ()

    @property
    def overflow(self) -> bool:
        """True when the arguments must go into a file."""
        return bool(self.left_out) or len(self.arguments_json.encode()) > MAX_VARIABLE_BYTES

    def note(self) -> str:
        """Return the variables as a person reads them beside the command."""
        parts = [f"{name}={shlex.quote(value)}" for name, value in self.values.items()]
        if self.overflow:
            size = len(self.arguments_json.encode())
            parts.append(f"{ARGUMENTS_FILE}=(file of {size:,} bytes)")
        return " ".join(parts)

    def added_to(
        self, outer: Mapping[str, str], call: ResolvedCall, file: Path | None
    ) -> dict[str, str]:
        """Return `outer` with all variables of both families, which win over it (X31).

        `file` holds what is too long for a variable.
        """
        env = {name: value for name, value in outer.items() if name not in _ABOUT_THE_CALL}
        env |= {**self.values, CODEX_NAME: call.tool.name, CODEX_CALL_ID: call.id}
        if file is not None:
            env[ARGUMENTS_FILE] = str(file)
        if len(self.arguments_json.encode()) <= MAX_VARIABLE_BYTES:
            env |= dict.fromkeys((ARGUMENTS, CODEX_ARGUMENTS), self.arguments_json)
        return env


def call_variables(arguments: Mapping[str, Any]) -> CallVariables:
    """Turn arguments into variables (X5): null is left out, lists and objects are compact JSON.

    Raises ToolError for a NUL character and for two arguments that would share a variable.
    """
    owners: dict[str, str] = {}
    texts: dict[str, str] = {}
    for name, value in arguments.items():
        if value is None:
            continue
        text = argument_text(value)
        if "\0" in text:
            raise ToolError(
                f"The argument {name} holds a NUL character, which no program can be given. "
                "Nothing was done. Leave it out."
            )
        variable = argument_variable(name)
        if variable in owners:
            raise ToolError(
                f"The arguments {owners[variable]} and {name} would both be {variable}. "
                "Nothing was done. Send only one of them."
            )
        owners[variable], texts[variable] = name, text
    kept, room = dict[str, str](), MAX_VARIABLES_BYTES
    for variable, text in sorted(texts.items(), key=lambda item: len(item[1])):
        size = len(text.encode())
        if size <= min(MAX_VARIABLE_BYTES, room):
            kept[variable] = text
            room -= size
    left_out = tuple(owners[variable] for variable in texts if variable not in kept)
    ordered = {variable: text for variable, text in texts.items() if variable in kept}
    return CallVariables(ordered, _compact(arguments), left_out)


def without_outer_arguments(env: Mapping[str, str]) -> dict[str, str]:
    """Drop the arguments of an outer call, which must not pass for those of this one (A23)."""
    outer = (ARGUMENT_PREFIX, ARGUMENTS, "CODEX_TOOL_")
    return {name: value for name, value in env.items() if not name.startswith(outer)}


def argument_text(value: Any) -> str:
    """Return a value as a program reads it: texts as they are, all else as compact JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    return _compact(value)


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
