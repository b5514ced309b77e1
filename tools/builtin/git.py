"""`git`: reading a repository without a question and without running what its settings name.

A repository brings settings along (`.git/config`) that make plain reading run programs: file
system monitors, external diffs, text converters, filters, pagers, hooks. Operations that only read
are run with all of these off (R12); everything else asks, as a command line (E137).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import prompts
from tools.builtin.git_paths import as_commits, is_plain_operand, left_out, named_paths
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
from tools.engine.process import (
    ProcessResult,
    ProcessSpec,
    ProcessStartError,
    run_process,
)
from tools.files.workspace import FileProblem
from tools.permissions.grant import Grant

OPERATIONS = ("status", "diff", "log", "show", "add", "commit", "branch", "checkout")
TIMEOUT_MS = 120_000

_SETTINGS = (
    "core.fsmonitor=false", "core.hooksPath=/dev/null", "core.pager=cat", "diff.external=",
    "diff.submodule=short", "diff.ignoreSubmodules=all", "status.submoduleSummary=false",
    "log.showSignature=false", "gpg.program=false", "gpg.openpgp.program=false",
    "gpg.x509.program=false", "gpg.ssh.program=false", "core.sshCommand=false",
    "safe.bareRepository=explicit",
)  # fmt: skip
"""Settings of the command line, which stand above those of the repository."""

_ENVIRONMENT = {
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
}
"""A partial clone fetches what it lacks when it is read; no transport may start."""

_DIFF_OPTIONS = frozenset((
    "-p", "--patch", "-u", "-s", "--no-patch", "--raw", "--stat", "--numstat", "--shortstat",
    "--summary", "--name-only", "--name-status", "--check", "-w", "-b", "--ignore-all-space",
    "--ignore-space-change", "--ignore-blank-lines", "--minimal", "--patience", "--histogram",
    "-M", "-C", "-R", "--no-renames", "--find-renames", "--full-index", "--no-color",
    "--color=never", "--word-diff", "--word-diff=plain", "--function-context", "-W", "-z",
))  # fmt: skip
_LOG_OPTIONS = _DIFF_OPTIONS | frozenset((
    "--oneline", "--graph", "--all", "--branches", "--tags", "--remotes", "--decorate",
    "--no-decorate", "--merges", "--no-merges", "--first-parent", "--reverse", "--follow",
    "-i", "--abbrev-commit", "--date-order", "--topo-order", "--left-right", "--cherry-pick",
    "--no-notes",
))  # fmt: skip
_STATUS_OPTIONS = frozenset((
    "-s", "--short", "-b", "--branch", "--porcelain", "--porcelain=v1", "--porcelain=v2",
    "--long", "-z", "-u", "-uno", "-unormal", "-uall", "--untracked-files=no",
    "--untracked-files=normal", "--untracked-files=all", "--ignored", "--show-stash",
    "--ahead-behind", "--no-ahead-behind", "--no-renames",
))  # fmt: skip
_BRANCH_OPTIONS = frozenset((
    "-a", "--all", "-r", "--remotes", "-v", "-vv", "--verbose", "--list", "--show-current",
))  # fmt: skip
_PLAIN = {
    "status": _STATUS_OPTIONS,
    "diff": _DIFF_OPTIONS | {"--cached", "--staged", "--merge-base"},
    "log": _LOG_OPTIONS,
    "show": _LOG_OPTIONS,
    "branch": _BRANCH_OPTIONS,
}
"""Options that only choose what is shown. What is not listed asks: there is no list of bad ones."""

_WITH_VALUE = re.compile(
    r"-(n|U|S|G)(?P<short>.+)|-\d+"
    r"|--(max-count|skip|since|until|after|before|author|committer|grep|date|unified|stat"
    r"|diff-filter|abbrev|format|pretty|inter-hunk-context|decorate|find-renames)=(?P<long>.*)",
    re.DOTALL,
)
_SEPARATE_VALUE = frozenset({"-n", "--max-count", "--skip", "--since", "--until", "--author",
                             "--grep", "-S", "-G"})  # fmt: skip
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
    plain = _PLAIN.get(operation)
    if plain is None:
        return False
    words = iter(args)
    for word in words:
        if word == "--":
            return all(is_plain_operand(path, services) for path in words)
        if word in _SEPARATE_VALUE and operation in ("log", "show", "diff"):
            if _starts_program(next(words, "")):
                return False
        elif word.startswith("-"):
            if word not in plain and not _plain_value(operation, word):
                return False
        elif operation == "branch" or not is_plain_operand(word, services):
            return False
    return True


def _plain_value(operation: str, word: str) -> bool:
    match = _WITH_VALUE.fullmatch(word)
    if operation not in ("log", "show", "diff") or match is None:
        return False
    return not _starts_program(match["long"] or match["short"] or "")


def _starts_program(value: str) -> bool:
    """`%G?` and its kin in a format make git start the program that checks signatures."""
    return "%G" in value or "%(signature" in value


def _reading(
    call: ResolvedCall, services: Services, program: str, operation: str, args: tuple[str, ...]
) -> Invocation:
    workspace = services.workspace
    line = shlex.join(("git", operation, *args))
    env = {k: v for k, v in services.child_env.items() if not k.startswith("GIT_")} | _ENVIRONMENT
    timeout_ms, note = time_limit(services, TIMEOUT_MS)

    async def git(grant: Grant, *argv: str) -> ProcessResult:
        spec = ProcessSpec(
            (program, "--no-pager", *argv), workspace.root, env, timeout_ms, merge_stderr=True
        )
        try:
            return await run_process(grant, call, spec, filters=services.masker.streams())
        except ProcessStartError as error:
            raise ToolError(str(error)) from error

    async def run(grant: Grant, progress: Progress) -> ToolResult:
        listed = await git(grant, "config", "--list", "--show-scope", "--name-only")
        overrides = [*_SETTINGS, *neutralised(_settings(listed))]
        options = [part for setting in overrides for part in ("-c", setting)]
        process = await git(grant, *options, *hardened(operation, args, services))
        return result_of(process, timeout_ms, note)

    return Invocation(
        title=title_of(line),
        effects=(workspace.effect(EffectKind.READ, workspace.root, "git"),),
        preview=CommandDisplay(line, str(workspace.root), note),
        run=run,
    )


def _settings(listed: ProcessResult) -> list[str]:
    output = listed.stdout
    text = (output.head + output.tail).decode("utf-8", "surrogateescape")
    if listed.exit_code != 0 or output.total_bytes > len(output.head) + len(output.tail):
        raise ToolError(
            "The settings of this repository cannot be checked, so git was not run: "
            f"{text[:500].strip() or 'no output'}. Use run_command, so that the user is asked."
        )
    return text.splitlines()


def neutralised(settings: Iterable[str]) -> list[str]:
    """Return settings that switch off the programs which a repository's own settings name.

    `settings` are lines of `git config --list --show-scope --name-only`. Those of the user's own
    files (git-lfs, for one) stay: they do not come with the project. Raises ToolError for what
    cannot be switched off.
    """
    found = set()
    for line in settings:
        scope, _, name = line.partition("\t")
        if scope not in ("local", "worktree"):
            continue
        section, _, rest = name.partition(".")
        driver, _, key = rest.rpartition(".")
        programs = {"filter": ("clean", "smudge", "process"), "diff": ("command", "textconv")}
        if name == "core.worktree" or ("=" in driver and section in programs):
            raise ToolError(
                f"The settings of this repository hold {name}, which reading could not be kept "
                "safe from. Use run_command, so that the user is asked."
            )
        if driver and key in programs.get(section, ()):
            found.add(f"{name}=")
            if section == "filter":
                found.add(f"filter.{driver}.required=false")
    return sorted(found)


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
        is_value = word.startswith("-") or before in _SEPARATE_VALUE
        words.append(word if is_value else as_commits(word))
    return [*words, *args[end:]]
