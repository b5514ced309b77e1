"""Every setting with where it was said, for people and programs; no secret is in it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agent.redaction import REDACTED, Redactor, without_logins
from agent.settings_files import Layer
from agent.settings_hooks import HOOK_KEYS
from agent.settings_keys import KEYS, Kind, find_key
from agent.settings_values import DEFAULT, Settings
from tools.hook_settings import HookSettings
from tools.record import record
from tools.secret_values import address_secrets, argument_secrets, names_secret

_NOTHING: tuple[Any, ...] = (None, "", (), {})
_VARIABLE = re.compile(r"env$", re.IGNORECASE)
_ALL_SECRET = ("headers", "env")


@record
class Entry:
    """One setting, or one item of those that add up: rules and hooks.

    `source` is a place (`FILE:LINE`), a variable, a flag or the default; `beaten` is what other
    places say that does not count.
    """

    key: str
    value: Any
    source: str
    beaten: tuple[Entry, ...] = ()

    @property
    def is_set(self) -> bool:
        """Tell whether it holds anything."""
        return self.value not in _NOTHING

    @property
    def text(self) -> str:
        """The value in a line for people: text as it is, anything else as JSON."""
        if isinstance(self.value, str):
            return self.value
        return json.dumps(self.value, ensure_ascii=False)


def entries(settings: Settings, hooks: HookSettings) -> list[Entry]:
    """Return all settings in the order of their table; those without a value too."""
    found = list(_switches(settings))
    for key in KEYS.values():
        if key.kind is Kind.RULES:
            found += [entry for layer in settings.layers for entry in _rules(layer, key.name)]
        elif key.name in HOOK_KEYS:
            found += _hooks(hooks, key.name)
        elif key.name in settings.values:
            found.append(_chosen(settings, key.name))
    said = {entry.key for entry in found}
    unsaid = [key for key in KEYS.values() if key.file and key.name not in said]
    found += [Entry(key.name, key.default, DEFAULT) for key in unsaid]
    return sorted(found, key=_order)


def said_by(layer: Layer) -> list[Entry]:
    """Return what one place says, whether it counts or not."""
    found = [_entry(name, value.value, value.source) for name, value in layer.values.items()]
    found += [Entry(f"permissions.{r.verdict}", r.stored, r.origin) for r in layer.rules]
    return sorted(found, key=_order)


def select(found: Sequence[Entry], names: Sequence[str]) -> list[Entry]:
    """Return the entries that `names` mean, all for none: a setting, a group of them (`tools`), or
    what is below one that holds a mapping (`request.temperature`).

    Raises ValueError for a name that is none of those.
    """
    if not names:
        return list(found)
    return [entry for name in names for entry in _named(found, name)]


def _named(found: Sequence[Entry], name: str) -> list[Entry]:
    meant = [entry for entry in found if f"{entry.key}.".startswith(f"{name}.")]
    if meant:
        return meant
    key, path = find_key(name)
    holder = next((entry for entry in found if entry.key == key.name), Entry(name, None, DEFAULT))
    value = holder.value
    for part in path[len(key.name.split(".")) :]:
        value = value.get(part) if isinstance(value, Mapping) else None
    return [Entry(name, value, holder.source)]


def place_of(source: str) -> tuple[str | None, int | None]:
    """Return the file and the line that a source names, if it names them."""
    file, colon, line = source.rpartition(":")
    return (file, int(line)) if colon and line.isdecimal() else (None, None)


def _chosen(settings: Settings, name: str) -> Entry:
    value = settings.values[name]
    others = [layer.values[name] for layer in settings.layers if name in layer.values]
    beaten = [_entry(name, o.value, o.source) for o in others if o.source != value.source]
    return _entry(name, value.value, value.source, tuple(beaten))


def _entry(name: str, value: Any, source: str, beaten: tuple[Entry, ...] = ()) -> Entry:
    shown = name if name in KEYS else f"{name}.enabled"
    return Entry(shown, without_secrets(name, value), source, beaten)


def _switches(settings: Settings) -> Iterator[Entry]:
    for name in settings.values:
        if name not in KEYS:
            yield _chosen(settings, name)


def _rules(layer: Layer, name: str) -> Iterator[Entry]:
    for rule in layer.rules:
        if name == f"permissions.{rule.verdict}":
            yield Entry(name, rule.stored, rule.origin)


def _hooks(hooks: HookSettings, name: str) -> Iterator[Entry]:
    field = name.removesuffix("_command").removesuffix("_hooks").removesuffix("_hook")
    for hook in getattr(hooks, field):
        yield Entry(name, hook.line, hook.source)


def _order(entry: Entry) -> tuple[int, str]:
    names = list(KEYS)
    return names.index(entry.key) if entry.key in KEYS else len(names), entry.key


def without_secrets(name: str, value: Any) -> Any:
    """Return the value of a setting with keys, passwords and values of headers replaced (R39).

    What takes a value from elsewhere (`${NAME}`, the name of a variable) is none.
    """
    if isinstance(value, Mapping):
        return {
            key: _hidden(inner) if name in _ALL_SECRET else without_secrets(key, inner)
            for key, inner in value.items()
        }
    if isinstance(value, list | tuple):
        hide = Redactor(argument_secrets([inner for inner in value if isinstance(inner, str)]))
        return hide.tree([without_secrets(name, inner) for inner in value])
    if not isinstance(value, str):
        return value
    if names_secret(name) and not _VARIABLE.search(name):
        return _hidden(value)
    hide = Redactor([*address_secrets(value), *argument_secrets([value])])
    return without_logins(hide(value))


def _hidden(value: Any) -> Any:
    return REDACTED if isinstance(value, str) and value and "${" not in value else value
