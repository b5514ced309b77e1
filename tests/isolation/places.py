"""Where the sandbox is tried: as which user, in which directory, with which interpreter."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NOBODY = 65534

USERS = ("this user", "a plain user")


def launcher(user: str) -> list[str]:
    """Return the words that run a program as `user`; skips where that cannot be done."""
    if user == USERS[0]:
        return []
    if os.geteuid() != 0:
        pytest.skip("only root can become another user; the tests of this user are those of one")
    if shutil.which("setpriv") is None:
        pytest.skip("there is no setpriv (util-linux) to become another user with")
    return ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]


def interpreter(user: str) -> str:
    """Return a Python that `user` can run: the sandbox needs the standard library only."""
    check = "import sys, ctypes; sys.exit(sys.version_info < (3, 11))"
    for python in ("/usr/bin/python3", "/usr/local/bin/python3", sys.executable):
        test = [*launcher(user), python, "-c", check]
        with suppress(OSError):
            if subprocess.run(test, capture_output=True, check=False, cwd="/").returncode == 0:
                return python
    pytest.skip(f"{user} has no Python 3.11 or later that it can run")


def own_home() -> str:
    """Return the home directory of this user, whatever HOME says in a test."""
    return pwd.getpwuid(os.getuid()).pw_dir


def base() -> Path:
    """Return a directory to make temporary ones in that is not /tmp, which a sandbox replaces."""
    places = (Path("/srv"), Path("/opt"), Path(own_home()), Path("/var/tmp"))
    return next(place for place in places if place.is_dir() and os.access(place, os.W_OK))


@contextmanager
def grounds(user: str) -> Iterator[Path]:
    """Make a directory of `user` with opta's sources in it."""
    directory = Path(tempfile.mkdtemp(prefix="opta-test-", dir=base()))
    try:
        for name in ("tools", "tests/support/calls.py", "tests/isolation/attacks.py"):
            target = directory / "source" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, target, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(ROOT / name, target)
        (directory / "base").mkdir()
        shutil.copy("/usr/bin/id", directory / "suid-id")
        (directory / "suid-id").chmod(0o4755)
        directory.chmod(0o755)
        if user != USERS[0]:
            os.chown(directory / "base", NOBODY, NOBODY)
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)
