"""Writing choices back: comments kept, links refused, trust kept for the person's own change."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.settings import load_settings
from agent.settings_edit import add_permission_rule, set_tool_switch
from agent.settings_write import SettingsWriteError
from tools import storage
from tools.permissions.rules import Verdict, parse_rule
from tools.permissions.trust import Trust, inspect
from tools.permissions.trust_store import TrustStore


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


def user_file() -> Path:
    return storage.config_dir() / "config.yml"


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def store() -> TrustStore:
    return TrustStore(storage.state_dir())


def load(project: Path, trusted: bool):
    return load_settings(
        project, trusted=inspect(project) if trusted else None, flags={}, environ={}
    )


RULE = parse_rule(Verdict.ALLOW, "run_command(npm test:*)", "your answer")


@pytest.mark.row("E105")
def test_a_switch_without_trust_survives_in_the_users_file_and_for_this_project_only(
    project: Path, tmp_path: Path
) -> None:
    assert set_tool_switch(project, "git", False, project_trusted=False) == user_file()
    assert dict(load(project, trusted=False).switches) == {"git": False}
    assert dict(load(tmp_path, trusted=False).switches) == {}
    assert not inspect(project).anything, "no file that would raise a question of trust"


@pytest.mark.row("E105")
def test_a_switch_in_a_trusted_project_keeps_the_trust_and_the_comments(project: Path) -> None:
    before = "# ours\nmodel: x   # the big one\ntools:\n  a:\n    enabled: false\n"
    write(project / ".opta/config.yml", before)
    store().grant(inspect(project))
    set_tool_switch(project, "git", False, project_trusted=True)
    after = (project / ".opta/config.yml").read_text()
    assert after == before + "  git:\n    enabled: false\n"
    assert store().trust_of(inspect(project)).runs
    assert dict(load(project, trusted=True).switches) == {"a": False, "git": False}
    set_tool_switch(project, "git", True, project_trusted=True)
    assert dict(load(project, trusted=True).switches) == {"a": False, "git": True}


def test_a_switch_does_not_launder_what_others_changed(project: Path) -> None:
    write(project / ".opta/config.yml", "model: x\n")
    store().grant(inspect(project))
    write(project / ".opta/tools/evil.json", "{}")
    set_tool_switch(project, "git", False, project_trusted=True)
    assert store().trust_of(inspect(project)) is Trust.NOTHING


def test_a_project_trusted_for_one_run_gets_the_switch_in_its_own_file(project: Path) -> None:
    write(project / ".opta/config.yml", "tools: {git: {enabled: true}}\n")
    set_tool_switch(project, "git", False, project_trusted=True)
    assert dict(load(project, trusted=True).switches) == {"git": False}
    assert store().trust_of(inspect(project)) is Trust.NOTHING


def test_the_modes_of_project_files_are_kept(project: Path) -> None:
    write(project / ".opta/config.yml", "model: x\n")
    (project / ".opta").chmod(0o755)
    (project / ".opta/config.yml").chmod(0o644)
    store().grant(inspect(project))
    set_tool_switch(project, "git", False, project_trusted=True)
    assert (project / ".opta").stat().st_mode & 0o777 == 0o755
    assert (project / ".opta/config.yml").stat().st_mode & 0o777 == 0o644


def test_an_always_rule_holds_in_this_project_only(project: Path, tmp_path: Path) -> None:
    write(user_file(), "# mine\nmodel: x\n")
    for _ in range(2):
        assert add_permission_rule(project, RULE) == user_file()
    assert [rule.text for rule in load(project, trusted=False).rules] == [RULE.text]
    assert load(tmp_path, trusted=False).rules == ()
    assert user_file().read_text().startswith("# mine\nmodel: x\nprojects:\n")
    assert user_file().stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "text",
    ["", "# only a comment\n", "projects:\n", "projects: {}\n", "tools: {a: {enabled: true}}\n"],
)
def test_any_good_file_can_be_added_to(project: Path, text: str) -> None:
    write(user_file(), text)
    add_permission_rule(project, RULE)
    add_permission_rule(project, parse_rule(Verdict.ALLOW, "deploy", "your answer"))
    found = user_file().read_text()
    assert [rule.text for rule in load(project, trusted=False).rules] == [RULE.text, "deploy"]
    if text.startswith("#"):
        assert found.startswith(text)


@pytest.mark.parametrize("text", ["a: [\n", "projects: x\n", "- a\n", "a: 1\na: 2\n"])
def test_a_file_that_cannot_be_read_is_left_as_it_is(project: Path, text: str) -> None:
    write(user_file(), text)
    with pytest.raises(SettingsWriteError, match="cannot be changed"):
        add_permission_rule(project, RULE)
    assert user_file().read_text() == text


def test_nothing_is_written_through_a_link(project: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    write(outside / "config.yml", "model: x\n")
    user_file().parent.mkdir(parents=True, exist_ok=True)
    user_file().symlink_to(outside / "config.yml")
    with pytest.raises(SettingsWriteError, match="link"):
        add_permission_rule(project, RULE)
    (project / ".opta").symlink_to(outside)
    store().grant(inspect(project))
    with pytest.raises(SettingsWriteError, match="link"):
        set_tool_switch(project, "git", False, project_trusted=True)
    assert (outside / "config.yml").read_text() == "model: x\n"
