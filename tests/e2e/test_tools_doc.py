"""The examples of docs/tools.md are valid tools and do what the page says."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import jsonschema_rs
import pytest

from tests.support.cli import opta
from tools.formats.file_schema import file_schema
from tools.yamltext import parse

PAGE = (Path(__file__).parents[2] / "docs" / "tools.md").read_text()
EXAMPLES = {
    (re.search(r"^name: (\S+)", text, re.MULTILINE) or ["", "disk"])[1]: text
    for text in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
}


@pytest.fixture(autouse=True)
def tools():
    """All examples in one project."""
    Path(".opta/tools").mkdir(parents=True)
    for name, text in EXAMPLES.items():
        Path(f".opta/tools/{name}.yaml").write_text(text)


def run(name, *words):
    return opta("tool", "run", name, "--trust", *words)


def git(*words):
    identity = ("-c", "user.name=n", "-c", "user.email=e@x")
    done = subprocess.run(["git", *identity, *words], capture_output=True, text=True, check=True)
    return done.stdout


def put(path, text):
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text)


@pytest.fixture
def program(tmp_path, monkeypatch):
    """Put a shell script on PATH."""
    directory = tmp_path / "programs"
    directory.mkdir()
    monkeypatch.setenv("PATH", str(directory), prepend=os.pathsep)

    def add(name, script):
        (directory / name).write_text(f"#!/bin/sh\n{script}\n")
        (directory / name).chmod(0o755)

    return add


def test_every_example_is_valid_to_opta_and_to_editors():
    assert len(EXAMPLES) == 10
    valid = opta("tool", "validate", "--all", "--trust")
    assert valid.returncode == 0, valid.stdout
    assert "warning" not in valid.stdout, valid.stdout
    schema = jsonschema_rs.validator_for(file_schema())
    for name, text in EXAMPLES.items():
        assert [*schema.iter_errors(parse(text, Path(name)).data)] == []


def test_three_lines():
    assert len(re.sub(r"#.*\n", "", EXAMPLES["disk"]).splitlines()) == 3
    done = run("disk")
    assert (done.returncode, done.stdout.splitlines()[0].split()[0]) == (0, "Filesystem")


def test_a_parameter_and_an_alias():
    put("src/a.txt", "TODO: x\nit's; rm -rf ~\n")
    assert run("find-text", "--param", "TEXT=TODO").stdout == "src/a.txt:1:TODO: x\n"
    assert run("find-text", "--param", "TEXT=; rm -rf ~").stdout == "src/a.txt:2:it's; rm -rf ~\n"
    assert run("find-todo").stdout == "src/a.txt:1:TODO: x\n"
    short = run("find-text", "--param", "TEXT=x")
    assert (short.returncode, "at least 2" in short.stderr) == (1, True), short.stderr


def test_two_steps():
    git("init", "-q")
    put("a b.txt", "1\n")
    put("c.txt", "1\n")
    git("add", "--", "a b.txt", "c.txt")
    git("commit", "-qm", "first")
    unchanged = run("largest-change")
    assert (unchanged.returncode, unchanged.stdout) == (0, "")
    put("a b.txt", "1\n2\n3\n")
    put("c.txt", "1\n2\n")
    done = run("largest-change")
    assert done.stdout.splitlines()[0] == "a b.txt"
    assert "+3" in done.stdout
    assert run("largest-change", "--param", "SINCE=--output=x").returncode == 1


def test_at_the_same_time_and_tests_inside():
    put("Makefile", "lint:\n\ttrue\ntest:\n\ttrue\n")
    put("CHANGELOG.md", "1.2.3\n")
    done = run("release-check", "--param", "VERSION=9.9.9")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "lint 0, tests 0, notes 1")
    for name, passed in (("release-check", 1), ("count-lines", 2)):
        tested = opta("tool", "test", name, "--trust", "--yes")
        assert tested.returncode == 0, tested.stdout
        assert f"{passed} passed, 0 failed" in tested.stdout


def test_when_something_fails(program):
    program("curl", 'echo "$*" >> calls; exit 22')
    put("docs/schema.json", "{}\n")
    done = run("api-schema")
    assert (done.returncode, done.stdout) == (0, "{}\n")
    assert len(Path("calls").read_text().splitlines()) == 4


def test_a_secret(program, monkeypatch):
    program("gh", 'echo "$* with $GH_TOKEN"')
    monkeypatch.setenv("WORK_TOKEN", "very-secret")
    words = ("tool", "run", "open-issues", "--trust", "--param", "REPO=a/b")
    done = opta(*words)
    assert done.stdout == "issue list --repo a/b --limit 20 with ****\n"
    shown = opta(*words, "--dry-run").stdout
    assert "very-secret" not in shown
    assert "declares that it needs network:api.github.com (not enforced)" in shown


def test_limits(program):
    program("make-thumbnail", 'head -c 3 "$1"')
    put("pictures/a b.png", "123456")
    assert run("thumbnails").returncode == 0
    assert Path("thumbnails/a b.png").read_text() == "123"


RELEASE = {
    "Makefile": "lint test:\n\t@echo $@ is fine\ncheck-links:\n\t@test ! -e broken\n"
    "build:\n\t@mkdir -p dist && echo built > dist/app\n",
    "CHANGELOG.md": "## 1.2.3\n\n- It's new.\n",
    ".gitignore": "/dist/\n/.opta/\n",
}


@pytest.mark.parametrize(("tag", "broken"), [("false", False), ("true", False), ("true", True)])
def test_ten_steps(tag, broken):
    git("init", "-q")
    git("config", "user.name", "n")
    git("config", "user.email", "e@x")
    for path, text in RELEASE.items():
        put(path, text)
    if broken:
        put("broken", "")
    git("add", ".")
    git("commit", "-qm", "first")
    assert len(parse(EXAMPLES["release"], Path("release")).data["steps"]) == 10
    words = ("--args", json.dumps({"VERSION": "1.2.3", "TAG": tag == "true"}))
    dry = run("release", *words, "--dry-run")
    assert [f"# Step {number}: " in dry.stdout for number in range(1, 11)] == [True] * 10
    assert git("tag") == ""
    done = run("release", *words)
    assert done.returncode == 0, done.stderr
    links = "broken" if broken else "fine"
    assert re.search(rf"^1\.2\.3: tests took \d+ ms, links {links}$", done.stdout, re.MULTILINE)
    assert done.stdout.endswith("\n## 1.2.3\n\n- It's new.\n")
    assert Path("dist/SHA256SUMS").read_text().endswith("  app\n")
    assert git("tag") == ("v1.2.3\n" if tag == "true" and not broken else "")
    if tag == "true" and not broken:
        assert run("release", *words).returncode == 1
