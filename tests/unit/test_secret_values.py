"""Which values of a configuration count as secrets, and which must not be masked everywhere."""

from __future__ import annotations

import json
import time

import pytest

from tools.definition import Scope
from tools.secret_values import (
    argument_secrets,
    header_secrets,
    line_secrets,
    names_secret,
    variable_secrets,
)
from tools.sources.mcp.config import LoginSettings, ServerConfig

GENERATED = "9f8a7b6c5d4e3f2a1b0c9d8e"


@pytest.mark.parametrize(
    "name",
    ["Authorization", "Proxy-Authorization", "X-Api-Key", "x-apikey", "exaApiKey", "Cookie", "sig",
     "X-Auth", "X-Auth-Token", "GITHUB_TOKEN", "DB_PASS", "MY_PAT", "API_KEY_2", "PGPASSWORD",
     "client-secret", "CREDENTIALS", "SESSION_JWT", "--api-key"],
)  # fmt: skip
def test_a_name_says_that_its_value_is_a_secret(name):
    assert names_secret(name)
    assert variable_secrets({name: "canary-1"}) == ["canary-1"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("X-Mode", "debugging-mode"), ("Accept", "application/json"), ("PWD", "canary-1"),
        ("X-Auth-Mode", "canary-1"), ("KEY_FILE", "canary-1"), ("TOKEN_URL", "canary-1"),
        ("keyType", "canary-1"), ("KEYBOARD", "canary-1"), ("TOKENIZERS_PARALLELISM", "canary-1"),
        ("API_KEY", "short-1"), ("PASSWORD", "postgres"), ("AUTH", "disabled"),
        ("MAX_TOKENS", "12800000"), ("API_KEY", "/home/me/keys/api.json"), ("AUTHOR", "canary-1"),
        ("TOKEN", "https://host/oauth/token"), ("X-Version", "prompt-caching-2024-07-31"),
        ("IMAGE", "sha256:" + "0123456789abcdef" * 4), ("PORT", "8080"), ("DEBUG", "true"),
        ("X-Request-Source", "opta/1.0 (linux; x86_64)"), ("COMMIT", "0123456789" * 4),
    ],
)  # fmt: skip
def test_an_ordinary_value_is_not_masked_wherever_it_stands(name, value):
    assert variable_secrets({name: value}) == []
    assert header_secrets({name: value}) == []


def test_a_header_is_known_with_its_scheme_and_without():
    assert header_secrets({"Authorization": "Bearer canary-1"}) == ["Bearer canary-1", "canary-1"]
    cookies = header_secrets({"Cookie": "theme=dark; sid=canary-1"})
    assert "canary-1" in cookies
    assert "dark" not in cookies


def test_what_looks_made_by_a_generator_is_known_whatever_its_name():
    assert header_secrets({"X-Acme": GENERATED}) == [GENERATED]
    headers = json.dumps({"Authorization": f"Bearer ntn_{GENERATED}", "Version": "2022-06-28"})
    assert variable_secrets({"OPENAPI_MCP_HEADERS": headers}) == [f"ntn_{GENERATED}"]
    assert argument_secrets([f"https://host/api/s/{GENERATED}/mcp?v=2"]) == [GENERATED]


@pytest.mark.parametrize(
    ("arguments", "secrets"),
    [
        (["--api-key", "canary-1", "--verbose", "canary-2"], ["canary-1"]),
        (["--token=canary-1", "-e", "DB_PASSWORD=canary-2"], ["canary-1", "canary-2"]),
        (["--header", "Authorization: Bearer canary-1"], ["Bearer canary-1", "canary-1"]),
        (["--header=X-Token: canary-1"], ["canary-1"]),
        (["postgresql://me:canary-1@host/db"], ["me:canary-1", "canary-1"]),
        (["https://host/mcp?exaApiKey=canary-1&v=canary-2"], ["canary-1"]),
        (["postgresql://postgres:postgres@host/db"], ["postgres:postgres"]),
        (["-y", "@scope/server-filesystem@1.2.3", "/home/me/project", "C:\\projects\\key"], []),
    ],
)
def test_arguments_of_a_program_are_looked_at(arguments, secrets):
    assert argument_secrets(arguments) == secrets


@pytest.mark.parametrize("text", ["a" * 200_000, "a-" * 100_000, "a://" * 50_000, "a=" * 100_000])
def test_looking_at_a_long_value_takes_no_time_that_grows_with_its_square(text):
    began = time.process_time()
    argument_secrets([text, f"{text} {text}"])
    line_secrets(text)
    variable_secrets({"MODE": text, "API_KEY": text})
    assert time.process_time() - began < 2


def test_what_a_secret_variable_became_is_known_wherever_it_stands():
    login = LoginSettings(client_id="opta", client_secret="canary-3")
    config = ServerConfig(
        "s", Scope.USER, "p:1", url="https://host/canary-1/mcp", login=login,
        headers={"X-Acme": "acme canary-2", "X-Mode": "debug-all"},
    )  # fmt: skip
    environ = {"ACME_TOKEN": "canary-2", "ACME_KEY": "canary-1", "MODE": "debug-all"}
    assert set(filter(None, config.secrets(environ))) == {"canary-1", "canary-2", "canary-3"}
