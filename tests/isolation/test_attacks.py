"""Nothing gets out of a sandbox: every attack of `attacks.py`, for real, as root and as a plain
user, behind bubblewrap and behind Landlock."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache

import pytest

from tests.isolation import places
from tests.isolation.attacks import ATTACKS, NO_WALLS, SECRET, WORKS, WORKS_IN_BUBBLEWRAP
from tools.confinement import Backend
from tools.engine.isolation.proof import prove

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap and Landlock: Linux")

WAYS = [
    pytest.param((user, backend), id=f"{backend}, {user}")
    for user in places.USERS
    for backend in ("bubblewrap", "landlock")
]

WORKED = ("reached", "attached", "killed", "opened", "pushed", "made", "read ")
"""What an attack prints when it got through."""


@cache
def outcome(user: str, backend: str) -> dict:
    """Return what all attacks came to; they run once."""
    command = [*places.launcher(user), places.interpreter(user)]
    proof = None if backend == NO_WALLS else prove(Backend(backend), os.environ["PATH"])
    if proof is not None and not proof.available:
        reason = proof.reason
        pytest.skip(f"{backend} does not work on this machine: {reason}")
    with places.grounds(user) as directory:
        source = directory / "source"
        env = {
            "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "PYTHONPATH": str(source),
            "PYTHONDONTWRITEBYTECODE": "1", "SUID_ID": str(directory / "suid-id"),
            "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C",
        }  # fmt: skip
        done = subprocess.run(
            [*command, source / "tests/isolation/attacks.py", backend, directory / "base"],
            env=env, capture_output=True, text=True, check=False, timeout=100, cwd="/",
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module", params=WAYS)
def way(request):
    """The results of one user and backend, with the backend's name."""
    user, backend = request.param
    return backend, outcome(user, backend)


def got_through(result: dict, before: dict) -> bool:
    """Tell whether an attack changed, read or reached anything that is not its own."""
    changed = {
        name for name, value in result["state"].items()
        if value != before[name] and not (name == "mimir" and value == "gone")
    }  # fmt: skip
    said = result["out"] + result["err"]
    return bool(changed) or SECRET in said or any(word in result["out"] for word in WORKED)


NEEDS_RIGHTS = frozenset({
    "write etc", "proc root", "remount", "bind over", "shadow", "sysctl", "device", "terminal",
    "keyring", "io_uring", "set-user-id", "no new privileges", "link replaced", "ptrace",
    "left behind",
})  # fmt: skip
"""Attacks that the system itself may stop, or that leave nothing to be seen at once."""


def test_without_walls_the_attacks_get_through():
    """What the other tests see fail would otherwise work: they can fail."""
    results = outcome(places.USERS[1 if os.geteuid() == 0 else 0], NO_WALLS)
    stopped = {
        name for name, result in results.items() if not got_through(result, result["before"])
    }
    assert stopped <= NEEDS_RIGHTS


@pytest.mark.parametrize("attack", ATTACKS)
def test_an_attack_changes_reaches_and_reads_nothing(way, attack):
    _, results = way
    assert not got_through(results[attack], results["before"]), results[attack]


def test_nothing_happens_after_the_end_either(way):
    _, results = way
    after = {name: value for name, value in results["after"].items() if name != "mimir"}
    assert after == {name: value for name, value in results["before"].items() if name != "mimir"}


def test_rights_are_dropped(way):
    _, results = way
    status = dict(
        line.split(":\t") for line in results["no new privileges"]["out"].splitlines()
    )  # fmt: skip
    assert status["NoNewPrivs"] == "1"
    # Root keeps rights over files (override, owner, chown) and no others.
    assert int(status["CapEff"], 16) & ~0b1011 == 0
    assert "euid=0" not in results["set-user-id"]["out"]
    for name in ("keyring", "io_uring"):
        assert results[name]["out"] == "-1 1\n", f"{name} is not refused with EPERM"


def test_what_was_made_where_nothing_may_be_made_is_taken_back_and_said(way):
    backend, results = way
    for attack in ("new codex", "new envrc", "new workflow", "link replaced", "git commondir"):
        remarks = results[attack]["remarks"]
        if backend == "bubblewrap":
            assert "asks in every mode" in remarks[0] or "question of its own" in remarks[0]
            assert ".refused-" in remarks[0]
        else:
            assert remarks == []
            assert results[attack]["code"] != 0


@pytest.mark.parametrize("name", [*WORKS, *WORKS_IN_BUBBLEWRAP])
def test_ordinary_work_goes_on(way, name):
    backend, results = way
    if name in WORKS_IN_BUBBLEWRAP and backend != "bubblewrap":
        assert name not in results
        return
    expected = {
        "read home": (0, "untouched"), "devices": (0, "4\n2\n"), "exit code": (7, ""),
        "commit": (0, "m\n"), "tmp kept between commands": (0, ""),
    }.get(name, (0, "fine\n"))  # fmt: skip
    assert (results[name]["code"], results[name]["out"]) == expected


def test_the_note_says_what_is_not_kept_out(way):
    backend, results = way
    assert results["note"].startswith(f"in a sandbox ({backend}): no network, writes only to this")
    assert ("not kept out" in results["note"]) == (backend == "landlock")
