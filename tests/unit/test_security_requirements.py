"""Each security requirement R1-R48 has a test that is named by its number: `test_r22_…`."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
REQUIREMENTS = range(1, 49)


def numbers(text: str) -> set[int]:
    """Return the requirements that the names of the tests in `text` claim."""
    names = re.findall(r"def test((?:_r\d+)+)_", text)
    return {int(number) for name in names for number in re.findall(r"\d+", name)}


@cache
def named() -> frozenset[int]:
    files = set(TESTS.rglob("test_*.py")) - {Path(__file__)}
    return frozenset(number for path in files for number in numbers(path.read_text()))


def test_names_are_read():
    assert numbers("def test_r8_x():\nasync def test_r22_r24_y(\ndef test_rows():\n") == {8, 22, 24}


@pytest.mark.parametrize("number", REQUIREMENTS, ids="R{}".format)
def test_each_requirement_has_a_test_of_its_number(number):
    assert number in named(), f"no test is named test_r{number}_…"


def test_only_requirements_are_named():
    assert named() <= set(REQUIREMENTS)
