"""Turns a command into the command that runs it behind walls, whichever backend does it."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from tools import storage
from tools.confinement import Backend, Walls
from tools.engine.isolation import bubblewrap, landlock, seatbelt, seccomp
from tools.engine.isolation.request import Request
from tools.record import record

_REACH_OUT = frozenset({
    "SSH_AUTH_SOCK", "SSH_AGENT_PID", "GPG_AGENT_INFO", "DBUS_SESSION_BUS_ADDRESS", "DISPLAY",
    "WAYLAND_DISPLAY", "XAUTHORITY", "TMUX", "TMUX_PANE", "STY", "DOCKER_HOST", "CONTAINER_HOST",
    "XDG_RUNTIME_DIR", "VSCODE_IPC_HOOK_CLI", "VSCODE_GIT_IPC_HANDLE", "KUBECONFIG",
})  # fmt: skip
"""Variables that lead to agents, displays and other programs outside."""

_CLOSED = tuple(map(Path, ("/tmp", "/var/tmp", "/run")))

_TEMP_VARIABLES = ("TMPDIR", "TEMP", "TMP")


@record
class Wrapped:
    """What is started instead. `descriptors` are open and go to the child."""

    argv: tuple[str, ...]
    env: dict[str, str]
    descriptors: tuple[int, ...] = ()


def in_sandbox(
    backend: Backend,
    program: Sequence[str],
    walls: Walls,
    request: Request,
    *,
    network: bool,
    files: ExitStack,
    alone: bool = False,
) -> Wrapped:
    """Return what runs a process in a sandbox.

    `program` is the backend's program with the options that this machine needs; `alone` as in
    `Confinement`. What is opened is
    closed by `files`. Raises StorageError.
    """
    temp, env = storage.session_temp(), request.env
    walls = replace(walls, read_only=(*_programs(env, walls), *walls.read_only))
    if backend is Backend.BUBBLEWRAP:
        filter_ = _descriptor(seccomp.program(namespaces=True, network=network, alone=alone), files)
        options = bubblewrap.options(walls, temp, network=network)
        words = [*program, *options, "--seccomp", str(filter_), "--chdir", str(request.cwd), "--"]
        inner = _environment(env, walls, Path("/tmp"))
        return Wrapped((*words, *request.argv), inner, (filter_,))
    if backend is Backend.SEATBELT:
        text = seatbelt.profile(walls, temp, network=network, alone=alone)
        return Wrapped(seatbelt.argv(text, request.argv), _environment(env, walls, temp))
    behind = replace(walls, writable=(*walls.writable, temp))
    descriptor = _descriptor(landlock.encode(behind, network=network, alone=alone), files)
    argv = landlock.argv(descriptor, request.argv)
    return Wrapped(argv, _environment(env, walls, temp), (descriptor,))


def _programs(env: Mapping[str, str], walls: Walls) -> list[Path]:
    """Return where programs on PATH stand, and this one, as far as the walls would hide them."""
    found = [Path(sys.base_prefix)]
    for entry in env.get("PATH", "").split(os.pathsep):
        place = Path(entry)
        found.append(place.parent if place.name == "bin" else place)
    return [
        place for place in dict.fromkeys(found)
        if any(top in place.parents for top in _CLOSED) and place.is_dir()
        and not any(place.is_relative_to(top) for top in walls.writable)
    ]  # fmt: skip


def _descriptor(data: bytes, files: ExitStack) -> int:
    descriptor = storage.data_descriptor(data)
    files.callback(os.close, descriptor)
    return descriptor


def _environment(env: Mapping[str, str], walls: Walls, temp: Path) -> dict[str, str]:
    """Return the environment without ways out, with a temporary directory that can be written."""

    def usable(path: str | None) -> bool:
        return bool(path) and any(Path(str(path)).is_relative_to(top) for top in walls.writable)

    kept = {name: value for name, value in env.items() if name not in _REACH_OUT}
    own_temp = env.get("TMPDIR")
    if not usable(own_temp):
        kept |= dict.fromkeys(_TEMP_VARIABLES, str(temp))
    if not usable(env.get("XDG_CACHE_HOME")):
        kept["XDG_CACHE_HOME"] = str(temp / "cache")
    return kept
