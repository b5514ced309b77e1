"""What is to be started, apart from how: most processes never need the rest of this package."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tools.record import record


@record
class Request:
    """A process as its tool wants it: see `ProcessSpec`."""

    argv: tuple[str, ...]
    cwd: Path
    env: Mapping[str, str]
    descriptors: tuple[int, ...] = ()
    max_memory_bytes: int | None = None
    reads: tuple[Path, ...] = ()
    one_cpu: bool = False
