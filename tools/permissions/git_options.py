"""Options of git that only choose what is shown, for the `git` tool and for shell commands.

What is not listed asks: there is no list of bad ones.
"""

from __future__ import annotations

import re

_DIFF = frozenset((
    "-p", "--patch", "-u", "-s", "--no-patch", "--raw", "--stat", "--numstat", "--shortstat",
    "--summary", "--name-only", "--name-status", "--check", "-w", "-b", "--ignore-all-space",
    "--ignore-space-change", "--ignore-blank-lines", "--minimal", "--patience", "--histogram",
    "-M", "-C", "-R", "--no-renames", "--find-renames", "--full-index", "--no-color",
    "--color=never", "--word-diff", "--word-diff=plain", "--function-context", "-W", "-z",
))  # fmt: skip
_LOG = _DIFF | frozenset((
    "--oneline", "--graph", "--all", "--branches", "--tags", "--remotes", "--decorate",
    "--no-decorate", "--merges", "--no-merges", "--first-parent", "--reverse", "--follow",
    "-i", "--abbrev-commit", "--date-order", "--topo-order", "--left-right", "--cherry-pick",
    "--no-notes",
))  # fmt: skip
_STATUS = frozenset((
    "-s", "-sb", "--short", "-b", "--branch", "--porcelain", "--porcelain=v1", "--porcelain=v2",
    "--long", "-z", "-u", "-uno", "-unormal", "-uall", "--untracked-files=no",
    "--untracked-files=normal", "--untracked-files=all", "--ignored", "--show-stash",
    "--ahead-behind", "--no-ahead-behind", "--no-renames",
))  # fmt: skip
_BRANCH = frozenset((
    "-a", "--all", "-r", "--remotes", "-v", "-vv", "--verbose", "--list", "--show-current",
))  # fmt: skip
PLAIN = {
    "status": _STATUS,
    "diff": _DIFF | {"--cached", "--staged", "--merge-base"},
    "log": _LOG,
    "show": _LOG,
    "branch": _BRANCH,
}
"""Options without a value, or with the value written out, by operation."""

SEPARATE_VALUE = frozenset(
    ("-n", "--max-count", "--skip", "--since", "--until", "--author", "--grep", "-S", "-G")
)
"""Options of log, show and diff whose value is the next word."""

_WITH_VALUE = re.compile(
    r"-(n|U|S|G)(?P<short>.+)|-\d+"
    r"|--(max-count|skip|since|until|after|before|author|committer|grep|date|unified|stat"
    r"|diff-filter|abbrev|format|pretty|inter-hunk-context|decorate|find-renames)=(?P<long>.*)",
    re.DOTALL,
)


def is_plain_option(operation: str, word: str) -> bool:
    """Tell whether an option of an operation of `PLAIN` only chooses what is shown."""
    if word in PLAIN[operation]:
        return True
    match = _WITH_VALUE.fullmatch(word)
    if operation not in ("log", "show", "diff") or match is None:
        return False
    return not starts_program(match["long"] or match["short"] or "")


def starts_program(value: str) -> bool:
    """`%G?` and its kin in a format make git start the program that checks signatures."""
    return "%G" in value or "%(signature" in value
