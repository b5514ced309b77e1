"""Programs of the machine are found, those of the project are not (R10)."""

from __future__ import annotations

import os
from pathlib import Path

from tools.files.programs import program_outside


def test_r10_a_program_of_the_project_is_not_taken_also_by_a_link(tmp_path):
    project, elsewhere = tmp_path / "project", tmp_path / "elsewhere"
    for directory in (project, elsewhere):
        directory.mkdir()
    program = project / "tool"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    (elsewhere / "tool").symlink_to(program)
    for place in (project, elsewhere):
        assert program_outside("tool", str(place), tmp_path) is None
        assert program_outside("tool", str(place), project) is None
    assert program_outside("tool", str(elsewhere), None) == elsewhere / "tool"


def test_who_works_in_the_root_directory_has_the_programs_of_the_machine():
    assert program_outside("sh", os.environ["PATH"], Path("/")) is not None
