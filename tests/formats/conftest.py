from __future__ import annotations

import selectors
import socket

import pytest


@pytest.fixture
def listening_port():
    """A port that listens, and a function telling how many connections wait there."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def accepted():
            with selectors.DefaultSelector() as selector:
                selector.register(server, selectors.EVENT_READ)
                return len(selector.select(timeout=0))

        yield server.getsockname()[1], accepted
