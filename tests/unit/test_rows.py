from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import rows

FILE = """
import pytest

@pytest.mark.row("A1", "A2")
def test_passes():
    pass

@pytest.mark.row("A2")
def test_fails():
    assert False

@pytest.mark.row("A3")
@pytest.mark.xfail
def test_is_expected_to_fail():
    assert False

@pytest.mark.row("A4")
def test_is_skipped():
    pytest.skip("no reason")
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of what counts rows, beside a test file of its own."""
    tests = tmp_path / "tests"
    tests.mkdir()
    for name in ("__init__.py", "conftest.py", "rows.py"):
        shutil.copy(rows.ROOT / "tests" / name, tests / name)
    (tmp_path / "docs").mkdir()
    shutil.copy(rows.DOCUMENT, tmp_path / "docs")
    shutil.copy(rows.ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def run_tests(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *arguments],
        cwd=project, capture_output=True, text=True, timeout=60,
    )  # fmt: skip


def test_the_document_holds_every_row_once_and_in_order():
    ids = [row for row, _ in rows.read_rows(rows.DOCUMENT.read_text(encoding="utf-8"))]
    assert ids == [f"{d}{n}" for d, size in rows.SIZES.items() for n in range(1, size + 1)]


@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_row_is_proven_when_a_test_that_claims_it_passed_and_none_failed(project, workers):
    (project / "tests" / "test_sample.py").write_text(FILE)
    run_tests(project, "-n", workers)
    record = json.loads((project / ".pytest_cache" / "opta-rows.json").read_text())
    assert record["rows"] == ["A1"]


def test_a_run_of_some_tests_leaves_the_record_alone(project):
    (project / "tests" / "test_sample.py").write_text(FILE)
    run_tests(project, "tests/test_sample.py")
    run_tests(project, "-k", "passes")
    assert not (project / ".pytest_cache" / "opta-rows.json").exists()


def test_a_claim_of_an_unknown_row_fails_the_test(project):
    (project / "tests" / "test_sample.py").write_text(
        "import pytest\n@pytest.mark.row('A46')\ndef test_it():\n    pass\n"
    )
    run = run_tests(project)
    assert run.returncode == 1
    assert "claims A46: no such row in docs/compatibility.md" in run.stdout


def test_the_summary_counts_per_design_and_names_what_is_missing():
    text = rows.summary(["A1", "A2", "A3", "A4", "B1"], {"A2", "B1"})
    assert text.splitlines() == [
        "A: 1/4 rows proven by passing tests",
        "   not claimed: A1, A3-A4",
        "B: 1/1 rows proven by passing tests",
    ]
