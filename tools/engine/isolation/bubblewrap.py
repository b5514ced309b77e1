"""bubblewrap: a namespace of mounts, processes and network of its own (github.com/containers).

The whole file system is mounted read-only; what may be written is mounted over it, and what is
kept or hidden over that. A directory between a writable one and something kept in it is mounted
onto itself, so that it cannot be renamed away together with what it holds.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from tools.confinement import Walls

AS_ROOT = ("--cap-drop", "ALL", "--cap-add", "CAP_DAC_OVERRIDE", "--cap-add", "CAP_FOWNER",
           "--cap-add", "CAP_CHOWN")  # fmt: skip
"""What root keeps: rights over files, which the read-only mounts bound."""

_RUNTIME = ("/run/systemd/resolve", "/run/resolvconf", "/run/NetworkManager/resolv.conf",
            "/run/current-system", "/run/wrappers", "/run/opengl-driver")  # fmt: skip
"""What is needed of /run, where the sockets of services are: name resolution, NixOS."""


_EMPTY = (Path("/run"), Path("/tmp"), Path("/var/tmp"), Path("/var/run"))

_PROC_READ_ONLY = ("sys", "sysrq-trigger", "irq", "bus", "fs", "acpi", "scsi")
"""Parts of /proc that root may write without any capability: they change the machine."""


def options(walls: Walls, temp: Path, *, network: bool) -> list[str]:
    """Return the options for these walls; `temp` stands in for /tmp."""
    words = ["--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    words.append("--die-with-parent")
    if not network:
        words.append("--unshare-net")
    words += ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
    mounts, closed = _mounts(walls, temp)
    for name in _PROC_READ_ONLY:
        words += ["--ro-bind-try", f"/proc/{name}", f"/proc/{name}"]
    for path in sorted(mounts, key=lambda path: Path(path).parts):
        words += mounts[path]
    for path in closed:
        words += ["--remount-ro", path]
    return words


def _mounts(walls: Walls, temp: Path) -> tuple[dict[str, list[str]], list[str]]:
    """Return what is mounted at each path, and the empty directories to close at the end."""
    mounts = {"/tmp": ["--bind", str(temp), "/tmp"], "/var/tmp": ["--tmpfs", "/var/tmp"]}
    closed = []
    if Path("/run").is_dir():
        mounts["/run"] = ["--tmpfs", "/run"]
        mounts |= {path: _bind("--ro-bind", path) for path in _RUNTIME if Path(path).exists()}
        closed.append("/run")
    mounts |= {str(path): _bind("--bind", path) for path in walls.writable if path.exists()}
    for path in _sockets():
        if not _is_in(path, walls.writable):
            mounts.setdefault(str(path), _bind_nothing(path))
    for path in (*walls.read_only, *walls.hidden):
        for parent in _between(path, walls.writable):
            mounts.setdefault(str(parent), _bind("--bind", parent))
    for path in walls.read_only:
        if os.path.lexists(path):
            mounts[str(path)] = _bind("--ro-bind", path)
    for path in walls.hidden:
        if path.is_dir():
            mounts[str(path)] = ["--tmpfs", str(path)]
            closed.append(str(path))
        elif path.exists():
            mounts[str(path)] = _bind_nothing(path)
    return mounts, closed


def _sockets() -> Iterator[Path]:
    """Yield the sockets that programs outside listen on: a read-only mount lets all connect.

    Below /run and /tmp there is nothing of the machine anyway.
    """
    try:
        lines = Path("/proc/net/unix").read_text("utf-8", "replace").splitlines()
    except OSError:
        return
    for line in lines:
        _, slash, rest = line.partition(" /")
        path = Path(slash.strip() + rest)
        if slash and not _is_in(path, _EMPTY) and path.is_socket():
            yield path


def _bind_nothing(path: Path) -> list[str]:
    return ["--ro-bind", "/dev/null", str(path)]


def _bind(option: str, path: Path | str) -> list[str]:
    return [option, str(path), str(path)]


def _between(path: Path, writable: Sequence[Path]) -> list[Path]:
    """Return the directories above `path` that lie in a writable one."""
    return [parent for parent in path.parents if _is_in(parent, writable)]


def _is_in(path: Path, tops: Sequence[Path]) -> bool:
    return any(path != top and path.is_relative_to(top) for top in tops)
