"""What a team source may answer, and what becomes of its tools until a person accepts them."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.team import ORG, TOKEN, Liar, Reply, answer, tool_text, write_tools
from tests.support.tls import needs_openssl, own_authority
from tools import storage
from tools.definition import Scope, Source
from tools.permissions.gate import PermissionGate
from tools.permissions.rules import RuleSet, Verdict, parse_rule
from tools.registry import ToolRegistry, ToolSettings
from tools.sources.team.answer import MAX_BYTES, TeamError, parse_answer
from tools.sources.team.config import TeamConfig, TeamConfigError
from tools.sources.team.source import fetch_from
from tools.sources.team.tools import TeamTools
from tools.tool_names import refused_name

OLD, NEW = tool_text("scan", "echo old"), tool_text("scan", "echo new")
LOOK = "(/team or `opta team accept` shows what it is)"
GOOD = answer(("scan.json", OLD), serial=5)


@pytest.fixture
def liar():
    with Liar() as server:
        yield server


def team_of(url="", *, directory=None, rules=(), timeout_s=15, revision="", token=TOKEN):
    config = TeamConfig(
        url, ORG if url else "", directory, revision, "OPTA_TEAM_TOKEN", 300, timeout_s
    )
    gate = PermissionGate(RuleSet([parse_rule(Verdict.DENY, rule, "t") for rule in rules]))
    fetch = fetch_from(config, lambda: token, gate)
    return TeamTools(config, fetch, lambda name: refused_name(name, frozenset({"git"})))


def sync(team, **how):
    """Ask the source now, and let what it ends with be over."""
    return asyncio.run(team.sync(**how))


def accepted(liar, said=GOOD, etag='"1"'):
    """Return a team whose server said this, which was accepted."""
    liar.says(said, etag)
    team = team_of(liar.url)
    sync(team)
    team.accept(team.state().waiting)
    return team


def commands(team):
    """The commands of the tools in use."""
    return [tool.action.steps[0].command.text for tool in team.load()[0]]


def told(team):
    return [str(problem) for problem in team.load()[1]]


def test_what_was_never_accepted_is_not_in_use_and_is_told(liar):
    liar.says(GOOD)
    team = team_of(liar.url)
    assert sync(team) is True
    assert commands(team) == []
    assert told(team) == [f"team acme: scan (new) waits until you accept {LOOK}"]
    assert liar.asked[0]["Authorization"] == f"Bearer {TOKEN}"


@pytest.mark.row("E20")
def test_accepted_tools_are_of_the_source_teams_whatever_they_say(liar):
    said = answer(("scan.json", tool_text("scan", source="built-in", enforced=False)))
    team = accepted(liar, said)
    (tool,), problems = team.load()
    assert (tool.origin.source, tool.origin.scope) == (Source.TEAMS, Scope.TEAM)
    assert tool.origin.enforced is False
    assert "claims to be the text 'built-in'" in str(problems[0])


def test_the_same_tag_is_asked_with_and_costs_nothing(liar):
    team = accepted(liar)
    liar.reply = lambda headers: Reply(status=304 if headers["If-None-Match"] == '"1"' else 500)
    assert sync(team) is False
    assert commands(team) == ["echo old"]


def test_r28_a_changed_tool_waits_while_the_accepted_text_stays_in_use(liar):
    team = accepted(liar)
    liar.says(answer(("scan.json", NEW), ("more.json", tool_text("more")), serial=6), '"2"')
    assert sync(team) is True
    assert commands(team) == ["echo old"]
    assert "more (new), scan (changed) wait until you accept" in told(team)[0]
    waiting = {one.names: one for one in team.state().waiting}
    assert waiting["scan",].before == OLD
    team.accept([waiting["scan",]])
    assert commands(team) == ["echo new"]
    assert "more (new) waits" in told(team)[0]


def test_r28_what_is_accepted_is_what_was_shown_and_nothing_that_came_later(liar):
    team = accepted(liar)
    liar.says(answer(("scan.json", NEW), serial=6), '"2"')
    sync(team)
    shown = team.state().waiting
    liar.says(answer(("scan.json", tool_text("scan", "echo evil")), serial=7), '"3"')
    sync(team)
    team.accept(shown)
    assert commands(team) == ["echo new"]
    assert [one.before for one in team.state().waiting] == [NEW]


def test_what_the_team_takes_back_is_gone_at_once(liar):
    team = accepted(liar)
    liar.says(answer(serial=6), '"2"')
    sync(team)
    assert commands(team) == []


def test_another_process_finds_what_was_fetched_and_accepted_without_asking(liar):
    accepted(liar)
    assert commands(team_of(liar.url)) == ["echo old"]
    assert len(liar.asked) == 1


def test_a_record_that_somebody_damaged_trusts_nothing(liar):
    team = accepted(liar)
    (record,) = storage.state_dir().glob("team/*/accepted.json")
    record.write_text('{"files": ["scan.json"]}')
    assert commands(team) == []
    (kept,) = storage.state_dir().glob("team/*/answer.json")
    kept.write_text(kept.read_text()[:-20])
    assert team.load() == ([], [])


def huge(headers):
    return Reply(b" " * 65536, endless=True)


def moved(headers):
    location = {"Location": "https://evil.example/x", "Content-Type": "text/plain"}
    return Reply(status=302, headers=location)


def lie(**changes):
    """Return an answer with something in it that is not so."""
    content = json.loads(GOOD.to_bytes()) | {"serial": 6}
    return json.dumps(content | changes).encode()


def file(path, text=NEW, sha256=""):
    return {
        "path": path, "content": text,
        "sha256": sha256 or answer((path, text)).files[0].digest,
    }  # fmt: skip


LIES = {
    "a web page": (
        Reply(b"<html>", headers={"Content-Type": "text/html; charset=utf-8"}),
        "text/html instead of application/json",
    ),
    "no type": (Reply(lie(), headers={}), "no type instead of application/json"),
    "cut JSON": (Reply(lie()[:-9]), "not whole JSON"),
    "a connection that breaks": (Reply(lie(), length=10_000), "cannot be reached"),
    "nested for ever": (Reply(b"[" * 200_000), "not whole JSON"),
    "not an object": (Reply(b"[]"), "not a JSON object"),
    "a wrong digest": (Reply(lie(tools=[file("scan.json", sha256="0" * 64)])), "sha256 says"),
    "another organisation": (Reply(lie(org="other")), "answers for other"),
    "a version of tomorrow": (Reply(lie(version=2)), "version 2, this opta knows 1"),
    "a serial that is none": (Reply(lie(serial="9")), "`serial` is 9"),
    "too much": (huge, "more than 8 MiB"),
    "too much, announced": (Reply(b"{}", length=MAX_BYTES + 1), "more than 8 MiB"),
    "compressed": (
        Reply(lie(), headers={"Content-Type": "application/json", "Content-Encoding": "gzip"}),
        "compressed, which was not asked for",
    ),
    "a redirect": (moved, "redirects to evil.example, where no token is sent"),
    "one name twice": (
        Reply(lie(tools=[file("a.json"), file("b.json")])), "the tool scan twice: a.json, b.json"
    ),
    "one file twice": (Reply(lie(tools=[file("a.json"), file("A.json")])), "twice"),
    "a path": (Reply(lie(tools=[file("../scan.json")])), "not the name of a tool file"),
    "a name for the terminal": (
        Reply(lie(tools=[file("\x1b[31mred.json")])), "not the name of a tool file"
    ),
    "half a character": (Reply(lie(tools=[file("a.json")])[:-1].replace(
        b'"content": "', b'"content": "\\ud800') + b"}"), "half a character"),
    "an allowlist of numbers": (Reply(lie(allowlist=[1])), "`allowlist` holds 1"),
    "the same tag": (
        Reply(lie(tools=[file("scan.json")]),
              headers={"Content-Type": "application/json", "ETag": '"1"'}),
        "other tools under the same ETag",
    ),
    "an older version": (Reply(lie(tools=[file("scan.json")], serial=4)), "serial 4, before it"),
    "an error": (Reply(status=503), "answered with status 503"),
    "no such organisation": (Reply(status=404), "knows no such organisation"),
    "a token that does not count": (Reply(status=401), "does not accept the token"),
    "not modified, unasked": (
        Reply(status=304, headers={}), None,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LIES)
def test_each_lie_costs_one_line_and_the_last_good_answer_stays(liar, name):
    team = accepted(liar)
    reply, expected = LIES[name]
    liar.reply = reply if callable(reply) else lambda headers: reply
    before = team.state().last.answer
    if expected is None:
        assert sync(team) is False
    else:
        with pytest.raises(TeamError) as caught:
            sync(team)
        message = str(caught.value)
        assert expected in message
        assert "\n" not in message
        assert message.isprintable()
        assert TOKEN not in message
    assert commands(team) == ["echo old"]
    assert team.state().last.answer == before
    liar.says(answer(("scan.json", OLD), serial=9), '"9"')
    assert sync(team) is False, "the server is believed again once it says what can be so"


def test_a_redirect_does_not_take_the_token_along(liar):
    with Liar() as other:
        liar.reply = lambda headers: Reply(
            status=307, headers={"Location": f"{other.url}/v1/orgs/acme/tools"}
        )
        with pytest.raises(TeamError, match="redirects"):
            sync(team_of(liar.url))
        assert other.asked == []


def test_a_slow_server_is_given_up_at_the_deadline(liar):
    team = accepted(liar)
    slow = replace_config(team, timeout_s=1)
    liar.says(GOOD, delay_s=30)
    with pytest.raises(TeamError, match="did not answer within 1 s"):
        sync(slow)
    assert commands(slow) == ["echo old"]


def replace_config(team, **changes):
    config = replace(team.config, **changes)
    return TeamTools(config, fetch_from(config, lambda: TOKEN, PermissionGate(RuleSet())))


@needs_openssl
def test_a_certificate_that_nobody_knows_is_refused_until_its_authority_is_named(
    tmp_path, monkeypatch
):
    authority, context = own_authority(tmp_path)
    with Liar(context) as server:
        server.says(GOOD)
        with pytest.raises(TeamError, match="certificate is not accepted: self-signed") as caught:
            sync(team_of(server.url))
        assert str(caught.value).endswith("name its file in SSL_CERT_FILE")
        monkeypatch.setenv("SSL_CERT_FILE", str(authority))
        assert sync(team_of(server.url)) is True


def test_why_a_server_is_not_reached_is_said_in_the_system_s_words(liar):
    with pytest.raises(TeamError, match=r"it cannot be reached: connection refused$"):
        sync(team_of("http://127.0.0.1:1"))
    with pytest.raises(TeamError, match="seems to speak plain HTTP: write http:// in its address"):
        sync(team_of(liar.url.replace("http:", "https:")))


def test_an_older_answer_is_taken_when_the_person_says_so(liar):
    team = accepted(liar)
    liar.says(answer(("scan.json", NEW), serial=2), '"0"')
    assert sync(team, anew=True) is True
    assert team.state().last.answer.serial == 2
    assert commands(team) == ["echo old"]


def test_a_rule_denies_asking_the_server(liar):
    with pytest.raises(TeamError, match=r"denied by rule network:127\.0\.0\.1"):
        sync(team_of(liar.url, rules=["network:127.0.0.1"]))
    assert liar.asked == []


def test_a_token_that_would_break_a_header_is_not_sent(liar):
    with pytest.raises(TeamError, match="characters that no token has"):
        sync(team_of(liar.url, token="a\r\nX: y"))
    assert liar.asked == []


@pytest.mark.parametrize(
    ("where", "problem"),
    [
        ({"url": "http://tools.example.com", "org": "acme"}, "must begin with https://"),
        ({"url": "https://me:secret@tools.example.com", "org": "acme"}, "more than an address"),
        ({"url": "https://tools.example.com"}, "teams.org must name"),
        ({}, "neither teams.url nor teams.directory"),
        ({"url": "https://a", "org": "b", "directory": Path("/x")}, "both teams.url and"),
        ({"directory": Path("/x"), "revision": "main"}, "whole commit id"),
        ({"url": "https://a", "org": "b", "revision": "0" * 40}, "goes with teams.directory"),
    ],
)
def test_what_cannot_be_a_team_is_refused(where, problem):
    with pytest.raises(TeamConfigError, match=problem) as caught:
        TeamConfig(**where)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("name", ["git", "task_add", "mcp_x", "a\x1b[31mb"])
def test_r28_a_name_that_is_taken_or_that_is_none_is_not_offered_for_acceptance(liar, name):
    team = accepted(liar)
    bad = ("bad.json", tool_text(name))
    liar.says(answer(("scan.json", NEW), bad, serial=6), '"2"')
    sync(team)
    assert [one.names for one in team.state().waiting] == [("scan",)]
    problems = [line for line in told(team) if "bad.json" in line]
    assert problems
    assert all(line.isprintable() for line in problems)


def test_a_new_version_that_is_broken_leaves_the_accepted_one_in_use(liar):
    team = accepted(liar)
    liar.says(answer(("scan.json", "{broken"), serial=6), '"2"')
    sync(team)
    assert commands(team) == ["echo old"]
    assert any("scan.json:1" in line for line in told(team))


def registry_of(team, custom=(), **settings):
    options = {"switches": {}} | settings
    return ToolRegistry(
        [], lambda: (list(custom), []), ToolSettings(**options), lambda name, on: None,
        load_team=team.load,
    )  # fmt: skip


@pytest.mark.row("E152")
@pytest.mark.parametrize(
    "settings",
    [{"switches": {"scan": False}}, {"max_custom": 0}, {"load_custom": False}],
    ids=["a switch", "the limit of custom tools", "no custom tools"],
)
def test_no_setting_turns_an_enforced_tool_off(liar, settings):
    team = accepted(liar, answer(("scan.json", tool_text("scan", enabled=False, enforced=True))))
    registry = registry_of(team, **settings)
    assert registry.find("scan").enabled
    assert [tool["function"]["name"] for tool in registry.wire()] == ["scan"]
    assert registry.switch("scan", False).enabled
    if settings.get("switches"):
        assert "scan.enabled: false is ignored: your team enforces it" in "\n".join(
            map(str, registry.problems)
        )


def test_what_the_team_does_not_enforce_can_be_turned_off(liar):
    team = accepted(liar, answer(("scan.json", tool_text("scan", enforced=False))))
    registry = registry_of(team)
    assert registry.find("scan").enabled
    assert not registry.switch("scan", False).enabled


@pytest.mark.row("E152")
def test_r28_a_tool_of_the_person_does_not_take_the_name_of_an_enforced_one_and_is_told(liar):
    team = accepted(liar)
    mine = replace(
        team.load()[0][0], origin=replace(
            team.load()[0][0].origin, source=Source.CUSTOM, scope=Scope.LOCAL,
            path=Path("/p/.opta/tools/mine.json"), enforced=False,
        )
    )  # fmt: skip
    registry = registry_of(team, [mine])
    assert registry.find("scan").definition.origin.source is Source.TEAMS
    (problem,) = registry.problems
    assert "mine.json" in str(problem)
    assert "tool scan is overridden by the team tool team acme/scan.json" in str(problem)


def test_a_directory_is_read_again_only_when_it_changed_and_removals_count(tmp_path):
    directory = write_tools(tmp_path / "shared", scan="echo old", more="echo more")
    (directory / "notes.txt").write_text("not shared")
    team = team_of(directory=directory)
    assert sync(team) is True
    assert [one.names for one in team.state().waiting] == [("more",), ("scan",)]
    assert sync(team) is False
    (directory / "more.json").unlink()
    assert sync(team) is True
    assert [one.names for one in team.state().waiting] == [("scan",)]


@pytest.mark.parametrize(
    ("name", "data", "problem"),
    [
        ("a b.json", b"{}", "letters, digits"),
        ("bad.json", b"\xff", "bad.json is not UTF-8"),
        ("team.yml", b"deny: [x]", "team.yml holds `allowlist`"),
        ("team.yml", b"allowlist: git", "`allowlist` is not a list"),
    ],
)
def test_a_directory_with_something_unusable_is_refused_by_name(tmp_path, name, data, problem):
    directory = write_tools(tmp_path / "shared", scan="echo old")
    team = team_of(directory=directory)
    sync(team)
    (directory / name).write_bytes(data)
    with pytest.raises(TeamError, match=problem):
        sync(team)
    assert [one.names for one in team.state().waiting] == [("scan",)]


def test_a_directory_that_is_not_there_says_so(tmp_path):
    with pytest.raises(TeamError, match="cannot be read: no such file"):
        sync(team_of(directory=tmp_path / "nothing"))


def test_toml_tools_can_be_shared_too(tmp_path):
    directory = write_tools(tmp_path / "shared")
    (directory / "config.toml").write_text(
        '[custom_tools.lint]\ncommand = "make lint"\nenforced = true\n'
        '[custom_tools.free]\ncommand = "make free"\nenforced = false\n'
    )
    team = team_of(directory=directory)
    sync(team)
    assert told(team) == [f"team shared: free, lint (new) waits until you accept {LOOK}"]
    team.accept(team.state().waiting)
    assert {t.name: t.origin.enforced for t in team.load()[0]} == {"lint": True, "free": False}


def test_answers_survive_the_journey():
    said = answer(("a.json", "ü\u202e\n"), ("b.yaml", ""), serial=3, allowlist=("npm test*",))
    assert parse_answer(said.to_bytes(), ORG) == said
