"""Watches a process and its children start programs, open files and connect, with strace."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

_WATCH = ("strace", "-f", "-y", "-q", "-s", "4096", "-e", "signal=none",
          "-e", "trace=execve,execveat,connect,open,openat")  # fmt: skip
_CALL = re.compile(r"(?:\d+\s+)?(\w+)\((.*)")
_PATH = re.compile(r'(?:AT_FDCWD(?:<([^>]*)>)?, |\d+<([^>]*)>, )?"((?:[^"\\]|\\.)*)"')
_ADDRESS = re.compile(r'sin6?_port=htons\((\d+)\).*?"([^"]+)"')


@cache
def _why_not() -> str:
    if shutil.which("strace") is None:
        return "strace is not installed: nothing can be watched"
    tried = subprocess.run([*_WATCH, "true"], capture_output=True, text=True, check=False)
    return "" if tried.returncode == 0 else f"strace does not work here: {tried.stderr.strip()}"


needs_strace = pytest.mark.skipif(bool(_why_not()), reason=_why_not() or "strace works")


@dataclass(frozen=True)
class Seen:
    """What was watched: programs started, files and directories opened, `host:port` or socket
    paths connected to. Attempts that failed are left out, but for connections."""

    started: tuple[str, ...]
    opened: tuple[str, ...]
    connected: tuple[str, ...]


def watched(log: Path, argv: tuple[str, ...]) -> list[str]:
    """Return the command line that runs `argv` and writes what it does to `log`."""
    return [*_WATCH, "-o", str(log), *argv]


def seen(log: Path, cwd: Path) -> Seen:
    """Read what was written. `cwd` is where the process was started."""
    found: dict[str, list[str]] = {"exec": [], "open": [], "connect": []}
    for line in log.read_text(errors="replace").splitlines():
        call = _CALL.match(line)
        if call is None:
            continue
        name, rest = call.groups()
        if name == "connect":
            found["connect"].append(_address(rest))
        elif not re.search(r"= -1 E\w+", rest):
            found["exec" if name.startswith("exec") else "open"].append(_path(rest, cwd))
    return Seen(*(tuple(entries) for entries in found.values()))


def _path(rest: str, cwd: Path) -> str:
    match = _PATH.match(rest)
    assert match, f"strace printed what is not understood: {rest}"
    base = match[1] or match[2] or str(cwd)
    return str(Path(base) / match[3].encode().decode("unicode_escape"))


def _address(rest: str) -> str:
    found = _ADDRESS.search(rest)
    if found:
        return f"{found[2]}:{found[1]}"
    socket = re.search(r'sun_path=@?"([^"]*)"', rest)
    return socket[1] if socket else rest


_CHANGES = (
    "strace", "-f", "-q", "-s", "4096", "-e", "signal=none", "-e",
    "trace=%file,%network,%process,?fchmod,?fchown,?ftruncate,?fallocate,?fsetxattr",
)  # fmt: skip
_OPENED_TO_WRITE = re.compile(r"\bO_(?:WRONLY|RDWR|CREAT|TRUNC|APPEND|TMPFILE)\b")
_CHANGING = re.compile(
    r"creat|f?truncate|fallocate|(?:sym)?link(?:at)?|unlink(?:at)?|rename(?:at2?)?|mkdir(?:at)?"
    r"|rmdir|mknod(?:at)?|f?chmod(?:at2?)?|[fl]?chown(?:at|32)?|utimes?|utimensat|futimesat"
    r"|[fl]?(?:set|remove)xattr|u?mount2?|chroot|pivot_root"
)
_NO_CHANGE = re.compile(r'(?:AT_FDCWD, )?"/dev/(?:null|tty)"')
_NAME_SERVICE = re.compile(r"AF_UNIX, SOCK_STREAM|sun_path=\"/(?:var/)?run/nscd/socket\"")
"""`ls -l` asks the daemon that keeps names of users, if there is one, over a local socket."""


def watched_for_changes(log: Path, argv: tuple[str, ...]) -> list[str]:
    """Return the command line that runs `argv` and writes to `log` what `changes` reads."""
    return [*_CHANGES, "-o", str(log), *argv]


def changes(log: Path, root: Path, scratch: Path) -> list[str]:
    """Return the system calls, failed ones too, that write, connect, or start a program of `root`.

    /dev/null and the terminal may be written to, and files in `scratch`, the directory for
    temporary files: `tac` and `sort` keep there what they get from a pipe.
    """
    found = []
    for line in log.read_text(errors="replace").splitlines():
        call = _CALL.match(line)
        if call is not None and f'"{scratch}/' not in line and _changes(call[1], call[2], root):
            found.append(line)
    return found


def _changes(name: str, rest: str, root: Path) -> bool:
    if name in ("open", "openat", "openat2"):
        return bool(_OPENED_TO_WRITE.search(rest)) and not _NO_CHANGE.match(rest)
    if name in ("socket", "connect"):
        return not _NAME_SERVICE.search(rest)
    if name in ("execve", "execveat"):
        path = _PATH.match(rest)
        return path is not None and (path[3][:1] != "/" or Path(path[3]).is_relative_to(root))
    return _CHANGING.fullmatch(name) is not None
