"""Reads the keys of one mapping in a file of MCP servers, and says where what is wrong stands."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from tools.record import record

VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_VARIABLE = re.compile(rf"\$\{{({VARIABLE_NAME.pattern})(?::-([^}}]*))?\}}")


@record
class Variables:
    """The environment that `${NAME}` is looked up in.

    `refused` tells which names a file may not use: a project does not get a provider's key (R26).
    """

    values: Mapping[str, str]
    refused: Callable[[str], bool] = lambda name: False


class FieldProblem(Exception):
    """What stands at `path` cannot be used."""

    def __init__(self, path: tuple[str | int, ...], message: str, hint: str = "") -> None:
        super().__init__(message)
        self.path, self.hint = path, hint


class Fields:
    """The values of one mapping, by the names of its keys in `known`.

    `spellings` holds other names of a key, `passed_over` those that are nobody's mistake. A method
    raises FieldProblem where a value is not of its kind; unknown keys are in `warnings`.
    """

    def __init__(
        self,
        path: tuple[str | int, ...],
        entry: Mapping[str, Any],
        variables: Variables,
        known: tuple[str, ...],
        spellings: Mapping[str, str],
        passed_over: tuple[str, ...] = (),
    ) -> None:
        self.path = path
        self._entry = entry
        self._variables = variables
        self._written = {spellings.get(key, key): key for key in entry}
        self.warnings = [
            self.wrong(key, "unknown key; ignored", f"known: {', '.join(known)}")
            for key in self._written
            if key not in known and key not in passed_over
        ]

    def __contains__(self, key: str) -> bool:
        return key in self._written

    def path_of(self, key: str) -> tuple[str | int, ...]:
        """Return where a key stands, as it is written there."""
        return (*self.path, self._written[key])

    def wrong(self, key: str, message: str, hint: str = "") -> FieldProblem:
        """Return what to raise, or to warn of, about a key."""
        return FieldProblem(self.path_of(key), message, hint)

    def value(self, key: str) -> Any:
        """Return what is written, of whatever kind."""
        return self._entry[self._written[key]]

    def text(self, key: str) -> str:
        """Return a text that is not empty, with its variables."""
        value = self.value(key)
        if not isinstance(value, str) or not value.strip():
            raise self.wrong(key, "must be a text that is not empty")
        return self._expanded(value, self.path_of(key))

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a list of texts; empty without the key."""
        if key not in self:
            return ()
        value = self.value(key)
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self.wrong(key, "must be a list of texts")
        base = self.path_of(key)
        return tuple(self._expanded(item, (*base, n)) for n, item in enumerate(value))

    def mapping(self, key: str) -> dict[str, str]:
        """Return names with texts; empty without the key."""
        if key not in self:
            return {}
        value = self.value(key)
        base = self.path_of(key)
        if not isinstance(value, dict):
            raise self.wrong(key, "must be a mapping of names to texts")
        read: dict[str, str] = {}
        for name, item in value.items():
            if isinstance(item, bool) or not isinstance(item, str | int | float):
                raise FieldProblem((*base, name), "must be a text")
            read[name] = self._expanded(str(item), (*base, name))
        return read

    def milliseconds(self, key: str, default: int) -> int:
        """Return a time in milliseconds."""
        if key not in self:
            return default
        value = self.value(key)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise self.wrong(key, "must be a whole number of milliseconds above 0")
        return value

    def switch(self, key: str, default: bool) -> bool:
        """Return true or false."""
        if key not in self:
            return default
        value = self.value(key)
        if not isinstance(value, bool):
            raise self.wrong(key, "must be true or false")
        return value

    def _expanded(self, text: str, path: tuple[str | int, ...]) -> str:
        def value(found: re.Match[str]) -> str:
            name, default = found[1], found[2]
            if self._variables.refused(name):
                raise FieldProblem(path, f"a project's server does not get the variable {name}")
            if name in self._variables.values:
                return self._variables.values[name]
            if default is None:
                raise FieldProblem(
                    path, f"the variable {name} is not set", f"set it, or write ${{{name}:-…}}"
                )
            return default

        return _VARIABLE.sub(value, text)
