"""What a file says of MCP servers: one `ServerConfig` per entry of `mcpServers`.

The keys are those that other programs use for the same files, so that one `.mcp.json` serves all:
`command`, `args`, `env`, `cwd` for a program; `url`, `headers`, `oauth` for an address; `type`,
`timeout`, `startupTimeout` (both in ms), `enabled` or `disabled`, and which tools are used;
`sandbox` is ours.
`${NAME}` and `${NAME:-default}` in a value stand for a variable of the environment.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tools.definition import Scope, digest_of
from tools.formats.problems import ToolProblem
from tools.record import record
from tools.secret_values import (
    argument_secrets,
    header_secrets,
    used_variables,
    variable_secrets,
)
from tools.sources.mcp.fields import FieldProblem, Fields, Variables
from tools.yamltext import Document, json_path

START_MS = 30_000
CALL_MS = 120_000
KEY = "mcpServers"

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
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
_OF_ADDRESSES = ("url", "headers", "oauth")
_KEYS = (
    "type", *_OF_PROGRAMS, *_OF_ADDRESSES, "timeout", "startupTimeout", "enabled", "disabled",
    "enabledTools", "disabledTools",
)  # fmt: skip
_PASSED_OVER = ("description", "alwaysAllow", "autoApprove", "trust", "note")
"""What others keep here: harmless, or a permission that only opta's own rules give."""


_OF_LOGINS = ("clientId", "clientSecret", "scopes", "callbackPort")
_LOGIN_SPELLINGS = {"scope": "scopes"}


@record
class LoginSettings:
    """How opta logs in at a server that does not let it register by itself (RFC 6749, 2.2).

    `client_id` and `client_secret` are what somebody registered opta as, `scopes` what to ask for
    instead of what the server names, parted by spaces. With `callback_port` the browser comes back
    to `http://localhost:PORT/callback`, else to any port of 127.0.0.1.
    """

    client_id: str = ""
    client_secret: str = field(default="", repr=False)
    scopes: str = ""
    callback_port: int = 0


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
    login: LoginSettings = LoginSettings()
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

    def secrets(self, environ: Mapping[str, str]) -> list[str]:
        """Return what it is given and nobody else may see (R39); `${NAME}` is of `environ`."""
        given = (*self.argv, self.url, *self.env.values(), *self.headers.values())
        return [
            self.login.client_secret, *header_secrets(self.headers), *variable_secrets(self.env),
            *argument_secrets((*self.argv, self.url)), *used_variables(given, environ),
        ]  # fmt: skip

    def uses(self, tool: str) -> bool:
        """Tell whether the configuration lets a tool of the server be used at all."""
        listed = not self.enabled_tools or _matches(tool, self.enabled_tools)
        return listed and not _matches(tool, self.disabled_tools)


def _matches(tool: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(tool, pattern) for pattern in patterns)


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
        return [], [_told(document, FieldProblem((KEY,), "must hold one entry per server"))]
    configs: list[ServerConfig] = []
    problems: list[ToolProblem] = []
    for name, entry in servers.items():
        place = f"{shown}:{document.position((KEY, name))[0]}"
        warnings: list[FieldProblem] = []
        try:
            configs.append(_Entry(name, entry, variables, warnings).read(scope, place))
        except FieldProblem as problem:
            problems.append(_told(document, problem))
        problems += [_told(document, warning, warning=True) for warning in warnings]
    return configs, problems


def _told(document: Document, problem: FieldProblem, *, warning: bool = False) -> ToolProblem:
    line, column = document.position(problem.path)
    key = json_path(problem.path)
    return ToolProblem(
        document.path, str(problem), line, column, key, problem.hint, warning=warning
    )


class _Entry:
    """Reads one entry; what is odd about it, but does no harm, goes to `warnings`."""

    def __init__(
        self, name: str, entry: Any, variables: Variables, warnings: list[FieldProblem]
    ) -> None:
        path = (KEY, name)
        if not NAME.fullmatch(name):
            raise FieldProblem(
                path, f"{name!r} cannot name a server", "use letters, digits, - and _, at most 64"
            )
        if not isinstance(entry, dict):
            raise FieldProblem(path, "must be a mapping with `command` or `url`")
        self._name = name
        self._fields = Fields(path, entry, variables, _KEYS, _SPELLINGS, _PASSED_OVER)
        self._variables = variables
        self._warnings = warnings
        warnings += self._fields.warnings

    def read(self, scope: Scope, place: str) -> ServerConfig:
        fields = self._fields
        kind = self._kind()
        program = kind == "stdio"
        return ServerConfig(
            name=self._name,
            scope=scope,
            place=place,
            command=fields.text("command") if program else "",
            args=fields.texts("args") if program else (),
            env=fields.mapping("env") if program else {},
            cwd=fields.text("cwd") if program and "cwd" in fields else "",
            sandbox=program and fields.switch("sandbox", False),
            sandbox_network=program and fields.switch("sandboxNetwork", False),
            url="" if program else self._url(),
            headers={} if program else fields.mapping("headers"),
            login=LoginSettings() if program else self._login(scope),
            start_ms=fields.milliseconds("startupTimeout", START_MS),
            call_ms=fields.milliseconds("timeout", CALL_MS),
            enabled=fields.switch("enabled", True) and not fields.switch("disabled", False),
            enabled_tools=fields.texts("enabledTools"),
            disabled_tools=fields.texts("disabledTools"),
        )

    def _kind(self) -> str:
        fields = self._fields
        if "type" in fields:
            written = fields.value("type")
            kind = _TYPES.get(written) if isinstance(written, str) else None
            if kind is None:
                hint = "use stdio or http; most servers with sse answer http at the same address"
                raise fields.wrong("type", f"{written!r} is not a kind of server", hint)
        else:
            kind = "http" if "url" in fields else "stdio"
        wanted, others = ("command", _OF_ADDRESSES) if kind == "stdio" else ("url", _OF_PROGRAMS)
        if wanted not in fields:
            hint = "a server has a command or a url"
            raise FieldProblem(fields.path, f"'{wanted}' is missing", hint)
        for key in others:
            if key in fields:
                self._warnings.append(fields.wrong(key, f"ignored: the server is of type {kind}"))
        return kind

    def _url(self) -> str:
        url = self._fields.text("url")
        try:
            parts = urlsplit(url)
            usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            usable = False
        if not usable or not url.isprintable() or " " in url:
            raise self._fields.wrong("url", "must be an http:// or https:// address")
        return url

    def _login(self, scope: Scope) -> LoginSettings:
        if "oauth" not in self._fields:
            return LoginSettings()
        entry = self._fields.value("oauth")
        if not isinstance(entry, dict):
            raise self._fields.wrong("oauth", f"must be a mapping of {', '.join(_OF_LOGINS)}")
        fields = Fields(
            self._fields.path_of("oauth"), entry, self._variables, _OF_LOGINS, _LOGIN_SPELLINGS
        )
        self._warnings += fields.warnings
        if "clientSecret" in fields and "clientId" not in fields:
            raise fields.wrong("clientSecret", "needs the clientId that it belongs to")
        if scope is Scope.LOCAL and "${" not in str(entry.get("clientSecret", "${")):
            told = "everybody who has this file can read it"
            hint = "write ${NAME}, and set that variable"
            self._warnings.append(fields.wrong("clientSecret", told, hint))
        return LoginSettings(
            client_id=fields.text("clientId") if "clientId" in fields else "",
            client_secret=fields.text("clientSecret") if "clientSecret" in fields else "",
            scopes=_scopes(fields),
            callback_port=_port(fields),
        )


def _scopes(fields: Fields) -> str:
    if "scopes" not in fields:
        return ""
    listed = isinstance(fields.value("scopes"), list)
    return " ".join(fields.texts("scopes") if listed else fields.text("scopes").split())


def _port(fields: Fields) -> int:
    if "callbackPort" not in fields:
        return 0
    port = fields.value("callbackPort")
    if isinstance(port, bool) or not isinstance(port, int) or not 0 < port < 1 << 16:
        raise fields.wrong("callbackPort", "must be a port: a whole number from 1 to 65535")
    return port
