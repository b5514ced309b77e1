"""`opta tool test`: runs the tests that a tool file holds, through the path every call takes."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

from tools.actions import PlanAction
from tools.clock import elapsed_ms
from tools.commands.tool.kit import (
    DONE,
    FAILED,
    CommandError,
    Context,
    PersonExecutor,
    as_json,
    usable,
)
from tools.commands.tool.options import COMMON_OPTIONS, Option, Parsed
from tools.commands.tool.store import ToolFile
from tools.definition import (
    CommandDisplay,
    Outcome,
    ToolCall,
    ToolDefinition,
    ToolError,
    ToolResult,
    ToolTest,
)
from tools.engine.output import clipped
from tools.events import CallEvent
from tools.formats.platforms import current_platform
from tools.record import record

OPTIONS = (
    *COMMON_OPTIONS,
    Option("--test", ("NAME",), many=True),
    Option("--verbose"),
    Option("--stop-on-failure"),
    Option("--yes"),
    Option("--format", ("FORMAT",), choices=("text", "json", "junit")),
)
_NOT_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_CLEANUP_TOOL = "run_command"
_WITH_TESTS = ("cycod", "mimir")


class Status(StrEnum):
    """How a test ended."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


@record
class TestReport:
    """How one test went.

    `failures` say what was expected and what came, `output` what it said, `commands` what it ran.
    """

    __test__ = False

    test: ToolTest
    status: Status
    failures: tuple[str, ...] = ()
    output: str = ""
    duration_ms: int = 0
    commands: str = ""


def test(parsed: Parsed, context: Context) -> int:
    """Run all tests of a tool, or those named; return 1 when one fails."""
    file = context.store.find(parsed.words[0], parsed.scope)
    tool = usable(file)
    tests = _chosen(tool, parsed.texts("--test"))
    if not tests:
        raise CommandError(f"{tool.name} has no tests. {_where_tests_go(file, tool)}")
    executor = context.executor(tool, None, False)
    _confirm(list(_plan(executor, tool, tests)), parsed, context)
    runner = _Runner(tool, executor, context.store.root)
    reports = asyncio.run(runner.run(tests, stop=parsed.flag("--stop-on-failure")))
    form = parsed.text("--format", "text")
    if form == "json":
        context.out.write(as_json(_as_data(tool, reports)))
    elif form == "junit":
        context.out.write(junit(tool.name, reports))
    else:
        _tell(tool, reports, context, verbose=parsed.flag("--verbose"))
    return FAILED if any(report.status is Status.FAILED for report in reports) else DONE


def failures_of(expected: dict[str, Any], result: ToolResult, shown: str, root: Path) -> list[str]:
    """Return what of `expected` is not so. `shown` is the command line, also searched (X133)."""
    found: list[str] = []
    code = _exit_code(result)
    if "exit-code" in expected and code != expected["exit-code"]:
        got = code if code is not None else f"{result.outcome.value}: {_short(result.text)}"
        found.append(f"exit code: expected {expected['exit-code']}, got {got}")
    elif "exit-code" not in expected and not result.success:
        got = f"exit code {code}" if code is not None else _short(result.text)
        found.append(f"expected success, got {result.outcome.value} ({got})")
    text = expected.get("output-contains")
    if text is not None and text not in result.text:
        found.append(f"output: expected it to contain {text!r}, got {_short(result.text)}")
    words = expected.get("output-contains-any", ())
    if words and not any(word in result.text or word in shown for word in words):
        told = ", ".join(repr(word) for word in words)
        found.append(f"output: expected one of {told}, got {_short(result.text)}")
    for key, kind, there in (
        ("file-exists", "file", Path.is_file), ("directory-exists", "directory", Path.is_dir),
    ):  # fmt: skip
        if key in expected and not there(root / expected[key]):
            found.append(f"{kind}: expected {expected[key]} to exist, there is none")
    return found


def _where_tests_go(file: ToolFile, tool: ToolDefinition) -> str:
    if tool.origin.format in _WITH_TESTS:
        return f"Add some below `tests` with `opta tool edit {tool.name}`."
    return f"Its format has none: {file.place}. Try it with `opta tool run {tool.name}`."


class _Runner:
    """Runs tests, those at the same time that work in different directories."""

    def __init__(self, tool: ToolDefinition, executor: PersonExecutor, root: Path) -> None:
        self.tool = tool
        self.executor = executor
        self.root = root
        self.stopped = False

    async def run(self, tests: Sequence[ToolTest], *, stop: bool) -> list[TestReport]:
        # By position: nothing keeps two tests of a file from having the same name.
        reports: dict[int, TestReport] = {}
        groups: dict[str, list[tuple[int, ToolTest]]] = {}
        for position, one in enumerate(tests):
            groups.setdefault("" if stop else self._directory(one), []).append((position, one))

        async def in_order(members: Sequence[tuple[int, ToolTest]]) -> None:
            for position, one in members:
                if self.stopped:
                    report = TestReport(one, Status.SKIPPED, ("an earlier test failed",))
                else:
                    report = await self._one(one)
                reports[position] = report
                self.stopped = stop and (self.stopped or report.status is Status.FAILED)

        async with asyncio.TaskGroup() as group:
            for members in groups.values():
                group.create_task(in_order(members))
        return [reports[position] for position in range(len(tests))]

    def _directory(self, one: ToolTest) -> str:
        """Return the directory a test works in, as far as the file tells (X134)."""
        action = self.tool.action
        text = action.environment.working_directory if isinstance(action, PlanAction) else ""
        for name, value in one.parameters.items():
            text = text.replace(f"{{{name}}}", str(value))
        return text

    async def _one(self, one: ToolTest) -> TestReport:
        reason = _elsewhere(one)
        if reason:
            return TestReport(one, Status.SKIPPED, (reason,))
        started = time.monotonic()
        shown = _commands(self.executor, self.tool, one)
        try:
            result = await self.executor.run(_call(self.tool, one), _ignore)
            failures = failures_of(dict(one.expected), result, shown, self.root)
        finally:
            trouble = await asyncio.shield(self._clean_up(one))
        took_ms = elapsed_ms(started)
        status = Status.FAILED if failures or trouble else Status.PASSED
        return TestReport(one, status, (*failures, *trouble), result.text, took_ms, shown)

    async def _clean_up(self, one: ToolTest) -> list[str]:
        trouble = []
        for number, command in enumerate(one.cleanup):
            arguments = json.dumps({"command": command})
            call = ToolCall(f"cleanup-{one.name}-{number}", _CLEANUP_TOOL, arguments)
            result = await self.executor.run(call, _ignore)
            if not result.success:
                trouble.append(f"cleanup failed: {command}: {_short(result.text)}")
        return trouble


def _call(tool: ToolDefinition, one: ToolTest) -> ToolCall:
    return ToolCall(f"test-{one.name}", tool.name, json.dumps(dict(one.parameters)))


def _commands(executor: PersonExecutor, tool: ToolDefinition, one: ToolTest) -> str:
    """Return what a test runs on this machine, for people to read; nothing if it cannot run."""
    try:
        preview = executor.prepare(_call(tool, one)).preview
    except ToolError:
        return ""
    return preview.command if isinstance(preview, CommandDisplay) else ""


def _elsewhere(one: ToolTest) -> str:
    """Return why a test is not run on this machine, or nothing."""
    platform = current_platform()
    if not one.platforms or platform in one.platforms:
        return ""
    return f"it is for {', '.join(one.platforms)}, not for {platform}"


def junit(name: str, reports: Sequence[TestReport]) -> str:
    """Return the reports as JUnit XML, which continuous integration reads."""
    from xml.etree.ElementTree import Element, SubElement, indent, tostring

    suite = Element("testsuite", {
        "name": name, "tests": str(len(reports)),
        "failures": str(_count(reports, Status.FAILED)), "errors": "0",
        "skipped": str(_count(reports, Status.SKIPPED)),
        "time": f"{sum(report.duration_ms for report in reports) / 1000:.3f}",
    })  # fmt: skip
    for report in reports:
        case = SubElement(suite, "testcase", {
            "classname": name, "name": report.test.name,
            "time": f"{report.duration_ms / 1000:.3f}",
        })  # fmt: skip
        if report.status is Status.FAILED:
            failure = SubElement(case, "failure", {"message": _xml(report.failures[0])})
            failure.text = _xml("\n".join(report.failures))
        elif report.status is Status.SKIPPED:
            SubElement(case, "skipped", {"message": _xml("; ".join(report.failures))})
        if report.output:
            SubElement(case, "system-out").text = _xml(report.output)
    indent(suite)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + tostring(suite, "unicode") + "\n"


def _xml(text: str) -> str:
    """Return `text` without what XML 1.0 cannot hold."""
    return _NOT_XML.sub("\ufffd", text)


def _chosen(tool: ToolDefinition, names: Sequence[str]) -> list[ToolTest]:
    known = [one.name for one in tool.tests]
    for name in names:
        if name not in known:
            have = f"It has {', '.join(known)}." if known else "It has none."
            raise CommandError(f"{tool.name} has no test {name!r}. {have}")
    return [one for one in tool.tests if not names or one.name in names]


def _confirm(lines: Sequence[str], parsed: Parsed, context: Context) -> None:
    """Show what would run and ask once (X134). Raises CommandError."""
    if parsed.flag("--yes"):
        if parsed.flag("--verbose") and parsed.text("--format", "text") == "text":
            context.note("\n".join(lines))
        return
    context.note("\n".join(lines))
    answer = context.confirm("Run them?")
    if answer is None:
        raise CommandError(
            "Nothing was run: nobody can be asked here. Add --yes to run the tests unasked."
        )
    if not answer:
        raise CommandError("Nothing was run.")


def _plan(
    executor: PersonExecutor, tool: ToolDefinition, tests: Sequence[ToolTest]
) -> Iterator[str]:
    yield f"The tests of {tool.name} run these commands:"
    for one in tests:
        yield f"  {one.name}: {json.dumps(dict(one.parameters), ensure_ascii=False)}"
        reason = _elsewhere(one)
        if reason:
            yield f"    none: {reason}"
            continue
        commands = _commands(executor, tool, one)
        yield from (f"    {line}" for line in commands.splitlines())
        yield from (f"    cleanup: {command}" for command in one.cleanup)


def _tell(
    tool: ToolDefinition, reports: Sequence[TestReport], context: Context, *, verbose: bool
) -> None:
    for report in reports:
        reason = f": {report.failures[0]}" if report.status is Status.SKIPPED else ""
        seconds = f" ({report.duration_ms / 1000:.2f} s)" if report.duration_ms else ""
        context.say(f"{report.status.value}: {report.test.name}{reason}{seconds}")
        if report.status is Status.FAILED:
            for failure in report.failures:
                context.say(f"  {failure}")
        if verbose and report.status is not Status.SKIPPED:
            for line in report.commands.splitlines():
                context.say(f"  $ {line}")
            for line in report.output.splitlines():
                context.say(f"  | {line}")
    counts = [f"{_count(reports, status)} {status.value}" for status in Status]
    context.say(f"{tool.name}: {', '.join(counts)}")


def _as_data(tool: ToolDefinition, reports: Sequence[TestReport]) -> dict[str, Any]:
    return {
        "tool": tool.name,
        **{status.value: _count(reports, status) for status in Status},
        "tests": [
            {
                "name": report.test.name,
                "status": report.status.value,
                "failures": list(report.failures),
                "output": report.output,
                "duration_ms": report.duration_ms,
            }
            for report in reports
        ],
    }


def _count(reports: Sequence[TestReport], status: Status) -> int:
    return sum(report.status is status for report in reports)


def _exit_code(result: ToolResult) -> int | None:
    if result.exit_code is not None:
        return result.exit_code
    return 0 if result.outcome is Outcome.OK else None


def _short(text: str) -> str:
    return repr(clipped(text, 200))


def _ignore(_: CallEvent) -> None:
    """Tests report their output at the end."""
