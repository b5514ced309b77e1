"""Text as it is stored: encoding, byte order mark and line ends, kept through a change (R17)."""

from __future__ import annotations

import codecs

from tools.record import record

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
"""UTF-32 comes first: its little-endian mark begins with that of UTF-16."""

SAMPLE_BYTES = 8192
"""How much of the beginning decides whether a file is text."""

_IMAGES = (
    (b"\x89PNG\r\n\x1a\n", "PNG image"),
    (b"\xff\xd8\xff", "JPEG image"),
    (b"GIF8", "GIF image"),
    (b"BM", "BMP image"),
    (b"II*\0", "TIFF image"),
    (b"MM\0*", "TIFF image"),
    (b"\0\0\1\0", "icon image"),
)
_KINDS = (
    (b"%PDF-", "PDF document"),
    (b"PK\x03\x04", "ZIP archive or office document"),
    (b"\x1f\x8b", "gzip data"),
    (b"\x7fELF", "ELF program"),
    (b"MZ", "Windows program"),
    (b"SQLite format 3\0", "SQLite database"),
    (b"\xca\xfe\xba\xbe", "Java class or macOS program"),
    (b"\xcf\xfa\xed\xfe", "macOS program"),
    (b"7z\xbc\xaf\x27\x1c", "7-Zip archive"),
    (b"BZh", "bzip2 data"),
    (b"\xfd7zXZ\0", "xz data"),
    (b"(\xb5/\xfd", "Zstandard data"),
)


class NotText(ValueError):
    """Bytes that are not text. The message says what they are."""


@record
class Encoding:
    """How text is stored: a codec name, and the byte order mark before it (may be empty)."""

    codec: str = "utf-8"
    mark: bytes = b""

    def decode(self, data: bytes) -> str:
        """Return the text without the mark; line ends stay as they are. Raises NotText."""
        try:
            return data[len(self.mark) :].decode(self.codec)
        except UnicodeDecodeError as error:
            raise NotText(f"it is not valid {self.codec}") from error

    def encode(self, text: str) -> bytes:
        """Return the bytes of `text`, mark included. Raises UnicodeEncodeError."""
        return self.mark + text.encode(self.codec)


UTF8 = Encoding()


def detect(sample: bytes) -> Encoding:
    """Find the encoding from the first bytes of a file. Raises NotText for binary ones.

    A mark decides; then UTF-16 by its zero bytes; then valid UTF-8; then Latin-1, which can hold
    any bytes, where hardly any are control characters.
    """
    for mark, codec in _MARKS:
        if sample.startswith(mark):
            return Encoding(codec, mark)
    head = sample[:SAMPLE_BYTES]
    if b"\0" in head:
        wide = _utf16(head)
        if wide is None:
            raise NotText(kind_of(head))
        return Encoding(wide)
    if _binary_by_name(head):
        raise NotText(kind_of(head))
    try:
        # The sample may end inside a character.
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        controls = sum(byte < 32 and byte not in b"\t\n\r\f\x1b" for byte in head)
        if controls * 50 > len(head):
            raise NotText(kind_of(head)) from None
        return Encoding("latin-1")
    return UTF8


def decode(data: bytes) -> tuple[str, Encoding]:
    """Return the text of a whole file and how it is stored. Raises NotText."""
    encoding = detect(data)
    if encoding == UTF8:
        try:
            return data.decode(), encoding
        except UnicodeDecodeError:
            encoding = Encoding("latin-1")
    return encoding.decode(data), encoding


def line_end(text: str) -> str:
    """Return the line end that most lines of `text` have: `\\r\\n` or `\\n`."""
    folded = text.count("\r\n")
    return "\r\n" if folded * 2 > text.count("\n") else "\n"


def with_line_end(text: str, end: str) -> str:
    """Give every line of `text` the line end `end`."""
    unix = text.replace("\r\n", "\n")
    return unix if end == "\n" else unix.replace("\n", end)


def image_kind(sample: bytes) -> str:
    """Name the kind of image that the first bytes begin, or return an empty text."""
    if sample.startswith(b"RIFF") and sample[8:12] == b"WEBP":
        return "WebP image"
    if sample[4:12] in (b"ftypavif", b"ftypheic"):
        return "HEIF image"
    return next((kind for magic, kind in _IMAGES if sample.startswith(magic)), "")


def kind_of(sample: bytes) -> str:
    """Name what binary bytes seem to be."""
    named = image_kind(sample) or next((k for m, k in _KINDS if sample.startswith(m)), "")
    return named or "binary data"


def _binary_by_name(head: bytes) -> bool:
    """True for formats whose first block may lack the zero bytes that give binaries away."""
    return head.startswith((b"%PDF-", b"\x1f\x8b", b"\x89PNG", b"\xff\xd8\xff"))


def _utf16(head: bytes) -> str | None:
    """Tell UTF-16 without a mark from binary: one byte of most pairs is zero, always the same."""
    pairs = len(head) // 2
    even, odd = head[0 : pairs * 2 : 2].count(0), head[1 : pairs * 2 : 2].count(0)
    if pairs and odd * 10 > pairs * 7 and even == 0:
        return "utf-16-le"
    if pairs and even * 10 > pairs * 7 and odd == 0:
        return "utf-16-be"
    return None
