"""The mode auto-sandbox in the real program: what it spares, and what it does not."""

from __future__ import annotations

import json

from tests.support.cli import opta
from tests.support.model_server import ModelServer, call, say


def run(server, workspace, *arguments):
    """`opta -p` in the mode auto-sandbox, where nobody can be asked; the calls by their result."""
    done = opta(
        "-p", "go", "--permission-mode", "auto-sandbox", "--output-format", "json", *arguments,
        server=server, cwd=workspace,
    )  # fmt: skip
    results = server.results
    return done, json.loads(done.stdout), results


def test_a_sandboxed_command_needs_no_question(workspace, needs):
    needs("bubblewrap")
    outside = workspace.parent / "evil"
    with ModelServer([
        call("run_command", command="echo fine > made && cat made"),
        call("run_command", command=f"echo x > {outside}"),
        call("write_file", path="b.txt", content="b"),
        say("ok"),
    ]) as server:  # fmt: skip
        done, _told, results = run(server, workspace)
    assert done.returncode == 0, done.stderr
    assert results[0] == "fine"
    assert "Read-only file system" in results[1]
    assert (workspace / "b.txt").exists()
    assert not outside.exists()


def test_what_leaves_the_sandbox_asks(workspace, needs):
    needs("bubblewrap")
    with ModelServer([
        call("run_command", command="touch made", unsandboxed=True),
        say("ok"),
    ]) as server:  # fmt: skip
        done, _told, results = run(server, workspace)
    assert done.returncode == 3
    assert "it runs outside the sandbox, and nobody is there to be asked" in results[0]
    assert not (workspace / "made").exists()


def test_where_there_is_no_sandbox_the_mode_asks_and_says_so(workspace, monkeypatch):
    monkeypatch.setenv("OPTA_SANDBOX_BACKEND", "seatbelt")
    with ModelServer([call("run_command", command="touch made"), say("ok")]) as server:
        done, _told, results = run(server, workspace)
    assert done.returncode == 3
    assert "Permission denied" in results[0]
    assert "Commands run without a sandbox: seatbelt: it is for macOS" in done.stderr
    assert not (workspace / "made").exists()


def test_the_setting_required_refuses_also_when_questions_are_skipped(workspace, monkeypatch):
    monkeypatch.setenv("OPTA_SANDBOX_BACKEND", "seatbelt")
    with ModelServer([call("run_command", command="touch made"), say("ok")]) as server:
        _done, _told, results = run(
            server, workspace, "--sandbox", "required", "--dangerously-skip-permissions"
        )  # fmt: skip
    assert "The setting sandbox: required cannot be met" in results[0]
    assert not (workspace / "made").exists()


def test_skipping_questions_keeps_the_walls(workspace, needs):
    needs("bubblewrap")
    outside = workspace.parent / "evil"
    with ModelServer([call("run_command", command=f"touch {outside}"), say("ok")]) as server:
        run(server, workspace, "--sandbox", "required", "--dangerously-skip-permissions")
    assert not outside.exists()


def test_a_project_cannot_weaken_the_sandbox(workspace):
    (workspace / ".opta").mkdir()
    (workspace / ".opta" / "config.yml").write_text("sandbox: 'off'\nmode: auto-sandbox\n")
    with ModelServer([say("ok")]) as server:
        done, _told, _results = run(server, workspace, "--trust")
    assert "sandbox: ignored: a project may not set it" in done.stderr
