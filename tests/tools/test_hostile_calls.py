"""The worst a model can send, through the real executor: one clear answer each, soon.

Everything here runs without permissions: what is written must lie in the test's own directory.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import socket
import time
from dataclasses import replace

import pytest

from tests.support.bench import BUILTINS
from tests.support.custom_tools import Project
from tests.support.soon import SOON_S
from tools.definition import Outcome, ToolCall
from tools.permissions.question import Answer, Choice
from tools.permissions.rules import Verdict

READERS = ("read_file", "file_search", "file_operations")


@pytest.fixture
def project(tmp_path):
    project = Project(tmp_path / "proj", builtins=BUILTINS)
    project.root.mkdir()
    project.gate.skip_permissions = True
    for name in ("bash_execution", "file_operations"):
        project.registry.switch(name, True)
    (project.root / "a.py").write_text("one\n")
    return project


async def send(project, name, text):
    """Send one call with arguments as raw text and return its result."""
    batch = project.executor.batch([ToolCall("c1", name, text)], project.events.append)
    started = time.monotonic()
    (result,) = await batch.run()
    assert time.monotonic() - started < SOON_S
    assert result.text
    assert "The tool failed" not in result.text
    assert "Traceback" not in result.text
    assert "\x1b" not in result.text
    return result


def arguments(name, path):
    extra = {"read_file": {}, "file_search": {"pattern": "a"}, "file_operations": {
        "operation": "read"}, "write_file": {"content": "x"}, "edit_file": {
        "old_string": "a", "new_string": "b"}, "run_command": {"command": "true"}}  # fmt: skip
    key = "workdir" if name == "run_command" else "path"
    return json.dumps({key: path, **extra[name]})


DEEP = "[" * 10_000 + "]" * 10_000


@pytest.mark.parametrize("name", sorted(BUILTINS))
@pytest.mark.parametrize("text", [
    DEEP, '{"path":' + DEEP + "}", '{"a":' * 10_000 + "1" + "}" * 10_000, "\0", "NaN", "[]", '"x"',
    '{"path":"' + "x" * 2_000_000, '{"command":' + "9" * 100_000 + "}",
    '{"path":"\\ud800","command":7,"pattern":[],"operation":{}}',
    '{"limit":1e400,"offset":1e400,"timeout":1e400,"path":"no"}',
    '{"limit":"' + "9" * 400 + '","offset":-99999999999999999999,"path":"no","timeout":"' + "9" * 9
    + '","pattern":"","command":"","operation":"read","content":1}',
], ids=lambda text: text[:20])  # fmt: skip
async def test_arguments_of_no_use_get_one_clear_error(project, name, text):
    assert (await send(project, name, text)).outcome is Outcome.ERROR


@pytest.mark.parametrize("name", [
    "read_file", "write_file", "edit_file", "file_search", "file_operations", "run_command",
])  # fmt: skip
@pytest.mark.parametrize("path", [
    "a\0b", "x" * 5000, "/" + "x/" * 3000, "loop", "loop/x", "a.py/x", "",
    "\\\\?\\C:\\x", "no/" * 60, "fifo", "sock",
], ids=lambda path: path[:12])  # fmt: skip
async def test_paths_that_name_no_file_get_one_clear_error(project, name, path):
    (project.root / "loop").symlink_to("loop")
    os.mkfifo(project.root / "fifo")
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(project.root / "sock"))
        if (name == "write_file" and path == "no/" * 60) or (
            not path and name in ("file_search", "run_command")
        ):
            return
        result = await send(project, name, arguments(name, path))
    assert result.outcome is Outcome.ERROR
    assert len(result.text) < 12_000


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("path", [
    "/proc/self/environ", "/proc/self/mem", "/proc/kmsg", "/proc/self/fd/0", "/dev/zero",
    "/dev/tty", "/proc/self/task/self/environ", "/proc/self/pagemap",
])  # fmt: skip
async def test_devices_and_the_memory_of_processes_are_refused_fast(project, name, path):
    started = time.monotonic()
    result = await send(project, name, arguments(name, path))
    assert result.outcome is Outcome.ERROR
    assert time.monotonic() - started < SOON_S


async def test_a_tool_that_fails_while_it_is_prepared_costs_one_call(project, tmp_path):
    def prepare(call, services):
        raise OSError(36, "x" * 5000)

    broken = Project(tmp_path, builtins=BUILTINS | {
        "git": replace(BUILTINS["git"], prepare=prepare)})  # fmt: skip
    first, second = await broken.calls(("git", {"operation": "log"}), ("file_search", {
        "pattern": "zzz"}))  # fmt: skip
    assert first.outcome is Outcome.ERROR
    assert len(first.text) < 2000
    assert second.success


async def test_a_file_of_five_gigabytes_is_never_read_whole(project):
    with open(project.root / "big", "wb") as file:
        file.truncate(5 << 30)
    for name in ("read_file", "edit_file", "write_file", "file_search", "file_operations"):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        await send(project, name, arguments(name, "big"))
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 * 1024, name
    assert (project.root / "big").stat().st_size == 5 << 30


async def test_names_and_contents_with_control_characters_come_out_plain(project):
    name = "a\nb\x1b[2J.py"
    (project.root / name).write_text("\x1b]0;evil\x07\x1b[2Jhi \x9b31m\n")
    for tool in READERS:
        assert (await send(project, tool, arguments(tool, name))).success
    found = await send(project, "file_search", '{"pattern": "*", "mode": "glob"}')
    assert "a\\nb\\x1b[2J.py" in found.text
    shown = await send(project, "read_file", json.dumps({"path": "a\\nb\\x1b[2J.py"}))
    assert "1\thi" in shown.text, "a name is understood as it was shown"


@pytest.mark.parametrize(("content", "old"), [
    ("x" * 2_000_000, "x" * 1_000_000), ("x\n" * 500_000, "x"), ("x \n" * 500_000, "x\ty"),
    ("x\n" * 100_000, "  x\n" * 2000 + "  y\n"),
], ids=["overlapping", "many lines", "nowhere", "shifted"])  # fmt: skip
async def test_an_edit_of_text_that_repeats_itself_ends_soon(project, content, old):
    (project.root / "r.txt").write_text(content)
    await send(project, "read_file", '{"path": "r.txt", "limit": 1}')
    result = await send(project, "edit_file", json.dumps(
        {"path": "r.txt", "old_string": old, "new_string": "z"}))  # fmt: skip
    assert result.outcome is Outcome.ERROR
    if old in content:
        assert "more than 100 times" in result.text
    assert (project.root / "r.txt").read_text() == content


@pytest.mark.parametrize("pattern", [
    {"pattern": "(" * 5000 + ")" * 5000}, {"pattern": "(a+)+$", "mode": "regex"},
    {"pattern": "x" * 100_000}, {"pattern": "{a,b}" * 30, "mode": "glob"},
    {"pattern": "**/" * 500, "mode": "glob"}, {"pattern": "*a" * 300, "mode": "glob"},
    {"pattern": "[", "mode": "glob"}, {"pattern": "a\0b"}, {"pattern": "\ud800"},
    {"pattern": "a{1000}{1000}{1000}", "mode": "regex"},
], ids=lambda case: case["pattern"][:12])  # fmt: skip
async def test_patterns_meant_to_hang_do_not(project, pattern):
    (project.root / "b.txt").write_text("a" * 50_000 + "!\n")
    await send(project, "file_search", json.dumps(pattern))


@pytest.mark.row("E149")
@pytest.mark.parametrize(("command", "outcome", "text"), [
    ("trap '' TERM; echo t; while :; do sleep 1; done", Outcome.TIMED_OUT, "t\n[timed out"),
    ("(sleep 600 | cat)", Outcome.TIMED_OUT, "[timed out"),
    ("kill -STOP $$", Outcome.TIMED_OUT, "[timed out"),
    ("sleep 600 & disown; echo bg", Outcome.OK, "bg"),
    ("exec 1>&- 2>&-; sleep 0.1", Outcome.OK, "(no output)"),
    ("cat; read x; echo done", Outcome.OK, "done"),
    ("kill -9 $$", Outcome.ERROR, "SIGKILL"),
    ("printf '\\033[2J\\033]0;t\\007'", Outcome.OK, "(no output)"),
    ("yes", Outcome.TIMED_OUT, "bytes left out"),
    ("head -c 300000 /dev/urandom", Outcome.OK, "bytes left out"),
])  # fmt: skip
async def test_commands_that_do_not_end_well_end(project, command, outcome, text):
    call = json.dumps({"command": command, "timeout": 1})
    result = await send(project, "run_command", call)
    assert result.outcome is outcome
    assert text in result.text


@pytest.mark.parametrize("command", ["(" * 20_000, "$(" * 20_000, "`" * 9999, "'" * 9999, "{" * 9])
async def test_shell_text_without_sense_is_the_shells_error(project, command):
    project.rule(Verdict.DENY, "run_command(rm:*)")
    project.gate.skip_permissions = False
    assert (await send(project, "run_command", json.dumps({"command": command}))).text
    assert len(project.person.asked) == 1


async def test_processes_multiplying_without_end_stop_at_the_deadline(project):
    # A chain that always has one live member, each started by the one before it.
    (project.root / "chain.sh").write_text("sleep 0.05; sh ./chain.sh & exit 0\n")
    result = await send(
        project, "run_command", '{"command": "sh ./chain.sh; sleep 9", "timeout": 1}'
    )
    assert result.outcome is Outcome.TIMED_OUT
    (project.root / "chain.sh").write_text("touch ./still-running\n")
    await asyncio.sleep(2.2)
    (project.root / "chain.sh").write_text("exit 0\n")
    assert not (project.root / "still-running").exists()


async def test_three_hundred_calls_of_one_message_run_with_few_descriptors(project):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    try:
        results = await project.calls(
            *[("run_command", {"command": f"echo {number}"}) for number in range(300)]
        )
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert [result.text for result in results] == [str(number) for number in range(300)]


@pytest.mark.parametrize("name", ["read_file", "file_search", "edit_file", "file_operations"])
async def test_a_directory_swapped_for_a_link_after_the_question_is_not_followed(
    project, tmp_path, name
):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/x.txt").write_text("secret a\n")
    (project.root / "d").mkdir()
    (project.root / "d/x.txt").write_text("one a\n")

    class Swapping:
        async def ask(self, request):
            (project.root / "d").rename(project.root / "old")
            (project.root / "d").symlink_to(tmp_path / "outside")
            return Answer(Choice.ONCE)

    project.gate.skip_permissions, project.gate.approver = False, Swapping()
    project.rule(Verdict.ASK, "read_file(d/**)")
    result = await send(project, name, arguments(name, "d/x.txt"))
    assert result.outcome is Outcome.ERROR
    assert "link" in result.text
    assert "secret" not in result.text
    assert (tmp_path / "outside/x.txt").read_text() == "secret a\n"
