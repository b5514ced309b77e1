"""What a person is asked before a call runs, and the answers they can give."""

from __future__ import annotations

from enum import Enum, auto
from pathlib import Path

from agent.ui.menu import Menu, Option
from agent.ui.render import diff_lines
from tools.definition import CommandDisplay, DiffDisplay, Risk, Source
from tools.engine.output import visible
from tools.permissions.question import Answer, Choice, PermissionRequest


class Reply(Enum):
    """An answer that is not a plain yes or no.

    No, and the model is told why; yes, and further edits are accepted too; show all of the diff.
    """

    WITH_REASON = auto()
    ACCEPT_EDITS = auto()
    SHOW_ALL = auto()


NO = Answer(Choice.NO)
SHOW_ALL_KEY = "v"


def approval_menu(
    request: PermissionRequest, root: Path, *, edits: bool = False, shortened: bool = False
) -> Menu[Answer | Reply]:
    """Return the question for `request`. Nothing is selected, and early keys do not count.

    Rules name files relative to `root`, the workspace. `edits` offers to accept further edits,
    `shortened` to show all of a diff that is not shown whole.
    """
    options = _options(request, root)
    if edits and _is_edit(request):
        label = "yes, and accept further edits here (mode accept-edits)"
        options.insert(1, Option(Reply.ACCEPT_EDITS, label, "shift-tab"))
    if shortened:
        options.append(Option(Reply.SHOW_ALL, "show the whole diff first", SHOW_ALL_KEY))
    return Menu(
        question(request), options, cancelled=NO, selected=None, guarded=True, escape="no"
    )  # fmt: skip


def question(request: PermissionRequest) -> list[tuple[str, str]]:
    """Return the styled lines above the options: what would be done, why it is asked, dangers.

    Most that asks can do harm: a word for it that always stands there would say nothing.
    """
    style, reason = "class:warning", f"asked because {visible(request.reason)}"
    if request.risk is Risk.CRITICAL:
        style, reason = "class:danger", f"critical risk · {reason}"
    lines = [("class:question", asked(request)), (style, reason)]
    invocation = request.invocation
    lines += [("class:danger", f"! high risk: {visible(text)}") for text in invocation.hazards]
    lines += [("class:danger", f"! {visible(text)}") for text in invocation.warnings]
    return lines


def asked(request: PermissionRequest) -> str:
    """Return the question itself: `Edit src/a.py (+3 −1)?`, `Run this command?`, `Call deploy?`."""
    preview, tool = request.invocation.preview, request.call.tool
    if tool.origin.source is not Source.BUILTIN:
        return f"Call {visible(tool.name)}?"
    if isinstance(preview, CommandDisplay):
        return "Run this command?"
    title = visible(request.invocation.title)
    if isinstance(preview, DiffDisplay):
        lines = diff_lines(preview)
        added = sum(line.startswith("+") for line in lines)
        removed = sum(line.startswith("-") for line in lines)
        return f"{title} (+{added} −{removed})?"
    return f"{title}?"


def _options(request: PermissionRequest, root: Path) -> list[Option[Answer | Reply]]:
    options: list[Option[Answer | Reply]] = [Option(Answer(Choice.ONCE), "yes, once", "y")]
    if request.suggested:
        rules = ", ".join(visible(_relative(rule.text, root)) for rule in request.suggested)
        options += [
            Option(Answer(Choice.SESSION), f"yes, for this session: {rules}", "s"),
            Option(
                Answer(Choice.ALWAYS), f"always in this project (in your own config): {rules}", "a"
            ),
        ]
    return [
        *options,
        Option(NO, "no, and stop", "n"),
        Option(Reply.WITH_REASON, "no, and tell the model why", "r"),
    ]


def _relative(rule: str, root: Path) -> str:
    """Return a rule as it may be written for the workspace: its path without `root`."""
    name, parenthesis, path = rule.partition("(")
    return name + parenthesis + path.removeprefix(f"{root}/")


def _is_edit(request: PermissionRequest) -> bool:
    """Tell whether the mode accept-edits would have spared this question."""
    effects = request.invocation.effects
    return (
        isinstance(request.invocation.preview, DiffDisplay)
        and bool(request.suggested)
        and all(effect.inside and not effect.sensitive for effect in effects)
    )
