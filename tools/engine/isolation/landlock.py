"""Landlock: rules that give rights on directories, without namespaces and without privilege.

Rights hold for all below a directory and cannot be taken back further down. So a directory that
holds something to keep gets none itself: each of its entries gets its own, and no file can be
made in it. Listing names is allowed everywhere.
"""

from __future__ import annotations

import os
import struct
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tools.confinement import Walls
from tools.engine.isolation import seccomp

_EXECUTE, _WRITE_FILE, _READ_FILE, _LIST = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_TRUNCATE, _IOCTL = 1 << 14, 1 << 15
_READ = _EXECUTE | _READ_FILE | _LIST
# Removing and making all but devices, renaming between directories.
_WRITE = _READ | _WRITE_FILE | _TRUNCATE | sum(1 << bit for bit in (4, 5, 7, 8, 9, 10, 12, 13))
_DEVICE = _READ_FILE | _WRITE_FILE | _IOCTL

_DEVICES = ("null", "zero", "full", "random", "urandom")

_NOTHING_OF = ("/dev", "/run", "/tmp", "/var/tmp")

_LAUNCH = "import sys; sys.path.append(sys.argv.pop(1)); import launcher; launcher.main()"
"""Imported, so that its compiled form is used: a script is compiled each time."""


def argv(descriptor: int, command: Sequence[str]) -> tuple[str, ...]:
    """Return what runs `command` behind the walls that `descriptor` holds."""
    here = str(Path(__file__).parent)
    return (sys.executable, "-I", "-S", "-c", _LAUNCH, here, str(descriptor), *command)


def encode(walls: Walls, *, network: bool, alone: bool = False) -> bytes:
    """Return what the launcher reads: whether there is a network, the filter, the rules."""
    filter_ = seccomp.program(namespaces=False, network=network, alone=alone)
    rules = b"".join(b"%d %s\0" % (rights, os.fsencode(path)) for path, rights in _rules(walls))
    return struct.pack("=BI", network, len(filter_)) + filter_ + rules


def _rules(walls: Walls) -> Iterator[tuple[str, int]]:
    nodes = dict.fromkeys(_NOTHING_OF, 0)
    nodes |= {f"/dev/{name}": _DEVICE for name in _DEVICES}
    nodes |= dict.fromkeys(map(str, walls.writable), _WRITE)
    nodes |= dict.fromkeys(map(str, walls.read_only), _READ)
    nodes |= dict.fromkeys(map(str, walls.hidden), 0)
    above = {str(parent) for path in nodes for parent in Path(path).parents}
    yield "/", _LIST
    yield from _below("/", _READ, nodes, above)


def _below(
    directory: str, rights: int, nodes: Mapping[str, int], above: set[str]
) -> Iterator[tuple[str, int]]:
    rights = nodes.get(directory, rights)
    if directory not in above:
        if rights:
            yield directory, rights
        return
    try:
        entries = sorted(os.scandir(directory), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        # A link gives no rights: what it leads to has its own place.
        if not entry.is_symlink():
            yield from _below(entry.path, rights, nodes, above)
