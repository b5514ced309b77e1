"""The scripted model: what it plays, and how it fails when a conversation leaves its script."""

from __future__ import annotations

import json
import re
import textwrap
from pathlib import Path

import pytest

from agent.messages import AssistantMessage, ToolMessage, UserMessage
from agent.model import scripted
from agent.model.base import (
    CallDelta,
    Delta,
    FailureKind,
    Finished,
    FinishReason,
    ModelClient,
    ModelError,
    ModelRequest,
    ReasoningDelta,
    TextDelta,
    UsageDelta,
)
from agent.model.factory import make_client
from agent.model.scripted import ScriptedModel, call, say
from tests.support.asking import collect
from tools.definition import ToolCall, ToolResult

MODELS_PAGE = Path(__file__).parents[2] / "docs" / "models.md"
HELLO = ModelRequest("system", [UserMessage("hello")])


async def play(model: ModelClient, request: ModelRequest = HELLO) -> list[Delta]:
    return [delta async for delta in model.stream(request)]


def load(tmp_path: Path, script: str, name: str = "script.yml") -> ModelClient:
    path = tmp_path / name
    path.write_text(script)
    return make_client(model=f"script:{path}", base_url="", api_key="")


async def test_text_streams_in_small_deltas_and_ends_with_usage():
    *pieces, usage, end = await play(ScriptedModel([say("Hello there", chunk=5)]))
    assert pieces == [TextDelta("Hello"), TextDelta(" ther"), TextDelta("e")]
    assert isinstance(usage, UsageDelta)
    assert usage.input > 0
    assert usage.output > 0
    assert end == Finished(FinishReason.STOP)


async def test_a_script_file_plays_text_reasoning_and_calls(tmp_path: Path):
    model = load(
        tmp_path,
        """
        - reasoning: Hm
          say: Look
          call: read_file
          arguments: {path: a.py, limit: 3}
        - calls:
            - tool: one
            - tool: two
              arguments_json: '{"bad'
        """,
    )
    first = await play(model)
    assert [type(delta) for delta in first[:3]] == [ReasoningDelta, TextDelta, CallDelta]
    assert isinstance(first[2], CallDelta)
    assert json.loads(first[2].arguments_json) == {"path": "a.py", "limit": 3}
    assert first[-1] == Finished(FinishReason.CALLS)
    calls = [delta for delta in await play(model) if isinstance(delta, CallDelta)]
    assert [(c.name, c.arguments_json) for c in calls] == [("one", "{}"), ("two", '{"bad')]


async def test_json_scripts_are_read_too(tmp_path: Path):
    model = load(tmp_path, '[{"say": "hi"}]', "script.json")
    assert (await play(model))[0] == TextDelta("hi")


async def test_call_ids_differ_from_those_of_a_resumed_conversation():
    before = ToolCall("call00001", "x", "{}")
    request = ModelRequest(
        "", [AssistantMessage("", (before,)), ToolMessage(before, ToolResult("r"))]
    )
    deltas = await play(ScriptedModel([say("", call("a"), call("b"))]), request)
    ids = [delta.id for delta in deltas if isinstance(delta, CallDelta)]
    assert len({before.id, *ids}) == 3


async def test_a_met_expectation_plays_on_and_looks_at_all_newest_results():
    made = ToolCall("1", "x", "{}")
    history = [
        UserMessage("go"),
        AssistantMessage("", (made,)),
        ToolMessage(made, ToolResult("2 failed")),
        ToolMessage(made, ToolResult("other")),
    ]
    deltas = await play(ScriptedModel([say("ok", expect=("2 failed",))]), ModelRequest("", history))
    assert deltas[0] == TextDelta("ok")


async def test_a_missed_expectation_fails_naming_turn_and_text():
    model = ScriptedModel([say("one"), say("two", expect=("2 failed",))], name="demo.yml")
    await play(model)
    with pytest.raises(ModelError, match=r"demo\.yml, turn 2, expects '2 failed'.*hello") as caught:
        await play(model)
    assert caught.value.kind is FailureKind.REJECTED
    assert not caught.value.transient


async def test_a_script_that_runs_out_fails_clearly():
    model = ScriptedModel([say("only")])
    await play(model)
    with pytest.raises(ModelError, match="has 1 turns and was asked for turn 2"):
        await play(model)


async def test_requests_are_recorded_as_they_were():
    model = ScriptedModel([say("a"), say("b")])
    messages = [UserMessage("one")]
    await play(model, ModelRequest("s", messages))
    messages.append(UserMessage("two"))
    assert [len(request.messages) for request in model.requests] == [1]


async def test_a_scripted_failure_comes_after_its_text():
    failure = ModelError(FailureKind.CUT, "cut", transient=True)
    asked = await collect(ScriptedModel([say("half", error=failure)]))
    assert asked.deltas == [TextDelta("half")]
    assert asked.failure is failure


@pytest.mark.parametrize(
    ("text", "turns"), [(scripted.__doc__, 3), (MODELS_PAGE.read_text(encoding="utf-8"), 2)]
)
async def test_the_documented_examples_are_scripts(tmp_path: Path, text: str, turns: int):
    start = text.index("\n    - ")
    example = re.split(r"\n(?=\S)", text[start + 1 :])[0]
    path = tmp_path / "example.yml"
    path.write_text(textwrap.dedent(example))
    seen = "1 failed #"
    request = ModelRequest("", [UserMessage(seen)])
    model = ScriptedModel.from_file(path)
    played = [await collect(model, request) for _ in range(turns)]
    assert [one.error for one in played] == [None] * turns
    assert "has" in str((await collect(model, request)).failure)


@pytest.mark.parametrize(
    ("script", "complaint"),
    [
        ("say: hi\n", "a list of turns"),
        ("- sya: hi\n", r"script\.yml:1:3: unknown key `sya`"),
        ("- say: hi\n  chunk: x\n", r"script\.yml:2:3: `chunk` is a whole number"),
        ("- expect: hi\n", "needs `say`, `call` or `calls`"),
        ("- calls:\n  - arguments: {}\n", "needs `tool`"),
        ("- say: [\n", r"script\.yml"),
    ],
)
def test_a_broken_script_is_refused_with_its_place(tmp_path: Path, script: str, complaint: str):
    with pytest.raises(ModelError, match=complaint):
        load(tmp_path, script)


def test_a_missing_script_is_named(tmp_path: Path):
    path = tmp_path / "none.yml"
    with pytest.raises(ModelError, match=r"No such file.*none\.yml"):
        make_client(model=f"script:{path}", base_url="", api_key="")
