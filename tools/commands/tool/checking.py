"""`opta tool validate`: everything that is wrong with tool files, at once, and the safe repairs."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tools.actions import AliasAction, PlanAction, UseTool
from tools.commands.tool.kit import DONE, FAILED, CommandError, Context, UsageError, as_json
from tools.commands.tool.options import COMMON_OPTIONS, Option, Parsed, nearest
from tools.commands.tool.store import StoreError, ToolFile, ToolStore, decoded, hidden, read_bytes
from tools.commands.tool.trial import Trial, try_text
from tools.definition import Scope, ToolDefinition
from tools.engine.compose import MAX_DEPTH
from tools.formats.cycod_steps import COMMAND_KEYS
from tools.formats.problems import ToolProblem
from tools.formats.yaml_repair import NOT_YAML, find_unquoted, with_blocks
from tools.record import record
from tools.sources.files import SEVERAL
from tools.yamltext import Document, KeyPath, json_path

OPTIONS = (
    *COMMON_OPTIONS,
    Option("--all"),
    Option("--fix"),
    Option("--detailed"),
    Option("--format", ("FORMAT",), choices=("text", "json")),
)


@record
class Report:
    """What is wrong with one file. `diff` is what `--fix` changed, empty when nothing."""

    file: ToolFile
    problems: tuple[ToolProblem, ...]
    diff: str = ""

    @property
    def valid(self) -> bool:
        """True when nothing is an error."""
        return all(problem.severity != "error" for problem in self.problems)


def validate(parsed: Parsed, context: Context) -> int:
    """Check one tool, or all; return 1 when any has an error."""
    files = _chosen(parsed, context)
    reports = [_report(file, context, fix=parsed.flag("--fix")) for file in files]
    # What no file has, such as the profile that was asked for.
    nowhere = [p for p in context.store.problems if p.path is None and parsed.flag("--all")]
    for problem in nowhere:
        context.note(f"{problem.severity}: {problem}")
    if parsed.text("--format", "text") == "json":
        context.out.write(as_json([_as_data(report) for report in reports]))
    else:
        for report in reports:
            _tell(report, context, detailed=parsed.flag("--detailed"))
        if parsed.flag("--all"):
            wrong = sum(not report.valid for report in reports)
            context.say(f"{len(reports)} checked, {wrong} with errors.")
    return DONE if not nowhere and all(report.valid for report in reports) else FAILED


def problems_of(file: ToolFile, trial: Trial, store: ToolStore) -> tuple[ToolProblem, ...]:
    """Return all that is wrong with a file, by its place in it."""
    found = [*trial.errors, *trial.warnings, *(p for p in store.refused if p.path == file.path)]
    if trial.read is not None:
        tools = {f.name: f.definition for f in reversed(store.files()) if f.definition is not None}
        tools.setdefault(trial.read.name, trial.read)
        notes = [*_missing_tools(trial.read, tools)]
        if any(covered.path == file.path for covered in hidden(store.files())):
            notes.append(_Note(("name",), "a nearer tool of this name hides it", warning=True))
        found += [note.placed(file.document) for note in notes]
    placed = sorted(found, key=lambda p: (p.line or 0, p.column or 0, p.severity))
    return tuple(dict.fromkeys(placed))


@record
class _Note:
    """Something wrong at a key; a tool of one command has no key `steps`."""

    where: KeyPath
    message: str
    warning: bool = False

    def placed(self, document: Document) -> ToolProblem:
        where = self.where
        if where[:1] == ("steps",) and ("steps",) not in document.positions:
            where = where[2:]
        where += next(((key,) for key in COMMAND_KEYS if (*where, key) in document.positions), ())
        line, column = document.position(where)
        return ToolProblem(
            document.path, self.message, line, column, json_path(where), warning=self.warning
        )


def _chosen(parsed: Parsed, context: Context) -> list[ToolFile]:
    if parsed.flag("--all"):
        if parsed.words:
            raise UsageError("validate takes a NAME or --all, not both")
        return context.store.files(parsed.scope)
    if not parsed.words:
        raise UsageError("validate needs the NAME of a tool, or --all")
    word = parsed.words[0]
    if "/" in word or Path(word).suffix in (".yaml", ".yml", ".json", SEVERAL):
        path = Path(word).expanduser()
        read_bytes(path)
        if path.suffix == SEVERAL:
            return _tables_in(path, parsed, context)
        return [ToolFile(path.stem, Scope.LOCAL, path)]
    return [context.store.find(word, parsed.scope)]


def _tables_in(path: Path, parsed: Parsed, context: Context) -> list[ToolFile]:
    profile = parsed.text("--profile")
    files = ToolStore(context.store.root, [(Scope.LOCAL, path.absolute())], profile).files()
    if not files:
        raise CommandError(f"{path} has no table [custom_tools.NAME], so it defines no tool")
    return files


def _report(file: ToolFile, context: Context, *, fix: bool) -> Report:
    if file.is_table:
        covered = any(each is file for each in hidden(context.store.files()))
        note = ToolProblem(
            file.path, "a nearer tool of this name hides it", file.line, warning=True
        )
        return Report(file, (*file.problems, *((note,) if covered else ())))
    try:
        data = read_bytes(file.path)
    except StoreError as error:
        known = file.problems or (ToolProblem(file.path, str(error)),)
        return Report(file, known)
    diff = _fix(file, data, context) if fix else ""
    trial = try_text(read_bytes(file.path) if diff else data, file.path, file.scope)
    return Report(file, problems_of(file, trial, context.store), diff)


def _fix(file: ToolFile, data: bytes, context: Context) -> str:
    """Make the repairs that change nothing of what the file means; return the diff (X33)."""
    if file.path.suffix.lower() == ".json":
        return ""
    text = data.decode("utf-8", "surrogateescape")
    if "\udc80" <= max(text, default="") <= "\udcff" or not find_unquoted(text):
        return ""
    shown = context.shown(file.path)
    if not context.store.owns(file.path):
        context.note(f"{shown} is in none of opta's own directories and stays as it is.")
        return ""
    text = decoded(data, file.path)
    fixed = with_blocks(text)
    context.store.write(file.path, fixed, file.scope)
    lines = difflib.unified_diff(
        text.splitlines(), fixed.splitlines(), shown, f"{shown} (fixed)", lineterm=""
    )
    return "\n".join(lines)


def _missing_tools(tool: ToolDefinition, tools: Mapping[str, ToolDefinition]) -> Iterator[_Note]:
    """Yield the tools that this one needs and nobody has, and rings of tools (X128, X129)."""
    match tool.action:
        case AliasAction(base=base, defaults=defaults):
            message = _broken_chain(tool.name, base, tools) or _ring(tool.name, base, tools)
            if message:
                yield _Note(("base-tool",), message)
            else:
                yield from _unknown_defaults(defaults, tools[base])
        case PlanAction(steps=steps):
            for position, step in enumerate(steps):
                if not isinstance(step.command, UseTool):
                    continue
                used = step.command.name
                message = _ring(tool.name, used, tools)
                if used not in tools:
                    message = f"there is no tool {used}{nearest(used, tools)}"
                if message:
                    yield _Note(("steps", position, "use-tool"), message)


def _ring(name: str, used: str, tools: Mapping[str, ToolDefinition]) -> str:
    """Say how `used` leads back to `name`, the tool that uses it; empty when it does not."""
    users = {used: name}
    todo = [used]
    while todo and name not in users:
        user = todo.pop()
        for other in _used(tools.get(user)):
            if other not in users:
                users[other] = user
                todo.append(other)
    if name not in users:
        return ""
    ring = [name]
    while len(ring) == 1 or ring[-1] != name:
        ring.append(users[ring[-1]])
    return f"these tools use each other: {' -> '.join(reversed(ring))}"


def _used(tool: ToolDefinition | None) -> list[str]:
    """Return the names of the tools that a tool is made of."""
    match tool.action if tool else None:
        case AliasAction(base=base):
            return [base]
        case PlanAction(steps=steps):
            return [step.command.name for step in steps if isinstance(step.command, UseTool)]
    return []


def _unknown_defaults(defaults: Iterable[str], base: ToolDefinition) -> Iterator[_Note]:
    """Yield what an alias sets that its tool does not have; of other aliases nothing is known."""
    if not isinstance(base.action, PlanAction) or not base.action.parameters:
        return
    known = base.action.parameters
    for name in defaults:
        if name not in known:
            message = f"{base.name} has no parameter {name}{nearest(name, known)}"
            yield _Note(("default-parameters", name), message, warning=True)


def _broken_chain(name: str, base: str, tools: Mapping[str, ToolDefinition]) -> str:
    """Return why aliases do not lead to a tool; empty when they do."""
    chain = [name]
    while True:
        if base in chain:
            return f"the aliases go in a ring: {' -> '.join([*chain, base])}"
        if base not in tools:
            return f"base tool {base} not found{nearest(base, tools)}"
        chain.append(base)
        if len(chain) > MAX_DEPTH:
            return f"more than {MAX_DEPTH} tools stand for one another"
        action = tools[base].action
        if not isinstance(action, AliasAction):
            return ""
        base = action.base


def _tell(report: Report, context: Context, *, detailed: bool) -> None:
    file = report.file
    if report.diff:
        context.say(f"Fixed {context.shown(file.path)}:\n{report.diff}")
    if report.valid:
        warnings = len(report.problems)
        more = f", {warnings} warning{'s' if warnings > 1 else ''}" if warnings else ""
        context.say(f"{file.name}: valid{more} ({context.shown(file.path)})")
    for problem in report.problems:
        context.say(f"{problem.severity}: {replace(problem, path=_relative(problem, context))}")
        if detailed:
            _show_line(problem, file, context)
    if detailed:
        _tell_details(file, context)
    if _fixable(report) and not report.diff and context.store.owns(file.path):
        context.say("Some of this can be repaired: opta tool validate --fix")


def _fixable(report: Report) -> bool:
    return any(NOT_YAML in problem.message for problem in report.problems)


def _relative(problem: ToolProblem, context: Context) -> Path | None:
    return Path(context.shown(problem.path)) if problem.path else None


def _show_line(problem: ToolProblem, file: ToolFile, context: Context) -> None:
    try:
        lines = decoded(read_bytes(file.path), file.path).split("\n")
    except StoreError:
        return
    if problem.line and problem.line <= len(lines):
        context.say(f"    {problem.line} | {lines[problem.line - 1]}")


def _tell_details(file: ToolFile, context: Context) -> None:
    tool = file.definition
    if tool is None:
        return
    context.say(f"  format: {tool.origin.format}, scope: {file.scope.value}")
    context.say(f"  risk: {tool.risk.name.lower()}, available: {tool.unavailable or 'yes'}")
    context.say(f"  parameters: {', '.join(tool.parameters.get('properties', {})) or 'none'}")
    if isinstance(tool.action, PlanAction):
        context.say(f"  steps: {', '.join(step.name for step in tool.action.steps)}")
    context.say(f"  tests: {', '.join(test.name for test in tool.tests) or 'none'}")


def _as_data(report: Report) -> dict[str, Any]:
    return {
        "name": report.file.name,
        "path": str(report.file.path),
        "scope": report.file.scope.value,
        "valid": report.valid,
        "fixed": bool(report.diff),
        "problems": [
            {
                "severity": problem.severity,
                "line": problem.line,
                "column": problem.column,
                "key": problem.key,
                "message": problem.message,
                "fix": problem.hint,
            }
            for problem in report.problems
        ],
    }
