"""What an MCP server, or anybody on this machine, may not do with the login of a person."""

from __future__ import annotations

import json
import stat
import sys
import threading
import time
import types
import urllib.request
from contextlib import suppress
from dataclasses import replace
from urllib.error import HTTPError
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.support.mcp_conformance import visit
from tests.support.mcp_session import session
from tests.support.mcp_web import at, free_port, running
from tests.support.model_server import ModelServer, Reply
from tests.tools.test_mcp_http import SECRET, registered
from tools import storage
from tools.hosts import Nearness, nearness
from tools.sources import credentials
from tools.sources.mcp import sdk
from tools.sources.mcp.authorization import united
from tools.sources.mcp.config import LoginSettings
from tools.sources.mcp.login import LoginFailed, log_in
from tools.sources.mcp.login_address import address_problem
from tools.sources.mcp.login_store import LoginStore


@pytest.mark.parametrize(
    ("host", "near"),
    [
        ("example.com", Nearness.ANYWHERE), ("8.8.8.8", Nearness.ANYWHERE),
        ("2001:4860:4860::8888", Nearness.ANYWHERE),
        ("10.1.2.3", Nearness.PRIVATE_NETWORK), ("192.168.0.1", Nearness.PRIVATE_NETWORK),
        ("100.64.0.1", Nearness.PRIVATE_NETWORK), ("fc00::1", Nearness.PRIVATE_NETWORK),
        ("169.254.169.254", Nearness.THIS_MACHINE), ("fe80::1%eth0", Nearness.THIS_MACHINE),
        ("localhost", Nearness.THIS_MACHINE), ("LocalHost.", Nearness.THIS_MACHINE),
        ("a.localhost", Nearness.THIS_MACHINE), ("::ffff:127.0.0.1", Nearness.THIS_MACHINE),
        ("2130706433", Nearness.THIS_MACHINE), ("0x7f.1", Nearness.THIS_MACHINE),
        ("0177.0.0.1", Nearness.THIS_MACHINE), ("0.0.0.0", Nearness.THIS_MACHINE),
        ("::", Nearness.THIS_MACHINE), ("2002:7f00:1::", Nearness.THIS_MACHINE),
    ],
)  # fmt: skip
def test_how_near_a_host_is_whatever_way_it_is_written(host, near):
    assert nearness(host) is near


@pytest.mark.parametrize(
    ("server", "named", "said"),
    [
        ("https://mcp.example/x", "https://login.example/token", ""),
        ("https://mcp.example/x", "https://mcp.example/token", ""),
        ("http://127.0.0.1:1/mcp", "http://127.0.0.1:2/token", ""),
        ("http://127.0.0.1:1/mcp", "https://login.example/token", ""),
        ("https://10.0.0.1/mcp", "https://10.0.0.2/token", ""),
        ("https://mcp.example/x", "http://login.example/token", "without encryption"),
        ("https://mcp.example/x", "http://mcp.example/token", "without encryption"),
        ("https://mcp.example/x", "https://10.0.0.2/token", "10.0.0.2 for the login, which is nea"),
        ("http://mcp.example/x", "http://169.254.169.254/latest", "nearer to you"),
        ("http://mcp.example/x", "http://[::1]:631/", "nearer to you"),
        ("https://10.0.0.1/mcp", "https://localhost/token", "nearer to you"),
        ("https://mcp.example/x", "https://mcp.example@evil.example/", "with a user's name"),
        ("https://mcp.example/x", "file:///etc/passwd", "no http address"),
        ("https://mcp.example/x", "https://login.example/\x1b]52;", "no http address"),
        ("https://mcp.example/x", "https://[login/", "that is none"),
    ],
)
def test_what_a_server_may_name_for_a_login(server, named, said):
    problem = address_problem(server, named)
    assert (said in problem) if said else not problem


FAR = "http://93.184.215.14/mcp"


PLACES = ("resource_metadata", "authorization_servers", "registration_endpoint",
          "authorization_endpoint", "token_endpoint")  # fmt: skip


@pytest.mark.parametrize("place", PLACES)
async def test_a_server_far_away_makes_opta_ask_nothing_on_this_machine(place, monkeypatch):
    """Through a proxy, which is the server: what it names here hears nothing."""
    origin = FAR.removesuffix("/mcp")

    def answer(request):
        path = urlsplit(request.path).path
        if path == "/mcp":
            at_first = here if place == "resource_metadata" else origin
            named = f'Bearer resource_metadata="{at_first}/resource"'
            return Reply(b"", 401, {"WWW-Authenticate": named})
        if path == "/resource":
            issuer = here if place == "authorization_servers" else origin
            return told({"resource": FAR, "authorization_servers": [issuer]})
        endpoints = {name: f"{here if name == place else origin}/register" for name in PLACES}
        endpoints |= {"issuer": origin}
        if path == "/register":
            return told({"client_id": "opta", "redirect_uris": ["http://127.0.0.1/callback"]}, 201)
        return told(endpoints)

    def told(data, status=200):
        return Reply(json.dumps(data).encode(), status, {"Content-Type": "application/json"})

    opened: list[str] = []
    with ModelServer([told({})]) as local, ModelServer([answer] * 20) as proxy:
        here = f"http://127.0.0.1:{local.port}"
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{proxy.port}")
        sdk.load()
        with pytest.raises(LoginFailed, match=r"names 127\.0\.0\.1 for the login, which is nearer"):
            await log_in(at(FAR), opened.append)
        assert local.requests == []
    assert opened == []


async def test_an_answer_about_a_login_is_not_read_without_end():
    def answer(request):
        if request.method == "POST":
            return Reply(b"", 401)
        return Reply(b" " * (2 << 20), 200, {"Content-Type": "application/json"})

    with ModelServer([answer] * 20) as web:
        sdk.load()
        with pytest.raises(LoginFailed, match="it sent more than 1 MiB"):
            await log_in(at(f"{web.base_url}/mcp"), visit)


async def test_who_knows_not_the_state_of_a_login_can_neither_give_nor_end_it(tmp_path):
    statuses: list[int] = []

    def disturb(url: str) -> None:
        back = parse_qs(urlsplit(url).query)["redirect_uri"][0]

        def ask() -> None:
            for query in ("code=theirs&state=x", "error=no", "code=theirs", "error=no&state="):
                with suppress(HTTPError):
                    statuses.append(urllib.request.urlopen(f"{back}?{query}").status)
            urllib.request.urlopen(url).read()

        threading.Thread(target=ask, daemon=True).start()

    with running("login") as url:
        sdk.load()
        await log_in(at(url), disturb)
        async with session(tmp_path, at(url)) as s:
            assert await s.text("mcp_web_add", a=1, b=2) == "3"
    assert statuses == []


async def test_a_server_without_protection_of_the_code_gets_no_login():
    opened: list[str] = []
    with running("login", "weak") as url:
        sdk.load()
        with pytest.raises(LoginFailed, match="cannot protect the login"):
            await log_in(at(url), opened.append)
    assert opened == []


async def test_the_secret_of_a_program_goes_to_no_other_server_than_at_the_first_login():
    port = free_port()
    with running("login", "closed", registered(f"http://localhost:{port}/callback")) as url:
        config = at(url, login=LoginSettings("opta of ours", SECRET, callback_port=port))
        sdk.load()
        await log_in(config, visit)
        store = LoginStore(config)
        login = await store.load()
        issuer = str(login.server.issuer)
        another = login.server.model_dump(mode="json") | {"issuer": "https://another.example/"}
        await store.save(replace(login, server=type(login.server).model_validate(another)))
        with pytest.raises(LoginFailed) as told:
            await log_in(config, visit)
        assert str(told.value).startswith(
            f"the login was at https://another.example/, and the server names {issuer} now"
        )
        assert await store.forget()
        await log_in(config, visit)
        assert (await store.load()).token


async def test_a_login_is_renewed_for_the_server_it_was_given_for(tmp_path):
    with running("login", "audience") as url:
        sdk.load()
        await log_in(at(url), visit)
        async with session(tmp_path, at(url)) as s:
            assert s.told == []
            assert await s.text("mcp_web_renewals") == "1"


async def test_a_page_to_log_in_at_keeps_the_query_that_it_has():
    shown: list[str] = []

    def show(address: str) -> None:
        shown.append(address)
        visit(address)

    with running("login", "query") as url:
        sdk.load()
        await log_in(at(url), show)
    query = parse_qs(urlsplit(shown[0]).query)
    assert (query["tenant"], query["response_type"]) == (["ours"], ["code"])


async def test_what_is_kept_of_a_login_is_for_its_owner_alone(tmp_path):
    with running("login", "scopes") as url:
        sdk.load()
        await log_in(at(url), visit)
        async with session(tmp_path, at(url)) as s:
            await s.call("mcp_web_keep", {"text": "this"})
    kept = storage.state_dir() / "mcp" / "logins"
    modes = {path.suffix: stat.S_IMODE(path.stat().st_mode) for path in kept.iterdir()}
    assert modes == {".json": 0o600, ".lock": 0o600}
    assert stat.S_IMODE(kept.stat().st_mode) == 0o700


def test_scopes_are_words_of_the_letters_that_scopes_have():
    assert united("read  write\tread", 'a"b \x1b[31m ü ' + "x" * 300) == "read write"
    assert len(united(" ".join(map(str, range(1000)))).split()) == 100


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (lambda *names: time.sleep(2), "The keyring did not answer within 0.2 s. Unlock it"),
        (lambda *names: 1 / 0, "The keyring cannot be used: division by zero. Unlock it"),
    ],
)
async def test_a_keyring_that_hangs_or_fails_costs_its_server_one_line(
    tmp_path, monkeypatch, fault, said
):
    keyring = types.ModuleType("keyring")
    keyring.get_keyring = lambda: types.SimpleNamespace(priority=5)
    keyring.get_password = keyring.set_password = fault
    monkeypatch.setitem(sys.modules, "keyring", keyring)
    monkeypatch.setattr(credentials, "KEYRING_S", 0.2)
    with running("login") as url:
        async with session(tmp_path, at(url)) as s:
            (told,) = s.told
            assert told.startswith(f"MCP server web is not available: {said}")
        sdk.load()
        with pytest.raises(storage.StorageError, match=said):
            await log_in(at(url), visit)
