"""Reads what a CYCOD tool runs: its one command, or its steps."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from difflib import get_close_matches
from functools import lru_cache
from typing import Any

from tools.actions import (
    Argv,
    Command,
    OutputOptions,
    PlatformCommands,
    Retry,
    Shell,
    Step,
    UseTool,
)
from tools.formats.findings import Findings, listed
from tools.formats.platforms import current_platform, program_exists
from tools.formats.references import STEP_PROPERTIES, references_in, uses_any
from tools.record import record
from tools.yamltext import KeyPath

COMMAND_KEYS = ("bash", "cmd", "pwsh", "run", "script", "commands")
"""The ways to say one command: exactly one of them (X35)."""

TEMPLATE_SHELLS = frozenset({"sh", "bash", "dash", "ksh", "zsh", "cmd", "pwsh", "powershell"})
"""The programs of `script` into whose text values can be put safely."""

_ALL_OUTPUT = OutputOptions()
_ONCE = Retry()
MOST_STEPS = 1_000
_WITH_ARGUMENTS = re.compile(r"\{[A-Za-z_][\w.-]*\s*[:?][^{}]*\}", re.ASCII)
_KEPT, _FIRST = "\ue000", 0xE001
_KEPT_PIECE = re.compile(f"{_KEPT}(.)")


def native_shell(platform: str) -> str:
    """Return the shell of commands that name none (X114)."""
    return "cmd" if platform == "windows" else "bash"


def read_command(
    findings: Findings, data: Mapping[str, Any], declared: Mapping[str, Any], where: KeyPath
) -> Command | None:
    """Return the command that `data` holds under one of COMMAND_KEYS; None when none is right."""
    key = next((key for key in COMMAND_KEYS if key in data), "")
    if key in ("bash", "cmd", "pwsh"):
        return Shell(key, data[key], placeholders=True)
    if key == "script":
        return _script(findings, data, declared, where)
    if key == "run":
        return _argv(findings, data["run"], (*where, "run"))
    return _by_platform(findings, data["commands"], (*where, "commands")) if key else None


def _script(
    findings: Findings, data: Mapping[str, Any], declared: Mapping[str, Any], where: KeyPath
) -> Shell:
    shell = data.get("shell", native_shell(current_platform()))
    program = _program(shell)
    if not program:
        findings.error((*where, "shell"), "names no program", "such as sh, or python3 -u")
    templated = re.split(r"[/\\]", program)[-1].removesuffix(".exe") in TEMPLATE_SHELLS
    if not templated and uses_any(data["script"], declared):
        findings.error(
            (*where, "script"), f"holds placeholders, which cannot be put into a {shell} script "
            "without becoming part of it", "read OPTA_TOOL_ARG_<NAME> from the environment",
        )  # fmt: skip
    return Shell(shell, data["script"], placeholders=templated)


@lru_cache(256)
def _program(shell: str) -> str:
    try:
        return next(iter(shlex.split(shell)), "")
    except ValueError:
        return ""


def _argv(findings: Findings, text: str, where: KeyPath) -> Argv | None:
    """Split into words before anything is substituted (X99); `{A ? 'b c' : ''}` is one piece."""
    kept: list[str] = []

    def keep(found: re.Match[str]) -> str:
        kept.append(found[0])
        return _KEPT + chr(_FIRST + len(kept) - 1)

    if _KEPT in text or len(text) > 100_000:
        findings.error(where, "is too long, or holds a character for private use")
        return None
    try:
        words = shlex.split(_WITH_ARGUMENTS.sub(keep, text))
    except ValueError as error:
        findings.error(where, f"cannot be split into words: {str(error).lower()}")
        return None
    words = [_KEPT_PIECE.sub(lambda found: kept[ord(found[1]) - _FIRST], word) for word in words]
    if not words:
        findings.error(where, "names no program")
    return Argv(tuple(words))


def _by_platform(
    findings: Findings, data: Mapping[str, Any], where: KeyPath
) -> PlatformCommands | None:
    platforms = {
        name: Shell(native_shell(name), text, placeholders=True)
        for name, text in data.get("platforms", {}).items()
    }
    if "default" not in data and not platforms:
        findings.error(where, "holds no command", "write default, or platforms")
        return None
    default = None
    if "default" in data:
        default = Shell(native_shell(current_platform()), data["default"], placeholders=True)
    return PlatformCommands(default, platforms)


def unavailable(command: Command, platform: str) -> str:
    """Say why `command` cannot run on this machine; empty when it can (X7)."""
    if isinstance(command, PlatformCommands):
        fitting = command.platforms.get(platform, command.default)
        return unavailable(fitting, platform) if fitting else f"it has no command for {platform}"
    if not isinstance(command, Shell):
        return ""
    if command.kind == "cmd":
        return "" if platform == "windows" else "cmd is there on Windows only"
    program = _program(command.kind)
    return "" if program_exists(program) else f"{program} not found"


@record
class StepReader:
    """Reads the steps of a tool.

    `declared` are the tool's parameters, `ignore_errors` what a step does unless it says itself
    whether to go on after an error (X47).
    """

    findings: Findings
    declared: Mapping[str, Any]
    ignore_errors: bool = False

    def read(self, steps: tuple[Mapping[str, Any], ...]) -> tuple[Step, ...]:
        """Return the steps; note what is wrong with them."""
        if not steps:
            self.findings.error(("steps",), "is empty", "a tool needs a step")
        if len(steps) > MOST_STEPS:
            found = f"holds {len(steps):,} steps, more than the allowed {MOST_STEPS:,}"
            self.findings.error(("steps",), found, "put some of them into a tool of their own")
            return ()
        names: dict[str, int] = {}
        for position, data in enumerate(steps):
            first = names.setdefault(data.get("name", f"\0{position}"), position)
            if first != position:
                self.findings.error(
                    ("steps", position, "name"),
                    f"step {first + 1} is called {data['name']!r} too", "choose another name",
                )  # fmt: skip
        read = [self._step(data, ("steps", position)) for position, data in enumerate(steps)]
        for position, data in enumerate(steps):
            self._check_names(data, names, ("steps", position))
        return tuple(step for step in read if step is not None)

    def _step(self, data: Mapping[str, Any], where: KeyPath) -> Step | None:
        kinds = [key for key in (*COMMAND_KEYS, "use-tool") if key in data]
        if len(kinds) != 1:
            count_kinds(self.findings, kinds, (*COMMAND_KEYS, "use-tool"), where)
        handling = data.get("error-handling", {})
        command: Command | None
        if kinds == ["use-tool"]:
            command = UseTool(data["use-tool"], data.get("with", {}))
            if "fallback" in handling:
                self.findings.error(
                    (*where, "error-handling", "fallback"), "a step with use-tool has no shell "
                    "for it", "write a further step with a run-condition",
                )  # fmt: skip
        else:
            command = read_command(self.findings, data, self.declared, where)
            if "with" in data and "use-tool" not in data:
                self.findings.error((*where, "with"), "needs use-tool")
        if command is None or "name" not in data:
            return None
        return Step(
            name=data["name"],
            command=command,
            timeout_ms=data.get("timeout"),
            condition=data.get("run-condition", ""),
            wait_for=data.get("wait-for"),
            parallel=data.get("parallel", False),
            continue_on_error=data.get("continue-on-error", self.ignore_errors),
            retry=_retry(handling.get("retry", {})),
            fallback=handling.get("fallback", ""),
            output=_output(data.get("output", {})),
        )

    def _check_names(
        self, data: Mapping[str, Any], names: Mapping[str, int], where: KeyPath
    ) -> None:
        for position, name in enumerate(data.get("wait-for", ())):
            if name not in names:
                self._unknown(name, names, (*where, "wait-for", position))
        for reference in references_in(data.get("run-condition", "")):
            if reference.property and reference.name not in names:
                self._unknown(reference.name, names, (*where, "run-condition"))
            elif reference.property and reference.property not in STEP_PROPERTIES:
                near = get_close_matches(reference.property, STEP_PROPERTIES, 1, 0.5)
                self.findings.error(
                    (*where, "run-condition"), f"a step has no {reference.property!r}",
                    f"did you mean {near[0]}?" if near else ", ".join(sorted(STEP_PROPERTIES)),
                )  # fmt: skip

    def _unknown(self, name: str, names: Mapping[str, int], where: KeyPath) -> None:
        near = get_close_matches(name, names, 1)
        known = listed(name for name in names if name[0] != "\0")
        hint = f"did you mean {near[0]}?" if near else f"the steps are {known}"
        self.findings.error(where, f"there is no step {name!r}", hint)


def count_kinds(
    findings: Findings, kinds: list[str], allowed: tuple[str, ...], where: KeyPath
) -> None:
    """Note that a tool or step says nothing to run, or several things."""
    if kinds:
        findings.error(
            (*where, kinds[1]), f"says several things to run: {', '.join(kinds)}", "keep one"
        )
    else:
        findings.error(where, "says nothing to run", f"write one of {', '.join(allowed)}")


def _retry(data: Mapping[str, Any]) -> Retry:
    if not data:
        return _ONCE
    fixed = data.get("backoff") == "fixed"
    return Retry(data.get("attempts", 0), data.get("delay", 0), fixed)


def _output(data: Mapping[str, Any]) -> OutputOptions:
    if not data:
        return _ALL_OUTPUT
    return OutputOptions(
        stream=data.get("mode") == "stream",
        callback=data.get("stream-callback", _ALL_OUTPUT.callback),
        limit_bytes=data.get("buffer-limit", _ALL_OUTPUT.limit_bytes),
        truncate=data.get("truncation", True),
        masked=data.get("masked-values", ()),
    )
