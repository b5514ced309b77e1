"""What all tools that start a process share: which program it is, what is asked, how it ended."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from tools.builtin.command_paths import must_ask
from tools.builtin.command_secrets import guarded_in_command
from tools.builtin.git_settings import reading_environment, refuse_bare_files
from tools.builtin.kit import Services
from tools.confinement import Sandboxing
from tools.definition import (
    CommandDisplay,
    Effect,
    EffectKind,
    Invocation,
    Outcome,
    Progress,
    ResolvedCall,
    ToolError,
    ToolResult,
)
from tools.engine.isolation.choice import Isolation
from tools.engine.output import LIVE_CHARS, clipped, for_model, live, visible
from tools.engine.process import ProcessResult, ProcessSpec, ProcessStartError, run_process
from tools.files.programs import program_outside
from tools.files.protected import secret_patterns
from tools.files.workspace import FileProblem, Workspace
from tools.permissions.command_check import Checked
from tools.permissions.grant import Grant
from tools.record import record
from tools.storage import StorageError, kept_file

_TITLE_CHARS = 80
_GIT_TIMEOUT_MS = 30_000


@record
class Command:
    """A command line as rules and people see it, and what is started for it.

    `merged` sends stderr into stdout; else it is told only when the command failed (E133).
    `reads` are paths that it names, for which rules about reading count. `unsandboxed` asks for
    no sandbox. `all_live`: its output is read while it runs, however much it is.
    """

    line: str
    argv: tuple[str, ...]
    cwd: Path
    timeout_ms: int
    merged: bool = True
    reads: tuple[Path, ...] = ()
    unsandboxed: bool = False
    all_live: bool = False


def running(
    call: ResolvedCall,
    services: Services,
    command: Command,
    observe: Callable[[ProcessResult], None] = lambda process: None,
) -> Invocation:
    """Prepare a process that may do anything its walls let it, so that rules, a person or those
    walls must allow it. `observe` is told how it ended.

    Raises ToolError where the settings ask for walls that there are not.
    """
    workspace = services.workspace
    isolation = services.isolation
    walls = None
    if isolation is not None:
        walls = isolation.for_command(unsandboxed=command.unsandboxed)
    protected = must_ask(command.line, command.cwd, workspace.root)
    cwd = str(command.cwd)
    effects = [
        Effect(EffectKind.EXECUTE, command.line, call.tool.name, protected=protected, cwd=cwd)
    ]
    if command.cwd != workspace.root:
        # A rule that allows `make test` means the project's, not that of any other directory.
        effects.append(workspace.effect(EffectKind.READ, command.cwd, call.tool.name))
    effects += [workspace.effect(EffectKind.READ, path, call.tool.name) for path in command.reads]
    effects += guarded_in_command(command.line, command.cwd, services, call.tool.name)
    timeout_ms, note = time_limit(services.max_execution_ms, command.timeout_ms)
    # Within walls secrets are hidden, and so are the files that keep git and rg from them.
    checked = services.rules.checked(effects[0]) if walls is None else Checked(())

    async def run(grant: Grant, progress: Progress) -> ToolResult:
        try:
            env = await _environment(grant, call, services, command.cwd, checked)
            spec = ProcessSpec(
                command.argv, command.cwd, env, timeout_ms, merge_stderr=command.merged
            )
            limit = sys.maxsize if command.all_live else LIVE_CHARS
            process = await run_process(
                grant, call, spec, live(progress, limit), services.masker.streams()
            )
        except (ProcessStartError, StorageError) as error:
            raise ToolError(str(error)) from error
        observe(process)
        result = result_of(process, timeout_ms, note)
        if result.success or walls is None:
            return result
        return replace(result, text=f"{result.text}\n[ran {walls.note}{_way_out(isolation)}]")

    notes = (walls.note if walls else "", note)
    return Invocation(
        title=title_of(command.line),
        effects=tuple(effects),
        preview=CommandDisplay(
            command.line, str(command.cwd), "; ".join(text for text in notes if text)
        ),
        run=run,
        confinement=walls,
    )


def _way_out(isolation: Isolation | None) -> str:
    if isolation is None or isolation.settings.sandbox is Sandboxing.REQUIRED:
        return ""
    return "; where that is why it failed, run_command with unsandboxed: true asks the user"


async def _environment(
    grant: Grant, call: ResolvedCall, services: Services, cwd: Path, checked: Checked
) -> Mapping[str, str]:
    """Return the environment of a command in which its helpers only read, and keep to it.

    Raises ToolError where they cannot be kept to it.
    """
    env, helpers = services.child_env, checked.helpers
    if "rg" in helpers:
        text = "".join(f"--iglob=!{pattern}\n" for pattern in secret_patterns())
        env = {**env, "RIPGREP_CONFIG_PATH": str(kept_file("ripgrep", text))}
    program = program_path("git", services)
    if "git" not in helpers or program is None:
        return env

    async def git(
        environment: Mapping[str, str], words: tuple[str, ...], stdin: bytes | None = None
    ) -> ProcessResult:
        argv = (str(program), "--no-pager", *words)
        spec = ProcessSpec(argv, cwd, environment, _GIT_TIMEOUT_MS, stdin, merge_stderr=True)
        return await run_process(grant, call, spec)

    reading = await reading_environment(env, cwd, git)
    await refuse_bare_files(reading, checked.objects, git)
    return reading


def time_limit(cap_ms: int | None, wanted_ms: int) -> tuple[int, str]:
    """Return how long a call may take (ms), and a note where `cap_ms`, a setting, cut it (E82)."""
    if cap_ms is None or wanted_ms <= cap_ms:
        return wanted_ms, ""
    return cap_ms, (
        f"timeout cut from {wanted_ms / 1000:g} s to {cap_ms / 1000:g} s "
        "by the setting maxExecutionTime"
    )


def result_of(process: ProcessResult, timeout_ms: int, note: str) -> ToolResult:
    """Return what a process printed, head and tail, and how it ended as the last line.

    `note` says what shortened the timeout, for the case that it was too short.
    """
    output = for_model(process.stdout)
    parts = [output.text.rstrip("\n")]
    full = output.full_output
    if process.stderr.total_bytes and process.exit_code != 0:
        errors = for_model(process.stderr)
        parts.append(f"[stderr] {errors.text.rstrip()}")
        full = full or errors.full_output
    parts.append(_ending(process, timeout_ms))
    if process.timed_out and note:
        parts.append(f"[{note}]")
    parts += [f"[{remark}]" for remark in process.remarks]
    text = "\n".join(part for part in parts if part)
    return ToolResult(
        text or "(no output)", _outcome(process), exit_code=process.exit_code, full_output=full
    )


def program_path(name: str, services: Services) -> Path | None:
    """Return the program `name` from PATH, but none that the project brings along (R10)."""
    path = services.child_env.get("PATH", os.defpath)
    return program_outside(name, path, services.workspace.root)


def shell_argv(services: Services) -> tuple[str, ...]:
    """Return the shell and its option to run a text: bash where there is one, else sh."""
    bash = program_path("bash", services)
    return (str(bash) if bash else "/bin/sh", "-c")


def working_directory(workspace: Workspace, asked: str | None) -> Path:
    """Return the directory to run in. Raises FileProblem when there is no such directory."""
    if not asked:
        return workspace.root
    path = workspace.resolve(asked)
    if not path.is_dir():
        raise FileProblem(f"The directory {workspace.shown(path)} does not exist.")
    return path


def title_of(line: str) -> str:
    """Return a command line as one short line."""
    return clipped(visible(line.replace("\n", " ")), _TITLE_CHARS)


def _outcome(process: ProcessResult) -> Outcome:
    if process.timed_out:
        return Outcome.TIMED_OUT
    return Outcome.OK if process.exit_code == 0 else Outcome.ERROR


def _ending(process: ProcessResult, timeout_ms: int) -> str:
    if process.timed_out:
        return f"[timed out after {timeout_ms / 1000:g} s; the command and its children were ended]"
    if process.signal is not None:
        return f"[ended by signal {process.signal_name}]"
    return f"[exit code: {process.exit_code}]" if process.exit_code else ""
