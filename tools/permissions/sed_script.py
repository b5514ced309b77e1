"""Which sed scripts only print: addresses, `p`, `d`, `q`, `=`, and `s` without `e` and `w`."""

from __future__ import annotations

_ENDS = ";\n \t"
_COMMANDS = "pdq="
_FLAGS = "gpiI0123456789"


def only_prints(script: str) -> bool:
    """Tell whether a script is surely made of such commands alone."""
    at = 0
    while at < len(script):
        if script[at] in _ENDS:
            at += 1
            continue
        after = _command(script, _addresses(script, at))
        if after < 0:
            return False
        at = after
    return bool(script.strip(_ENDS))


def _addresses(script: str, at: int) -> int:
    at = _address(script, at)
    if at > 0 and script[at : at + 1] == ",":
        at = _address(script, at + 1)
    if at >= 0 and script[at : at + 1] == "!":
        at += 1
    return at


def _address(script: str, at: int) -> int:
    """Return where an address ends, `at` when there is none, -1 when it never ends."""
    if script[at : at + 1] == "/":
        return _delimited(script, at + 1)
    if script[at : at + 1] == "$":
        return at + 1
    while script[at : at + 1] in tuple("0123456789+~"):
        at += 1
    return at


def _command(script: str, at: int) -> int:
    if at < 0 or at >= len(script):
        return -1
    if script[at] == "s" and script[at + 1 : at + 2] in ("/", "|", ",", "#"):
        mark = script[at + 1]
        end = _delimited(script, at + 2, mark)
        end = _delimited(script, end, mark) if end > 0 else -1
        while end > 0 and script[end : end + 1] and script[end] in _FLAGS:
            end += 1
    else:
        end = at + 1 if script[at] in _COMMANDS else -1
    ends = end > 0 and (end == len(script) or script[end] in ";\n")
    return end if ends else -1


def _delimited(script: str, at: int, mark: str = "/") -> int:
    """Return where the text up to an unescaped `mark` ends, -1 when it never does."""
    while at < len(script):
        if script[at] == "\n":
            return -1
        if script[at] == mark:
            return at + 1
        if script[at] == "[":
            # Who looks for the mark in brackets too finds another end: there must be none.
            closed = _bracketed(script, at)
            if closed < 0 or mark in script[at:closed] or script[closed - 1] == "\\":
                return -1
            at = closed
        at += 2 if script[at] == "\\" else 1
    return -1


def _bracketed(script: str, at: int) -> int:
    """Return where the brackets that open at `at` close, over classes such as `[:alpha:]`."""
    at += 2 if script[at + 1 : at + 2] == "^" else 1
    if script[at : at + 1] == "]":
        at += 1
    while at < len(script) and script[at] != "]":
        kind = script[at + 1 : at + 2]
        if script[at] == "[" and kind in (":", ".", "="):
            at = script.find(f"{kind}]", at + 2) + 1
            if not at:
                return -1
        at += 1
    return at if at < len(script) else -1
