"""Puts values into scripts for PowerShell and cmd (X101), which no shell of this system reads."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from tools.engine.template import (
    Names,
    Placeholder,
    Template,
    TemplateError,
    Value,
    as_text,
    parse,
    value_of,
)
from tools.engine.template_command import PLACE
from tools.engine.template_shell import words_of
from tools.record import record

_CMD_REFUSED = re.compile(r'["%!^&|<>\r\n\0]')
_CMD_REFUSED_BARE = re.compile(r"[()]")
_SINGLE_QUOTES = "'\u2018\u2019\u201a\u201b"
_CURLY = re.compile("[\u2018-\u201e]")
_PWSH_TOKEN = re.compile(
    r"""(?P<string>@'.*?\n'@|@".*?\n"@)|(?P<comment><\#.*?\#>|\#[^\n]*)
    |(?P<single>'[^']*')|(?P<double>"(?:[^"`]|`.)*")|(?P<escape>`.)|(?P<bare>[^'"`@<\#]+|.)""",
    re.DOTALL | re.VERBOSE,
)


@record
class PowerShellTemplate:
    """A PowerShell script: `quotes` tells for each placeholder what is around it.

    A value becomes a literal in single quotes; within the script's own double quotes it is the
    literal's value, and in a bare place it is one argument or several (X85).
    """

    template: Template
    quotes: tuple[str, ...]
    one_word: tuple[bool, ...]

    def render(self, values: Mapping[str, Value]) -> str:
        """Return the script with `values` (by key) in it.

        Raises TemplateError for an unknown name or a missing value (X93) and a NUL character.
        """
        _refuse_unknown(self.template)
        places = iter(zip(self.quotes, self.one_word, strict=True))
        return "".join(
            part if isinstance(part, str) else _literal(part, value_of(part, values), *next(places))
            for part in self.template.parts
        )


def compile_pwsh(
    source: str, names: Names, escape: Mapping[str, bool | None] | None = None
) -> PowerShellTemplate:
    """Read a PowerShell script as a template; `escape` as for `compile_shell`.

    Raises TemplateError where a placeholder stands in a here-string, in a comment, behind a
    backquote or in a substitution within quotes.
    """
    template = parse(source, names)
    marked = "".join(part if isinstance(part, str) else PLACE for part in template.parts)
    places = template.placeholders
    if marked.count(PLACE) != len(places):
        raise TemplateError("A script cannot hold a NUL character.")
    if places and _CURLY.search(marked):
        raise TemplateError("PowerShell takes curly quotes for quotes. Write straight ones.")
    one_word = tuple(
        (escape or {}).get(place.name) is True
        or (place.step_property is None and place.name not in names.parameters)
        for place in places
    )
    return PowerShellTemplate(template, tuple(_pwsh_quotes(marked, iter(places))), one_word)


def _pwsh_quotes(marked: str, places: Iterator[Placeholder]) -> Iterator[str]:
    for token in _PWSH_TOKEN.finditer(marked):
        for _ in range(token[0].count(PLACE)):
            place = next(places)
            if token.lastgroup not in ("single", "double", "bare"):
                raise place.fail("stands in a here-string, a comment or behind a backquote.")
            if token.lastgroup == "double" and "$(" in token[0]:
                raise place.fail("stands in quotes with a substitution. Assign it first.")
            yield token.lastgroup


def _literal(placeholder: Placeholder, value: Value, quotes: str, one_word: bool) -> str:
    if "\0" in as_text(value):
        raise placeholder.fail("holds a NUL character, which no script can hold.")
    if quotes == "single":
        return pwsh_quote(as_text(value))[1:-1]
    if quotes == "double":
        return f"$({pwsh_quote(as_text(value))})"
    return " ".join(pwsh_quote(word) for word in words_of(value, one_word=one_word))


def pwsh_quote(text: str) -> str:
    """Return text as a literal of PowerShell, which takes curly quotes for quotes too."""
    return "'" + re.sub(f"([{_SINGLE_QUOTES}])", r"\1\1", text) + "'"


def fill_cmd(template: Template, values: Mapping[str, Value]) -> str:
    """Return a script for cmd with `values` (by key) in it.

    There is no way to quote for cmd: a value with `" % ! ^ & | < >` or a newline is refused, and
    outside of quotes one with a parenthesis. Raises TemplateError.
    """
    _refuse_unknown(template)
    parts: list[str] = []
    quoted = False
    for part in template.parts:
        if isinstance(part, str):
            parts.append(part)
            line = part.rpartition("\n")
            quoted = (quoted and not line[1]) ^ (line[2].count('"') % 2 == 1)
            continue
        text = as_text(value_of(part, values))
        refused = _CMD_REFUSED.search(text) or (not quoted and _CMD_REFUSED_BARE.search(text))
        if refused:
            raise part.fail(f"holds {refused[0]!r}, which cannot be quoted for cmd.")
        parts.append(text)
    return "".join(parts)


def _refuse_unknown(template: Template) -> None:
    for unknown in template.unknown:
        raise unknown.error()
