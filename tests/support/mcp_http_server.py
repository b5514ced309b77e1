"""An MCP server over streamable HTTP on loopback, by the SDK: `python mcp_http_server.py [login]`.

It prints its port once it listens. With `login` it wants an OAuth login and is its own
authorization server, which says yes to everybody; with `closed` too, no new program may ask it, but
one that follows as JSON (`{"client_id": …}`). With `post` it takes a secret in the form alone,
with `telling` its errors hold it. With `tenant` the authorization server has a path of its own, and
the token of a login is good for one request; it can be renewed. With `rotating` that takes a while,
and what a token is renewed with is good once: a second use ends the login (RFC 9700, 4.14.2). With
`down` it cannot give tokens a second time, with `audience` only to who names the MCP server. With
`forms` it gives them as GitHub does: as JSON to who asks for that, and errors with HTTP 200. With
`weak` it knows no S256, with `query` its page to log in at has a query of its own. With `json` it
answers without streams.

With `scopes` a login may do what its scopes say: `read` calls all tools but `keep`, which takes
`write`, and `nobody`, which takes what nobody is given. With `strict` connecting takes `write`.
"""

from __future__ import annotations

import asyncio
import base64
import json
import secrets
import socket
import sys
import time
from typing import Any
from urllib.parse import urlencode

import uvicorn
from mcp.server.auth import routes
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    RefreshToken,
    TokenError,
    construct_redirect_uri,
)
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.shared.auth import OAuthClientInformationFull, OAuthMetadata, OAuthToken
from pydantic import AnyHttpUrl

RUN_OUT = {"tenant", "rotating", "down", "audience", "forms"}


class Everybody:
    """Registers every client and lets everybody in, until `tokens` is cleared."""

    def __init__(self) -> None:
        self.clients: dict[str, OAuthClientInformationFull] = {}
        self.codes: dict[str, AuthorizationCode] = {}
        self.tokens: dict[str, AccessToken] = {}
        self.good_once: set[str] = set()
        self.refresh: dict[str, RefreshToken] = {}
        self.used: set[str] = set()
        self.renewals = 0

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        self.clients[str(client_info.client_id)] = client_info

    async def authorize(
        self, client: OAuthClientInformationFull, params: AuthorizationParams
    ) -> str:
        code = secrets.token_urlsafe(32)
        self.codes[code] = AuthorizationCode(
            code=code, scopes=params.scopes or [], expires_at=time.time() + 60,
            client_id=str(client.client_id), code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri, resource=params.resource,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
        )  # fmt: skip
        return construct_redirect_uri(str(params.redirect_uri), code=code, state=params.state)

    async def load_authorization_code(self, client: Any, code: str) -> AuthorizationCode | None:
        return self.codes.get(code)

    async def exchange_authorization_code(
        self, client: Any, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        if "telling" in sys.argv:
            raise TokenError("invalid_grant", f"no token with {client.client_secret}")
        del self.codes[authorization_code.code]
        lasts = 0 if RUN_OUT & set(sys.argv) else 3600
        scopes = [scope for scope in authorization_code.scopes if scope != "nobody"]
        token = self._token(client, scopes, authorization_code.resource, lasts)
        if not lasts:
            self.good_once.add(token.access_token)
        return token

    def _token(
        self, client: Any, scopes: list[str], resource: str | None, lasts: int = 3600
    ) -> OAuthToken:
        token, again = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        client_id = str(client.client_id)
        self.tokens[token] = AccessToken(
            token=token, client_id=client_id, scopes=scopes,
            expires_at=int(time.time()) + 3600, resource=resource,
        )  # fmt: skip
        self.refresh[again] = RefreshToken(
            token=again, client_id=client_id, scopes=scopes, resource=resource
        )
        return OAuthToken(
            access_token=token,
            expires_in=lasts,
            refresh_token=again,
            scope=" ".join(scopes) or None,
        )

    async def load_refresh_token(self, client: Any, refresh_token: str) -> RefreshToken | None:
        if refresh_token in self.used:
            self.log_out()
        elif "rotating" in sys.argv:
            self.used.add(refresh_token)
        return self.refresh.get(refresh_token)

    async def exchange_refresh_token(
        self, client: Any, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        self.renewals += 1
        if "rotating" in sys.argv:
            await asyncio.sleep(1)
        if refresh_token.token not in self.refresh:
            raise TokenError("invalid_grant", "this login was ended")
        return self._token(client, scopes, refresh_token.resource)

    def log_out(self) -> None:
        """Forget every login."""
        self.tokens.clear()
        self.refresh.clear()

    async def load_access_token(self, token: str) -> AccessToken | None:
        if token in self.good_once:
            return self.tokens.pop(token, None)
        return self.tokens.get(token)

    async def revoke_token(self, token: Any) -> None:
        self.tokens.pop(token.token, None)


def _describe_itself_otherwise() -> None:
    build = routes.build_metadata

    def build_other(*arguments: Any, **settings: Any) -> OAuthMetadata:
        metadata = build(*arguments, **settings)
        if "post" in sys.argv:
            metadata.token_endpoint_auth_methods_supported = ["client_secret_post"]
        if "weak" in sys.argv:
            metadata.code_challenge_methods_supported = ["plain"]
        if "query" in sys.argv:
            page = f"{metadata.authorization_endpoint}?tenant=ours"
            metadata.authorization_endpoint = AnyHttpUrl(page)
        return metadata

    routes.build_metadata = build_other


def _under(path: str, application: Any) -> Any:
    """The application where its authorization server is below `path` alone."""

    async def serve(scope: Any, receive: Any, send: Any) -> None:
        asked = scope.get("path", "")
        scope["path"] = asked.replace(path, "", 1) if path in asked else asked
        if asked in ("/token", "/authorize"):
            scope["path"] = "/nothing"
        await application(scope, receive, send)

    return serve


def _renewing_seldom(application: Any) -> Any:
    """The application where not every login can be renewed."""

    async def serve(scope: Any, receive: Any, send: Any) -> None:
        given = await _body(receive) if scope.get("path") == "/token" else b""
        if b"refresh_token" in given and "down" in sys.argv:
            await _answer(send, 503, {})
        elif b"refresh_token" in given and b"resource=http" not in given:
            await _answer(send, 400, {})
        else:
            await application(scope, _again(given, receive) if given else receive, send)

    return serve


def _in_forms(application: Any) -> Any:
    """The application where tokens and errors come as GitHub gives them."""

    async def serve(scope: Any, receive: Any, send: Any) -> None:
        asks = dict(scope.get("headers", ())).get(b"accept", b"")
        if scope.get("path") != "/token":
            await application(scope, receive, send)
            return

        async def other(event: Any) -> None:
            if event["type"] == "http.response.start":
                headers = [pair for pair in event["headers"] if pair[0] != b"content-length"]
                event = {**event, "status": 200, "headers": headers}
            elif event.get("body"):
                said = json.loads(event["body"])
                said["scope"] = (said.get("scope") or "").replace(" ", ",")
                told = json.dumps(said) if asks == b"application/json" else urlencode(said)
                event = {**event, "body": told.encode()}
            await send(event)

        await application(scope, receive, other)

    return serve


TAKES = {"keep": "write", "nobody": "nobody", "unnamed": ""}


def _by_scopes(application: Any, everybody: Everybody) -> Any:
    """The application where calls take scopes (RFC 6750, 3.1)."""

    async def serve(scope: Any, receive: Any, send: Any) -> None:
        if scope.get("path") != "/mcp" or scope["method"] != "POST":
            await application(scope, receive, send)
            return
        body = await _body(receive)
        message = json.loads(body)
        takes = TAKES.get((message.get("params") or {}).get("name"))
        if takes is None and "strict" in sys.argv:
            takes = "write"
        sent = dict(scope["headers"]).get(b"authorization", b"").decode().removeprefix("Bearer ")
        token = everybody.tokens.get(sent)
        if token is None or takes is None or takes in token.scopes:
            await application(scope, _again(body, receive), send)
            return
        named = f', scope="{takes}"' if takes else ""
        told = f'Bearer error="insufficient_scope"{named}'
        await _answer(send, 403, {"www-authenticate": told})

    return serve


async def _body(receive: Any) -> bytes:
    body, more = b"", True
    while more:
        event = await receive()
        body, more = body + event.get("body", b""), event.get("more_body", False)
    return body


def _again(body: bytes, receive: Any) -> Any:
    events = [{"type": "http.request", "body": body}]

    async def once() -> Any:
        return events.pop() if events else await receive()

    return once


async def _answer(send: Any, status: int, headers: dict[str, str]) -> None:
    named = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": named})
    await send({"type": "http.response.body", "body": b""})


def _add_tools(server: MCPServer, everybody: Everybody) -> None:
    @server.tool()
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @server.tool()
    async def headers(ctx: Context) -> str:
        """Say which headers came."""
        request = ctx.request_context.request
        return str(request.headers.get("x-test")) if request is not None else "none"

    @server.tool()
    async def heard(ctx: Context) -> str:
        """Say all headers that came, as text, in Base64, and in an error's words."""
        request = ctx.request_context.request
        said = json.dumps(dict(request.headers)) if request is not None else "none"
        await ctx.report_progress(1, 2, said)
        return f"{said}\n{base64.b64encode(request.headers.get('authorization', '').encode())!r}"

    @server.tool()
    async def refuse(ctx: Context) -> str:
        """Fail, and say with which headers."""
        raise ToolError(json.dumps(dict(ctx.request_context.request.headers)))

    @server.tool()
    def log_out() -> None:
        """Forget every login."""
        everybody.log_out()

    @server.tool()
    def forget_tokens() -> None:
        """Take no token any more that was given until now."""
        everybody.tokens.clear()

    @server.tool()
    def renewals() -> int:
        """Say how often a login was renewed."""
        return everybody.renewals

    met = asyncio.Barrier(2)

    @server.tool()
    async def meet() -> str:
        """Wait until this is called twice at the same time."""
        async with asyncio.timeout(10), met:
            return "met"

    @server.tool()
    def keep(text: str) -> str:
        """Keep something."""
        return f"kept {text}"

    @server.tool()
    def nobody() -> None:
        """Do what nobody may."""

    @server.tool()
    def unnamed() -> None:
        """Do what takes more rights, which nobody names."""


def main() -> None:
    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    settings: dict[str, Any] = {}
    tenant = "/tenant" if "tenant" in sys.argv else ""
    scoped = "scopes" in sys.argv
    everybody = Everybody()
    for argument in filter(lambda argument: argument.startswith("{"), sys.argv):
        client = OAuthClientInformationFull.model_validate_json(argument)
        everybody.clients[client.client_id] = client
    _describe_itself_otherwise()
    if "login" in sys.argv:
        auth = AuthSettings(
            issuer_url=f"{address}{tenant}", resource_server_url=f"{address}/mcp",
            client_registration_options=ClientRegistrationOptions(
                enabled="closed" not in sys.argv, default_scopes=["read"] if scoped else None,
            ),
            required_scopes=["read"] if scoped else None, validate_token_resource=False,
        )  # fmt: skip
        settings = {"auth_server_provider": everybody, "auth": auth}
    server = MCPServer("http", **settings)

    _add_tools(server, everybody)
    application = server.streamable_http_app(json_response="json" in sys.argv)
    if scoped:
        application = _by_scopes(application, everybody)
    if "forms" in sys.argv:
        application = _in_forms(application)
    if {"down", "audience"} & set(sys.argv):
        application = _renewing_seldom(application)
    if tenant:
        application = _under(tenant, application)
    config = uvicorn.Config(application, log_level="warning")
    print(port, flush=True)
    uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    main()
