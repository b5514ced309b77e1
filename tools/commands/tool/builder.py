"""Turns the options of `opta tool add` into a tool file's data, its keys in the usual order."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from tools.commands.tool.options import (
    COMMON_OPTIONS,
    Group,
    Option,
    OptionError,
    Parsed,
    count,
    integer,
    truth,
)

_PLATFORMS = ("windows", "linux", "macos")
_COMMANDS = ("default", *_PLATFORMS)
_TYPES = ("string", "number", "boolean", "array", "object")
_VALIDATION = {
    "min-length": "minLength", "max-length": "maxLength", "pattern": "pattern",
    "min": "minimum", "max": "maximum", "enum": "enum",
}  # fmt: skip
_SETTINGS = (
    "type", "required", "default", *_VALIDATION, "transform", "format", "example", "escape-shell",
)  # fmt: skip
_KINDS = ("bash", "cmd", "pwsh", "run", "script")


def _step(name: str, *values: str, **how: Any) -> Option:
    return Option(name, values, of="--step", **how)


def _test(name: str, *values: str, **how: Any) -> Option:
    return Option(name, values, of="--test", **how)


OPTIONS = (
    *COMMON_OPTIONS,
    Option("--description", ("TEXT",)),
    Option("--from-file", ("PATH",)),
    Option("--editor"),
    Option("--override"),
    *(Option(f"--{kind}", ("COMMAND",)) for kind in _KINDS),
    Option("--shell", ("SHELL",)),
    *(Option(f"--command-{platform}", ("COMMAND",)) for platform in _COMMANDS),
    Option("--step", ("NAME", "COMMAND")),
    *(
        Option(f"--step-command-{platform}", ("NAME", "COMMAND"), joins="--step")
        for platform in _COMMANDS
    ),
    _step("--continue-on-error"),
    _step("--run-condition", "CONDITION"),
    _step("--parallel"),
    _step("--wait-for", "STEPS"),
    _step("--retry-attempts", "N", convert=count),
    _step("--retry-delay", "MS", convert=count),
    _step("--fallback", "COMMAND"),
    _step("--output-mode", "MODE", choices=("buffer", "stream")),
    _step("--output-buffer-limit", "SIZE"),
    Option("--parameter", ("NAME", "DESCRIPTION"), pairs=_SETTINGS),
    Option("--platform", ("PLATFORM",), many=True, choices=_PLATFORMS),
    Option("--tag", ("TAG",), many=True),
    Option("--category", ("CATEGORY",)),
    Option("--timeout", ("MILLISECONDS",), convert=count),
    Option("--working-directory", ("DIR",)),
    Option("--input", ("TEXT",)),
    Option("--security-privilege", ("LEVEL",), choices=("same-as-user", "reduced", "elevated")),
    Option("--security-isolation", ("LEVEL",), choices=("none", "process", "container")),
    Option("--security-permission", ("PERMISSION",), many=True),
    Option("--env-var", ("NAME=VALUE",), many=True),
    Option("--inherit-env", ("true|false",), convert=truth),
    Option("--test", ("NAME", "DESCRIPTION")),
    _test("--test-param", "NAME=VALUE", many=True),
    _test("--expect-exit-code", "N", convert=integer),
    _test("--expect-output", "TEXT"),
    _test("--expect-file-exists", "PATH"),
    _test("--expect-directory-exists", "PATH"),
    _test("--cleanup", "COMMAND", many=True),
)


def build(parsed: Parsed) -> dict[str, Any]:
    """Return what the options say of the tool, without its name. Raises OptionError."""
    parameters: dict[str, Any] = {}
    for group in parsed.groups.get("--parameter", ()):
        if group.words[0] in parameters:
            raise OptionError(f"the parameter {group.words[0]} is defined twice")
        parameters[group.words[0]] = _parameter(group)
    data: dict[str, Any] = {
        "description": parsed.options.get("--description"),
        **{kind: parsed.options.get(f"--{kind}") for kind in (*_KINDS, "shell")},
        "commands": _commands({p: parsed.options.get(f"--command-{p}") for p in _COMMANDS}),
        "steps": [_step_of(group) for group in parsed.groups.get("--step", ())],
        "parameters": parameters,
        "security": _security(parsed),
        "environment": _environment(parsed),
        "metadata": _given({"category": parsed.options.get("--category")}),
        "tests": [_test_of(group, parameters) for group in parsed.groups.get("--test", ())],
        "timeout": parsed.options.get("--timeout"),
        "working-directory": parsed.options.get("--working-directory"),
        "platforms": parsed.texts("--platform"),
        "tags": parsed.texts("--tag"),
        "input": parsed.options.get("--input"),
    }
    return _given(data)


def typed(text: str, type_: str, what: str) -> Any:
    """Return the value that `text` stands for in a parameter of that type. Raises OptionError."""
    if type_ == "string":
        return text
    kinds: Mapping[str, tuple[type, ...]] = {
        "number": (int, float), "integer": (int,), "boolean": (bool,), "array": (list,),
        "object": (dict,), "null": (type(None),),
    }  # fmt: skip
    try:
        value = json.loads(text)
        fits = isinstance(value, kinds[type_]) and isinstance(value, bool) <= (type_ == "boolean")
    except (ValueError, RecursionError):
        fits = False
    if not fits:
        form = " as JSON" if type_ in ("array", "object") else ""
        raise OptionError(f"{what} must be of type {type_}{form}, not {text!r}")
    return value


def typed_as_one_of(text: str, types: Sequence[str], what: str) -> Any:
    """Return the value that `text` stands for in the first of the types that it fits.

    Text is the last that is thought of, for everything fits it. Raises OptionError.
    """
    *others, last = sorted(types, key=lambda type_: type_ == "string")
    for type_ in others:
        with suppress(OptionError):
            return typed(text, type_, what)
    return typed(text, last, what)


def split_pair(text: str, option: str) -> tuple[str, str]:
    """Return the two sides of `NAME=VALUE`. Raises OptionError."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise OptionError(f"{option} needs NAME=VALUE, not {text!r}")
    return name, value


def _given(data: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in data.items() if value not in (None, [], {})}


def _commands(texts: Mapping[str, str | None]) -> dict[str, Any]:
    platforms = _given({name: texts.get(name) for name in _PLATFORMS})
    return _given({"default": texts.get("default"), "platforms": platforms})


def _step_of(group: Group) -> dict[str, Any]:
    options = group.options
    name = group.words[0]
    platforms = {p: options.get(f"--step-command-{p}") for p in _COMMANDS}
    command = group.words[1] if len(group.words) > 1 else None
    if any(platforms.values()):
        if command is not None and platforms["default"] is not None:
            raise OptionError(
                f"the step {name} has a command of --step and one of --step-command-default: "
                "give one of them"
            )
        platforms["default"] = platforms["default"] or command
        command = None
    retry = {
        "attempts": options.get("--retry-attempts"), "delay": options.get("--retry-delay"),
    }  # fmt: skip
    wait_for = [step.strip() for step in str(options.get("--wait-for", "")).split(",")]
    return _given({
        "name": name,
        "bash": command,
        "commands": _commands(platforms),
        "continue-on-error": options.get("--continue-on-error"),
        "run-condition": options.get("--run-condition"),
        "parallel": options.get("--parallel"),
        "wait-for": [step for step in wait_for if step],
        "error-handling": _given(
            {"retry": _given(retry), "fallback": options.get("--fallback")}
        ),
        "output": _given({
            "mode": options.get("--output-mode"),
            "buffer-limit": options.get("--output-buffer-limit"),
        }),
    })  # fmt: skip


def _parameter(group: Group) -> dict[str, Any]:
    name, description = group.words
    settings: dict[str, str] = {}
    examples: list[str] = []
    for key, value in group.pairs:
        if key == "example":
            examples.append(value)
        elif settings.setdefault(key, value) != value:
            raise OptionError(f"--parameter {name}: {key} is given twice")
    type_ = settings.get("type", "string")
    if type_ not in _TYPES:
        raise OptionError(f"--parameter {name}: type can be {', '.join(_TYPES)}, not {type_!r}")

    def value_of(key: str, text: str) -> Any:
        return typed(text, type_, f"--parameter {name}: {key}")

    escape = _truth(name, "escape-shell", settings)
    parameter = _given({
        "type": type_,
        "description": description,
        "required": _truth(name, "required", settings),
        "default": settings.get("default"),
        "validation": _validation(name, type_, settings),
        "transform": settings.get("transform"),
        "format": settings.get("format"),
        "examples": [value_of("example", text) for text in examples],
        "security": {} if escape is None else {"escape-shell": escape},
    })  # fmt: skip
    if "default" in settings:
        parameter["default"] = value_of("default", settings["default"])
    return parameter


def _truth(name: str, key: str, settings: Mapping[str, str]) -> bool | None:
    try:
        return truth(settings[key]) if key in settings else None
    except ValueError as error:
        raise OptionError(
            f"--parameter {name}: {key} must be {error}, not {settings[key]!r}"
        ) from None


def _validation(name: str, type_: str, settings: Mapping[str, str]) -> dict[str, Any]:
    rules: dict[str, Any] = {}
    for key, rule in _VALIDATION.items():
        if key not in settings:
            continue
        text, what = settings[key], f"--parameter {name}: {key}"
        match key:
            case "pattern":
                rules[rule] = text
            case "enum":
                rules[rule] = [typed(word.strip(), type_, what) for word in text.split(",")]
            case "min" | "max":
                rules[rule] = typed(text, "number", what)
            case _:
                rules[rule] = _whole(text, what)
    return rules


def _whole(text: str, what: str) -> int:
    try:
        return count(text)
    except ValueError as error:
        raise OptionError(f"{what} must be {error}, not {text!r}") from None


def _security(parsed: Parsed) -> dict[str, Any]:
    return _given({
        "execution-privilege": parsed.options.get("--security-privilege"),
        "isolation": parsed.options.get("--security-isolation"),
        "required-permissions": parsed.texts("--security-permission"),
    })  # fmt: skip


def _environment(parsed: Parsed) -> dict[str, Any]:
    pairs = [split_pair(text, "--env-var") for text in parsed.texts("--env-var")]
    return _given({"variables": dict(pairs), "inherit": parsed.options.get("--inherit-env")})


def _test_of(group: Group, parameters: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    name, description = group.words
    options = group.options
    given: dict[str, Any] = {}
    for text in options.get("--test-param", ()):
        key, value = split_pair(text, "--test-param")
        type_ = parameters.get(key, {}).get("type", "string")
        given[key] = typed(value, type_, f"--test {name}: {key}")
    expected = {
        "exit-code": options.get("--expect-exit-code"),
        "output-contains": options.get("--expect-output"),
        "file-exists": options.get("--expect-file-exists"),
        "directory-exists": options.get("--expect-directory-exists"),
    }
    return _given({
        "name": name,
        "description": description,
        "parameters": given,
        "expected": _given(expected),
        "cleanup": options.get("--cleanup", []),
    })  # fmt: skip
