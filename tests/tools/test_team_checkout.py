"""Team tools out of a git repository at a commit: what counts is what the commit's id names."""

from __future__ import annotations

import asyncio
import os
import subprocess
import zlib
from pathlib import Path

import pytest

from tests.support.team import write_tools
from tools.permissions.gate import PermissionGate
from tools.permissions.rules import RuleSet, Verdict, parse_rule
from tools.sources.team.answer import TeamError
from tools.sources.team.config import TeamConfig
from tools.sources.team.source import fetch_from
from tools.sources.team.tools import TeamTools


class Repository:
    """A repository with one commit of a directory of tools."""

    def __init__(self, root: Path, *options: str) -> None:
        self.root = root
        root.mkdir()
        self.git("init", "-q", *options)
        self.shared = write_tools(root / "shared", scan="echo old")
        self.first = self.commit()

    def git(self, *words: str) -> str:
        who = {f"GIT_{kind}_{what}": "t@example.com" for kind in ("AUTHOR", "COMMITTER")
               for what in ("NAME", "EMAIL")}  # fmt: skip
        return subprocess.run(
            ["git", *words], cwd=self.root, env=os.environ | who, capture_output=True,
            text=True, check=True,
        ).stdout.strip()  # fmt: skip

    def commit(self) -> str:
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "tools")
        return self.git("rev-parse", "HEAD")

    def object_file(self, name: str) -> Path:
        return self.root / ".git" / "objects" / name[:2] / name[2:]


@pytest.fixture
def repository(tmp_path):
    return Repository(tmp_path / "repository")


def read(directory, revision, *rules, root=None):
    """Return the files that are shared at a commit, by name; `root` is the project worked in."""
    config = TeamConfig(directory=directory, revision=revision)
    gate = PermissionGate(RuleSet([parse_rule(Verdict.DENY, rule, "t") for rule in rules], root))
    team = TeamTools(config, fetch_from(config, str, gate))
    asyncio.run(team.sync())
    return {file.path: file.text for file in team.state().last.answer.files}


def test_what_counts_is_the_commit_and_not_the_working_tree(repository):
    write_tools(repository.shared, scan="echo changed", more="echo more")
    assert list(read(repository.shared, repository.first)) == ["scan.json"]
    assert "echo old" in read(repository.shared, repository.first)["scan.json"]
    second = repository.commit()
    assert "echo old" in read(repository.shared, repository.first)["scan.json"]
    assert sorted(read(repository.shared, second)) == ["more.json", "scan.json"]


@pytest.mark.parametrize("entry", [".", "{directory}"])
def test_a_git_that_the_checkout_brings_along_is_not_run(repository, monkeypatch, entry):
    program = repository.shared / "git"
    program.write_text(f"#!/bin/sh\ntouch {repository.root}/ran\n")
    program.chmod(0o755)
    monkeypatch.chdir(repository.shared)
    place = entry.format(directory=repository.shared)
    monkeypatch.setenv("PATH", os.pathsep.join((place, os.environ["PATH"])))
    assert list(read(repository.shared, repository.first)) == ["scan.json"]
    assert not (repository.root / "ran").exists()


def test_r10_a_git_that_the_project_brings_along_is_not_run(repository, tmp_path, monkeypatch):
    project = tmp_path / "project"
    project.mkdir()
    program = project / "git"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", os.pathsep.join((str(project), os.environ["PATH"])))
    assert list(read(repository.shared, repository.first, root=project)) == ["scan.json"]
    assert not (tmp_path / "ran").exists()


def test_only_files_of_the_directory_itself_are_shared(repository):
    write_tools(repository.root, outside="echo outside")
    write_tools(repository.shared / "below", below="echo below")
    (repository.shared / "link.json").symlink_to("/etc/hostname")
    (repository.shared / "notes.md").write_text("no tool")
    revision = repository.commit()
    assert list(read(repository.shared, revision)) == ["scan.json"]
    assert list(read(repository.root, revision)) == ["outside.json"]


def test_a_repository_of_sha256_works_too(tmp_path):
    repository = Repository(tmp_path / "other", "--object-format=sha256")
    assert len(repository.first) == 64
    assert list(read(repository.shared, repository.first)) == ["scan.json"]


def test_r28_an_object_that_is_not_what_its_id_says_is_refused(repository):
    blob = repository.git("rev-parse", "HEAD:shared/scan.json")
    path = repository.object_file(blob)
    path.chmod(0o600)
    evil = (repository.shared / "scan.json").read_bytes().replace(b"old", b"bad")
    path.write_bytes(zlib.compress(b"blob %d\0" % len(evil) + evil))
    with pytest.raises(TeamError, match=rf"something else in place of {blob[:12]}|cannot read it"):
        read(repository.shared, repository.first)


def test_replacements_of_the_repository_do_not_count(repository):
    write_tools(repository.shared, scan="echo replaced")
    second = repository.commit()
    repository.git("replace", repository.first, second)
    assert "echo old" in read(repository.shared, repository.first)["scan.json"]


def test_nothing_of_the_repository_runs(repository, tmp_path):
    ran = tmp_path / "ran"
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {ran}\n")
    program.chmod(0o700)
    for setting in ("core.fsmonitor", "core.pager", "core.sshCommand", "core.askPass"):
        repository.git("config", setting, str(program))
    hook = repository.root / ".git" / "hooks" / "post-index-change"
    hook.write_text(program.read_text())
    hook.chmod(0o700)
    assert list(read(repository.shared, repository.first)) == ["scan.json"]
    assert not ran.exists()


@pytest.mark.parametrize("revision", ["0" * 40, "1" * 64])
def test_a_commit_that_is_not_there_says_so(repository, revision):
    with pytest.raises(TeamError, match=r"does not have|cannot read it"):
        read(repository.shared, revision)


def test_what_is_no_commit_or_no_repository_says_so(repository, tmp_path):
    blob = repository.git("rev-parse", "HEAD:shared/scan.json")
    with pytest.raises(TeamError, match="is not a commit"):
        read(repository.shared, blob)
    plain = write_tools(tmp_path / "plain", scan="echo old")
    with pytest.raises(TeamError, match="not a git repository"):
        read(plain, repository.first)
    (repository.root / "later").mkdir()
    with pytest.raises(TeamError, match="has no directory later"):
        read(repository.root / "later", repository.first)


def test_a_rule_denies_reading_the_repository(repository):
    with pytest.raises(TeamError, match=r"denied by rule run_command\(git:\*\)"):
        read(repository.shared, repository.first, "run_command(git:*)")
