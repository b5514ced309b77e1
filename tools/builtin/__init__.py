"""The tools that opta brings along."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tools.builtin.kit import Builtin

NAMES = (
    "background_job", "bash_execution", "edit_file", "file_operations", "file_search", "git",
    "read_file", "run_command", "write_file",
)  # fmt: skip
"""Every built-in, sorted: each is made by the module of its name."""


def all_builtins() -> tuple[Builtin, ...]:
    """Return every built-in, sorted by name. The first call imports them."""
    modules = (import_module(f"{__name__}.{name}") for name in NAMES)
    return tuple(module.tool() for module in modules)
