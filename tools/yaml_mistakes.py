"""Says what a person did where the YAML parser only says what it had expected."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import yaml

_MISTAKES = {
    "mapping values are not allowed": (
        "a `:` cannot make a key here",
        "write the text in quotes; or the line above or this one begins in the wrong column",
    ),
    "unknown escape": (
        "the backslash begins no escape that double quotes know",
        "write two backslashes, or use single quotes",
    ),
    "did not find expected key": (
        "no key can begin here",
        "begin all keys in one column; quote a text that begins with a quote, [ or {",
    ),
}
"""What is wrong and what to do, by a part of what the parser says."""


def explain(error: yaml.MarkedYAMLError, line: str) -> tuple[str, yaml.Mark | None, str]:
    """Return what is wrong, where, and what to do, of a text that is not YAML.

    `line` is the one in which the parser gave up. The place is where the mistake begins: a quote
    that nothing closes is at the quote and not at the end of the file.
    """
    problem = error.problem or error.context or "syntax error"
    place = error.problem_mark or error.context_mark
    if unclosed := _unclosed(error.context or "", problem):
        return unclosed[0], error.context_mark, unclosed[1]
    first = line[place.column : place.column + 1] if place else ""
    if "cannot start any token" in problem and first in ("@", "`", "%"):
        return f"a text may not begin with {first}", place, "write it in quotes"
    found = next((told for part, told in _MISTAKES.items() if part in problem), (problem, ""))
    return found[0], place, found[1]


def _unclosed(context: str, problem: str) -> tuple[str, str] | None:
    if "quoted scalar" in context and "end of stream" in problem:
        return "the quoted text that begins here has no end", "close the quote"
    for kind, begin, end in (("flow sequence", "[", "]"), ("flow mapping", "{", "}")):
        if kind in context:
            told = f"the value that begins here is not closed with {end}"
            return told, f"close it, or quote the text that begins with {begin}"
    return None
