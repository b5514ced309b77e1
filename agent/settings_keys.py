"""The table of settings: what each is called, may hold, and where it may be set."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from agent.settings_hooks import first_mistake
from tools.confinement import ANY, ENGINES, SANDBOXES, Sandboxing
from tools.hook_settings import HOOK_TIMEOUT_S
from tools.permissions.mode import Mode
from tools.record import record


class Kind(StrEnum):
    """What a value must be, in the words of the error messages."""

    TEXT = "text"
    URL = "an http:// or https:// address"
    INTEGER = "a whole number above 0"
    NUMBER = "a number, 0 or more"
    SWITCH = "true or false"
    CHOICE = "one of"
    RULES = "a list of permission rules"
    NAMES = "a list of names of settings"
    PATH = "a path, absolute or beginning with ~"
    PATHS = "a list of paths, absolute or beginning with ~"
    MAPPING = "a mapping"
    WORDS = "a list of a program and its arguments"
    HOOKS = "a list of hooks: command, tools, timeout, required"
    TEXTS = "a mapping of names to text"


_LISTS = (Kind.RULES, Kind.NAMES, Kind.PATHS, Kind.WORDS)
_TEXTS = (Kind.TEXT, Kind.URL, Kind.CHOICE, Kind.PATH)
_SWITCH = re.compile(r"tools\.(.+)\.enabled")
KeyPath: TypeAlias = tuple[str, ...]
"""The names that lead to a value in a settings file, from the outermost mapping on."""


@record
class Key:
    """One setting. `env` are variables, the strongest first; `flag` is the command-line option.

    `file` False means that no settings file may hold it; `project` False that a project's file
    may not (R26): it is ignored there, with a notice. A project may lower a `limit`, not raise it.
    What may not be an `override` cannot be given with `--config` either.
    """

    name: str
    kind: Kind
    default: Any
    help: str
    choices: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    flag: str = ""
    file: bool = True
    project: bool = True
    managed_only: bool = False
    limit: bool = False
    override: bool = True

    @property
    def allowed(self) -> str:
        """What the value may be, in words."""
        return f"one of {', '.join(self.choices)}" if self.choices else self.kind.value


def _own(*keys: Key) -> tuple[Key, ...]:
    """Return keys that count only in the person's own file and in the managed one (E151)."""
    return tuple(replace(key, project=False, override=False) for key in keys)


_ALL = (
    Key("model", Kind.TEXT, "", "model to use", env=("OPTA_MODEL",), flag="--model"),
    Key(
        "base_url", Kind.URL, "https://api.openai.com/v1", "endpoint of the API",
        env=("OPTA_BASE_URL", "OPENAI_BASE_URL"), flag="--base-url", project=False,
    ),
    Key(
        "api", Kind.CHOICE, "chat", "which OpenAI API the endpoint speaks",
        choices=("chat", "responses"), env=("OPTA_API",), flag="--api", project=False,
    ),
    Key(
        "api_key_env", Kind.TEXT, "OPENAI_API_KEY", "environment variable that holds the key",
        env=("OPTA_API_KEY_ENV",), project=False,
    ),
    Key(
        "api_key", Kind.TEXT, "", "the key itself; keep the file readable by you alone",
        project=False,
    ),
    Key(
        "request", Kind.MAPPING, {}, "further keys of every request (temperature, …)",
        project=False,
    ),
    Key(
        "headers", Kind.TEXTS, {}, "further headers of every request (Azure's api-key)",
        project=False,
    ),
    Key(
        "server", Kind.MAPPING, {}, "what opta assumes of the server: see models.md",
        project=False,
    ),
    Key(
        "idle_timeout", Kind.INTEGER, 300, "seconds of silence after which an answer is given up",
        project=False,
    ),
    Key(
        "context_window", Kind.INTEGER, None, "tokens that fit into one request",
        env=("OPTA_CONTEXT_WINDOW",),
    ),
    Key(
        "max_output_tokens", Kind.INTEGER, None, "tokens an answer may have",
        env=("OPTA_MAX_OUTPUT_TOKENS",),
    ),
    Key(
        "max_turns", Kind.INTEGER, None, "requests to the model for one prompt",
        env=("OPTA_MAX_TURNS",), flag="--max-turns", limit=True,
    ),
    Key(
        "max_tokens_total", Kind.INTEGER, None, "tokens after which no further request is sent",
        env=("OPTA_MAX_TOKENS_TOTAL",), flag="--max-tokens-total", limit=True,
    ),
    Key("price_input", Kind.NUMBER, None, "dollars per million input tokens"),
    Key("price_output", Kind.NUMBER, None, "dollars per million output tokens"),
    Key("price_per_1000", Kind.NUMBER, 0.001, "dollars per 1000 tokens in /tools tokens"),
    Key(
        "mode", Kind.CHOICE, "ask", "what is allowed without a question",
        choices=tuple(map(str, Mode)), env=("OPTA_MODE",), flag="--mode", project=False,
    ),
    Key(
        "skip_permissions", Kind.SWITCH, False, "answer permission questions with yes",
        flag="--dangerously-skip-permissions", file=False,
    ),
    Key(
        "permissions.allow", Kind.RULES, (), "calls that need no question", flag="--allow",
        project=False,
    ),
    Key("permissions.ask", Kind.RULES, (), "calls that always ask", flag="--ask"),
    Key("permissions.deny", Kind.RULES, (), "calls that are never allowed", flag="--deny"),
    Key(
        "permissions.default", Kind.CHOICE, "ask", "what holds where no rule and no mode speaks",
        choices=("ask", "deny", "allow"), project=False,
    ),
    Key(
        "auto_approve", Kind.RULES, (), "allow tools with a tag (tool:read)",
        flag="--auto-approve", file=False,
    ),
    Key(
        "auto_deny", Kind.RULES, (), "deny tools with a tag (tool:run)",
        flag="--auto-deny", file=False,
    ),
    Key(
        "undo", Kind.SWITCH, True, "keep what files held before each turn, for /undo",
        project=False,
    ),
    Key(
        "bell", Kind.NUMBER, 10, "ring the terminal's bell when opta waits and no key was pressed "
        "for so many seconds; 0: never",
        project=False,
    ),
    Key("title", Kind.SWITCH, True, "say in the terminal's title what opta does", project=False),
    Key(
        "sandbox", Kind.CHOICE, "off", "run the model's commands in a sandbox: where there is one "
        "(auto), always (required), or only in the mode auto-sandbox (off)",
        choices=tuple(map(str, Sandboxing)),
        env=("OPTA_SANDBOX",), flag="--sandbox", project=False,
    ),
    Key(
        "sandbox_backend", Kind.CHOICE, "auto", "what makes the sandbox",
        choices=(ANY, *map(str, SANDBOXES)), env=("OPTA_SANDBOX_BACKEND",),
        project=False,
    ),
    Key(
        "sandbox_network", Kind.SWITCH, False, "let sandboxed commands use the network",
        project=False,
    ),
    Key(
        "sandbox_write", Kind.PATHS, (), "what sandboxed commands may write besides the workspace",
        project=False,
    ),
    Key(
        "sandbox_read", Kind.PATHS, (), "secret files that sandboxed commands may read",
        project=False,
    ),
    Key(
        "container_engine", Kind.CHOICE, "auto", "what runs tools with isolation: container",
        choices=(ANY, *map(str, ENGINES)), env=("OPTA_CONTAINER_ENGINE",), project=False,
    ),
    Key(
        "container_image", Kind.TEXT, "", "the image they run in; it is not fetched",
        env=("OPTA_CONTAINER_IMAGE",), project=False,
    ),
    Key(
        "code_image", Kind.TEXT, "", "the image in which programs of tools run, instead of on this "
        "machine; it is not fetched", env=("OPTA_CODE_IMAGE",), project=False,
    ),
    Key("tool_hook_command", Kind.WORDS, (), "program told before and after each call"),
    Key("stop_hook_command", Kind.WORDS, (), "program told when a turn has ended"),
    Key("pre_tool_hooks", Kind.HOOKS, (), "programs that may deny a call: see hooks.md"),
    Key(
        "hook_timeout", Kind.INTEGER, HOOK_TIMEOUT_S, "seconds a hook may take", project=False,
    ),
    Key("tools.showTokenCosts", Kind.SWITCH, True, "show token costs in /tools"),
    Key("tools.autoLoadCustomTools", Kind.SWITCH, True, "load custom tools"),
    Key(
        "tools.maxExecutionTime", Kind.INTEGER, None, "longest time of any tool, in ms",
        limit=True,
    ),
    Key(
        "tools.maxCustomTools", Kind.INTEGER, 10, "custom tools in every request; the model loads "
        "the others with find_tools",
    ),
    Key("tools.tokenBudget", Kind.INTEGER, 10_000, "tokens that the tools of a request may cost"),
    Key("mcpServers", Kind.MAPPING, {}, "MCP servers: see mcp.md"),
    Key("mcp.enabled", Kind.SWITCH, True, "connect to the configured MCP servers"),
    Key("mcp.maxTools", Kind.INTEGER, 100, "tools of MCP servers in every request"),
    *_own(
        Key(
            "enforcement.disableLocalTools", Kind.SWITCH, False,
            "load no tool files of projects and of yours, only the machine's",
        ),
        Key("teams.enabled", Kind.SWITCH, False, "belong to a team: see team.md"),
        Key("teams.features.sharedTools", Kind.SWITCH, False, "use the tools it shares"),
        Key("teams.url", Kind.URL, "", "the team's server, https://"),
        Key("teams.org", Kind.TEXT, "", "the organisation there"),
        Key("teams.directory", Kind.PATH, "", "a directory of tool files instead of a server"),
        Key("teams.revision", Kind.TEXT, "", "the commit to read them at, a whole id"),
        Key(
            "teams.tokenEnv", Kind.TEXT, "OPTA_TEAM_TOKEN",
            "environment variable that holds the token for the server",
        ),
        Key("teams.refresh", Kind.INTEGER, 300, "seconds after which the server is asked again"),
        Key("teams.timeout", Kind.INTEGER, 15, "seconds a request to it may take"),
    ),
    Key(
        "config_home", Kind.TEXT, "", "directory whose config.toml has custom tools of Codex",
        flag="--config-home", file=False,
    ),
    Key(
        "config_file", Kind.TEXT, "", "file with custom tools of Codex", flag="--config-file",
        file=False,
    ),
    Key(
        "profile", Kind.TEXT, "", "profile of those files to use", flag="--profile", file=False
    ),
    Key(
        "enforce", Kind.NAMES, (), "settings of the managed file that nothing overrides",
        project=False, managed_only=True,
    ),
)  # fmt: skip

KEYS: Mapping[str, Key] = {key.name: key for key in _ALL}


def checked(key: Key, value: Any) -> Any:
    """Return `value` as the setting holds it.

    Raises ValueError, whose message says what it must be and what it is.
    """
    if _fits(key, value):
        return tuple(value) if isinstance(value, list) else value
    # What should be a mapping of headers may be one, with its key, that was not written as such.
    if key.kind is Kind.HOOKS and isinstance(value, list):
        raise ValueError(f"{key.name}{first_mistake(value)}")
    is_text = isinstance(value, str) and key.kind in (Kind.MAPPING, Kind.TEXTS)
    given = "a text" if is_text else _named(value)
    raise ValueError(f"{key.name} must be {key.allowed}, not {given}")


def from_environment(key: Key, text: str) -> Any:
    """Return the value that the text of an environment variable means. Raises ValueError."""
    value: Any = text
    if key.kind is Kind.INTEGER and text.strip().isascii() and text.strip().isdigit():
        value = int(text)
    return checked(key, value)


def find_key(name: str) -> tuple[Key, KeyPath]:
    """Return the setting that `name` means, and where it stands in a settings file.

    Besides the settings of the table these are `tools.NAME.enabled` and what is below a setting
    that holds a mapping (`request.temperature`). Raises ValueError, with the nearest name.
    """
    if name in KEYS:
        return KEYS[name], tuple(name.split("."))
    switch = _SWITCH.fullmatch(name)
    if switch and f"tools.{switch[1]}" not in KEYS:
        return Key(name, Kind.SWITCH, None, ""), ("tools", switch[1], "enabled")
    for key in KEYS.values():
        below = name.removeprefix(f"{key.name}.")
        if below != name and key.kind in (Kind.MAPPING, Kind.TEXTS):
            parts = [below] if key.kind is Kind.TEXTS else below.split(".")
            return key, (*key.name.split("."), *parts)
    near = _did_you_mean(name) or "."
    raise ValueError(f"{name} is not a setting{near} `opta config show` lists all of them.")


def from_words(key: Key, path: KeyPath, words: Sequence[str]) -> Any:
    """Return the value that words of the command line mean for what `find_key` found.

    A list is one word for each item, or TOML. Raises ValueError.
    """
    value = _toml_value(words[0]) if len(words) == 1 else None
    if key.kind in _LISTS:
        return checked(key, value if isinstance(value, list) else list(words))
    if len(words) > 1:
        raise ValueError(f"{key.name} takes one value, not {len(words)}: quote it")
    if len(path) > len(key.name.split(".")) and key.kind in (Kind.MAPPING, Kind.TEXTS):
        return words[0] if key.kind is Kind.TEXTS else value
    return checked(key, words[0] if key.kind in _TEXTS else value)


def from_override(text: str) -> tuple[Key, Any]:
    """Return the setting and the value that `KEY=VALUE` of the command line means (B40).

    The value is TOML, or text where it is none. Raises ValueError.
    """
    name, equals, written = (part.strip() for part in text.partition("="))
    key = KEYS.get(name)
    if not equals or key is None or not key.file or key.managed_only or not key.override:
        raise ValueError(f"must be KEY=VALUE of a setting{_did_you_mean(name)}")
    return key, checked(key, _toml_value(written))


def _toml_value(text: str) -> Any:
    import tomllib

    try:
        parsed = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return text
    return parsed["value"] if len(parsed) == 1 else text


def _did_you_mean(name: str) -> str:
    near = nearest_key(name, [key.name for key in KEYS.values() if key.file])
    return f". Did you mean {near}?" if near and near != name else ""


def nearest_key(name: str, known: list[str]) -> str:
    """Return the known key, or group of keys, a slip or two away from `name`; else nothing."""
    groups = {key[: dot.start()] for key in known for dot in re.finditer(r"\.", key)}
    slips = {key: _slips(name, key) for key in {*known, *groups}}
    # Of two keys as near, people rather swapped letters than forgot one: the same length wins.
    near = min(slips, key=lambda key: (slips[key], abs(len(key) - len(name)), key), default="")
    return near if near and slips[near] <= max(1, len(name) // 4) else ""


def _slips(typed: str, meant: str) -> int:
    """Count letters missing, added, wrong or swapped with the next (optimal string alignment)."""
    before: list[int] = []
    row = list(range(len(meant) + 1))
    for i, letter in enumerate(typed, start=1):
        last, before, row = before, row, [i]
        for j, wanted in enumerate(meant, start=1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != wanted))
            if i > 1 and j > 1 and typed[i - 2 : i] == wanted + meant[j - 2]:
                cost = min(cost, last[j - 2] + 1)
            row.append(cost)
    return row[-1]


def _fits(key: Key, value: Any) -> bool:
    match value:
        case bool():
            return key.kind is Kind.SWITCH
        case int() | float():
            whole = key.kind is Kind.INTEGER and isinstance(value, int) and value > 0
            return whole or (key.kind is Kind.NUMBER and value >= 0)
        case str():
            return _text_fits(key, value)
        case dict():
            texts = key.kind is Kind.TEXTS and all(isinstance(v, str) for v in value.values())
            return texts or key.kind is Kind.MAPPING
        case list() | tuple():
            return _list_fits(key, value)
        case _:
            return False


def _list_fits(key: Key, value: list[Any] | tuple[Any, ...]) -> bool:
    if key.kind is Kind.HOOKS:
        return not first_mistake(value)
    texts = key.kind in _LISTS and all(isinstance(item, str) for item in value)
    return texts and (key.kind is not Kind.PATHS or all(map(_is_path, value)))


def _text_fits(key: Key, text: str) -> bool:
    match key.kind:
        case Kind.TEXT:
            return bool(text) and text.isprintable()
        case Kind.PATH:
            return _is_path(text)
        case Kind.URL:
            return text.isprintable() and _is_url(text)
        case _:
            return key.kind is Kind.CHOICE and text in key.choices


def _is_path(text: str) -> bool:
    return text.isprintable() and (text == "~" or text.startswith("~/") or Path(text).is_absolute())


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        named = bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and named and " " not in text


def _named(value: Any) -> str:
    match value:
        case None:
            return "empty"
        case dict():
            return "a mapping"
        case list() | tuple():
            return "a list" if all(isinstance(item, str) for item in value) else "such a list"
        case _:
            return _shown(value) if not isinstance(value, str) else repr(value[:60])


def _shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
