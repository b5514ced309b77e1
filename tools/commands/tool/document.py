"""Tool files as text: written the way a careful person would, and changed without losing comments.

Whatever is written is read again and compared before it is given back.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tools.yamltext import Document, DocumentError, parse

if TYPE_CHECKING:
    from ruamel.yaml import YAML

_PATH = Path("tool.yaml")
_ONE_LINE = frozenset({"tags", "platforms", "wait-for", "enum", "examples", "required-permissions"})
_FEW_CHARS = 60
_UNSEEN = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


class UnwritableError(Exception):
    """A value has no place in a tool file. The message says why."""


def to_yaml(data: Mapping[str, Any]) -> str:
    """Return `data` as YAML: long texts as blocks, short lists in one line, quotes where needed.

    Texts that only some YAML readers take for text (`yes`, `1:30`) are quoted too.
    Raises UnwritableError.
    """
    out = StringIO()
    try:
        _yaml().dump(_styled(data), out)
        text = out.getvalue()
        if not _same(parse(text, _PATH).data, data):
            # A JSON text is YAML too, and holds what blocks and plain words cannot.
            text = json.dumps(data, indent=2, ensure_ascii=False) + "\n"
            text = _UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
            if not _same(parse(text, _PATH).data, data):
                raise UnwritableError("it holds a character that no tool file can hold")
    except (DocumentError, ValueError) as error:
        raise UnwritableError(str(getattr(error, "message", error))) from error
    return text


def with_name(text: str, name: str) -> str:
    """Return YAML `text` with `name` as its name, its comments and order kept.

    Raises UnwritableError where that cannot be done without damage.
    """

    def rename(data: Any) -> None:
        if "name" in data:
            data["name"] = name
        elif hasattr(data, "insert"):
            data.insert(0, "name", name)
        else:
            data["name"] = name

    return edited(text, rename)


def edited(text: str, edit: Callable[[Any], None]) -> str:
    """Return YAML `text` after an edit of its data, comments and order kept.

    Commands that YAML cannot read as written become blocks first (X33). Raises UnwritableError.
    """
    from ruamel.yaml.error import YAMLError

    try:
        source, expected = _readable(text)
        edit(expected)
        yaml = _yaml()
        document = yaml.load(source)
        edit(document)
        out = StringIO()
        yaml.dump(document, out)
        if _same(parse(out.getvalue(), _PATH).data, expected):
            return out.getvalue()
    except (DocumentError, YAMLError, AttributeError, TypeError, ValueError) as error:
        raise UnwritableError(str(getattr(error, "message", error)).splitlines()[0]) from error
    raise UnwritableError("it cannot be changed without damage")


def read_document(data: bytes, path: Path) -> Document:
    """Read a tool file as leniently as tools are loaded. Raises DocumentError."""
    from tools.formats.yaml_repair import parse_mended

    try:
        return parse(data, path, allow_repeated=True)
    except DocumentError:
        mended = parse_mended(data, path)
        if mended is None:
            raise
        return mended[0]


def _readable(text: str) -> tuple[str, Any]:
    try:
        return text, parse(text, _PATH, allow_repeated=True).data
    except DocumentError:
        from tools.formats.yaml_repair import with_blocks

        blocks = with_blocks(text)
        return blocks, parse(blocks, _PATH, allow_repeated=True).data


def _same(one: Any, other: Any) -> bool:
    """Tell whether two documents are equal as data; unlike ==, 1, 1.0 and true are three things."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _yaml() -> YAML:
    from ruamel.yaml import YAML

    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = 1 << 20
    yaml.indent(mapping=2, sequence=4, offset=2)
    return yaml


def _styled(value: Any, key: str = "") -> Any:
    from ruamel.yaml.comments import CommentedMap, CommentedSeq

    match value:
        case dict():
            return CommentedMap((_text(name), _styled(item, name)) for name, item in value.items())
        case list() | tuple():
            items = CommentedSeq(_styled(item) for item in value)
            if key in _ONE_LINE and len(str(value)) <= _FEW_CHARS:
                items.fa.set_flow_style()
            return items
        case str():
            return _text(value)
    return value


def _text(value: str) -> Any:
    from ruamel.yaml.scalarstring import DoubleQuotedScalarString, LiteralScalarString

    if "\n" in value.strip("\n") and value.strip():
        return LiteralScalarString(value)
    if not _ambiguous(value):
        if _needs_quotes(value) and "'" in value and value.isprintable():
            return LiteralScalarString(value)
        return value
    return DoubleQuotedScalarString(value)


def _needs_quotes(value: str) -> bool:
    """Tell whether a plain scalar would be read as something else."""
    try:
        return bool(parse(f"k: {value}", _PATH).data != {"k": value})
    except DocumentError:
        return True


def _ambiguous(value: str) -> bool:
    """Tell whether some version of YAML takes the plain word for something other than text."""
    import yaml

    if "\n" in value:
        return False
    resolver: Any = yaml.resolver.Resolver
    tag = resolver().resolve(yaml.ScalarNode, value, (True, False))
    return str(tag) != "tag:yaml.org,2002:str" or value.lower() in ("y", "n")
