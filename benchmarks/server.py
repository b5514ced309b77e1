"""A model server that costs as little as possible: `python -m benchmarks.server SCENARIO`.

Prints its port, then answers the requests of one client after another with the scenario's
responses, prepared in advance; after the last one it starts again. `GET /run` returns, as JSON,
when each request of the last complete run had arrived and its response was sent (seconds, of one
clock), and the body of its first request.
"""

from __future__ import annotations

import json
import re
import socket
import sys
import time

from benchmarks.scenarios import SCENARIOS

_LENGTH = re.compile(rb"(?i)\r\ncontent-length: *(\d+)")


class Run:
    """One pass through the responses."""

    def __init__(self) -> None:
        self.arrived: list[float] = []
        self.sent: list[float] = []
        self.first_body = b""

    def report(self) -> bytes:
        fields = {
            "arrived": self.arrived,
            "sent": self.sent,
            "first_body": self.first_body.decode(),
        }
        body = json.dumps(fields).encode()
        return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)


def read_request(connection: socket.socket, pending: bytes) -> tuple[bytes, bytes, bytes] | None:
    """Return head, body and what follows of the next request; None when the client has left."""
    while (end := pending.find(b"\r\n\r\n")) < 0:
        if not (data := connection.recv(1 << 18)):
            return None
        pending += data
    length = int(match[1]) if (match := _LENGTH.search(pending, 0, end)) else 0
    parts, have = [pending[end + 4 :]], len(pending) - end - 4
    while have < length:
        if not (data := connection.recv(1 << 20)):
            return None
        parts.append(data)
        have += len(data)
    rest = b"".join(parts)
    return pending[:end], rest[:length], rest[length:]


def serve(listener: socket.socket, responses: list[bytes]) -> None:
    """Answer one connection after another, for ever."""
    current, last = Run(), Run()
    while True:
        connection, _ = listener.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        pending = b""
        with connection:
            while request := read_request(connection, pending):
                head, body, pending = request
                if head.startswith(b"GET /run "):
                    connection.sendall(last.report())
                    continue
                current.arrived.append(time.perf_counter())
                current.first_body = current.first_body or body
                connection.sendall(responses[len(current.sent)])
                current.sent.append(time.perf_counter())
                if len(current.sent) == len(responses):
                    current, last = Run(), current


def main() -> None:
    responses = list(SCENARIOS[sys.argv[1]]())
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        serve(listener, responses)


if __name__ == "__main__":
    main()
