"""Prints docs/reference.md: every key of a tool file, from the tables that the readers use.

python -m scripts.tool_reference [--write]
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from tools.engine.conversions import TRANSFORMS
from tools.formats.cycod_keys import TOOL
from tools.formats.fields import Key, Keys, Kind
from tools.formats.mimir import KEYS as MIMIR
from tools.formats.opta_json import KEYS as OPTA
from tools.formats.references import PREDEFINED_MEANINGS, STEP_MEANINGS

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference.md"
SAMPLE = 'Né "x" & y'
ENCODED = {"base64decode": "TsOpICJ4IiAmIHk=", "urldecode": "N%C3%A9%20%22x%22%20%26%20y"}
NESTED = {Kind.MAP: "a map", Kind.NAMED: "a map of maps", Kind.LIST: "a list of maps"}
EACH = {Kind.MAP: "", Kind.NAMED: " Below each name:", Kind.LIST: " In each entry:"}

INTRODUCTION = """\
# Reference: the keys of a tool file

<!-- Made by `make docs` from the tables of the readers in tools/formats/. Do not edit. -->

One file defines one tool. Its keys, not its extension, say which format it is: `command`, or
`parameters` as a JSON Schema, means [Opta JSON](#opta-json); `schema` and `code` mean
[Mimir](#mimir); everything else is a [YAML tool](#yaml-tools). Each format may be written as JSON
or as YAML. The tables of a Codex `config.toml` have [a page of their own](codex-tools.md).

A key that is not listed is ignored with a warning that names the nearest one; keys that begin with
`x-` are yours. `opta tool validate` checks all of this, with line and column.

Editors check and complete tool files with the JSON Schema that `opta tool schema` prints: write it
to a file (`opta tool schema > tool.schema.json`) and name that in the first line of a tool,
`# yaml-language-server: $schema=tool.schema.json`, or in the editor's settings.

Times are in milliseconds. Sizes are bytes, or numbers with K, M or G (1K is 1024), with or
without B.
"""
YAML = """\
The format of CYCOD. A file holds exactly one of `bash`, `cmd`, `pwsh`, `run`, `script`, `commands`,
`steps` and, for an alias, `base-tool`; each step exactly one of the first six or `use-tool`.
[tools.md](tools.md) explains it by example.
"""
OPTA_JSON = "One shell command. [json-tools.md](json-tools.md) explains it.\n"
MIMIR_TEXT = "A program, run behind walls: see [code-tools.md](code-tools.md).\n"
PLACEHOLDERS = """\
In commands, formats, defaults, conditions and a few more texts, `{NAME}` stands for a value. Names
are those of parameters, those below, and steps. Any other brace is text, and so is `${NAME}`;
`{{NAME}}` is the text `{NAME}`. A name in capitals that nothing declares keeps the command from
being run.

| placeholder | stands for |
|---|---|
| `{NAME}` | the value of a parameter, after its `transform` and `format` |
| `{NAME:lowercase}` | the same after a [transform](#transforms) |
| `{NAME:format(0000)}` | a number as a picture of `0`, `#` and `.`: 5 is 0005 |
| `{NAME ? 'a' : 'b'}` | a JavaScript expression, with parameters and steps as its variables |
"""


def page() -> str:
    """Return the text of the page."""
    printed: dict[int, str] = {}
    parts = [
        INTRODUCTION,
        *_format("YAML tools", YAML, TOOL, printed),
        "## Placeholders\n",
        PLACEHOLDERS + "".join(_rows(PREDEFINED_MEANINGS, "{%s}")),
        "### What a step gave\n",
        "| placeholder | stands for |\n|---|---|\n" + "".join(_rows(STEP_MEANINGS, "{step.%s}")),
        "### Transforms\n",
        f"| transform | makes of `{SAMPLE}` |\n|---|---|\n" + "".join(_transforms()),
        *_format("Opta JSON", OPTA_JSON, OPTA, printed),
        *_format("Mimir", MIMIR_TEXT, MIMIR, printed),
    ]
    return "\n".join(parts)


def _format(title: str, text: str, keys: Keys, printed: dict[int, str]) -> Iterator[str]:
    yield f"## {title}\n"
    yield text
    yield from _tables(keys, "", printed)


def _tables(keys: Keys, path: str, printed: dict[int, str]) -> Iterator[str]:
    """Yield a table, and a section for each table in it that is `printed` nowhere yet."""
    rows = ["| key | holds | default | meaning |\n|---|---|---|---|\n"]
    sections = []
    for key in keys.values():
        name = f"{path}{key.name}"
        if key.keys and id(key.keys) not in printed:
            printed[id(key.keys)] = name
            sections.append((name, key))
        shown = f"`{key.name}`" + (" (required)" if key.required else "")
        default = "" if key.default is None else f"`{_as_yaml(key.default)}`"
        rows.append(f"| {shown} | {_holds(key, printed)} | {default} | {_cell(key.meaning)} |\n")
    yield "".join(rows)
    for name, key in sections:
        yield f"### `{name}`\n"
        yield f"{_sentence(key.meaning)}{EACH[key.kind]}\n"
        yield from _tables(key.keys, f"{name}.", printed)


def _holds(key: Key, printed: dict[int, str]) -> str:
    if key.keys:
        path = printed[id(key.keys)]
        return f"{NESTED[key.kind]}: [`{path}`](#{_anchor(path)})"
    if key.choices:
        choices = ", ".join(f"`{choice}`" for choice in key.choices)
        return f"{'some' if key.kind is Kind.TEXTS else 'one'} of {choices}"
    return key.kind.value


def _rows(meanings: Mapping[str, str], form: str) -> Iterator[str]:
    for name, meaning in meanings.items():
        yield f"| `{form % name}` | {_cell(meaning)} |\n"


def _transforms() -> Iterator[str]:
    for name, transform in TRANSFORMS.items():
        made = f"`{transform(ENCODED.get(name, SAMPLE))}`"
        note = f", of `{ENCODED[name]}`" if name in ENCODED else ""
        yield f"| `{name}` | {_cell(made)}{note} |\n"


def _as_yaml(value: str | int | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _cell(text: str) -> str:
    escaped = text.replace("|", "\\|")
    return escaped if "`" in text else escaped.replace("<", "&lt;").replace("*", "\\*")


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _anchor(heading: str) -> str:
    return "".join(c for c in heading.lower() if c.isalnum() or c in "-_")


def main(arguments: list[str]) -> int:
    """Print the page, or write it to its place."""
    if arguments == ["--write"]:
        PAGE.write_text(page(), encoding="utf-8")
    else:
        sys.stdout.write(page())
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
