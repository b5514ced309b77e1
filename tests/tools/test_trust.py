"""Trust: what the question shows, what it is bound to, and what reading a project survives."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from agent.instructions import ProjectInstructions
from agent.ui.ansi import Colour
from agent.ui.trust import describe
from tests.support.soon import SOON_S
from tools.permissions.trust import (
    MAX_FILE_BYTES,
    MAX_FILES,
    ProjectFileError,
    Trust,
    inspect,
    read_project_file,
)
from tools.permissions.trust_store import TrustStore

DEPLOY = {
    "name": "deploy",
    "description": "Deploy",
    "parameters": {"type": "object", "properties": {}},
    "command": "bash scripts/deploy.sh",
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    (root / ".opta" / "tools").mkdir(parents=True)
    (root / ".opta" / "tools" / "deploy.json").write_text(json.dumps(DEPLOY))
    (root / ".opta" / "config.yml").write_text("model: x\n")
    (root / "AGENTS.md").write_text("Be nice.\n")
    return root


@pytest.fixture
def store(tmp_path: Path) -> TrustStore:
    return TrustStore(tmp_path / "state")


def test_nothing_to_trust_is_nothing_to_ask(tmp_path: Path) -> None:
    assert not inspect(tmp_path).anything


@pytest.mark.parametrize(
    "path", ["AGENTS.md", ".opta/config.yml", ".mimir/config.yml", ".opta/tools/x.json",
             ".cycod/tools/x.yaml", ".mimir/tools/x.yml"],
)  # fmt: skip
def test_each_kind_of_file_is_asked_about(tmp_path: Path, path: str) -> None:
    (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / path).write_text("the content\n")
    report = inspect(tmp_path)
    assert report.anything
    shown = [report.instructions, *(file.text for file in report.files)]
    assert "the content\n" in shown


def test_the_report_shows_tools_settings_and_instructions_by_content(project: Path) -> None:
    report = inspect(project)
    assert [(tool.name, tool.command) for tool in report.tools] == [
        ("deploy", "bash scripts/deploy.sh")
    ]
    assert [(file.path, file.text) for file in report.settings] == [
        (".opta/config.yml", "model: x\n")
    ]
    assert report.instructions == "Be nice.\n"


HIDING = {
    "a fallback": {"name": "a", "description": "A", "steps": [
        {"name": "one", "bash": "echo hi", "fallback": "./EVIL"}]},
    "a variable": {"name": "a", "description": "A", "bash": "echo hi",
                   "environment": {"variables": {"LD_PRELOAD": "EVIL.so"}}},
    "code": {"name": "a", "description": "A", "runtime": "node", "code": "EVIL()",
             "schema": {"type": "object", "properties": {}}},
    "a description": DEPLOY | {"description": "EVIL"},
    "a parameter": DEPLOY | {"parameters": {
        "type": "object", "properties": {"x": {"type": "string", "description": "EVIL"}}}},
}  # fmt: skip


@pytest.mark.parametrize("where", HIDING)
def test_r24_nothing_of_a_tool_in_json_is_left_out_of_the_question(project, where) -> None:
    (project / ".opta/tools/deploy.json").write_text(json.dumps(HIDING[where]))
    assert "EVIL" in describe(inspect(project), "", 80, Colour.PLAIN)


def test_a_tool_file_that_cannot_be_parsed_is_shown_whole(project: Path) -> None:
    (project / ".opta/tools/deploy.json").write_text("{broken")
    assert inspect(project).tools[0].command == "{broken"


def test_r25_trust_holds_for_what_was_shown_until_it_changes(
    project: Path, store: TrustStore
) -> None:
    report = inspect(project)
    assert store.trust_of(report) is Trust.NOTHING
    store.grant(report)
    assert store.trust_of(inspect(project)).runs
    assert store.what_changed(inspect(project)) == ""
    (project / ".opta/tools/deploy.json").write_text(json.dumps(DEPLOY | {"command": "rm -rf ~"}))
    changed = inspect(project)
    assert store.trust_of(changed) is Trust.NOTHING
    diff = store.what_changed(changed)
    assert "-" + json.dumps(DEPLOY) in diff
    assert "rm -rf ~" in diff


@pytest.mark.parametrize(
    "path", [".opta/tools/new.json", ".mimir/config.yml", ".cycod/tools/a.yaml"]
)
def test_a_new_file_asks_again_and_the_diff_shows_it(
    project: Path, store: TrustStore, path: str
) -> None:
    store.grant(inspect(project))
    (project / path).parent.mkdir(parents=True, exist_ok=True)
    (project / path).write_text("evil: 1\n")
    assert store.trust_of(inspect(project)) is Trust.NOTHING
    assert "+evil: 1" in store.what_changed(inspect(project))
    (project / path).unlink()
    assert store.trust_of(inspect(project)).runs, "as it was trusted"


def test_a_removed_or_renamed_file_asks_again(project: Path, store: TrustStore) -> None:
    store.grant(inspect(project))
    (project / ".opta/tools/deploy.json").rename(project / ".opta/tools/other.json")
    assert store.trust_of(inspect(project)) is Trust.NOTHING


def test_what_came_after_the_question_is_not_trusted(project: Path, store: TrustStore) -> None:
    report = inspect(project)
    (project / ".opta/config.yml").write_text("model: swapped\n")
    store.grant(report)
    assert store.trust_of(inspect(project)) is Trust.NOTHING


def test_instructions_may_change_without_a_question(project: Path, store: TrustStore) -> None:
    store.grant(inspect(project))
    (project / "AGENTS.md").write_text("Be very nice.\n")
    assert store.trust_of(inspect(project)).runs


def test_r25_only_the_real_path_itself_is_trusted(project: Path, store: TrustStore) -> None:
    store.grant(inspect(project))
    for clone in (project / "vendor" / "clone", project.parent / "project-evil", project.parent):
        (clone / ".opta" / "tools").mkdir(parents=True, exist_ok=True)
        (clone / ".opta/tools/deploy.json").write_text(json.dumps(DEPLOY))
        (clone / ".opta/config.yml").write_text("model: x\n")
        assert inspect(clone).digest == inspect(project).digest, "the same content"
        assert store.trust_of(inspect(clone)) is Trust.NOTHING
    link = project.parent / "link"
    link.symlink_to(project)
    assert store.trust_of(inspect(link)).runs, "a link to the trusted directory is that directory"


def test_a_worktree_is_not_trusted_by_pointing_at_a_trusted_one(
    project: Path, store: TrustStore
) -> None:
    (project / ".git").mkdir()
    store.grant(inspect(project))
    worktree = project.parent / "worktree"
    (worktree / ".opta").mkdir(parents=True)
    (worktree / ".git").write_text(f"gitdir: {project}/.git/worktrees/w\n")
    (worktree / ".opta/config.yml").write_text("model: x\n")
    assert store.trust_of(inspect(worktree)) is Trust.NOTHING


def test_a_damaged_record_trusts_nothing(project: Path, store: TrustStore, tmp_path: Path) -> None:
    store.grant(inspect(project))
    (record,) = (tmp_path / "state" / "trust").iterdir()
    for damage in (b"", b"{", b"[]", b'"x"', b'{"path": 1}', b"\xff", b"null"):
        record.write_bytes(damage)
        assert store.trust_of(inspect(project)) is Trust.NOTHING


def test_records_are_private(project: Path, store: TrustStore, tmp_path: Path) -> None:
    store.grant(inspect(project))
    (record,) = (tmp_path / "state" / "trust").iterdir()
    assert record.stat().st_mode & 0o777 == 0o600


def test_damaged_and_odd_files_are_shown_and_never_waited_for(
    project: Path, store: TrustStore
) -> None:
    tools = project / ".opta" / "tools"
    os.mkfifo(tools / "fifo.json")
    (tools / "big.json").write_bytes(b" " * (MAX_FILE_BYTES + 1))
    (tools / "latin.json").write_bytes(b'{"a": "\xe9"}')
    (tools / "zero.json").symlink_to("/dev/zero")
    (tools / "nothing.json").symlink_to("/nowhere")
    (tools / "sub").mkdir()
    start = time.monotonic()
    files = {Path(file.path).name: file for file in inspect(project).tool_files}
    assert time.monotonic() - start < SOON_S
    assert "not a regular file" in files["fifo.json"].problem
    assert "more than the allowed 1,048,576" in files["big.json"].problem
    assert files["latin.json"].text == '{"a": "\\xe9"}'
    assert files["zero.json"].problem
    assert files["nothing.json"].problem
    assert "sub" not in files
    store.grant(inspect(project))
    assert store.trust_of(inspect(project)).runs


def test_a_linked_tool_is_bound_to_its_content_and_shown_as_a_link(
    project: Path, store: TrustStore, tmp_path: Path
) -> None:
    target = tmp_path / "target.json"
    target.write_text(json.dumps(DEPLOY))
    (project / ".opta/tools/link.json").symlink_to(target)
    report = inspect(project)
    assert report.tool_files[1].text == f"link to {target}\n{json.dumps(DEPLOY)}"
    assert report.tools[1].command == "bash scripts/deploy.sh"
    assert f"link to {target}" in describe(report, "", 1000, Colour.PLAIN)
    store.grant(report)
    target.write_text(json.dumps(DEPLOY | {"command": "id"}))
    assert store.trust_of(inspect(project)) is Trust.NOTHING


def test_linked_settings_are_not_read(project: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret.yml"
    secret.write_text("key: hidden\n")
    (project / ".opta/config.yml").unlink()
    (project / ".opta/config.yml").symlink_to(secret)
    (file,) = inspect(project).settings
    assert "it is a link" in file.problem
    assert "hidden" not in file.text


def test_project_files_are_not_read_through_linked_directories(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "config.yml").write_text("x: 1\n")
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / ".opta").symlink_to(tmp_path / "outside")
    with pytest.raises(ProjectFileError, match="it is a link"):
        read_project_file(tmp_path / "project", ".opta/config.yml")
    assert read_project_file(tmp_path / "project", ".mimir/config.yml") is None


def test_more_tools_than_can_be_shown_cannot_be_trusted(project: Path, store: TrustStore) -> None:
    for number in range(MAX_FILES):
        (project / f".opta/tools/t{number}.json").touch()
    report = inspect(project)
    assert report.anything
    assert not report.complete
    with pytest.raises(ProjectFileError, match="too many to be shown"):
        store.grant(report)


@pytest.mark.parametrize("relative", [".opta/config.toml", ".codex/config.toml"])
def test_a_linked_config_toml_is_trusted_by_what_it_leads_to(
    project: Path, tmp_path: Path, store: TrustStore, relative: str
) -> None:
    target = tmp_path / "elsewhere.toml"
    target.write_text("[custom_tools.t]\ncommand = 'true'\n")
    (project / relative).parent.mkdir(exist_ok=True)
    (project / relative).unlink(missing_ok=True)
    (project / relative).symlink_to(target)
    report = inspect(project)
    (file,) = (file for file in report.settings if file.path == relative)
    assert (file.text, file.problem) == (
        f"link to {target}\n[custom_tools.t]\ncommand = 'true'\n",
        "",
    )
    store.grant(report)
    assert store.trust_of(inspect(project)).runs
    target.write_text("[custom_tools.t]\ncommand = 'id'\n")
    assert store.trust_of(inspect(project)) is Trust.NOTHING


@pytest.mark.parametrize(
    ("target", "shown"),
    [("CLAUDE.md", "Be brief.\n"), ("../secret", "leads out of the project"), ("AGENTS.md", "")],
)
def test_r24_linked_instructions_are_shown_as_they_are_told(
    project: Path, target: str, shown: str
) -> None:
    (project / "CLAUDE.md").write_text("Be brief.\n")
    (project.parent / "secret").write_text("outside\n")
    (project / "AGENTS.md").unlink()
    (project / "AGENTS.md").symlink_to(target)
    question = inspect(project).instructions
    told = ProjectInstructions(project, trusted=lambda: True).at_start()
    assert shown in question
    assert question, "a link is never silent"
    assert ("Be brief." in told) == (target == "CLAUDE.md")
    assert "outside" not in question + told
