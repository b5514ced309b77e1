"""Shows what a project brings along and asks whether opta may obey it (R24, R25)."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from agent.ui.ansi import Colour, detect, paint
from agent.ui.menu import Option
from agent.ui.screen import make_output
from agent.ui.select import select
from agent.ui.wrap import hanging
from tools.engine.output import has_unseen, visible
from tools.permissions.trust import ProjectFile, Trust, TrustReport

if TYPE_CHECKING:
    from tools.sources.team.tools import Waiting

SHOWN_INSTRUCTIONS = 40
"""How many lines of AGENTS.md are shown: it tells the model something, it runs nothing."""


_ANSWERED = {
    Trust.NOTHING: "Not trusted: nothing of the project runs or counts.",
    Trust.READING: "Trusted to be read: none of its tools is used.",
    Trust.RUNNING: "Trusted, exactly as shown.",
}


def answers(without: str) -> list[Option[Trust]]:
    """Return the answers to the question of trust, no first; `without` says what no means."""
    return [
        Option(Trust.NOTHING, f"no, {without}", "n"),
        Option(
            Trust.READING,
            "read only: its settings and AGENTS.md count, none of its tools is used",
            "r",
        ),
        Option(Trust.RUNNING, "yes, trust exactly this, its tools too", "y"),
    ]


def ask_for_trust(report: TrustReport, changed: str) -> Trust:
    """Ask the person how far they trust exactly what they are shown.

    `changed` is the diff to what they trusted before, empty when they never did. The answer is no
    when there is no terminal to ask in.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return Trust.NOTHING
    columns = make_output().get_size().columns
    sys.stdout.write(describe(report, changed, columns, detect()) + "\n")
    sys.stdout.flush()
    options = answers("work here without it: nothing of the project runs or counts")
    trust = select("Trust what this project brings?", options, cancelled=Trust.NOTHING)
    sys.stdout.write(f"{_ANSWERED[trust]}\n")
    return trust


def describe(report: TrustReport, changed: str, columns: int, colour: Colour) -> str:
    """Return everything the question is about, by content, with nothing in it invisible."""
    lines = [("bold", f"{report.root} wants to be trusted with:")]
    if changed:
        lines = [("bold", f"{report.root} was trusted, but it has changed:")]
        lines += [(_diff_style(line), f"  {line}") for line in changed.rstrip("\n").split("\n")]
    else:
        lines += _contents(report)
    return painted(
        lines, [report.instructions, changed, *(file.text for file in report.files)],
        columns, colour,
    )  # fmt: skip


def describe_waiting(team: str, waiting: Sequence[Waiting], columns: int, colour: Colour) -> str:
    """Return what a team wants to be used, by content: new files whole, changed ones as a diff."""
    from tools.files.diffs import unified_diff

    lines: list[tuple[str, str]] = []
    for one in waiting:
        lines.append(("bold", f"team {team}: {one.title}, {one.file.path}:"))
        if one.before is None:
            lines += [("", f"    {line}") for line in one.file.text.rstrip("\n").split("\n")]
        else:
            changed = unified_diff(one.before, one.file.text, one.file.path)
            lines += [(_diff_style(line), f"  {line}") for line in changed.split("\n")]
    return painted(lines, [one.file.text for one in waiting], columns, colour)


def painted(
    lines: Sequence[tuple[str, str]], texts: Iterable[str], columns: int, colour: Colour
) -> str:
    """Return styled lines for the terminal, with a warning if `texts` hold what nobody sees."""
    lines = list(lines)
    if any(has_unseen(text) for text in texts):
        lines.append(("bold red", "! it holds invisible characters, shown as escapes above"))
    return "\n".join(
        paint(piece, style, colour)
        for style, line in lines
        for piece in hanging(visible(line), columns)
    )


def _contents(report: TrustReport) -> Iterator[tuple[str, str]]:
    for file in report.settings:
        yield from _whole(file)
    for tool in report.tools:
        yield "bold", f"tool {tool.name} ({tool.path}) runs:"
        yield from (("", f"    {line}") for line in tool.command.split("\n"))
        if tool.rest:
            yield from (("dim", f"  {line}") for line in tool.rest.split("\n"))
    readable = {tool.path for tool in report.tools}
    for file in report.tool_files:
        if file.path not in readable:
            yield from _whole(file)
    if report.instructions:
        lines = report.instructions.rstrip("\n").split("\n")
        size = "1 line" if len(lines) == 1 else f"{len(lines)} lines"
        yield "bold", f"instructions for the model (AGENTS.md, {size}):"
        yield from (("", f"    {line}") for line in lines[:SHOWN_INSTRUCTIONS])
        if len(lines) > SHOWN_INSTRUCTIONS:
            yield "dim", f"    … {len(lines) - SHOWN_INSTRUCTIONS} more lines"


def _whole(file: ProjectFile) -> Iterator[tuple[str, str]]:
    yield "bold", f"{file.path}:"
    if file.problem:
        yield "yellow", f"    {file.problem}"
    yield from (("", f"    {line}") for line in file.text.rstrip("\n").split("\n"))


def _diff_style(line: str) -> str:
    if line.startswith("+"):
        return "green"
    return "red" if line.startswith("-") else ""
