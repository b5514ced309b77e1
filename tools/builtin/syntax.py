"""Tells a model at once when its change broke the syntax of a file."""

from __future__ import annotations

import ast
import json
import warnings
from pathlib import Path

_MAX_CHARS = 1024 * 1024


def new_error(path: Path, before: str | None, after: str) -> str:
    """Return what is wrong with `after` where `before` was fine; empty for unknown file types."""
    error = _error(path, after)
    if not error or (before is not None and _error(path, before)):
        return ""
    return f"Syntax error after this change: {error}"


def _error(path: Path, text: str) -> str:
    if len(text) > _MAX_CHARS:
        return ""
    try:
        if path.suffix in (".py", ".pyi"):
            with warnings.catch_warnings():
                # Doubtful escapes are the program's business and would be printed on the screen.
                warnings.simplefilter("ignore")
                ast.parse(text)
        elif path.suffix == ".json":
            json.loads(text)
    except SyntaxError as error:
        return f"line {error.lineno}: {error.msg}"
    except json.JSONDecodeError as error:
        return f"line {error.lineno} column {error.colno}: {error.msg}"
    except (ValueError, RecursionError, MemoryError) as error:
        return str(error) or type(error).__name__
    return ""
