"""Reads one settings file: which keys count there, and where each value stands."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.settings_keys import KEYS, Key, Kind, checked, nearest_key
from tools import storage
from tools.permissions.rules import Rule, RuleError, Verdict, parse_rule, parse_tag_rule
from tools.permissions.worktree import main_worktree
from tools.record import record

if TYPE_CHECKING:
    from tools.permissions.trust import TrustReport
    from tools.yamltext import Document

_RULE_KEYS = {
    "permissions.deny": Verdict.DENY,
    "permissions.ask": Verdict.ASK,
    "permissions.allow": Verdict.ALLOW,
}
_TAG_KEYS = {"auto_deny": Verdict.DENY, "auto_approve": Verdict.ALLOW}


class SettingsError(Exception):
    """A setting cannot be used: exit code 2. The message names file, line, column and key."""


@record
class Value:
    """What a place says of a setting: `source` names it for people, `rank` counts the layers."""

    value: Any
    source: str
    rank: int = 0


class Layer:
    """What one place said, before the layers are put on top of each other."""

    def __init__(self, place: str) -> None:
        self.place = place
        self.values: dict[str, Value] = {}
        self.rules: list[Rule] = []
        self.warnings: list[str] = []

    def set(self, key: Key, value: Any, source: str) -> None:
        """Take a checked value; rules are parsed. Raises RuleError."""
        if key.name in _RULE_KEYS:
            self.rules += [parse_rule(_RULE_KEYS[key.name], text, source) for text in value]
        elif key.name in _TAG_KEYS:
            self.rules += [parse_tag_rule(_TAG_KEYS[key.name], text, source) for text in value]
        else:
            self.values[key.name] = Value(value, source)


class _FileReader:
    """Reads one settings file into a layer; every error and warning names its place."""

    def __init__(self, layer: Layer, document: Document, shown: str, root: Path) -> None:
        self.layer = layer
        self.document = document
        self.shown = shown
        self.root = root

    def read(self, mine: Layer | None) -> None:
        """Read the whole file; its entry for this project goes to `mine`."""
        data = self.document.data
        if data is None:
            return
        self._need_mapping(data, ())
        self._read_keys({k: v for k, v in data.items() if k != "projects"}, ())
        if "projects" in data:
            if mine is None:
                self._ignore(("projects",), "only the user's own file has entries for projects")
            else:
                self._read_projects(data["projects"], mine)

    def read_tools_only(self) -> None:
        """Read the `tools:` block alone: the file belongs to another program (X18)."""
        data = self.document.data
        if isinstance(data, dict) and data.get("tools") is not None:
            self._read_tools(data["tools"], ("tools",))

    def _read_projects(self, projects: Any, mine: Layer) -> None:
        self._need_mapping(projects, ("projects",))
        outer, self.layer = self.layer, mine
        for path, data in projects.items():
            if data is not None and is_entry_for(path, self.root):
                self._need_mapping(data, ("projects", path))
                self._read_keys(data, ("projects", path))
        self.layer = outer

    def _read_keys(self, data: dict[str, Any], base: tuple[str, ...]) -> None:
        for name, value in data.items():
            path = (*base, name)
            if value is None:
                continue
            if name == "tools":
                self._read_tools(value, path)
            elif name in ("permissions", "mcp", "enforcement", "teams"):
                self._read_group(name, value, path)
            else:
                self._read_key(name, value, path)

    def _read_group(self, name: str, value: Any, path: tuple[str, ...]) -> None:
        self._need_mapping(value, path)
        for sub, inner in value.items():
            full = f"{name}.{sub}"
            is_group = any(key.startswith(f"{full}.") for key in KEYS)
            read = self._read_group if is_group and inner is not None else self._read_key
            read(full, inner, (*path, sub))

    def _read_key(self, name: str, value: Any, path: tuple[str, ...]) -> None:
        key = KEYS.get(name)
        if key is None or not key.file or name.startswith("tools."):
            self._unknown(name, path)
        elif key.managed_only and self.layer.place != "managed":
            self._ignore(path, f"only the managed file {storage.global_dir()} may set it")
        elif not key.project and self.layer.place == "project":
            self._ignore(path, f"a project may not set it; use {_shown(user_file())}")
        elif value is not None:
            self._set(key, value, path)

    def _read_tools(self, data: Any, base: tuple[str, ...]) -> None:
        self._need_mapping(data, base)
        for name, value in data.items():
            path = (*base, name)
            if isinstance(value, dict):
                self._read_switch(name, value, path)
            elif value is not None and f"tools.{name}" in KEYS:
                self._set(KEYS[f"tools.{name}"], value, path)
            elif isinstance(value, bool):
                on = "true" if value else "false"
                self._warn(path, f"a tool is switched with `{name}: {{enabled: {on}}}`; ignored")
            else:
                self._unknown(f"tools.{name}", path)

    def _read_switch(self, name: str, value: dict[str, Any], path: tuple[str, ...]) -> None:
        for sub, on in value.items():
            if sub != "enabled":
                self._warn((*path, sub), "unknown setting of a tool; known: enabled")
            elif not isinstance(on, bool):
                raise self._error((*path, sub), "must be true or false")
            else:
                self.layer.values[f"tools.{name}"] = Value(on, self._source((*path, sub)))

    def _set(self, key: Key, value: Any, path: tuple[str | int, ...]) -> None:
        try:
            value = checked(key, value)
        except ValueError as error:
            raise self._error(path, str(error)) from None
        if key.kind is Kind.NAMES and (unknown := [name for name in value if not _is_known(name)]):
            raise self._error(path, f"{unknown[0]!r} is not the name of a setting")
        if key.kind is not Kind.RULES:
            self.layer.set(key, value, self._source(path))
            return
        for index, rule in enumerate(value):
            try:
                self.layer.set(key, (rule,), self._source((*path, index)))
            except RuleError as error:
                raise self._error((*path, index), str(error)) from None

    def _need_mapping(self, data: Any, path: tuple[str, ...]) -> None:
        if not isinstance(data, dict):
            raise self._error(path, "must hold `name: value` lines")

    def _source(self, path: tuple[str | int, ...]) -> str:
        return f"{self.shown}:{self.document.position(path)[0]}"

    def _error(self, path: tuple[str | int, ...], message: str) -> SettingsError:
        return SettingsError(str(self.document.error(path, message)))

    def _warn(self, path: tuple[str, ...], message: str) -> None:
        self.layer.warnings.append(f"{self._source(path)}: {'.'.join(path)}: {message}")

    def _ignore(self, path: tuple[str, ...], why: str) -> None:
        self._warn(path, f"ignored: {why}")

    def _unknown(self, name: str, path: tuple[str, ...]) -> None:
        near = nearest_key(name, [key.name for key in KEYS.values() if key.file])
        self._warn(path, "unknown setting" + (f"; did you mean {near}?" if near else ""))


def is_entry_for(path: str, root: Path) -> bool:
    """Tell whether an entry of `projects` is for `root`, or for the repository it belongs to."""
    return Path(path).expanduser() in (root, main_worktree(root))


def _is_known(name: str) -> bool:
    return name in KEYS or name.startswith("tools.")


def user_file() -> Path:
    """Return the person's own settings file, which need not exist."""
    return storage.config_dir() / "config.yml"


def managed_file() -> Path:
    """Return the settings file of the machine's owner, which need not exist."""
    return storage.global_dir() / "config.yml"


def read_own(layer: Layer, path: Path, root: Path, mine: Layer | None) -> None:
    """Read the settings file of the person or of the machine; `mine` takes entries for `root`.

    Raises SettingsError.
    """
    data = _own_bytes(path)
    if data is not None:
        _FileReader(layer, _parsed(data, path), _shown(path), root).read(mine)
        if "api_key" in layer.values and os.name == "posix" and path.stat().st_mode & 0o077:
            shown = _shown(path)
            layer.warnings.append(
                f"{shown} holds api_key and others can read it: chmod 600 {shown}"
            )


def check_file(data: bytes, path: Path, root: Path, *, project: bool) -> list[str]:
    """Read `data` as the settings file at `path`; return what is wrong with it but does no harm.

    Raises SettingsError for what would stop opta.
    """
    layer, mine = Layer("project" if project else "user"), Layer("user")
    reader = _FileReader(layer, _parsed(data, path), _shown(path), root)
    reader.read(None if project else mine)
    return layer.warnings + mine.warnings


def _own_bytes(path: Path) -> bytes | None:
    # Links are followed here: people keep their own configuration in a linked directory.
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise SettingsError(f"{path} is not a regular file. Move it away.")
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise SettingsError(
            f"Cannot read {path}: {(error.strerror or str(error)).lower()}."
        ) from None


def read_project(layer: Layer, trusted: TrustReport) -> None:
    """Read what a report holds of a project's settings files. Raises SettingsError."""
    files = {file.path: file for file in trusted.settings}
    for relative, tools_only in ((".mimir/config.yml", True), (".opta/config.yml", False)):
        file = files.get(relative)
        if file is None:
            continue
        try:
            if file.problem:
                raise SettingsError(file.problem)
            document = _parsed(file.data, trusted.root / relative)
            reader = _FileReader(layer, document, relative, trusted.root)
            reader.read_tools_only() if tools_only else reader.read(None)
        except SettingsError as error:
            if not tools_only:
                raise
            layer.warnings.append(f"{error} (ignored)")


def _parsed(data: bytes, path: Path) -> Document:
    from tools.yamltext import DocumentError, parse

    try:
        return parse(data, path)
    except DocumentError as error:
        raise SettingsError(str(error)) from None


def _shown(path: Path) -> str:
    try:
        return f"~/{path.relative_to(Path.home())}"
    except (ValueError, RuntimeError):
        return str(path)
