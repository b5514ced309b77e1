"""The reference server: shares a directory of tool files over HTTP, on this machine alone.

TLS, and being reached from elsewhere, is the business of a reverse proxy in front of it. Whoever
asks needs the token. A browser, which would send what a foreign page asks for, is refused by its
`Origin` header (R35).
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote, urlsplit

from tools.engine.output import visible
from tools.sources.team.answer import TeamDirectory, TeamError

HOST = "127.0.0.1"
SILENCE_S = 10
"""How long a client may say nothing, in seconds."""


class TeamServer(ThreadingHTTPServer):
    """Serves one directory for one organisation. Port 0 takes a free one; see `server_port`.

    Raises OSError for a port that is taken.
    """

    daemon_threads = True

    def __init__(
        self, directory: Path, org: str, token: str, port: int, log: Callable[[str], None]
    ) -> None:
        self.shared = TeamDirectory(directory, org)
        self.resource = f"/v1/orgs/{quote(org, safe='')}/tools"
        self.token = token
        self.log = log
        super().__init__((HOST, port), _Handler)

    @property
    def url(self) -> str:
        """What `teams.url` has to be."""
        return f"http://{HOST}:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "opta-team"
    sys_version = ""
    timeout = SILENCE_S
    server: TeamServer

    def do_GET(self) -> None:
        if "Content-Length" in self.headers or "Transfer-Encoding" in self.headers:
            # A body is not read: what is in it must not be taken for the next request.
            self.close_connection = True
        refusal = self._refusal()
        if refusal is not None:
            self._answer(refusal[0], json.dumps({"error": refusal[1]}).encode())
            return
        try:
            answer = self.server.shared.read()
        except TeamError as error:
            self.server.log(f"error: {error}")
            self._answer(500, b'{"error": "the tools cannot be read"}')
            return
        body = answer.to_bytes()
        tag = f'"{hashlib.sha256(answer.digest.encode()).hexdigest()[:32]}"'
        if tag in self.headers.get("If-None-Match", ""):
            self._answer(304, b"", tag)
        else:
            self._answer(200, body, tag)

    do_HEAD = do_GET

    def log_message(self, format: str, *args: object) -> None:
        """Log one line, without anything that moves a cursor (R36)."""
        self.server.log(visible(format % args))

    def _refusal(self) -> tuple[int, str] | None:
        """Return status and words for a request that gets no tools."""
        given = self.headers.get("Authorization", "").encode("utf-8", "replace")
        if self.headers.get("Origin") is not None:
            return 403, "requests of web pages are not answered"
        if not hmac.compare_digest(given, f"Bearer {self.server.token}".encode()):
            return 401, "a token is needed: Authorization: Bearer ..."
        if urlsplit(self.path).path != self.server.resource:
            return 404, f"there is {self.server.resource} only"
        return None

    def _answer(self, status: int, body: bytes, tag: str = "") -> None:
        self.send_response(status)
        if tag:
            self.send_header("ETag", tag)
        if self.close_connection:
            self.send_header("Connection", "close")
        if status == 401:
            self.send_header("WWW-Authenticate", "Bearer")
        if status != 304:
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "private, no-cache")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
