"""The Responses API: requests that the server need not remember, answers as events."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agent.messages import AssistantMessage, Message, ToolMessage, UserMessage
from agent.model.base import FailureKind, FinishReason, ModelRequest, UsageDelta
from agent.model.options import ModelOptions
from agent.model.responses_request import ResponsesRequestWriter
from agent.model.traits import ServerTraits
from tests.support.asking import Asked, ask
from tests.support.model_server import (
    DONE,
    End,
    Reply,
    answer,
    error,
    response_event,
    say,
    scripted_call,
)
from tools.definition import ToolCall, ToolResult

COMPLETED = response_event(
    "response.completed",
    response={"status": "completed", "usage": {"input_tokens": 4, "output_tokens": 2}},
)


async def respond(*events: bytes, **settings: Any) -> Asked:
    return await ask(Reply(list(events), **settings), api="responses")


def text_delta(piece: str, place: int = 0) -> bytes:
    return response_event(
        "response.output_text.delta", item_id="msg_1", output_index=place, delta=piece
    )


def item_event(kind: str, place: int, **item: Any) -> bytes:
    return response_event(f"response.output_item.{kind}", output_index=place, item=item)


def wire(messages: list[Message]) -> list[dict[str, Any]]:
    """The input items as they would be sent."""
    traits = ServerTraits.of("http://localhost/v1", "m", {})
    writer = ResponsesRequestWriter("m", "localhost m", ModelOptions(), traits)
    body, _ = writer.body(ModelRequest("", messages))
    sent: list[dict[str, Any]] = json.loads(body)["input"]
    return sent


# Requests


async def test_a_request_carries_the_conversation_and_leaves_nothing_at_the_server():
    made = ToolCall("call_1", "read_file", '{"path": "x"}')
    tool = {
        "type": "function",
        "function": {"name": "read_file", "description": "d", "parameters": {"type": "object"}},
    }
    history = [
        UserMessage("look", context="cwd: /x"),
        AssistantMessage("Looking.", (made,)),
        ToolMessage(made, ToolResult("text")),
    ]
    options = ModelOptions(max_output_tokens=9, body={"reasoning": {"effort": "low"}})
    request = ModelRequest("sys", history, [tool])
    asked = await ask(say("ok"), api="responses", request=request, options=options)
    assert asked.requests[0].path == "/v1/responses"
    assert asked.requests[0].json == {
        "model": "m",
        "instructions": "sys",
        "reasoning": {"effort": "low"},
        "stream": True,
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "max_output_tokens": 9,
        "input": [
            {"type": "message", "role": "user", "content": "cwd: /x\n\nlook"},
            {"type": "message", "role": "assistant", "content": "Looking."},
            {
                "type": "function_call",
                "call_id": "call_1",
                "name": "read_file",
                "arguments": '{"path":"x"}',
            },
            {"type": "function_call_output", "call_id": "call_1", "output": "text"},
        ],
        "tools": [
            {
                "type": "function",
                "name": "read_file",
                "description": "d",
                "parameters": {"type": "object"},
                "strict": False,
            }
        ],
    }


@pytest.mark.parametrize(
    ("message", "dropped"),
    [
        ("Encrypted content is not supported with this model.", "include"),
        ("Unknown parameter: 'store'.", "store"),
    ],
)
async def test_what_a_server_refuses_is_dropped(message: str, dropped: str):
    asked = await ask(error(400, message), say("ok"), api="responses")
    assert asked.text == "ok"
    assert dropped in asked.requests[0].json
    assert dropped not in asked.requests[1].json


def test_malformed_arguments_in_the_history_are_sent_as_an_empty_object():
    [call] = wire([AssistantMessage("", (ToolCall("a", "x", '{"path": '),))])
    assert call["arguments"] == "{}"


# Answers


async def test_text_calls_and_usage_arrive():
    scripted = answer(
        "Both.",
        [scripted_call("a", x=1), scripted_call("b")],
        input_tokens=7,
        output_tokens=3,
        cached_tokens=2,
    )
    asked = await ask(scripted, api="responses")
    assert asked.text == "Both."
    assert asked.calls == [("a", '{"x": 1}'), ("b", "{}")]
    assert asked.usage == [UsageDelta(7, 3, 2)]
    assert asked.end.reason is FinishReason.CALLS


async def test_an_answer_survives_being_sent_byte_by_byte():
    asked = await ask(say("naïve \U0001f642", chunk_bytes=1), api="responses")
    assert asked.text == "naïve \U0001f642"


async def test_call_ids_are_those_of_the_calls_not_of_the_items():
    made = {"type": "function_call", "id": "fc_1", "call_id": "call_9", "name": "x"}
    asked = await respond(item_event("added", 0, **made, arguments=""), COMPLETED)
    assert asked.call_deltas[0].id == "call_9"


async def test_arguments_may_come_in_pieces_at_the_end_or_with_the_item():
    def made(number: int, arguments: str) -> dict[str, Any]:
        call_id = f"call_{number}"
        return {"type": "function_call", "call_id": call_id, "name": "x", "arguments": arguments}

    kind = "response.function_call_arguments"
    asked = await respond(
        item_event("added", 0, **made(0, "")),
        item_event("added", 1, **made(1, "")),
        response_event(f"{kind}.delta", output_index=0, delta='{"a":'),
        response_event(f"{kind}.delta", output_index=0, delta="0}"),
        response_event(f"{kind}.done", output_index=1, arguments='{"a":1}'),
        item_event("done", 2, **made(2, '{"a":2}')),
        COMPLETED,
    )
    assert [arguments for _, arguments in asked.calls] == ['{"a":0}', '{"a":1}', '{"a":2}']


async def test_text_that_was_not_streamed_is_taken_from_the_finished_item_once():
    message = {"type": "message", "content": [{"type": "output_text", "text": "whole"}]}
    final = response_event(
        "response.completed", response={"status": "completed", "output": [message]}
    )
    assert (await respond(item_event("done", 0, **message), final)).text == "whole"
    assert (await respond(final)).text == "whole"
    assert (await respond(text_delta("whole"), final)).text == "whole"


async def test_reasoning_summaries_are_reasoning_and_refusals_are_text():
    asked = await respond(
        response_event("response.reasoning_summary_text.delta", delta="hm"),
        response_event("response.refusal.delta", output_index=0, delta="I can't."),
        COMPLETED,
    )
    assert (asked.reasoning, asked.text) == ("hm", "I can't.")


async def test_unknown_events_and_done_marks_are_skipped():
    asked = await respond(
        response_event("response.web_search_call.searching", output_index=3),
        text_delta("a"),
        response_event("keepalive"),
        COMPLETED,
        DONE,
    )
    assert asked.text == "a"
    assert asked.usage == [UsageDelta(4, 2)]


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("max_output_tokens", FinishReason.TRUNCATED),
        ("content_filter", FinishReason.FILTERED),
    ],
)
async def test_an_incomplete_answer_says_why(reason: str, finish: FinishReason):
    made = {"type": "function_call", "call_id": "a", "name": "x", "arguments": '{"half'}
    end = response_event(
        "response.incomplete",
        response={"status": "incomplete", "incomplete_details": {"reason": reason}},
    )
    asked = await respond(text_delta("half"), item_event("added", 1, **made), end)
    assert asked.text == "half"
    assert asked.calls == []
    assert asked.end.reason is finish


@pytest.mark.parametrize(
    ("event", "kind"),
    [
        (
            response_event(
                "response.failed",
                response={"status": "failed", "error": {"code": "server_error", "message": "x"}},
            ),
            FailureKind.SERVER,
        ),
        (
            response_event("error", code="rate_limit_exceeded", message="Slow down"),
            FailureKind.RATE_LIMITED,
        ),
        (
            response_event("error", error={"code": "context_length_exceeded", "message": "x"}),
            FailureKind.CONTEXT_TOO_LONG,
        ),
    ],
)
async def test_failures_inside_a_stream_come_after_the_text(event: bytes, kind: FailureKind):
    asked = await respond(text_delta("half"), event)
    assert asked.text == "half"
    assert asked.failure.kind is kind


@pytest.mark.parametrize("end", [End.CLEAN, End.CUT])
async def test_a_stream_without_its_end_is_cut(end: End):
    asked = await respond(text_delta("half"), end=end)
    assert asked.text == "half"
    assert asked.failure.kind is FailureKind.CUT


async def test_a_server_without_this_api_is_told_from_an_unknown_model():
    missing = Reply(b'{"detail":"Not Found"}', status=404)
    asked = await ask(missing, api="responses")
    assert asked.failure.kind is FailureKind.REJECTED
    assert "`responses`" in asked.failure.next_step


# Reasoning that goes back


async def test_encrypted_reasoning_goes_back_in_its_place_to_the_same_model_only():
    thought = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "zz"}
    asked = await respond(
        item_event("done", 0, **thought, status=None),
        item_event("done", 1, type="message", phase="commentary", content=[]),
        text_delta("Look.", place=1),
        item_event(
            "done", 2, type="function_call", call_id="call_1", name="x", arguments='{"a":1}'
        ),
        COMPLETED,
    )
    made = tuple(ToolCall(c.id, c.name, c.arguments_json) for c in asked.call_deltas)
    extras = {**(asked.end.extras or {})}
    own = AssistantMessage("Look.", made, extras={**extras, "_origin": "localhost m"})
    call = {"type": "function_call", "call_id": "call_1", "name": "x", "arguments": '{"a":1}'}
    text = {"type": "message", "role": "assistant", "content": "Look."}
    assert wire([own]) == [
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "zz"},
        {**text, "phase": "commentary"},
        call,
    ]
    assert wire([AssistantMessage("Look.", made, extras=extras)]) == [text, call]


async def test_reasoning_without_encrypted_content_does_not_go_back():
    asked = await respond(
        item_event("done", 0, type="reasoning", id="rs_1", summary=[]),
        text_delta("a", place=1),
        COMPLETED,
    )
    assert asked.end.extras is None
