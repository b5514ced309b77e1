"""Memory limits: for a whole process tree where a control group can be made, else per process.

Tried in this order, once per process of opta: a control group of our own (cgroup v2 or v1, where
the directory may be written: root, or a delegated one), `systemd-run --user --scope`, RLIMIT_DATA
(which Linux counts for all private writable memory of one process; the address space, which
runtimes reserve and never use, is not limited: X122). Other systems than Linux have none of these.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from enum import StrEnum
from functools import cache
from pathlib import Path

from tools.record import record

_MOUNT = Path("/sys/fs/cgroup")
_PROBE_LIMIT = 16 * 1024 * 1024
_PROBE_TIMEOUT_S = 20
_MB = 1024**2

_ENTER = 'echo 0 > "$1" && shift && exec "$@"'


class Reach(StrEnum):
    """What a memory limit is for."""

    TREE = "tree"
    PROCESS = "process"
    NONE = "none"


@record
class MemoryMeans:
    """How memory is limited here. `group` is where control groups are made, v1 or v2."""

    reach: Reach
    how: str
    group: Path | None = None
    version: int = 0
    program: str = ""


def means(path: str) -> MemoryMeans:
    """Return how this machine limits memory; tried once per process. `path` is a PATH."""
    return _means(path)


def about(max_bytes: int, found: MemoryMeans) -> str:
    """Return in words what a limit comes to."""
    size = f"{max_bytes // _MB} MB"
    match found.reach:
        case Reach.TREE:
            return f"memory: {size} for all its processes together"
        case Reach.PROCESS:
            return f"memory: {size} for the data of each process, not of all"
        case Reach.NONE:
            return f"memory: {size} are declared, but not enforced on this system"


@contextmanager
def limited(argv: Sequence[str], max_bytes: int, found: MemoryMeans) -> Iterator[tuple[str, ...]]:
    """Yield what runs `argv` with so much memory; afterwards the control group is removed.

    Raises OSError when the group cannot be made.
    """
    if found.group is not None:
        group = _make(found.group, found.version, max_bytes)
        try:
            yield ("/bin/sh", "-c", _ENTER, "sh", str(group / "cgroup.procs"), *argv)
        finally:
            _remove(group)
    elif found.program:
        yield (*_scope(found.program, max_bytes), *argv)
    elif found.reach is Reach.PROCESS:
        limit = f'ulimit -d {max(1, max_bytes // 1024)} && exec "$@"'
        yield ("/bin/sh", "-c", limit, "sh", *argv)
    else:
        yield tuple(argv)


@cache
def _means(path: str) -> MemoryMeans:
    from tools.engine.isolation.proof import find

    if sys.platform != "linux":
        return MemoryMeans(Reach.NONE, "this system has no limit that opta knows")
    candidates = [
        MemoryMeans(Reach.TREE, f"control groups v{version}", group, version)
        for version, group in _places()
    ]
    program = find("systemd-run", path)
    if program is not None and os.environ.get("XDG_RUNTIME_DIR"):
        candidates.append(MemoryMeans(Reach.TREE, "systemd-run --user", program=program))
    for candidate in candidates:
        if _holds(candidate):
            return candidate
    return MemoryMeans(Reach.PROCESS, "RLIMIT_DATA")


def _places() -> Iterator[tuple[int, Path]]:
    """Yield where a memory group could be made: below the group this process is in."""
    try:
        lines = Path("/proc/self/cgroup").read_text("utf-8").splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, place = line.split(":", 2)
        inner = place.lstrip("/")
        if not controllers:
            # A group with processes gives no controllers to groups in it: its parent may.
            own = _MOUNT / inner
            yield from ((2, group) for group in (own.parent, own) if group.is_relative_to(_MOUNT))
        elif "memory" in controllers.split(","):
            yield from ((1, _MOUNT / "memory" / each) for each in dict.fromkeys((inner, "")))


def _make(parent: Path, version: int, max_bytes: int) -> Path:
    group = parent / f"opta-{secrets.token_hex(8)}"
    group.mkdir()
    try:
        if version == 2:
            (group / "memory.max").write_text(str(max_bytes))
            with suppress(OSError):
                (group / "memory.swap.max").write_text("0")
        else:
            (group / "memory.limit_in_bytes").write_text(str(max_bytes))
            with suppress(OSError):
                (group / "memory.memsw.limit_in_bytes").write_text(str(max_bytes))
    except OSError:
        _remove(group)
        raise
    return group


def _remove(group: Path) -> None:
    # Processes that left the process group keep the control group, and the limit, until they end.
    with suppress(OSError):
        group.rmdir()


def _scope(program: str, max_bytes: int) -> tuple[str, ...]:
    return (program, "--user", "--scope", "--quiet", "--collect", "-p", f"MemoryMax={max_bytes}",
            "-p", "MemorySwapMax=0", "--")  # fmt: skip


def _holds(candidate: MemoryMeans) -> bool:
    """Tell whether what fits runs, and what needs more than the limit is stopped."""
    return _runs(candidate, _PROBE_LIMIT // 64) and not _runs(candidate, 2 * _PROBE_LIMIT)


def _runs(candidate: MemoryMeans, size: int) -> bool:
    # tail keeps in memory what has no line end.
    script = f'test "$(head -c {size} /dev/zero | tail -n 1 | wc -c)" -eq {size}'
    try:
        with limited(("/bin/sh", "-c", script), _PROBE_LIMIT, candidate) as argv:
            done = subprocess.run(
                argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=_PROBE_TIMEOUT_S,
                check=False, start_new_session=True,
            )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
