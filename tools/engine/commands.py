"""Commands of a plan, compiled once: what is started for them, and how that reads."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from functools import lru_cache
from typing import Protocol

from tools.actions import Argv, PlatformCommands, Shell
from tools.engine.hazards import Hazard, argv_hazards, windows_hazards
from tools.engine.template import (
    ArgvTemplate,
    Names,
    Placeholder,
    Template,
    TemplateError,
    Value,
    parse,
    parse_argv,
)
from tools.engine.template_shell import RenderedScript, ShellTemplate, compile_shell
from tools.engine.template_windows import PowerShellTemplate, compile_pwsh, fill_cmd
from tools.formats.platforms import current_platform
from tools.record import record

MAX_ARGUMENT_BYTES = 100_000
"""A longer script is handed over on a descriptor: Linux refuses arguments of 128 KiB."""

_SHELLS = {
    "sh": ("/bin/sh",),
    "cmd": ("cmd", "/d", "/s"),
    "pwsh": ("pwsh", "-NoProfile", "-NonInteractive"),
    "powershell": ("powershell", "-NoProfile", "-NonInteractive"),
}
_TEXT_OPTION = {"cmd": "/c", "pwsh": "-Command", "powershell": "-Command"}
_TEMPLATE_KINDS = {"sh": "sh", "dash": "sh", "ksh": "sh", "zsh": "sh", "bash": "bash"}
_ALL_SHELLS = frozenset({*_SHELLS, *_TEMPLATE_KINDS})

_CLOSE_OWN_FILE = b'eval "exec ${1##*/}<&-"\n'
"""Keeps the file that holds the values from the programs that a script starts."""


@record
class Start:
    """What is started. `script` is handed over in a private file whose path comes last in argv:
    where `suffix` is given, a file with a name that ends so. `stdin` None means closed; nothing
    comes on it for the first `stdin_delay_ms`. `terminal` and `pass_output` are those of
    `ProcessSpec`."""

    argv: tuple[str, ...]
    script: bytes | None = None
    suffix: str = ""
    stdin: bytes | None = None
    stdin_delay_ms: int = 0
    terminal: bool = False
    pass_output: bool = False


@record
class Shown:
    """A command as a person and the rules read it, with its values in place."""

    text: str
    hazards: tuple[Hazard, ...] = ()


class Compiled(Protocol):
    """A command that takes values."""

    @property
    def placeholders(self) -> tuple[Placeholder, ...]:
        """The places for values."""
        ...

    def show(self, values: Mapping[str, Value]) -> Shown:
        """Return how it reads, and what these values can do. Raises TemplateError."""
        ...

    def start(self, values: Mapping[str, Value]) -> Start:
        """Return what is started. Raises TemplateError."""
        ...


@record
class _Script:
    """Text that is run as its author wrote it."""

    kind: str
    text: str
    label: str
    placeholders: tuple[Placeholder, ...] = ()

    def show(self, values: Mapping[str, Value]) -> Shown:
        return Shown(self.text)

    def start(self, values: Mapping[str, Value]) -> Start:
        name = _program_name(self.kind)
        if name not in _ALL_SHELLS:
            return Start(tuple(shlex.split(self.kind)), self.text.encode(), suffix=".txt")
        if len(self.text.encode()) > MAX_ARGUMENT_BYTES and name in _TEMPLATE_KINDS:
            return _evaluate(self.kind, RenderedScript(self.text, {}, self.text), self.label)
        option = _TEXT_OPTION.get(name)
        if option is not None:
            return Start((*_shell(self.kind), option, self.text))
        return Start((*_shell(self.kind), "-c", self.text, self.label))


@record
class _ScriptTemplate:
    kind: str
    template: ShellTemplate
    label: str

    @property
    def placeholders(self) -> tuple[Placeholder, ...]:
        return self.template.placeholders

    def show(self, values: Mapping[str, Value]) -> Shown:
        rendered = self.template.render(values)
        return Shown(rendered.shown, rendered.hazards)

    def start(self, values: Mapping[str, Value]) -> Start:
        rendered = self.template.render(values)
        if not rendered.variables and not rendered.raw:
            return _Script(self.kind, rendered.text, self.label).start(values)
        return _evaluate(self.kind, rendered, self.label)


def _evaluate(kind: str, script: RenderedScript, label: str) -> Start:
    # Other shells close descriptors of one digit only.
    close = _CLOSE_OWN_FILE if _program_name(kind) == "bash" else b""
    return Start((*_shell(kind), "-c", script.program(), label), close + script.assignments())


@record
class _PowerShell:
    kind: str
    template: PowerShellTemplate

    @property
    def placeholders(self) -> tuple[Placeholder, ...]:
        return self.template.template.placeholders

    def show(self, values: Mapping[str, Value]) -> Shown:
        text = self.template.render(values)
        return Shown(text, windows_hazards(self.template.template).given(values))

    def start(self, values: Mapping[str, Value]) -> Start:
        # Windows PowerShell takes a script for UTF-8 only when it begins with a BOM.
        script = self.template.render(values).encode("utf-8-sig", "replace")
        return Start((*_shell(self.kind), "-File"), script, suffix=".ps1")


@record
class _Cmd:
    template: Template

    @property
    def placeholders(self) -> tuple[Placeholder, ...]:
        return self.template.placeholders

    def show(self, values: Mapping[str, Value]) -> Shown:
        text = fill_cmd(self.template, values)
        return Shown(text, windows_hazards(self.template).given(values))

    def start(self, values: Mapping[str, Value]) -> Start:
        return Start((*_SHELLS["cmd"], "/c", fill_cmd(self.template, values)))


@record
class _Words:
    template: ArgvTemplate

    @property
    def placeholders(self) -> tuple[Placeholder, ...]:
        return self.template.placeholders

    def show(self, values: Mapping[str, Value]) -> Shown:
        text = shlex.join(self.start(values).argv)
        return Shown(text, argv_hazards(self.template).given(values))

    def start(self, values: Mapping[str, Value]) -> Start:
        for word in self.template.words:
            for unknown in word.unknown:
                raise unknown.error()
        return Start(self.template.fill(values))


def compile_command(
    command: Shell | Argv | PlatformCommands,
    names: Names,
    escape: Mapping[str, bool | None],
    label: str,
) -> Compiled:
    """Read a command for this machine. Raises TemplateError where it cannot be run safely.

    `label` is what a shell calls it in its messages.
    """
    match command:
        case PlatformCommands():
            return compile_command(for_platform(command), names, escape, label)
        case Argv(words, placeholders=True):
            return _Words(parse_argv(words, names))
        case Argv(words):
            return _Words(parse_argv(words, Names()))
        case Shell(kind, text, placeholders=True):
            return _compile_shell(kind, text, names, escape, label)
        case Shell(kind, text):
            return _Script(kind, text, label)


def _compile_shell(
    kind: str, text: str, names: Names, escape: Mapping[str, bool | None], label: str
) -> Compiled:
    name = _program_name(kind)
    if name in _TEMPLATE_KINDS:
        template = compile_shell(text, names, kind=_TEMPLATE_KINDS[name], escape=escape)
        return _ScriptTemplate(kind, template, label)
    if name in ("pwsh", "powershell"):
        return _PowerShell(kind, compile_pwsh(text, names, escape))
    if name == "cmd":
        return _Cmd(parse(text, names))
    if parse(text, names).placeholders:
        raise TemplateError(
            f"Values cannot be placed in a script for {name}. Read them from the environment: "
            "OPTA_TOOL_ARG_ and the parameter's name in capitals."
        )
    return _Script(kind, text, label)


def for_platform(commands: PlatformCommands) -> Shell:
    """Return the command for this machine (X114). Raises TemplateError when there is none."""
    found = commands.platforms.get(current_platform(), commands.default)
    if found is None:
        known = ", ".join(commands.platforms)
        raise TemplateError(f"There is no command for {current_platform()}, only for {known}.")
    return found


@lru_cache(64)
def _shell(kind: str) -> tuple[str, ...]:
    return _SHELLS.get(kind) or tuple(shlex.split(kind))


@lru_cache(64)
def _program_name(kind: str) -> str:
    words = shlex.split(kind)
    return re.split(r"[/\\]", words[0])[-1].removesuffix(".exe") if words else ""
