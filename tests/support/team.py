"""A team for tests: tool files, the settings that name them, and servers: `opta team serve` as a
process of its own, and one that answers with whatever it is told to."""

from __future__ import annotations

import contextlib
import json
import os
import re
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.support.cli import OPTA
from tests.support.soon import SOON_S
from tools.sources.team.answer import TeamAnswer, TeamFile

TOKEN = "team-token-4711"
ORG = "acme"


def tool_text(name: str, command: str = "echo hi", **more: object) -> str:
    """Return a tool file."""
    content = {"name": name, "description": f"Does {name}", "bash": command, **more}
    return json.dumps(content, indent=1)


def write_tools(directory: Path, **commands: str) -> Path:
    """Write a tool file for each name; return the directory."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, command in commands.items():
        (directory / f"{name}.json").write_text(tool_text(name, command))
    return directory


def answer(*files: tuple[str, str], serial: int = 1, allowlist: tuple[str, ...] | None = None):
    """Return an answer with these files, as path and text."""
    return TeamAnswer(ORG, tuple(TeamFile(path, text) for path, text in files), allowlist, serial)


def configure_team(place: str = "user", **teams: object) -> Path:
    """Write the settings of a team; `place` is user or managed."""
    directory = (
        Path(os.environ["XDG_CONFIG_HOME"]) / "opta"
        if place == "user"
        else Path(os.environ["OPTA_GLOBAL_DIR"])
    )
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "config.yml"
    settings = json.loads(path.read_text()) if path.exists() else {}
    settings["teams"] = {"enabled": True, "features": {"sharedTools": True}, **teams}
    path.write_text(json.dumps(settings))
    return path


@contextlib.contextmanager
def serving(directory: Path, port: int = 0, token: str = TOKEN) -> Iterator[Served]:
    """Run `opta team serve` until the end of the block."""
    process = subprocess.Popen(
        [*OPTA, "team", "serve", str(directory), "--org", ORG, "--port", str(port)],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        env=os.environ | {"OPTA_TEAM_TOKEN": token},
    )  # fmt: skip
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        found = re.search(r"http://127\.0\.0\.1:(\d+)", line)
        assert found, f"the server did not start: {line}"
        yield Served(found[0], int(found[1]), process)
    finally:
        process.kill()
        process.wait(SOON_S)
        process.stdout.close()


@dataclass
class Served:
    """A running `opta team serve`."""

    url: str
    port: int
    process: subprocess.Popen[str]


@dataclass
class Reply:
    """What a lying server says. `delay_s` comes before it; `endless` sends the body for ever."""

    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=lambda: {"Content-Type": "application/json"})
    length: int | None = None
    delay_s: float = 0.0
    endless: bool = False


class Liar:
    """A server on loopback that answers with `reply`, and keeps the headers it was asked with."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.reply: Callable[[Mapping[str, str]], Reply] = lambda headers: Reply(status=500)
        self.asked: list[Mapping[str, str]] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self.url = f"http{'s' * (tls is not None)}://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Liar:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def says(self, said: TeamAnswer | bytes, etag: str = "", **changes: object) -> None:
        """Answer with this from now on."""
        body = said if isinstance(said, bytes) else said.to_bytes()
        headers = {"Content-Type": "application/json"} | ({"ETag": etag} if etag else {})
        reply = Reply(body, headers=headers)
        for name, value in changes.items():
            setattr(reply, name, value)
        self.reply = lambda _: reply


def _handler(liar: Liar) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            liar.asked.append(dict(self.headers.items()))
            reply = liar.reply(self.headers)
            time.sleep(reply.delay_s)
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            if not reply.endless:
                length = len(reply.body) if reply.length is None else reply.length
                self.send_header("Content-Length", str(length))
            self.end_headers()
            with contextlib.suppress(OSError):
                self.wfile.write(reply.body)
                while reply.endless:
                    self.wfile.write(reply.body)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    return Handler
