"""Team tools in the real program, with `opta team serve` as a second process that is killed, slow
and comes back."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import signal
import socket
import stat
import time
from pathlib import Path

import pytest

from agent.ui.menu import GRACE_S
from tests.support.cli import OPTA, connected, opta
from tests.support.model_server import ModelServer, call, say
from tests.support.soon import SOON_S
from tests.support.team import (
    ORG,
    TOKEN,
    Liar,
    answer,
    configure_team,
    serving,
    tool_text,
    write_tools,
)
from tests.support.terminal import Terminal, needs_tmux
from tools import storage


@pytest.fixture
def shared(tmp_path):
    """A directory of one tool file."""
    return write_tools(tmp_path / "shared", scan="echo scanned {1}")


@pytest.fixture
def token(monkeypatch):
    monkeypatch.setenv("OPTA_TEAM_TOKEN", TOKEN)


def team(*words, **how):
    done = opta("team", *words, **how)
    assert "Traceback" not in done.stderr
    return done


def take(url):
    """Set the team up and accept all it shares."""
    configure_team(url=url, org=ORG)
    assert team("sync").returncode == 0
    assert team("accept", "--yes").returncode == 0


def ask(server, *flags):
    done = opta("-p", "go", *flags, server=server)
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.usefixtures("token")
@pytest.mark.row("E15", "E20", "E144")
def test_a_tool_of_the_team_is_offered_and_runs_through_the_gate(shared):
    with serving(shared) as served:
        take(served.url)
        with ModelServer([call("scan"), say("done")]) as server:
            done = opta("-p", "go", server=server)
            assert done.returncode == 3
            assert "no rule allows it" in server.sent_messages[-1]["content"]
        with ModelServer([call("scan"), say("done")]) as server:
            done = opta("-p", "go", "--allow", "scan", server=server)
            assert done.returncode == 0, done.stderr
            assert "scanned" in server.sent_messages[-1]["content"]
    listed = opta("tools").stdout
    assert re.search(r"^✓ scan +\[Teams\] +~\d+ tokens \(enforced\)$", listed, re.MULTILINE)


@pytest.mark.usefixtures("token")
@pytest.mark.row("E15")
@pytest.mark.parametrize(
    "changes", [{"enabled": False}, {"features": {"sharedTools": False}}, {"features": {}}]
)
def test_without_both_switches_there_are_no_team_tools(shared, changes):
    with serving(shared) as served:
        take(served.url)
        configure_team(url=served.url, org=ORG, **changes)
        with ModelServer([say("done")]) as server:
            ask(server)
            assert "scan" not in server.offered
        assert team("status").returncode == 2


@pytest.mark.row("E151")
def test_a_project_names_no_team_even_when_it_is_trusted(shared):
    Path(".opta").mkdir()
    settings = {"enabled": True, "features": {"sharedTools": True}, "directory": str(shared)}
    Path(".opta/config.yml").write_text(json.dumps({"teams": settings}))
    with ModelServer([say("done")]) as server:
        done = ask(server, "--trust")
        assert "scan" not in server.offered
    assert done.stderr.count("a project may not set it") == 3
    assert "teams.directory: ignored" in done.stderr
    refused = opta("-p", "go", "--config", f"teams.directory={shared}", "--model", "m")
    assert refused.returncode == 2
    assert "no team is set up" in team("sync").stderr


@pytest.mark.row("E151", "E152")
def test_what_the_owner_of_the_machine_sets_nobody_turns_off(shared):
    configure_team("managed", directory=str(shared))
    configure_team(enabled=False, directory="/elsewhere")
    assert team("sync").returncode == 0
    assert "scan (new)" in team("accept", "--yes").stdout
    with ModelServer([say("done")]) as server:
        done = ask(server)
        assert "scan" in server.offered
    assert "teams.enabled is ignored" in done.stderr


@pytest.mark.usefixtures("token")
@pytest.mark.row("E103", "E113", "E152")
def test_an_enforced_tool_is_not_disabled_by_command_config_or_file(shared):
    with serving(shared) as served:
        take(served.url)
    disabled = opta("tools", "disable", "scan")
    assert disabled.returncode == 1
    assert "Cannot disable tool: scan (enforced by enterprise policy)" in disabled.stderr
    path = configure_team(url=served.url, org=ORG)
    path.write_text(json.dumps(json.loads(path.read_text()) | {"tools": {
        "scan": {"enabled": False}, "maxCustomTools": 1, "autoLoadCustomTools": False,
    }}))  # fmt: skip
    mine = path.parent / "tools" / "scan.json"
    mine.parent.mkdir()
    mine.write_text(tool_text("scan", "echo mine", enabled=False))
    with ModelServer([say("done")]) as server:
        ask(server)
        assert "scan" in server.offered
    assert "Description: Does scan" in opta("tools", "info", "scan").stdout


@pytest.mark.usefixtures("token")
def test_r28_killed_and_back_the_server_changes_nothing_until_it_is_accepted(shared):
    with serving(shared) as served:
        take(served.url)
        served.process.send_signal(signal.SIGKILL)
        served.process.wait(SOON_S)
        down = team("sync")
        assert down.returncode == 1
        assert "connection refused" in down.stderr
        assert "last good answer stays in use" in down.stderr
        with ModelServer([say("done")]) as server:
            ask(server)
            assert "scan" in server.offered
    write_tools(shared, scan="echo something else", more="echo more")
    with serving(shared, port=served.port):
        back = team("sync")
        assert "more (new), scan (changed) wait until you accept" in back.stdout
        with ModelServer([call("scan"), say("done")]) as server:
            done = opta("-p", "go", "--allow", "scan", server=server)
            assert "scan (changed) wait until you accept" in done.stderr
            assert "scanned" in server.sent_messages[-1]["content"]
            assert "more" not in server.offered
    shown = team("accept", "scan")
    assert shown.returncode == 3
    assert '- "bash": "echo scanned {1}"' in shown.stdout.replace("  -", "-")
    assert '+ "bash": "echo something else"' in shown.stdout.replace("  +", "+")
    assert "--yes" in shown.stderr
    assert team("accept", "scan", "--yes").returncode == 0
    state = json.loads(team("status", "--format", "json").stdout)
    assert [tool["name"] for tool in state["tools"]] == ["scan"]
    assert [one["tools"] for one in state["waiting"]] == [["more"]]


def test_the_details_of_a_tool_say_which_file_defines_it(shared):
    configure_team(directory=str(shared))
    team("sync")
    team("accept", "--yes")
    mine = write_tools(Path(os.environ["XDG_CONFIG_HOME"], "opta", "tools"), mine="echo mine")
    assert "\nFile: team shared/scan.json\n" in opta("tools", "info", "scan").stdout
    assert f"\nFile: {mine}/mine.json\n" in opta("tools", "info", "mine").stdout
    assert "File:" not in opta("tools", "info", "git").stdout


def test_doctor_tells_of_the_team_and_of_settings_that_name_none(shared):
    configure_team(directory=str(shared))
    assert "team shared: nothing is known of it yet: opta team sync" in doctor()["problems"]
    team("sync")
    found = doctor()["team"]
    assert found["place"] == str(shared)
    assert (found["in_use"], found["waiting"]) == ([], ["scan (new)"])
    (shared / "bad.json").write_text("{broken")
    team("sync")
    assert any("team shared/bad.json:1" in problem for problem in doctor()["problems"])
    configure_team(url="http://tools.example.com", org=ORG)
    assert any("teams.url must begin with https://" in p for p in doctor()["problems"])
    assert "teams.url must begin with https://" in opta("doctor").stdout


def doctor():
    return json.loads(opta("doctor", "--format", "json").stdout)


def test_what_the_team_takes_back_is_gone_at_once_and_told(shared):
    write_tools(shared, more="echo more")
    configure_team(directory=str(shared))
    team("sync")
    team("accept", "--yes")
    (shared / "scan.json").unlink()
    first, gone = team("sync").stdout.splitlines()
    assert first.endswith("something new")
    assert gone == "no longer shared, and no longer in use: scan"
    with ModelServer([say("done")]) as server:
        ask(server)
        assert "more" in server.offered
        assert "scan" not in server.offered
    assert team("sync").stdout.endswith("nothing new\n")


def test_a_misspelt_setting_is_told_with_its_place():
    configure_team(directory="/srv/tools", feature={"sharedTools": True})
    assert "config.yml" in (told := team("status").stderr)
    assert "teams.feature: unknown setting; did you mean teams.features?" in told


def test_a_name_that_does_not_wait_is_an_error(shared):
    configure_team(directory=str(shared))
    team("sync")
    done = team("accept", "nothing", "--yes")
    assert done.returncode == 1
    assert "no tool 'nothing' waits to be accepted; waiting: scan" in done.stderr
    assert team("accept", "--yes").returncode == 0
    assert team("accept", "--yes").stdout == "Nothing waits to be accepted.\n"


@pytest.mark.usefixtures("token")
def test_a_job_waits_for_no_server_and_uses_what_is_known():
    with Liar() as liar:
        liar.says(answer(("scan.json", tool_text("scan"))), '"1"')
        take(liar.url)
        configure_team(url=liar.url, org=ORG, timeout=600)
        liar.says(answer(), '"2"', delay_s=600)
        with ModelServer([say("done")]) as server:
            started = time.monotonic()
            ask(server)
            assert time.monotonic() - started < SOON_S
            assert "scan" in server.offered


def test_a_job_says_at_its_end_what_the_server_would_not_do():
    configure_team(url="http://127.0.0.1:1", org=ORG)
    # Longer than a refused connection takes.
    with ModelServer([call("run_command", command="sleep 1"), say("done")]) as server:
        done = ask(server, "--allow", "run_command(sleep:*)")
    assert "it cannot be reached: connection refused; nothing of it is known here yet" in (
        " ".join(done.stderr.split())
    )
    assert done.stdout == "done\n"


@pytest.mark.usefixtures("token")
def test_r38_r39_the_token_reaches_no_child_and_no_file(shared):
    write_tools(shared, show="env")
    with serving(shared) as served:
        take(served.url)
        with ModelServer([call("show"), say(f"it is {TOKEN}")]) as server:
            opta("-p", "go", "--allow", "show", server=server)
            assert "HOME=" in server.sent_messages[-1]["content"]
            assert TOKEN not in json.dumps(server.sent_messages)
    for place in (storage.state_dir(), storage.config_dir()):
        for path in place.rglob("*"):
            assert not path.is_file() or TOKEN.encode() not in path.read_bytes(), path


def test_a_kept_token_is_private_and_used_for_this_address_only(shared):
    with serving(shared) as served:
        configure_team(url=served.url, org=ORG)
        assert "wants a token: OPTA_TEAM_TOKEN is not set" in team("sync").stderr
        kept = team("login", stdin=f"{TOKEN}\n")
        assert kept.returncode == 0, kept.stderr
        assert TOKEN not in kept.stdout
        (path,) = storage.state_dir().glob("team/*/login.json")
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert team("sync").returncode == 0
        with serving(shared) as other:
            configure_team(url=other.url, org=ORG)
            assert "wants a token" in team("sync").stderr
        configure_team(url=served.url, org=ORG)
        assert "is deleted" in team("login", "--forget").stdout
        assert "wants a token" in team("sync").stderr


def test_a_wrong_token_says_so(shared, monkeypatch):
    monkeypatch.setenv("OPTA_TEAM_TOKEN", "not-the-token")
    with serving(shared, token=TOKEN) as served:
        configure_team(url=served.url, org=ORG)
        assert "does not accept the token" in team("sync").stderr


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        (f"/v1/orgs/{ORG}/tools", {}, 401),
        (f"/v1/orgs/{ORG}/tools", {"Authorization": "Bearer x"}, 401),
        (f"/v1/orgs/{ORG}/tools", {"Authorization": f"Bearer {TOKEN}"}, 200),
        (f"/v1/orgs/{ORG}/tools?x=1", {"Authorization": f"Bearer {TOKEN}"}, 200),
        ("/v1/orgs/other/tools", {"Authorization": f"Bearer {TOKEN}"}, 404),
        ("/../../etc/passwd", {"Authorization": f"Bearer {TOKEN}"}, 404),
        (
            f"/v1/orgs/{ORG}/tools",
            {"Authorization": f"Bearer {TOKEN}", "Origin": "http://evil.example"}, 403,
        ),
    ],
)  # fmt: skip
def test_the_server_answers_who_has_the_token_and_no_web_page(shared, path, headers, status):
    with (
        serving(shared) as served,
        contextlib.closing(
            http.client.HTTPConnection("127.0.0.1", served.port, timeout=SOON_S)
        ) as connection,
    ):
        connection.request("GET", path, headers=headers)
        response = connection.getresponse()
        body = response.read()
        assert response.status == status
        if status != 200:
            assert b"scan" not in body
            return
        tag = response.headers["ETag"]
        connection.request("GET", path, headers=headers | {"If-None-Match": tag})
        again = connection.getresponse()
        assert (again.status, again.read()) == (304, b"")
        write_tools(shared, scan="echo other")
        connection.request("GET", path, headers=headers | {"If-None-Match": tag})
        changed = connection.getresponse()
        assert changed.status == 200
        assert b"echo other" in changed.read()
        assert changed.headers["ETag"] != tag


def test_r35_a_body_is_not_taken_for_a_request_of_somebody_else(shared):
    """A proxy in front gives the second of two answers to whoever asks next."""
    hidden = b"GET /other HTTP/1.1\r\nHost: x\r\n\r\n"
    with (
        serving(shared) as served,
        socket.create_connection(("127.0.0.1", served.port), SOON_S) as connection,
    ):
        connection.sendall(
            f"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: {len(hidden)}\r\n\r\n".encode() + hidden
        )
        with connection.makefile("rb") as answers:
            told = answers.read()
    assert told.count(b"HTTP/1.1 ") == 1
    assert b"Connection: close" in told


def test_a_port_that_is_taken_and_a_directory_that_is_not_there_are_one_line(shared):
    with serving(shared) as served:
        taken = team("serve", str(shared), "--port", str(served.port))
    assert taken.returncode == 1
    assert taken.stderr == (f"opta: cannot listen on port {served.port}: Address already in use\n")
    missing = team("serve", "/nothing/here")
    assert missing.returncode == 2
    assert missing.stderr == "opta: there is no directory /nothing/here to share\n"


@needs_tmux
@pytest.mark.usefixtures("token")
def test_a_chat_tells_what_waits_and_a_person_accepts_it_in_the_terminal(shared):
    with serving(shared) as served:
        take(served.url)
        configure_team(url=served.url, org=ORG, refresh=1)
        hidden = tool_text("scan", "echo other").replace("Does scan", "Does \u202e[red]scan")
        (shared / "scan.json").write_text(hidden)
        with (
            ModelServer([say("one"), say("two")]) as server,
            Terminal([*OPTA, *connected(server)], columns=100, rows=40) as chat,
        ):
            chat.wait("scan (changed) waits until you accept")
            with Terminal([*OPTA, "team", "accept"], columns=100, rows=40) as accept:
                accept.wait("exactly as shown?")
                screen = accept.screen()
                assert "it holds invisible characters, shown as escapes above" in screen
                assert '- "description": "Does scan"' in screen
                assert "Does \\u202e[red]scan" in screen
                time.sleep(GRACE_S)
                accept.type("y")
                accept.wait("Accepted: scan")
            _type(chat, "/tools")
            chat.wait("tool changed: scan (team acme/scan.json)")
            served.process.send_signal(signal.SIGKILL)
            served.process.wait(SOON_S)
            _say_until(chat, "its tools of a moment ago are used")
            with serving(shared, port=served.port):
                write_tools(shared, later="echo later")
                _say_until(chat, "later (new) waits until you accept")
                _type(chat, "/team accept later")
                chat.wait("Nothing is accepted yet. /team accept later uses it as shown.")
                assert '"bash": "echo later"' in chat.screen()
                write_tools(shared, later="echo something else")
                _type(chat, "/team sync")
                chat.wait("Something new.")
                _type(chat, "/team accept later")
                chat.wait('"bash": "echo something else"')
                _type(chat, "/team accept later")
                chat.wait("Accepted: later")
                _type(chat, "/team")
                chat.wait("later (enforced)")


def _type(chat, text):
    chat.type(text)
    chat.send("Enter")


def _say_until(chat, text):
    """Look again and again, until the screen shows a text: refreshes have their own time."""
    deadline = time.monotonic() + 2 * SOON_S
    while text not in " ".join(chat.scrollback(joined=True).split()):
        assert time.monotonic() < deadline, chat.screen()
        _type(chat, "/tools")
        time.sleep(0.2)


def test_the_start_imports_nothing_of_teams_without_one():
    done = opta("tools", env=os.environ | {"PYTHONPROFILEIMPORTTIME": "1"})
    assert done.returncode == 0
    assert "tools.sources.team" not in done.stderr


@pytest.mark.row("E153")
def test_the_allowlist_of_the_team_restricts_every_tool_and_is_told(shared):
    write_tools(shared, scan="make scan", list="echo listed")
    (shared / "team.yml").write_text("allowlist:\n  - echo *\n")
    configure_team(directory=str(shared))
    assert "the team shared allows only the commands: echo *" in team("sync").stdout
    team("accept", "--yes")
    Path("Makefile").write_text("scan:\n\ttouch ran\n")
    replies = [call("scan"), call("run_command", command="touch ran"), call("list"), say("done")]
    with ModelServer(replies) as server:
        done = opta("-p", "go", "--dangerously-skip-permissions", server=server)
        results = server.results
    assert "the team shared does not allow the command `make scan`" in results[0]
    assert "the team shared does not allow the command `touch ran`" in results[1]
    assert "listed" in results[2]
    assert not Path("ran").exists()
    assert "allows only the commands: echo *" in done.stderr
    checked = opta("permissions", "check", "--", "touch", "x")
    assert checked.stdout.startswith("deny: the allowlist of the team shared")
