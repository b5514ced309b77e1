"""What the README promises about working on opta."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.support.cli import opta

ROOT = Path(__file__).parents[2]


@pytest.mark.row("A45")
def test_the_readme_names_commands_for_the_tests_and_the_type_check_that_make_knows():
    readme = (ROOT / "README.md").read_text()
    targets = set(re.findall(r"^make (\w+)", readme, re.MULTILINE))
    assert {"test", "check"} <= targets
    for target in targets:
        planned = subprocess.run(
            ["make", "--dry-run", "--always-make", target],
            cwd=ROOT, capture_output=True, text=True, timeout=30,
        )  # fmt: skip
        assert planned.returncode == 0, planned.stderr
    check = subprocess.run(
        ["make", "--dry-run", "check"], cwd=ROOT, capture_output=True, text=True, timeout=30
    )
    assert "mypy" in check.stdout


def test_the_tool_of_the_readme_works_and_costs_what_the_readme_says():
    readme = (ROOT / "README.md").read_text()
    example = re.search(r"```json\n(\{\n  \"name\": \"deploy\".*?)```", readme, re.DOTALL)
    listing = re.search(r"^\$ opta tools\n(.*?)```", readme, re.DOTALL | re.MULTILINE)
    assert example
    assert listing
    tool = Path(".opta/tools/deploy.json")
    tool.parent.mkdir(parents=True)
    tool.write_text(example[1])
    printed = opta("tools", "--trust")
    shown = [line for line in listing[1].splitlines() if line not in ("", "…")]
    assert [line for line in shown if line not in printed.stdout.splitlines()] == []
    assert "Problems:" not in printed.stdout


def test_every_link_of_the_documents_leads_somewhere():
    for document in [ROOT / "README.md", ROOT / "AGENTS.md", *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", document.read_text()):
            assert (document.parent / target).exists(), f"{document.name}: {target}"
