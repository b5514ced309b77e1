"""A secret of a tool is in nothing that opta says, sends or writes."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.support.cli import opta
from tests.support.model_server import ModelServer, call, say

SECRET = "s3cr3t-canary-value"
TOOL = """\
name: leaky
description: d
environment: {variables: {TOKEN: "{API_TOKEN}"}, secrets: [TOKEN]}
steps:
  - name: a
    continue-on-error: true
    output: {mode: buffer}
    bash: >-
      printf %s "${TOKEN:0:7}"; sleep 0.2; printf '%s\\n' "${TOKEN:7}"; echo "$TOKEN" >&2;
      yes "$TOKEN" | head -c 400000; exit 3
  - {name: b, bash: 'echo "{a.output}" | tail -c 60; printf %s "$TOKEN" > got; ls "$TOKEN"'}
tests:
  - {name: t, expected: {exit-code: 0, output-contains: nothing}}
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("API_TOKEN", SECRET)
    (tmp_path / "project" / ".opta" / "tools").mkdir(parents=True)
    (tmp_path / "project" / ".opta" / "tools" / "leaky.yaml").write_text(TOOL)
    return tmp_path / "project"


def written() -> list[Path]:
    places = [os.environ[f"XDG_{name}_HOME"] for name in ("STATE", "CACHE", "CONFIG", "DATA")]
    return [path for place in places for path in Path(place).rglob("*") if path.is_file()]


def leaks() -> list[Path]:
    return [path for path in written() if SECRET.encode() in path.read_bytes()]


@pytest.mark.parametrize(
    "words",
    [
        ["run", "leaky", "--verbose"], ["run", "leaky", "--dry-run"],
        ["test", "leaky", "--yes", "--verbose"], ["test", "leaky", "--yes", "--format", "junit"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_no_command_shows_or_keeps_a_secret(project: Path, words: list[str]) -> None:
    done = opta("tool", *words, "--trust", cwd=project)
    assert "internal error" not in done.stderr
    assert SECRET not in done.stdout + done.stderr
    assert leaks() == []


def test_the_model_the_journal_and_the_events_get_asterisks(project: Path) -> None:
    with ModelServer([call("leaky"), say("done")]) as server:
        done = opta(
            "-p", "go", "--trust", "--allow", "leaky", "--output-format", "stream-json",
            server=server, cwd=project,
        )  # fmt: skip
        sent = json.dumps([request.body for request in server.requests], default=str)
    assert (project / "got").read_text() == SECRET
    assert "****" in sent
    assert "****" in done.stdout
    assert SECRET not in sent + done.stdout + done.stderr
    assert any("sessions" in path.parts for path in written())
    assert leaks() == []
