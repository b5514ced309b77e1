"""`opta doctor`: what it shows of the machine, the settings, the project and the model."""

from __future__ import annotations

import json

import pytest

from tests.support.cli import opta
from tests.support.model_server import ModelServer, say


@pytest.fixture
def opta_doctor(workspace, monkeypatch):
    """`opta doctor …` as a process, in the workspace, with a model that needs no key."""
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    return lambda *arguments, **more: opta("doctor", *arguments, cwd=workspace, **more)


def test_doctor_shows_each_level_with_how_it_is_held(opta_doctor):
    done = opta_doctor("--format", "json", "--model", "m")
    found = json.loads(done.stdout)
    assert done.returncode == 0, found["problems"]
    rows = {row["by"]: row for row in found["isolation"]}
    assert list(rows) == ["opta", "bubblewrap", "landlock", "seatbelt", "podman", "docker"]
    for row in rows.values():
        assert row["available"] == bool(row["enforces"]) or row["by"] in ("podman", "docker")
        assert row["available"] != bool(row["reason"])
    assert found["memory"]["reach"] in ("tree", "process", "none")
    assert found["model"]["key"] == "none"


def test_doctor_names_what_is_wrong_and_what_to_do(opta_doctor, workspace):
    config = workspace.parent / ".config" / "opta"
    config.mkdir(parents=True)
    (config / "config.yml").write_text("sandbox: required\nsandbox_backend: seatbelt\n")
    done = opta_doctor("--model", "m")
    assert done.returncode == 1
    assert "sandbox: required is set, and no sandbox works here" in done.stdout
    assert "it is for macOS" in done.stdout
    (config / "config.yml").write_text("sandbox: perhaps\n")
    done = opta_doctor()
    assert done.returncode == 1
    assert "sandbox must be one of auto, required, off" in done.stdout


def test_doctor_hides_keys_and_asks_the_model_only_when_told(opta_doctor, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary-0123456789")
    with ModelServer([say("ok")]) as server:
        done = opta_doctor(server=server)
        assert done.returncode == 0, done.stdout
        assert server.requests == []
        done = opta_doctor("--online", server=server)
        assert "online     it answers" in done.stdout
        assert len(server.requests) == 1
    assert "environment OPENAI_API_KEY" in done.stdout
    assert "canary" not in done.stdout
    done = opta_doctor("--online", "--base-url", "http://127.0.0.1:9/v1", "--model", "m")
    assert done.returncode == 1


def test_doctor_lists_what_the_project_brings_without_obeying_it(opta_doctor, workspace):
    (workspace / ".opta" / "tools").mkdir(parents=True)
    (workspace / ".opta" / "tools" / "broken.json").write_text("{")
    done = opta_doctor("--model", "m")
    assert (done.returncode, "trusted    no" in done.stdout) == (0, True)
    assert ".opta/tools/broken.json" in done.stdout
    done = opta_doctor("--model", "m", "--trust")
    assert done.returncode == 1
    assert "broken.json" in done.stdout.partition("Problems")[2]


def test_doctor_tells_of_a_key_that_is_missing_and_a_script_that_is_not_there(opta_doctor):
    done = opta_doctor("--model", "m", "--base-url", "https://models.example/v1")
    assert done.returncode == 1
    problems = done.stdout.partition("Problems")[2]
    assert "There is no API key for https://models.example/v1" in problems
    assert "Set OPENAI_API_KEY" in problems
    done = opta_doctor("--model", "script:missing.yml")
    assert (done.returncode, "missing.yml" in done.stdout.partition("Problems")[2]) == (1, True)
