"""What the tests of isolation share: a workspace outside of /tmp, and an image."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from tests.isolation import places
from tools.confinement import Backend
from tools.engine.isolation.proof import prove


@pytest.fixture
def needs():
    """A function that skips, saying why, where a backend does not work on this machine."""

    def need(backend, image=""):
        proof = prove(Backend(backend), os.environ["PATH"], image)
        if not proof.available:
            pytest.skip(f"{backend} does not work on this machine: {proof.reason}")

    return need


@pytest.fixture
def workspace(monkeypatch):
    """An empty workspace in an empty home, where a sandbox sees both."""
    base = Path(tempfile.mkdtemp(prefix="opta-test-", dir=places.base()))
    monkeypatch.setenv("HOME", str(base))
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name)
    root = base / "work"
    root.mkdir()
    yield root
    shutil.rmtree(base, ignore_errors=True)


@pytest.fixture(scope="session")
def image(tmp_path_factory):
    """A scratch image with a static busybox, made without a registry; skips with the reason."""
    busybox = next(
        map(str, filter(Path.exists, map(Path, ("/bin/busybox", "/usr/bin/busybox")))), ""
    )
    if shutil.which("podman") is None or not busybox:
        pytest.skip("podman or a static busybox is missing: apt-get install podman busybox-static")
    directory = tmp_path_factory.mktemp("image")
    programs = directory / "root" / "bin"
    programs.mkdir(parents=True)
    for name in ("proc", "dev", "sys", "etc", "tmp"):
        (directory / "root" / name).mkdir()
    shutil.copy(busybox, programs / "busybox")
    for name in ("sh", "cat", "echo", "ls", "sleep", "id", "env", "head", "tail", "wc", "test"):
        (programs / name).symlink_to("busybox")
    (directory / "Containerfile").write_text("FROM scratch\nCOPY root/ /\n")
    name = f"localhost/opta-test-{os.getpid()}"
    # The engine keeps its images in the person's home, not in that of a test.
    home = {**os.environ, "HOME": places.own_home()}
    home = {key: value for key, value in home.items() if not key.startswith("XDG_")}
    done = subprocess.run(
        ["podman", "build", "-q", "-t", name, directory],
        env=home, capture_output=True, text=True, check=False, timeout=110,
    )  # fmt: skip
    if done.returncode != 0:
        pytest.skip(f"podman cannot build an image here: {done.stderr.strip()[-300:]}")
    yield name
    subprocess.run(["podman", "rmi", "-f", name], env=home, capture_output=True, check=False)
