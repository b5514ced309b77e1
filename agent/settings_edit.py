"""What a person changes in the settings: switches, rules, MCP servers, any setting by its name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any

from agent.settings_files import SettingsError, check_file, is_entry_for, user_file
from agent.settings_write import (
    PROJECT_FILE,
    SettingsWriteError,
    change_project_file,
    change_user_file,
    edit_mcp_json,
    edit_user_file,
    edited,
    read_user_file,
    telling,
)
from tools import storage
from tools.permissions.rules import Rule, Verdict
from tools.permissions.trust import SWITCHING_FILES, inspect, read_project_file
from tools.permissions.trust_store import TrustStore
from tools.permissions.worktree import main_worktree


def set_tool_switch(project: Path, name: str, on: bool, *, project_trusted: bool) -> Path:
    """Store that a tool is on or off for `project`; return the file that was written (X69).

    That is `.opta/config.yml` of a trusted project, whose trust then covers the person's own
    change, and nothing else that changed. In a directory that was never trusted it is the entry
    for this directory in the user's own file: a file of opta's making should not raise a question
    of trust at the next start, where no file has raised it before. Raises SettingsWriteError.
    """
    root = project.resolve()
    with telling():
        before = inspect(root)
        reads = TrustStore(storage.state_dir()).trust_of(before).reads
        # What its own files say is nearer than what the user's file says for this directory.
        present = any(file.path in SWITCHING_FILES for file in before.settings)
        if not (reads or (project_trusted and present)):
            return edit_user_file(lambda data: _switch(_entry(data, root), name, on))
        return change_project_file(root, partial(edited, edit=lambda data: _switch(data, name, on)))


def set_value(path: Sequence[str], value: Any, project: Path | None) -> Path:
    """Store the setting that stands at `path`, or remove it with None; return the file.

    That is the user's own file, or with `project` its `.opta/config.yml`, whose trust covers the
    change. Nothing is written that opta would refuse to read, or ignore. Raises SettingsWriteError,
    and KeyError where there is nothing to remove.
    """
    root = (project or Path.cwd()).resolve()

    def edit(data: Any) -> None:
        if value is None:
            _remove(data, path)
            return
        *outer, last = path
        for name in outer:
            data = _below(data, name)
        data[last] = value

    def change(data: bytes, file: Path) -> bytes:
        new = edited(data, file, edit)
        for warning in check_file(new, file, root, project=project is not None):
            if f": {'.'.join(path)}: " in warning:
                raise SettingsError(f"Not written: {warning}")
        return new

    with telling():
        return change_user_file(change) if project is None else change_project_file(root, change)


def read_settings_text(project: Path | None) -> tuple[Path, bytes]:
    """Return the path and the content of a settings file, empty where there is none.

    It is the user's own, or that of `project`. Raises SettingsWriteError.
    """
    with telling():
        if project is None:
            return user_file(), read_user_file()
        root = project.resolve()
        return root / PROJECT_FILE, read_project_file(root, PROJECT_FILE) or b""


def replace_settings_text(old: bytes, new: bytes, project: Path | None) -> list[str]:
    """Write `new` over the settings file that held `old`; return what is wrong but does no harm.

    Raises SettingsError for what would stop opta, with its place, and SettingsWriteError where the
    file has changed meanwhile: nothing is written then.
    """

    def replaced(found: bytes, path: Path) -> bytes:
        if found != old:
            raise SettingsWriteError(f"{path} was changed by something else meanwhile.")
        return new

    path, _ = read_settings_text(project)
    root = (project or Path.cwd()).resolve()
    warnings = check_file(new, path, root, project=project is not None)
    with telling():
        if project is None:
            change_user_file(replaced)
        else:
            change_project_file(root, replaced)
    return warnings


def add_permission_rule(project: Path, rule: Rule, *, everywhere: bool = False) -> Path:
    """Store a rule in the user's own file; return that file.

    For `project` alone, which counts for every worktree of its repository, or for `everywhere`.
    Paths in the project are stored relative to it. Raises SettingsWriteError.
    """
    root = project.resolve()
    text = _relative(rule.stored, root)

    def add(data: Any) -> None:
        place = data if everywhere else _entry(data, main_worktree(root))
        rules = _below(_below(place, "permissions"), rule.verdict.value, [])
        if text not in rules:
            rules.append(text)

    with telling():
        return edit_user_file(add)


def remove_permission_rule(project: Path, text: str, verdict: str | None = None) -> list[str]:
    """Remove a rule from the user's own file, also the project's entry; return where it stood.

    With a `verdict` (allow, ask, deny) only the rule of that kind. Raises SettingsWriteError.
    """
    kinds = [kind.value for kind in Verdict if verdict in (None, kind.value)]
    root = project.resolve()
    found: list[str] = []

    def remove(data: Any) -> None:
        found.clear()
        entries = data.get("projects") or {}
        places = {"everywhere": data}
        places |= {str(path): entries[path] for path in entries if is_entry_for(path, root)}
        for where, place in places.items():
            permissions = (place or {}).get("permissions") or {}
            for kind in kinds:
                rules = permissions.get(kind) or []
                if text in rules:
                    rules.remove(text)
                    found.append(f"{kind} in {where}")

    with telling():
        edit_user_file(remove)
    return found


def _relative(text: str, root: Path) -> str:
    """Write a path of the project relative to it, so that a worktree's files are meant too."""
    for subject in ("read_file(", "write_file("):
        if text.startswith(f"{subject}{root}/"):
            return subject + text[len(f"{subject}{root}/") :]
    return text


def set_mcp_server(
    name: str, entry: Mapping[str, Any] | None, project: Path | None
) -> tuple[Path, Any]:
    """Store an MCP server, or remove it with `entry` None; return the file that was written and
    what stood there before, None where nothing did.

    That is the user's own file, or with `project` the `.mcp.json` there. Raises
    SettingsWriteError, and KeyError where there is nothing to remove.
    """
    before: Any = None

    def edit(data: Any) -> None:
        nonlocal before
        servers = _below(data, "mcpServers")
        before = deepcopy(servers.get(name))
        if entry is None:
            del servers[name]
        else:
            servers[name] = dict(entry)

    with telling():
        path = edit_user_file(edit) if project is None else edit_mcp_json(project, edit)
    return path, before


def _entry(data: Any, root: Path) -> Any:
    return _below(_below(data, "projects"), str(root))


def _switch(data: Any, name: str, on: bool) -> None:
    _below(_below(data, "tools"), name)["enabled"] = on


def _below(data: Any, key: str, new: Any = None) -> Any:
    if data.get(key) is None:
        data[key] = {} if new is None else new
    return data[key]


def _remove(data: Any, path: Sequence[str]) -> None:
    """Remove what stands at `path`, and the mappings that hold nothing then. Raises KeyError."""
    name, *rest = path
    if rest:
        _remove(data[name] or {}, rest)
    if not rest or not data[name]:
        del data[name]
