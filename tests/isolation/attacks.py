"""Tries to get out of a sandbox, with real processes: a program of its own, so that it can be run
as another user. `python attacks.py BACKEND DIRECTORY` prints one JSON object: what each attack
printed and what it left behind. It needs the standard library and opta's sources, no more.
"""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import socket
import subprocess
import sys
from pathlib import Path

from tests.support.calls import make_call
from tools import storage
from tools.confinement import Confinement, IsolationSettings, Sandboxing
from tools.engine.environment import child_environment
from tools.engine.isolation.choice import Isolation
from tools.engine.process import ProcessSpec, run_process
from tools.files.walls import survey
from tools.permissions.grant import mint

SECRET = "s3cr3t-of-the-person"

NO_WALLS = "no walls"

ERRNO = "ctypes.get_errno()"


def python(code: str, then: str = "") -> str:
    """Return a command that runs a line of Python, and prints `then` where it did not fail."""
    start = "import ctypes, fcntl, os, socket; env = os.environ; "
    start += "libc = ctypes.CDLL(None, use_errno=True); "
    text = start + code + (f"; print({then!r})" if then else "")
    return f"/usr/bin/env python3 -I -S -c {shlex.quote(text)}"


ATTACKS = {
    # writes outside
    "write home": 'echo x > "$HOME/evil"',
    "write etc": "echo x > /etc/opta-attack",
    "append outside": 'echo x >> "$HOME/outside"',
    "truncate outside": ': > "$HOME/outside"; truncate -s 0 "$HOME/outside"',
    "rename out": 'echo x > free/file; mv free/file "$HOME/evil"',
    "rename over": 'mv "$HOME/outside" free/taken',
    "delete outside": 'rm -f "$HOME/outside"',
    "link followed": 'ln -s "$HOME" free/home; echo x > free/home/evil; echo x >> old-link',
    "hard link": 'ln "$HOME/outside" free/hard && echo x >> free/hard',
    "proc root": "echo x > /proc/self/root/etc/opta-attack; echo x > /proc/1/root/etc/opta-attack",
    "proc cwd of another": "echo x > /proc/$OUTSIDE_PID/cwd/evil",
    "host tmp": "echo x > $HOST_TMP/evil; rm -rf $HOST_TMP/theirs",
    "remount": "unshare -Urm sh -c 'mount -o remount,rw,bind / ; echo x > $HOME/evil'",
    "bind over": "unshare -Urm sh -c 'umount $HOME/.ssh; cat $HOME/.ssh/id_rsa'",
    # what is kept in the workspace
    "git hook": "echo evil > .git/hooks/pre-commit",
    "git config": "echo evil >> .git/config; git config core.fsmonitor evil",
    "git moved away": "mv .git free/git; mkdir -p .git/hooks; echo evil > .git/hooks/pre-commit",
    "git commondir": "echo ../evil > .git/commondir",
    "opta settings": "echo evil > .opta/config.yml; rm -rf .opta; mv .opta o",
    "new codex": "mkdir .codex && echo evil > .codex/config.toml",
    "new envrc": "echo evil > .envrc",
    "new workflow": "mkdir -p .github/workflows && echo evil > .github/workflows/ci.yml",
    "link replaced": "rm .mimir && mkdir .mimir && echo evil > .mimir/config.yml",
    "nested repository": "echo evil > sub/repo/.git/hooks/pre-commit",
    "left behind": "setsid sh -c 'sleep 1; mkdir .cursor; echo x > $HOME/evil' >/dev/null 2>&1 &",
    # secrets
    "ssh key": 'cat "$HOME/.ssh/id_rsa"; cp -r "$HOME/.ssh" free/ssh; cat free/ssh/*',
    "aws key": 'cat "$HOME/.aws/credentials" "$HOME/.netrc"',
    "dot env": "cat .env sub/.env.production",
    "dot env moved": "mv sub sub2; cat sub2/.env.production; mv sub2 sub",
    "own state": "cat $OPTA_STATE/canary; cat $OPTA_CONFIG/config.yml; cat $OPTA_ETC/config.yml",
    "own state written": "echo evil > $OPTA_STATE/canary; echo evil > $OPTA_CONFIG/config.yml",
    "environ of another": "cat /proc/$OUTSIDE_PID/environ /proc/[0-9]*/environ | grep -a CANARY",
    "shadow": "cat /etc/shadow",
    # the network and sockets
    "tcp": python("socket.create_connection(('127.0.0.1', int(env['TCP'])), 2)", "reached"),
    "udp": python("socket.socket(2, 2).sendto(b'leak', ('127.0.0.1', int(env['UDP'])))"),
    "abstract socket": python("socket.socket(1).connect(chr(0) + env['ABSTRACT'])", "reached"),
    "named socket": python("socket.socket(1).connect(env['HOST_TMP'] + '/socket')", "reached"),
    "io_uring": python(f"print(libc.syscall(425, 1, 0), {ERRNO})"),
    # other processes
    "kill": "kill -9 $OUTSIDE_PID && echo killed",
    "ptrace": python("assert libc.ptrace(16, int(env['OUTSIDE_PID']), 0, 0) == 0", "attached"),
    # rights
    "set-user-id": "$SUID_ID",
    "no new privileges": "grep -E 'NoNewPrivs|CapEff|CapBnd' /proc/self/status",
    "sysctl": python("os.open('/proc/sys/kernel/hostname', os.O_WRONLY)", "opened"),
    "device": "for d in $(ls /sys/block); do head -c 1 /dev/$d >/dev/null 2>&1 && echo read $d; "
    "done; mknod free/null c 1 3 && echo made",
    "terminal": python("fcntl.ioctl(os.openpty()[1], 0x5412, b'x')", "pushed"),
    "keyring": python(f"print(libc.syscall(250, 0, -3, 0), {ERRNO})"),
}  # fmt: skip

WORKS = {
    "write": "echo fine > free/new && cat free/new",
    "temporary file": 'f=$(mktemp) && echo fine > "$f" && cat "$f"',
    "read home": 'cat "$HOME/outside"',
    "devices": "echo x > /dev/null; head -c 4 /dev/urandom | wc -c; head -c 2 /dev/zero | wc -c",
    "exit code": "exit 7",
    "script": "printf '#!/bin/sh\\necho fine\\n' > free/run && chmod +x free/run && free/run",
    "background": "sleep 60 & echo fine",
}

WORKS_IN_BUBBLEWRAP = {
    "commit": "echo 1 > tracked && git add tracked && "
    "git -c user.name=a -c user.email=a@b commit -qm m && git log --format=%s",
    "new file at the top": "echo fine > new-file && cat new-file",
    "own loopback": python(
        "s = socket.create_server(('127.0.0.1', 0)); socket.create_connection(s.getsockname(), 5)",
        "fine",
    ),
    "tmp kept between commands": "cat /tmp/from-before 2>/dev/null; echo fine > /tmp/from-before",
    "tmp again": "cat /tmp/from-before",
    "other processes unseen": "test $(ls /proc | grep -c '^[0-9]') -lt 8 && echo fine",
}


class Grounds:
    """A home, a workspace, and things outside that an attack could reach."""

    def __init__(self, base: Path) -> None:
        self.home, self.work = base / "home", base / "home" / "work"
        self.tmp, self.abstract = base / "host-tmp", f"opta-{os.getpid()}-{base.name}"
        for directory in (".ssh", ".aws", "work/sub/repo", "work/free", "work/.opta", "elsewhere"):
            (self.home / directory).mkdir(parents=True)
        (self.tmp / "theirs").mkdir(parents=True)
        os.environ["HOME"] = str(self.home)
        for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR"):
            os.environ.pop(name, None)
        os.environ["OPTA_GLOBAL_DIR"] = str(base / "etc")
        (base / "etc").mkdir()
        own = {"OPTA_STATE": storage.state_dir(), "OPTA_CONFIG": storage.config_dir()}
        own["OPTA_ETC"] = storage.global_dir()
        for directory in own.values():
            directory.mkdir(parents=True, exist_ok=True)
        (own["OPTA_STATE"] / "canary").write_text(SECRET)
        for name in ("OPTA_CONFIG", "OPTA_ETC"):
            (own[name] / "config.yml").write_text(SECRET)
        for name in (".ssh/id_rsa", ".aws/credentials", ".netrc", "work/.env"):
            (self.home / name).write_text(SECRET)
        (self.work / "sub" / ".env.production").write_text(SECRET)
        (self.home / "outside").write_text("untouched")
        (self.work / "old-link").symlink_to(self.home / "outside")
        (self.work / ".mimir").symlink_to(self.home / "elsewhere")
        (self.work / ".opta" / "config.yml").write_text("mode: ask\n")
        for repository in (self.work, self.work / "sub" / "repo"):
            subprocess.run(["git", "init", "-q", repository], check=True)
        self.listeners = self._listen()
        victim = ["/bin/sleep", "600"]
        self.victim = subprocess.Popen(victim, cwd=self.home, env={"CANARY": SECRET})
        self.environment = {
            **child_environment(os.environ), **{name: str(path) for name, path in own.items()},
            "HOST_TMP": str(self.tmp), "OUTSIDE_PID": str(self.victim.pid),
            "TCP": str(self.listeners[0].getsockname()[1]),
            "UDP": str(self.listeners[1].getsockname()[1]),
            "ABSTRACT": self.abstract,
        }  # fmt: skip

    def _listen(self) -> list[socket.socket]:
        tcp = socket.create_server(("127.0.0.1", 0))
        udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        udp.bind(("127.0.0.1", 0))
        abstract = socket.socket(socket.AF_UNIX)
        abstract.bind(f"\0{self.abstract}")
        named = socket.socket(socket.AF_UNIX)
        named.bind(str(self.tmp / "socket"))
        for listener in (abstract, named):
            listener.listen()
        for listener in (tcp, udp, abstract, named):
            listener.setblocking(False)
        return [tcp, udp, abstract, named]

    def state(self) -> dict[str, object]:
        """Return everything an attack may have changed."""
        reached = []
        for name, listener in zip(("tcp", "udp", "abstract", "named"), self.listeners, strict=True):
            try:
                listener.recv(10) if name == "udp" else listener.accept()
            except BlockingIOError:
                continue
            reached.append(name)
        work, git = self.work, self.work / ".git"
        return {
            "evil files": sorted(
                str(path) for path in (
                    *self.home.glob("evil*"), Path("/etc/opta-attack"), *self.tmp.glob("evil*")
                ) if path.exists()
            ),
            "outside": _text(self.home / "outside"),
            "theirs": (self.tmp / "theirs").is_dir(),
            "hooks": [
                (repository / ".git/hooks/pre-commit").exists()
                for repository in (work, work / "sub" / "repo")
            ],
            "git": [(git / "commondir").exists(), "evil" in _text(git / "config")],
            "settings": _text(work / ".opta" / "config.yml"),
            "obeyed": sorted(
                name for name in (".codex", ".envrc", ".github/workflows", ".cursor")
                if (work / name).exists()
            ),
            "mimir": _link(work / ".mimir"),
            "own": [
                _text(Path(self.environment["OPTA_STATE"], "canary")),
                _text(Path(self.environment["OPTA_CONFIG"], "config.yml")),
            ],
            "victim alive": self.victim.poll() is None,
            "reached": reached,
        }  # fmt: skip

    def close(self) -> None:
        """End what was started."""
        self.victim.kill()
        self.victim.wait()
        for listener in self.listeners:
            listener.close()


def _link(path: Path) -> str:
    return str(path.readlink()) if path.is_symlink() else "gone"


def _text(path: Path) -> str:
    return path.read_text() if path.is_file() else "gone"


def walls_of(backend: str, grounds: Grounds) -> Confinement | None:
    """Return what the model's commands run behind with this backend."""
    if backend == NO_WALLS:
        return None
    settings = IsolationSettings(Sandboxing.REQUIRED, backend)
    return Isolation(grounds.work, survey, settings).for_command()


async def attempt(command: str, grounds: Grounds, walls: Confinement | None) -> dict[str, object]:
    """Run one command; return what it printed and the state of the world after it."""
    call = make_call(arguments={"command": command})
    spec = ProcessSpec(("/bin/bash", "-c", command), grounds.work, grounds.environment, 20_000)
    done = await run_process(mint(call, "test", walls), call, spec)
    return {
        "out": (done.stdout.head + done.stdout.tail).decode("utf-8", "replace"),
        "err": (done.stderr.head + done.stderr.tail).decode("utf-8", "replace"),
        "code": done.exit_code,
        "remarks": list(done.remarks),
        "state": grounds.state(),
    }


async def behind_walls(backend: str, directory: Path) -> dict[str, object]:
    """Run everything, one after the other, in the same place."""
    grounds = Grounds(directory)
    try:
        walls = walls_of(backend, grounds)
        assert walls is not None
        results: dict[str, object] = {"before": grounds.state(), "note": walls.note}
        more = WORKS_IN_BUBBLEWRAP if backend == "bubblewrap" else {}
        for name, command in {**WORKS, **more, **ATTACKS}.items():
            results[name] = await attempt(command, grounds, walls)
        await asyncio.sleep(1.5)
        results["after"] = grounds.state()
        return results
    finally:
        grounds.close()


async def without_walls(directory: Path) -> dict[str, object]:
    """Run each attack in a place of its own, which it may spoil."""
    results: dict[str, object] = {}
    for number, (name, command) in enumerate(ATTACKS.items()):
        grounds = Grounds(directory / str(number))
        try:
            before = grounds.state()
            results[name] = {**await attempt(command, grounds, None), "before": before}
        finally:
            grounds.close()
    return results


def main(backend: str, directory: Path) -> None:
    """Print what the attacks came to, as JSON."""
    work = without_walls(directory) if backend == NO_WALLS else behind_walls(backend, directory)
    print(json.dumps(asyncio.run(work)))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
