"""The wheel, the launcher, and what a hostile project can do to either: nothing."""

from __future__ import annotations

import os
import re
import site
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

from tests.support.model_server import ModelServer, call, say

ROOT = Path(__file__).resolve().parent.parent.parent
BIN = Path(sys.executable).parent
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]

HOSTILE = (
    "agent.py", "tools/__init__.py", "prompts.py", "_opta/__init__.py", "yaml.py", "httpx2.py",
    "prompt_toolkit/__init__.py", "rich/__init__.py", "tiktoken.py", "argparse.py", "json.py",
    "asyncio/__init__.py",
)  # fmt: skip
"""Modules that opta or its dependencies import, as a project could name its own files."""

COMMANDS = (["--version"], ["--help"], ["tools", "list"], ["sessions", "list"])


def run(*command: str | Path, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(part) for part in command],
        capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL, **options,
    )  # fmt: skip


def build(kind: str, directory: Path) -> Path:
    result = run(sys.executable, "-m", "build", "--no-isolation", kind, "-o", directory, ROOT)
    assert result.returncode == 0, result.stdout + result.stderr
    (product,) = directory.iterdir()
    return product


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("--wheel", tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` directory of a virtual environment with opta from the wheel.

    The dependencies come from the environment the tests run in, by a `.pth` file.
    """
    target = tmp_path_factory.mktemp("venv")
    created = run(sys.executable, "-m", "venv", "--without-pip", target)
    assert created.returncode == 0, created.stderr
    python = target / "bin" / "python"
    installed = run(
        sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps",
        "--no-index", "--disable-pip-version-check", wheel,
    )  # fmt: skip
    assert installed.returncode == 0, installed.stderr
    (packages,) = target.glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text("\n".join(site.getsitepackages()))
    return target / "bin"


@pytest.fixture(params=["editable", "wheel"])
def opta(request: pytest.FixtureRequest) -> Path:
    """The command, as installed for development and from the wheel."""
    return (BIN if request.param == "editable" else request.getfixturevalue("installed")) / "opta"


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A project whose modules write their names to `loaded` when they are imported."""
    project = tmp_path / "project"
    for name in HOSTILE:
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        record = str(tmp_path / "loaded")
        (project / name).write_text(f"with open({record!r}, 'a') as f: f.write(__name__ + ' ')\n")
    return project


def loaded(project: Path) -> str:
    record = project.parent / "loaded"
    return record.read_text() if record.exists() else ""


def test_the_launcher_and_the_project_agree_on_the_version():
    literal = re.search(r'^__version__ = "(.+)"$', (ROOT / "opta.py").read_text(), re.MULTILINE)
    assert literal is not None
    assert literal[1] == VERSION


def test_the_wheel_holds_at_top_level_only_the_launcher_and_one_private_package(wheel):
    top = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert top == {"opta.py", "_opta", f"opta_agent-{VERSION}.dist-info"}


def test_the_wheel_holds_every_file_of_the_source_and_no_more(wheel):
    files = (
        file for folder in ("agent", "tools", "prompts") for file in (ROOT / folder).rglob("*")
    )
    kept = (f for f in files if f.is_file() and "__pycache__" not in f.parts)
    source = {str(file.relative_to(ROOT)) for file in kept}
    packed = {name.removeprefix("_opta/") for name in zipfile.ZipFile(wheel).namelist()}
    assert source <= packed
    assert not [name for name in packed if "__pycache__" in name or name.startswith("tests")]


def test_the_source_distribution_builds_and_holds_tests_and_documents(tmp_path):
    with tarfile.open(build("--sdist", tmp_path)) as archive:
        names = archive.getnames()
    base = f"opta_agent-{VERSION}"
    assert {f"{base}/{name}" for name in ("opta.py", "README.md", "LICENSE")} <= set(names)
    assert not [name for name in names if ".venv/" in name]


@pytest.mark.parametrize("command", ["opta", "cycod"])
def test_both_names_of_the_command_run_from_the_wheel(installed, command, tmp_path):
    result = run(installed / command, "--version", cwd=tmp_path)
    assert (result.returncode, result.stdout) == (0, f"opta {VERSION}\n")


def test_the_hostile_project_would_run_in_a_plain_interpreter(hostile):
    """Shows that the tests below can fail."""
    run(sys.executable, "-c", "import agent, yaml", cwd=hostile)
    assert loaded(hostile) == "agent yaml "


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_hostile_project_runs_nothing_of_its_own(opta, command, hostile):
    environment = {**os.environ, "PYTHONPATH": str(hostile)}
    result = run(opta, *command, cwd=hostile, env=environment)
    assert result.returncode == 0, result.stderr
    assert loaded(hostile) == ""


def test_the_demo_in_a_hostile_project_runs_nothing_of_it(opta, hostile):
    result = run(opta, "demo", "--yes", cwd=hostile)
    assert result.returncode == 0, result.stdout + result.stderr
    assert loaded(hostile) == ""


def test_the_import_path_of_the_person_still_reaches_commands(opta, hostile):
    script = [call("run_command", command="echo path=$PYTHONPATH"), say("Done.")]
    with ModelServer(script) as server:
        environment = {
            **os.environ, "PYTHONPATH": str(hostile), "OPTA_MODEL": "m",
            "OPENAI_BASE_URL": server.base_url, "OPENAI_API_KEY": "k",
        }  # fmt: skip
        command = [opta, "-p", "go", "--dangerously-skip-permissions"]
        result = run(*command, cwd=hostile, env=environment)
    assert (result.returncode, result.stdout) == (0, "Done.\n"), result.stderr
    assert f"path={hostile}" in server.requests[1].json["messages"][-1]["content"]
    assert loaded(hostile) == ""


@pytest.mark.parametrize("python_path", ["", ".", "{hostile}:other"])
def test_running_the_module_in_a_hostile_project_runs_nothing_of_it(python_path, hostile):
    environment = {**os.environ, "PYTHONPATH": python_path.format(hostile=hostile)}
    result = run(sys.executable, "-m", "opta", "--help", cwd=hostile, env=environment)
    assert result.returncode == 0, result.stderr
    assert loaded(hostile) == ""


def test_a_link_to_the_command_runs_it(opta, hostile):
    link = hostile / "opta-link"
    link.symlink_to(opta)
    result = run(link, "--help", cwd=hostile)
    assert result.returncode == 0, result.stderr
    assert loaded(hostile) == ""


def test_opta_runs_in_its_own_checkout_with_the_checkout_on_the_path(opta):
    result = run(opta, "--help", cwd=ROOT, env={**os.environ, "PYTHONPATH": "."})
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("usage: opta")


@pytest.mark.parametrize("library", [Path(os.__file__).parent, site.getsitepackages()[0]])
def test_opta_runs_where_its_own_libraries_lie(opta, library):
    result = run(opta, "--help", cwd=library, env={**os.environ, "PYTHONPATH": str(library)})
    assert result.returncode == 0, result.stderr


def test_opta_runs_in_a_directory_that_is_gone(opta, tmp_path):
    script = f'mkdir gone && cd gone && rmdir ../gone && exec "{opta}" --help'
    result = run("sh", "-c", script, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
