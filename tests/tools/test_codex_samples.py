"""The sample tools in `.opta/tools/custom_tools`, their README, and docs/codex-tools.md."""

from __future__ import annotations

import json
import re
import shutil
import tomllib
from pathlib import Path

import pytest

from tests.support.custom_tools import Project
from tools.definition import Outcome, Scope
from tools.formats.codex import INJECTED, KEYS
from tools.sources.files import ToolFiles, tool_places

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = ROOT / ".opta" / "tools" / "custom_tools"
README = (SAMPLES / "README.md").read_text(encoding="utf-8")
PAGE = (ROOT / "docs" / "codex-tools.md").read_text(encoding="utf-8")
WIRED = tomllib.loads((ROOT / ".opta" / "config.toml").read_text(encoding="utf-8"))["custom_tools"]
TOML = re.compile(r"```toml\n(.*?)```", re.DOTALL)


@pytest.fixture(params=["config.toml", "README.md"])
def project(request, tmp_path):
    """A project with the samples, wired as the repository has them, or as the README says."""
    text = (ROOT / ".opta" / "config.toml").read_text(encoding="utf-8")
    if request.param == "README.md":
        text = "\n".join(TOML.findall(README))
    shutil.copytree(SAMPLES, tmp_path / ".opta/tools/custom_tools")
    project = Project(tmp_path)
    project.configure(text)
    return project


@pytest.mark.row("B27")
async def test_echo_prints_the_text_after_the_prefix(project):
    assert (await project.call("echo", text="hi")).text == "echo: hi"


@pytest.mark.row("B28")
async def test_count_files_prints_json_with_the_count(project):
    for name in ("a/1.py", "a/2.txt", "a/b/.hidden", "a/b/c/3.py"):
        (project.root / name).parent.mkdir(parents=True, exist_ok=True)
        (project.root / name).touch()
    (project.root / "a" / "loop").symlink_to(project.root)
    counted = json.loads((await project.call("count_files", path="a")).text)
    assert (counted["path"], counted["files"]) == ("a", 4)
    counted = json.loads((await project.call("count_files", path="a", pattern="*.py")).text)
    assert counted["files"] == 2
    assert json.loads((await project.call("count_files")).text)["files"] > 4
    missing = await project.call("count_files", path="nowhere")
    assert missing.outcome is Outcome.ERROR
    assert "nowhere is not a directory" in missing.text


@pytest.mark.row("B29")
async def test_send_email_stub_appends_one_line_of_json_and_sends_nothing(project):
    emails = [{"to": "a@b.c", "subject": "é", "body": "one\ntwo"},
              {"to": "d@e.f", "subject": "long", "body": "x" * 150_000}]  # fmt: skip
    for email in emails:
        assert "not sent" in (await project.call("send_email_stub", **email)).text
    lines = (project.root / ".opta/email_log.jsonl").read_text(encoding="utf-8").splitlines()
    logged = [json.loads(line) for line in lines]
    assert [entry.pop("call") for entry in logged] == ["call_1", "call_2"]
    assert all(entry.pop("time").endswith("Z") for entry in logged)
    assert logged == emails
    sources = "".join(path.read_text() for path in SAMPLES.glob("*.py"))
    assert not re.search(r"import (smtplib|socket|ssl|urllib|http|subprocess)", sources)


@pytest.mark.row("B30")
def test_the_readme_says_how_to_wire_each_program_as_it_is_wired_here():
    tables = {}
    for block in TOML.findall(README):
        tables |= tomllib.loads(block)["custom_tools"]
    assert tables.keys() == WIRED.keys()
    for name, told in tables.items():
        wired = WIRED[name]
        program = Path(wired["command"][-1])
        assert (ROOT / program).is_relative_to(SAMPLES)
        assert (ROOT / program).is_file()
        assert f"`{program.name}`" in README
        assert (told["command"], told.get("env")) == (wired["command"], wired.get("env"))
        schemas = (told["parameters"], wired["parameters"])
        names = [(list(schema["properties"]), schema.get("required")) for schema in schemas]
        assert names[0] == names[1]


def test_the_programs_are_not_taken_for_tool_files():
    places = [place for place in tool_places(ROOT, ROOT / "none", ROOT / "none")
              if place[0] is Scope.LOCAL]  # fmt: skip
    tools, problems = ToolFiles(places).load()
    assert {*WIRED, "check", "run_tests"} <= {tool.name for tool in tools}
    assert [str(problem) for problem in problems if not problem.warning] == []
    assert not any(problem.path.suffix == ".toml" for problem in problems)


@pytest.mark.row("B31")
def test_the_reference_has_every_key_of_a_table_as_the_reader_knows_it():
    section = PAGE.partition("## Keys of a table\n")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| `")]
    assert rows == [
        f"| `{key.name}`{' (required)' if key.required else ''} | {key.kind.value} | "
        f"{key.meaning} |"
        for key in KEYS.values()
    ]
    told = "\n".join(line for line in section.splitlines() if line.startswith("- "))
    for name in KEYS.keys() - {"timeout_ms"}:
        assert f"`{name}" in told, f"the page explains nothing about {name}"
    for name in INJECTED:
        assert f"| `{name}` |" in PAGE


async def test_the_example_of_the_page_works(tmp_path):
    (script,) = re.findall(r"```python\n# (\S+)\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / script[0]).parent.mkdir()
    (tmp_path / script[0]).write_text(script[1])
    (tmp_path / "notes.txt").write_text("buy milk\nwalk\nmilk the cow\n")
    project = Project(tmp_path)
    (text,) = TOML.findall(PAGE)
    project.configure(text)
    assert project.registry.problems == ()
    result = await project.call("custom.list_notes", word="milk")
    assert result.text == "buy milk\nmilk the cow"
