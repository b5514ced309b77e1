"""What the person, the machine's owner and the project set, put together.

Layers, the nearer wins: defaults, `/etc/opta/config.yml` (managed), `~/.config/opta/config.yml`
(user, then its entry for this project), `.mimir/config.yml` and `.opta/config.yml` of a trusted
project, environment, flags. Permission rules add up instead: the strictest of all layers counts
(R8). What the managed file names under `enforce` nobody overrides. A project can only narrow (R26).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.settings_hooks import FLAGS, Said, collect_hooks
from agent.settings_keys import (
    KEYS,
    Key,
    Kind,
    checked,
    from_environment,
    from_override,
    nearest_key,
)
from agent.settings_values import Settings, TeamSettings
from tools import storage
from tools.confinement import IsolationSettings, Sandboxing
from tools.hook_settings import HookSettings
from tools.permissions.mode import Mode
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
_MANAGED_RANK = 1
"""The rank of the managed file: layers are counted from it."""

_TAG_KEYS = {"auto_deny": Verdict.DENY, "auto_approve": Verdict.ALLOW}


class SettingsError(Exception):
    """A setting cannot be used: exit code 2. The message names file, line, column and key."""


def load_settings(
    project: Path,
    *,
    trusted: TrustReport | None,
    flags: Mapping[str, Any],
    environ: Mapping[str, str],
) -> Settings:
    """Read all layers for the work in `project`.

    `flags` maps names of settings (`model`, `permissions.allow`, `auto_approve`, …) to what the
    command line said; None and empty lists say nothing. `config` holds texts `KEY=VALUE`, which
    flags of their own beat. Of the project counts what the report holds that was `trusted`, nothing
    of it is read here. Raises SettingsError, StorageError.
    """
    root = project.resolve()
    managed = _Layer("managed")
    user = _Layer("user")
    mine = _Layer("user")
    theirs = _Layer("project")
    _read_own(managed, storage.global_dir() / "config.yml", root, None)
    _read_own(user, storage.config_dir() / "config.yml", root, mine)
    if trusted is not None:
        _read_project(theirs, trusted)
    overrides = _overrides(flags.get("config") or ())
    own_flags = {name: value for name, value in flags.items() if name != "config"}
    layers = [managed, user, mine, theirs, _environment(environ), overrides, _flags(own_flags)]
    return _settings(_merge(layers), layers, environ, root)


@record
class _Value:
    value: Any
    source: str
    rank: int = 0


class _Layer:
    """What one place said, before the layers are put on top of each other."""

    def __init__(self, place: str) -> None:
        self.place = place
        self.values: dict[str, _Value] = {}
        self.rules: list[Rule] = []
        self.warnings: list[str] = []

    def set(self, key: Key, value: Any, source: str) -> None:
        """Take a checked value; rules are parsed. Raises RuleError."""
        if key.name in _RULE_KEYS:
            self.rules += [parse_rule(_RULE_KEYS[key.name], text, source) for text in value]
        elif key.name in _TAG_KEYS:
            self.rules += [parse_tag_rule(_TAG_KEYS[key.name], text, source) for text in value]
        else:
            self.values[key.name] = _Value(value, source)


class _FileReader:
    """Reads one settings file into a layer; every error and warning names its place."""

    def __init__(self, layer: _Layer, document: Document, shown: str, root: Path) -> None:
        self.layer = layer
        self.document = document
        self.shown = shown
        self.root = root

    def read(self, mine: _Layer | None) -> None:
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

    def _read_projects(self, projects: Any, mine: _Layer) -> None:
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
            elif name in ("permissions", "mcp", "teams"):
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
            self._ignore(path, f"a project may not set it; use {_shown(_user_file())}")
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
                self.layer.values[f"tools.{name}"] = _Value(on, self._source((*path, sub)))

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


def _user_file() -> Path:
    return storage.config_dir() / "config.yml"


def _read_own(layer: _Layer, path: Path, root: Path, mine: _Layer | None) -> None:
    data = _own_bytes(path)
    if data is not None:
        _FileReader(layer, _parsed(data, path), _shown(path), root).read(mine)
        if "api_key" in layer.values and os.name == "posix" and path.stat().st_mode & 0o077:
            layer.warnings.append(
                f"{_shown(path)} holds api_key and others can read it: chmod 600 {_shown(path)}"
            )


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


def _read_project(layer: _Layer, trusted: TrustReport) -> None:
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


def _environment(environ: Mapping[str, str]) -> _Layer:
    layer = _Layer("environment")
    for key in KEYS.values():
        name = next((name for name in key.env if environ.get(name)), None)
        if name is None:
            continue
        try:
            layer.set(key, from_environment(key, environ[name]), f"environment {name}")
        except ValueError as error:
            raise SettingsError(f"environment {name}: {error}") from None
    return layer


def _flags(flags: Mapping[str, Any]) -> _Layer:
    layer = _Layer(FLAGS)
    for name, value in flags.items():
        if value in (None, False, [], ()):
            continue
        key = KEYS[name]
        try:
            layer.set(key, checked(key, value), f"flag {key.flag}")
        except (ValueError, RuleError) as error:
            raise SettingsError(f"flag {key.flag}: {error}") from None
    return layer


def _overrides(texts: Iterable[str]) -> _Layer:
    layer = _Layer(FLAGS)
    for text in texts:
        try:
            key, value = from_override(text)
            layer.set(key, value, f"flag --config {key.name}")
        except (ValueError, RuleError) as error:
            raise SettingsError(f"flag --config {text}: {error}") from None
    return layer


def _merge(layers: Iterable[_Layer]) -> dict[str, _Value]:
    found: dict[str, _Value] = {}
    for rank, layer in enumerate(layers, _MANAGED_RANK):
        for name, value in layer.values.items():
            enforcer = "" if layer.place == "managed" else _enforcer(name, found)
            if enforcer:
                said = f"{value.source}: {name} is ignored: {enforcer} enforces it"
                layer.warnings.append(said)
            elif layer.place == "project" and _raises(name, value, found):
                said = f"{value.source}: {name} is ignored: a project may not raise it"
                layer.warnings.append(f"{said} above that of {found[name].source}")
            else:
                found[name] = _Value(value.value, value.source, rank)
    return found


def _enforcer(name: str, found: Mapping[str, _Value]) -> str:
    """Say where the machine's owner keeps anyone from setting `name`, or nothing (E152)."""
    enforce, team = found.get("enforce"), found.get("teams.enabled")
    if enforce is not None and name in enforce.value:
        return enforce.source
    managed = team is not None and team.rank == _MANAGED_RANK
    return team.source if team is not None and managed and name.startswith("teams.") else ""


def _raises(name: str, value: _Value, found: Mapping[str, _Value]) -> bool:
    """Tell whether a limit is higher than the one that stands (R26)."""
    limit = name in KEYS and KEYS[name].limit and name in found
    return bool(limit and value.value > found[name].value)


def _api_key(values: dict[str, _Value], environ: Mapping[str, str]) -> str:
    """Choose the key: one from a file is not sent to an address that came from nearer (R26).

    A variable named on purpose wins over a key in a file that is not nearer.
    """
    named = values.get("api_key_env")
    variable = environ.get(named.value if named else KEYS["api_key_env"].default, "")
    written = values.get("api_key")
    if written is None or (named and named.rank >= written.rank and variable):
        return variable
    address = values.get("base_url")
    return written.value if address is None or address.rank <= written.rank else variable


def _paths(texts: Iterable[str]) -> tuple[Path, ...]:
    return tuple(Path(text).expanduser() for text in texts)


def _hooks(values: dict[str, _Value], layers: list[_Layer], root: Path) -> HookSettings:
    found = [
        (name, Said(layer.place, value.value, value.source))
        for layer in layers
        for name, value in layer.values.items()
    ]
    plain = {name: value.value for name, value in values.items()}
    return collect_hooks(found, plain, root)


def _value_of(values: dict[str, _Value], name: str) -> Any:
    return values[name].value if name in values else KEYS[name].default


def _team(values: dict[str, _Value]) -> TeamSettings:
    get = partial(_value_of, values)
    return TeamSettings(
        enabled=get("teams.enabled"),
        shared_tools=get("teams.features.sharedTools"),
        url=get("teams.url"),
        org=get("teams.org"),
        directory=get("teams.directory"),
        revision=get("teams.revision"),
        token_env=get("teams.tokenEnv"),
        refresh_s=get("teams.refresh"),
        timeout_s=get("teams.timeout"),
        place=values["teams.enabled"].source if "teams.enabled" in values else "",
    )


def _settings(
    values: dict[str, _Value], layers: list[_Layer], environ: Mapping[str, str], root: Path
) -> Settings:
    get = partial(_value_of, values)
    switches = {
        name.removeprefix("tools."): found.value
        for name, found in values.items()
        if name.startswith("tools.") and name not in KEYS
    }
    return Settings(
        model=get("model"),
        base_url=get("base_url").rstrip("/"),
        api=get("api"),
        api_key=_api_key(values, environ),
        api_key_env=get("api_key_env"),
        request=get("request"),
        headers=get("headers"),
        server=get("server"),
        idle_timeout_s=get("idle_timeout"),
        context_window=get("context_window"),
        max_output_tokens=get("max_output_tokens"),
        max_turns=get("max_turns"),
        max_tokens_total=get("max_tokens_total"),
        price_input=get("price_input"),
        price_output=get("price_output"),
        price_per_1000=get("price_per_1000"),
        mode=Mode(get("mode")),
        skip_permissions=get("skip_permissions"),
        default_verdict=Verdict(get("permissions.default")),
        rules=tuple(rule for layer in layers for rule in layer.rules),
        isolation=IsolationSettings(
            sandbox=Sandboxing(get("sandbox")),
            backend=get("sandbox_backend"),
            network=get("sandbox_network"),
            write=_paths(get("sandbox_write")),
            read=_paths(get("sandbox_read")),
            engine=get("container_engine"),
            image=get("container_image"),
        ),
        switches=switches,
        undo=get("undo"),
        bell_s=get("bell"),
        title=get("title"),
        hooks=_hooks(values, layers, root),
        hook_timeout_s=get("hook_timeout"),
        show_token_costs=get("tools.showTokenCosts"),
        load_custom_tools=get("tools.autoLoadCustomTools"),
        max_execution_ms=get("tools.maxExecutionTime"),
        max_custom_tools=get("tools.maxCustomTools"),
        tool_budget=get("tools.tokenBudget"),
        mcp_enabled=get("mcp.enabled"),
        max_mcp_tools=get("mcp.maxTools"),
        teams=_team(values),
        config_home=get("config_home"),
        config_file=get("config_file"),
        profile=get("profile"),
        warnings=tuple(line for layer in layers for line in layer.warnings),
        sources={name: found.source for name, found in values.items()},
    )
