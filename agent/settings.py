"""What the person, the machine's owner and the project set, put together.

Layers, the nearer wins: defaults, `/etc/opta/config.yml` (managed), `~/.config/opta/config.yml`
(user, then its entry for this project), `.mimir/config.yml` and `.opta/config.yml` of a trusted
project, environment, flags. Permission rules add up instead: the strictest of all layers counts
(R8). What the managed file names under `enforce` nobody overrides. A project can only narrow (R26).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.settings_files import (
    Layer,
    SettingsError,
    Value,
    managed_file,
    read_own,
    read_project,
    user_file,
)
from agent.settings_hooks import FLAGS, Said, collect_hooks
from agent.settings_keys import KEYS, checked, from_environment, from_override
from agent.settings_values import Settings, TeamSettings
from tools.confinement import IsolationSettings, Sandboxing
from tools.hook_settings import HookSettings
from tools.permissions.mode import Mode
from tools.permissions.rules import RuleError, Verdict

if TYPE_CHECKING:
    from tools.permissions.trust import TrustReport

_MANAGED_RANK = 1
"""The rank of the managed file: layers are counted from it."""

_DISABLE_LOCAL = "enforcement.disableLocalTools"


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
    managed, user, mine, theirs = (Layer(p) for p in ("managed", "user", "user", "project"))
    read_own(managed, managed_file(), root, None)
    read_own(user, user_file(), root, mine)
    if trusted is not None:
        read_project(theirs, trusted)
    overrides = _overrides(flags.get("config") or ())
    own_flags = {name: value for name, value in flags.items() if name != "config"}
    layers = [managed, user, mine, theirs, _environment(environ), overrides, _flags(own_flags)]
    values = _merge(layers)
    key = _api_key(values, environ)
    if key.value or "api_key" in values:
        values["api_key"] = key
    return _settings(values, layers, root)


def _environment(environ: Mapping[str, str]) -> Layer:
    layer = Layer("environment")
    for key in KEYS.values():
        name = next((name for name in key.env if environ.get(name)), None)
        if name is None:
            continue
        try:
            layer.set(key, from_environment(key, environ[name]), f"environment {name}")
        except ValueError as error:
            raise SettingsError(f"environment {name}: {error}") from None
    return layer


def _flags(flags: Mapping[str, Any]) -> Layer:
    layer = Layer(FLAGS)
    for name, value in flags.items():
        if value in (None, False, [], ()):
            continue
        key = KEYS[name]
        try:
            layer.set(key, checked(key, value), f"flag {key.flag}")
        except (ValueError, RuleError) as error:
            raise SettingsError(f"flag {key.flag}: {error}") from None
    return layer


def _overrides(texts: Iterable[str]) -> Layer:
    layer = Layer(FLAGS)
    for text in texts:
        try:
            key, value = from_override(text)
            layer.set(key, value, f"flag --config {key.name}")
        except (ValueError, RuleError) as error:
            raise SettingsError(f"flag --config {text}: {error}") from None
    return layer


def _merge(layers: Iterable[Layer]) -> dict[str, Value]:
    found: dict[str, Value] = {}
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
                found[name] = Value(value.value, value.source, rank)
    return found


def _enforcer(name: str, found: Mapping[str, Value]) -> str:
    """Say where the machine's owner keeps anyone from setting `name`, or nothing (E152)."""
    enforce = found.get("enforce")
    if enforce is not None and name in enforce.value:
        return enforce.source
    alone = found.get("teams.enabled" if name.startswith("teams.") else _DISABLE_LOCAL)
    bound = name.startswith(("teams.", "enforcement."))
    return alone.source if bound and alone and alone.rank == _MANAGED_RANK else ""


def _raises(name: str, value: Value, found: Mapping[str, Value]) -> bool:
    """Tell whether a limit is higher than the one that stands (R26)."""
    limit = name in KEYS and KEYS[name].limit and name in found
    return bool(limit and value.value > found[name].value)


def _api_key(values: Mapping[str, Value], environ: Mapping[str, str]) -> Value:
    """Choose the key: one from a file is not sent to an address that came from nearer (R26).

    A variable named on purpose wins over a key in a file that is not nearer.
    """
    named, written, address = map(values.get, ("api_key_env", "api_key", "base_url"))
    name = named.value if named else KEYS["api_key_env"].default
    variable = Value(environ.get(name, ""), f"environment {name}")
    if written is None:
        return variable
    on_purpose = named and named.rank >= written.rank and variable.value
    elsewhere = address and address.rank > written.rank
    return variable if on_purpose or elsewhere else written


def _paths(texts: Iterable[str]) -> tuple[Path, ...]:
    return tuple(Path(text).expanduser() for text in texts)


def _hooks(values: Mapping[str, Value], layers: Sequence[Layer], root: Path) -> HookSettings:
    found = [
        (name, Said(layer.place, value.value, value.source))
        for layer in layers
        for name, value in layer.values.items()
    ]
    plain = {name: value.value for name, value in values.items()}
    return collect_hooks(found, plain, root)


def _value_of(values: Mapping[str, Value], name: str) -> Any:
    return values[name].value if name in values else KEYS[name].default


def _team(values: Mapping[str, Value]) -> TeamSettings:
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


def _settings(values: Mapping[str, Value], layers: Sequence[Layer], root: Path) -> Settings:
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
        api_key=get("api_key"),
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
            code_image=get("code_image"),
        ),
        switches=switches,
        undo=get("undo"),
        bell_s=get("bell"),
        title=get("title"),
        hooks=_hooks(values, layers, root),
        hook_timeout_s=get("hook_timeout"),
        show_token_costs=get("tools.showTokenCosts"),
        disable_local_tools=get(_DISABLE_LOCAL),
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
        values=values,
        layers=layers,
    )
