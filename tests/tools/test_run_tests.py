"""The published run_tests.yml, as it is, in a project with yarn and vitest from npm."""

from __future__ import annotations

import json

import pytest
import yaml

from tests.support.cli import opta
from tests.support.code_tools import CodeProject
from tests.support.model_server import ModelServer, call, say
from tests.support.npm import VITEST, installed, needs_npm
from tests.support.tool_files import EXAMPLES
from tools.definition import CommandDisplay, Outcome
from tools.events import CallOutput
from tools.permissions.rules import Verdict

RUN_TESTS = (EXAMPLES / "004" / "run_tests.yml").read_text(encoding="utf-8")
FILES = {
    "package.json": json.dumps({"type": "module", "scripts": {"test": "node run.js"}}),
    # The pattern is a glob, which vitest takes from its settings only, and a test is one line with
    # PASS or FAIL, which none of its own reporters prints.
    "run.js": """
        import { writeFileSync } from "node:fs";
        import { relative } from "node:path";
        import { startVitest } from "vitest/node";
        const [pattern, ...flags] = process.argv.slice(2);
        writeFileSync("argv.json", JSON.stringify(process.argv.slice(2)));
        const reporter = {
          onTestCaseResult(test) {
            const { state, errors } = test.result();
            const name = `${relative(".", test.module.moduleId)} > ${test.name}`;
            console.log(state === "passed" ? `PASS ${name}` : `FAIL ${name}: ${errors[0].message}`);
          },
        };
        await startVitest("test", [], {
          watch: false, include: [pattern], reporters: [reporter],
          coverage: {
            enabled: flags.includes("--coverage"), include: ["src/**"], reporter: "text",
          },
        });
        """,
    "src/add.js": "export const add = (a, b) => a + b;\n",
    "auth/deep/add.test.js": """
        import { expect, test } from "vitest";
        import { add } from "../../src/add.js";
        test("adds", () => expect(add(1, 2)).toBe(3));
        test("adds more", () => expect(add(2, 2)).toBe(4));
        """,
    "other/wrong.test.js": """
        import { expect, test } from "vitest";
        import { add } from "../src/add.js";
        test("adds", () => expect(add(1, 2)).toBe(3));
        test("is wrong", () => expect(add(1, 2)).toBe(4));
        test("is wrong too", () => expect(add(1, 2)).toBe(5));
        """,
}
LEFT_OUT = "// Parse failure details..."
PARSED = """
        const [, file, test, error] = line.match(/FAIL (.*?) > (.*?): (.*)/)!;
        result.failures.push({ file, test, error });
      } else if (line.startsWith('All files')) {
        const [branches, functions, lines] = line.split('|').slice(2, 5).map(Number);
        result.coverage = { branches, functions, lines };"""
"""What the published code leaves out, and says so."""

pytestmark = needs_npm


@pytest.fixture(scope="session")
def modules(tmp_path_factory):
    return installed(tmp_path_factory, VITEST)


@pytest.fixture
def project(tmp_path, modules):
    project = CodeProject(tmp_path / "work")
    for name, text in FILES.items():
        path = project.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (project.root / "node_modules").symlink_to(modules)
    project.path(modules / ".bin")
    return project


def load(project, text=RUN_TESTS):
    project.tools.mkdir(parents=True)
    (project.tools / "run_tests.yml").write_text(text)
    project.registry.refresh()
    assert project.registry.problems == ()


@pytest.mark.row("E69", "E72", "E74", "E77")
async def test_it_asks_runs_yarn_with_the_pattern_as_one_word_and_counts(project):
    load(project)
    result = await project.call("run_tests", pattern="auth/**")
    assert (result.text, result.outcome) == ("✓ All 2 tests passed!", Outcome.OK)
    program, command = (question.invocation.preview for question in project.person.asked)
    assert "commands it may ask for: yarn test*, npm test*, vitest*" in program.text
    assert command == CommandDisplay(
        "yarn test 'auth/**'", str(project.root), "asked for by run_tests"
    )
    assert json.loads((project.root / "argv.json").read_text()) == ["auth/**"]
    logged = [event.text for event in project.events if isinstance(event, CallOutput)]
    assert "[INFO] Running tests matching: auth/**\n" in logged


@pytest.mark.row("E72")
async def test_a_pattern_is_no_shell_text(project):
    load(project)
    pattern = "auth/**; touch made $(touch made)"
    assert (await project.call("run_tests", pattern=pattern)).text == "✓ All 0 tests passed!"
    assert json.loads((project.root / "argv.json").read_text()) == [pattern]
    assert not (project.root / "made").exists()


@pytest.mark.row("E76", "E77")
async def test_failures_are_counted_and_with_its_gap_filled_each_is_told(project):
    project.rule(Verdict.ALLOW, "run_tests")
    project.rule(Verdict.ALLOW, "run_command(yarn test:*)")
    load(project)
    head = "✗ 2 tests failed (1 passed)\n\nFailures:\n"
    assert (await project.call("run_tests", pattern="other/**")).text == head
    (project.tools / "run_tests.yml").write_text(RUN_TESTS.replace(LEFT_OUT, PARSED))
    project.registry.refresh()
    assert (await project.call("run_tests", pattern="other/**")).text == (
        f"{head}\nother/wrong.test.js > is wrong\n expected 3 to be 4 // Object.is equality\n"
        "\nother/wrong.test.js > is wrong too\n expected 3 to be 5 // Object.is equality\n"
    )
    assert project.person.asked == []


@pytest.mark.row("E73", "E75")
async def test_with_coverage_its_share_is_told(project):
    load(project, RUN_TESTS.replace(LEFT_OUT, PARSED))
    result = await project.call("run_tests", pattern="auth/**", coverage=True)
    assert result.text == "✓ All 2 tests passed!\n\nCoverage: 100% lines"
    assert json.loads((project.root / "argv.json").read_text()) == ["auth/**", "--coverage"]


@pytest.mark.row("E69", "E70", "E71")
def test_the_model_gets_its_description_and_schema_as_printed(project):
    load(project)
    printed = yaml.safe_load(RUN_TESTS)
    with ModelServer([call("run_tests", pattern="auth/**"), say("done")]) as server:
        done = opta("-p", "x", "--trust", server=server, cwd=project.root)
    assert done.returncode == 3
    sent = {tool["function"]["name"]: tool["function"] for tool in server.requests[0].json["tools"]}
    assert sent["run_tests"]["description"] == printed["description"]
    assert sent["run_tests"]["parameters"] == printed["schema"]
    assert list(printed["schema"]["properties"]) == ["pattern", "coverage", "watch"]
    (answer,) = (m for m in server.requests[1].json["messages"] if m["role"] == "tool")
    assert "nobody is there to be asked" in answer["content"]
    listed = opta("tools", "--trust", cwd=project.root).stdout
    assert "(declared 450)" in next(line for line in listed.splitlines() if "run_tests" in line)
