"""Finds rules that do nothing: that another one hides, or that no call can match."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from tools.definition import EffectKind
from tools.permissions.paths import PathPattern
from tools.permissions.rule_grammar import ByName, ByPath, Pattern, Rule, Verdict, pattern_of
from tools.permissions.shell import CommandPattern
from tools.record import record

_SUBJECTS = {EffectKind.READ: "read_file", EffectKind.WRITE: "write_file"}
_RANK = {Verdict.DENY: 0, Verdict.ASK: 1, Verdict.ALLOW: 2}
_KINDS = frozenset(("run_command", *_SUBJECTS.values()))


@record
class RuleProblem:
    """A rule of no use, why in words, and the rule that makes it so if there is one."""

    rule: Rule
    message: str
    by: Rule | None = None

    def __str__(self) -> str:
        """Say it in one line."""
        return f"{self.rule.origin}: {self.rule.verdict} {self.rule.text}: {self.message}"


def review(
    rules: Iterable[Rule], root: Path, tool_names: Collection[str] | None = None
) -> list[RuleProblem]:
    """Return the problems of `rules`, in their order.

    `tool_names` are all tools there are, where that is known: a rule may name one that is gone.
    """
    seen = list(rules)
    patterns = [pattern_of(rule) for rule in seen]
    found = []
    for place, (rule, pattern) in enumerate(zip(seen, patterns, strict=True)):
        message = _never(rule, pattern, tool_names)
        if message:
            found.append(RuleProblem(rule, message))
            continue
        for other in _hiding(place, seen, patterns, root):
            stricter = _RANK[other.verdict] < _RANK[rule.verdict]
            what = "is never reached" if stricter else "adds nothing"
            message = f"{what}: {other.verdict} {other.text} ({other.origin}) comes first"
            found.append(RuleProblem(rule, message, other))
            break
    return found


def _never(rule: Rule, pattern: Pattern, tool_names: Collection[str] | None) -> str:
    if isinstance(pattern, CommandPattern) and pattern.text.endswith("*"):
        words = pattern.text.rstrip("*").rstrip()
        return f"matches only this very text; for all that begins so write run_command({words}:*)"
    if isinstance(pattern, ByName) and tool_names is not None:
        known = {pattern.name, pattern.name.removeprefix("custom."), pattern.name[len("custom_") :]}
        if pattern.name not in _KINDS and known.isdisjoint(tool_names):
            return "never matches: there is no tool of this name here"
    return ""


def _hiding(place: int, rules: list[Rule], patterns: list[Pattern], root: Path) -> Iterator[Rule]:
    mine = rules[place]
    for index, (rule, pattern) in enumerate(zip(rules, patterns, strict=True)):
        stricter = _RANK[rule.verdict] < _RANK[mine.verdict]
        same = rule.verdict is mine.verdict and rule.tool_digest in ("", mine.tool_digest)
        equal = pattern == patterns[place] and rule.tool_digest == mine.tool_digest
        earlier = index < place if equal else index != place
        covers = _covers(pattern, patterns[place], root, generous=rule.verdict is Verdict.DENY)
        if covers and earlier and (stricter or same):
            yield rule


def _covers(wide: Pattern, narrow: Pattern, root: Path, *, generous: bool) -> bool:
    """Tell whether all that `narrow` matches is surely matched by `wide`."""
    match wide, narrow:
        case CommandPattern(), CommandPattern():
            words = narrow.words or tuple(narrow.text.split())
            begins = bool(wide.words) and words[: len(wide.words)] == wide.words
            return begins or wide in (narrow, CommandPattern())
        case ByName(), CommandPattern():
            return wide.name == "run_command"
        case ByName(), ByPath():
            return wide.name == _SUBJECTS.get(narrow.kind)
        case ByPath(), ByPath() if wide.kind is narrow.kind and wide != narrow:
            return _covers_path(wide, narrow, root, generous=generous)
        case _:
            return wide == narrow


def _covers_path(wide: ByPath, narrow: ByPath, root: Path, *, generous: bool) -> bool:
    if any(character in narrow.pattern for character in "*?"):
        return wide.pattern == "**"
    path = str(root / Path(narrow.pattern).expanduser())
    return PathPattern(wide.pattern, root, generous=generous).matches(path)
