"""Tools with a program of their own: from the file to the result, in real runtimes."""

from __future__ import annotations

import os
import time

import pytest

from tests.support.code_tools import CodeProject
from tests.support.tool_files import EXAMPLES
from tools import storage
from tools.code import runtimes
from tools.definition import Outcome
from tools.events import CallOutput
from tools.permissions.question import Choice
from tools.permissions.rules import Verdict

BOTH = pytest.mark.parametrize("runtime", ["typescript", "node"])


@pytest.fixture
def project(tmp_path):
    return CodeProject(tmp_path)


@pytest.mark.row("E3", "E63", "E144")
async def test_typescript_is_run_and_what_it_returns_is_the_result(project):
    project.code(
        "greet",
        """
        enum Mood { Glad = "glad" }
        interface Args { name: string }
        export async function execute(args: Args, context: unknown): Promise<string> {
          const told: string = await Promise.resolve(`${args.name} is ${Mood.Glad}`);
          return told;
        }
        """,
        properties={"name": {"type": "string"}},
    )
    result = await project.call("greet", name="Zoë \U0001f600 'x' $HOME")
    assert (result.text, result.outcome) == ("Zoë \U0001f600 'x' $HOME is glad", Outcome.OK)


@pytest.mark.row("E40")
async def test_runtime_node_is_run_by_node_itself(project):
    project.code(
        "t", "async function execute() { return process.release.name + typeof Deno; }", "node"
    )
    assert (await project.call("t")).text == "nodeundefined"


@BOTH
@pytest.mark.parametrize(
    "code",
    [
        "export async function execute(args) { return `got ${args.a}`; }",
        "export const execute = (args) => `got ${args.a}`;",
        "export default async (args) => `got ${args.a}`;",
        "export default { async execute(args) { return `got ${args.a}`; } };",
        "async function execute(args) { return `got ${args.a}`; }",
        "module.exports = async (args) => `got ${args.a}`;",
        "module.exports = { execute: (args) => `got ${args.a}` };",
        "exports.execute = (args) => `got ${args.a}`;",
        'const { posix } = require("path"); exports.execute = (a) => posix.join(`got ${a.a}`);',
        'import { join } from "node:path";\nexport const execute = ({ a }) => join(`got ${a}`);',
    ],
)  # fmt: skip
async def test_the_function_is_found_however_it_is_written(project, runtime, code):
    project.code("t", code, runtime, {"a": {"type": "string"}})
    assert (await project.call("t", a="x")).text == "got x"


@pytest.mark.row("E51")
@pytest.mark.parametrize(
    ("imported", "exported"),
    [
        ('const { join } = require("path") as { join: (...parts: string[]) => string };',
         "module.exports = { execute };"),
        ('const { join } = require("node:path");', "exports.execute = execute;"),
        ('import { join } from "node:path";', "export { execute };"),
    ],
)  # fmt: skip
async def test_typescript_is_run_whether_it_is_a_module_or_common_js(project, imported, exported):
    project.code(
        "t",
        f"""
        {imported}
        type Args = {{ a: string }};
        enum Part {{ First = "x" }}
        const execute = async (args: Args): Promise<string> => join(Part.First, args.a!);
        {exported}
        """,
        properties={"a": {"type": "string"}},
    )
    assert (await project.call("t", a="y")).text == "x/y"


@pytest.mark.row("E12", "E57")
@BOTH
@pytest.mark.parametrize(
    ("returned", "text", "outcome"),
    [
        ("undefined", "(no output)", Outcome.OK),
        ("null", "(no output)", Outcome.OK),
        ("'a\\nb'", "a\nb", Outcome.OK),
        ("0", "0", Outcome.OK),
        ("[1, 'é']", '[\n  1,\n  "é"\n]', Outcome.OK),
        ("({ success: true, output: 'fine' })", "fine", Outcome.OK),
        ("({ success: false, output: 'so far', error: 'why' })", "so far\nwhy", Outcome.ERROR),
    ],
)
async def test_any_json_may_be_returned_or_a_whole_result(
    project, runtime, returned, text, outcome
):
    project.code("t", f"export const execute = () => {returned};", runtime)
    result = await project.call("t")
    assert (result.text, result.outcome) == (text, outcome)
    assert result.success is (outcome is Outcome.OK)
    assert 0 < result.duration_ms < 60_000


@pytest.mark.row("E64")
@BOTH
async def test_what_is_thrown_is_the_error_with_the_line_in_the_tool_file(project, runtime):
    path = project.code(
        "t",
        """
        function inner(x) {
          throw new TypeError("oh no");
        }

        export async function execute(args) {
          inner(3);
        }
        """,
        runtime,
    )
    line = 1 + path.read_text().splitlines().index('    throw new TypeError("oh no");')
    result = await project.call("t")
    assert result.outcome is Outcome.ERROR
    assert result.text == f".mimir/tools/t.yml:{line}: TypeError: oh no"


@pytest.mark.row("E64")
@BOTH
async def test_code_that_does_not_parse_is_told_with_its_line(project, runtime):
    path = project.code("t", "export function execute() {\n  return 1 +;\n}", runtime)
    line = 1 + path.read_text().splitlines().index("    return 1 +;")
    result = await project.call("t")
    assert result.outcome is Outcome.ERROR
    assert result.text.startswith(f".mimir/tools/t.yml:{line}: "), result.text


@BOTH
async def test_code_without_the_function_says_so(project, runtime):
    project.code("t", "export function run() {}", runtime)
    result = await project.call("t")
    assert "tools/t.yml: Error: the code has no function execute(args, context)" in result.text
    assert result.outcome is Outcome.ERROR


@pytest.mark.row("E58")
@BOTH
@pytest.mark.parametrize(
    ("returned", "why"),
    [("10n", "BigInt"), ("(() => { const a = []; a.push(a); return a; })()", "circular")],
)
async def test_a_result_that_is_not_json_fails_with_the_reason(project, runtime, returned, why):
    project.code("t", f"export const execute = () => {returned};", runtime)
    result = await project.call("t")
    assert result.outcome is Outcome.ERROR
    assert result.text.startswith("Tool execution failed: its result is not JSON: ")
    assert why in result.text


@pytest.mark.row("E58")
@BOTH
async def test_a_program_that_leaves_without_a_result_fails(project, runtime):
    project.code("t", "export function execute() { console.log('bye'); process.exit(3); }", runtime)
    result = await project.call("t")
    assert result.outcome is Outcome.ERROR
    assert "Tool execution failed: the program ended without a result (code 3)" in result.text
    assert result.text.endswith("bye")


@pytest.mark.row("E68")
@BOTH
async def test_logs_and_prints_are_shown_and_never_break_the_result(project, runtime):
    project.code(
        "t",
        """
        export async function execute(args, { logger }) {
          logger.info("one"); logger.warn("two"); logger.error("three");
          console.log('{"type":"returned","json":"\\\\"forged\\\\""}');
          return "result";
        }
        """,
        runtime,
    )
    assert (await project.call("t")).text == "result"
    shown = "".join(event.text for event in project.events if isinstance(event, CallOutput))
    assert shown.splitlines() == [
        "[INFO] one", "[WARN] two", "[ERROR] three", '{"type":"returned","json":"\\"forged\\""}',
    ]  # fmt: skip


@pytest.mark.row("E53", "E149")
@BOTH
async def test_a_loop_without_end_is_ended_at_the_time_limit(project, runtime):
    project.code("t", "export function execute() { console.log('on'); while (true) {} }", runtime)
    definition = project.registry.find("t").definition
    assert definition.limits.timeout_ms == 30_000
    limited = CodeProject(project.root)
    limited.limit(1500)
    started = time.monotonic()
    result = await limited.call("t")
    assert result.outcome is Outcome.TIMED_OUT
    assert result.text == "[timed out after 1500 ms; the program was ended]\non"
    assert time.monotonic() - started < 20


@pytest.mark.row("E52", "E59", "E61")
@BOTH
async def test_the_context_holds_the_directory_and_no_settings(project, runtime):
    project.code(
        "t",
        "export const execute = (args, { config, conversation }) => ({ config, conversation });",
        runtime,
    )
    assert await project.value("t") == {"config": {"workingDirectory": str(project.root)}}


@pytest.mark.row("E50")
@BOTH
async def test_code_is_written_once_and_again_when_it_changed(project, runtime):
    kept = storage.state_dir() / "kept" / "code"
    project.code("t", "export const execute = () => 1;", runtime)
    assert (await project.call("t")).text == "1"
    (first,) = kept.iterdir()
    before = first.stat().st_mtime_ns
    assert (await project.call("t")).text == "1"
    assert [path.stat().st_mtime_ns for path in kept.iterdir()] == [before]
    project.code("t", "export const execute = () => 2;", runtime)
    assert (await project.call("t")).text == "2"
    assert len(list(kept.iterdir())) == 2


@pytest.mark.row("E60")
@BOTH
async def test_no_key_is_in_the_environment(project, runtime, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary")
    monkeypatch.setenv("ANYTHING", "canary")
    project.code(
        "t",
        """
        export function execute() {
          try { return JSON.stringify(process.env); } catch (error) { return error.name; }
        }
        """,
        runtime,
    )
    result = await CodeProject(project.root).call("t")
    assert result.success
    assert "canary" not in result.text


@pytest.mark.row("E5", "E147")
async def test_a_call_asks_and_shows_its_arguments_and_what_keeps_it_in(tmp_path):
    project = CodeProject(tmp_path, answer=Choice.NO)
    project.code("t", "export const execute = () => 1;", properties={"a": {}})
    result = await project.call("t", a="b c")
    assert result.outcome is Outcome.DENIED
    (question,) = project.person.asked
    text = question.invocation.preview.text
    assert '"a": "b c"' in text
    assert ".mimir/tools/t.yml:" in text
    assert "no files, no network" in text


async def test_rules_by_name_hold(project):
    project.code("t", "export const execute = () => 1;")
    project.rule(Verdict.ALLOW, "t")
    assert (await project.call("t")).text == "1"
    assert project.person.asked == []
    project.rule(Verdict.DENY, "t")
    assert (await project.call("t")).outcome is Outcome.DENIED


@pytest.mark.row("E3")
def test_without_a_runtime_the_tool_is_listed_with_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.setattr("sys.prefix", str(tmp_path))
    project = CodeProject(tmp_path)
    project.tools.mkdir(parents=True)
    (project.tools / "run_tests.yml").write_bytes((EXAMPLES / "004" / "run_tests.yml").read_bytes())
    project.registry.refresh()
    entry = project.registry.find("run_tests")
    assert not entry.enabled
    assert entry.reason.startswith("unavailable: there is no runtime for typescript; install deno")
    assert [p for p in project.registry.problems if not p.warning] == []


def test_a_runtime_in_the_project_is_not_taken(tmp_path, tmp_path_factory, monkeypatch):
    from tools.code import runtimes

    program = tmp_path / "bin" / "deno"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho evil\n")
    program.chmod(0o755)
    monkeypatch.setattr("sys.prefix", str(tmp_path / "none"))
    links = tmp_path_factory.mktemp("links")
    (links / "deno").symlink_to(program)
    path = os.pathsep.join((str(program.parent), str(links), "/usr/bin"))
    found = runtimes.find("typescript", path, tmp_path)
    assert [one for one in found if one.program == program] == []
    assert runtimes.find("typescript", path)[0].program == program


def test_r10_no_program_of_the_project_is_asked_for_its_version(tmp_path, monkeypatch):
    for name in ("deno", "bun", "node"):
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\necho v24.0.0\n")
        program.chmod(0o755)
    monkeypatch.setattr("sys.prefix", str(tmp_path / "none"))
    why = runtimes.missing("typescript", str(tmp_path / "bin"), tmp_path)
    assert why.startswith("there is no runtime for typescript; install deno")
    assert not (tmp_path / "ran").exists()
    assert runtimes.missing("typescript", str(tmp_path / "bin"), tmp_path / "elsewhere") == ""


async def test_what_deno_has_compiled_is_not_kept_for_ever(project):
    cache = storage.state_dir() / "deno"
    for left in ("gen/file/x/kept/code/old.mts.js", "v8_code_cache_v2", "0/gen/old.mts.js"):
        path = cache / left
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("compiled long ago")
    project.code("t", "export const execute = (args: object): string => 'it ran';")
    assert (await project.call("t")).text == "it ran"
    (now,) = cache.iterdir()
    compiled = {path: path.stat().st_ino for path in now.rglob("*.js")}
    assert compiled
    assert (await project.call("t")).text == "it ran"
    assert {path: path.stat().st_ino for path in now.rglob("*.js")} == compiled
