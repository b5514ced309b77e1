"""Judges the parts of a command one by one: by allow rules, or because they only read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Generic, TypeVar

from tools.permissions.command_check import Checked, CheckedPart, FileRead
from tools.permissions.command_cover import suggest_command
from tools.permissions.shell import AllowedCommands
from tools.record import record

RuleT = TypeVar("RuleT")


@record
class PartVerdict(Generic[RuleT]):
    """Whether a part is allowed, by which rule (None: because it only reads), and why or why not.

    `why` follows the text of the part: "`x` is not a command that is known to only read".
    `unlisted` says that it is not allowed because nothing is known of its program.
    """

    text: str
    allowed: bool
    why: str
    rule: RuleT | None = None
    unlisted: bool = False


@record
class PartJudge(Generic[RuleT]):
    """What the rules say that a part may need.

    `path_rule` returns the allow rule for reading a real path, asked for one that writes the path
    out where True is given; `keeps` tells whether a rule keeps any file below a directory.
    """

    commands: AllowedCommands[RuleT]
    path_rule: Callable[[str, bool], RuleT | None]
    keeps: Callable[[Path], bool]

    def verdicts(self, checked: Checked) -> Iterator[PartVerdict[RuleT]]:
        """Judge every part of a line."""
        quiet = checked.helpers
        return (self._verdict(part, quiet) for part in checked.parts)

    def _verdict(self, part: CheckedPart, quiet: frozenset[str]) -> PartVerdict[RuleT]:
        text = part.part.text
        rule = None if part.foreign else self.commands.covering_starts(part.starts)
        if rule is None and part.why:
            return PartVerdict(text, False, part.why, unlisted=part.unlisted)
        if rule is None and not part.helpers <= quiet:
            return PartVerdict(text, False, "stands beside commands that do more than read")
        for file in part.files:
            why = self._problem_of(file, by_rule=rule is not None)
            if why:
                return PartVerdict(text, False, why)
        kept = next((tree for tree in part.trees if self.keeps(tree)), None)
        if rule is None and kept is not None:
            return PartVerdict(text, False, "reads files that a rule keeps from being read")
        why = "is allowed by a rule" if rule is not None else "only reads"
        return PartVerdict(text, True, why, rule)

    def _problem_of(self, file: FileRead, *, by_rule: bool) -> str:
        if file.sensitive:
            # Only a rule that writes out the path opens what asks even to be read (R40).
            return "" if self.path_rule(file.path, True) else f"reads {file.sensitive}"
        if file.inside or by_rule or self.path_rule(file.path, False):
            return ""
        return f"reads {file.path}, which is outside the workspace"


def narrow_suggestions(line: str, verdicts: list[PartVerdict[RuleT]]) -> tuple[str, ...]:
    """Return the arguments of the narrowest `run_command` rules that would allow a line.

    One for every part that is not allowed yet, where each can be said so; else the whole line.
    """
    missing = [verdict.text for verdict in verdicts if not verdict.allowed]
    prefixes = [suggest_command(text) for text in missing]
    if prefixes and all(prefix.endswith(":*") for prefix in prefixes):
        return tuple(dict.fromkeys(prefixes))
    whole = suggest_command(line)
    return (whole,) if whole else ()
