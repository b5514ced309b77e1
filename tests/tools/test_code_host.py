"""What the program of a code tool may ask of opta, and what stands between the two."""

from __future__ import annotations

import asyncio
import os

import pytest

from tests.support.code_tools import CodeProject
from tools.builtin import all_builtins
from tools.definition import CommandDisplay, DiffDisplay, Outcome
from tools.events import CallDecided, CallFinished, CallProposed, CallStarted
from tools.permissions.mode import Mode
from tools.permissions.question import Answer, Choice
from tools.permissions.rules import Verdict

BOTH = pytest.mark.parametrize("runtime", ["typescript", "node"])
TRIED = """
const tried = async (work) => {
  try { return await work(); } catch (error) { return `${error.name}: ${error.message}`; }
};
"""


@pytest.fixture
def project(tmp_path):
    project = CodeProject(tmp_path / "work")
    project.root.mkdir()
    project.rule(Verdict.ALLOW, "t")
    return project


def body(text):
    """A program of one function body, with `tried` for what may be refused."""
    return f"{TRIED}\nexport async function execute(args, {{ platform, config }}) {{ {text} }}"


@pytest.mark.row("E62", "E65")
@BOTH
async def test_files_of_the_workspace_are_read(project, runtime):
    (project.root / "src").mkdir()
    (project.root / "src" / "a.txt").write_text("äöü\r\n")
    (project.root / "b.bin").write_bytes(b"\xff\x00")
    code = body(
        """
        const { fs } = platform;
        return {
          text: await fs.readFile("src/a.txt"),
          absolute: await fs.readFile(`${config.workingDirectory}/src/a.txt`, "utf-8"),
          binary: await fs.readFile("b.bin", { encoding: "base64" }),
          not_text: await tried(() => fs.readFile("b.bin")),
          none: await tried(() => fs.readFile("none.txt")),
          there: [await fs.exists("src"), await fs.exists("none.txt")],
          names: await fs.readdir("."),
          found: await fs.glob("**/*.txt"),
        };
        """
    )
    project.code("t", code, runtime)
    assert await project.value("t") == {
        "text": "äöü\r\n", "absolute": "äöü\r\n", "binary": "/wA=",
        "not_text": "Error: b.bin is not UTF-8. Read it with the encoding base64.",
        "none": "Error: There is no file none.txt.",
        "there": [True, False],
        "names": [".mimir", "b.bin", "src"], "found": ["src/a.txt"],
    }  # fmt: skip
    assert project.person.asked == []


@pytest.mark.row("E65", "E148")
@BOTH
async def test_nothing_outside_the_workspace_is_reached(project, runtime):
    outside = project.root.parent / "secret.txt"
    outside.write_text("canary")
    (project.root / "link.txt").symlink_to(outside)
    (project.root / "up").symlink_to("..")
    places = ["../secret.txt", str(outside), "link.txt", "up/secret.txt", "./a/../../secret.txt"]
    tries = ", ".join(
        f"await tried(() => platform.fs.{call}({place!r}{more}))"
        for place in places
        for call, more in (("readFile", ""), ("writeFile", ", 'x'"), ("exists", ""))
    )
    tries += ", await tried(() => platform.fs.readdir('..'))"
    tries += ", await tried(() => platform.fs.glob('*', '..'))"
    tries += ", await tried(() => platform.executor.execute({command: 'ls', args: [], cwd: '..'}))"
    project.code("t", body(f"return [{tries}];"), runtime)
    answers = await project.value("t")
    assert len(answers) == 18
    for answer in answers:
        assert "is outside the workspace: not allowed" in answer
    assert outside.read_text() == "canary"
    assert project.person.asked == []


@pytest.mark.row("E66")
async def test_a_write_asks_with_the_diff_and_writes_exactly_that(project):
    (project.root / "a.txt").write_bytes(b"old\r\n")
    project.code("t", body("await platform.fs.writeFile('a.txt', 'new\\n'); return 'done';"))
    assert (await project.call("t")).text == "done"
    (question,) = project.person.asked
    assert isinstance(question.invocation.preview, DiffDisplay)
    assert "-old" in question.invocation.preview.diff
    assert "+new" in question.invocation.preview.diff
    assert question.invocation.title == "t: Write a.txt"
    assert (project.root / "a.txt").read_bytes() == b"new\n"


@pytest.mark.row("E66")
async def test_a_write_may_follow_a_read_a_command_and_another_write(project):
    project.rule(Verdict.ALLOW, "write_file")
    project.rule(Verdict.ALLOW, "run_command")
    project.code(
        "t",
        body(
            """
            const { fs, executor } = platform;
            await fs.writeFile("n.txt", "1");
            await executor.execute("printf 2 >> n.txt");
            await fs.writeFile("n.txt", await fs.readFile("n.txt") + "3");
            return fs.readFile("n.txt");
            """
        ),
    )
    assert (await project.call("t")).text == "123"


async def test_what_a_program_read_the_model_has_not(tmp_path):
    builtins = {made.definition.name: made for made in all_builtins()}
    project = CodeProject(tmp_path, builtins=builtins)
    (project.root / "a.txt").write_text("old")
    project.code("t", body("return platform.fs.readFile('a.txt');"))
    assert (await project.call("t")).text == "old"
    result = await project.call("write_file", path="a.txt", content="new")
    assert "was not read in this session" in result.text


@pytest.mark.row("E67")
@BOTH
async def test_both_ways_to_run_a_command_give_its_output(project, runtime):
    project.code(
        "t",
        body(
            """
            const { executor } = platform;
            const short = ({ stdout, stderr, exitCode }) => ({ stdout, stderr, exitCode });
            return [
              await executor.execute("printf", ["%s|", "a b", "$HOME", "; rm -rf ."]),
              await executor.execute({ command: "pwd", args: [], cwd: "sub" }),
              await executor.execute("echo out; echo err >&2; exit 3"),
              await executor.execute({ command: "sh", args: ["-c", "kill -9 $$"] }),
            ].map(short);
            """
        ),
        runtime,
    )
    (project.root / "sub").mkdir()
    assert await project.value("t") == [
        {"stdout": "a b|$HOME|; rm -rf .|", "stderr": "", "exitCode": 0},
        {"stdout": f"{project.root}/sub\n", "stderr": "", "exitCode": 0},
        {"stdout": "out\n", "stderr": "err\n", "exitCode": 3},
        {"stdout": "", "stderr": "", "exitCode": 137},
    ]
    shown = [question.invocation.preview for question in project.person.asked]
    assert shown == [CommandDisplay("sh -c 'kill -9 $$'", str(project.root), "asked for by t")]


async def test_all_of_a_long_output_arrives(project):
    project.code(
        "t",
        body(
            """
            const { stdout, truncated } = await platform.executor.execute("seq 200000");
            return [stdout.length, stdout.slice(-8), truncated];
            """
        ),
    )
    assert await project.value("t") == [1288895, "\n200000\n", False]


@pytest.mark.row("E35", "E78")
async def test_only_commands_of_the_allowlist_may_be_asked_for(project):
    commands = [
        "yarn test x", "npm test", "vitest run", "npm test; rm -rf .", "yarn install",
        "npm test && yarn install", "npm test $(yarn install)", "npm test > out.txt",
    ]  # fmt: skip
    tries = ", ".join(
        f"await tried(async () => (await platform.executor.execute({command!r})).exitCode)"
        for command in commands
    )
    tries += ", await tried(() => platform.executor.execute('yarn', ['install']))"
    tries += ", await tried(() => platform.executor.execute('npm', ['test; rm -rf .']))"
    programs = project.root.parent / "bin"
    programs.mkdir()
    for name in ("yarn", "npm", "vitest"):
        (programs / name).write_text("#!/bin/sh\necho ran >> ran.txt\n")
        (programs / name).chmod(0o755)
    project.path(programs)
    allowlist = ["yarn test*", "npm test*", "vitest*"]
    project.code("t", body(f"return [{tries}];"), permissions={"allowlist": allowlist})
    answers = await project.value("t")
    assert answers[:3] == [0, 0, 0]
    assert len(answers) == 10
    for answer in answers[3:]:
        assert answer.startswith("Error: t may not run `"), answer
        assert "its allowlist has only yarn test*, npm test*, vitest*" in answer
    assert len(project.person.asked) == 3


async def test_an_empty_allowlist_allows_nothing(project):
    project.code(
        "t", body("return tried(() => platform.executor.execute('true'));"),
        permissions={"allowlist": []},
    )  # fmt: skip
    assert "its allowlist has only none" in (await project.call("t")).text


@pytest.mark.row("E5", "E67", "E147")
async def test_rules_of_the_person_hold_for_what_a_program_asks(project):
    (project.root / "keys.txt").write_text("canary")
    project.rule(Verdict.DENY, "run_command(rm:*)")
    project.rule(Verdict.DENY, "read_file(keys.txt)")
    project.rule(Verdict.ALLOW, "run_command(echo:*)")
    project.code(
        "t",
        body(
            """
            return [
              await tried(() => platform.executor.execute("rm", ["x"])),
              await tried(() => platform.fs.readFile("keys.txt")),
              (await platform.executor.execute("echo hi")).stdout,
            ];
            """
        ),
    )
    removed, read, echoed = await project.value("t")
    assert removed.startswith("Error: Permission denied by the rule run_command(rm:*)")
    assert read.startswith("Error: Permission denied by the rule read_file(keys.txt)")
    assert echoed == "hi\n"
    assert project.person.asked == []


async def test_a_rule_for_the_tool_allows_none_of_its_commands(project):
    project.person.answer = Answer(Choice.NO, "use another")
    project.code("t", body("return tried(() => platform.executor.execute('touch', ['x']));"))
    result = await project.call("t")
    assert "the user refused this call; nothing was done. The user says: use another" in result.text
    assert not (project.root / "x").exists()


async def test_a_bare_no_ends_the_program_and_the_turn(project):
    project.person.answer = Answer(Choice.NO)
    project.code(
        "t", body("await tried(() => platform.executor.execute('touch x')); while (true) {}")
    )
    result = await project.call("t")
    assert (result.outcome, result.stop_turn) == (Outcome.DENIED, True)
    assert not (project.root / "x").exists()


async def test_a_secret_asks_even_to_be_read(project):
    (project.root / ".env").write_text("KEY=canary")
    project.person.answer = Answer(Choice.NO, "no")
    project.code("t", body("return tried(() => platform.fs.readFile('.env'));"))
    result = await project.call("t")
    assert "canary" not in result.text
    assert len(project.person.asked) == 1


async def test_in_auto_sandbox_a_program_runs_without_a_question_and_its_wishes_are_judged(
    tmp_path,
):
    project = CodeProject(tmp_path)
    project.gate.mode = Mode.AUTO_SANDBOX
    project.executor.ask_model = lambda system, text: asyncio.sleep(0, "answer")
    project.code(
        "t",
        """
        export async function execute(args, { platform, llm }) {
          await platform.fs.writeFile("a.txt", "x");
          await platform.executor.execute("touch", ["b.txt"]);
          return llm.complete("why?");
        }
        """,
    )
    assert (await project.call("t")).text == "answer"
    # Without a sandbox for commands in the settings of this test, the command asks.
    titles = [question.invocation.title for question in project.person.asked]
    assert titles[-1] == "t: Ask the model"
    assert "t: Write a.txt" not in titles
    assert not [title for title in titles if not title.startswith("t: ")]


async def test_in_plan_mode_nothing_runs(project):
    project.gate.mode = Mode.PLAN
    project.code("t", body("return 1;"))
    assert "plan mode" in (await project.call("t")).text


async def test_what_a_program_asks_is_told_as_calls_of_its_own(project):
    project.code("t", body("return (await platform.executor.execute('echo', ['hi'])).stdout;"))
    await project.call("t")
    told = [
        (type(event), event.call.id, event.call.name)
        for event in project.events
        if isinstance(event, CallProposed | CallDecided | CallStarted | CallFinished)
    ]
    kinds = [CallProposed, CallDecided, CallStarted]
    assert told == [
        *((kind, "call_1", "t") for kind in kinds),
        *((kind, "call_1/1", "run_command") for kind in [*kinds, CallFinished]),
        (CallFinished, "call_1", "t"),
    ]


async def test_calls_at_the_same_time_run_at_the_same_time(project):
    project.rule(Verdict.ALLOW, "run_command")
    os.mkfifo(project.root / "pipe")
    project.code(
        "t",
        body(
            """
            const run = (line) => platform.executor.execute(line);
            const [, read] = await Promise.all([run("echo met > pipe"), run("cat pipe")]);
            return read.stdout;
            """
        ),
    )
    assert (await project.call("t")).text == "met\n"


async def test_the_time_of_a_command_is_not_that_of_the_program(project):
    project.rule(Verdict.ALLOW, "run_command")
    project.limit(1500)
    project.code(
        "t", body("for (let i = 0; i < 3; i++) await platform.executor.execute('sleep 1');")
    )
    assert (await project.call("t")).outcome is Outcome.OK


@BOTH
async def test_wishes_that_make_no_sense_are_errors_of_the_program(project, runtime):
    wishes = [
        "fs.readFile(5)", "fs.readFile()", "fs.readFile('')", "fs.readFile('a', 'latin1')",
        "fs.readFile('a\\u0000b')", "fs.writeFile('a', {})",
        "fs.glob(3)", "executor.execute()", "executor.execute('')",
        "executor.execute('ls', 'x')", "executor.execute('ls', [1])",
        "executor.execute({command: 'ls', timeout: -1})",
        "executor.execute({command: 'ls', cwd: 'none'})", "executor.execute('ls\\u0000')",
    ]  # fmt: skip
    tries = ", ".join(f"await tried(() => platform.{wish})" for wish in wishes)
    project.code("t", body(f"return [{tries}];"), runtime)
    answers = await project.value("t")
    assert [answer for answer in answers if not str(answer).startswith("Error: ")] == []
    assert not (project.root / "a").exists()
