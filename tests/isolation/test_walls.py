"""Where walls stand, and the command lines and profiles of backends that cannot be run here."""

from __future__ import annotations

from pathlib import Path

from tools.confinement import Backend, Walls
from tools.engine.isolation import container, seatbelt, seccomp
from tools.files.walls import MAX_ENTRIES, survey


def test_what_is_obeyed_is_kept_what_is_not_there_is_guarded(workspace):
    for name in (".git/hooks", ".git/objects", ".opta", "sub/.git/hooks", "sub/.vscode"):
        (workspace / name).mkdir(parents=True)
    (workspace / ".git" / "config").touch()
    (workspace / ".mcp.json").touch()
    (workspace / ".codex").symlink_to(workspace / "elsewhere")
    walls = survey([workspace], [])
    kept = {str(path.relative_to(workspace)) for path in walls.read_only}
    assert kept == {
        ".git/hooks", ".git/config", ".opta", ".mcp.json", "sub/.git/hooks", "sub/.vscode",
    }  # fmt: skip
    guarded = {str(path.relative_to(workspace)) for path in walls.guarded}
    assert {".git/commondir", ".cycod", ".mimir", ".codex", ".envrc", "Jenkinsfile"} <= guarded
    assert ".git/objects" not in kept | guarded


def test_secrets_are_hidden_and_shown_only_by_name(workspace):
    home = workspace.parent
    for name in (".ssh/id", ".config/gh/hosts.yml", ".netrc", "work/.env", "work/sub/key.pem"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text("secret")
    (home / "work" / ".env.example").write_text("A=")
    hidden = {str(path.relative_to(home)) for path in survey([workspace], []).hidden
              if path.is_relative_to(home)}  # fmt: skip
    assert hidden == {".ssh", ".config/gh", ".netrc", "work/.env", "work/sub/key.pem"}
    shown = survey([workspace], [home / ".netrc"]).hidden
    assert home / ".netrc" not in shown
    assert home / ".ssh" in shown


def test_opta_s_own_directories_are_hidden_whatever_is_said(workspace):
    own = workspace.parent / ".config" / "opta"
    own.mkdir(parents=True)
    (own / "config.yml").touch()
    assert own in survey([workspace, workspace.parent], [own, own / "config.yml"]).hidden


def test_in_the_home_directory_start_files_are_kept(workspace):
    home = workspace.parent
    (home / ".bashrc").touch()
    walls = survey([home], [])
    assert home / ".bashrc" in walls.read_only
    assert home / ".zshrc" in walls.guarded


def test_a_large_tree_is_looked_at_from_above(workspace):
    (workspace / "a").mkdir()
    for number in range(MAX_ENTRIES + 100):
        (workspace / "a" / f"{number}").touch()
    (workspace / ".env").touch()
    assert workspace / ".env" in survey([workspace], []).hidden


WALLS = Walls(
    writable=(Path("/w"),), read_only=(Path("/w/.git/hooks"),), hidden=(Path("/h/.ssh"),),
    guarded=(Path('/w/.o"pta'),),
)  # fmt: skip


def test_the_profile_for_macos_denies_in_the_order_that_counts():
    """The last rule that fits wins there; sandbox-exec itself cannot be run on Linux."""
    lines = seatbelt.profile(WALLS, Path("/t"), network=False).splitlines()
    assert lines[:3] == ["(version 1)", "(allow default)", "(deny file-write*)"]
    order = [
        lines.index(line) for line in (
            '(allow file-write* (subpath "/w"))',
            '(deny file-write* (subpath "/w/.git/hooks"))',
        )
    ]  # fmt: skip
    assert order == sorted(order)
    assert '(deny file-read* file-write* (subpath "/h/.ssh"))' in lines
    assert '(deny file-write* (subpath "/w/.o\\"pta"))' in lines
    assert '(deny file-write-unlink (literal "/w/.git"))' in lines
    assert '(allow file-write* (subpath "/t"))' in lines
    assert "(deny network*)" in lines
    assert "(deny network*)" not in seatbelt.profile(WALLS, Path("/t"), network=True)
    assert seatbelt.argv("p", ("a",)) == ("/usr/bin/sandbox-exec", "-p", "p", "a")


def test_the_command_line_for_docker(tmp_path):
    """No docker daemon runs here: what is asked of one is all that is tested."""
    (tmp_path / "a,b").mkdir()
    walls = Walls(writable=(tmp_path / "a,b",))
    options = container.options(
        Backend.DOCKER, walls, (), network=False, max_memory_bytes=2**26
    )  # fmt: skip
    argv = container.argv(
        ("/usr/bin/docker",), "img", ("sh", "-c", "echo"), name="n", cwd=tmp_path,
        variables=("A",), options=options,
    )  # fmt: skip
    text = " ".join(argv)
    assert text.startswith("/usr/bin/docker run --rm --interactive --pull never --name n ")
    for part in (
        "--network none", "--read-only", "--cap-drop all", "--security-opt no-new-privileges",
        f"--memory {2**26} --memory-swap {2**26}", "--env A",
        f'type=bind,"source={tmp_path}/a,b","target={tmp_path}/a,b"',
    ):  # fmt: skip
        assert part in text
    assert argv[-4:] == ("sh", "sh", "-c", "echo")


def test_the_filter_differs_by_what_namespaces_keep_out():
    programs = {
        (namespaces, network): seccomp.program(namespaces=namespaces, network=network)
        for namespaces in (True, False) for network in (True, False)
    }  # fmt: skip
    assert all(len(program) % 8 == 0 for program in programs.values())
    assert programs[True, True] == programs[True, False]
    assert len(set(programs.values())) == 3
