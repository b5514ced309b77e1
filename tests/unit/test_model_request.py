"""Chat Completions requests: valid for every server, whatever the history holds."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.messages import AssistantMessage, Message, ToolMessage, UserMessage
from agent.model.base import ModelRequest
from agent.model.chat_request import ChatRequestWriter
from agent.model.factory import make_client
from agent.model.options import ModelOptions
from agent.model.traits import ServerTraits
from tests.support.asking import HELLO, Asked, ask, ask_often, collect
from tests.support.model_server import (
    DONE,
    ModelServer,
    Reply,
    chat_call_chunk,
    chat_chunk,
    chat_finish,
    error,
    say,
    sse,
)
from tools.definition import ToolCall, ToolResult


def writer(model: str = "m", **traits: Any) -> ChatRequestWriter:
    known = ServerTraits.of("http://localhost/v1", model, traits)
    return ChatRequestWriter(model, "localhost m", ModelOptions(), known)


def wire(messages: Sequence[Message], **traits: Any) -> list[dict[str, Any]]:
    """The messages as they would be sent."""
    body, _ = writer(**traits).body(ModelRequest("", messages))
    sent: list[dict[str, Any]] = json.loads(body)["messages"]
    return sent


def exchange(*calls: ToolCall, text: str = "") -> list[Message]:
    """An answer with calls, and their results."""
    results = [ToolMessage(one, ToolResult(f"result of {one.name}")) for one in calls]
    return [AssistantMessage(text, calls), *results]


# The whole body


async def test_a_request_holds_what_it_should_and_nothing_more():
    tool = {"type": "function", "function": {"name": "x", "parameters": {"type": "object"}}}
    asked = await ask(say("hi"), request=ModelRequest("sys", [UserMessage("hello")], [tool]))
    assert asked.requests[0].path == "/v1/chat/completions"
    assert asked.requests[0].json == {
        "model": "m",
        "stream": True,
        "stream_options": {"include_usage": True},
        "messages": [
            {"role": "system", "content": "sys"},
            {"role": "user", "content": "hello"},
        ],
        "tools": [tool],
    }


async def test_without_tools_there_is_no_tools_key():
    asked = await ask(say("hi"), request=HELLO)
    assert "tools" not in asked.requests[0].json


async def test_options_reach_the_request():
    options = ModelOptions(
        max_output_tokens=9, body={"temperature": 0.1}, headers={"X-Title": "opta"}
    )
    asked = await ask(say("hi"), options=options)
    assert asked.requests[0].json["max_tokens"] == 9
    assert asked.requests[0].json["temperature"] == 0.1
    assert asked.requests[0].headers["x-title"] == "opta"


@pytest.mark.parametrize(
    ("suffix", "path"),
    [
        ("", "/v1/chat/completions"),
        ("/", "/v1/chat/completions"),
        ("/chat/completions", "/v1/chat/completions"),
        ("?api-version=1", "/v1/chat/completions?api-version=1"),
    ],
)
async def test_the_address_is_joined_however_it_ends(suffix: str, path: str):

    with ModelServer([say("hi")]) as server:
        client = make_client(model="m", base_url=server.base_url + suffix, api_key="")
        assert (await collect(client)).text == "hi"
        await client.aclose()
        assert server.requests[0].path == path


# Messages


def test_context_comes_before_the_text_in_the_same_message():
    assert wire([UserMessage("do it", context="cwd: /x")]) == [
        {"role": "user", "content": "cwd: /x\n\ndo it"}
    ]


def test_user_messages_in_a_row_become_one():
    sent = wire([UserMessage("a"), AssistantMessage(""), UserMessage("b")])
    assert sent == [{"role": "user", "content": "a\n\nb"}]


def test_an_interruption_is_told_to_the_model():
    cut = AssistantMessage("half an ans", interrupted=True)
    sent = wire([UserMessage("a"), cut, UserMessage("b")])
    assert [message["content"] for message in sent] == [
        "a", "half an ans\n[interrupted by the user]", "b",
    ]  # fmt: skip


def test_content_beside_calls_is_an_empty_string_and_calls_are_never_an_empty_list():
    made = ToolCall("abc", "read_file", '{"path": "x"}')
    sent = wire([*exchange(made), AssistantMessage("done")])
    assert sent == [
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [
                {
                    "id": "abc",
                    "type": "function",
                    "function": {"name": "read_file", "arguments": '{"path":"x"}'},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "abc", "content": "result of read_file"},
        {"role": "assistant", "content": "done"},
    ]


@pytest.mark.parametrize(
    ("arguments", "sent"),
    [
        ('{"a": 1}', {"a": 1}),
        ('{"a": "x\ty"}', {"a": "x\ty"}),
        ('{"a": ', {}),
        ("", {}),
        ("[1]", {}),
        ('"text"', {}),
        ("null", {}),
        ('{"a": NaN}', {}),
        ('{"a": 1e999}', {}),
        ('{"a": [1,],}', {"a": [1]}),
        ("[" * 100_000, {}),
    ],
)
def test_arguments_in_the_history_are_always_a_json_object(arguments: str, sent: object):
    [message, _] = wire(exchange(ToolCall("a", "x", arguments)))
    assert json.loads(message["tool_calls"][0]["function"]["arguments"]) == sent


def test_a_name_the_model_made_up_is_sent_back_in_legal_characters():
    [message, _, _] = wire(exchange(ToolCall("a", "no such.tool", "{}"), ToolCall("b", "", "{}")))
    names = [made["function"]["name"] for made in message["tool_calls"]]
    assert names == ["no_such_tool", "unknown"]


@pytest.mark.parametrize("text", ["a\ud800b", "\udfff", "\ud83d\ude42"])
def test_lone_surrogates_are_replaced_and_pairs_joined(text: str):
    body, _ = writer().body(ModelRequest(text, [UserMessage(text)]))
    content = json.loads(body.decode("utf-8"))["messages"][1]["content"]
    assert content == text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


# Call ids


def pairs(sent: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Ids of calls and of results, each in the order sent."""
    calls = [c["id"] for m in sent for c in m.get("tool_calls", ())]
    results = [m["tool_call_id"] for m in sent if m["role"] == "tool"]
    return list(zip(calls, results, strict=True))


def test_ids_used_twice_are_renamed_together_with_their_results():
    made = ToolCall("call_0", "x", "{}")
    ids = pairs(wire([*exchange(made), *exchange(made), *exchange(made, made)]))
    assert all(call == result for call, result in ids)
    assert len({call for call, _ in ids}) == 4
    assert ids[0] == ("call_0", "call_0")


ID = st.sampled_from(["", "call_0", "call_1", "a b", "functions.x:0", "é" * 70]) | st.text()


@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(ID, min_size=1, max_size=3), max_size=4), st.booleans())
def test_any_ids_become_legal_unique_and_paired(history: list[list[str]], nine: bool):
    messages = [m for ids in history for m in exchange(*(ToolCall(i, "x", "{}") for i in ids))]
    ids = pairs(wire(messages, nine_character_ids=nine))
    assert all(call == result for call, result in ids)
    assert len({call for call, _ in ids}) == len(ids)
    assert all(0 < len(call) <= 64 and call.isascii() for call, _ in ids)
    if nine:
        assert all(len(call) == 9 and call.isalnum() for call, _ in ids)


@pytest.mark.parametrize("model", ["mistral-large", "devstral-2", "mistralai/Magistral-Small"])
def test_mistral_gets_nine_character_ids_and_an_answer_between_tool_and_user(model: str):
    made = ToolCall("call_abcdefgh", "x", "{}")
    sent = wire([*exchange(made), UserMessage("stop")], model=model)
    [(call, result)] = pairs(sent)
    assert call == result
    assert len(call) == 9
    assert [m["role"] for m in sent] == ["assistant", "tool", "assistant", "user"]


async def test_a_server_that_wants_nine_characters_is_believed():
    made = ToolCall("call_abcdefgh", "x", "{}")
    complaint = error(400, "Tool call id was call_abcdefgh but must be a-z, A-Z, 0-9, length of 9")
    asked = await ask(complaint, say("hi"), request=ModelRequest("", exchange(made)))
    [(call, _)] = pairs(asked.requests[1].json["messages"])
    assert len(call) == 9


async def test_a_server_that_refuses_user_after_tool_is_believed():
    made = ToolCall("a", "x", "{}")
    complaint = error(400, "Unexpected role 'user' after role 'tool'")
    request = ModelRequest("", [*exchange(made), UserMessage("stop")])
    asked = await ask(complaint, say("hi"), request=request)
    roles = [m["role"] for m in asked.requests[1].json["messages"]]
    assert roles == ["assistant", "tool", "assistant", "user"]


# What goes back only to where it came from


async def answered(*chunks: dict[str, Any]) -> Asked:
    made = chat_call_chunk(index=0, id="a", name="x", arguments="{}")
    return await ask(Reply(sse(*chunks, made, chat_finish("tool_calls"), DONE)))


def kept(asked: Asked, origin: str) -> AssistantMessage:
    """The answer as the conversation keeps it; `origin` replaces where it came from."""
    extras = {**(asked.end.extras or {})}
    if "_origin" in extras:
        extras["_origin"] = origin
    calls = tuple(ToolCall(c.id, c.name, c.arguments_json) for c in asked.call_deltas)
    return AssistantMessage(asked.text, calls, asked.reasoning, extras)


async def test_reasoning_content_goes_back_to_the_same_model_only():
    asked = await answered(chat_chunk(reasoning_content="hm"), chat_chunk(reasoning_content="!"))
    [own] = wire([kept(asked, "localhost m")])
    [other] = wire([kept(asked, "elsewhere m")])
    assert own["reasoning_content"] == "hm!"
    assert set(other) == {"role", "content", "tool_calls"}


async def test_reasoning_is_not_sent_back_where_it_has_no_place():
    asked = await answered(chat_chunk(reasoning="hm"))
    [own] = wire([kept(asked, "localhost m")])
    assert set(own) == {"role", "content", "tool_calls"}


async def test_reasoning_details_go_back_put_together():
    parts = [
        {"type": "reasoning.text", "index": 0, "text": "h", "signature": None},
        {"type": "reasoning.text", "index": 0, "text": "m", "signature": "s"},
        {"type": "reasoning.encrypted", "index": 1, "data": "zz"},
    ]
    asked = await answered(*(chat_chunk(reasoning_details=[part]) for part in parts))
    [own] = wire([kept(asked, "localhost m")])
    assert own["reasoning_details"] == [
        {"type": "reasoning.text", "index": 0, "text": "hm", "signature": "s"},
        {"type": "reasoning.encrypted", "index": 1, "data": "zz"},
    ]


async def test_thought_signatures_go_back_with_their_call():
    signature = {"google": {"thought_signature": "zz"}}
    made = chat_call_chunk(index=0, name="x", arguments="{}", extra_content=signature)
    asked = await ask(Reply(sse(made, chat_finish(), DONE)))
    [own] = wire([kept(asked, "localhost m")])
    [other] = wire([kept(asked, "elsewhere m")])
    assert own["tool_calls"][0]["extra_content"] == signature
    assert "extra_content" not in other["tool_calls"][0]


async def test_reasoning_that_a_server_refuses_is_left_out():
    first = chat_call_chunk(index=0, id="a", name="x", arguments="{}")
    thinking = Reply(sse(chat_chunk(reasoning_content="hm"), first, chat_finish(), DONE))
    complaint = error(422, "Extra inputs are not permitted: messages.0.reasoning_content")

    with ModelServer([thinking, complaint, say("ok")]) as server:
        client = make_client(model="m", base_url=server.base_url, api_key="")
        asked = await collect(client)
        message = kept(asked, (asked.end.extras or {})["_origin"])
        last = await collect(client, ModelRequest("", [message]))
        await client.aclose()
    assert last.text == "ok"
    sent = ["reasoning_content" in r.json["messages"][0] for r in server.requests[1:]]
    assert sent == [True, False]


async def test_reasoning_that_was_lost_is_a_space_where_a_server_insists():
    complaint = error(400, "The `reasoning_content` in the thinking mode must be passed back")
    request = ModelRequest("", exchange(ToolCall("a", "x", "{}")))
    asked = await ask(complaint, say("ok"), request=request)
    assert asked.requests[1].json["messages"][0]["reasoning_content"] == " "


@pytest.mark.parametrize(
    ("url", "limit_key", "reasoning_back"),
    [
        ("https://api.openai.com/v1", "max_completion_tokens", True),
        ("https://api.groq.com/openai/v1", "max_tokens", False),
        ("http://localhost:8080/v1", "max_tokens", True),
    ],
)
def test_what_is_known_about_a_server_is_where_it_starts_from(
    url: str, limit_key: str, reasoning_back: bool
):
    known = ServerTraits.of(url, "m", {})
    assert (known.output_limit_key, known.reasoning_back) == (limit_key, reasoning_back)
    assert ServerTraits.of(url, "m", {"reasoning_back": not reasoning_back}) != known


# Stable and cheap


def long_conversation(turns: int) -> list[Message]:
    messages: list[Message] = [UserMessage("go")]
    for number in range(turns):
        made = ToolCall(f"call{number:05}", "echo", json.dumps({"text": "x" * 100}))
        messages.append(AssistantMessage("next", (made,)))
        messages.append(ToolMessage(made, ToolResult("y" * 4096)))
    return messages


def test_a_longer_conversation_begins_with_the_bytes_of_the_shorter():
    encode = writer()
    messages = long_conversation(5)
    shorter, _ = encode.body(ModelRequest("sys", messages[:7]))
    longer, _ = encode.body(ModelRequest("sys", messages))
    fresh, _ = writer().body(ModelRequest("sys", messages))
    assert longer == fresh
    assert longer.startswith(shorter.removesuffix(b"]}"))


def test_a_request_late_in_a_conversation_costs_little_more_than_copying_it():
    encode = writer()
    messages = long_conversation(300)
    request = ModelRequest("sys", messages)
    body, _ = encode.body(request)

    def best(work: Any) -> float:
        times = []
        for _ in range(5):
            started = time.perf_counter()
            work()
            times.append(time.perf_counter() - started)
        return min(times)

    assert best(lambda: encode.body(request)) < best(lambda: json.loads(body)) / 2


def test_a_changed_history_is_written_anew():
    encode = writer()
    messages = long_conversation(3)
    encode.body(ModelRequest("sys", messages))
    old = messages[2]
    assert isinstance(old, ToolMessage)
    pruned = ToolMessage(old.call, ToolResult("pruned"))
    for changed in ([*messages[:2], pruned, *messages[3:]], messages[:1], messages):
        body, _ = encode.body(ModelRequest("sys", changed))
        assert body == writer().body(ModelRequest("sys", changed))[0]


async def test_a_changed_list_of_tools_is_sent_changed():
    def tools(*names: str) -> list[dict[str, Any]]:
        return [{"type": "function", "function": {"name": name}} for name in names]

    requests = [ModelRequest("", HELLO.messages, tools(*names)) for names in ("a", "ab", "")]
    asked = await ask_often([say("1"), say("2"), say("3")], requests)
    sent = [
        [tool["function"]["name"] for tool in request.json.get("tools", [])]
        for request in asked[-1].requests
    ]
    assert sent == [["a"], ["a", "b"], []]
