"""The commands that a team allows, beside what everything else allows or asks (E153).

Patterns are globs over whole commands, as tool files have them (`npm test*`). A line is taken apart
first: every command in it has to be covered, and what is no plain command is not.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from tools.definition import EffectKind, Invocation
from tools.record import record

_PLAIN = re.compile(r"[^\s'\"\\]+")
_SHOWN_PATTERNS = 10


@record
class Allowlist:
    """Patterns of commands, and whose they are (`the team acme`)."""

    patterns: tuple[str, ...]
    owner: str

    def refused(self, invocation: Invocation, root: Path) -> str:
        """Return the part of a call's commands that is not allowed; empty when all are.

        `root` is where commands start that name no directory.
        """
        for effect in invocation.effects:
            if effect.kind is EffectKind.EXECUTE:
                found = self._refused_part(effect.value, Path(effect.cwd or root))
                if found:
                    return found
        return ""

    @property
    def shown(self) -> str:
        """The patterns, or the first of them, for messages."""
        more = len(self.patterns) - _SHOWN_PATTERNS
        listed = ", ".join(self.patterns[:_SHOWN_PATTERNS]) or "none"
        return f"{listed} and {more} more" if more > 0 else listed

    def _refused_part(self, line: str, cwd: Path) -> str:
        from tools.permissions.shell_syntax import read_line

        for part in read_line(line, cwd):
            if part.obstacle or not all(map(self._covers, part.fields)):
                return part.text or line
        return ""

    def _covers(self, words: Sequence[str | None]) -> bool:
        known = [word for word in words if word is not None]
        # What stands in a variable or comes out of a command is not known before it runs.
        return len(known) == len(words) and any(
            fnmatchcase(command_line(known), pattern) for pattern in self.patterns
        )


def command_line(words: Iterable[str]) -> str:
    """Return a command as globs are matched against it: words with spaces in them are quoted."""
    return " ".join(word if _PLAIN.fullmatch(word) else shlex.quote(word) for word in words)
