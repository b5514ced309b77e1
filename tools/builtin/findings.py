"""What a search found, and how that reads: grouped by file, counted, with what was left out."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from tools.engine.output import sanitize
from tools.files.paths import shown_name
from tools.permissions.rules import Rule
from tools.record import record

MAX_CHARS = 50_000
_LINE_CHARS = 250
_BEFORE_CHARS = 60
_NAMED = 5


@record
class Hit:
    """A line that matches; `line` counts from 1 and is 0 where only the name matched."""

    path: str
    line: int = 0
    text: str = ""
    column: int = 0


@dataclass
class Findings:
    """All that a search has to tell. `hits` holds the first `limit` of `total`, by path."""

    limit: int
    hits: list[Hit] = field(default_factory=list)
    total: int = 0
    files: int = 0
    secret: list[str] = field(default_factory=list)
    linked: list[str] = field(default_factory=list)
    large: list[str] = field(default_factory=list)
    kept: Counter[Rule] = field(default_factory=Counter)
    stopped: str = ""
    note: str = ""

    def add(self, hits: list[Hit]) -> None:
        """Take the hits of one file."""
        self.total += len(hits)
        self.files += bool(hits)
        self.hits += hits[: max(self.limit - len(self.hits), 0)]

    def take_out(self, path: str) -> None:
        """Forget the hits of one file that are shown."""
        kept = [hit for hit in self.hits if hit.path != path]
        self.total -= len(self.hits) - len(kept)
        self.files -= len(self.hits) > len(kept)
        self.hits = kept

    def keep_out(self, rule: Rule, *, is_directory: bool) -> None:
        """Note what a permission rule kept from being searched. Only files are counted."""
        self.kept[rule] += not is_directory

    def text(self, what: str) -> str:
        """Return everything as text; `what` names pattern, place and filter."""
        if not self.total:
            return "\n".join([f"No matches for {what}.", *self._remarks()])
        body, shown = self._body()
        return "\n".join([body, self._count(shown), *self._remarks()])

    def _body(self) -> tuple[str, int]:
        lines: list[str] = []
        used, path = 0, ""
        for number, hit in enumerate(self.hits):
            new = [shown_name(hit.path)] if hit.path != path else []
            path = hit.path
            if hit.line:
                new.append(f"  {hit.line}: {_excerpt(hit)}")
            used += sum(len(line) + 1 for line in new)
            if used > MAX_CHARS:
                return "\n".join(lines), number
            lines += new
        return "\n".join(lines), len(self.hits)

    def _count(self, shown: int) -> str:
        kind = "match" if self.total == 1 else "matches"
        where = "" if not self.hits[0].line else f" in {self.files:,} file{'s' * (self.files != 1)}"
        if shown == self.total:
            return f"[{self.total:,} {kind}{where}]"
        return (
            f"[{shown:,} of {self.total:,} {kind}{where} shown; narrow the pattern, path or glob, "
            "or raise limit]"
        )

    def _remarks(self) -> list[str]:
        remarks = [self.note] if self.note else []
        if self.secret:
            remarks.append(
                f"[not searched because they hold secrets: {_names(self.secret)}; read_file asks "
                "the user]"
            )
        if self.linked:
            remarks.append(
                "[not searched because they are hard links to secrets or to files outside: "
                f"{_names(self.linked)}; read_file asks the user]"
            )
        for rule, count in self.kept.items():
            remarks.append(
                f"[{count:,} file{'s' * (count != 1)} not searched because of the rule "
                f"{rule.verdict} {shown_name(rule.text)} ({rule.origin})]"
            )
        if self.large:
            remarks.append(f"[not searched because they are too large: {_names(self.large)}]")
        if self.stopped:
            remarks.append(f"[{self.stopped}]")
        return remarks


def _names(paths: list[str]) -> str:
    named = ", ".join(shown_name(path) for path in paths[:_NAMED])
    return named if len(paths) <= _NAMED else f"{named} and {len(paths) - _NAMED} more"


def _excerpt(hit: Hit) -> str:
    text = hit.text
    if len(text) > _LINE_CHARS:
        start = max(0, min(hit.column - _BEFORE_CHARS, len(text) - _LINE_CHARS))
        end = start + _LINE_CHARS
        text = f"{'…' * (start > 0)}{text[start:end]}{'…' * (end < len(text))}"
    return sanitize(text).replace("\n", "\n     ")
