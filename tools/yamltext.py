"""Reads YAML and JSON text from people and repositories: safely, and with the place of every key.

YAML is read with the core schema of YAML 1.2: `yes`, `no`, `on`, dates and `1:30` are text, keys
are always text. Nothing in a file creates an object, is expanded without bound, or is dropped
silently (R41).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from tools.jsontext import JsonReader
from tools.record import record
from tools.yaml_mistakes import explain

if TYPE_CHECKING:
    import yaml

MAX_BYTES = 1 << 20
MAX_DEPTH = 64
MAX_NODES = 100_000

KeyPath: TypeAlias = tuple[str | int, ...]
Position: TypeAlias = tuple[int, int]
"""Line and column, both counted from 1; columns count characters."""


class DocumentError(Exception):
    """A text cannot be read: where, what is wrong, and what to do next.

    `line` and `column` count from 1 and are None where the whole text is meant; `key` is a JSON
    path such as `$.parameters.required[0]`, or empty.
    """

    def __init__(
        self,
        path: Path,
        message: str,
        position: Position | None = None,
        *,
        key: str = "",
        hint: str = "",
    ) -> None:
        self.path = path
        self.line: int | None = position[0] if position else None
        self.column: int | None = position[1] if position else None
        self.key = key
        self.message = message
        self.hint = hint
        super().__init__(path, message)

    def __str__(self) -> str:
        place = str(self.path) if self.line is None else f"{self.path}:{self.line}:{self.column}"
        key = f" ({self.key})" if self.key and self.key != "$" else ""
        hint = f". {self.hint[:1].upper()}{self.hint[1:]}" if self.hint else ""
        return f"{place}: {self.message}{key}{hint}"


@record
class Document:
    """What was read: `data` holds only None, bool, int, float, str, list and dict.

    `repeated` maps keys that are there twice to the line of the first; the last one counts.
    `blocks` maps keys of literal texts (`|`) to the line in which the text begins.
    """

    path: Path
    data: Any
    positions: dict[KeyPath, Position] = field(repr=False)
    repeated: dict[KeyPath, int] = field(default_factory=dict)
    blocks: dict[KeyPath, int] = field(default_factory=dict)

    def position(self, key_path: Sequence[str | int] = ()) -> Position:
        """Return where a key or list item stands; the nearest one above it if it is not there."""
        path = tuple(key_path)
        while path and path not in self.positions:
            path = path[:-1]
        return self.positions.get(path, (1, 1))

    def error(self, key_path: Sequence[str | int], message: str, hint: str = "") -> DocumentError:
        """Make the error for a key whose value does not mean what it should."""
        return DocumentError(
            self.path, message, self.position(key_path), key=json_path(key_path), hint=hint
        )


def json_path(key_path: Sequence[str | int]) -> str:
    """Return `key_path` as people write it: `$.parameters.required[0]`."""
    return "$" + "".join(f"[{k}]" if isinstance(k, int) else _member(k) for k in key_path)


REPEATED_HINT = "remove one of them"


def repeated_key(key_path: KeyPath, first_line: int) -> str:
    """Say that a key is there twice."""
    return f"the key {key_path[-1]!r} is there twice (first in line {first_line})"


def _member(key: str) -> str:
    return f".{key}" if re.fullmatch(r"[A-Za-z_][\w-]*", key) else f"[{json.dumps(key)}]"


def parse(text: str | bytes, path: Path, *, allow_repeated: bool = False) -> Document:
    """Read `text`: strict JSON when `path` ends in `.json`, YAML otherwise.

    Raises DocumentError for anything over MAX_BYTES, MAX_DEPTH or MAX_NODES, for text that is not
    UTF-8, for duplicate keys unless `allow_repeated`, and for whatever is not the format.
    """
    decoded = decode(text, path)
    builder = Builder(path, allow_repeated)
    if path.suffix.lower() == ".json":
        data = JsonReader(decoded, builder).read()
    else:
        data = _YamlReader(decoded, builder).read()
    return Document(path, data, builder.positions, builder.repeated, builder.blocks)


_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")


def decode(text: str | bytes, path: Path) -> str:
    """Return `text` without its byte order mark.

    Raises DocumentError for more than MAX_BYTES, for what is not UTF-8, and for control characters.
    """
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    if len(data) > MAX_BYTES:
        raise DocumentError(
            path, f"the file has {len(data):,} bytes, more than the allowed {MAX_BYTES:,}"
        )
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise DocumentError(path, "the file is UTF-16", hint="save it as UTF-8")
    try:
        decoded = data.removeprefix(b"\xef\xbb\xbf").decode("utf-8")
    except UnicodeDecodeError as error:
        before = data.removeprefix(b"\xef\xbb\xbf")[: error.start].decode("utf-8")
        raise DocumentError(
            path,
            f"byte 0x{error.object[error.start]:02x} is not UTF-8",
            _position(before, len(before)),
            hint="save the file as UTF-8",
        ) from None
    control = _CONTROL.search(decoded)
    if control:
        name = f"U+{ord(control[0]):04X}"
        where = _position(decoded, control.start())
        raise DocumentError(path, f"the file holds the control character {name}", where)
    return decoded


def _position(text: str, index: int) -> Position:
    start = text.rfind("\n", 0, index) + 1
    return text.count("\n", 0, start) + 1, index - start + 1


class Builder:
    """What both readers share: positions, limits, and errors that name their place."""

    def __init__(self, path: Path, allow_repeated: bool = False) -> None:
        self.path = path
        self.allow_repeated = allow_repeated
        self.positions: dict[KeyPath, Position] = {}
        self.repeated: dict[KeyPath, int] = {}
        self.blocks: dict[KeyPath, int] = {}
        self.nodes = 0

    def fail(
        self, message: str, position: Position, key_path: KeyPath = (), hint: str = ""
    ) -> NoReturn:
        """Raise the DocumentError for a place."""
        key = json_path(key_path)
        raise DocumentError(self.path, message, position, key=key, hint=hint)

    def count(self, nodes: int, place: Callable[..., Position], *where: object) -> None:
        """Note values; `place(*where)` is where they stand, asked only when they are too many."""
        self.nodes += nodes
        if self.nodes > MAX_NODES:
            self.fail(f"the file holds more than {MAX_NODES:,} values", place(*where))

    def enter(self, key_path: KeyPath, place: Callable[..., Position], *where: object) -> None:
        """Begin a list or an object; `place` as in `count`."""
        if len(key_path) >= MAX_DEPTH:
            self.fail(f"values are nested deeper than {MAX_DEPTH} levels", place(*where))

    def add_key(self, mapping: dict[str, Any], key_path: KeyPath, position: Position) -> None:
        """Note where a key stands; `mapping` holds those before it."""
        if key_path[-1] in mapping:
            first = self.positions[key_path][0]
            if not self.allow_repeated:
                self.fail(repeated_key(key_path, first), position, key_path, REPEATED_HINT)
            self.repeated.setdefault(key_path, first)
        self.positions[key_path] = position


_CORE_WORDS = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_CORE_NUMBERS: tuple[tuple[re.Pattern[str], Callable[[str], int | float]], ...] = (
    (re.compile(r"[-+]?[0-9]+"), int),
    (re.compile(r"0o[0-7]+"), lambda text: int(text[2:], 8)),
    (re.compile(r"0x[0-9a-fA-F]+"), lambda text: int(text[2:], 16)),
    (re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?"), float),
    (re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"), lambda _: math.nan),
)
_NUMBERS_BEGIN = frozenset("-+.0123456789")

_CORE_TAGS = {f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "null")}
_TAG_NOTE = "only plain values are read: remove the tag"


class _YamlReader:
    """Builds plain data from YAML events, so that limits hold while the text is being read."""

    def __init__(self, text: str, builder: Builder) -> None:
        import yaml

        self.yaml = yaml
        self.text = text
        self.builder = builder
        self.anchors: dict[str, tuple[Any, int]] = {}
        self.next_event: Callable[[], Any]

    def read(self) -> Any:
        yaml = self.yaml
        try:
            # The parser reads the head of the text, and may refuse it, while it is being made.
            self.next_event = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(self.text).get_event
            return self._document()
        except yaml.MarkedYAMLError as error:
            self._syntax_error(error)
        except yaml.YAMLError as error:
            raise DocumentError(
                self.builder.path, f"this is not YAML: {str(error).splitlines()[0]}"
            ) from None

    def _document(self) -> Any:
        stream_end = self.yaml.StreamEndEvent
        self.next_event()
        if isinstance(self.next_event(), stream_end):
            return None
        self.builder.positions[()] = (1, 1)
        first = self.next_event()
        data = self._node(first, ())
        self.next_event()
        after = self.next_event()
        if not isinstance(after, stream_end):
            self._fail("a second document starts here", after, hint="keep one document in the file")
        return data

    def _syntax_error(self, error: yaml.MarkedYAMLError) -> NoReturn:
        mark = error.problem_mark or error.context_mark
        position = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        lines = self.text.split("\n")
        line = lines[position[0] - 1] if position[0] <= len(lines) else ""
        if "\t" in line[: len(line) - len(line.lstrip())]:
            column = line.index("\t") + 1
            self.builder.fail(
                "a tab is used for indentation", (position[0], column), hint="use spaces"
            )
        problem, begins, hint = explain(error, line)
        if begins:
            position = (begins.line + 1, begins.column + 1)
        self.builder.fail(f"this is not YAML: {problem}", position, hint=hint)

    def _node(self, event: Any, key_path: KeyPath) -> Any:
        self.builder.count(1, _mark, event)
        before, kind = self.builder.nodes, type(event)
        if not event.anchor and kind is self.yaml.ScalarEvent:
            return self._scalar(event, key_path)
        if kind is self.yaml.AliasEvent:
            return self._alias(event, key_path)
        self.anchors.pop(event.anchor, None)
        value: Any
        if kind is self.yaml.ScalarEvent:
            value = self._scalar(event, key_path)
        elif kind is self.yaml.MappingStartEvent:
            value = self._mapping(event, key_path)
        else:
            value = self._sequence(event, key_path)
        if event.anchor:
            self.anchors[event.anchor] = (value, self.builder.nodes - before)
        return value

    def _alias(self, event: yaml.AliasEvent, key_path: KeyPath) -> Any:
        if event.anchor not in self.anchors:
            self._fail(f"*{event.anchor} refers to no finished value above it", event, key_path)
        value, nodes = self.anchors[event.anchor]
        self.builder.count(nodes, _mark, event)
        return value

    def _mapping(self, event: yaml.MappingStartEvent, key_path: KeyPath) -> dict[str, Any]:
        self._enter(event, key_path, "map")
        found: dict[str, Any] = {}
        while type(key := self.next_event()) is self.yaml.ScalarEvent:
            name = key.value
            if name == "<<" and key.implicit[0]:
                self._fail("merge keys (<<) are not read", key, key_path, "write the keys out")
            path = (*key_path, name)
            self.builder.add_key(found, path, _mark(key))
            found[name] = self._node(self.next_event(), path)
        if type(key) is not self.yaml.MappingEndEvent:
            self._fail("a key must be a plain word or text", key, key_path)
        return found

    def _sequence(self, event: yaml.SequenceStartEvent, key_path: KeyPath) -> list[Any]:
        self._enter(event, key_path, "seq")
        found: list[Any] = []
        while type(item := self.next_event()) is not self.yaml.SequenceEndEvent:
            path = (*key_path, len(found))
            self.builder.positions[path] = _mark(item)
            found.append(self._node(item, path))
        return found

    def _enter(self, event: yaml.CollectionStartEvent, key_path: KeyPath, kind: str) -> None:
        if event.tag and event.tag not in ("!", f"tag:yaml.org,2002:{kind}"):
            self._fail(f"the tag {event.tag!r} is refused", event, key_path, _TAG_NOTE)
        self.builder.enter(key_path, _mark, event)

    def _scalar(self, event: yaml.ScalarEvent, key_path: KeyPath) -> Any:
        tag, text = event.tag, event.value
        if tag is None and event.style:
            if event.style == "|":
                self.builder.blocks[key_path] = _mark(event)[0] + 1
            return text
        if tag is not None and tag != "!" and tag not in _CORE_TAGS:
            self._fail(f"the tag {tag!r} is refused", event, key_path, _TAG_NOTE)
        if tag in ("!", "tag:yaml.org,2002:str"):
            return text
        try:
            value = _core_value(text)
        except ValueError:
            value = math.nan
        if isinstance(value, float) and not math.isfinite(value):
            self._fail("the number is not finite or too large", event, key_path)
        return value

    def _fail(
        self, message: str, event: yaml.Event, key_path: KeyPath = (), hint: str = ""
    ) -> NoReturn:
        self.builder.fail(message, _mark(event), key_path, hint)


def _mark(event: yaml.Event) -> Position:
    return (mark.line + 1, mark.column + 1) if (mark := event.start_mark) else (1, 1)


def _core_value(text: str) -> Any:
    if text in _CORE_WORDS:
        return _CORE_WORDS[text]
    if text[0] in _NUMBERS_BEGIN:
        for pattern, convert in _CORE_NUMBERS:
            if pattern.fullmatch(text):
                return convert(text)
    return text
