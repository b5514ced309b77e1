"""Programs of tools in `opta tool validate`, `run` and `test`, and in `opta doctor`."""

from __future__ import annotations

import json
import textwrap

import pytest

from tests.support.cli import opta as program

HEAD = "name: t\ndescription: d\nschema: {type: object, properties: {a: {type: string}}}\n"


def put(opta, code, runtime, more=""):
    text = f"{HEAD}runtime: {runtime}\ncode: |\n{textwrap.indent(code, '  ')}{more}"
    return opta.put("t.yml", text, opta.user)


@pytest.mark.parametrize(
    ("runtime", "code", "line"),
    [
        ("typescript", "interface A { b: string }\nexport const execute = () =>\n  1 +;\n", 8),
        ("typescript", "module.exports = () => {\n", 6),
        ("node", "exports.execute = async () => {\n  await 1;\n  let = ;\n};\n", 8),
        ("python", "def execute(args, context):\n    return (1 +\n", 7),
        ("python", "def execute(args, context):\nreturn 1\n", 7),
    ],
)
def test_code_that_does_not_parse_is_an_error_with_its_line(opta, runtime, code, line):
    path = put(opta, code, runtime)
    ran = opta("tool validate t")
    assert ran.code == 1
    assert f"error: {path}:{line}: $.code: does not parse: " in ran.out


@pytest.mark.parametrize(
    ("runtime", "code"),
    [
        (
            "typescript",
            "enum A { B }\nexport async function execute(): Promise<A> { return A.B; }\n",
        ),
        ("typescript", "const { join } = require('path');\nmodule.exports = () => join('a');\n"),
        ("node", "export default async () => { await 1; };\n"),
        ("python", "async def execute(args, context):\n    return [x async for x in y()]\n"),
    ],
)
def test_checking_code_runs_none_of_it(opta, runtime, code):
    writes = {"python": "open('made', 'w')\n"}.get(
        runtime, "require('fs').writeFileSync('made', '');\n"
    )
    put(opta, code + writes, runtime)
    ran = opta("tool validate t")
    assert (ran.code, ran.out.startswith("t: valid (")) == (0, True), ran.out
    assert not (opta.root / "made").exists()


def test_without_a_runtime_the_file_is_checked_and_the_code_is_not(opta, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr("sys.prefix", "/nowhere")
    put(opta, "export const execute = () => 1 +;\n", "typescript")
    assert opta("tool validate t").code == 0


def test_what_a_program_prints_is_on_standard_error_and_its_result_on_standard_output(opta):
    code = """\
export async function execute(args, { logger, platform }) {
  logger.info("so far");
  await platform.executor.execute("echo there");
  return "result";
}
"""
    put(opta, code, "typescript", "permissions: {autoAccept: true}\n")
    ran = opta("tool run t")
    assert (ran.code, ran.out, ran.err) == (0, "result\n", "[INFO] so far\nthere\n")


def test_tests_in_the_file_are_run(opta):
    tests = """\
permissions: {autoAccept: true}
tests:
  - {name: right, parameters: {a: x}, expected: {output-contains: got x}}
  - {name: wrong, parameters: {a: y}, expected: {output-contains: got x}}
"""
    put(opta, "export const execute = ({ a }) => `got ${a}`;\n", "typescript", tests)
    ran = opta("tool test t --yes")
    assert ran.code == 1
    assert "passed: right" in ran.out
    assert "expected it to contain 'got x', got 'got y'" in ran.out
    assert opta("tool test t --yes --test right").code == 0


def test_a_format_without_tests_says_so(opta):
    data = {"name": "j", "description": "d", "command": "true",
            "parameters": {"type": "object", "properties": {}}}  # fmt: skip
    opta.put("j.json", json.dumps(data), opta.user)
    ran = opta("tool test j")
    assert ran.code == 1
    assert "Its format has none" in ran.err


def test_doctor_says_why_nothing_runs_a_language(opta, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr("sys.prefix", "/nowhere")
    said = opta("doctor").out
    assert "  typescript no: there is no runtime for typescript; install deno: " in said
    assert "  node       no: there is no runtime for node; install Node.js" in said


def test_doctor_says_what_runs_each_language_and_what_keeps_it_in(opta):
    found = json.loads(program("doctor", "--format", "json").stdout)
    rows = {row["language"]: row for row in found["programs"]}
    assert list(rows) == ["typescript", "node", "python"]
    assert (rows["typescript"]["by"], rows["typescript"]["walls"]) == ("deno", "its own sandbox")
    assert rows["python"]["by"] == "python"
    text = program("doctor").stdout
    assert (
        f"  typescript deno, kept in by its own sandbox ({rows['typescript']['program']})" in text
    )
