"""podman and docker: a container from a configured image, for tools that ask for one.

The image's root is read-only, nothing of the machine is in it but what is mounted, and an image
is never fetched on the way.
"""

from __future__ import annotations

import os
import secrets
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from tools.confinement import Backend, Walls

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment,unused-ignore]

MAX_PROCESSES = 512
_REMOVE_TIMEOUT_S = 20
_FIRST_PROCESS = (
    "trap exit HUP INT TERM; "
    "env --default-signal=INT,QUIT true >/dev/null 2>&1 && set -- env --default-signal=INT,QUIT "
    '"$@"; exec 3<&0; "$@" <&3 3<&- & exec 3<&- </dev/null; wait "$!"'
)
"""Ends the container at a signal, which is all that the engine's client gets where opta was killed.

The kernel gives the first process of a container no signal that it does not ask for; with it end
all others. What a shell starts in the background ignores Ctrl-C, which only `env` can undo (not
that of busybox).
"""

_FAILED = 125
"""How an engine's client ends where not the command failed but the engine."""

_REMOVER = """\
trap '' HUP INT TERM
read -r opta_is_done && exit
sleep 3
exec "$@"
"""

_MAX_LIMIT = 4096


def new_name() -> str:
    """Return a name by which a container can be found again."""
    return f"opta-{secrets.token_hex(8)}"


def argv(
    engine: Sequence[str],
    image: str,
    command: Sequence[str],
    *,
    name: str,
    cwd: Path,
    variables: Sequence[str],
    options: Sequence[str],
) -> tuple[str, ...]:
    """Return what runs `command` in a container.

    `engine` is the program with its own options, `variables` are names whose values the engine
    takes from its own environment, so that they stand in no command line.
    """
    words = [*engine, "run", "--rm", "--interactive", "--pull", "never", "--name", name]
    words += ["--read-only", "--cap-drop", "all", "--security-opt", "no-new-privileges"]
    # Engines write what a container prints to disk, some to the system's journal for good.
    words += ["--log-driver", "none", "--no-healthcheck"]
    words += ["--pids-limit", str(MAX_PROCESSES), "--workdir", str(cwd), *options]
    for variable in variables:
        words += ["--env", variable]
    # An entry point of the image would get the command as its arguments.
    words += ["--entrypoint", "/bin/sh", "--", image, "-c", _FIRST_PROCESS, "sh", *command]
    return tuple(words)


def options(
    backend: Backend, walls: Walls, reads: Sequence[Path], *, network: bool,
    max_memory_bytes: int | None = None, one_cpu: bool = False,
) -> list[str]:  # fmt: skip
    """Return the options for these walls."""
    words = [] if network else ["--network", "none", *_no_proxies()]
    words += ["--tmpfs", "/tmp:rw,exec,mode=1777"]
    mounts = {path: "rw" for path in walls.writable if path.exists()}
    mounts |= {path: "ro" for path in (*walls.read_only, *reads) if path.exists()}
    mounts = {path: mode for path, mode in mounts.items() if _shown(path, mode, walls)}
    for path in sorted(mounts, key=lambda path: path.parts):
        words += ["--mount", _mount(path, path, mounts[path])]
    for path in walls.hidden:
        if any(path.is_relative_to(top) for top in walls.writable):
            words += _hide(path)
    if max_memory_bytes is not None:
        words += ["--memory", str(max_memory_bytes), "--memory-swap", str(max_memory_bytes)]
    if one_cpu:
        words += ["--cpus", "1"]
    return words + _user(backend)


def _no_proxies() -> list[str]:
    """Engines pass on this machine's proxies by themselves, with the passwords in them."""
    names = [f"{kind}_proxy" for kind in ("http", "https", "ftp", "no", "all")]
    return [word for name in (*names, *map(str.upper, names)) for word in ("--env", f"{name}=")]


def _shown(path: Path, mode: str, walls: Walls) -> bool:
    """What is kept outside of all writable directories is not in the container anyway."""
    return mode == "rw" or path not in walls.read_only or any(
        path.is_relative_to(top) for top in walls.writable
    )  # fmt: skip


def _mount(source: Path | str, target: Path, mode: str) -> str:
    read_only = ",readonly" if mode == "ro" else ""
    # The engines read this as CSV.
    fields = [f"source={source}", f"target={target}"]
    quoted = ['"' + field.replace('"', '""') + '"' if set(field) & set(',"') else field
              for field in fields]  # fmt: skip
    return ",".join(("type=bind", *quoted)) + read_only


def _hide(path: Path) -> list[str]:
    if path.is_dir():
        return ["--tmpfs", f"{path}:ro,mode=0555"]
    return ["--mount", _mount("/dev/null", path, "ro")] if path.exists() else []


def _user(backend: Backend) -> list[str]:
    if os.name != "posix":
        return []
    if backend is Backend.PODMAN and os.geteuid() != 0:
        return ["--userns", "keep-id"]
    return ["--user", f"{os.geteuid()}:{os.getegid()}"]


def limits() -> list[str]:
    """Return options that raise no limit of this process: some machines let none be raised.

    The engines' own default is more than a process without CAP_SYS_RESOURCE may have.
    """
    if resource is None:
        return []
    words = []
    for name, kind in (("nofile", resource.RLIMIT_NOFILE), ("nproc", resource.RLIMIT_NPROC)):
        hard = resource.getrlimit(kind)[1]
        most = _MAX_LIMIT if hard == resource.RLIM_INFINITY else min(hard, _MAX_LIMIT)
        words += ["--ulimit", f"{name}={most}:{most}"]
    return words


def may_go_on(status: int | None) -> bool:
    """Tell whether a container may be left where its client ended so (None: it did not)."""
    return status is None or status < 0 or status == _FAILED


def remove(engine: Sequence[str], name: str, env: Mapping[str, str]) -> None:
    """Remove a container whose client was killed; nothing happens where it is gone."""
    with suppress(OSError, subprocess.TimeoutExpired):
        subprocess.run(
            _removal(engine, name), env=env, stdin=subprocess.DEVNULL,
            capture_output=True, timeout=_REMOVE_TIMEOUT_S, check=False,
        )  # fmt: skip


@contextmanager
def removed_without_opta(
    engine: Sequence[str], name: str, env: Mapping[str, str]
) -> Iterator[None]:
    """Have a container removed where opta is killed in the meantime. Raises OSError.

    To end the engine's client is not enough: while that makes the container, nothing in there hears
    of it. A shell waits for a pipe to close, and then until the client was ended by `watchdog`.
    """
    if os.name != "posix":
        yield
        return
    shell = subprocess.Popen(
        ["/bin/sh", "-c", _REMOVER, "sh", *_removal(engine, name)],
        bufsize=0, cwd="/", env=env, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    # On leaving the block the pipe closes, and the shell is waited for.
    with shell:
        try:
            yield
        finally:
            shell.kill()


def _removal(engine: Sequence[str], name: str) -> list[str]:
    return [*engine, "rm", "--force", "--volumes", name]
