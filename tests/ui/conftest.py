from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.terminal import Terminal

HARNESS = Path(__file__).with_name("harness.py")
READY = "ask ·"


@pytest.fixture
def chat() -> Iterator[Callable[..., Terminal]]:
    """Start the harness in a terminal and wait for its first paint."""
    with ExitStack() as stack:

        def start(*arguments: str, ready: str = READY, **options: object) -> Terminal:
            terminal = Terminal([sys.executable, HARNESS, *arguments], **options)  # type: ignore[arg-type]
            stack.enter_context(terminal)
            terminal.wait(ready)
            return terminal

        yield start
