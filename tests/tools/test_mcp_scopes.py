"""Logins to MCP servers: their rights (scopes), and two runs of opta that have the same one."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import types
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.support.cli import OPTA, opta
from tests.support.mcp_conformance import visit
from tests.support.mcp_session import session
from tests.support.mcp_web import at, running
from tests.support.soon import SOON_S
from tools import storage
from tools.sources.mcp import sdk
from tools.sources.mcp.config import LoginSettings
from tools.sources.mcp.connection import State
from tools.sources.mcp.login import LoginFailed, log_in, scopes_in
from tools.sources.mcp.login_store import LoginBusy, LoginStore


async def logged_in(config) -> list[str]:
    """Log in; return the scopes that each page asked for."""
    shown: list[str] = []

    def show(url: str) -> None:
        shown.append(scopes_in(url))
        visit(url)

    sdk.load()
    await log_in(config, show)
    return shown


async def token_of(config) -> str:
    return (await LoginStore(config).load()).token


WANTED = "it wants more scopes: write; to allow that: opta mcp login web"


async def test_a_call_that_takes_more_scopes_says_which_and_the_login_stays(tmp_path):
    with running("login", "scopes") as url:
        assert await logged_in(at(url)) == ["read"]
        before = await token_of(at(url))
        async with session(tmp_path, at(url)) as s:
            for _ in range(2):
                result = await s.call("mcp_web_keep", {"text": "this"})
                assert result.text == (
                    f"The MCP server web refused this: {WANTED}. Nothing was done. Tell the user."
                )
            assert s.told == [f"MCP server web refused a call: {WANTED}"]
            assert s.servers.connections["web"].state is State.READY
            assert await s.text("mcp_web_add", a=1, b=2) == "3"
            assert await token_of(at(url)) == before


async def test_a_login_asks_for_the_old_scopes_and_the_new_and_a_chat_goes_on_with_it(tmp_path):
    with running("login", "scopes") as url:
        await logged_in(at(url))
        async with session(tmp_path, at(url)) as s:
            assert not (await s.call("mcp_web_keep", {"text": "this"})).success
            assert await logged_in(at(url)) == ["read write"]
            assert await s.text("mcp_web_keep", text="this") == "kept this"
        # Nor does a login for any other reason give up what there was.
        assert await logged_in(at(url)) == ["read write"]


async def test_a_login_that_fails_leaves_the_old_one(tmp_path):
    with running("login", "scopes") as url:
        await logged_in(at(url))

        def refuse(address: str) -> None:
            query = parse_qs(urlsplit(address).query)
            back, state = query["redirect_uri"][0], query["state"][0]
            visit(f"{back}?error=access_denied&error_description=no+means+no&state={state}")

        with pytest.raises(LoginFailed, match="no means no"):
            await log_in(at(url), refuse)
        async with session(tmp_path, at(url)) as s:
            assert await s.text("mcp_web_add", a=1, b=2) == "3"


async def test_scopes_that_the_server_names_but_never_gives_are_no_loop(tmp_path):
    with running("login", "scopes") as url:
        await logged_in(at(url))
        async with session(tmp_path, at(url)) as s:
            assert "more scopes: nobody; to" in (await s.call("mcp_web_nobody")).text
            assert await logged_in(at(url)) == ["read nobody"]
            login = await LoginStore(at(url)).load()
            assert login.scopes == "read"
            assert await s.text("mcp_web_add", a=1, b=2) == "3"


async def test_scopes_as_missing_that_the_login_has_are_not_asked_for_again(tmp_path):
    with running("login", "scopes") as url:
        await logged_in(at(url))
        store = LoginStore(at(url))
        login = await store.load()
        login.tokens.scope = "read write"
        await store.save(login)
        async with session(tmp_path, at(url)) as s:
            said = (await s.call("mcp_web_keep", {"text": "this"})).text
        assert "names scopes as missing that the login has: write; a new login is no help" in said
        assert (await store.load()).wanted == ""


async def test_a_server_that_does_not_say_which_scopes_it_wants(tmp_path):
    with running("login", "scopes") as url:
        await logged_in(at(url))
        async with session(tmp_path, at(url)) as s:
            said = (await s.call("mcp_web_unnamed")).text
            assert "wants more scopes, and does not say which; to allow that: opta mcp" in said
            assert await s.text("mcp_web_add", a=1, b=2) == "3"


async def test_one_login_asks_on_for_what_connecting_takes():
    with running("login", "scopes", "strict") as url:
        assert await logged_in(at(url)) == ["read", "read write"]
        assert (await LoginStore(at(url)).load()).scopes == "read write"


async def test_scopes_of_the_configuration_stay_the_limit_and_the_words_say_so(tmp_path):
    with running("login", "scopes") as url:
        config = at(url, login=LoginSettings(scopes="read"))
        await logged_in(config)
        async with session(tmp_path, config) as s:
            said = (await s.call("mcp_web_keep", {"text": "this"})).text
        assert (
            "wants more scopes: write; to allow that: add write to oauth.scopes (config.yml:1), "
            "then opta mcp login web."
        ) in said
        assert await logged_in(config) == ["read"]


async def test_a_token_in_a_header_that_has_too_few_scopes(tmp_path):
    with running("login", "scopes") as url:
        await logged_in(at(url))
        headers = {"Authorization": f"Bearer {await token_of(at(url))}"}
        async with session(tmp_path, at(url, headers=headers)) as s:
            said = (await s.call("mcp_web_keep", {"text": "this"})).text
            assert "the token of its header Authorization lacks scopes: write; make one" in said
            assert await s.text("mcp_web_add", a=1, b=2) == "3"


def test_by_hand_the_scopes_are_shown_before_the_browser_and_those_not_given_after(visited):
    with running("login", "scopes") as url:
        opta("mcp", "add", "web", url)
        first = opta("mcp", "login", "web")
        assert first.stdout.startswith("Log in to web in the browser with the scopes read:\n  http")
        asyncio.run(_want(url, "nobody"))
        shown = opta("mcp", "get", "web").stdout
        assert "  logged in, with the scopes read\n" in shown
        assert "  it wants more scopes: nobody (opta mcp login web)\n" in shown
        second = opta("mcp", "login", "web")
        assert "with the scopes read nobody:\n" in second.stdout
        assert "The server did not give all scopes; missing: nobody\n" in second.stdout
        assert len(visited.read_text().splitlines()) == 2


async def _want(url: str, scope: str) -> None:
    async with session(Path.cwd(), at(url)) as s:
        await s.call(f"mcp_web_{scope}")


async def test_a_token_that_the_server_ends_early_is_renewed_in_the_middle_of_a_chat(tmp_path):
    with running("login") as url:
        await logged_in(at(url))
        async with session(tmp_path, at(url)) as s:
            await s.call("mcp_web_forget_tokens")
            calls = [s.text("mcp_web_add", a=number, b=0) for number in range(5)]
            assert await asyncio.gather(*calls) == ["0", "1", "2", "3", "4"]
            assert await s.text("mcp_web_renewals") == "1"


async def test_a_chat_goes_on_with_a_login_that_the_person_made_meanwhile(tmp_path):
    with running("login") as url:
        async with session(tmp_path, at(url)) as s:
            needed = "MCP server web needs a login: log in with: opta mcp login web"
            assert s.told == [needed]
            await s.servers.ready(None, s.told.append)
            assert s.told == [needed]
            await logged_in(at(url))
            await s.servers.ready(None, s.told.append)
            assert s.told[1] == "MCP server web: you logged in; opta connects again"
            assert await s.text("mcp_web_add", a=1, b=2) == "3"
            await s.call("mcp_web_log_out")
            assert "needs a login" in (await s.call("mcp_web_add", {"a": 1, "b": 2})).text
            for _ in range(3):
                await s.servers.ready(None, s.told.append)
            assert s.told[2:] == [needed]


async def test_calls_with_a_login_do_not_wait_for_each_other(tmp_path):
    with running("login", "json") as url:
        await logged_in(at(url))
        async with session(tmp_path, at(url)) as s:
            both = await asyncio.gather(s.text("mcp_web_meet"), s.text("mcp_web_meet"))
    assert both == ["met", "met"]


async def test_a_call_that_is_given_up_while_the_login_is_renewed_costs_no_login(tmp_path):
    with running("login", "rotating") as url:
        await logged_in(at(url))
        async with session(tmp_path, at(url)) as s:
            await s.call("mcp_web_forget_tokens")
            call = asyncio.create_task(s.call("mcp_web_add", {"a": 1, "b": 2}))
            await soon_renewing(LoginStore(at(url)))
            call.cancel()
            await asyncio.wait({call})
            assert call.cancelled()
            assert await s.text("mcp_web_add", a=1, b=2) == "3"


async def test_an_opta_that_is_ended_while_it_renews_a_login_costs_no_login(tmp_path):
    with running("login", "rotating") as url:
        opta("mcp", "add", "web", url)
        await logged_in(at(url))
        check = subprocess.Popen([*OPTA, "mcp", "get", "web", "--check"], stdout=-1, stderr=-1)
        await soon_renewing(LoginStore(at(url)))
        check.send_signal(signal.SIGINT)
        await asyncio.to_thread(check.communicate, timeout=60)
        assert check.returncode != 0
        async with session(tmp_path, at(url)) as s:
            assert s.told == []
            assert await s.text("mcp_web_renewals") == "1"


async def soon_renewing(store: LoginStore) -> None:
    async with asyncio.timeout(SOON_S):
        while True:
            try:
                async with store.alone(0):
                    pass
            except LoginBusy:
                return
            await asyncio.sleep(0.01)


async def test_a_server_that_gives_tokens_as_github_does_is_understood(tmp_path):
    with running("login", "forms", "scopes") as url:
        await logged_in(at(url))
        async with session(tmp_path, at(url)) as s:
            assert await s.text("mcp_web_renewals") == "1"
            assert not (await s.call("mcp_web_keep", {"text": "this"})).success
            assert await logged_in(at(url)) == ["read write"]
            assert await logged_in(at(url)) == ["read write"]
            assert await s.text("mcp_web_keep", text="this") == "kept this"
            await s.call("mcp_web_log_out")
            result = await s.call("mcp_web_add", {"a": 1, "b": 2})
            assert "needs a login: log in with: opta mcp login web" in result.text


async def test_a_server_that_cannot_renew_a_login_now_ends_no_login(tmp_path):
    with running("login", "down") as url:
        await logged_in(at(url))
        before = await token_of(at(url))
        async with session(tmp_path, at(url)) as s:
            assert s.servers.connections["web"].state is State.FAILED
            (told,) = s.told
            assert told == (
                "MCP server web is not available: the login cannot be renewed now: HTTP 503"
            )
        assert await token_of(at(url)) == before


PROJECT = Path(__file__).parents[2]
RUN = """\
import sys
sys.path[:0] = sys.argv[1:3]
from agent.cli import main
sys.exit(main(sys.argv[3:], version="0"))
"""


@pytest.fixture(params=["file", "keyring"])
def modules(request, tmp_path, monkeypatch) -> Path:
    """What is installed beside opta: nothing, or the package `keyring`."""
    directory = tmp_path / request.param
    directory.mkdir()
    if request.param == "keyring":
        source = KEYRING.format(path=str(tmp_path / "ring.json"))
        (directory / "keyring.py").write_text(source)
        here = types.ModuleType("keyring")
        exec(source, here.__dict__)
        monkeypatch.setitem(sys.modules, "keyring", here)
    return directory


KEYRING = """\
import json, types
from pathlib import Path

RING = Path({path!r})

def _all():
    return json.loads(RING.read_text()) if RING.exists() else {{}}

def get_keyring():
    return types.SimpleNamespace(priority=5)

def get_password(service, name):
    return _all().get(service + "/" + name)

def set_password(service, name, secret):
    new = RING.with_suffix(".new")
    new.write_text(json.dumps(_all() | {{service + "/" + name: secret}}))
    new.replace(RING)
"""


async def test_runs_of_opta_that_renew_one_login_at_the_same_time_all_go_on(tmp_path, modules):
    argv = [sys.executable, "-c", RUN, PROJECT, modules, "mcp", "get", "web", "--check"]
    with running("login", "rotating") as url:
        opta("mcp", "add", "web", url)
        await logged_in(at(url))
        checks = [subprocess.Popen(argv, stdout=-1, stderr=-1, text=True) for _ in range(2)]
        ended = [await asyncio.to_thread(check.communicate, timeout=60) for check in checks]
        for out, err in ended:
            assert "mcp_web_add  Add two numbers." in out, err
        async with session(tmp_path, at(url)) as s:
            assert await s.text("mcp_web_renewals") == "1"
    kept = list((storage.state_dir() / "mcp" / "logins").glob("*.json"))
    assert len(kept) == (modules.name == "file")


HOLD = """\
import sys
from pathlib import Path
from tools import storage
lock = storage.AppendFile(Path(sys.argv[1]))
assert lock.lock()
print("mine", flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="the lock is one of POSIX systems")
async def test_a_run_of_opta_that_dies_or_hangs_while_it_renews_keeps_none_waiting():
    with running("login") as url:
        await logged_in(at(url))
        store = LoginStore(at(url))
        (place,) = (storage.state_dir() / "mcp" / "logins").glob("*.json")
        argv = [sys.executable, "-c", HOLD, str(place.with_suffix(".lock"))]
        other = subprocess.Popen(argv, stdin=-1, stdout=-1, cwd=PROJECT)
        try:
            assert other.stdout is not None
            assert other.stdout.readline() == b"mine\n"
            with pytest.raises(LoginBusy, match="another opta is renewing the login to web and"):
                async with store.alone(0.2):
                    pass
        finally:
            other.kill()
            other.communicate()
        async with asyncio.timeout(SOON_S), store.alone():
            assert (await store.load()).token
