"""sandbox-exec of macOS: a profile in which the last rule that fits counts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tools.confinement import Walls

PROGRAM = "/usr/bin/sandbox-exec"

_DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom", "/dev/dtracehelper")


def argv(profile: str, command: Sequence[str]) -> tuple[str, ...]:
    """Return what runs `command` under a profile."""
    return (PROGRAM, "-p", profile, *command)


def profile(walls: Walls, temp: Path, *, network: bool, alone: bool = False) -> str:
    """Return the profile for these walls; `temp` is the private directory for TMPDIR.

    `alone` keeps processes from starting others.
    """
    lines = ["(version 1)", "(allow default)", "(deny file-write*)"]
    lines += [f"(allow file-write* (literal {_quoted(device)}))" for device in _DEVICES]
    rules = {path: "(allow file-write* {})" for path in (*walls.writable, temp)}
    rules |= dict.fromkeys(walls.guarded, "(deny file-write* {})")
    rules |= dict.fromkeys(walls.read_only, "(deny file-write* {0})\n(allow file-read* {0})")
    rules |= dict.fromkeys(walls.hidden, "(deny file-read* file-write* {})")
    for path in sorted(rules, key=lambda path: path.parts):
        lines.append(rules[path].format(f"(subpath {_quoted(path)})"))
        for parent in path.parents:
            if path not in walls.writable and _inside(parent, walls.writable):
                lines.append(f"(deny file-write-unlink (literal {_quoted(parent)}))")
    lines += ["(deny signal)", "(allow signal (target same-sandbox))"]
    if not network:
        lines.append("(deny network*)")
    if alone:
        lines.append("(deny process-fork)")
    return "\n".join(lines) + "\n"


def _inside(path: Path, tops: Sequence[Path]) -> bool:
    return any(path.is_relative_to(top) for top in tops)


def _quoted(path: Path | str) -> str:
    text = str(path).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'
