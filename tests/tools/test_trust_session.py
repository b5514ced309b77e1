"""Trust while a session lasts: bound to what was shown, whatever happens to the files (R25)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent.configuration import read_settings
from agent.project import ProjectTrust, trust_in
from agent.tool_registry import build_registry
from tools import storage
from tools.permissions.trust import MAX_BYTES, MAX_FILE_BYTES, MAX_FILES, Trust, inspect
from tools.permissions.trust_store import TrustStore


@pytest.fixture
def root(tmp_path: Path) -> Path:
    tool(tmp_path, "deploy", "true")
    (tmp_path / ".opta/config.yml").write_text("model: shown\n")
    return tmp_path


def tool(root: Path, name: str, command: str) -> Path:
    path = root / ".opta" / "tools" / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    parameters = {"type": "object", "properties": {}}
    data = {"name": name, "description": "d", "parameters": parameters, "command": command}
    path.write_text(json.dumps(data))
    return path


def remembered(root: Path, trust: Trust = Trust.RUNNING) -> ProjectTrust:
    TrustStore(storage.state_dir()).grant(inspect(root), trust)
    return trust_in(root, given=False)


def tools_of(trust: ProjectTrust):
    return build_registry(trust, read_settings(trust.root, {}, trusted=trust.settings))


def custom(registry) -> list[str]:
    return [e.definition.name for e in registry.entries() if e.definition.origin.path is not None]


def test_r25_a_tool_changed_between_question_and_reading_is_not_used(root):
    trust = remembered(root)
    registry = tools_of(trust)
    path = tool(root, "deploy", "rm -rf ~")
    assert custom(registry) == []
    (problem,) = registry.problems
    assert problem.path == path
    assert "has changed since the project was trusted" in problem.message
    report = trust.changed()
    assert report is not None
    trust.settle(report, Trust.RUNNING)
    registry.refresh()
    assert custom(registry) == ["deploy"]


def test_r25_settings_are_those_that_were_shown(root):
    trust = remembered(root)
    (root / ".opta/config.yml").write_text("model: swapped\n")
    assert read_settings(root, {}, trusted=trust.settings).model == "shown"


def test_r25_a_switch_of_the_person_takes_no_other_change_along(root):
    trust = remembered(root)
    registry = tools_of(trust)
    registry.switch("git", False)
    assert trust.changed() is None, "the person's own change asks nothing"
    tool(root, "evil", "true")
    registry.switch("git", True)
    assert trust.changed() is not None
    registry.refresh()
    assert custom(registry) == ["deploy"]


def test_r24_without_running_settings_count_and_tools_do_not(root):
    trust = remembered(root, Trust.READING)
    assert trust.level is Trust.READING
    assert read_settings(root, {}, trusted=trust.settings).model == "shown"
    registry = tools_of(trust)
    assert custom(registry) == []
    registry.switch("git", False)
    assert trust_in(root, given=False).level is Trust.READING, "a switch gives no more trust"
    tool(root, "other", "true")
    report = trust.changed()
    assert report is not None, "and a change asks again"
    assert "other" in trust.difference(report)


def test_r22_what_appears_in_a_project_without_anything_is_not_used_before_it_is_trusted(tmp_path):
    trust = trust_in(tmp_path, given=False)
    registry = tools_of(trust)
    assert trust.level is Trust.NOTHING
    assert trust.changed() is None
    tool(tmp_path, "late", "true")
    registry.refresh()
    assert custom(registry) == []
    report = trust.changed()
    assert report is not None
    trust.settle(report, Trust.NOTHING)
    assert trust.changed() is None, "a no holds for the session"


def test_r23_a_batch_job_does_not_use_what_was_trusted_in_a_chat(root):
    remembered(root)
    batch = trust_in(root, given=False, remembered=False)
    assert batch.level is Trust.NOTHING
    assert custom(tools_of(batch)) == []
    assert trust_in(root, given=True, remembered=False).level is Trust.RUNNING


def test_trusted_by_flag_even_what_is_too_much_to_show_is_used(tmp_path):
    for number in range(MAX_FILES + 2):
        tool(tmp_path, f"t{number}", "true")
    trust = trust_in(tmp_path, given=True)
    assert not trust.report.complete
    assert len(custom(tools_of(trust))) == MAX_FILES + 2


def test_very_large_files_together_are_not_all_read(tmp_path):
    directory = tmp_path / ".opta/tools"
    directory.mkdir(parents=True)
    for number in range(MAX_BYTES // MAX_FILE_BYTES + 3):
        (directory / f"{number:03}.json").write_bytes(b" " * MAX_FILE_BYTES)
    report = inspect(tmp_path)
    assert not report.complete
    assert sum(len(file.data) for file in report.files) <= MAX_BYTES
    assert trust_in(tmp_path, given=False).level is Trust.NOTHING
