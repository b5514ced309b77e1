"""Links of a project, and what others put where opta keeps its files (R18, R19)."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from tests.support.cli import opta
from tests.support.model_server import ModelServer, call, say

pytestmark = pytest.mark.skipif(os.name != "posix", reason="links and modes of POSIX systems")

TOOL = {
    "name": "mine", "description": "d", "command": "true",
    "parameters": {"type": "object", "properties": {}},
}  # fmt: skip


def base() -> Path:
    return Path.home().parent


def contents(directory: Path) -> dict[str, str]:
    return {
        str(path.relative_to(directory)): path.read_text()
        for path in directory.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize(
    ("link", "command"),
    [
        (".opta", ("tool", "add", "t1", "--description", "d", "--bash", "true", "--local")),
        (".opta/tools", ("tool", "add", "t1", "--description", "d", "--bash", "true", "--local")),
        (".opta/tools", ("tool", "import", "../mine.json", "--local")),
        (".opta/tools/mine.yaml", ("tool", "import", "../mine.json", "--local", "--override")),
        (".opta/tools/mine.json", ("tool", "import", "../mine.json", "--local", "--override")),
        (".opta", ("tools", "disable", "git", "--trust")),
        (".opta/config.yml", ("tools", "disable", "git", "--trust")),
    ],
)
def test_r19_nothing_is_written_through_a_link_of_the_project(link, command, tmp_path):
    (base() / "mine.json").write_text(json.dumps(TOOL))
    outside = tmp_path / "out"
    (outside / "tools").mkdir(parents=True)
    for name in ("config.yml", "mine.yaml", "mine.json"):
        (outside / name).write_text("model: theirs\n")
    before = contents(outside)
    place = Path(link)
    place.parent.mkdir(parents=True, exist_ok=True)
    is_file = place.suffix != ""
    inside = place.name if is_file or place.name == "tools" else ""
    place.symlink_to(outside / inside)
    done = opta(*command)
    assert contents(outside) == before, done.stderr
    if done.returncode == 0:
        # Then it was kept elsewhere, or a real file has taken the place of the link.
        assert place.name not in done.stdout or not place.is_symlink(), done.stdout
    else:
        assert "link" in done.stderr or "trust" in done.stderr, done.stderr


def test_r18_all_that_opta_keeps_is_private_whatever_the_umask():
    before = os.umask(0)
    try:
        long = call("run_command", command="yes | head -n 100000")
        with ModelServer([long, call("file_search", pattern="x"), say("done")]) as server:
            done = opta("-p", "x", "--allow", "run_command", server=server)
    finally:
        os.umask(before)
    assert done.returncode == 0, done.stderr
    state = base() / "state/opta"
    found = [state, *state.rglob("*")]
    assert sum(path.is_file() for path in found) >= 2
    for path in found:
        wanted = 0o700 if path.is_dir() else 0o600
        assert stat.S_IMODE(path.lstat().st_mode) == wanted, path


@pytest.mark.parametrize("name", ["sessions", "output", "unfinished", "opta.log", "trust"])
def test_r18_links_in_the_place_of_its_files_are_not_followed(name, tmp_path):
    outside = tmp_path / "out"
    outside.mkdir()
    state = base() / "state/opta"
    state.mkdir(mode=0o700)
    (state / name).symlink_to(outside)
    commands = [call("run_command", command="yes | head -n 100000"), say("done")]
    with ModelServer(commands) as server:
        done = opta("-p", "x", "--trust", "--allow", "run_command", server=server)
    assert list(outside.iterdir()) == [], done.stderr
