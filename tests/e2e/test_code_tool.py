"""A tool with a program in a whole conversation: the program's calls, the model, the session."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.support.cli import lines, opta
from tests.support.model_server import ModelServer, call, error, say

TOOL = """\
name: survey
description: d
schema: {type: object, properties: {file: {type: string}}, required: [file]}
code: |
  export async function execute({ file }, { platform, llm, conversation, logger }) {
    logger.info("begun");
    const text = await platform.fs.readFile(file);
    const { stdout } = await platform.executor.execute("mkdir", ["-v", "made"]);
    const opinion = await llm.complete(`What of ${text}?`, { system: "Be brief." });
    return { text, stdout, opinion, id: conversation.id, at: conversation.workingDirectory };
  }
"""
ALLOWED = ("--allow", "survey", "--allow", "run_command(mkdir:*)", "--allow", "llm")
JSON = ("--output-format", "stream-json", "--trust")


@pytest.fixture
def project(tmp_path):
    tools = tmp_path / "work" / ".mimir" / "tools"
    tools.mkdir(parents=True)
    (tools / "survey.yml").write_text(TOOL)
    (tmp_path / "work" / "a.txt").write_text("apples")
    return tmp_path / "work"


@pytest.mark.row("E3", "E11", "E59", "E62", "E67")
def test_a_program_reads_runs_asks_the_model_and_answers(project):
    with ModelServer([call("survey", file="a.txt"), say("fine"), say("done")]) as server:
        ran = opta("-p", "go", *ALLOWED, *JSON, server=server, cwd=project)
        again = opta("-p", "on", "--continue", "--trust", server=server, cwd=project)
    assert ran.returncode == 0, ran.stderr
    _, asked, last, *_ = [request.json for request in server.requests]
    assert [message["content"] for message in asked["messages"]] == ["Be brief.", "What of apples?"]
    assert not asked.get("tools")
    events = lines(ran.stdout)
    result = json.loads(last["messages"][-1]["content"])
    assert result == {
        "text": "apples", "stdout": "mkdir: created directory 'made'\n", "opinion": "fine",
        "at": str(project), "id": events[-1]["session_id"],
    }  # fmt: skip
    assert events[-1]["requests"] == 3
    assert [event["call"]["name"] for event in events if event["type"] == "proposed"] == [
        "survey", "read_file", "run_command", "llm",
    ]  # fmt: skip
    # What a program asked for is no message: the history goes on with the tool's result alone.
    history = server.requests[-1].json["messages"]
    assert sum(message["role"] == "tool" for message in history) == 1, again.stderr


LOOK = """\
name: look
description: d
schema: {type: object, properties: {number: {type: integer}}, required: [number]}
code: |
  const shape = (value: unknown): unknown =>
    value === null || typeof value !== "object"
      ? (typeof value === "function" ? "function" : value)
      : Object.fromEntries(Object.entries(value).map(([name, part]) => [name, shape(part)]));
  export const execute = (args: { number: number }, context: object) =>
    ({ args, context: shape(context) });
"""


@pytest.mark.row("E10", "E52", "E59", "E61")
def test_a_program_is_given_its_arguments_and_this_context_and_nothing_said_before(project):
    (project / ".mimir" / "tools" / "look.yml").write_text(LOOK)
    with ModelServer([say("Noted."), call("look", number="3"), say("done")]) as server:
        opta("-p", "My dog is called Rex.", "--trust", server=server, cwd=project)
        ran = opta("-p", "go", "--continue", "--allow", "look", *JSON, server=server, cwd=project)
        assert "Rex" in json.dumps(server.requests[1].json["messages"])
    told = json.loads(server.requests[-1].json["messages"][-1]["content"])
    place = {"workingDirectory": str(project)}
    files = ("readFile", "writeFile", "exists", "readdir", "glob")
    assert told == {
        "args": {"number": 3},
        "context": {
            "config": place,
            "conversation": {"id": lines(ran.stdout)[-1]["session_id"], **place},
            "platform": {
                "fs": dict.fromkeys(files, "function"), "executor": {"execute": "function"},
            },
            "logger": dict.fromkeys(("info", "warn", "error"), "function"),
            "llm": {"complete": "function"},
        },
    }  # fmt: skip


@pytest.mark.row("E10")
def test_a_container_that_a_program_asks_for_is_a_command_like_any_other(project, tmp_path):
    (project / ".mimir" / "tools" / "box.yml").write_text(
        "name: box\ndescription: d\nschema: {type: object, properties: {}}\ncode: |\n"
        "  export const execute = async (args, { platform }) => (await\n"
        "    platform.executor.execute('docker', ['run', '--rm', 'alpine', 'id'])).stdout;\n"
    )
    docker = tmp_path / "bin" / "docker"
    docker.parent.mkdir()
    docker.write_text('#!/bin/sh\necho "ran $*"\n')
    docker.chmod(0o755)
    env = {**os.environ, "PATH": f"{docker.parent}:{os.environ['PATH']}"}
    told = []
    for rules in ((), ("--allow", "run_command(docker run:*)")):
        with ModelServer([call("box"), say("done")]) as server:
            flags = ("--trust", "--allow", "box", *rules)
            opta("-p", "go", *flags, server=server, cwd=project, env=env)
        told.append(server.requests[-1].json["messages"][-1]["content"])
    assert "Permission denied" in told[0]
    assert "ran" not in told[0]
    assert told[1] == "ran run --rm alpine id\n"


def with_settings(settings):
    """The environment, with these settings of the user's."""
    directory = Path(os.environ["XDG_CONFIG_HOME"]) / "opta"
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.yml").write_text(json.dumps(settings))
    return dict(os.environ)


def test_what_nobody_can_be_asked_about_is_refused(project):
    with ModelServer([call("survey", file="a.txt"), say("done")]) as server:
        ran = opta("-p", "go", "--allow", "survey", *JSON, server=server, cwd=project)
    told = server.requests[-1].json["messages"][-1]["content"]
    assert told.startswith(".mimir/tools/survey.yml:8: Error: Permission denied: ")
    assert "nobody is there to be asked" in told
    assert "[INFO] begun" in told
    assert [line for line in lines(ran.stdout) if line["type"] == "decided"][-1]["allowed"] is False


def test_a_model_that_refuses_is_an_error_of_the_program(project):
    refused = error(400, "no such model")
    with ModelServer([call("survey", file="a.txt"), refused, say("done")]) as server:
        opta("-p", "go", *ALLOWED, *JSON, server=server, cwd=project)
    told = server.requests[-1].json["messages"][-1]["content"]
    assert "survey.yml:9: Error: The model cannot be asked" in told


def test_by_hand_there_is_no_model_and_the_person_is_told_what_it_prints(project):
    ran = opta("tool", "run", "survey", "--param", "file=a.txt", "--trust", cwd=project)
    assert ran.returncode == 1
    assert "There is no model to ask here" in ran.stderr
    assert "[INFO] begun" in ran.stderr


def test_by_hand_the_result_is_output_and_prints_are_messages(project):
    (project / ".mimir" / "tools" / "count.yml").write_text(
        "name: count\ndescription: d\nschema: {type: object, properties: {}}\nruntime: python\n"
        "code: |\n  def execute(args, context):\n      print('looking')\n"
        "      try:\n          context.platform.executor.execute('rm', ['a.txt'])\n"
        "      except OSError as error:\n          print(error)\n"
        "      return len(context.platform.fs.read_file('a.txt'))\n"
    )
    deny = {"permissions": {"deny": ["run_command(rm:*)"]}}
    ran = opta("tool", "run", "count", "--trust", cwd=project, env=with_settings(deny))
    assert (ran.returncode, ran.stdout) == (0, "6\n")
    assert "looking" in ran.stderr
    assert "Permission denied by the rule run_command(rm:*)" in ran.stderr
