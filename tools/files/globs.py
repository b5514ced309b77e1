"""Glob patterns for paths, matched in time that no pattern can blow up (R42).

`*` and `?` stay within a name, `**` spans directories, `[a-z]` and `{a,b}` are alternatives. A
pattern without a slash matches at any depth; one that begins with a slash, at the top only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

MAX_ALTERNATIVES = 100

_ANY_DEPTH = "**"


class GlobProblem(ValueError):
    """A pattern that cannot be used. The message goes to the model."""


class Globs:
    """Several patterns, of which one must match. `lists_directories` is true for plain listings."""

    def __init__(self, patterns: Iterable[str]) -> None:
        """Take patterns. Raises GlobProblem when braces make too many of them."""
        expanded = [one for pattern in patterns for one in _braces(pattern)]
        self._patterns = [_segments(pattern) for pattern in expanded]
        self.lists_directories = all(_ANY_DEPTH not in segments for segments in self._patterns)

    @staticmethod
    def alternatives(pattern: str) -> list[str]:
        """Return the patterns that the braces of one stand for. Raises GlobProblem."""
        return _braces(pattern)

    def matches(self, path: str) -> bool:
        """True when a relative path with `/` between its names matches."""
        names = path.split("/")
        return any(_wildcard(pattern, names, _is_any_depth, _name) for pattern in self._patterns)


def _segments(pattern: str) -> list[str]:
    anchored = "/" in pattern.rstrip("/")
    names = [name for name in pattern.split("/") if name not in ("", ".")]
    if pattern.endswith("/"):
        names += [_ANY_DEPTH, "*"]
    return names if anchored or names[:1] == [_ANY_DEPTH] else [_ANY_DEPTH, *names]


def _braces(pattern: str) -> list[str]:
    """Expand `{a,b}`, nested ones too; braces without a comma or an end stay as they are."""
    done: list[str] = []
    pending = [pattern]
    while pending:
        text = pending.pop()
        alternatives = _first_group(text)
        if alternatives is None:
            done.append(text)
        else:
            pending += alternatives
        if len(done) + len(pending) > MAX_ALTERNATIVES:
            raise GlobProblem(f"The braces of {pattern!r} make more than {MAX_ALTERNATIVES} forms.")
    return done


def _first_group(text: str) -> list[str] | None:
    start = text.find("{")
    while start >= 0:
        depth, commas = 0, [start]
        for position in range(start, len(text)):
            depth += {"{": 1, "}": -1}.get(text[position], 0)
            if text[position] == "," and depth == 1:
                commas.append(position)
            if depth == 0:
                if len(commas) == 1:
                    break
                ends = [*commas[1:], position]
                parts = [text[a + 1 : b] for a, b in zip(commas, ends, strict=True)]
                return [text[:start] + part + text[position + 1 :] for part in parts]
        start = text.find("{", start + 1)
    return None


def _wildcard(
    pattern: Sequence[str],
    items: Sequence[str],
    is_star: Callable[[str], bool],
    fits: Callable[[str, str], bool],
) -> bool:
    """Match with one kind of star, going back only to the last star: never more than n times m."""
    at, position, star, mark = 0, 0, -1, 0
    while position < len(items):
        if at < len(pattern) and is_star(pattern[at]):
            star, mark = at, position
            at += 1
        elif at < len(pattern) and fits(pattern[at], items[position]):
            at += 1
            position += 1
        elif star >= 0:
            mark += 1
            at, position = star + 1, mark
        else:
            return False
    return all(is_star(rest) for rest in pattern[at:])


def _is_any_depth(segment: str) -> bool:
    return segment == _ANY_DEPTH


def _name(pattern: str, name: str) -> bool:
    return _wildcard(_tokens(pattern), name, lambda token: token == "*", _character)


def _tokens(pattern: str) -> list[str]:
    """Split a pattern into characters, `?`, `*` and whole `[…]` classes."""
    tokens, position = [], 0
    while position < len(pattern):
        end = position + 1
        if pattern[position] == "[":
            closing = pattern.find("]", position + (3 if pattern[position + 1 :][:1] == "!" else 2))
            end = closing + 1 if closing >= 0 else end
        elif pattern[position] == "\\" and end < len(pattern):
            end += 1
        tokens.append(pattern[position:end])
        position = end
    return tokens


def _character(token: str, char: str) -> bool:
    if token == "?":
        return True
    if len(token) > 1 and token[0] == "[":
        return _in_class(token[1:-1], char)
    return token.removeprefix("\\") == char if len(token) > 1 else token == char


def _in_class(body: str, char: str) -> bool:
    negated = body[:1] in ("!", "^")
    body = body[negated:]
    position, found = 0, False
    while position < len(body):
        if body[position + 1 : position + 2] == "-" and position + 2 < len(body):
            found |= body[position] <= char <= body[position + 2]
            position += 3
        else:
            found |= body[position] == char
            position += 1
    return found != negated
