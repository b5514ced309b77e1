"""Changes values into other values and into text: transforms and number pictures (C249-C281)."""

from __future__ import annotations

import base64
import binascii
import json
import re
import shlex
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from tools.engine.arguments import argument_text
from tools.engine.expressions import check, evaluate
from tools.engine.template import Names

if TYPE_CHECKING:
    from decimal import Decimal


class ConversionError(ValueError):
    """A value cannot be changed as the tool file asks."""


def _bytes(text: str) -> bytes:
    """Return text as UTF-8; what a program wrote that was none comes out as it was."""
    return text.encode("utf-8", "surrogateescape")


def _base64decode(text: str) -> str:
    try:
        return base64.b64decode(text, validate=True).decode()
    except (binascii.Error, ValueError):
        raise ConversionError("the value is not Base64 of UTF-8 text.") from None


def _urldecode(text: str) -> str:
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        raise ConversionError("the value is not URL-encoded UTF-8 text.") from None


TRANSFORMS: Mapping[str, Callable[[str], str]] = {
    "lowercase": str.lower,
    "uppercase": str.upper,
    "trim": str.strip,
    "base64encode": lambda text: base64.b64encode(_bytes(text)).decode(),
    "base64decode": _base64decode,
    "urlencode": lambda text: quote(_bytes(text), safe=""),
    "urldecode": _urldecode,
    "jsonescaped": lambda text: json.dumps(text, ensure_ascii=False)[1:-1],
    "shellescaped": shlex.quote,
}
"""The transforms with a name; each takes and gives text."""

_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_-]*", re.ASCII)
_PICTURE = re.compile(r"([#0]*)(?:\.([#0]*))?")


def transform(name: str, value: Any) -> Any:
    """Return `value` changed by a named transform, or by JavaScript over `value` (X62).

    A named transform changes each element of a list. Raises ConversionError and ExpressionError.
    """
    function = TRANSFORMS.get(name)
    if function is None:
        return evaluate(name, {"value": value})
    if isinstance(value, list):
        return [function(argument_text(element)) for element in value]
    return function(argument_text(value))


def transform_problem(name: str, *, script: bool = True) -> str:
    """Say why a transform cannot work; empty when it can. `script` allows JavaScript (C279)."""
    if name in TRANSFORMS or (script and name == "value"):
        return ""
    if _WORD.fullmatch(name) or not script:
        near = get_close_matches(name, TRANSFORMS, 1)
        hint = f"Did you mean {near[0]}?" if near else f"There are: {', '.join(TRANSFORMS)}."
        return f"{name!r} is no transform. {hint}"
    problems = check(name, Names())
    if not problems:
        return ""
    first = problems[0]
    return f"line {first.line}, column {first.column}: {first.message}"


def as_picture(value: Any, picture: str) -> str:
    """Return a number as a .NET picture of `0`, `#` and `.` shows it: 5 as `0000` is 0005 (X96).

    `0` is a digit that is always there, `#` one that is there when needed; halves are rounded
    away from zero. Raises ConversionError.
    """
    if problem := picture_problem(picture):
        raise ConversionError(problem)
    whole, _, fraction = picture.partition(".")
    number = _rounded(value, len(fraction))
    if number is None:
        raise ConversionError(
            f"format({picture}) shows numbers, and {argument_text(value)[:60]!r} is none."
        )
    before, _, after = f"{number.copy_abs():f}".partition(".")
    least = len(whole) - whole.index("0") if "0" in whole else 0
    before = before.lstrip("0").rjust(least, "0")
    always = fraction.rfind("0") + 1
    after = after[:always] + after[always:].rstrip("0")
    sign = "-" if number < 0 else ""
    return f"{sign}{before}{'.' if after else ''}{after}"


def _rounded(value: Any, places: int) -> Decimal | None:
    """Return a number with that many decimal places; None where the value is no number."""
    from decimal import ROUND_HALF_UP, Decimal, InvalidOperation, localcontext

    try:
        with localcontext(prec=1000):
            number = Decimal(str(value)).quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP)
    except InvalidOperation:  # also for `True` and the like
        return None
    return number if number.is_finite() else None


def picture_problem(picture: str) -> str:
    """Say why a picture cannot work; empty when it can."""
    if picture.strip(".") and len(picture) <= 100 and _PICTURE.fullmatch(picture):
        return ""
    return f"format({picture}) is no picture of a number. Write 0, # and . only, such as 0.00."
