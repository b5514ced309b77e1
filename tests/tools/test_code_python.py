"""Tools whose program is in Python: the same calls, the same walls."""

from __future__ import annotations

import pytest

from tests.support.code_tools import CodeProject
from tools.definition import Outcome
from tools.events import CallOutput
from tools.permissions.rules import Verdict


@pytest.fixture
def project(tmp_path):
    project = CodeProject(tmp_path / "work")
    project.root.mkdir()
    project.rule(Verdict.ALLOW, "t")
    return project


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("def execute(args, context):\n    return args['a'] + '!'", "é!"),
        ("async def execute(args, context):\n    return args['a'] + '!'", "é!"),
        ("execute = lambda args, context: [args['a']]", '[\n  "é"\n]'),
        ("def execute(args, context):\n    pass", "(no output)"),
    ],
)
async def test_a_function_or_a_coroutine_is_run(project, code, text):
    project.code("t", code, "python", {"a": {"type": "string"}})
    assert (await project.call("t", a="é")).text == text


async def test_files_commands_and_logs(project):
    project.rule(Verdict.ALLOW, "write_file")
    (project.root / "sub").mkdir()
    project.code(
        "t",
        """
        async def execute(args, context):
            fs, run = context.platform.fs, context.platform.executor.execute
            context.logger.info("one")
            fs.write_file("a.txt", "b")
            done = run("pwd", [], cwd="sub")
            try:
                fs.read_file("../outside")
            except OSError as error:
                refused = str(error)
            return [
                fs.read_file("a.txt"), fs.exists("none"), fs.listdir("."), fs.glob("*.txt"),
                done.stdout, done.exit_code, run("exit 3").exit_code, refused,
                context.config.working_directory, context.conversation,
            ]
        """,
        "python",
    )
    assert await project.value("t") == [
        "b", False, [".mimir", "a.txt", "sub"], ["a.txt"], f"{project.root}/sub\n", 0, 3,
        f"{project.root.parent}/outside is outside the workspace: not allowed.",
        str(project.root), None,
    ]  # fmt: skip
    printed = [
        e.text for e in project.events if isinstance(e, CallOutput) and e.call_id == "call_1"
    ]
    assert printed == ["[INFO] one\n"]


@pytest.mark.parametrize(
    ("code", "line", "message"),
    [
        ("def execute(args, context):\n    inner()\n\ndef inner():\n    1 / 0", 5,
         "ZeroDivisionError: division by zero"),
        ("def execute(args, context):\n    return 1 +", 2, "SyntaxError: invalid syntax"),
    ],
)  # fmt: skip
async def test_an_error_names_the_line_in_the_tool_file(project, code, line, message):
    path = project.code("t", code, "python")
    first = path.read_text().splitlines().index("  def execute(args, context):") + 1
    result = await project.call("t")
    assert result.outcome is Outcome.ERROR
    assert result.text.startswith(f".mimir/tools/t.yml:{first + line - 1}: {message}")


@pytest.mark.parametrize("value", ["{1, 2}", "float('nan')", "context"])
async def test_a_result_that_is_not_json_fails(project, value):
    project.code("t", f"def execute(args, context):\n    return {value}", "python")
    result = await project.call("t")
    assert result.text.startswith("Tool execution failed: its result is not JSON: ")


async def test_without_the_function_it_says_so(project):
    project.code("t", "x = 1", "python")
    told = "tools/t.yml: TypeError: the code has no function execute(args, context)"
    assert told in (await project.call("t")).text
