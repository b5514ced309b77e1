"""What a word of a command may be, as far as the command itself tells."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress

from tools.files.globs import GlobProblem, Globs

_VARIABLE = re.compile(r"\$\w+|\$\{\w+\}")
_KNOWN = {"HOME": "~", "PWD": "."}
_MOST_VALUES = 64


def spelled(word: str, assigned: Mapping[str, Iterable[str]]) -> Iterator[str]:
    """Yield a word with variables that are known put in, others empty, and one of `{a,b}` each.

    `assigned` holds the values that the command gives to variables.
    """
    texts = [word]
    for found in dict.fromkeys(_VARIABLE.findall(word)):
        name = found.strip("${}")
        values = sorted(assigned.get(name, ()))[:_MOST_VALUES] or [_KNOWN.get(name, "")]
        texts = [text.replace(found, value) for text in texts for value in values][:_MOST_VALUES]
    for text in texts:
        yield text
        if "{" in text:
            with suppress(GlobProblem):
                yield from Globs.alternatives(text)
