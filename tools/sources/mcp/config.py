"""What a file says of MCP servers: one `ServerConfig` per entry of `mcpServers`.

The keys are those that other programs use for the same files, so that one `.mcp.json` serves all:
`command`, `args`, `env`, `cwd` for a program; `url`, `headers` for an address; `type`, `timeout`,
`startupTimeout` (both in ms), `enabled` or `disabled`, and which tools are used; `sandbox` is ours.
`${NAME}` and `${NAME:-default}` in a value stand for a variable of the environment.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tools.definition import Scope, digest_of
from tools.formats.problems import ToolProblem
from tools.record import record
from tools.yamltext import Document, json_path

START_MS = 30_000
CALL_MS = 120_000
KEY = "mcpServers"

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_TYPES = {
    "stdio": "stdio",
    "local": "stdio",
    "http": "http",
    "streamable-http": "http",
    "streamableHttp": "http",
    "remote": "http",
}
_SPELLINGS = {
    "startup_timeout": "startupTimeout",
    "enabled_tools": "enabledTools",
    "includeTools": "enabledTools",
    "disabled_tools": "disabledTools",
    "excludeTools": "disabledTools",
    "http_headers": "headers",
}
_OF_PROGRAMS = ("command", "args", "env", "cwd", "sandbox", "sandboxNetwork")
_OF_ADDRESSES = ("url", "headers")
_KEYS = (
    "type", *_OF_PROGRAMS, *_OF_ADDRESSES, "timeout", "startupTimeout", "enabled", "disabled",
    "enabledTools", "disabledTools",
)  # fmt: skip
_PASSED_OVER = ("description", "alwaysAllow", "autoApprove", "trust", "note")
"""What others keep here: harmless, or a permission that only opta's own rules give."""


@record
class ServerConfig:
    """One server. `command` is empty for one that has a `url`.

    `start_ms` bounds the time from its start to its list of tools, `call_ms` one call, both in
    milliseconds. `place` says where it is configured (`file:line`).
    """

    name: str
    scope: Scope
    place: str
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    cwd: str = ""
    sandbox: bool = False
    sandbox_network: bool = False
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    start_ms: int = START_MS
    call_ms: int = CALL_MS
    enabled: bool = True
    enabled_tools: tuple[str, ...] = ()
    disabled_tools: tuple[str, ...] = ()

    @property
    def argv(self) -> tuple[str, ...]:
        """The program and its arguments."""
        return (self.command, *self.args)

    @property
    def host(self) -> str:
        """The host of the address; empty for a program."""
        return urlsplit(self.url).hostname or "" if self.url else ""

    def directory(self, root: Path) -> Path:
        """Return where the program runs, for a project in `root`."""
        return root / Path(self.cwd).expanduser() if self.cwd else root

    @property
    def identity(self) -> str:
        """Sha256 (hex) of what makes it this server: what is remembered of it is bound to that."""
        return digest_of([self.name, self.command, self.args, self.url])

    def uses(self, tool: str) -> bool:
        """Tell whether the configuration lets a tool of the server be used at all."""
        listed = not self.enabled_tools or _matches(tool, self.enabled_tools)
        return listed and not _matches(tool, self.disabled_tools)


def _matches(tool: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(tool, pattern) for pattern in patterns)


@record
class Variables:
    """The environment that `${NAME}` is looked up in.

    `refused` tells which names a file may not use: a project does not get a provider's key (R26).
    """

    values: Mapping[str, str]
    refused: Callable[[str], bool] = lambda name: False


class _Problem(Exception):
    """One entry cannot be used."""

    def __init__(self, path: tuple[str | int, ...], message: str, hint: str = "") -> None:
        super().__init__(message)
        self.path, self.hint = path, hint


def read_servers(
    document: Document, scope: Scope, shown: str, variables: Variables
) -> tuple[list[ServerConfig], list[ToolProblem]]:
    """Return the servers of a file, and what is wrong with the others: file, line, column, key.

    `shown` is how messages name the file.
    """
    data = document.data
    servers = data.get(KEY) if isinstance(data, dict) else None
    if servers is None:
        return [], []
    if not isinstance(servers, dict):
        return [], [_told(document, _Problem((KEY,), "must hold one entry per server"))]
    configs: list[ServerConfig] = []
    problems: list[ToolProblem] = []
    for name, entry in servers.items():
        place = f"{shown}:{document.position((KEY, name))[0]}"
        reader = _Entry(name, entry, variables)
        try:
            configs.append(reader.read(scope, place))
        except _Problem as problem:
            problems.append(_told(document, problem))
        problems += [_told(document, warning, warning=True) for warning in reader.warnings]
    return configs, problems


def _told(document: Document, problem: _Problem, *, warning: bool = False) -> ToolProblem:
    line, column = document.position(problem.path)
    key = json_path(problem.path)
    return ToolProblem(
        document.path, str(problem), line, column, key, problem.hint, warning=warning
    )


class _Entry:
    """Reads one entry."""

    def __init__(self, name: str, entry: Any, variables: Variables) -> None:
        self._name = name
        self._path = (KEY, name)
        self._entry = entry
        self._variables = variables
        self.warnings: list[_Problem] = []

    def read(self, scope: Scope, place: str) -> ServerConfig:
        if not NAME.fullmatch(self._name):
            raise _Problem(
                self._path, f"{self._name!r} cannot name a server",
                "use letters, digits, - and _, at most 64",
            )  # fmt: skip
        if not isinstance(self._entry, dict):
            raise _Problem(self._path, "must be a mapping with `command` or `url`")
        self._keys = {_SPELLINGS.get(key, key): key for key in self._entry}
        self._check_keys()
        kind = self._kind()
        program = kind == "stdio"
        return ServerConfig(
            name=self._name,
            scope=scope,
            place=place,
            command=self._text("command") if program else "",
            args=self._texts("args") if program else (),
            env=self._mapping("env") if program else {},
            cwd=self._text("cwd") if program and "cwd" in self._keys else "",
            sandbox=program and self._switch("sandbox", False),
            sandbox_network=program and self._switch("sandboxNetwork", False),
            url="" if program else self._url(),
            headers={} if program else self._mapping("headers"),
            start_ms=self._milliseconds("startupTimeout", START_MS),
            call_ms=self._milliseconds("timeout", CALL_MS),
            enabled=self._switch("enabled", True) and not self._switch("disabled", False),
            enabled_tools=self._texts("enabledTools"),
            disabled_tools=self._texts("disabledTools"),
        )

    def _check_keys(self) -> None:
        for key, written in self._keys.items():
            if key in _PASSED_OVER:
                continue
            if key not in _KEYS:
                hint = f"known: {', '.join(_KEYS)}"
                self.warnings.append(_Problem((*self._path, written), "unknown key; ignored", hint))

    def _kind(self) -> str:
        if "type" in self._keys:
            written = self._value("type")
            kind = _TYPES.get(written) if isinstance(written, str) else None
            if kind is None:
                hint = "use stdio or http; most servers with sse answer http at the same address"
                raise self._wrong("type", f"{written!r} is not a kind of server", hint)
        else:
            kind = "http" if "url" in self._keys else "stdio"
        wanted, others = ("command", _OF_ADDRESSES) if kind == "stdio" else ("url", _OF_PROGRAMS)
        if wanted not in self._keys:
            raise _Problem(self._path, f"'{wanted}' is missing", "a server has a command or a url")
        for key in others:
            if key in self._keys:
                self.warnings.append(self._wrong(key, f"ignored: the server is of type {kind}"))
        return kind

    def _value(self, key: str) -> Any:
        return self._entry[self._keys[key]]

    def _wrong(self, key: str, message: str, hint: str = "") -> _Problem:
        return _Problem((*self._path, self._keys[key]), message, hint)

    def _text(self, key: str) -> str:
        value = self._value(key)
        if not isinstance(value, str) or not value.strip():
            raise self._wrong(key, "must be a text that is not empty")
        return self._expanded(value, (*self._path, self._keys[key]))

    def _texts(self, key: str) -> tuple[str, ...]:
        if key not in self._keys:
            return ()
        value = self._value(key)
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self._wrong(key, "must be a list of texts")
        base = (*self._path, self._keys[key])
        return tuple(self._expanded(item, (*base, n)) for n, item in enumerate(value))

    def _mapping(self, key: str) -> dict[str, str]:
        if key not in self._keys:
            return {}
        value = self._value(key)
        base = (*self._path, self._keys[key])
        if not isinstance(value, dict):
            raise self._wrong(key, "must be a mapping of names to texts")
        read: dict[str, str] = {}
        for name, item in value.items():
            if isinstance(item, bool) or not isinstance(item, str | int | float):
                raise _Problem((*base, name), "must be a text")
            read[name] = self._expanded(str(item), (*base, name))
        return read

    def _url(self) -> str:
        url = self._text("url")
        try:
            parts = urlsplit(url)
            usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            usable = False
        if not usable or not url.isprintable() or " " in url:
            raise self._wrong("url", "must be an http:// or https:// address")
        return url

    def _milliseconds(self, key: str, default: int) -> int:
        if key not in self._keys:
            return default
        value = self._value(key)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise self._wrong(key, "must be a whole number of milliseconds above 0")
        return value

    def _switch(self, key: str, default: bool) -> bool:
        if key not in self._keys:
            return default
        value = self._value(key)
        if not isinstance(value, bool):
            raise self._wrong(key, "must be true or false")
        return value

    def _expanded(self, text: str, path: tuple[str | int, ...]) -> str:
        def value(found: re.Match[str]) -> str:
            name, default = found[1], found[2]
            if self._variables.refused(name):
                raise _Problem(path, f"a project's server does not get the variable {name}")
            if name in self._variables.values:
                return self._variables.values[name]
            if default is None:
                raise _Problem(
                    path, f"the variable {name} is not set", f"set it, or write ${{{name}:-…}}"
                )
            return default

        return _VARIABLE.sub(value, text)
