"""`git`: reading a repository without a question and without running what its settings name.

A repository brings settings along (`.git/config`) that make plain reading run programs: file
system monitors, external diffs, text converters, filters, pagers, hooks. Operations that only read
are run with all of these off (R12); everything else asks, as a command line (E137).
"""

from __future__ import annotations

import re
import shlex
from contextlib import suppress
from pathlib import Path

import prompts
from tools.builtin.git_paths import as_commits, is_plain_operand, left_out, named_paths
from tools.builtin.git_settings import LIST_SETTINGS, overrides, without_transport
from tools.builtin.kit import Builtin, Services, define
from tools.builtin.running import (
    Command,
    program_path,
    result_of,
    running,
    time_limit,
    title_of,
)
from tools.definition import (
    CommandDisplay,
    EffectKind,
    Invocation,
    Progress,
    ResolvedCall,
    Risk,
    ToolError,
    ToolResult,
)
from tools.engine.masking import OutputStream
from tools.engine.process import (
    ProcessResult,
    ProcessSpec,
    ProcessStartError,
    run_process,
)
from tools.files.workspace import FileProblem
from tools.permissions.git_options import PLAIN, SEPARATE_VALUE, is_plain_option, starts_program
from tools.permissions.grant import Grant

OPERATIONS = ("status", "diff", "log", "show", "add", "commit", "branch", "checkout")
TIMEOUT_MS = 120_000

_SHOWS_CONTENT = re.compile(
    r"-p|-u|-[USG].*|-W|--(patch|unified|word-diff|function-context|check).*"
)

ALIASES = {
    "command": "operation", "subcommand": "operation", "action": "operation", "op": "operation",
    "arguments": "args", "options": "args",
}  # fmt: skip


def tool() -> Builtin:
    """Return the built-in."""
    definition = define(
        "git",
        prompts.load("tools/git"),
        {
            "operation": {"type": "string", "enum": list(OPERATIONS)},
            "args": {
                "type": "array",
                "items": {"type": "string"},
                "description": 'One argument each, e.g. ["--oneline", "-n", "10"]',
            },
        },
        ["operation"],
        risk=Risk.MEDIUM,
        declared_token_cost=420,
        metadata={"tags": ["read", "write"]},
    )
    return Builtin(definition, prepare, ALIASES)


def prepare(call: ResolvedCall, services: Services) -> Invocation:
    """Say whether the operation only reads, or show it as a command. Raises ToolError."""
    program = program_path("git", services)
    if program is None:
        raise ToolError("git is not installed (or only a program of this project has its name).")
    operation, args = call.arguments["operation"], tuple(call.arguments.get("args", ()))
    if operation not in OPERATIONS:
        raise ToolError(f"Unknown operation {operation!r}. Known: {', '.join(OPERATIONS)}.")
    if any("\0" in argument for argument in args):
        raise ToolError("An argument holds a NUL character. Nothing was run.")
    root = services.workspace.root
    if only_reads(operation, args, services):
        return _reading(call, services, str(program), operation, args)
    line = shlex.join(("git", operation, *args))
    argv = (str(program), "--no-pager", operation, *args)
    command = Command(line, argv, root, TIMEOUT_MS, reads=_kept_paths(args, services))
    return running(call, services, command)


def _kept_paths(args: tuple[str, ...], services: Services) -> tuple[Path, ...]:
    """Return the named paths that a rule keeps from being read: it holds for this tool too."""
    found: dict[Path, None] = {}
    for word in args:
        with suppress(FileProblem):
            found.update(dict.fromkeys(named_paths(word, services.workspace)))
    return tuple(path for path in found if services.rules.keeping_from(path) is not None)


def only_reads(operation: str, args: tuple[str, ...], services: Services) -> bool:
    """True when an operation, with the settings above, runs nothing and reads only the repository.

    Every argument must be known to be plain: an option of the lists, a revision, or a path inside
    that no rule keeps from being read.
    """
    if operation not in PLAIN:
        return False
    words = iter(args)
    for word in words:
        if word == "--":
            return all(is_plain_operand(path, services) for path in words)
        if word in SEPARATE_VALUE and operation in ("log", "show", "diff"):
            if starts_program(next(words, "")):
                return False
        elif word.startswith("-"):
            if not is_plain_option(operation, word):
                return False
        elif operation == "branch" or not is_plain_operand(word, services):
            return False
    return True


def _reading(
    call: ResolvedCall, services: Services, program: str, operation: str, args: tuple[str, ...]
) -> Invocation:
    workspace = services.workspace
    line = shlex.join(("git", operation, *args))
    env = without_transport(services.child_env)
    timeout_ms, note = time_limit(services.max_execution_ms, TIMEOUT_MS)

    async def git(
        grant: Grant,
        words: tuple[str, ...],
        filters: tuple[OutputStream, OutputStream] | None = None,
    ) -> ProcessResult:
        spec = ProcessSpec(
            (program, "--no-pager", *words), workspace.root, env, timeout_ms, merge_stderr=True
        )
        try:
            return await run_process(grant, call, spec, filters=filters)
        except ProcessStartError as error:
            raise ToolError(str(error)) from error

    async def run(grant: Grant, progress: Progress) -> ToolResult:
        # As they are: what a mask would hide of a name could not be switched off.
        listed = await git(grant, LIST_SETTINGS)
        options = [part for setting in overrides(listed) for part in ("-c", setting)]
        words = (*options, *hardened(operation, args, services))
        process = await git(grant, words, services.masker.streams())
        return result_of(process, timeout_ms, note)

    return Invocation(
        title=title_of(line),
        effects=(workspace.effect(EffectKind.READ, workspace.root, "git"),),
        preview=CommandDisplay(line, str(workspace.root), note),
        run=run,
    )


def hardened(operation: str, args: tuple[str, ...], services: Services) -> list[str]:
    """Return the arguments with the options that keep reading from running or showing more."""
    words = [operation]
    if operation in ("diff", "log", "show"):
        words += ["--no-ext-diff", "--no-textconv", "--no-color"]
    if operation in ("diff", "log", "show", "status"):
        words.append("--ignore-submodules=all")
    words += _with_commits(args)
    if operation in ("diff", "show") or any(map(_SHOWS_CONTENT.fullmatch, args)):
        words += left_out(services, args)
    return words


def _with_commits(args: tuple[str, ...]) -> list[str]:
    """Let object names in operands stand for commits only; values of options stay."""
    end = args.index("--") if "--" in args else len(args)
    words = []
    for before, word in zip(("", *args), args[:end], strict=False):
        is_value = word.startswith("-") or before in SEPARATE_VALUE
        words.append(word if is_value else as_commits(word))
    return [*words, *args[end:]]
