"""The tools that opta brings along."""

from __future__ import annotations

from tools.builtin import (
    bash_execution,
    edit_file,
    file_operations,
    file_search,
    git,
    read_file,
    run_command,
    write_file,
)
from tools.builtin.kit import Builtin

_MODULES = (
    bash_execution, edit_file, file_operations, file_search, git, read_file, run_command,
    write_file,
)  # fmt: skip


def all_builtins() -> tuple[Builtin, ...]:
    """Return every built-in, sorted by name."""
    return tuple(module.tool() for module in _MODULES)
