"""Tools with a program, run by bun from npm in opta's sandbox."""

from __future__ import annotations

import asyncio
import os
import platform
import sys

import pytest

from tests.support import npm
from tests.support.code_tools import CodeProject
from tools.actions import CodeAction
from tools.code import runtimes
from tools.code.syntax import fault
from tools.confinement import Backend, IsolationSettings
from tools.definition import Outcome
from tools.engine.isolation.proof import prove

pytestmark = [
    npm.needs_npm,
    pytest.mark.skipif(
        (sys.platform, platform.machine()) != ("linux", "x86_64"),
        reason="the bun of the tests is that for Linux on x86-64",
    ),
]


@pytest.fixture(params=["bubblewrap", "landlock"])
def project(request, tmp_path, tmp_path_factory, monkeypatch):
    """A project where bun is the only runtime for TypeScript and JavaScript, in a sandbox."""
    proof = prove(Backend(request.param), os.environ["PATH"])
    if not proof.available:
        pytest.skip(f"{request.param} does not work on this machine: {proof.reason}")
    package = npm.installed(tmp_path_factory, npm.BUN) / next(iter(npm.BUN))
    path = f"{package / 'bin'}{os.pathsep}{tmp_path / 'none'}"
    monkeypatch.setattr("sys.prefix", str(tmp_path / "none"))
    monkeypatch.setenv("PATH", f"{path}:/bin")
    assert [one.name for one in runtimes.find("typescript", path)] == ["bun"]
    made = CodeProject(tmp_path, IsolationSettings(backend=request.param))
    made.path(path)
    return made


async def test_typescript_runs_in_bun_and_asks_opta_for_files(project):
    (project.root / "a.txt").write_text("text of a")
    project.code(
        "t",
        """
        enum Mood { Glad = "glad" }
        export async function execute({ name }: { name: string }, { platform, logger }) {
          logger.info("begun");
          const there: boolean = await platform.fs.exists("none.txt");
          const text = await platform.fs.readFile("a.txt");
          return { bun: typeof Bun, mood: Mood.Glad, name, there, text };
        }
        """,
        properties={"name": {"type": "string"}},
    )
    assert await project.value("t", name="Zoë") == {
        "bun": "object", "mood": "glad", "name": "Zoë", "there": False, "text": "text of a",
    }  # fmt: skip


@pytest.mark.parametrize("runtime", ["typescript", "node"])
async def test_common_js_runs_in_bun(project, runtime):
    project.code(
        "t",
        """
        const { posix } = require("path");
        module.exports = ({ a }) => posix.join("x", a);
        """,
        runtime,
    )
    assert (await project.call("t", a="y")).text == "x/y"


async def test_what_a_program_throws_in_bun_is_told_with_its_line(project):
    path = project.code("t", "export function execute() {\n  throw new TypeError('oh no');\n}")
    line = 1 + path.read_text().splitlines().index("    throw new TypeError('oh no');")
    result = await project.call("t")
    assert result.outcome is Outcome.ERROR
    assert result.text == f".mimir/tools/t.yml:{line}: TypeError: oh no"


async def test_code_that_does_not_parse_in_bun_is_told_with_its_line(project):
    path = project.code("t", "export function execute() {\n  return 1 +;\n}")
    line = 1 + path.read_text().splitlines().index("    return 1 +;")
    result = await project.call("t")
    assert result.outcome is Outcome.ERROR
    assert result.text.startswith(f".mimir/tools/t.yml:{line}: "), result.text


@pytest.mark.parametrize(
    ("runtime", "code", "line"),
    [
        ("typescript", "enum A { B }\nexport const execute = () => {\n  return 1 +;\n};\n", 3),
        ("typescript", "module.exports = () => {\n", 1),
        ("node", "const a: string = 1;\nexports.execute = () => a;\n", 1),
        ("typescript", "enum A { B }\nexports.execute = (): A => A.B;\nthrow A;\n", None),
        ("node", "export const execute = () => 1;\nprocess.exit(1);\n", None),
    ],
)
def test_bun_finds_code_that_does_not_parse(project, monkeypatch, runtime, code, line):
    (project.root / "bunfig.toml").write_text('preload = ["./evil.js"]\n')
    (project.root / "evil.js").write_text('require("fs").writeFileSync("made", "");\n')
    monkeypatch.chdir(project.root)
    found = fault(CodeAction(runtime, code), project.root)
    assert (found and found.line) == line, found
    assert not (project.root / "made").exists()


async def test_a_program_in_bun_reaches_no_file_no_program_and_not_the_network(project):
    (project.root / "plan.txt").write_text("canary")
    reached = []
    server = await asyncio.start_server(lambda *ends: reached.append(ends), "127.0.0.1")
    project.code(
        "t",
        """
        import { readFileSync, writeFileSync } from "node:fs";
        import { execFileSync } from "node:child_process";
        const tried = async (work: () => unknown) => {
          try { return `done ${await work()}`; } catch (error) { return "denied"; }
        };
        export const execute = async ({ work, port }) => [
          await tried(() => readFileSync(`${work}/plan.txt`, "utf8")),
          await tried(() => Bun.file(`${work}/plan.txt`).text()),
          await tried(() => writeFileSync(`${work}/made.txt`, "x")),
          await tried(() => execFileSync("/bin/echo", ["ran"]).toString()),
          await tried(() => Bun.spawnSync(["/bin/echo", "ran"]).stdout.toString()),
          await tried(() => fetch(`http://127.0.0.1:${port}/`)),
        ];
        """,
    )
    async with server:
        port = server.sockets[0].getsockname()[1]
        tried = await project.value("t", work=str(project.root), port=port)
    assert tried == ["denied"] * 6
    assert reached == []
    assert not (project.root / "made.txt").exists()


async def test_memory_beyond_the_limit_ends_a_program_in_bun(project):
    project.code(
        "t",
        """
        export function execute() {
          const a = [];
          for (let i = 0; i < 20; i++) a.push(new Uint8Array(1e8).fill(1));
          return "has 2 GB";
        }
        """,
    )
    result = await project.call("t")
    assert result.outcome is Outcome.ERROR
    assert "has 2 GB" not in result.text
