"""What files say of MCP servers: keys, variables, mistakes with their places, who wins."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tools.definition import Scope
from tools.sources.mcp.config import LoginSettings, read_servers
from tools.sources.mcp.fields import Variables
from tools.sources.mcp.files import read_configured
from tools.yamltext import parse

FILE = Path("/x/.mcp.json")


def read(servers, values=None, refused=lambda name: False):
    document = parse(json.dumps({"mcpServers": servers}), FILE)
    configs, problems = read_servers(
        document, Scope.USER, ".mcp.json", Variables(values or {}, refused)
    )
    return {config.name: config for config in configs}, [str(problem) for problem in problems]


def test_a_program_and_an_address_are_read_with_all_their_keys():
    servers, problems = read({
        "files": {"command": "npx", "args": ["-y", "x"], "env": {"A": "1", "N": 2}, "cwd": "sub",
                  "timeout": 5, "startupTimeout": 6, "disabledTools": ["delete_*"]},
        "web": {"type": "http", "url": "https://x.example/mcp", "headers": {"K": "v"},
                "disabled": True, "enabledTools": ["get"]},
    })  # fmt: skip
    assert problems == []
    files, web = servers["files"], servers["web"]
    assert files.argv == ("npx", "-y", "x")
    assert (dict(files.env), files.cwd) == ({"A": "1", "N": "2"}, "sub")
    assert (files.call_ms, files.start_ms, files.enabled) == (5, 6, True)
    assert (files.uses("read"), files.uses("delete_all")) == (True, False)
    assert (web.url, web.host, web.enabled) == ("https://x.example/mcp", "x.example", False)
    assert (web.uses("get"), web.uses("put")) == (True, False)


def test_keys_as_other_programs_spell_them_and_what_only_they_know():
    servers, problems = read({"a": {
        "command": "x", "startup_timeout": 7, "includeTools": ["a"], "excludeTools": ["b"],
        "alwaysAllow": ["a"], "trust": True,
    }})  # fmt: skip
    assert problems == []
    config = servers["a"]
    assert (config.start_ms, config.enabled_tools, config.disabled_tools) == (7, ("a",), ("b",))


def test_a_login_is_read_as_other_programs_write_it():
    web = {"url": "https://x.example/mcp"}
    servers, problems = read({
        "a": {**web, "oauth": {"clientId": "i", "clientSecret": "${S}", "callbackPort": 3118,
                               "scopes": "read write"}},
        "b": {**web, "oauth": {"scope": ["read", "write"]}},
        "c": {**web, "oauth": {"authServerMetadataUrl": "https://x.example/"}},
        "d": {**web, "oauth": {"clientId": "i", "callbackPort": "3118"}},
        "e": {**web, "oauth": True},
    }, {"S": "canary"})  # fmt: skip
    assert servers["a"].login == LoginSettings("i", "canary", "read write", 3118)
    assert "canary" not in repr(servers["a"])
    assert servers["b"].login == LoginSettings(scopes="read write")
    assert [told.partition(": ")[2] for told in problems] == [
        "$.mcpServers.c.oauth.authServerMetadataUrl: unknown key; ignored "
        "(known: clientId, clientSecret, scopes, callbackPort)",
        "$.mcpServers.d.oauth.callbackPort: must be a port: a whole number from 1 to 65535",
        "$.mcpServers.e.oauth: must be a mapping of clientId, clientSecret, scopes, callbackPort",
    ]


@pytest.mark.parametrize(("secret", "warned"), [("canary", True), ("${S}", False)])
def test_a_secret_in_a_projects_own_file_is_warned_of(secret, warned):
    oauth = {"clientId": "i", "clientSecret": secret}
    entry = {"url": "https://x.example/mcp", "oauth": oauth}
    document = parse(json.dumps({"mcpServers": {"a": entry}}), FILE)
    configs, problems = read_servers(document, Scope.LOCAL, "", Variables({"S": "canary"}))
    assert configs[0].login.client_secret == "canary"
    assert ["everybody who has this file" in str(told) for told in problems] == [True] * warned
    assert "canary" not in "".join(map(str, problems))


def test_variables_are_put_in_everywhere_once():
    values = {"HOME": "/home/me", "TOKEN": "${HOME}"}
    servers, problems = read({
        "a": {"command": "${HOME}/bin/x", "args": ["--t=${TOKEN}"], "env": {"E": "${NO:-dflt}"}},
        "b": {"url": "http://${HOST:-localhost}:1/", "headers": {"A": "Bearer ${TOKEN}"}},
    }, values)  # fmt: skip
    assert problems == []
    assert servers["a"].argv == ("/home/me/bin/x", "--t=${HOME}")
    assert servers["a"].env == {"E": "dflt"}
    assert servers["b"].url == "http://localhost:1/"
    assert servers["b"].headers == {"A": "Bearer ${HOME}"}


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ([], "$.mcpServers.x: must be a mapping with `command` or `url`"),
        ({}, "$.mcpServers.x: 'command' is missing"),
        ({"type": "http"}, "$.mcpServers.x: 'url' is missing"),
        ({"type": "sse", "url": "http://x"}, "$.mcpServers.x.type: 'sse' is not a kind of server"),
        ({"command": ""}, "$.mcpServers.x.command: must be a text that is not empty"),
        ({"command": "x", "args": "y"}, "$.mcpServers.x.args: must be a list of texts"),
        ({"command": "x", "env": {"A": True}}, "$.mcpServers.x.env.A: must be a text"),
        ({"command": "x", "timeout": 0}, "$.mcpServers.x.timeout: must be a whole number of milli"),
        ({"command": "x", "enabled": "yes"}, "$.mcpServers.x.enabled: must be true or false"),
        ({"command": "${NOT_SET}"}, "$.mcpServers.x.command: the variable NOT_SET is not set"),
        ({"url": "file:///etc/passwd"}, "$.mcpServers.x.url: must be an http:// or https:// addr"),
        ({"url": "http://x/\u001b[2J"}, "$.mcpServers.x.url: must be an http:// or https:// addr"),
    ],
)
def test_a_mistake_costs_its_server_and_names_the_place(entry, said):
    servers, problems = read({"good": {"command": "x"}, "x": entry})
    assert list(servers) == ["good"]
    (problem,) = problems
    assert problem.startswith("/x/.mcp.json:1:")
    assert said in problem


def test_what_is_ignored_is_said():
    servers, problems = read(
        {"x": {"command": "x", "url": "http://x", "comand": 1, "type": "stdio"}}
    )
    assert list(servers) == ["x"]
    assert [problem.partition(": $")[2] for problem in sorted(problems)] == [
        ".mcpServers.x.comand: unknown key; ignored (known: type, command, args, env, cwd, url, "
        "headers, timeout, startupTimeout, enabled, disabled, enabledTools, disabledTools)",
        ".mcpServers.x.url: ignored: the server is of type stdio",
    ] or len(problems) == 2


def test_a_name_that_rules_and_tools_could_not_carry_is_refused():
    servers, problems = read({"a/b": {"command": "x"}, "c d": {"command": "x"}, "\u202e": {}})
    assert servers == {}
    assert len(problems) == 3


def test_a_persons_own_server_wins_and_a_project_gets_no_provider_keys(tmp_path):
    project, user = tmp_path / "project", tmp_path / "config.yml"
    (project / ".opta").mkdir(parents=True)
    (project / ".opta" / "config.yml").write_text("mcpServers: {a: {command: near}}\n")
    (project / ".mcp.json").write_text(
        '{"mcpServers": {"a": {"command": "far"}, "b": {"command": "mcp-json"},'
        ' "c": {"url": "http://x/${OPENAI_API_KEY}"}}}'
    )
    user.write_text("mcpServers:\n  b: {command: mine}\n  d: {command: '${OPENAI_API_KEY}'}\n")
    own, environ = [(Scope.USER, user)], {"OPENAI_API_KEY": "sk-1"}
    trusted = read_configured(project, own, environ)
    assert {name: s.command for name, s in trusted.servers.items()} == {
        "a": "near", "b": "mine", "d": "sk-1",
    }  # fmt: skip
    told = "\n".join(map(str, trusted.problems))
    assert "a project's server does not get the variable OPENAI_API_KEY" in told
    assert "server a is not used: " in told
    assert "server b is not used: " in told
    assert told.count("\n") == 2
    untrusted = read_configured(None, own, environ)
    assert {name: s.command for name, s in untrusted.servers.items()} == {"b": "mine", "d": "sk-1"}
    assert untrusted.problems == ()


def test_a_project_gets_no_key_that_the_settings_name(tmp_path):
    (tmp_path / ".mcp.json").write_text('{"mcpServers": {"a": {"url": "http://x/${MY_KEY}"}}}')
    configured = read_configured(tmp_path, [], {"MY_KEY": "k"}, secrets=["MY_KEY"])
    assert configured.servers == {}


def test_a_broken_file_is_one_problem(tmp_path):
    (tmp_path / ".mcp.json").write_text('{"mcpServers": {"a": ')
    configured = read_configured(tmp_path, [], {})
    assert configured.servers == {}
    (problem,) = configured.problems
    assert ".mcp.json:1:" in str(problem)
