"""Which addresses an MCP server may name for a login: it says where opta asks, and what it sends.

OAuth lets a server name any address for what it is told of (RFC 9728, RFC 8414). What it could not
ask itself, opta must not ask for it.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from tools.hosts import nearness


def address_problem(server: str, named: str) -> str:
    """Return why the address `named` is not asked for a login to `server`; empty if it may be.

    Its own host may be named always, in the same way or a safer one; nothing that is nearer to
    this machine than the server itself, and no plain HTTP by a server that is asked over HTTPS.
    """
    try:
        asked, parts = urlsplit(server), urlsplit(named)
        host, own = parts.hostname or "", asked.hostname or ""
        if parts.scheme not in ("http", "https") or not host or not named.isprintable():
            return f"the server names no http address for the login: {named!r}"
        if parts.username is not None or parts.password is not None:
            return f"the server names an address with a user's name for the login: {host}"
    except ValueError:
        return f"the server names an address for the login that is none: {named!r}"
    if asked.scheme == "https" and parts.scheme == "http":
        return f"the server names an address without encryption for the login: http://{host}"
    if host != own and nearness(host) > nearness(own):
        return f"the server names {host} for the login, which is nearer to you than the server is"
    return ""
