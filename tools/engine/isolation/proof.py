"""What this machine can enforce, found out by trying it: nothing is believed because it is there.

Each backend runs `inside.py` behind real walls once per process of opta; what got through decides.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path

from tools import storage
from tools.confinement import ENGINES, Backend, Walls
from tools.engine.isolation import bubblewrap, container, seatbelt, seccomp
from tools.engine.isolation.inside import WRITES
from tools.engine.isolation.request import Request
from tools.engine.isolation.wrap import in_sandbox
from tools.record import record

_TIMEOUT_S = 20
_PROGRAM_BYTES = 256 * 1024 * 1024
_PROVEN = "---"
_INSIDE = Path(__file__).with_name("inside.py")

_MUST_FAIL = {
    "outside": "a file outside could be written",
    "tree/kept/new": "a file that is kept could be written",
    "read-hidden": "a hidden file could be read",
    "tcp": "the network could be reached",
    "udp": "the network could be reached (UDP)",
}


_SIGNALS = "signals to programs outside"


@record
class Proof:
    """What trying a backend showed.

    `program` is what starts it, with the options this machine needs. `reason` says why it is not
    available, `advice` what to do about it. `gaps` are what it does not enforce, in words.
    `printed` is what the script of the trial printed.
    """

    backend: Backend
    program: tuple[str, ...] = ()
    reason: str = ""
    advice: str = ""
    gaps: tuple[str, ...] = ()
    printed: str = ""

    @property
    def available(self) -> bool:
        """True when it was seen to work."""
        return not self.reason

    @property
    def enforces(self) -> tuple[str, ...]:
        """What it was seen to keep a process from, in words."""
        if not self.available:
            return ()
        held = ("files outside are not written", "hidden files are not read", "no network")
        return held if _SIGNALS in self.gaps else (*held, "no signals to programs outside")


class _HangsError(Exception):
    """What was tried did not end in time."""


def prove(backend: Backend, path: str, image: str = "", script: str = "") -> Proof:
    """Return what trying a backend shows; it is tried once per process.

    `path` is where programs are looked for (PATH), `image` what containers are made from. A
    `script` is run in there as well, under the limits of a tool's program.
    """
    return _prove(backend, path, image if backend in ENGINES else "", script)


@cache
def _prove(backend: Backend, path: str, image: str, script: str) -> Proof:
    match backend:
        case Backend.BUBBLEWRAP:
            return _bubblewrap(path)
        case Backend.LANDLOCK:
            return _landlock()
        case Backend.SEATBELT:
            return _seatbelt()
        case _:
            return _engine(backend, path, image, script)


def _bubblewrap(path: str) -> Proof:
    if sys.platform != "linux":
        return Proof(Backend.BUBBLEWRAP, reason="it is for Linux")
    if not seccomp.supported():
        return Proof(Backend.BUBBLEWRAP, reason="opta has no system call filter for this processor")
    program = find("bwrap", path)
    if program is None:
        return Proof(
            Backend.BUBBLEWRAP, reason="there is no bwrap on PATH",
            advice="install the package bubblewrap (apt-get, dnf, pacman)",
        )  # fmt: skip
    # Root needs no user namespace where it may mount; in many containers it may not.
    variants: list[tuple[str, ...]] = [("--unshare-user", "--cap-drop", "ALL")]
    if os.geteuid() == 0:
        variants.insert(0, bubblewrap.AS_ROOT)
    failure = ""
    for options in variants:
        failure, gaps = _try(Backend.BUBBLEWRAP, (program, *options))
        if not failure:
            return Proof(Backend.BUBBLEWRAP, (program, *options), gaps=gaps)
    return Proof(
        Backend.BUBBLEWRAP, reason=failure,
        advice="allow unprivileged user namespaces (sysctl kernel.unprivileged_userns_clone=1, "
        "kernel.apparmor_restrict_unprivileged_userns=0, or an AppArmor profile for bwrap)",
    )  # fmt: skip


def _landlock() -> Proof:
    if sys.platform != "linux":
        return Proof(Backend.LANDLOCK, reason="it is for Linux")
    if not seccomp.supported():
        return Proof(Backend.LANDLOCK, reason="opta has no system call filter for this processor")
    version = _landlock_version()
    if version < 3:
        found = f"this kernel has version {version}" if version else "this kernel has none"
        return Proof(
            Backend.LANDLOCK, reason=f"Landlock version 3 is needed, {found}",
            advice="use Linux 6.2 or later with landlock in the kernel's lsm= list",
        )  # fmt: skip
    failure, gaps = _try(Backend.LANDLOCK, ())
    more = ("modes, owners and times of files outside", "one temporary directory, /tmp is closed")
    return Proof(Backend.LANDLOCK, reason=failure, gaps=(*gaps, *more))


def _landlock_version() -> int:
    from tools.engine.isolation import launcher

    return launcher.abi()


def _seatbelt() -> Proof:
    if sys.platform != "darwin":
        return Proof(Backend.SEATBELT, reason="it is for macOS")
    failure, gaps = _try(Backend.SEATBELT, (seatbelt.PROGRAM,))
    return Proof(Backend.SEATBELT, (seatbelt.PROGRAM,), reason=failure, gaps=gaps)


def _engine(backend: Backend, path: str, image: str, script: str) -> Proof:
    program = find(backend.value, path)
    if program is None:
        return Proof(
            backend, reason=f"there is no {backend} on PATH",
            advice=f"install {backend}",
        )  # fmt: skip
    if not image:
        return Proof(
            backend, reason="no image is named",
            advice="name one with the setting container_image; it needs a /bin/sh",
        )  # fmt: skip
    failure = ""
    variants: list[list[str]] = [[], container.limits()]
    for number, options in enumerate(variants):
        if number and options == variants[0]:
            continue
        try:
            failure, printed = _try_engine(backend, (program, *options), image, script)
        except _HangsError as error:
            failure = str(error)
            break
        if not failure:
            return Proof(backend, (program, *options), printed=printed)
    return Proof(backend, reason=failure, advice=f"try: {backend} run --rm {image} true")


def _try(backend: Backend, program: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """Return why a sandbox cannot be used, or nothing, and its gaps."""
    try:
        with _grounds() as directory, ExitStack() as files:
            walls = Walls(
                writable=(directory / "work", directory / "tree"),
                read_only=(directory / "tree" / "kept",),
                hidden=(directory / "hidden",),
            )
            network = str(Path("/proc/self/ns/net").readlink()) if sys.platform == "linux" else ""
            python = os.path.realpath(sys.executable)
            attempt = [python, "-I", "-S", "-c", _INSIDE.read_text("utf-8"), str(directory)]
            request = Request(
                (*attempt, str(os.getpid()), network), directory / "work", _environment()
            )
            wrapped = in_sandbox(backend, program, walls, request, network=False, files=files)
            code, out, err = _run(wrapped.argv, wrapped.env, wrapped.descriptors)
            written = {name for name in WRITES if (directory / name).exists()}
    except (OSError, storage.StorageError, _HangsError) as error:
        return str(error), ()
    worked = written.union(out.split())
    if code != 0:
        return _first_line(err) or f"it ended with exit code {code}", ()
    if "work/new" not in worked:
        return "a file in the workspace could not be written", ()
    broken = [said for name, said in _MUST_FAIL.items() if name in worked]
    gaps = (_SIGNALS,) if "signal" in worked else ()
    return "; ".join(dict.fromkeys(broken)), gaps


def _try_engine(
    backend: Backend, engine: Sequence[str], image: str, script: str
) -> tuple[str, str]:
    """Return why an engine cannot be used, or nothing, and what `script` printed.

    `engine` is the program with the options that this machine needs. Raises _HangsError.
    """
    attempt = "echo x > work/new && echo write; (echo x > /denied) 2>/dev/null && echo outside; "
    attempt += f"cat /proc/net/dev\necho {_PROVEN}\n{script}"
    memory = _PROGRAM_BYTES if script else None
    try:
        with _grounds() as directory:
            walls = Walls(writable=(directory / "work",))
            options = container.options(
                backend, walls, (), network=False, max_memory_bytes=memory, one_cpu=bool(script)
            )
            code, out, err = _run_in_image(engine, image, attempt, options, directory)
    except (OSError, storage.StorageError) as error:
        return str(error), ""
    seen, _, printed = out.partition(f"{_PROVEN}\n")
    lines = seen.splitlines()
    if code != 0 or "write" not in lines:
        return _first_line(err) or f"it ended with exit code {code}", ""
    interfaces = [line.partition(":")[0].strip() for line in lines if ":" in line]
    if "outside" in lines:
        return "the image's root could be written", ""
    reached = interfaces not in ([], ["lo"])
    return ("the network could be reached" if reached else ""), printed


def _run_in_image(
    engine: Sequence[str], image: str, script: str, options: Sequence[str], cwd: Path
) -> tuple[int, str, str]:
    """Run a shell script in a container; return its exit code, output and standard error."""
    program, *limits = engine
    name, env = container.new_name(), _environment()
    argv = container.argv(
        (program,), image, ("/bin/sh", "-c", script), name=name, cwd=cwd,
        variables=(), options=[*limits, *options],
    )  # fmt: skip
    with container.removed_without_opta((program,), name, env):
        try:
            return _run(argv, env, ())
        except BaseException:
            container.remove((program,), name, env)
            raise


@contextmanager
def _grounds() -> Iterator[Path]:
    """Make a directory to try things in, on the disk where the person's own files are."""
    base = storage.private_dir(storage.state_dir() / container.new_name())
    try:
        for name in ("work", "tree", "tree/kept", "hidden"):
            storage.private_dir(base / name)
        storage.write_private(base / "hidden" / "key", b"secret")
        yield base
    finally:
        with suppress(storage.StorageError):
            storage.remove_tree(base)


def _environment() -> dict[str, str]:
    return {**os.environ, "LC_ALL": "C"}


def _run(
    argv: Sequence[str], env: Mapping[str, str], descriptors: tuple[int, ...]
) -> tuple[int, str, str]:
    with subprocess.Popen(
        argv, env=env, pass_fds=descriptors, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, start_new_session=True, cwd="/",
    ) as process:  # fmt: skip
        try:
            streams = process.communicate(timeout=_TIMEOUT_S)
        except BaseException as error:
            _kill(process)
            if isinstance(error, subprocess.TimeoutExpired):
                raise _HangsError(f"it did not end within {_TIMEOUT_S} s") from None
            raise
    out, err = (stream.decode("utf-8", "replace") for stream in streams)
    return process.returncode, out, err


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End a process with all that it started, where the system has groups."""
    if os.name == "posix":
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()


def find(name: str, path: str) -> str | None:
    """Return the absolute path of a program. What stands in a relative PATH entry is not found."""
    found = shutil.which(name, path=path)
    return found if found and Path(found).is_absolute() else None


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")
