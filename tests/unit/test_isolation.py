"""The isolation that tests/conftest.py promises to every other test."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest


def test_a_test_has_a_home_and_a_directory_of_its_own_and_both_are_empty():
    assert Path.home().parent == Path.cwd().parent
    assert list(Path.home().iterdir()) == list(Path.cwd().iterdir()) == []


@pytest.mark.parametrize("name", ["XDG_CONFIG_HOME", "XDG_STATE_HOME", "OPTA_GLOBAL_DIR"])
def test_directories_of_opta_are_below_the_base_of_the_test(name):
    assert Path(os.environ[name]).parent == Path.home().parent


def test_nothing_of_a_model_server_is_in_the_environment():
    assert not [name for name in os.environ if name.startswith("OPENAI_")]


@pytest.mark.parametrize("address", [("192.0.2.1", 80), ("2001:db8::1", 80)])
def test_connecting_beyond_loopback_raises(address):
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    with socket.socket(family) as sock, pytest.raises(RuntimeError, match="stay on loopback"):
        sock.connect(address)


def test_looking_up_another_host_raises():
    with pytest.raises(RuntimeError, match="stay on loopback"):
        socket.getaddrinfo("example.org", 80)


def test_loopback_and_unix_sockets_work(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection(server.getsockname()).close()
    path = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
        server.bind(path)
        server.listen()
        client.connect(path)
