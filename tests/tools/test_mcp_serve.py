"""`opta mcp serve`: the same tools, gate and journal for an MCP client, the official SDK's."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.support.cli import OPTA, lines, opta
from tests.support.mcp_client import MODES, Person, names, refused, served, text
from tests.support.processes import group_is_gone
from tests.support.soon import SOON_S, soon
from tests.support.team import configure_team, write_tools
from tools import storage

GREET = """\
name: greet
description: Greet somebody.
parameters:
  NAME: {type: string, description: Whom., required: true}
bash: printf 'hello %s' "{NAME}"
"""
WAITS = "name: waits\ndescription: d\nbash: 'echo $$ > pid; echo begun; sleep 600; :'\n"
NASTY = "'\"`$(touch made); & | < > * ? ~ # \\ \n -x {NAME}"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    define(tmp_path, greet=GREET, waits=WAITS)
    return tmp_path


def define(root: Path, **files: str) -> None:
    tools = root / ".opta" / "tools"
    tools.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (tools / f"{name}.yaml").write_text(content)


def journal() -> list[dict]:
    (path,) = (storage.state_dir() / "sessions").glob("*/*.jsonl")
    return lines(path.read_text())


async def group_in(path: Path) -> int:
    await soon(lambda: path.exists() and path.read_text().strip())
    return int(path.read_text())


@pytest.mark.parametrize("mode", MODES)
async def test_a_client_lists_the_tools_and_calls_them_with_any_value(project, mode):
    async with served(project, "--trust", "--allow", "greet", mode=mode) as client:
        assert client.server_info.name == "opta"
        assert client.server_capabilities.tools.list_changed
        listed = (await client.list_tools()).tools
        assert [tool.name for tool in listed] == ["greet", "waits"]
        assert listed[0].description == "Greet somebody."
        assert listed[0].input_schema["required"] == ["NAME"]
        assert listed[0].meta["opta/tokens"] > 20
        assert await text(client, "greet", {"NAME": NASTY}) == f"hello {NASTY}"
        assert "$.NAME: missing" in await refused(client, "greet", {"name": "x"})
        with pytest.raises(Exception, match="Unknown tool: run_command"):
            await client.call_tool("run_command", {"command": "id"})
    assert not (project / "made").exists()


@pytest.mark.parametrize("mode", MODES)
async def test_r30_the_person_before_the_client_is_asked_and_only_a_plain_yes_is_one(project, mode):
    person = Person("no", "decline", "cancel", "maybe", "once", "session")
    async with served(project, "--trust", mode=mode, person=person) as client:
        for _ in range(4):
            said = await refused(client, "greet", {"NAME": "$(id)\x1b[2K"})
            assert said.startswith("Permission denied: the user refused this call")
        assert await text(client, "greet", {"NAME": "you"}) == "hello you"
        assert await text(client, "greet", {"NAME": "you"}) == "hello you"
        assert await text(client, "greet", {"NAME": "them"}) == "hello them"
    assert len(person.asked) == 6
    assert person.choices[0] == ["no", "once", "session"]
    question = person.asked[0]
    assert question.startswith("Call greet?\n")
    assert "$ printf 'hello %s'" in question
    assert "$(id)" in question
    assert "\x1b" not in question
    decided = [event for event in journal() if event["type"] == "decided"]
    assert [event["allowed"] for event in decided] == [False] * 4 + [True] * 3
    assert decided[4]["by"] == "you (once)"


BUILD = """\
name: build
description: d
schema: {type: object, properties: {}}
code: |
  export async function execute(args, { platform }) {
    return (await platform.executor.execute("touch", ["built"])).exitCode;
  }
"""


async def test_the_person_before_the_client_is_asked_for_what_a_program_asks(project):
    define(project, build=BUILD)
    person = Person("once", "once")
    async with served(project, "--trust", mode=MODES[0], person=person) as client:
        assert await text(client, "build") == "0"
    assert (project / "built").exists()
    assert "touch built" in person.asked[1]
    calls = [event["call"]["name"] for event in journal() if event["type"] == "finished"]
    assert calls == ["run_command", "build"]
    messages = [event for event in journal() if event["type"] == "assistant"]
    assert len(messages) == 1


@pytest.mark.parametrize("mode", MODES)
async def test_where_nobody_can_be_asked_the_answer_says_which_rule_would_do(project, mode):
    async with served(project, "--trust", mode=mode) as client:
        said = await refused(client, "greet", {"NAME": "x"})
        assert "nobody is there to be asked" in said
        assert said.endswith("Only the user can allow it, with a rule: "
                             "opta permissions add allow greet")  # fmt: skip
        assert opta("permissions", "add", "allow", "greet", cwd=project).returncode == 0
        deadline = time.monotonic() + SOON_S
        while (result := await client.call_tool("greet", {"NAME": "x"})).is_error:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.1)
        assert result.content[0].text == "hello x"


async def test_r8_a_deny_rule_holds_and_nobody_is_asked(project):
    person = Person()
    flags = ("--trust", "--deny", "greet", "--dangerously-skip-permissions")
    async with served(project, *flags, person=person) as client:
        said = await refused(client, "greet", {"NAME": "x"})
    assert said.startswith("Permission denied by the rule greet")
    assert person.asked == []


async def test_hooks_are_told_of_what_a_client_calls_and_may_deny_it(project, tmp_path):
    config = storage.config_dir() / "config.yml"
    config.parent.mkdir(parents=True, exist_ok=True)
    no = {"command": ["sh", "-c", "echo not today >&2; exit 2"], "tools": ["waits"]}
    told = ["sh", "-c", f"cat >> {tmp_path}/told"]
    config.write_text(json.dumps({"tool_hook_command": told, "pre_tool_hooks": [no]}))
    async with served(project, "--trust", "--allow", "greet", "--allow", "waits") as client:
        assert await text(client, "greet", {"NAME": "you"}) == "hello you"
        assert "Permission denied by a hook of the user: not today" in await refused(
            client, "waits"
        )
    phases = [(t["phase"], t["tool_name"]) for t in lines((tmp_path / "told").read_text())]
    assert phases == [("before_execution", "greet"), ("after_execution", "greet")]


@pytest.mark.parametrize("mode", MODES)
async def test_calls_are_recorded_as_those_of_a_chat(project, mode):
    async with served(project, "--trust", "--allow", "greet", mode=mode) as client:
        await asyncio.gather(*(text(client, "greet", {"NAME": str(n)}) for n in range(5)))
    events = journal()
    assert events[0]["kind"] == "mcp"
    assert events[1]["text"] == "mcp calls greet"
    kinds = [event["type"] for event in events]
    assert {kind: kinds.count(kind) for kind in ("proposed", "decided", "started", "finished")} == {
        "proposed": 5, "decided": 5, "started": 5, "finished": 5,
    }  # fmt: skip
    listed = opta("sessions", "list", cwd=project)
    assert "mcp: mcp calls greet" in listed.stdout
    shown = opta("sessions", "show", events[0]["id"], "--format", "json", cwd=project)
    messages = json.loads(shown.stdout)["messages"]
    results = [message["text"] for message in messages if message["role"] == "tool"]
    assert sorted(results) == [f"hello {n}" for n in range(5)]


async def test_a_session_of_a_client_is_not_what_a_chat_or_a_job_goes_on_with(project):
    from agent.session import newest

    async with served(project, "--trust", "--allow", "greet") as client:
        await text(client, "greet", {"NAME": "x"})
    (path,) = (storage.state_dir() / "sessions").glob("*/*.jsonl")
    head, *rest = path.read_text().splitlines(keepends=True)
    older = path.with_name("200101-000000-aaaa.jsonl")
    older.write_text("".join([head.replace('"kind":"mcp"', '"kind":"batch"'), *rest]))
    os.utime(older, (1, 1))
    assert newest(project) == older


async def test_r23_tools_of_a_project_that_is_not_trusted_are_not_served(project, tmp_path):
    told = tmp_path / "told"
    async with served(project, errors=told) as client:
        assert await names(client) == []
        with pytest.raises(Exception, match="Unknown tool: greet"):
            await client.call_tool("greet", {"NAME": "x"})
    assert "this directory is not trusted: its own tools and settings are not" in told.read_text()


@pytest.mark.parametrize("mode", MODES)
async def test_r25_a_tool_that_changes_is_not_served_until_it_is_trusted_again(project, mode):
    heard: list[str] = []

    async def on_message(message):
        heard.append(type(message).__name__)

    async with served(project, "--trust", "--allow", "greet", mode=mode,
                      on_message=on_message) as client:  # fmt: skip
        assert "greet" in await names(client)
        if mode == "auto":
            async with client.listen(tools_list_changed=True) as changes:
                define(project, greet=GREET.replace("hello", "goodbye"))
                async with asyncio.timeout(SOON_S):
                    event = await anext(aiter(changes))
            assert type(event).__name__ == "ToolsListChanged"
        else:
            define(project, greet=GREET.replace("hello", "goodbye"))
            await soon(lambda: "ToolListChangedNotification" in heard)
        assert await names(client) == []


async def test_a_tool_of_the_users_own_is_read_again_when_it_changes(tmp_path):
    tools = storage.config_dir() / "tools"
    tools.mkdir(parents=True)
    (tools / "greet.yaml").write_text(GREET)
    async with served(tmp_path, "--allow", "greet") as client:
        assert await text(client, "greet", {"NAME": "x"}) == "hello x"
        (tools / "greet.yaml").write_text(GREET.replace("hello", "good day"))
        (tools / "more.yaml").write_text(GREET.replace("name: greet", "name: more"))
        assert await names(client) == ["greet", "more"]
        assert await text(client, "greet", {"NAME": "x"}) == "good day x"


async def test_what_the_team_takes_back_leaves_the_list(tmp_path):
    shared = write_tools(tmp_path / "shared", scan="echo scanned")
    configure_team(directory=str(shared))
    for words in (["sync"], ["accept", "--yes"]):
        assert opta("team", *words).returncode == 0
    heard: list[str] = []

    async def on_message(message):
        heard.append(type(message).__name__)

    async with served(tmp_path, on_message=on_message) as client:
        assert await names(client) == ["scan"]
        (shared / "scan.json").unlink()
        await soon(lambda: "ToolListChangedNotification" in heard)
        assert await names(client) == []


async def test_a_tool_that_is_switched_off_leaves_the_list_at_once(tmp_path):
    tools = storage.config_dir() / "tools"
    tools.mkdir(parents=True)
    (tools / "greet.yaml").write_text(GREET)
    heard: list[str] = []

    async def on_message(message):
        heard.append(type(message).__name__)

    async with served(tmp_path, on_message=on_message) as client:
        assert await names(client) == ["greet"]
        assert opta("tools", "disable", "greet", cwd=tmp_path).returncode == 0
        await soon(lambda: "ToolListChangedNotification" in heard)
        assert await names(client) == []
        assert opta("tools", "enable", "greet", cwd=tmp_path).returncode == 0
        assert await names(client) == ["greet"]


async def test_tools_are_chosen_by_name_and_built_in_ones_only_so(project, tmp_path):
    async with served(project, "--trust", "--tools", "gr*", "--tools", "read_file") as client:
        assert await names(client) == ["read_file", "greet"]
        (project / "notes.txt").write_text("the notes")
        assert "the notes" in await text(client, "read_file", {"path": "notes.txt"})
        (project / ".env").write_text("KEY=1")
        assert "nobody is there to be asked" in await refused(client, "read_file", {"path": ".env"})
        outside = await refused(client, "read_file", {"path": "/etc/hostname"})
        assert "Permission denied" in outside
    told = tmp_path / "told"
    async with served(project, "--trust", "--tools", "nothing*", errors=told) as client:
        assert await names(client) == []
    assert "no tool that is on has a name like 'nothing*'" in told.read_text()


async def test_more_tools_are_served_than_a_chat_offers(tmp_path):
    define(tmp_path, **{f"t{n}": GREET.replace("greet", f"t{n:02}") for n in range(30)})
    async with served(tmp_path, "--trust") as client:
        assert len(await names(client)) == 30


@pytest.mark.parametrize("mode", MODES)
async def test_output_is_passed_on_as_progress_while_the_call_runs(project, mode):
    heard: list[str] = []
    go_on = project / "go-on"

    async def progress(done, total, message):
        heard.append(message)
        if message == "first":
            go_on.touch()

    define(project, slow="name: slow\ndescription: d\n"
           "bash: echo first; until test -e go-on; do sleep 0.02; done; echo second\n")  # fmt: skip
    async with served(project, "--trust", "--allow", "slow", mode=mode) as client:
        result = await client.call_tool("slow", {}, progress_callback=progress)
        assert result.content[0].text == "first\nsecond"
    assert heard[0] == "first"


async def test_r43_output_is_bounded(project):
    define(project, big="name: big\ndescription: d\nbash: yes line | head -c 20000000\n")
    async with served(project, "--trust", "--allow", "big") as client:
        assert len(await text(client, "big")) < 100_000


async def test_r39_the_key_of_the_model_is_not_in_what_a_tool_prints(project, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary-1234567890")
    define(project, leaks="name: leaks\ndescription: d\n"
           "bash: echo sk-canary-$((1234567889 + 1)) $OPENAI_API_KEY.\n")  # fmt: skip
    async with served(project, "--trust", "--allow", "leaks") as client:
        said = await text(client, "leaks")
    assert "canary" not in said
    assert "sk-canary-1234567890" not in json.dumps(journal())


@pytest.mark.parametrize("mode", MODES)
async def test_r44_a_call_that_the_client_cancels_ends_with_all_it_started(project, mode):
    async with served(project, "--trust", "--allow", "waits", mode=mode) as client:
        call = asyncio.create_task(client.call_tool("waits", {}))
        group = await group_in(project / "pid")
        call.cancel()
        await soon(lambda: group_is_gone(group))
        assert await names(client) == ["greet", "waits"]
    finished = [event for event in journal() if event["type"] == "finished"]
    assert finished[0]["result"]["outcome"] == "cancelled"


class Raw:
    """The server as a process, talked to by hand: what is on its streams, and how it ends."""

    def __init__(self, root: Path, *flags: str) -> None:
        self.process = subprocess.Popen(
            [*OPTA, "mcp", "serve", "--trust", *flags], cwd=root, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def __enter__(self) -> Raw:
        self.send("initialize", 1, protocolVersion="2025-06-18", capabilities={},
                  clientInfo={"name": "raw", "version": "1"})  # fmt: skip
        assert self.receive()["result"]["serverInfo"]["name"] == "opta"
        self.write(json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}))
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()

    def send(self, method: str, id_: int, **params: object) -> None:
        self.write(json.dumps({"jsonrpc": "2.0", "id": id_, "method": method, "params": params}))

    def write(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    def receive(self) -> dict:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def end(self) -> tuple[int, str, str]:
        out, told = self.process.communicate(timeout=SOON_S)
        return self.process.returncode, out, told


@pytest.mark.parametrize("how", ["closed", signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
async def test_r44_when_the_client_leaves_or_a_signal_comes_everything_ends(project, how):
    with Raw(project, "--allow", "waits") as server:
        server.send("tools/call", 2, name="waits", arguments={})
        group = await group_in(project / "pid")
        if how == "closed":
            server.process.stdin.close()
            server.process.stdin = None
        else:
            server.process.send_signal(how)
        code, out, told = server.end()
    await soon(lambda: group_is_gone(group))
    assert code == (0 if how == "closed" else 130)
    assert "Traceback" not in told
    assert all(json.loads(line)["jsonrpc"] == "2.0" for line in out.splitlines())
    events = journal()
    assert events[-1]["type"] == "end"
    (finished,) = [event for event in events if event["type"] == "finished"]
    assert finished["result"]["outcome"] == "cancelled"


async def test_standard_output_holds_messages_and_nothing_else(project):
    define(project, loud="name: loud\ndescription: d\nbash: echo to out; echo to err >&2; cat\n")
    with Raw(project, "--allow", "loud") as server:
        server.write("this is no message")
        server.write("")
        server.write('{"jsonrpc": "2.0", "id": 9, "method": "no/such"}')
        server.send("tools/call", 2, name="loud", arguments={})
        answers = [server.receive() for _ in range(2)]
        server.process.stdin.close()
        server.process.stdin = None
        code, out, _ = server.end()
    assert code == 0
    assert out == ""
    by_id = {answer.get("id"): answer for answer in answers}
    assert by_id[9]["error"]["code"] == -32601
    assert by_id[2]["result"]["content"][0]["text"].startswith("to out")


async def test_a_message_that_never_ends_ends_the_connection(project):
    with Raw(project) as server:
        with contextlib.suppress(BrokenPipeError):
            server.process.stdin.write("x" * (16 << 20))
        with contextlib.suppress(BrokenPipeError):
            server.process.stdin.close()
        server.process.stdin = None
        _, out, told = server.end()
    assert out == ""
    assert "the client sent a message of more than 8 MiB: its connection is closed" in told


async def test_r30_no_call_goes_on_without_the_answer_to_its_own_question(project):
    """Where a question is a result, a client comes back with it: with nothing else it gets on."""
    from mcp import types

    async def never(context, params):
        raise AssertionError("the test answers by hand")

    yes = {"permission": types.ElicitResult(action="accept", content={"answer": "once"})}
    async with served(project, "--trust", mode="auto", person=never) as client:
        call = client.session.call_tool

        async def asked(name_in_question):
            first = await call("greet", {"NAME": name_in_question}, allow_input_required=True)
            assert first.result_type == "input_required"
            return first.request_state

        state = await asked("a")
        for name, arguments, given in (
            ("greet", {"NAME": "b"}, state),
            ("waits", {}, state),
            ("greet", {"NAME": "a"}, "made-up"),
        ):
            with pytest.raises(Exception, match="No such call waits for an answer"):
                await call(name, arguments, input_responses=yes, request_state=given,
                           allow_input_required=True)  # fmt: skip
        result = await call("greet", {"NAME": "a"}, input_responses=yes, request_state=state)
        assert result.content[0].text == "hello a"
        with pytest.raises(Exception, match="No such call waits for an answer"):
            await call("greet", {"NAME": "a"}, input_responses=yes, request_state=state)
        result = await call("greet", {"NAME": "c"}, input_responses={},
                            request_state=await asked("c"))  # fmt: skip
        assert result.is_error
        await asked("left alone")
    assert [e["result"]["outcome"] for e in journal() if e["type"] == "finished"] == [
        "ok", "denied", "cancelled",
    ]  # fmt: skip
