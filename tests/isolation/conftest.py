"""What the tests of isolation share: a workspace outside of /tmp, images, a docker daemon."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from contextlib import ExitStack
from functools import cache
from pathlib import Path

import pytest

from tests.isolation import places
from tests.isolation.images import docker_daemon, made_image
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


@pytest.fixture
def server():
    """A port on which somebody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


@pytest.fixture(scope="session")
def images(tmp_path_factory):
    """A function that makes an image for an engine, with programs (their paths), once."""
    with ExitStack() as made:

        @cache
        def make(engine, *programs):
            directory = tmp_path_factory.mktemp("image")
            return made.enter_context(made_image(engine, directory, programs))

        yield make


@pytest.fixture(scope="session")
def docker():
    """The address of a docker daemon of our own; skips with the reason."""
    with docker_daemon() as address:
        yield address


@pytest.fixture
def engine(request, workspace, monkeypatch):
    """The engine of a test, podman unless it says another, ready to be used."""
    name = getattr(request, "param", "podman")
    monkeypatch.setenv("HOME", places.own_home())
    if name == "docker":
        monkeypatch.setenv("DOCKER_HOST", request.getfixturevalue("docker"))
    return name


@pytest.fixture
def image(engine, images, needs):
    """An image with a busybox only, which the engine can run."""
    name = images(engine)
    needs(engine, name)
    return name
