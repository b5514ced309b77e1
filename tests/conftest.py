"""What holds for every test: its own home and directory, no network, and rows that are counted."""

from __future__ import annotations

import compileall
import ipaddress
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from tests import rows

# The same examples at every run; HYPOTHESIS_PROFILE=search looks for new ones.
hypothesis.settings.register_profile("opta", deadline=None, database=None, derandomize=True)
hypothesis.settings.register_profile("search", deadline=None, database=None, max_examples=2000)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "opta"))

_FOREIGN_PREFIXES = (
    "OPTA_", "OPENAI_", "OPENROUTER_", "ANTHROPIC_", "XDG_", "GIT_", "CODEX_", "TIKTOKEN_",
)  # fmt: skip
_FOREIGN_NAMES = frozenset(
    ["http_proxy", "https_proxy", "all_proxy", "no_proxy", "no_color", "force_color", "editor",
     "visual", "pager", "columns", "lines", "pythonpath", "pythonstartup"]
)  # fmt: skip


@pytest.fixture(autouse=True)
def _isolated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Give the test an empty home, empty XDG directories and an empty current directory.

    Child processes inherit all of it. What the person who runs the tests has set for opta, for
    model servers, for git or for proxies is taken away.
    """
    base = tmp_path_factory.mktemp("isolated")
    before, start = dict(os.environ), Path.cwd()
    with pytest.MonkeyPatch.context() as patch:
        for name in before:
            if name.startswith(_FOREIGN_PREFIXES) or name.lower() in _FOREIGN_NAMES:
                patch.delenv(name)
        for name, directory in _directories(base).items():
            directory.mkdir(mode=0o700)
            patch.setenv(name, str(directory))
        patch.setenv("GIT_CONFIG_NOSYSTEM", "1")
        # A process that is killed or may not write must not leave half a module for the others.
        patch.setenv("PYTHONDONTWRITEBYTECODE", "1")
        # Programs that the development extra installs, ripgrep among them.
        patch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
        (base / "work").mkdir()
        os.chdir(base / "work")
        try:
            yield
        finally:
            os.chdir(start)


def _directories(base: Path) -> dict[str, Path]:
    return {
        "HOME": base / "home",
        "XDG_CONFIG_HOME": base / "config",
        "XDG_STATE_HOME": base / "state",
        "XDG_CACHE_HOME": base / "cache",
        "XDG_DATA_HOME": base / "data",
        "XDG_RUNTIME_DIR": base / "runtime",
        "OPTA_GLOBAL_DIR": base / "etc",
    }


class NetworkBlocked(RuntimeError):
    """A test tried to leave the machine. Not an OSError, so that no code takes it for an outage."""


def _stay_on_loopback(event: str, arguments: tuple[Any, ...]) -> None:
    """Audit hook: connecting to, sending to or looking up anything but loopback raises."""
    if event in ("socket.connect", "socket.sendto"):
        address = arguments[1]
        host = address[0] if isinstance(address, tuple) else None
    elif event == "socket.getaddrinfo":
        host = arguments[0]
    else:
        return
    if host is not None and not _is_loopback(host):
        raise NetworkBlocked(f"tests stay on loopback; this one asked for {host!r}")


def _is_loopback(host: str | bytes) -> bool:
    name = host.decode() if isinstance(host, bytes) else host
    if name in ("", "localhost"):
        return True
    try:
        return ipaddress.ip_address(name.partition("%")[0]).is_loopback
    except ValueError:
        return False


def pytest_configure(config: pytest.Config) -> None:
    sys.addaudithook(_stay_on_loopback)
    if not hasattr(config, "workerinput"):
        # A thousand processes of opta would each compile it.
        for package in ("agent", "prompts", "tools"):
            compileall.compile_dir(config.rootpath / package, quiet=2)
        config.pluginmanager.register(rows.Recorder(config), "opta-rows")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let every report carry the rows its test claims, also from an xdist worker."""
    for item in items:
        for row in rows.claimed_by(item):
            item.user_properties.append((rows.PROPERTY, row))


def pytest_runtest_setup(item: pytest.Item) -> None:
    unknown = sorted(set(rows.claimed_by(item)) - rows.known_ids())
    if unknown:
        pytest.fail(
            f"{item.nodeid} claims {', '.join(unknown)}: no such row in docs/compatibility.md",
            pytrace=False,
        )
