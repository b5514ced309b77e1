"""Tries to break out: run inside the walls by a probe (`python -I -S inside.py DIRECTORY PID NET`).

Writes one word per line for each thing that could be read or reached; what could be written the
probe finds on the disk. The directory holds what the probe made, the process PID is outside, NET
is the network namespace outside (empty where there are none).
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

WRITES = ("work/new", "outside", "tree/kept/new")


def main(directory: Path, outside: int, network: str) -> None:
    """Try everything and tell what could be done."""
    for name in WRITES:
        _could(partial((directory / name).write_text, "x"))
    attempts: dict[str, Callable[[], object]] = {
        "read-hidden": lambda: _not_empty((directory / "hidden" / "key").read_text()),
        "signal": lambda: os.kill(outside, 0),
        "tcp": lambda: _use(socket.SOCK_STREAM, network),
        "udp": lambda: _use(socket.SOCK_DGRAM, network),
    }
    sys.stdout.writelines(f"{name}\n" for name, attempt in attempts.items() if _could(attempt))


def _could(attempt: Callable[[], object]) -> bool:
    try:
        attempt()
    except OSError:
        return False
    return True


def _not_empty(text: str) -> None:
    if not text:
        raise OSError("empty")


def _use(kind: int, network: str) -> None:
    """Make a socket in the network of the machine, not in an empty one."""
    with socket.socket(socket.AF_INET, kind):
        if network and str(Path("/proc/self/ns/net").readlink()) != network:
            raise OSError("a network of its own")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
