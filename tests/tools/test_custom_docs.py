"""The examples of docs/json-tools.md do what the page says."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.support.custom_tools import Project
from tools.definition import CommandDisplay, Origin, Scope, Source
from tools.formats import read
from tools.schema import check_arguments
from tools.sources.plan_checks import check_plan

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "json-tools.md").read_text(encoding="utf-8")
TOOLS = [json.loads(block) for block in re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)]


def examples():
    """Yield each tool with each documented call of it and the documented result."""
    for part in PAGE.split("```json\n")[1:]:
        tool = json.loads(part.partition("```")[0])
        calls = re.findall(r"Called with `(.*?)` .*?```text\n(.*?)\n```", part, re.DOTALL)
        yield from ((tool, json.loads(arguments), text) for arguments, text in calls)


EXAMPLES = list(examples())


def test_every_tool_on_the_page_has_a_call():
    assert len(TOOLS) == 4
    assert {tool["name"] for tool, *_ in EXAMPLES} == {tool["name"] for tool in TOOLS}


@pytest.mark.parametrize(
    ("tool", "arguments", "text"), EXAMPLES, ids=lambda value: str(value)[:30]
)  # fmt: skip
async def test_an_example_gives_what_the_page_says(tool, arguments, text, tmp_path):
    (tmp_path / "notes.txt").write_text("First line\nTo do: write the second line\n")
    project = Project(tmp_path)
    project.tools.mkdir(parents=True)
    (project.tools / f"{tool['name']}.json").write_text(json.dumps(tool))
    project.registry.refresh()
    assert project.registry.problems == ()
    assert (await project.call(tool["name"], **arguments)).text == text
    for question in project.person.asked:
        assert isinstance(question.invocation.preview, CommandDisplay)
        assert question.invocation.preview.command == tool["command"]


def test_the_example_call_in_each_description_fits_its_schema():
    for tool in TOOLS:
        for text in re.findall(r"Example: (\{.*\})", tool["description"]):
            definition = _definition(tool)
            assert check_arguments(definition, json.loads(text), {})


def test_validate_warns_of_none_of_them():
    for tool in TOOLS:
        data = json.dumps(tool).encode()
        assert check_plan(_definition(tool), data).warnings(data) == []


def _definition(tool):
    origin = Origin(Source.CUSTOM, "opta-json", Scope.LOCAL, Path("/t.json"))
    (definition,), warnings = read(json.dumps(tool).encode(), origin)
    assert warnings == []
    return definition
