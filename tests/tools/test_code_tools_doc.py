"""The examples of docs/code-tools.md do what the page says."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from agent.settings_keys import KEYS
from tests.support.code_tools import CodeProject
from tests.support.npm import VITEST, installed, needs_npm
from tools.definition import CommandDisplay, Outcome

PAGE = (Path(__file__).parents[2] / "docs" / "code-tools.md").read_text(encoding="utf-8")
BLOCKS = {text: yaml.safe_load(text) for text in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)}
TOOLS = {data["name"]: text for text, data in BLOCKS.items() if "code" in data}
FILES = {
    "package.json": '{"type": "module", "dependencies": {"left-pad": "^1.3.0"}}',
    "shop.py": "class Cart:\n    async def add(self): ...\n",
    "auth/a.test.js": """
        import { expect, test } from "vitest";
        test("adds", () => expect(2 + 2).toBe(3));
        test("adds more", () => expect(2 + 2).toBe(4));
        """,
}


def example(name):
    """Return the documented call of a tool and its result."""
    part = PAGE[PAGE.index(TOOLS[name]) :]
    found = re.search(r"Called with `(.*?)` .*?```text\n(.*?)\n```", part, re.DOTALL)
    assert found
    return json.loads(found[1]), found[2]


@pytest.fixture
def project(tmp_path):
    project = CodeProject(tmp_path / "work")
    for name, text in FILES.items():
        path = project.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    project.tools.mkdir(parents=True)
    for name, text in TOOLS.items():
        (project.tools / f"{name}.yml").write_text(text)
    project.registry.refresh()
    assert project.registry.problems == ()
    return project


@pytest.fixture(scope="session")
def modules(tmp_path_factory):
    return installed(tmp_path_factory, VITEST)


def test_what_is_no_tool_are_settings():
    others = [key for data in BLOCKS.values() if "code" not in data for key in data]
    assert others == ["code_image"]
    assert KEYS.keys() >= set(others)


def test_there_is_a_tool_in_each_language():
    runtimes = [yaml.safe_load(text).get("runtime", "typescript") for text in TOOLS.values()]
    assert sorted(runtimes) == ["node", "python", "typescript"]


@pytest.mark.parametrize("name", ["dependency", "outline"])
async def test_an_example_gives_what_the_page_says(project, name):
    arguments, text = example(name)
    assert (await project.call(name, **arguments)).text == text


async def test_the_tests_in_an_example_pass(project):
    (one,) = project.registry.find("outline").definition.tests
    result = await project.call("outline", **one.parameters)
    assert one.expected["output-contains"] in result.text


async def test_an_error_names_the_line_that_the_page_says(project):
    result = await project.call("dependency", name="react")
    assert result.outcome is Outcome.ERROR
    assert f"```text\n{result.text}\n```" in PAGE


@needs_npm
async def test_the_tests_of_a_project_are_run_and_only_its_command(project, modules):
    (project.root / "node_modules").symlink_to(modules)
    arguments, text = example("test")
    assert (await project.call("test", **arguments)).text == text
    _, command = (question.invocation.preview for question in project.person.asked)
    assert isinstance(command, CommandDisplay)
    assert f"`{command.command}`" in PAGE.replace("\n", " ")
