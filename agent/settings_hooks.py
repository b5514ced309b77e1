"""Puts the hooks of all settings together: those of files add up, those of flags replace them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tools import storage
from tools.hook_settings import HOOK_TIMEOUT_S, HookCommand, HookSettings
from tools.record import record

FLAGS = "flags"
"""The place of what the command line says."""

HOOK_KEYS = ("pre_tool_hooks", "tool_hook_command", "stop_hook_command")


@record
class Said:
    """What one place says of a setting; `source` is the place for people."""

    place: str
    value: Any
    source: str


_HOOK_FORM = "{command: [PROGRAM, ARGUMENT…], tools: […], timeout: SECONDS, required: true}"


def first_mistake(entries: Iterable[object]) -> str:
    """Return the place and what is wrong of the first entry that is no hook, else nothing."""
    found = ((index, _mistake(entry)) for index, entry in enumerate(entries))
    return next((f"[{index}]{told}" for index, told in found if told), "")


def _mistake(entry: object) -> str:
    if not isinstance(entry, dict):
        return f" is no hook: write {_HOOK_FORM}"
    for key, (fits, wanted) in _HOOK_KEYS.items():
        if key in entry and not fits(entry[key]):
            return f".{key} must be {wanted}"
    if "command" not in entry:
        return " has no command"
    unknown = next((key for key in entry if key not in _HOOK_KEYS), None)
    return "" if unknown is None else f".{unknown} is unknown: a hook has {', '.join(_HOOK_KEYS)}"


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _is_command(value: object) -> bool:
    return isinstance(value, list) and _are_texts(value) and bool(value and value[0])


def _is_time(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0


_HOOK_KEYS: Mapping[str, tuple[Callable[[object], bool], str]] = {
    "command": (_is_command, "a list of a program and its arguments"),
    "tools": (_are_texts, "a list of names of tools"),
    "timeout": (_is_time, "a number of seconds above 0"),
    "required": (lambda value: isinstance(value, bool), "true or false"),
}


def collect_hooks(
    said: Iterable[tuple[str, Said]], values: Mapping[str, Any], root: Path
) -> HookSettings:
    """Return the hooks.

    `said` are settings with what places say of them, the farthest place first, and `values` what
    counts of the others. A project can add hooks but take none away (R26). Raises StorageError
    without a home.
    """
    said, enforced = tuple(said), values.get("enforce", ())
    timeout_s = values.get("hook_timeout", HOOK_TIMEOUT_S)
    found: list[tuple[HookCommand, ...]] = []
    for name in HOOK_KEYS:
        own = [one for key, one in said if key == name]
        if name in enforced:
            own = [one for one in own if one.place == "managed"]
        found.append(
            tuple(hook for one in _counting(own) for hook in _hooks(name, one, root, timeout_s))
        )
    return HookSettings(*found)


def _counting(said: Sequence[Said]) -> list[Said]:
    by_flag = [one for one in said if one.place == FLAGS]
    return by_flag or list(said)


def _hooks(name: str, said: Said, root: Path, timeout_s: float) -> Iterator[HookCommand]:
    entries = said.value if name == "pre_tool_hooks" else [{"command": said.value}]
    for entry in entries:
        if not entry["command"]:
            continue
        yield HookCommand(
            tuple(entry["command"]),
            _directory(said.place, root),
            said.source,
            project=said.place == "project",
            tools=tuple(entry.get("tools", ())),
            timeout_ms=round(entry.get("timeout", timeout_s) * 1000),
            required=entry.get("required", False),
        )


def _directory(place: str, root: Path) -> Path:
    """Return where a hook runs: where the file is that names it."""
    match place:
        case "managed":
            return storage.global_dir()
        case "user":
            return storage.config_dir()
        case _:
            return root
