"""Reads a tool file the way it is loaded, and tells everything that is wrong with it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tools.actions import CodeAction
from tools.definition import Origin, Scope, Source, ToolDefinition
from tools.formats import read
from tools.formats.problems import ToolFileError, ToolProblem
from tools.record import record
from tools.sources.plan_checks import check_plan


@record
class Trial:
    """What a text is as a tool file: a definition, or errors, and in both cases warnings.

    `read` is what it defines even where that cannot be run.
    """

    definition: ToolDefinition | None
    errors: tuple[ToolProblem, ...] = ()
    warnings: tuple[ToolProblem, ...] = ()
    read: ToolDefinition | None = None


def try_text(text: str | bytes, path: Path, scope: Scope = Scope.LOCAL) -> Trial:
    """Read `text` as if it stood at `path`."""
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    try:
        definitions, warnings = read(data, Origin(Source.CUSTOM, "", scope, path))
    except ToolFileError as error:
        return Trial(None, error.problems, error.warnings)
    (definition,) = definitions
    check = check_plan(definition, data, expressions=True)
    problems = (*check.problems, *_code_problems(definition))
    return Trial(
        None if problems else check.tool,
        problems,
        (*warnings, *check.warnings(data)),
        read=check.tool,
    )


def _code_problems(tool: ToolDefinition) -> Iterator[ToolProblem]:
    """Yield where the program of a tool does not parse."""
    action = tool.action
    if not isinstance(action, CodeAction):
        return
    from tools.code.syntax import fault

    found = fault(action, Path.cwd())
    if found is not None:
        first = action.first_line
        line = None if first is None else first + found.line - 1
        where = "" if first is not None else f" in line {found.line} of it"
        yield ToolProblem(
            tool.origin.path, f"does not parse{where}: {found.message}", line, key="$.code"
        )
