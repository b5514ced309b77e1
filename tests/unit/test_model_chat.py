"""Chat Completions answers, in all the forms that servers give them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from typing import Any

import pytest

from agent.messages import AssistantMessage, ToolMessage, UserMessage
from agent.model.base import (
    FailureKind,
    Finished,
    FinishReason,
    ModelClient,
    ModelRequest,
    ReasoningDelta,
    TextDelta,
    UsageDelta,
)
from agent.model.factory import make_client
from tests.support.asking import HELLO, ask, ask_often, collect
from tests.support.model_server import (
    DONE,
    End,
    ModelServer,
    Reply,
    answer,
    call,
    chat_call_chunk,
    chat_chunk,
    chat_finish,
    say,
    scripted_call,
    sse,
)
from tests.support.soon import SOON_S
from tools.definition import ToolCall, ToolResult


def stream(*events: bytes | dict[str, Any], **settings: Any) -> Reply:
    return Reply(sse(*events), **settings)


def pieces(*parts: dict[str, Any], finish: str | None = "tool_calls") -> Reply:
    return stream(*(chat_call_chunk(**part) for part in parts), chat_finish(finish), DONE)


async def test_text_and_usage_arrive():
    asked = await ask(say("Hello there.", input_tokens=7, output_tokens=3, cached_tokens=2))
    assert asked.text == "Hello there."
    assert asked.usage == [UsageDelta(7, 3, 2)]
    assert asked.end.reason is FinishReason.STOP


async def test_parallel_calls_arrive_complete_and_in_order():
    asked = await ask(answer("Both.", [scripted_call("a", x=1), scripted_call("b", y="z")]))
    assert asked.calls == [("a", '{"x": 1}'), ("b", '{"y": "z"}')]
    assert asked.end.reason is FinishReason.CALLS


@pytest.mark.parametrize("newline", [b"\r\n", b"\n", b"\r"])
async def test_an_answer_survives_being_sent_byte_by_byte(newline: bytes):
    body = b"".join(sse(chat_chunk("naïve "), chat_chunk("\U0001f642"), chat_finish(), DONE))
    raw = body.replace(b"\\u00ef", "ï".encode()).replace(b"\n", newline)
    asked = await ask(Reply(b"\xef\xbb\xbf: hi\n" + raw, chunk_bytes=1))
    assert asked.text == "naïve \U0001f642"


async def test_comments_between_events_are_ignored():
    asked = await ask(
        stream(b": OPENROUTER PROCESSING\n\n", chat_chunk("a"), b":\n\n", chat_finish(), DONE)
    )
    assert asked.text == "a"


# Calls and their pieces


async def test_calls_without_an_index_are_told_apart_by_id():
    asked = await ask(
        pieces(
            {"id": "a", "name": "one", "arguments": '{"x":'},
            {"id": "b", "name": "two", "arguments": "{}"},
            {"id": "a", "arguments": "1}"},
        )
    )
    assert asked.calls == [("one", '{"x":1}'), ("two", "{}")]


async def test_calls_without_index_and_id_are_told_apart_by_name():
    asked = await ask(
        pieces(
            {"name": "one", "arguments": '{"x":'},
            {"arguments": "1}"},
            {"name": "one", "arguments": '{"x":2}'},
        )
    )
    assert asked.calls == [("one", '{"x":1}'), ("one", '{"x":2}')]
    assert len({made.id for made in asked.call_deltas}) == 2


async def test_parallel_calls_that_all_have_index_0_are_told_apart_by_id():
    asked = await ask(
        pieces(
            {"index": 0, "id": "a", "name": "one", "arguments": "{}"},
            {"index": 0, "id": "b", "name": "one", "arguments": '{"x":'},
            {"index": 0, "arguments": "1}"},
        )
    )
    assert asked.calls == [("one", "{}"), ("one", '{"x":1}')]


async def test_interleaved_pieces_find_their_call_by_index():
    asked = await ask(
        pieces(
            {"index": 0, "id": "a", "name": "one", "arguments": ""},
            {"index": 1, "id": "b", "name": "two", "arguments": ""},
            {"index": 0, "arguments": '{"x":1}'},
            {"index": 1, "arguments": '{"y":2}'},
        )
    )
    assert asked.calls == [("one", '{"x":1}'), ("two", '{"y":2}')]


@pytest.mark.parametrize("given", [None, "", 7, "white space", "x" * 65])
async def test_a_missing_or_unusable_id_is_replaced(given: object):
    asked = await ask(pieces({"index": 0, "id": given, "name": "one", "arguments": "{}"}))
    [made] = asked.call_deltas
    assert made.id == ("7" if given == 7 else made.id)
    assert made.id.replace("_", "").isalnum()
    assert 0 < len(made.id) <= 64


async def test_ids_that_the_conversation_already_has_are_replaced():
    old = ToolCall("call_0", "x", "{}")
    history = [
        UserMessage("a"),
        AssistantMessage("", (old,)),
        ToolMessage(old, ToolResult("r")),
    ]
    asked = await ask(
        pieces(
            {"index": 0, "id": "call_0", "name": "x", "arguments": "{}"},
            {"index": 1, "id": "call_0", "name": "x", "arguments": "{}"},
        ),
        request=ModelRequest("", history),
    )
    assert len({old.id, *(made.id for made in asked.call_deltas)}) == 3


async def test_a_name_repeated_in_every_piece_or_emptied_later_is_set_once():
    asked = await ask(
        pieces(
            {"index": 0, "id": "a", "name": "one", "arguments": '{"x"'},
            {"index": 0, "id": "a", "name": "one", "arguments": ":1"},
            {"index": 0, "id": "a", "name": "", "arguments": "}"},
        )
    )
    assert asked.calls == [("one", '{"x":1}')]


@pytest.mark.parametrize(
    ("sent", "handed_on"),
    [
        ("", "{}"),
        (None, "{}"),
        ({"x": "é"}, '{"x": "é"}'),
        ('{"x": 1}', '{"x": 1}'),
        ('{"x": 1,}', '{"x": 1,}'),
        ("not json", "not json"),
    ],
)
async def test_arguments_are_handed_on_as_they_came(sent: object, handed_on: str):
    asked = await ask(pieces({"index": 0, "id": "a", "name": "one", "arguments": sent}))
    assert asked.calls == [("one", handed_on)]


async def test_the_old_function_call_field_is_a_call():
    asked = await ask(
        stream(
            chat_chunk(function_call={"name": "one", "arguments": '{"x":'}),
            chat_chunk(function_call={"arguments": "1}"}),
            chat_finish("function_call"),
            DONE,
        )
    )
    assert asked.calls == [("one", '{"x":1}')]


async def test_a_call_written_as_text_stays_text():
    written = '<tool_call>{"name": "run_command", "arguments": {}}</tool_call>'
    asked = await ask(say(written))
    assert asked.text == written
    assert asked.calls == []


# How an answer ends


@pytest.mark.parametrize("finish", ["stop", None, "tool_calls", "function_call", "odd"])
async def test_calls_that_came_are_calls_whatever_the_finish_reason(finish: str | None):
    made = chat_call_chunk(index=0, id="a", name="one", arguments="{}")
    asked = await ask(stream(made, chat_finish(finish), DONE))
    assert asked.calls == [("one", "{}")]
    assert asked.end.reason is FinishReason.CALLS


@pytest.mark.parametrize(
    ("finish", "reason"),
    [
        ("stop", FinishReason.STOP),
        ("end", FinishReason.STOP),
        ("end_turn", FinishReason.STOP),
        ("eos", FinishReason.STOP),
        ("unheard_of", FinishReason.STOP),
        ("length", FinishReason.TRUNCATED),
        ("MAX_TOKENS", FinishReason.TRUNCATED),
        ("content_filter", FinishReason.FILTERED),
    ],
)
async def test_finish_reasons_are_mapped(finish: str, reason: FinishReason):
    asked = await ask(stream(chat_chunk("a"), chat_finish(finish), DONE))
    assert asked.end.reason is reason


async def test_a_call_cut_by_the_output_limit_is_not_delivered():
    asked = await ask(
        pieces(
            {"index": 0, "id": "a", "name": "one", "arguments": "{}"},
            {"index": 1, "id": "b", "name": "two", "arguments": '{"content": "half'},
            finish="length",
        )
    )
    assert asked.calls == [("one", "{}")]
    assert asked.end.reason is FinishReason.TRUNCATED


async def test_a_cut_call_that_claims_to_be_whole_goes_on_unchanged_for_the_executor_to_refuse():
    asked = await ask(pieces({"index": 0, "id": "a", "name": "two", "arguments": '{"x": "ha'}))
    assert asked.calls == [("two", '{"x": "ha')]


@pytest.mark.parametrize("finish", ["error", "network_error"])
async def test_a_finish_reason_that_means_failure_is_one(finish: str):
    asked = await ask(stream(chat_chunk("a"), chat_finish(finish), DONE))
    assert asked.text == "a"
    assert asked.failure.kind is FailureKind.SERVER
    assert asked.failure.transient


async def test_an_unknown_finish_without_content_is_a_failure():
    asked = await ask(stream(chat_finish("unheard_of"), DONE))
    assert asked.failure.kind is FailureKind.CUT
    assert asked.failure.transient


async def test_a_finish_reason_without_done_is_a_whole_answer():
    asked = await ask(stream(chat_chunk("whole"), chat_finish()))
    assert asked.text == "whole"
    assert asked.end.reason is FinishReason.STOP


async def test_a_connection_lost_after_the_finish_reason_loses_nothing():
    asked = await ask(stream(chat_chunk("whole"), chat_finish(), end=End.CUT))
    assert asked.end.reason is FinishReason.STOP


async def test_done_without_a_finish_reason_is_a_whole_answer():
    asked = await ask(stream(chat_chunk("whole"), DONE))
    assert asked.end.reason is FinishReason.STOP


@pytest.mark.parametrize("end", [End.CLEAN, End.CUT])
async def test_text_whose_stream_ends_early_arrives_and_then_fails(end: End):
    asked = await ask(stream(chat_chunk("half"), end=end))
    assert asked.text == "half"
    assert asked.failure.kind is FailureKind.CUT
    assert asked.failure.transient


async def test_calls_of_a_cut_stream_are_not_delivered():
    made = chat_call_chunk(index=0, id="a", name="one", arguments="{}")
    asked = await ask(stream(made, end=End.CUT))
    assert asked.call_deltas == []
    assert asked.failure.kind is FailureKind.CUT


@pytest.mark.parametrize("body", [b"", DONE, b": nothing\n\n"])
async def test_an_empty_stream_is_a_failure_worth_repeating(body: bytes):
    asked = await ask(Reply(body))
    assert asked.failure.kind is FailureKind.CUT
    assert asked.failure.transient


# Usage


async def test_an_answer_without_usage_is_whole():
    asked = await ask(stream(chat_chunk("a"), chat_finish(), DONE))
    assert asked.usage == []
    assert asked.end.reason is FinishReason.STOP


async def test_usage_is_taken_from_wherever_it_is_and_reported_once():
    usage = {"prompt_tokens": 5, "completion_tokens": 1}
    first = chat_chunk("a", usage=usage)
    last = chat_finish("stop", prompt_tokens=5, completion_tokens=9, prompt_cache_hit_tokens=4)
    asked = await ask(stream(first, last, DONE))
    assert asked.usage == [UsageDelta(5, 9, 4)]


async def test_chunks_without_choices_are_skipped():
    empty = {**chat_chunk(), "choices": [], "usage": None}
    asked = await ask(stream(empty, chat_chunk("a"), {"choices": None}, chat_finish(), DONE))
    assert asked.text == "a"


# Reasoning


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning", "reasoning_text"])
async def test_reasoning_is_told_from_the_answer(name: str):
    asked = await ask(
        stream(chat_chunk(**{name: "hm"}), chat_chunk("a", **{name: None}), chat_finish(), DONE)
    )
    assert (asked.reasoning, asked.text) == ("hm", "a")


async def test_reasoning_sent_in_two_fields_is_taken_once():
    twice = chat_chunk(reasoning="hm", reasoning_content="hm")
    asked = await ask(stream(twice, chat_chunk("a"), chat_finish(), DONE))
    assert asked.reasoning == "hm"


@pytest.mark.parametrize("size", [1, 3, 100])
async def test_think_tags_at_the_start_are_reasoning(size: int):
    text = "\n<think>\nhm </thin\n</think>\n\nHello <think>x</think>"
    parts = [chat_chunk(text[i : i + size]) for i in range(0, len(text), size)]
    asked = await ask(stream(*parts, chat_finish(), DONE))
    assert asked.reasoning.strip() == "hm </thin"
    assert asked.text == "Hello <think>x</think>"


@pytest.mark.parametrize("text", ["<", " <thin", "<p>hello</p>", "2 < 3"])
async def test_text_that_only_begins_like_a_think_tag_is_text(text: str):
    asked = await ask(say(text, piece=1))
    assert asked.text == text
    assert asked.reasoning == ""


async def test_content_as_a_list_of_parts_is_flattened():
    parts = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
        {"type": "text", "text": "a"},
    ]
    asked = await ask(stream(chat_chunk(parts), chat_chunk("b"), chat_finish(), DONE))
    assert (asked.reasoning, asked.text) == ("hm", "ab")


# Servers that hardly stream


async def test_a_server_that_ignores_stream_is_understood():
    body = {
        "choices": [
            {
                "message": {
                    "content": "Look",
                    "tool_calls": [
                        {"id": "a", "function": {"name": "one", "arguments": '{"x":1}'}}
                    ],
                },
                "finish_reason": "tool_calls",
            }
        ],
        "usage": {"prompt_tokens": 5, "completion_tokens": 2},
    }
    asked = await ask(
        Reply(json.dumps(body).encode(), headers={"Content-Type": "application/json"})
    )
    assert (asked.text, asked.calls) == ("Look", [("one", '{"x":1}')])
    assert asked.usage == [UsageDelta(5, 2)]


async def test_a_web_page_is_not_an_answer():
    page = Reply(b"<html><title>Sign in</title></html>", headers={"Content-Type": "text/html"})
    asked = await ask(page)
    assert "web page" in str(asked.failure)
    assert "--base-url" in asked.failure.next_step


async def test_an_answer_whose_server_never_hangs_up_ends_with_done():
    asked = await ask(stream(chat_chunk("a"), chat_finish(), DONE, end=End.HANG))
    assert asked.text == "a"
    assert asked.end.reason is FinishReason.STOP


async def test_a_line_that_is_not_json_is_a_cut_answer():
    asked = await ask(stream(chat_chunk("a"), b"data: {oops\n\n", DONE))
    assert asked.failure.kind is FailureKind.CUT


@pytest.mark.parametrize(
    "chunk",
    [
        {"choices": 7},
        {"choices": [7]},
        {"choices": [{"delta": "text"}]},
        {"choices": [{"delta": {"tool_calls": ["text"]}}]},
        {"choices": [{"delta": {"tool_calls": [{"function": "text"}]}}]},
        {"choices": [{"delta": {"reasoning_details": 7}}]},
    ],
)
async def test_json_that_is_no_answer_is_a_cut_answer(chunk: dict[str, Any]):
    asked = await ask(stream(chat_chunk("half"), chunk, DONE))
    assert asked.text == "half"
    assert asked.failure.kind is FailureKind.CUT


@pytest.mark.parametrize("event", [7, "text", None, [], {"usage": 7}, {"id": "x"}])
async def test_events_without_meaning_are_skipped(event: object):
    line = b"data: " + json.dumps(event).encode() + b"\n\n"
    asked = await ask(stream(line, chat_chunk("a"), line, chat_finish(), DONE))
    assert asked.text == "a"
    assert asked.usage == []


async def test_reasoning_in_the_same_delta_comes_before_the_text():
    asked = await ask(stream(chat_chunk("a", reasoning="hm"), chat_finish(), DONE))
    assert [type(delta) for delta in asked.deltas] == [ReasoningDelta, TextDelta, Finished]


async def test_leaving_in_the_middle_closes_the_connection():
    with ModelServer([say("long", end=End.HANG)]) as server:
        client = make_client(model="m", base_url=server.base_url, api_key="")
        async with contextlib.aclosing(client.stream(HELLO)) as deltas:
            await anext(deltas)
        assert server.requests[0].client_gone.wait(5)
        await client.aclose()


async def test_cancelling_while_the_server_thinks_ends_at_once():
    with ModelServer([say("late", delay_s=30)]) as server:
        client = make_client(model="m", base_url=server.base_url, api_key="")
        asking = asyncio.create_task(collect(client))
        await asyncio.to_thread(server.wait_for_requests, 1)
        started = time.monotonic()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await client.aclose()
        assert time.monotonic() - started < SOON_S


async def test_cancelling_in_the_middle_of_an_answer_ends_at_once():
    arrived = asyncio.Event()

    async def listen(client: ModelClient) -> None:
        async for _ in client.stream(HELLO):
            arrived.set()

    half = stream(chat_chunk("half"), end=End.HANG)
    with ModelServer([half, say("again")]) as server:
        client = make_client(model="m", base_url=server.base_url, api_key="")
        listening = asyncio.create_task(listen(client))
        await arrived.wait()
        started = time.monotonic()
        listening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await listening
        assert time.monotonic() - started < SOON_S
        assert server.requests[0].client_gone.wait(5)
        assert (await collect(client)).text == "again"
        await client.aclose()


async def test_tokens_that_arrive_together_are_handled_together():
    asked = await ask(say("abcd" * 5000))
    assert asked.text == "abcd" * 5000
    assert len(asked.deltas) < 500


async def test_one_connection_serves_all_requests():
    asked = await ask_often([say("a"), call("x"), say("b")], [HELLO] * 3)
    assert [one.end.reason for one in asked] == ["stop", "calls", "stop"]
    assert len({request.client for request in asked[-1].requests}) == 1
