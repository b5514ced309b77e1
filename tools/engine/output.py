"""Makes text from what programs print: safe for a terminal, and short enough for a model.

Control functions are those of ECMA-48: C0 (but tab and newline), C1, CSI, OSC, DCS, APC, PM and
SOS are removed, wherever the pieces are cut (R36). What a person decides on is not stripped but
made visible (R33, R37).
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable
from enum import Enum, auto
from pathlib import Path
from typing import TYPE_CHECKING

from tools import storage
from tools.record import record

if TYPE_CHECKING:
    from tools.definition import Progress
    from tools.engine.capture import Captured

CLIP_CHARS = 16 * 1024
"""How much of an output the model gets, in characters."""

LIVE_CHARS = 256 * 1024
"""How much of an output is shown while a call runs, in characters."""

_STRING_CHARS = 64 * 1024
"""After so many characters an unfinished control string is taken for text, not to lose output."""

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_CSI_BODY = re.compile(r"[ -?]*")
_STRING_END = re.compile(r"[\x07\x18\x1a\x1b\x9c]")
_UNSAFE_IN_JSON = re.compile(
    "[\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffb\U000e0000-\U000e0fff]"
)
_STRING_STARTS = frozenset("]P^_X\x90\x98\x9d\x9e\x9f")


class _State(Enum):
    TEXT = auto()
    RETURN = auto()
    ESCAPE = auto()
    CSI = auto()
    STRING = auto()
    STRING_ESCAPE = auto()


class ControlStripper:
    """Removes control functions from text that arrives in pieces.

    CR LF becomes a newline. A lone CR, which would let later text overwrite earlier text, becomes
    a newline too, or stays where `keep_returns` asks for it.
    """

    def __init__(self, *, keep_returns: bool = False) -> None:
        self._state = _State.TEXT
        self._return = "\r" if keep_returns else "\n"
        self._string_length = 0

    def feed(self, text: str) -> str:
        """Return what of `text` may be shown; unfinished sequences wait for the next piece."""
        if self._state is _State.TEXT and _CONTROL.search(text) is None:
            return text
        # Far cheaper than one step per line; a CR LF across two pieces is left to the steps.
        text = text.replace("\r\n", "\n")
        kept: list[str] = []
        position = 0
        steps = {
            _State.TEXT: self._text,
            _State.RETURN: self._after_return,
            _State.ESCAPE: self._escape,
            _State.CSI: self._csi,
            _State.STRING: self._string,
            _State.STRING_ESCAPE: self._string_escape,
        }
        while position < len(text):
            position = steps[self._state](text, position, kept)
        return "".join(kept)

    def finish(self) -> str:
        """Return what was held back at the end of the text."""
        held = self._return if self._state is _State.RETURN else ""
        self._state = _State.TEXT
        return held

    def _text(self, text: str, position: int, kept: list[str]) -> int:
        found = _CONTROL.search(text, position)
        if found is None:
            kept.append(text[position:])
            return len(text)
        kept.append(text[position : found.start()])
        if found.group() >= "\ud800":
            # Half of a character, as in a file name that is not UTF-8: no stream could encode it.
            kept.append("\ufffd")
        else:
            self._begin(found.group())
        return found.end()

    def _begin(self, control: str) -> None:
        if control == "\r":
            self._state = _State.RETURN
        elif control == "\x1b":
            self._state = _State.ESCAPE
        elif control == "\x9b":
            self._state = _State.CSI
        elif control in _STRING_STARTS:
            self._state, self._string_length = _State.STRING, 0
        else:
            self._state = _State.TEXT

    def _after_return(self, text: str, position: int, kept: list[str]) -> int:
        self._state = _State.TEXT
        if text[position] == "\n":
            kept.append("\n")
            return position + 1
        if text[position] == "\r":
            self._state = _State.RETURN
            return position + 1
        kept.append(self._return)
        return position

    def _escape(self, text: str, position: int, kept: list[str]) -> int:
        character = text[position]
        if character == "[":
            self._state = _State.CSI
        elif character in _STRING_STARTS:
            self._begin(character)
        elif " " <= character <= "/":
            pass
        elif "0" <= character <= "~":
            self._state = _State.TEXT
        else:
            self._state = _State.TEXT
            return position
        return position + 1

    def _csi(self, text: str, position: int, kept: list[str]) -> int:
        body = _CSI_BODY.match(text, position)
        end = body.end() if body else position
        if end == len(text):
            return end
        self._state = _State.TEXT
        return end + 1 if "@" <= text[end] <= "~" else end

    def _string(self, text: str, position: int, kept: list[str]) -> int:
        limit = position + _STRING_CHARS - self._string_length
        found = _STRING_END.search(text, position, limit)
        if found is not None:
            self._state = _State.STRING_ESCAPE if found.group() == "\x1b" else _State.TEXT
            return found.end()
        if limit <= len(text):
            self._state = _State.TEXT
            return limit
        self._string_length += len(text) - position
        return len(text)

    def _string_escape(self, text: str, position: int, kept: list[str]) -> int:
        if text[position] == "\\":
            self._state = _State.TEXT
            return position + 1
        self._state = _State.ESCAPE
        return position


def sanitize(text: str) -> str:
    """Return `text` without control functions; see `ControlStripper`."""
    stripper = ControlStripper()
    return stripper.feed(text) + stripper.finish()


def json_text(value: object, indent: int | None = None) -> str:
    """Return a value as JSON that is safe in a terminal: what has no shape is escaped (R36).

    The escapes are those of JSON, so that every reader gets the same value.
    """
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    return _UNSAFE_IN_JSON.sub(_json_escape, text)


def clean(data: bytes) -> str:
    """Return captured bytes as text: UTF-8 with replacement, sanitized, progress lines collapsed.

    Of a line that was rewritten with CR only what was left standing at the end is kept.
    """
    stripper = ControlStripper(keep_returns=True)
    text = stripper.feed(data.decode("utf-8", "replace")) + stripper.finish()
    if "\r" not in text:
        return text
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))


def live(progress: Progress, limit: int = LIVE_CHARS) -> Callable[[bytes], None]:
    """Return a taker of raw output that passes it to `progress` as safe text.

    After `limit` characters it goes silent: nobody reads that much while it scrolls by, and the
    result shows the end of the output anyway.
    """
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    stripper = ControlStripper()
    left = limit

    def take(data: bytes) -> None:
        nonlocal left
        if left <= 0:
            return
        text = stripper.feed(decoder.decode(data))[:left]
        left -= len(text)
        if text:
            progress(text)

    return take


@record
class ModelText:
    """Output for the model, and the 0600 file with all of it where something was left out."""

    text: str
    full_output: Path | None = None


def for_model(captured: Captured, limit: int = CLIP_CHARS) -> ModelText:
    """Return captured output as the model gets it: head and tail, cut at lines (R43).

    Between them stands how many bytes are left out, where they are, and what reads them.
    """
    whole = len(captured.head) + len(captured.tail) == captured.total_bytes
    if whole:
        head = tail = clean(captured.head + captured.tail)
        if len(head) <= limit:
            return ModelText(head)
    else:
        head, tail = clean(captured.head), clean(captured.tail)
    head, tail = _first_lines(head, limit // 2), _last_lines(tail, limit // 2)
    left_out = captured.total_bytes - len(head.encode()) - len(tail.encode())
    path, held = _full_output(captured, whole=whole)
    return ModelText(f"{head}\n{_left_out(left_out, path, held, captured)}\n{tail}", path)


def bounded_text(text: str) -> ModelText:
    """Return text with its middle left out where it is too long, and the file that has all."""
    from tools.engine.capture import Capture

    capture = Capture()
    capture.add(text.encode("utf-8", "replace"))
    return for_model(capture.finish())


class Excerpt:
    """The head and the tail of text that comes in pieces, `limit` characters together."""

    def __init__(self, limit: int = CLIP_CHARS) -> None:
        self._half = limit // 2
        self._head = ""
        self._tail = ""
        self._left_out = 0

    def add(self, text: str) -> None:
        """Take the next piece."""
        room = self._half - len(self._head)
        self._head += text[:room]
        tail = self._tail + text[room:]
        self._tail = tail[-self._half :]
        self._left_out += len(tail) - len(self._tail)

    @property
    def text(self) -> str:
        """What was kept, with a line that says how much was not."""
        if not self._left_out:
            return self._head + self._tail
        return f"{self._head}\n[… {self._left_out:,} characters left out …]\n{self._tail}"


def _first_lines(text: str, limit: int) -> str:
    cut = text.rfind("\n", limit // 2, limit)
    return text[:cut] if cut >= 0 else text[:limit]


def _last_lines(text: str, limit: int) -> str:
    start = max(len(text) - limit, 0)
    cut = text.find("\n", start, start + limit // 2)
    return text[cut + 1 :] if cut >= 0 else text[start:]


def _full_output(captured: Captured, *, whole: bool) -> tuple[Path | None, int]:
    if not whole:
        return captured.spool, captured.spooled_bytes
    try:
        return storage.write_scratch(captured.head + captured.tail), captured.total_bytes
    except storage.StorageError:
        return None, 0


def _left_out(count: int, path: Path | None, held: int, captured: Captured) -> str:
    if path is None:
        where = "they could not be stored; run it again with less output"
    elif held < captured.total_bytes:
        where = f"the first {held:,} bytes of the output are in {path}: read it with read_file"
    else:
        where = f"the full output is in {path}: read it with read_file"
    return f"[… {count:,} bytes left out; {where} …]"


_VISIBLE_SPACES = 80
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 but tab and newline, C1
    "\u00a0\u00ad\u034f\u061c\u115f\u1160\u1680\u17b4\u17b5\u180b-\u180f"
    "\u2000-\u200f\u2028-\u202f\u205f-\u206f\u2800\u3000\u3164"  # spaces, zero width, bidi
    "\ud800-\udfff\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    "\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff]"  # tags and variation selectors
    f"| {{{_VISIBLE_SPACES},}}|\n{{6,}}"
)


def clipped(text: str, most: int) -> str:
    """Return the text, marked with … where it was cut to `most` characters."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def one_line(text: str, most: int) -> str:
    """Return the text as one line of at most `most` characters."""
    return clipped(" ".join(text.split()), most)


def visible(text: str) -> str:
    """Return `text` with everything that has an effect but no shape written as an escape.

    Control, bidi, zero-width, tag and variation characters and unusual spaces become `\\x1b`,
    `\\u202e`, `\\U000e0041`; long runs of spaces or empty lines are counted, so that nothing can
    be pushed out of sight (R33, R37). Tab and newline stay.
    """
    return _UNSEEN.sub(_escape, text)


def has_unseen(text: str) -> bool:
    """Tell whether `visible` would change `text`: worth a warning in what a person trusts."""
    return _UNSEEN.search(text) is not None


def _escape(found: re.Match[str]) -> str:
    run = found.group()
    if run[0] == " ":
        return f"[{len(run)} spaces]"
    if run[0] == "\n":
        return f"\n[{len(run) - 1} empty lines]\n"
    code = ord(run)
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def _json_escape(found: re.Match[str]) -> str:
    return json.dumps(found.group())[1:-1]
