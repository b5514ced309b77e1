"""Images for containers, made without a registry, and engines to run them."""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.isolation import places

_APPLETS = (
    "sh",
    "cat",
    "echo",
    "ls",
    "sleep",
    "id",
    "env",
    "head",
    "tail",
    "wc",
    "test",
    "nproc",
    "true",
    "kill",
)
_NOT_NEEDED = (
    "site-packages",
    "test",
    "idlelib",
    "ensurepip",
    "tkinter",
    "__pycache__",
    "config-*",
)
_ENGINE_TIMEOUT_S = 110
_STARTS_S = 60


def engine_environment() -> dict[str, str]:
    """Return the environment of an engine, which keeps its images in the person's own home."""
    home = {**os.environ, "HOME": places.own_home()}
    return {key: value for key, value in home.items() if not key.startswith("XDG_")}


@contextmanager
def made_image(engine: str, directory: Path, runtimes: Sequence[str] = ()) -> Iterator[str]:
    """Make an image of a static busybox and `runtimes` (paths of programs); yield its name.

    Skips, saying why, where it cannot be made.
    """
    name = f"localhost/opta-test-{os.getpid()}-{len(runtimes)}"
    busybox = next(filter(Path.exists, map(Path, ("/bin/busybox", "/usr/bin/busybox"))), None)
    if shutil.which(engine) is None or busybox is None:
        pytest.skip(f"{engine} or a static busybox is missing: apt-get install {engine} busybox")
    archive = directory / f"{engine}.tar"
    with tarfile.open(archive, "w") as tar:
        for place in ("proc", "dev", "sys", "etc", "tmp"):
            _add_directory(tar, place)
        tar.add(busybox.resolve(), "bin/busybox")
        for applet in set(_APPLETS).difference(Path(runtime).name for runtime in runtimes):
            _add_link(tar, f"bin/{applet}", "busybox")
        for runtime in runtimes:
            _add_runtime(tar, Path(runtime))
    done = subprocess.run(
        [engine, "import", archive, name],
        env=engine_environment(), capture_output=True, text=True, check=False,
        timeout=_ENGINE_TIMEOUT_S,
    )  # fmt: skip
    archive.unlink()
    if done.returncode != 0:
        pytest.skip(f"{engine} cannot make an image here: {done.stderr.strip()[-300:]}")
    yield name
    remove = [engine, "rmi", "-f", name]
    subprocess.run(remove, env=engine_environment(), capture_output=True, check=False)


def containers(engine: str, image: str) -> list[str]:
    """Return the names of all containers of an image, also of those that have ended."""
    argv = [engine, "ps", "-a", "--filter", f"ancestor={image}", "--format", "{{.Names}}"]
    done = subprocess.run(
        argv, env=engine_environment(), capture_output=True, text=True, check=True
    )
    return done.stdout.split()


@contextmanager
def docker_daemon() -> Iterator[str]:
    """Run a docker daemon that knows nothing of this machine's; yield its address."""
    if shutil.which("dockerd") is None or shutil.which("docker") is None:
        pytest.skip("there is no dockerd: apt-get install docker.io")
    if os.geteuid() != 0:
        pytest.skip("only root can start a docker daemon")
    # A socket's path is short.
    base = Path(tempfile.mkdtemp(prefix="opta-docker-", dir="/tmp"))
    address = f"unix://{base}/sock"
    argv = [
        "dockerd", "--host", address, "--data-root", base / "data", "--exec-root", base / "exec",
        "--pidfile", base / "pid", "--iptables=false", "--bridge=none",
    ]  # fmt: skip
    with (base / "log").open("wb") as log:
        daemon = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        _await_daemon(daemon, address, base / "log")
        yield address
    finally:
        daemon.terminate()
        daemon.wait()
        shutil.rmtree(base, ignore_errors=True)


def _await_daemon(daemon: subprocess.Popen[bytes], address: str, log: Path) -> None:
    deadline = time.monotonic() + _STARTS_S
    while subprocess.run(
        ["docker", "--host", address, "version"], capture_output=True, check=False
    ).returncode:
        if daemon.poll() is not None or time.monotonic() > deadline:
            pytest.skip(f"dockerd does not run here: {log.read_text()[-300:]}")
        time.sleep(0.1)


def _add_directory(tar: tarfile.TarFile, name: str) -> None:
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode = tarfile.DIRTYPE, 0o755
    tar.addfile(entry)


def _add_link(tar: tarfile.TarFile, name: str, target: str) -> None:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = tarfile.SYMTYPE, target
    tar.addfile(entry)


def _add_runtime(tar: tarfile.TarFile, program: Path) -> None:
    """Add a program with its libraries; Python with its standard library."""
    if program.name.startswith("python"):
        _add_link(tar, "bin/python3", str(program))
        tar.add(program.resolve(), program)
        tar.add(Path(os.__file__).parent, filter=_without_what_is_not_needed)
    else:
        tar.add(program.resolve(), f"bin/{program.name}")
    for library in set(_libraries(program)).difference(f"/{name}" for name in tar.getnames()):
        tar.add(os.path.realpath(library), library)


def _without_what_is_not_needed(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    name = Path(entry.name)
    return None if any(name.match(each) for each in _NOT_NEEDED) else entry


def _libraries(program: Path) -> list[str]:
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
    words = [word for line in listed.splitlines() for word in line.split()]
    return [word for word in words if word.startswith("/")]
